//! The lowest frequencies of a small square image.

use std::f64::consts::PI;

/// The cosine transform of `places`: `out[u][v]` belongs to the frequencies `u + first` down and `v + first`
/// across. All frequencies have one scale. Sums are those of the reference of PDQ, in its order.
pub(crate) fn lowest<const N: usize, const M: usize>(places: &[[f32; N]; N], first: usize) -> [[f32; M]; M] {
    let scale = (2.0 / N as f64).sqrt() as f32;
    let mut wave = [[0.0; N]; M];
    for (frequency, row) in wave.iter_mut().enumerate() {
        for (at, value) in row.iter_mut().enumerate() {
            let angle = PI / 2.0 / N as f64 * (frequency + first) as f64 * (2 * at + 1) as f64;
            *value = (f64::from(scale) * angle.cos()) as f32;
        }
    }
    let mut out = [[0.0; M]; M];
    for (row, down) in out.iter_mut().zip(&wave) {
        let mut sums = [0.0; N];
        for (line, weight) in places.iter().zip(down) {
            sums.iter_mut().zip(line).for_each(|(sum, value)| *sum += weight * value);
        }
        for (value, across) in row.iter_mut().zip(&wave) {
            *value = sums.iter().zip(across).map(|(sum, weight)| sum * weight).sum::<f32>();
        }
    }
    out
}
