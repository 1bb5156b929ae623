//! The orientation in metadata of EXIF, a TIFF of which only the first directory is read.

use crate::raster::Turn;

const ORIENTATION: u16 = 0x0112;

/// How the image is turned; as it is stored if that is not said or cannot be read.
pub(crate) fn turn(exif: &[u8]) -> Turn {
    let exif = exif.strip_prefix(b"Exif\0\0").unwrap_or(exif);
    orientation(exif).map(Turn::of).unwrap_or_default()
}

fn orientation(exif: &[u8]) -> Option<u16> {
    let is_little = match exif.get(..4)? {
        b"II*\0" => true,
        b"MM\0*" => false,
        _ => return None,
    };
    let short = |at: usize| {
        let bytes = *exif.get(at..)?.first_chunk()?;
        Some(if is_little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    let start = *exif.get(4..)?.first_chunk()?;
    let start = if is_little { u32::from_le_bytes(start) } else { u32::from_be_bytes(start) } as usize;
    let entries = (0..usize::from(short(start)?)).map(|entry| start + 2 + 12 * entry);
    let found = entries.into_iter().find(|at| short(*at) == Some(ORIENTATION))?;
    short(found + 8)
}
