//! The pixels of an image, and how it is turned.

/// An image of 8 bits a channel, as it is stored: the orientation applies when it is shrunk.
pub struct Raster {
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// 1 for grey, 2 with alpha, 3 for red, green and blue, 4 with alpha.
    pub(crate) channels: usize,
    pub(crate) bytes: Vec<u8>,
    pub(crate) turn: Turn,
}

impl Raster {
    /// An image of decoded pixels, row by row, with 1 channel (grey), 2 (with alpha), 3 (red, green, blue) or
    /// 4; `None` if there are other channels, or not as many bytes as pixels.
    pub fn of_pixels((width, height): (usize, usize), channels: usize, bytes: Vec<u8>) -> Option<Raster> {
        let fits = (1..=4).contains(&channels) && width.checked_mul(height)? * channels == bytes.len();
        fits.then_some(Raster { width, height, channels, bytes, turn: Turn::default() })
    }
}

/// An orientation: mirrored, then transposed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Turn {
    pub(crate) mirrors_rows: bool,
    pub(crate) mirrors_columns: bool,
    pub(crate) transposes: bool,
}

impl Turn {
    /// An orientation of EXIF.
    pub(crate) fn of(orientation: u16) -> Turn {
        let [mirrors_rows, mirrors_columns, transposes] = match orientation {
            2 => [false, true, false],
            3 => [true, true, false],
            4 => [true, false, false],
            5 => [false, false, true],
            6 => [true, false, true],
            7 => [true, true, true],
            8 => [false, true, true],
            _ => [false, false, false],
        };
        Turn { mirrors_rows, mirrors_columns, transposes }
    }
}
