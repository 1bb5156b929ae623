//! Medians of rounds that take turns.

/// How many rounds a comparison has.
pub const ROUNDS: usize = 5;

/// The median of some figures, of which there is at least one.
pub fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Runs every contender once a round and answers with the figures of each, round by round.
pub fn take_turns<const N: usize>(contenders: [&mut dyn FnMut() -> f64; N]) -> [Vec<f64>; N] {
    take_turns_in(ROUNDS, contenders)
}

/// The same in so many rounds: many short ones where the machine is slower at one time than at another.
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

/// The median of the ratios of two contenders, round by round.
pub fn ratio(of: &[f64], to: &[f64]) -> f64 {
    median(of.iter().zip(to).map(|(of, to)| of / to))
}
