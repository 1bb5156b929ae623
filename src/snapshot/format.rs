//! The bytes of a snapshot, format 1. Drawn in `docs/formats.md`.
//!
//! ```text
//! header   "lklsnap\n"  u32 format  u64 from  u32 sections
//! section  u32 collection  u32 bits  u32 length, profile  u64 checksum of these
//!          chunks: u32 count (1 to 65,536)  count hashes, ascending  u64 checksum of these
//!          u32 0
//! footer   u64 through  u64 checksum of every byte before
//! ```
//! Numbers are little-endian, hashes big-endian, checksums XXH3 of 64 bits.

use std::io::{self, Read, Write};

use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use crate::ids::{CollectionId, Hash, Sequence, Width};

/// How every snapshot begins.
pub(super) const MAGIC: &[u8; 8] = b"lklsnap\n";
/// The layout written, and the newest that can be read.
pub(super) const FORMAT: u32 = 1;
/// Hashes in a chunk, at most.
pub(super) const CHUNK: usize = 65_536;
/// The longest profile id read; what claims to be longer is damage.
const MAX_PROFILE: usize = 256;

/// The begin of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The last change applied to the index when it was begun: replay the log after it.
    pub from: Sequence,
    /// How many collections it holds.
    pub sections: u32,
}

/// The begin of a collection's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Which collection.
    pub collection: CollectionId,
    /// The width of its hashes.
    pub width: Width,
    /// The profile of its fingerprints, `name@version`.
    pub profile: String,
}

/// What a reader met in place of a snapshot.
pub(super) enum Flaw {
    Io(io::Error),
    Damage { offset: u64, what: &'static str },
    Newer(u32),
}

impl From<io::Error> for Flaw {
    fn from(error: io::Error) -> Flaw {
        Flaw::Io(error)
    }
}

/// Writes a snapshot front to back.
pub(super) struct Writer<T> {
    out: T,
    checksum: Xxh3Default,
    chunk: Vec<u8>,
    in_chunk: usize,
}

impl<T: Write> Writer<T> {
    pub(super) fn begin(out: T, header: Header) -> io::Result<Writer<T>> {
        let mut writer = Writer { out, checksum: Xxh3Default::new(), chunk: Vec::new(), in_chunk: 0 };
        writer.put(MAGIC)?;
        writer.put(&FORMAT.to_le_bytes())?;
        writer.put(&header.from.0.to_le_bytes())?;
        writer.put(&header.sections.to_le_bytes())?;
        Ok(writer)
    }

    pub(super) fn section(&mut self, section: &Section) -> io::Result<()> {
        let mut bytes = Vec::new();
        bytes.extend(section.collection.0.to_le_bytes());
        bytes.extend(section.width.bits().to_le_bytes());
        bytes.extend((section.profile.len() as u32).to_le_bytes());
        bytes.extend(section.profile.as_bytes());
        let checksum = xxh3_64(&bytes);
        self.put(&bytes)?;
        self.put(&checksum.to_le_bytes())
    }

    pub(super) fn hash(&mut self, hash: Hash) -> io::Result<()> {
        hash.write_bytes(&mut self.chunk);
        self.in_chunk += 1;
        if self.in_chunk == CHUNK { self.end_chunk() } else { Ok(()) }
    }

    pub(super) fn end_section(&mut self) -> io::Result<()> {
        if self.in_chunk > 0 {
            self.end_chunk()?;
        }
        self.put(&0u32.to_le_bytes())
    }

    /// Writes the footer; answers with the file's checksum.
    pub(super) fn finish(mut self, through: Sequence) -> io::Result<(T, u64)> {
        self.put(&through.0.to_le_bytes())?;
        let checksum = self.checksum.digest();
        self.out.write_all(&checksum.to_le_bytes())?;
        self.out.flush()?;
        Ok((self.out, checksum))
    }

