//! Why bytes are not hashed as an image, in words for whoever sent them.

/// The reason why an image is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The format is known and not read.
    #[error("{0} is not read: convert the image to JPEG, PNG, WebP or GIF")]
    Format(&'static str),
    /// The bytes begin like no image.
    #[error("the bytes are no image: JPEG, PNG, WebP and GIF are read")]
    Unknown,
    /// The image is larger than the caller allows.
    #[error(
        "the image has {width} × {height} pixels; at most {most} are accepted (limits.image_pixels): scale \
         it down, or raise the limit"
    )]
    Pixels {
        /// Its columns.
        width: u32,
        /// Its rows.
        height: u32,
        /// The most pixels.
        most: u64,
    },
    /// Decoding takes more memory than an image of the allowed size may take.
    #[error(
        "decoding the image takes {needed} bytes of memory; at most {most} are accepted, 64 MiB and four for \
         each of limits.image_pixels: store it with 8 bits a channel and not progressive, scale it down, or \
         raise the limit"
    )]
    Memory {
        /// The bytes that it takes.
        needed: u64,
        /// The most bytes.
        most: u64,
    },
    /// A JPEG that the decoder reads wrongly, without an error.
    #[error(
        "the JPEG file has each color in a scan of its own, some of them smaller, which is not read: save it \
         again as a usual or a progressive JPEG"
    )]
    Scans,
    /// The file is damaged or incomplete.
    #[error("the {format} file is damaged or cut off: {reason}")]
    Damaged {
        /// Its format.
        format: &'static str,
        /// What the decoder says.
        reason: String,
    },
}
