//! Sets of error responses for the contract of the handlers. Each handler names those that it can give.
//!
//! *Absent*: the errors themselves (`api/error`).

use std::collections::BTreeMap;

use utoipa::IntoResponses;
use utoipa::openapi::{ContentBuilder, HeaderBuilder, Ref, RefOr, Response as Contract, ResponseBuilder};

/// Defines sets of error responses: each status with its meaning.
macro_rules! errors {
    ($($(#[$about:meta])* $name:ident { $($status:literal $meaning:literal)* })*) => {$(
        $(#[$about])*
        pub(super) struct $name;

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Contract>> {
                [$(($status.to_owned(), problem($meaning))),*].into()
            }
        }
    )*};
}

errors! {
    /// Errors of a body that has not been parsed yet.
    BodyRefused {
        "400" "The body cannot be read."
        "408" "The body came too slowly."
        "413" "The body is too large."
        "415" "The body has another type."
    }
    /// The document or the collection does not exist.
    NotFound { "404" "There is no such document or collection." }
    /// The request needs clusters.
    NoClusters { "409" "The collection has no clusters." }
    /// A document would have too many marks.
    TooManyMarks { "409" "A document would have too many marks. None was added." }
    /// A hash is of another profile.
    Mismatch { "409" "The hashes are of another profile than those of the collection." }
    /// A field of the body or a parameter is wrong.
    Refused { "422" "A field or parameter cannot be accepted." }
    /// The disk or the memory budget is full.
    OutOfSpace { "507" "The disk or the memory budget is full." }
    /// Errors of every request that needs a key.
    NotAllowed {
        "401" "The server requires a key, and the request has none or an unknown one."
        "403" "The key does not allow this, or a web page of another origin sent the request."
        "429" "The key has used its units."
    }
    /// Any other error.
    AnyProblem { "default" "The request is unreadable, too slow or too frequent, or cannot be done now." }
    /// The server cannot do it now.
    Unavailable { "503" "The server is starting, stopping, too busy, or accepts no writes." }
}

/// The condition of the request does not hold.
pub(super) struct ConditionFailed;

impl IntoResponses for ConditionFailed {
    fn responses() -> BTreeMap<String, RefOr<Contract>> {
        let meaning = "The condition `If-Match` or `If-None-Match` does not hold. Nothing was done.";
        let tag = HeaderBuilder::new().description(Some("The present version, if there is one.")).build();
        [("412".to_owned(), of_problem(meaning).header("ETag", tag).build().into())].into()
    }
}

fn problem(meaning: &str) -> RefOr<Contract> {
    of_problem(meaning).build().into()
}

fn of_problem(meaning: &str) -> ResponseBuilder {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    ResponseBuilder::new().description(meaning).content("application/problem+json", content)
}
