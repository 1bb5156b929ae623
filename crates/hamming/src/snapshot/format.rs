//! The bytes of a snapshot, which `docs/formats.md` documents.
//!
//! ```text
//! header   "lklsnap\n"  u32 format  u64 from  u32 sections
//! section  u32 collection  u32 bits  u32 length, profile  u64 checksum of these
//!          chunks: u32 count (1 to 16,384)  u8 rice  u32 length  first hash  gaps (see `gaps`)
//!                  u64 checksum of these
//!          u32 0
//! footer   u64 hashes in all  u64 through  u64 checksum of every byte before
//! ```
//! Numbers are little-endian, hashes are big-endian, checksums are XXH3 of 64 bits.
//!
//! *Absent*: the bits of the gaps (`gaps`), and files (`files`).

use std::io::{self, Read, Write};

use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use super::gaps::{CHUNK, Number, PAD, Packed, most_bytes};
use lookalike_hash::{CollectionId, Hash, Sequence, U256, Width};

/// The first bytes of every snapshot.
pub(super) const MAGIC: &[u8; 8] = b"lklsnap\n";
/// The layout that is written, and the newest one that can be read.
pub(super) const FORMAT: u32 = 1;
/// The most bytes of a profile id. A longer one is damage.
const MAX_PROFILE: usize = 256;

/// The header of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The last change that the index contained when the snapshot was begun. The history after it must be
    /// replayed.
    pub from: Sequence,
    /// The number of its collections.
    pub sections: u32,
}

/// The header of a section, which has the hashes of one collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The collection.
    pub collection: CollectionId,
    /// The width of its hashes.
    pub width: Width,
    /// The profile of its fingerprints, `name@version`.
    pub profile: String,
}

/// A reason why a reader refuses a snapshot.
#[derive(Debug)]
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

/// A chunk, and its offset in the file.
pub(super) struct Chunk {
    pub(super) offset: u64,
    pub(super) packed: Packed,
}

/// Writes a snapshot from front to back.
pub(super) struct Writer<T> {
    out: T,
    checksum: Xxh3Default,
    width: Width,
    chunk: Vec<Hash>,
    hashes: u64,
}

impl<T: Write> Writer<T> {
    pub(super) fn begin(out: T, header: Header) -> io::Result<Writer<T>> {
        let checksum = Xxh3Default::new();
        let chunk = Vec::with_capacity(CHUNK);
        let mut writer = Writer { out, checksum, width: Width::Bits64, chunk, hashes: 0 };
        writer.put(MAGIC)?;
        writer.put(&FORMAT.to_le_bytes())?;
        writer.put(&header.from.0.to_le_bytes())?;
        writer.put(&header.sections.to_le_bytes())?;
        Ok(writer)
    }

    pub(super) fn section(&mut self, section: &Section) -> io::Result<()> {
        self.width = section.width;
        let bytes = section_bytes(section);
        self.put(&bytes)?;
        self.put(&xxh3_64(&bytes).to_le_bytes())
    }

    /// Appends a hash to the section. The hashes must ascend.
    pub(super) fn hash(&mut self, hash: Hash) -> io::Result<()> {
        self.chunk.push(hash);
        if self.chunk.len() == CHUNK { self.end_chunk() } else { Ok(()) }
    }

    pub(super) fn end_section(&mut self) -> io::Result<()> {
        if !self.chunk.is_empty() {
            self.end_chunk()?;
        }
        self.put(&0u32.to_le_bytes())
    }

    /// Writes the footer. Returns the checksum of the file.
    pub(super) fn finish(mut self, through: Sequence) -> io::Result<(T, u64)> {
        let hashes = self.hashes;
        self.put(&hashes.to_le_bytes())?;
        self.put(&through.0.to_le_bytes())?;
        let checksum = self.checksum.digest();
        self.out.write_all(&checksum.to_le_bytes())?;
        self.out.flush()?;
        Ok((self.out, checksum))
    }

    fn end_chunk(&mut self) -> io::Result<()> {
        let packed = pack(self.width, &self.chunk);
        let packed = packed.ok_or_else(|| io::Error::other("the hashes of the index are out of order"))?;
        self.hashes += u64::from(packed.count);
        self.chunk.clear();
        let bytes = packed.bytes();
        let mut chunk = chunk_head(&packed, bytes.len() as u32);
        chunk.extend_from_slice(bytes);
        self.put(&chunk)?;
        self.put(&xxh3_64(&chunk).to_le_bytes())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.checksum.update(bytes);
        self.out.write_all(bytes)
    }
}

