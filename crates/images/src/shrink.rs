//! A small grey image of a large one: each of its pixels is a weighted mean of a rectangle.
//!
//! The filters of PDQ are box filters along rows and columns, of which only a few places are kept. Being
//! linear, they are one matrix for the rows and one for the columns: each pixel is read about once, instead
//! of in four passes, and the loop over a row has no dependency between its columns. The tests compare this
//! with the passes.

use crate::luma::over_white;
use crate::raster::Raster;

/// The weights of red, green and blue in the luminance.
const LUMA: [f32; 3] = [0.299, 0.587, 0.114];

/// What an output place reads along one axis.
struct Span {
    start: usize,
    weights: Vec<f32>,
}

/// All output places along one axis.
pub(crate) struct Axis(Vec<Span>);

impl Axis {
    /// Two box filters of PDQ, at the middles of `places` equal parts of `length`.
    pub(crate) fn boxes(length: usize, places: usize) -> Axis {
        let width = length.div_ceil(128);
        let (before, after) = (width - width.midpoint(2), width.midpoint(2) - 1);
        let window = |at: usize| (at.saturating_sub(before), (at + after).min(length - 1));
        let span = |place: usize| {
            let (first, last) = window((2 * place + 1) * length / (2 * places));
            let (start, end) = (window(first).0, window(last).1);
            let mut weights = vec![0.0; end - start + 1];
            for middle in first..=last {
                let (from, to) = window(middle);
                let share = 1.0 / ((last - first + 1) as f32 * (to - from + 1) as f32);
                weights[from - start..=to - start].iter_mut().for_each(|weight| *weight += share);
            }
            Span { start, weights }
        };
        Axis((0..places).map(span).collect())
    }

    /// The means of `places` equal parts of `length`; a pixel on a border counts to both by its share.
    pub(crate) fn means(length: usize, places: usize) -> Axis {
        let span = |place: usize| {
            // In units of 1/places of a pixel.
            let (from, to) = (place * length, (place + 1) * length);
            let start = from / places;
            let weights = (start..to.div_ceil(places)).map(|at| {
                let shared = to.min((at + 1) * places) - from.max(at * places);
                shared as f32 / length as f32
            });
            Span { start, weights: weights.collect() }
        };
        Axis((0..places).map(span).collect())
    }

    /// The same for the axis in reverse.
    fn reversed(self, length: usize, is_wanted: bool) -> Axis {
        if !is_wanted {
            return self;
        }
        let reversed = |mut span: Span| {
            span.weights.reverse();
            Span { start: length - span.start - span.weights.len(), ..span }
        };
        Axis(self.0.into_iter().map(reversed).collect())
    }
}

impl Raster {
    /// The image in `N` × `N` places of luminance, 0 to 255, turned as it is shown. The raster has a pixel.
    pub(crate) fn shrunk<const N: usize>(&self, axis: fn(usize, usize) -> Axis) -> [[f32; N]; N] {
        let (rows, columns) = self.axes(axis, (N, N));
        let mut places = [[0.0; N]; N];
        let mut sums = Vec::new();
        let mut prepared = Vec::new();
        for (row, span) in rows.0.iter().enumerate() {
            self.sum_rows(span, &mut sums, &mut prepared);
            let luma = luma(&sums, self.width);
            for (column, span) in columns.0.iter().enumerate() {
                let pixels = &luma[span.start..][..span.weights.len()];
                let value = pixels.iter().zip(&span.weights).map(|(pixel, weight)| pixel * weight).sum();
                let (row, column) = if self.turn.transposes { (column, row) } else { (row, column) };
                places[row][column] = value;
            }
        }
        places
    }

    /// What each place reads, of so many rows and columns, as the image is stored.
    pub(crate) fn axes(
        &self,
        axis: fn(usize, usize) -> Axis,
        (rows, columns): (usize, usize),
    ) -> (Axis, Axis) {
        let rows = axis(self.height, rows).reversed(self.height, self.turn.mirrors_rows);
        (rows, axis(self.width, columns).reversed(self.width, self.turn.mirrors_columns))
    }

    /// The places as pixels in the order in which the image is stored, and the number of their colors, 1 or
    /// 3.
    pub(crate) fn pixels(&self, (rows, columns): &(Axis, Axis)) -> (Vec<u8>, usize) {
        let colors = if self.channels < 3 { 1 } else { 3 };
        let mut bytes = Vec::with_capacity(rows.0.len() * columns.0.len() * colors);
        let (mut sums, mut prepared) = (Vec::new(), Vec::new());
        for span in &rows.0 {
            self.sum_rows(span, &mut sums, &mut prepared);
            for span in &columns.0 {
                bytes.extend((0..colors).map(|color| {
                    let values = sums[span.start * colors + color..].iter().step_by(colors);
                    let sum: f32 = values.zip(&span.weights).map(|(value, weight)| value * weight).sum();
                    sum.round() as u8
                }));
            }
        }
        (bytes, colors)
    }

    /// The weighted sum of some rows, of every channel but alpha.
    fn sum_rows(&self, span: &Span, sums: &mut Vec<f32>, prepared: &mut Vec<f32>) {
        let row_bytes = self.width * self.channels;
        let has_alpha = self.channels.is_multiple_of(2);
        sums.clear();
        sums.resize(self.width * (self.channels - usize::from(has_alpha)), 0.0);
        let rows = self.bytes[span.start * row_bytes..].chunks_exact(row_bytes);
        for (row, weight) in rows.zip(&span.weights) {
            if has_alpha {
                prepared.clear();
                for pixel in row.chunks_exact(self.channels) {
                    let [colors @ .., alpha] = pixel else { continue };
                    prepared.extend(colors.iter().map(|color| f32::from(over_white(*color, *alpha))));
                }
                sums.iter_mut().zip(prepared.iter()).for_each(|(sum, value)| *sum += weight * value);
            } else {
                sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += weight * f32::from(*value));
            }
        }
    }
}

fn luma(sums: &[f32], width: usize) -> Vec<f32> {
    if sums.len() == width {
        return sums.to_vec();
    }
    let [red, green, blue] = LUMA;
    sums.as_chunks::<3>().0.iter().map(|[r, g, b]| red * r + green * g + blue * b).collect()
}
