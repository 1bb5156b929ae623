//! The files in a tar archive, compressed or not, one after the other in the order of the archive.
//!
//! It guarantees that every file is read to its end or passed over with a reason, in archives of tar (v7,
//! ustar, GNU), pax and star, and in several of them one after the other in one file. Nothing is written to
//! the disk. *Absent*: the content of links, which is elsewhere in the archive, of archives in archives, and
//! of sparse files with holes, which are no texts.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use tar::{Entry, EntryType};

use super::{Format, Reading, Skipped, is_archive, shown, wrong};

/// The size of a block, in bytes.
const BLOCK: u64 = 512;
/// How a file with the attributes of another begins, which macOS names as that with `._` before it.
pub(super) const APPLE_DOUBLE: [u8; 4] = [0, 5, 0x16, 7];

/// Whether the name is that of a tar archive.
pub(super) fn is_tar(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    [".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst"].iter().any(|ending| name.ends_with(ending))
}

/// A file in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its path in the archive.
    pub path: PathBuf,
    /// Its number among the members of the archive.
    pub(super) number: usize,
    /// Its size in bytes.
    pub bytes: u64,
    pub(super) mode: u32,
    /// The time of its last change, in seconds since 1970.
    pub(super) modified: u64,
}

impl Member {
    /// The header of a file in its place, with another size. The path is still to be set.
    pub fn header(&self, bytes: u64) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes);
        header.set_mode(self.mode);
        header.set_mtime(self.modified);
        header
    }

    /// Its path as the user sees it, after that of its archive.
    pub fn shown(&self, archive: &Path) -> String {
        format!("{}/{}", shown(archive), shown(&self.path))
    }

    /// The name under which tar extracts it: relative, and without what leads out of the folder.
    pub fn relative(&self) -> PathBuf {
        let names: Vec<Component> = self.path.components().collect();
        let inside = names.rsplit(|name| *name == Component::ParentDir).next().unwrap_or_default();
        inside.iter().filter(|name| matches!(name, Component::Normal(_))).collect()
    }
}

/// The format of a file in an archive: `named` by the user, or the one that its name tells. With `images`,
/// they are read in place of texts.
pub fn format_of(name: &Path, named: Option<Format>, images: bool) -> Result<Format, Skipped> {
    let told = || Format::named(name).filter(|format| format.is_for(images));
    match named.or_else(told) {
        Some(format) if format.is_columnar() => Err(Skipped::Columns),
        Some(format) => Ok(format),
        None if is_archive(name) => Err(Skipped::Archive),
        None => Err(Skipped::Ending),
    }
}

