//! The luminance of pixels: .299 red + .587 green + .114 blue, in 64 bits, rounded to 32.

use std::ops::Range;

use crate::raster::Raster;

impl Raster {
    /// Columns and rows of the image as it is shown.
    pub(crate) fn shown_size(&self) -> (usize, usize) {
        if self.turn.transposes { (self.height, self.width) } else { (self.width, self.height) }
    }

    /// Puts the luminance of some pixels of a stored row into `out`, from `start` on, each `step` further.
    pub(crate) fn luma(&self, row: usize, columns: Range<usize>, out: &mut [f32], start: usize, step: isize) {
        let bytes = |range: Range<usize>| range.start * self.channels..range.end * self.channels;
        let bytes = &self.bytes[bytes(row * self.width + columns.start..row * self.width + columns.end)];
        match self.channels {
            1 => put::<1>(bytes, out, start, step),
            2 => put::<2>(bytes, out, start, step),
            3 => put::<3>(bytes, out, start, step),
            _ => put::<4>(bytes, out, start, step),
        }
    }
}

fn put<const CHANNELS: usize>(bytes: &[u8], out: &mut [f32], start: usize, step: isize) {
    let mut at = start;
    for pixel in bytes.as_chunks::<CHANNELS>().0 {
        out[at] = of_pixel(pixel);
        at = at.wrapping_add_signed(step);
    }
}

#[inline]
fn of_pixel(pixel: &[u8]) -> f32 {
    match *pixel {
        [grey] => f32::from(grey),
        [grey, alpha] => f32::from(over_white(grey, alpha)),
        [red, green, blue] => of_colors([red, green, blue]),
        [red, green, blue, alpha] => of_colors([red, green, blue].map(|color| over_white(color, alpha))),
        _ => 0.0,
    }
}

#[inline]
fn of_colors(colors: [u8; 3]) -> f32 {
    let [red, green, blue] = colors.map(f64::from);
    (red * 0.299 + green * 0.587 + blue * 0.114) as f32
}

/// What a channel with alpha looks like on white, in whole numbers as programs show it.
pub(crate) fn over_white(color: u8, alpha: u8) -> u8 {
    let (color, alpha) = (u32::from(color), u32::from(alpha));
    ((color * alpha + 255 * (255 - alpha) + 127) / 255) as u8
}
