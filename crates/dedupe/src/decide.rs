//! The decision about every document of a corpus whose prints are made: the order in which they are visited,
//! and the groups that they form.

use lookalike_corpus::{
    Bounds, Decision, Documents, Print, decide_in_rounds, linked, neighbour_counts, visiting_order,
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
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The number of documents that come before all others and are kept whatever is near, such as those of
    /// another corpus.
    pub always: u32,
    /// Whether documents with more neighbours come first. The keys are then not read.
    pub is_central: bool,
    /// What a group is.
    pub groups: Groups,
    /// The memory and the threads.
    pub bounds: Bounds,
}

/// Decides about the documents from number `plan.always` on, in the order of their `keys`; of equal keys, the
/// smaller number first. Those that `is_compared` refuses are kept, and are near nothing. `documents` is
/// empty. Returns the decisions, in the order of the numbers, and the number of rounds that the memory
/// demands. The decisions depend neither on the bounds nor on the threads.
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
/// let bounds = Bounds { bytes: usize::MAX, threads: 1 };
/// let plan = Plan { always: 0, is_central: false, groups: Groups::Greedy, bounds };
/// let mut documents = Documents::new(Width::Bits64, None, 3, None);
/// let (decisions, _) = decide(&mut documents, plan, vec![2, 1, 3], |_| true, print)?;
/// assert_eq!(decisions, [Decision::Dropped { by: 1, distance: 1 }, Decision::Kept, Decision::Kept]);
/// # Ok::<(), ()>(())
/// ```
///
/// # Errors
/// The error of `print`, which reads what a document is compared by.
pub fn decide<E>(
    documents: &mut Documents,
    plan: Plan,
    mut keys: Vec<u64>,
    is_compared: impl Fn(u32) -> bool,
    print: impl Fn(u32) -> Result<Print, E>,
) -> Result<(Vec<Decision>, u32), E> {
    let (first, bounds) = (plan.always, plan.bounds);
    let all = first + keys.len() as u32;
    if plan.is_central {
        let among: Vec<u32> = (first..all).filter(|number| is_compared(*number)).collect();
        let counts = neighbour_counts(documents, &among, bounds, &print)?;
        for (number, count) in among.iter().zip(counts) {
            keys[(number - first) as usize] = !u64::from(count);
        }
    }
    let order = visiting_order(&keys).into_iter().map(|number| number + first);
    let order: Vec<u32> = (0..first).chain(order.filter(|number| is_compared(*number))).collect();
    drop(keys);
    let mut decisions = vec![Decision::Kept; all as usize];
    let mut rounds = 1;
    documents.clear();
    if plan.groups == Groups::Linked {
        let names = linked(documents, &order, bounds, &print)?;
        for (number, by) in order.into_iter().zip(names).filter(|(own, by)| own >= &first && by != own) {
            documents.clear();
            let [own, other] = [number, by].map(|number| print(number).map(|print| documents.push(&print)));
            let distance = documents.distance(own?, other?);
            decisions[number as usize] = Decision::Dropped { by, distance };
        }
    } else {
        let order = (&order[..], first as usize);
        rounds = decide_in_rounds(documents, order, bounds, &print, &mut decisions)?;
    }
    Ok((decisions.split_off(first as usize), rounds))
}
