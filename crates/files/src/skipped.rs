//! Why a file in an archive or a record of a web archive is passed over: it could have become documents, and
//! no option makes it one.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The reason. The words follow a count: `3 records passed over: 2 not pages, 1 cut off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Skipped {
    /// A response or resource of a type that has no text.
    Type,
    /// A response that is no page in full.
    Status,
    /// A record that refers to an earlier one with the same content.
    Revisit,
    /// A record, or a page after decompression, above the limit.
    Size,
    /// A record that continues in other records, or continues one.
    Segment,
    /// A page of which the end is missing.
    Cut,
    /// A page in a compression that is not read, or whose bytes are not of its compression.
    Packing,
    /// A page whose bytes are invalid.
    Bytes,
    /// A record whose kind the standard does not have.
    Record,
    /// An image in which there is less to see than the user wants.
    Quality,
    /// A file whose name tells no format.
    Ending,
    /// A file of columns in an archive.
    Columns,
    /// An archive in an archive.
    Archive,
    /// A hard link.
    HardLink,
    /// A symbolic link.
    SymbolicLink,
    /// A device, a pipe or a socket.
    Device,
    /// A sparse file with holes.
    Holes,
    /// A file of attributes that macOS adds to an archive.
    AppleDouble,
    /// A part of a file that continues in another archive.
    Volume,
    /// A member of an archive whose kind is not known.
    Member,
    /// An encrypted file.
    Encrypted,
    /// A file in a zip archive that is packed by another method than deflate.
    Method,
    /// A file in a zip archive above the limit.
    Long,
}

impl Skipped {
    /// Whether a whole file is passed over, so that its name says which.
    pub fn is_of_file(self) -> bool {
        self >= Skipped::Ending
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Skipped::Type => "not pages",
            Skipped::Status => "of another status",
            Skipped::Revisit => "with the content of an earlier record",
            Skipped::Size => "too large",
            Skipped::Segment => "in several segments",
            Skipped::Cut => "cut off",
            Skipped::Packing => "packed with an unknown coding",
            Skipped::Bytes => "damaged, or in an unknown charset",
            Skipped::Record => "of an unknown kind of record",
            Skipped::Quality => "of a quality below --min-quality",
            Skipped::Ending => "of no known format",
            Skipped::Columns => "Parquet or Arrow in an archive",
            Skipped::Archive => "an archive in an archive",
            Skipped::HardLink => "stored as a hard link",
            Skipped::SymbolicLink => "stored as a symbolic link",
            Skipped::Device => "a device or pipe",
            Skipped::Holes => "a sparse file with holes",
            Skipped::AppleDouble => "attributes of macOS",
            Skipped::Volume => "a part of a file in another archive",
            Skipped::Member => "of an unknown kind of member",
            Skipped::Encrypted => "encrypted",
            Skipped::Method => "packed by a method that is not read",
            Skipped::Long => "longer than 256 MiB",
        })
    }
}