/// Calls `each` with every file in the archive, and its bytes or why it has none to read, until it returns
/// `false`.
pub(super) fn each_file(
    read: Reading<'_>,
    each: &mut dyn FnMut(&Member, Result<Reading<'_>, Skipped>) -> bool,
) -> io::Result<()> {
    let mut archive = tar::Archive::new(read);
    // Zeros end an archive, and another one may follow.
    archive.set_ignore_zeros(true);
    for (number, stored) in archive.entries()?.enumerate() {
        let mut stored = stored.map_err(|error| plain(&error))?;
        let Some(kind) = kind(&stored) else { continue };
        let sparse = Sparse::of(&mut stored)?;
        let path = match sparse.name {
            Some(name) => name,
            None => stored.path()?.into_owned(),
        };
        let header = stored.header();
        // A time before 1970 has another form.
        let (mode, modified) = (header.mode().unwrap_or(0o644), header.mtime().unwrap_or(0));
        let bytes = sparse.bytes.unwrap_or(stored.size());
        let member = Member { path, number, bytes, mode, modified };
        let content = kind.and(if sparse.has_holes { Err(Skipped::Holes) } else { Ok(()) });
        let is_wanted = if let Err(reason) = content {
            each(&member, Err(reason))
        } else {
            let mut read = BufReader::with_capacity(64 << 10, Whole { read: stored, left: bytes });
            let name = member.path.file_name().unwrap_or_default();
            if name.as_encoded_bytes().starts_with(b"._") && read.fill_buf()?.starts_with(&APPLE_DOUBLE) {
                each(&member, Err(Skipped::AppleDouble))
            } else {
                each(&member, Ok(Box::new(read)))
            }
        };
        if !is_wanted {
            break;
        }
    }
    Ok(())
}

/// The error of the library in plain words.
fn plain(error: &io::Error) -> io::Error {
    let message = error.to_string();
    if message.contains("unexpected EOF") || message == "failed to read entire block" {
        return io::Error::new(io::ErrorKind::UnexpectedEof, "it ends too early");
    }
    if message.contains("checksum") || message.contains("numeric field") {
        return wrong("a member has no valid header of tar");
    }
    io::Error::new(error.kind(), message)
}

/// Whether a member has the content of a file; `None` of members that are no file.
fn kind(member: &Entry<'_, impl Read>) -> Option<Result<(), Skipped>> {
    let is_folder = member.path_bytes().ends_with(b"/");
    match member.header().entry_type() {
        // In the format of 1979 only the name shows that it is a folder.
        EntryType::Regular if is_folder => None,
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => Some(Ok(())),
        // GNU tar writes the list of a folder and the name of a volume, too.
        EntryType::Directory | EntryType::XGlobalHeader => None,
        other if [b'D', b'V'].contains(&other.as_byte()) => None,
        EntryType::Link => Some(Err(Skipped::HardLink)),
        EntryType::Symlink => Some(Err(Skipped::SymbolicLink)),
        EntryType::Char | EntryType::Block | EntryType::Fifo => Some(Err(Skipped::Device)),
        other if other.as_byte() == b'M' => Some(Err(Skipped::Volume)),
        _ => Some(Err(Skipped::Member)),
    }
}

/// The facts about a sparse file in its header. File systems that compress make tar write whole files as
/// sparse ones.
#[derive(Default)]
struct Sparse {
    has_holes: bool,
    /// The name and the size of the file, if the header has others.
    name: Option<PathBuf>,
    bytes: Option<u64>,
}

impl Sparse {
    /// Reads the list of parts, if the content begins with it.
    fn of(member: &mut Entry<'_, impl Read>) -> io::Result<Sparse> {
        if member.header().entry_type() == EntryType::GNUSparse {
            let has_holes = member.header().entry_size()? != member.size();
            return Ok(Sparse { has_holes, ..Sparse::default() });
        }
        let (mut sparse, mut is_sparse, mut has_list) = (Sparse::default(), false, false);
        for record in member.pax_extensions()?.into_iter().flatten() {
            let record = record?;
            let number = || record.value().ok().and_then(|value| value.parse::<u64>().ok());
            match record.key() {
                Ok("GNU.sparse.name") => sparse.name = Some(OsStr::from_bytes(record.value_bytes()).into()),
                Ok("GNU.sparse.size" | "GNU.sparse.realsize") => sparse.bytes = number(),
                Ok("GNU.sparse.major") => has_list = number() != Some(0),
                _ => {}
            }
            is_sparse |= record.key_bytes().starts_with(b"GNU.sparse.");
        }
        if is_sparse {
            let stored = if has_list { listed(member)? } else { Some(member.size()) };
            sparse.has_holes = stored.is_none() || stored != sparse.bytes;
        }
        Ok(sparse)
    }
}

/// The size of all parts in the list that begins the content, which is read; `None` if the list is longer
/// than a block, as only that of a file with holes is.
fn listed(member: &mut Entry<'_, impl Read>) -> io::Result<Option<u64>> {
    let mut block = Vec::new();
    member.by_ref().take(BLOCK).read_to_end(&mut block)?;
    let text = String::from_utf8_lossy(&block);
    let numbers: Vec<u64> = text.lines().map_while(|line| line.parse().ok()).collect();
    let Some((count, parts)) = numbers.split_first() else { return Ok(None) };
    let parts = usize::try_from(*count).ok().and_then(|count| parts.get(..count.checked_mul(2)?));
    Ok(parts.map(|parts| parts.chunks(2).map(|part| part[1]).fold(0, u64::saturating_add)))
}

/// The bytes of a file, of which none may be missing.
struct Whole<R> {
    read: R,
    left: u64,
}

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read.read(buffer)?;
        self.left = self.left.saturating_sub(count as u64);
        if count == 0 && self.left > 0 && !buffer.is_empty() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the archive ends within it"));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A member of an archive.
    fn member(kind: u8, name: &str, content: &[u8]) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(EntryType::new(kind));
        header.set_size(content.len() as u64);
        header.set_cksum();
        padded([&header.as_bytes()[..], content].concat())
    }

    fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.resize(bytes.len().next_multiple_of(BLOCK as usize), 0);
        bytes
    }

    /// A member with records of pax before it.
    fn with_pax(records: &[(&str, &str)], name: &str, content: &[u8]) -> Vec<u8> {
        let line = |(key, value): &(&str, &str)| {
            let rest = format!(" {key}={value}\n");
            let digits = if rest.len() + 2 < 100 { 2 } else { 3 };
            format!("{}{rest}", rest.len() + digits)
        };
        let records: String = records.iter().map(line).collect();
        [member(b'x', "pax", records.as_bytes()), member(b'0', name, content)].concat()
    }

    /// A member of GNU tar for a sparse file with this content and a hole before it.
    fn sparse(name: &str, hole: u64, content: &[u8]) -> Vec<u8> {
        let mut bytes = member(b'S', name, content);
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes().copy_from_slice(&bytes[..BLOCK as usize]);
        let octal = |number: u64| -> [u8; 12] { format!("{number:011o}\0").into_bytes().try_into().unwrap() };
        let gnu = header.as_gnu_mut().unwrap();
        (gnu.sparse[0].offset, gnu.sparse[0].numbytes) = (octal(hole), octal(content.len() as u64));
        gnu.realsize = octal(hole + content.len() as u64);
        header.set_cksum();
        bytes[..BLOCK as usize].copy_from_slice(header.as_bytes());
        bytes
    }

    /// The names in an archive, with the text of each or why there is none, and the error that ends it.
    #[allow(clippy::type_complexity, reason = "the type is named once")]
    fn found(bytes: &[u8]) -> (Vec<(String, Result<String, String>)>, Option<String>) {
        let mut all = Vec::new();
        let read = each_file(Box::new(io::Cursor::new(bytes.to_vec())), &mut |member, read| {
            let text = read.map_err(|reason| reason.to_string()).and_then(|mut read| {
                let mut text = String::new();
                read.read_to_string(&mut text).map(|_| text).map_err(|error| error.to_string())
            });
            let text = text.inspect(|text| assert_eq!(text.len() as u64, member.bytes));
            all.push((member.path.display().to_string(), text));
            true
        });
        (all, read.err().map(|error| error.to_string()))
    }

    #[test]
    fn every_file_is_read_or_passed_over_with_a_reason() {
        let text = |name: &str| (name.to_owned(), Ok("text".to_owned()));
        let other = |name: &str, reason: Skipped| (name.to_owned(), Err(reason.to_string()));
        let long = "x/".repeat(90) + "long.txt";
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(4);
        builder.append_data(&mut header, &long, &b"text"[..]).unwrap();
        let of_gnu = builder.into_inner().unwrap();
        let long_pax = "y/".repeat(90) + "pax.txt";
        let bytes = [
            member(b'0', "a.txt", b"text"),
            member(0, "old.txt", b"text"),
            member(0, "folder/", b""),
            member(b'5', "other/", b""),
            member(b'7', "contiguous.txt", b"text"),
            member(b'g', "pax_global_header", b"12 comment=x\n"),
            member(b'V', "volume", b""),
            member(b'1', "hard.txt", b""),
            member(b'2', "symbolic.txt", b""),
            member(b'3', "tty", b""),
            member(b'6', "pipe.txt", b""),
            member(b'M', "part.txt", b"text"),
            member(b'Z', "unknown.txt", b"text"),
            member(b'0', "._a.txt", b"\x00\x05\x16\x07\0\x02\0\0Mac OS X"),
            member(b'0', "._real.txt", b"text"),
            with_pax(&[("path", &long_pax), ("mtime", "1.5")], "short", b"text"),
            of_gnu,
        ]
        .concat();
        let expected = vec![
            text("a.txt"),
            text("old.txt"),
            text("contiguous.txt"),
            other("hard.txt", Skipped::HardLink),
            other("symbolic.txt", Skipped::SymbolicLink),
            other("tty", Skipped::Device),
            other("pipe.txt", Skipped::Device),
            other("part.txt", Skipped::Volume),
            other("unknown.txt", Skipped::Member),
            other("._a.txt", Skipped::AppleDouble),
            text("._real.txt"),
            text(&long_pax),
            text(&long),
        ];
        assert_eq!(found(&bytes), (expected.clone(), None));
        // Another archive follows, after the zeros that fill a record of 20 blocks.
        let mut two = bytes.clone();
        two.resize(two.len().next_multiple_of(10_240), 0);
        two.extend_from_slice(&bytes);
        assert_eq!(found(&two), ([expected.clone(), expected].concat(), None));
    }

    #[test]
    fn sparse_files_are_read_if_they_have_no_holes() {
        let list = |lines: &str, content: &[u8]| [&padded(lines.into())[..], content].concat();
        let name = ("GNU.sparse.name", "a.txt");
        let one = [("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), name];
        let with = |records: &[(&'static str, &'static str)], more: (&'static str, &'static str)| {
            [records, &[more]].concat()
        };
        let in_one = |size: &'static str| with(&one, ("GNU.sparse.realsize", size));
        let zero = [("GNU.sparse.offset", "0"), ("GNU.sparse.numbytes", "4"), ("path", "a.txt")];
        let whole = [
            sparse("a.txt", 0, b"text"),
            with_pax(&in_one("4"), "GNUSparseFile.7/a.txt", &list("1\n0\n4\n", b"text")),
            with_pax(&in_one("4"), "GNUSparseFile.7/a.txt", &list("2\n0\n4\n4\n0\n", b"text")),
            with_pax(&[("GNU.sparse.size", "4"), ("GNU.sparse.map", "0,4"), name], "x", b"text"),
            with_pax(&with(&zero, ("GNU.sparse.size", "4")), "x", b"text"),
        ];
        for bytes in whole {
            assert_eq!(found(&bytes), (vec![("a.txt".to_owned(), Ok("text".to_owned()))], None));
        }
        let with_holes = [
            sparse("a.txt", 512, b"text"),
            with_pax(&in_one("900"), "GNUSparseFile.7/a.txt", &list("2\n0\n4\n900\n0\n", b"text")),
            with_pax(&in_one("516"), "GNUSparseFile.7/a.txt", &list(&"9\n0\n".repeat(200), b"text")),
            with_pax(&in_one("4"), "GNUSparseFile.7/a.txt", b"no list"),
            with_pax(&[("GNU.sparse.size", "9"), ("GNU.sparse.map", "5,4"), name], "x", b"text"),
            with_pax(&with(&zero, ("GNU.sparse.size", "9")), "x", b"text"),
        ];
        for bytes in with_holes {
            let (all, error) = found(&[bytes, member(b'0', "b.txt", b"next")].concat());
            let expected = [("a.txt", Err(Skipped::Holes.to_string())), ("b.txt", Ok("next".to_owned()))];
            assert_eq!((all, error), (expected.map(|(name, text)| (name.to_owned(), text)).to_vec(), None));
        }
    }

    #[test]
    fn damage_is_an_error_of_the_file_that_it_is_in() {
        let bytes = [member(b'0', "a.txt", b"text"), member(b'0', "b.txt", &[b'x'; 700])].concat();
        for cut in [1030, 1536, 1700] {
            let (all, error) = found(&bytes[..cut]);
            assert_eq!(all[0].1.as_deref(), Ok("text"), "{cut}");
            assert_eq!(error.as_deref(), Some("it ends too early"), "{cut}");
            assert!(all.get(1).is_none_or(|(_, text)| text.as_ref().is_err()), "{cut} {all:?}");
        }
        let mut changed = bytes.clone();
        changed[1024] ^= 1;
        let (all, error) = found(&changed);
        assert_eq!((all.len(), error.as_deref()), (1, Some("a member has no valid header of tar")));
    }

    #[test]
    fn names_are_relative_when_they_are_written() {
        for (path, expected) in [
            ("a/b.txt", "a/b.txt"),
            ("/srv/a.txt", "srv/a.txt"),
            ("./a.txt", "a.txt"),
            ("../../etc/a.txt", "etc/a.txt"),
            ("a/../../b.txt", "b.txt"),
        ] {
            let member = Member { path: path.into(), number: 0, bytes: 0, mode: 0, modified: 0 };
            assert_eq!(member.relative(), Path::new(expected));
        }
    }
}
