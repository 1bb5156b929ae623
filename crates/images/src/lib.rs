//! Perceptual hashes of images, from the bytes of a file: copies that were compressed, scaled or recoloured
//! have hashes within a small Hamming distance.
//!
//! - [`Header`] reads format and size, and refuses what is too large before pixels take memory.
//! - [`Raster`] has the pixels of the first frame.
//! - [`Pdq`] is the hash of 256 bits with its quality, and with those of the eight turns and mirrors.
//! - [`phash_64`] is a hash of 64 bits.
//! - [`Raster::thumbnail`] is a JPEG of at most 4 KB.
//!
//! ```
//! use lookalike_images::{Header, Pdq, Refusal};
//!
//! let header = Header::read(include_bytes!("../testdata/rings.png"), 32_000_000)?;
//! let pdq = Pdq::of(&header.decode()?);
//! assert_eq!(pdq.quality(), 100);
//! assert!(pdq.dihedral().iter().all(|turned| turned.width() == pdq.hash().width()));
//! # Ok::<(), Refusal>(())
//! ```
//!
//! Costs: decoding takes nine tenths of the time. *Absent*: colour profiles, frames after the first,
//! metadata but for the orientation.

#![deny(unreachable_pub)]

mod boxes;
mod dct;
mod exif;
mod header;
mod jpeg_frame;
mod kinds;
mod luma;
mod pdq;
mod phash;
mod raster;
mod refusal;
mod shrink;
#[cfg(test)]
mod tests;
mod thumbnail;

pub use header::Header;
pub use pdq::Pdq;
pub use phash::phash_64;
pub use raster::Raster;
pub use refusal::Refusal;
pub use thumbnail::THUMBNAIL_BYTES;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
