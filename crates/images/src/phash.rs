//! `phash-64`: the signs of the 64 lowest frequencies of 32 × 32 means.

use lookalike_hash::Hash;

use crate::dct::lowest;
use crate::raster::Raster;
use crate::shrink::Axis;

/// The hash of 64 bits: the luminance in means of 32 × 32 equal parts, the 8 × 8 lowest frequencies of its
/// cosine transform with the mean among them, and a one for each above their median, which is the mean of the
/// two middle ones. The first bit is that of the mean; rows follow each other. An image without pixels has 0.
pub fn phash_64(raster: &Raster) -> Hash {
    if raster.bytes.is_empty() {
        return Hash::from_u64(0);
    }
    let waves = lowest::<32, 8>(&raster.shrunk(Axis::means), 0);
    let mut sorted = waves;
    sorted.as_flattened_mut().sort_unstable_by(f32::total_cmp);
    let median = sorted[3][7].midpoint(sorted[4][0]);
    let bit = |hash, wave: &f32| hash << 1 | u64::from(*wave > median);
    Hash::from_u64(waves.as_flattened().iter().fold(0, bit))
}
