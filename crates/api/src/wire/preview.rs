//! The answer to a dry run of documents on the wire.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::found::MatchOut;
use super::hashes::{HashFormat, HashOut};
use super::similar::OnDuplicate;
use super::values::{Bits, StatusOut};
use crate::error::{Body, Code, Problem};
use lookalike_service::{Fate, Foreseen, Run};

/// Maximum characters of the name of a run.
const NAME: usize = 64;

/// The parameters of a dry run.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PreviewParams {
    /// The form of every hash in the request and in the answer. Default: `hex`, and every form that needs no
    /// name in the request.
    pub hash_format: Option<HashFormat>,
    /// A name for a file that comes in several requests, one after the other: documents are compared with
    /// those of earlier ones, too. The server that answered holds it for five minutes.
    #[param(min_length = 1, max_length = 64)]
    run: Option<String>,
    /// The documents that were sent in this run before; 0 begins it. Default: 0.
    from: Option<u64>,
    /// The rule of the import. With `skip`, no document is compared with one that would not be stored.
    /// Default: `store`.
    on_duplicate: Option<OnDuplicate>,
    /// The distance of near-duplicates, 0 to the width. Default: the check of the profile, or the distance of
    /// the collection.
    pub k: Option<Bits>,
    /// With `skip`: a document of which another one contains at least this share would not be stored, above 0
    /// to 1. The collection must keep passages.
    pub min_containment: Option<f64>,
}

impl PreviewParams {
    /// Whether near-duplicates are left out.
    ///
    /// # Errors
    /// If the rule depends on more than a dry run looks at.
    pub fn skips(&self) -> Result<bool, Problem> {
        match self.on_duplicate {
            None | Some(OnDuplicate::Store) if self.min_containment.is_some() => {
                let detail = "min_containment goes with on_duplicate=skip; add that or leave it out";
                Err(Problem::parameter(Code::InvalidField, "min_containment", detail))
            }
            None | Some(OnDuplicate::Store) => Ok(false),
            Some(OnDuplicate::Skip) => Ok(true),
            Some(_) => {
                let detail = "on_duplicate of a dry run is store or skip: what link and replace do depends \
                              on clusters, which a dry run does not look at";
                Err(Problem::parameter(Code::InvalidField, "on_duplicate", detail))
            }
        }
    }

    /// The run that the request goes on with.
    ///
    /// # Errors
    /// If it has no name, or one that is too long.
    pub fn run(&self) -> Result<Option<Run>, Problem> {
        let from = self.from.unwrap_or(0);
        match &self.run {
            Some(name) if (1..=NAME).contains(&name.chars().count()) => {
                Ok(Some(Run { name: name.clone(), from }))
            }
            Some(_) => {
                let detail = format!("run has 1 to {NAME} characters: choose a shorter name");
                Err(Problem::parameter(Code::InvalidField, "run", detail))
            }
            None if from > 0 => {
                let detail = "from needs run, the name of the dry run that it goes on with";
                Err(Problem::parameter(Code::InvalidField, "from", detail))
            }
            None => Ok(None),
        }
    }
}

/// What would become of documents if they were stored.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = Preview)]
pub struct PreviewOut {
    /// One result for each element, in order.
    results: Vec<ForeseenOut>,
    /// Documents that are near no other one. Those whose ids are known are in no other count than `known`.
    new: u64,
    /// Documents whose ids are stored, or come earlier in the run; they would replace those.
    known: u64,
    /// Documents that are near stored ones.
    near_stored: u64,
    /// Documents that are near earlier ones of the run only.
    near_earlier: u64,
    /// Documents of which others, stored or of the run, contain `min_containment`.
    #[serde(skip_serializing_if = "Option::is_none")]
    contained: Option<u64>,
    /// Documents that would not be stored because of an error.
    errors: u64,
}

/// What would become of one document.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = Foreseen)]
struct ForeseenOut {
    /// Its hash; absent if there is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<HashOut>)]
    hash: Option<HashOut>,
    /// Whether its fingerprint is reliable; absent if it was sent as a hash or a signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<StatusOut>,
    /// Whether a document with its id is stored, or is an earlier one of the run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    known: bool,
    /// The nearest stored document, besides its earlier version, that it duplicates.
    #[serde(skip_serializing_if = "Option::is_none")]
    near_stored: Option<MatchOut>,
    /// The place in the run, from 0, of the nearest earlier document that it duplicates, if it duplicates no
    /// stored one.
    #[serde(skip_serializing_if = "Option::is_none")]
    near_earlier: Option<u64>,
    /// The distance to that one.
    #[serde(skip_serializing_if = "Option::is_none")]
    distance: Option<u32>,
    /// The stored document that contains most of it, if it duplicates none.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_stored: Option<MatchOut>,
    /// The place in the run of the earlier document that contains most of it, if no stored one contains that
    /// much.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_earlier: Option<u64>,
    /// The share of it that is in that one, estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
    /// Why it would not be stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Box<Body>>,
}

impl PreviewOut {
    /// The answer, with the results in order.
    pub fn new(foreseen: Vec<Result<Foreseen, Problem>>, form: Option<HashFormat>) -> PreviewOut {
        let mut out = PreviewOut::default();
        for one in foreseen {
            let result = match one {
                Ok(foreseen) => out.counted(foreseen, form),
                Err(problem) => {
                    out.errors += 1;
                    ForeseenOut { error: Some(Box::new(problem.body())), ..ForeseenOut::default() }
                }
            };
            out.results.push(result);
        }
        out
    }

    fn counted(&mut self, foreseen: Foreseen, form: Option<HashFormat>) -> ForeseenOut {
        let Foreseen { hash, status, is_known, fate } = foreseen;
        let (hash, status) = (Some(HashOut::new(hash, form)), status.map(StatusOut::from));
        let mut result = ForeseenOut { hash, status, known: is_known, ..ForeseenOut::default() };
        let count = match fate {
            Fate::New => &mut self.new,
            Fate::NearStored(near) => {
                result.near_stored = Some(MatchOut::new(*near, form));
                &mut self.near_stored
            }
            Fate::NearEarlier(place, distance) => {
                (result.near_earlier, result.distance) = (Some(place), Some(distance));
                &mut self.near_earlier
            }
            Fate::InStored(stored) => {
                result.in_stored = Some(MatchOut::new(*stored, form));
                self.contained.get_or_insert_default()
            }
            Fate::InEarlier(place, share) => {
                (result.in_earlier, result.share) = (Some(place), Some(share));
                self.contained.get_or_insert_default()
            }
        };
        *if is_known { &mut self.known } else { count } += 1;
        result
    }
}
