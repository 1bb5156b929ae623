//! Sets of error responses for the contract of the handlers. Each handler names those that it can give.
//!
//! *Absent*: the errors themselves (`api/error`).

use std::collections::BTreeMap;

use utoipa::IntoResponses;
use utoipa::openapi::{ContentBuilder, HeaderBuilder, Ref, RefOr, Response as Contract, ResponseBuilder};

/// Defines sets of error responses: each status with the name of the shared response and its meaning.
macro_rules! errors {
    ($($(#[$about:meta])* $set:ident { $($status:literal $name:ident $meaning:literal)* })*) => {
        $(
            $(#[$about])*
            pub(super) struct $set;

            impl IntoResponses for $set {
                fn responses() -> BTreeMap<String, RefOr<Contract>> {
                    [$(($status.to_owned(), shared(stringify!($name)))),*].into()
                }
            }
        )*

        /// The error responses that operations share, by name.
        pub(super) fn all() -> BTreeMap<String, RefOr<Contract>> {
            let all = [$($((stringify!($name).to_owned(), problem($meaning))),*),*];
            let mut all = BTreeMap::from(all);
            all.insert("ConditionFailed".to_owned(), condition_failed());
            all
        }
    };
}

errors! {
    /// Errors of a body that has not been parsed yet.
    BodyRefused {
        "400" Unreadable "The body cannot be read."
        "408" TooSlow "The body came too slowly."
        "413" TooLarge "The body is too large."
        "415" OtherType "The body has another type."
    }
    /// The document or the collection does not exist.
    NotFound { "404" NotFound "There is no such document or collection." }
    /// The request needs clusters.
    NoClusters { "409" NoClusters "The collection has no clusters." }
    /// A document would have too many marks.
    TooManyMarks { "409" TooManyMarks "A document would have too many marks. None was added." }
    /// A hash is of another profile.
    Mismatch { "409" OtherProfile "The hashes are of another profile than those of the collection." }
    /// A field of the body or a parameter is wrong.
    Refused { "422" Refused "A field or parameter cannot be accepted." }
    /// The disk or the memory budget is full.
    OutOfSpace { "507" OutOfSpace "The disk or the memory budget is full." }
    /// Errors of every request that needs a key.
    NotAllowed {
        "401" NoKey "The server requires a key, and the request has none or an unknown one."
        "403" Forbidden "The key does not allow this, or a web page of another origin sent the request."
        "429" UnitsUsed "The key has used its units."
    }
    /// Any other error.
    AnyProblem {
        "default" Problem "The request is unreadable, too slow or too frequent, or cannot be done now."
    }
    /// The server cannot do it now.
    Unavailable {
        "503" Unavailable "The server is starting, stopping, too busy, or accepts no writes."
    }
}

/// The condition of the request does not hold.
pub(super) struct ConditionFailed;

impl IntoResponses for ConditionFailed {
    fn responses() -> BTreeMap<String, RefOr<Contract>> {
        [("412".to_owned(), shared("ConditionFailed"))].into()
    }
}

fn condition_failed() -> RefOr<Contract> {
    let meaning = "The condition `If-Match` or `If-None-Match` does not hold. Nothing was done.";
    let tag = HeaderBuilder::new().description(Some("The present version, if there is one.")).build();
    of_problem(meaning).header("ETag", tag).build().into()
}

fn shared(name: &str) -> RefOr<Contract> {
    RefOr::Ref(Ref::from_response_name(name))
}

fn problem(meaning: &str) -> RefOr<Contract> {
    of_problem(meaning).build().into()
}

fn of_problem(meaning: &str) -> ResponseBuilder {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    ResponseBuilder::new().description(meaning).content("application/problem+json", content)
}
