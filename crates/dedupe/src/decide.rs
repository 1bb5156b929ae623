//! The decision about every document of a corpus whose prints are made: the order in which they are visited,
//! and the groups that they form.

use lookalike_corpus::{
    Bounds, Decisions, Documents, Kept, Order, Print, Visit, decide_in_rounds, linked, neighbour_counts,
    visiting_order,
};

/// What a group of near-duplicates is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Groups {
    /// Each dropped document is within k of the kept one.
    #[default]
    Greedy,
    /// Connected components: a chain of near documents is one group.
    Linked,
}

/// How documents are visited and grouped.
pub struct Plan<'a> {
    /// The number of all documents.
    pub all: u32,
    /// The number of documents that come before all others and are kept whatever is near, such as those of
    /// another corpus.
    pub always: u32,
    /// The keys of the others; none, if all keys are equal.
    pub keys: Vec<u64>,
    /// Whether documents with more neighbours come first. The keys are then not read.
    pub is_central: bool,
    /// What a group is.
    pub groups: Groups,
    /// Documents that were kept before all others, and the number of the first one that is not decided yet.
    pub before: Option<(Kept<'a>, u32)>,
    /// The memory and the threads.
    pub bounds: Bounds,
}

/// Decides about the documents from number `plan.always` on, in the order of their keys; of equal keys, the
/// smaller number first. Those that `is_compared` refuses are kept, and are near nothing. `documents` says
/// what is near. Returns the decisions about all numbers, and the number of rounds that the memory demands.
/// The decisions depend neither on the bounds nor on the threads.
///
/// ```
/// use lookalike_corpus::{Bounds, Decision, Documents, Print};
/// use lookalike_dedupe::{Groups, Plan, decide};
/// use lookalike_hash::{Hash, Width};
///
/// let hashes = [0x0f, 0x0e, 0xff00];
/// let print = |number: u32| {
///     let hash = Hash::from_u64(hashes[number as usize]);
///     Ok::<_, ()>(Print { hash, signature: vec![], sketch: vec![] })
/// };
/// let (keys, bounds) = (vec![2, 1, 3], Bounds { bytes: usize::MAX, threads: 1 });
/// let groups = Groups::Greedy;
/// let plan = Plan { all: 3, always: 0, keys, is_central: false, groups, before: None, bounds };
/// let documents = Documents::new(Width::Bits64, None, 3, None);
/// let (decisions, _) = decide(&documents, plan, |_| Ok(true), print)?;
/// let decisions: Vec<Decision> = decisions.iter().collect();
/// assert_eq!(decisions, [Decision::Dropped { by: 1, distance: 1 }, Decision::Kept, Decision::Kept]);
/// # Ok::<(), ()>(())
/// ```
///
/// # Errors
/// The error of `print`, which reads what a document is compared by.
pub fn decide<'a, E>(
    documents: &Documents<'a>,
    plan: Plan<'a>,
    is_compared: impl Fn(u32) -> Result<bool, E>,
    print: impl Fn(u32) -> Result<Print, E>,
) -> Result<(Decisions, u32), E> {
    let Plan { all, always, mut keys, is_central, groups, before, bounds } = plan;
    let is_compared = |number: u32| if number < always { Ok(true) } else { is_compared(number) };
    let all_of = |numbers: &mut dyn Iterator<Item = u32>| -> Result<Vec<u32>, E> {
        let compared = |number| Ok(is_compared(number)?.then_some(number));
        numbers.filter_map(|number| compared(number).transpose()).collect()
    };
    if is_central {
        let among = all_of(&mut (always..all))?;
        let counts = neighbour_counts(documents, &among, bounds, &print)?;
        keys = vec![0; (all - always) as usize];
        for (number, count) in among.iter().zip(counts) {
            keys[(number - always) as usize] = !u64::from(count);
        }
    }
    let listed = |keys: &[u64]| {
        let order = visiting_order(keys).into_iter().map(|number| number + always);
        all_of(&mut (0..always).chain(order))
    };
    let mut decisions = Decisions::kept(all as usize);
    if groups == Groups::Linked {
        keys.resize((all - always) as usize, 0);
        let order = listed(&keys)?;
        let names = linked(documents, &order, bounds, &print)?;
        for (number, by) in order.into_iter().zip(names).filter(|(own, by)| *own >= always && by != own) {
            decisions.drop_for(number, by, documents.distance_of(&print(number)?, &print(by)?));
        }
        return Ok((decisions, 1));
    }
    let (before, first) = before.map_or((None, 0), |(kept, first)| (Some(kept), first));
    let order = if keys.is_empty() { Order::Ascending(first..all) } else { Order::Listed(listed(&keys)?) };
    drop(keys);
    let visit = Visit { order, always: always.saturating_sub(first) as usize, before };
    let print = |number| if is_compared(number)? { print(number).map(Some) } else { Ok(None) };
    let rounds = decide_in_rounds(documents, visit, bounds, print, &mut decisions)?;
    Ok((decisions, rounds))
}