    fn end_chunk(&mut self) -> io::Result<()> {
        let chunk = std::mem::take(&mut self.chunk);
        self.put(&(self.in_chunk as u32).to_le_bytes())?;
        self.put(&chunk)?;
        self.put(&xxh3_64(&chunk).to_le_bytes())?;
        self.in_chunk = 0;
        self.chunk = chunk;
        self.chunk.clear();
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.checksum.update(bytes);
        self.out.write_all(bytes)
    }
}

/// Reads a snapshot front to back, handing out nothing whose checksum it has not compared.
pub(super) struct Reader<T> {
    input: T,
    checksum: Xxh3Default,
    offset: u64,
}

impl<T: Read> Reader<T> {
    pub(super) fn begin(input: T) -> Result<(Reader<T>, Header), Flaw> {
        let mut reader = Reader { input, checksum: Xxh3Default::new(), offset: 0 };
        if &reader.take::<8>()? != MAGIC {
            return Err(Flaw::Damage { offset: 0, what: "it does not begin like a snapshot" });
        }
        let format = reader.u32()?;
        if format == 0 {
            return Err(reader.damage(4, "it has no format number"));
        }
        if format > FORMAT {
            return Err(Flaw::Newer(format));
        }
        let from = Sequence(reader.u64()?);
        let sections = reader.u32()?;
        Ok((reader, Header { from, sections }))
    }

    pub(super) fn section(&mut self) -> Result<Section, Flaw> {
        let start = self.offset;
        let (collection, bits) = (self.u32()?, self.u32()?);
        let length = self.u32()? as usize;
        if length > MAX_PROFILE {
            return Err(self.damage(4, "the length of a profile id is impossible"));
        }
        let profile = self.bytes(length)?;
        let mut bytes = Vec::new();
        bytes.extend(collection.to_le_bytes());
        bytes.extend(bits.to_le_bytes());
        bytes.extend((length as u32).to_le_bytes());
        bytes.extend(&profile);
        if xxh3_64(&bytes) != self.u64()? {
            return Err(Flaw::Damage { offset: start, what: "the checksum of a section differs" });
        }
        let width = Width::from_bits(bits).ok_or(self.damage(0, "a width is impossible"))?;
        let profile = String::from_utf8(profile).map_err(|_| self.damage(0, "a profile id is no text"))?;
        Ok(Section { collection: CollectionId(collection), width, profile })
    }

    /// The hashes of the next chunk, or `None` at the section's end.
    pub(super) fn chunk(&mut self, width: Width) -> Result<Option<Vec<Hash>>, Flaw> {
        let start = self.offset;
        let count = self.u32()? as usize;
        if count == 0 {
            return Ok(None);
        }
        if count > CHUNK {
            return Err(self.damage(4, "the size of a chunk is impossible"));
        }
        let bytes = self.bytes(count * width.bytes())?;
        if xxh3_64(&bytes) != self.u64()? {
            return Err(Flaw::Damage { offset: start, what: "the checksum of a chunk of hashes differs" });
        }
        Ok(Some(bytes.chunks_exact(width.bytes()).filter_map(Hash::from_bytes).collect()))
    }

    /// Reads the footer and compares the checksum of the file; answers with `through` and the checksum.
    pub(super) fn finish(mut self) -> Result<(Sequence, u64), Flaw> {
        let through = Sequence(self.u64()?);
        let expected = self.checksum.digest();
        let found = u64::from_le_bytes(self.take::<8>()?);
        if found != expected {
            return Err(self.damage(8, "the checksum of the file differs"));
        }
        if self.input.read(&mut [0])? != 0 {
            return Err(self.damage(0, "there are bytes after its end"));
        }
        Ok((through, found))
    }

    fn u32(&mut self) -> Result<u32, Flaw> {
        self.take::<4>().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Flaw> {
        self.take::<8>().map(u64::from_le_bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Flaw> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn bytes(&mut self, count: usize) -> Result<Vec<u8>, Flaw> {
        let mut bytes = vec![0; count];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Flaw> {
        self.input.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.damage(0, "it ends too early"),
            _ => Flaw::Io(error),
        })?;
        self.checksum.update(bytes);
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Damage that begins so many bytes before the place reached.
    fn damage(&self, back: u64, what: &'static str) -> Flaw {
        Flaw::Damage { offset: self.offset.saturating_sub(back), what }
    }
}
