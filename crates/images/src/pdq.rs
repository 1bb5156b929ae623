//! PDQ, as "The TMK+PDQF Video-Hashing Algorithm and the PDQ Image-Hashing Algorithm" (Facebook, 2019)
//! describes it: two box filters, 64 × 64 places, the 16 × 16 lowest frequencies without the mean, a one
//! for each above their median.

use lookalike_hash::{Hash, U256};

use crate::dct::lowest;
use crate::raster::Raster;
use crate::shrink::Axis;

/// An image of fewer rows or columns has the hash 0 and the quality 0.
const LEAST: usize = 5;

/// The PDQ of an image.
pub struct Pdq {
    waves: [[f32; 16]; 16],
    quality: u8,
}

impl Pdq {
    /// Below this quality an image is so flat that unlike ones have near hashes.
    pub const GOOD: u8 = 50;

    /// The PDQ of an image.
    pub fn of(raster: &Raster) -> Pdq {
        if raster.width.min(raster.height) < LEAST {
            return Pdq { waves: [[0.0; 16]; 16], quality: 0 };
        }
        let mut places = raster.shrunk(Axis::boxes);
        if quality(&places) < Pdq::GOOD {
            // The hash of a flat image is the signs of rounding errors, which depend on the order of sums.
            places = raster.places();
        }
        Pdq { waves: lowest(&places, 1), quality: quality(&places) }
    }

    /// The hash. Bit 16 `u` + `v` is the sign of the frequency `u` + 1 down and `v` + 1 across.
    pub fn hash(&self) -> Hash {
        hash(&self.waves)
    }

    /// How much there is to see, 0 to 100: the sum of the steps between neighbouring places.
    pub fn quality(&self) -> u8 {
        self.quality
    }

    /// The hashes of the image turned by 0, 90, 180 and 270 degrees to the left, and of these mirrored: top
    /// to bottom, left to right, about the falling and about the rising diagonal.
    pub fn dihedral(&self) -> [Hash; 8] {
        // Mirroring an axis changes the sign of every odd frequency, which are the even places here.
        let turned = |transposes: bool, changes_rows: bool, changes_columns: bool| {
            let mut waves = [[0.0; 16]; 16];
            for (u, row) in waves.iter_mut().enumerate() {
                for (v, wave) in row.iter_mut().enumerate() {
                    let value = if transposes { self.waves[v][u] } else { self.waves[u][v] };
                    let changes = (changes_rows && u % 2 == 0) != (changes_columns && v % 2 == 0);
                    *wave = if changes { -value } else { value };
                }
            }
            hash(&waves)
        };
        [
            turned(false, false, false),
            turned(true, true, false),
            turned(false, true, true),
            turned(true, false, true),
            turned(false, true, false),
            turned(false, false, true),
            turned(true, false, false),
            turned(true, true, true),
        ]
    }
}

fn hash(waves: &[[f32; 16]; 16]) -> Hash {
    let mut sorted = *waves;
    let waves = waves.as_flattened();
    let (_, median, _) = sorted.as_flattened_mut().select_nth_unstable_by(127, f32::total_cmp);
    let word =
        |part: &[f32]| part.iter().rev().fold(0_u64, |word, wave| word << 1 | u64::from(wave > median));
    let mut words = [0; 4];
    words.iter_mut().zip(waves.chunks(64).rev()).for_each(|(out, part)| *out = word(part));
    Hash::from_u256(U256::from_words(words))
}

/// The steps between neighbours down and across, in whole percents of the range each, divided by 90.
fn quality(places: &[[f32; 64]; 64]) -> u8 {
    let step = |(one, other): (&f32, &f32)| ((one - other) * 100.0 / 255.0).abs() as u32;
    let down = places.windows(2).flat_map(|rows| rows[0].iter().zip(&rows[1]));
    let across = places.iter().flat_map(|row| row.iter().zip(&row[1..]));
    (down.chain(across).map(step).sum::<u32>() / 90).min(100) as u8
}
