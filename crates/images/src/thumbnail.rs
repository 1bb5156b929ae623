//! A small JPEG of an image, for display.

use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

use crate::raster::Raster;
use crate::shrink::Axis;

/// The most bytes of a thumbnail.
pub const THUMBNAIL_BYTES: usize = 4096;

/// The longest sides in pixels and the qualities of JPEG that are tried, in this order. The last one fits for
/// every image: white noise has 2,000 bytes.
const TRIES: [(usize, u8); 8] =
    [(192, 70), (160, 60), (128, 60), (128, 40), (96, 40), (96, 25), (64, 25), (32, 25)];

impl Raster {
    /// The image as a JPEG of at most [`THUMBNAIL_BYTES`], turned as it is shown, with alpha over white: as
    /// large and as good as fits, and not larger than the image.
    pub fn thumbnail(&self) -> Vec<u8> {
        let mut made = TRIES.iter().map(|&(side, quality)| self.small(side).jpeg(quality));
        made.find(|jpeg| jpeg.len() <= THUMBNAIL_BYTES).unwrap_or_default()
    }

    /// The image as it is shown, with no side longer than `most`.
    fn small(&self, most: usize) -> Small {
        let longest = self.width.max(self.height).max(1);
        let side = |length: usize| (length * most.min(longest) / longest).max(1);
        let (width, height) = (side(self.width), side(self.height));
        let (stored, colors) = self.pixels(&self.axes(Axis::means, (height, width)));
        if !self.turn.transposes {
            return Small { width, height, colors, bytes: stored };
        }
        let pixel = |at: usize| (at % height * width + at / height) * colors;
        let bytes = (0..width * height).flat_map(|at| &stored[pixel(at)..][..colors]).copied().collect();
        Small { width: height, height: width, colors, bytes }
    }
}

/// Pixels of 1 or 3 colors.
struct Small {
    width: usize,
    height: usize,
    colors: usize,
    bytes: Vec<u8>,
}

impl Small {
    fn jpeg(&self, quality: u8) -> Vec<u8> {
        let mut jpeg = Vec::new();
        let mut encoder = Encoder::new(&mut jpeg, quality);
        encoder.set_progressive(true);
        encoder.set_optimized_huffman_tables(true);
        encoder.set_sampling_factor(SamplingFactor::F_2_2);
        let color = if self.colors == 1 { ColorType::Luma } else { ColorType::Rgb };
        let made = encoder.encode(&self.bytes, self.width as u16, self.height as u16, color);
        made.expect("a vector takes every byte, and the sides are at least 1 and at most 192");
        jpeg
    }
}