fn section_bytes(section: &Section) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(section.collection.0.to_le_bytes());
    bytes.extend(section.width.bits().to_le_bytes());
    bytes.extend((section.profile.len() as u32).to_le_bytes());
    bytes.extend(section.profile.as_bytes());
    bytes
}

fn chunk_head(packed: &Packed, length: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length as usize + 32);
    bytes.extend(packed.count.to_le_bytes());
    bytes.push(packed.rice);
    bytes.extend(length.to_le_bytes());
    packed.first.write_bytes(&mut bytes);
    bytes
}

/// Packs hashes of a width, at least one and at most [`CHUNK`]; `None` if they do not ascend or one has
/// another width.
pub(super) fn pack(width: Width, hashes: &[Hash]) -> Option<Packed> {
    fn packed<W: Number>(hashes: &[Hash]) -> Option<Packed> {
        let words: Option<Vec<W>> = hashes.iter().map(|hash| W::from_hash(*hash)).collect();
        Packed::of(&words?)
    }
    match width {
        Width::Bits64 => packed::<u64>(hashes),
        Width::Bits128 => packed::<u128>(hashes),
        Width::Bits256 => packed::<U256>(hashes),
    }
}

/// Reads a snapshot from front to back. Returns nothing before its checksum is compared.
pub(super) struct Reader<T> {
    input: T,
    checksum: Xxh3Default,
    offset: u64,
    hashes: u64,
}

impl<T: Read> Reader<T> {
    pub(super) fn begin(input: T) -> Result<(Reader<T>, Header), Flaw> {
        let mut reader = Reader { input, checksum: Xxh3Default::new(), offset: 0, hashes: 0 };
        if &reader.take::<8>()? != MAGIC {
            return Err(Flaw::Damage { offset: 0, what: "it does not begin with the header of a snapshot" });
        }
        match reader.u32()? {
            0 => return Err(reader.damage(4, "it has no format number")),
            FORMAT => {}
            newer => return Err(Flaw::Newer(newer)),
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
        let width = Width::from_bits(bits).ok_or(self.damage(0, "a width is impossible"))?;
        let profile = String::from_utf8(profile).map_err(|_| self.damage(0, "a profile id is not text"))?;
        let section = Section { collection: CollectionId(collection), width, profile };
        if xxh3_64(&section_bytes(&section)) != self.u64()? {
            return Err(Flaw::Damage { offset: start, what: "the checksum of a section differs" });
        }
        Ok(section)
    }

    /// Reads the next chunk. `None` at the end of the section.
    pub(super) fn chunk(&mut self, width: Width) -> Result<Option<Chunk>, Flaw> {
        let offset = self.offset;
        let count = self.u32()?;
        if count == 0 {
            return Ok(None);
        }
        let packed = self.packed(width, count)?;
        self.hashes += u64::from(count);
        Ok(Some(Chunk { offset, packed }))
    }

    fn packed(&mut self, width: Width, count: u32) -> Result<Packed, Flaw> {
        let start = self.offset - 4;
        let [rice] = self.take::<1>()?;
        let length = self.u32()?;
        if count as usize > CHUNK || length as usize > most_bytes(count, width) {
            return Err(Flaw::Damage { offset: start, what: "the size of a chunk is impossible" });
        }
        let first = self.bytes(width.bytes())?;
        let first = Hash::from_bytes(&first).ok_or(self.damage(0, "a hash is impossible"))?;
        let mut bits = vec![0; length as usize + PAD];
        self.fill(&mut bits[..length as usize])?;
        let packed = Packed { count, rice, first, bits };
        let mut checksum = Xxh3Default::new();
        checksum.update(&chunk_head(&packed, length));
        checksum.update(packed.bytes());
        if checksum.digest() != self.u64()? {
            return Err(Flaw::Damage { offset: start, what: "the checksum of a chunk of hashes differs" });
        }
        Ok(packed)
    }

    /// Reads the footer and compares the checksum of the file. Returns `through` and the checksum.
    pub(super) fn finish(mut self) -> Result<(Sequence, u64), Flaw> {
        if self.u64()? != self.hashes {
            return Err(self.damage(8, "the number of hashes differs"));
        }
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
            io::ErrorKind::UnexpectedEof => self.damage(0, "it is truncated"),
            _ => Flaw::Io(error),
        })?;
        self.checksum.update(bytes);
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Damage that begins this many bytes before the current offset.
    fn damage(&self, back: u64, what: &'static str) -> Flaw {
        Flaw::Damage { offset: self.offset.saturating_sub(back), what }
    }
}

/// The flaw of hashes that do not ascend, and of bits that are not valid gaps.
pub(super) const OUT_OF_ORDER: &str = "a chunk does not hold ascending hashes";
