//! Rounds in which several contenders run in turn, and their medians.

/// The number of rounds of a comparison.
pub const ROUNDS: usize = 5;

/// The median of a non-empty sequence.
pub fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Runs every contender once in each round. Returns the figures of each contender, by round.
pub fn take_turns<const N: usize>(contenders: [&mut dyn FnMut() -> f64; N]) -> [Vec<f64>; N] {
    take_turns_in(ROUNDS, contenders)
}

/// Like `take_turns`, with `rounds` rounds. Many short rounds suit a machine whose speed varies.
pub fn take_turns_in<const N: usize>(
    rounds: usize,
    mut contenders: [&mut dyn FnMut() -> f64; N],
) -> [Vec<f64>; N] {
    let mut figures = [const { Vec::new() }; N];
    for _ in 0..rounds {
        for (contender, figures) in contenders.iter_mut().zip(&mut figures) {
            figures.push(contender());
        }
    }
    figures
}

/// The median of the ratios of two contenders in each round.
pub fn ratio(of: &[f64], to: &[f64]) -> f64 {
    median(of.iter().zip(to).map(|(of, to)| of / to))
}
