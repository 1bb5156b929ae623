//! Whether answers agree with each other: by index and by scan, at one distance and at another.
//!
//! The linear scan is the server's dumb twin; where it and the index differ, one of them is wrong.

use futures::{StreamExt, TryStreamExt, stream};

use super::client::Failure;
use super::collection::{Collection, Neighbour, Way};
use super::labels::{Labels, Number};
use super::measure::{Plan, distances};

/// How many answers agree and differ.
#[derive(Debug, Default)]
pub struct Checks {
    /// Pairs that were answered from one side only, or at two distances.
    pub one_sided: usize,
    /// Documents whose answer at the collection's distance is not the near part of that at the largest.
    pub usual_differs: usize,
    /// Questions of the sample, over all distances, each asked as usual and by scan.
    pub questions: usize,
    /// Those that the server answered by its index when it was free to choose.
    pub by_index: usize,
    /// The largest distance of those.
    pub index_up_to: Option<u32>,
    /// Those whose answer is not the near part of that at the largest distance.
    pub index_differs: usize,
    /// Those whose answer is not that of the scan, in matches, distances or order.
    pub scan_differs: usize,
}

/// The near part of an answer.
fn within(answer: &[Neighbour], k: u32) -> &[Neighbour] {
    &answer[..answer.partition_point(|neighbour| neighbour.distance <= k)]
}

/// How many of the answers at `k` are not the near part of those at a larger distance.
pub fn differing(wide: &[Vec<Neighbour>], near: &[Vec<Neighbour>], k: u32) -> usize {
    wide.iter().zip(near).filter(|(wide, near)| within(wide, k) != near.as_slice()).count()
}

/// Asks about documents spread over the set, at each distance of the table, as usual and by scan.
pub async fn sample(
    collection: &Collection<'_>,
    labels: &Labels,
    stored: &[Number],
    answers: &[Vec<Neighbour>],
    plan: Plan,
) -> Result<Checks, Failure> {
    if plan.sample == 0 {
        return Ok(Checks::default());
    }
    let every = stored.len().div_ceil(plan.sample).max(1);
    let documents = stored.iter().zip(answers).step_by(every);
    let questions = documents
        .flat_map(|document| distances(collection.settings.bits).iter().map(move |k| (document, *k)));
    let twice = stream::iter(questions).map(async |((number, answer), k)| {
        let id = labels.id(*number);
        let usual = collection.similar(id, Some(k), Way::Told, &labels.numbers).await?;
        let scan = collection.similar(id, Some(k), Way::Scan, &labels.numbers).await?;
        Ok((
            usual.by_index.then_some(k),
            usual.neighbours != within(answer, k),
            usual.neighbours != scan.neighbours,
        ))
    });
    let count = async |mut checks: Checks,
                       (by_index, index_differs, scan_differs): (Option<u32>, bool, bool)| {
        checks.questions += 1;
        checks.by_index += usize::from(by_index.is_some());
        checks.index_up_to = checks.index_up_to.max(by_index);
        checks.index_differs += usize::from(index_differs);
        checks.scan_differs += usize::from(scan_differs);
        Ok(checks)
    };
    twice.buffer_unordered(plan.parallel).try_fold(Checks::default(), count).await
}
