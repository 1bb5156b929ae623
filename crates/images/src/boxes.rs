//! The 64 × 64 places of PDQ for flat images: box filters along rows, columns, rows and columns, of which
//! the values at the middles of equal parts are kept.
//!
//! *Invariant:* every addition, subtraction and division is that of the reference, in its order and in 32
//! bits. The tests compare this with the passes one after the other. It takes four times as long as `shrink`,
//! whose places differ by rounding.
//!
//! Sixteen rows at a time go through all passes, so that a running sum is one of sixteen beside each other,
//! and no copy of the image is made. Memory: some rows, and the window of the second pass.

use crate::raster::Raster;

/// The places along an axis.
const PLACES: usize = 64;
/// The rows that are filtered at a time.
const LANES: usize = 16;

/// A box filter over rows of numbers that arrive one after the other.
struct Sliding {
    window: usize,
    /// The rows that arrive before the first mean.
    before: usize,
    arrived: usize,
    /// The rows in the window.
    count: f32,
    sums: Vec<f32>,
    /// The last rows, as many as the window has.
    held: Vec<f32>,
}

impl Sliding {
    fn new(length: usize, width: usize) -> Sliding {
        let window = length.div_ceil(2 * PLACES);
        let (sums, held) = (vec![0.0; width], vec![0.0; window * width]);
        Sliding { window, before: window / 2, arrived: 0, count: 0.0, sums, held }
    }

    /// Takes the next row, or that there is none, and calls `put` with the next mean and its number.
    fn next(&mut self, row: Option<&[f32]>, put: impl FnOnce(usize, &[f32], f32)) {
        let (at, width) = (self.arrived, self.sums.len());
        self.arrived += 1;
        let held = &mut self.held[at % self.window * width..][..width];
        let leaves = at >= self.window;
        match row {
            Some(row) if leaves => {
                for ((sum, held), new) in self.sums.iter_mut().zip(held).zip(row) {
                    *sum = *sum + new - *held;
                    *held = *new;
                }
            }
            Some(row) => {
                self.sums.iter_mut().zip(row).for_each(|(sum, new)| *sum += new);
                held.copy_from_slice(row);
                self.count += 1.0;
            }
            None => {
                self.sums.iter_mut().zip(held).for_each(|(sum, held)| *sum -= *held);
                self.count -= 1.0;
            }
        }
        if at >= self.before {
            put(at - self.before, &self.sums, self.count);
        }
    }
}

/// The places that are kept of an axis.
struct Middles {
    length: usize,
    next: usize,
}

impl Middles {
    fn of(length: usize) -> Middles {
        Middles { length, next: 0 }
    }

    /// The places at this number, for numbers that grow: several of a short axis.
    fn at(&mut self, number: usize) -> std::ops::Range<usize> {
        let first = self.next;
        while self.next < PLACES && (2 * self.next + 1) * self.length / (2 * PLACES) == number {
            self.next += 1;
        }
        first..self.next
    }
}

impl Raster {
    /// The places, turned as the image is shown.
    pub(crate) fn places(&self) -> [[f32; PLACES]; PLACES] {
        let (width, height) = self.shown_size();
        let mut places = [[0.0; PLACES]; PLACES];
        if (width, height) == (PLACES, PLACES) {
            let mut strip = vec![0.0; LANES * PLACES];
            for (first, rows) in places.chunks_mut(LANES).enumerate() {
                self.strip(first * LANES, &mut strip);
                for (lane, row) in rows.iter_mut().enumerate() {
                    row.iter_mut()
                        .zip(strip[lane..].iter().step_by(LANES))
                        .for_each(|(to, from)| *to = *from);
                }
            }
            return places;
        }
        let mut down = Sliding::new(height, width);
        let mut last = Last {
            rows: vec![0.0; LANES * width],
            count: 0,
            down: Sliding::new(height, PLACES),
            middles: Middles::of(height),
        };
        let (mut strip, mut rows) = (vec![0.0; LANES * width], vec![0.0; LANES * width]);
        for first in (0..height).step_by(LANES) {
            self.strip(first, &mut strip);
            along_rows(&strip, &mut rows);
            for row in rows.chunks_exact(width).take(height - first) {
                down.next(Some(row), |_, sums, count| last.push(sums, count, &mut places));
            }
        }
        for _ in 0..down.before {
            down.next(None, |_, sums, count| last.push(sums, count, &mut places));
        }
        last.end(&mut places);
        places
    }

    /// The luminance of sixteen rows, fewer at the end: `strip[16 column + row]`.
    fn strip(&self, first: usize, strip: &mut [f32]) {
        let turn = self.turn;
        let mirrored =
            |at: usize, length: usize, is_mirrored: bool| if is_mirrored { length - 1 - at } else { at };
        if turn.transposes {
            // A stored row is shown as a column.
            let last = (first + LANES).min(self.width) - 1;
            let (from, to, step) = if turn.mirrors_columns {
                (self.width - 1 - last, self.width - first, -1)
            } else {
                (first, last + 1, 1)
            };
            for row in 0..self.height {
                let start = mirrored(row, self.height, turn.mirrors_rows) * LANES;
                let start = if step < 0 { start + last - first } else { start };
                self.luma(row, from..to, strip, start, step);
            }
        } else {
            let step = LANES as isize * if turn.mirrors_columns { -1 } else { 1 };
            for (lane, row) in (first..self.height.min(first + LANES)).enumerate() {
                let row = mirrored(row, self.height, turn.mirrors_rows);
                let start = if step < 0 { (self.width - 1) * LANES } else { 0 };
                self.luma(row, 0..self.width, strip, start + lane, step);
            }
        }
    }
}

/// The second half of the filter: along rows, and along the columns that are kept.
struct Last {
    /// The rows that wait for the others of their sixteen.
    rows: Vec<f32>,
    count: usize,
    down: Sliding,
    middles: Middles,
}

impl Last {
    fn push(&mut self, sums: &[f32], count: f32, places: &mut [[f32; PLACES]; PLACES]) {
        let width = sums.len();
        let lane = self.count % LANES;
        let to = self.rows[lane * width..][..width].iter_mut();
        to.zip(sums).for_each(|(to, sum)| *to = sum / count);
        self.count += 1;
        if lane + 1 == LANES {
            self.filter(LANES, places);
        }
    }

    fn end(&mut self, places: &mut [[f32; PLACES]; PLACES]) {
        self.filter(self.count % LANES, places);
        for _ in 0..self.down.before {
            self.down(None, places);
        }
    }

    fn filter(&mut self, lanes: usize, places: &mut [[f32; PLACES]; PLACES]) {
        let width = self.rows.len() / LANES;
        let (mut across, mut middles) = (Sliding::new(width, LANES), Middles::of(width));
        let mut kept = [[0.0; PLACES]; LANES];
        let mut put = |number: usize, sums: &[f32], count: f32| {
            for place in middles.at(number) {
                kept.iter_mut().zip(sums).for_each(|(row, sum)| row[place] = sum / count);
            }
        };
        for column in 0..width {
            let values: [f32; LANES] = std::array::from_fn(|lane| self.rows[lane * width + column]);
            across.next(Some(&values), &mut put);
        }
        (0..across.before).for_each(|_| across.next(None, &mut put));
        kept[..lanes].iter().for_each(|row| self.down(Some(row), places));
    }

    fn down(&mut self, row: Option<&[f32]>, places: &mut [[f32; PLACES]; PLACES]) {
        let middles = &mut self.middles;
        self.down.next(row, |number, sums, count| {
            for place in middles.at(number) {
                places[place].iter_mut().zip(sums).for_each(|(to, sum)| *to = sum / count);
            }
        });
    }
}

/// The filter along sixteen rows: `strip[16 column + row]` in, one row after the other out.
fn along_rows(strip: &[f32], rows: &mut [f32]) {
    let width = rows.len() / LANES;
    let mut across = Sliding::new(width, LANES);
    let mut put = |column: usize, sums: &[f32], count: f32| {
        sums.iter().enumerate().for_each(|(lane, sum)| rows[lane * width + column] = sum / count);
    };
    strip.chunks_exact(LANES).for_each(|column| across.next(Some(column), &mut put));
    (0..across.before).for_each(|_| across.next(None, &mut put));
}
