//! The files in a zip archive, in the order of its list, which is at its end.
//!
//! It guarantees that every file is passed on or passed over with a reason: encrypted ones, other methods
//! than deflate, and sizes above the limit are named. An archive is refused whose files share bytes, as those
//! of bombs do, or share a name. Nothing is written to the disk. *Absent*: archives in archives, in several
//! parts.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use zip::result::ZipError;
use zip::{CompressionMethod, DateTime, ZipArchive};

use super::cut::LONGEST;
use super::tar::{APPLE_DOUBLE, Member, each_file, is_tar};
use super::{Opens, Original, Reading, Skipped, unpacked, wrong};

/// Whether the name is that of a zip archive.
fn is_zip(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("zip"))
}

/// Whether the name is that of an archive of files.
pub fn is_archive(path: &Path) -> bool {
    is_tar(path) || is_zip(path)
}

/// The path of an archive that is written: a zip archive becomes a tar.
pub fn written_as(place: &Path) -> PathBuf {
    if is_zip(place) { place.with_extension("tar") } else { place.to_owned() }
}

/// Calls `each` with every file in an archive, and its bytes or why it has none to read, until it returns
/// `false`. `passed` counts the bytes read of a tar.
pub fn each_member(
    path: &Original,
    passed: &Arc<AtomicU64>,
    each: &mut dyn FnMut(&Member, Result<Reading<'_>, Skipped>) -> bool,
) -> io::Result<()> {
    if !is_zip(path) {
        return each_file(unpacked(path, passed)?, each);
    }
    if path.is_stream() {
        return Err(wrong("a zip archive cannot be a pipe, because its end is read first"));
    }
    each_zipped(path.chunks()?.from(0), each)
}

fn each_zipped(
    read: impl Read + Seek,
    each: &mut dyn FnMut(&Member, Result<Reading<'_>, Skipped>) -> bool,
) -> io::Result<()> {
    let mut archive = ZipArchive::new(BufReader::with_capacity(64 << 10, read)).map_err(plain)?;
    if archive.has_duplicate_names() {
        return Err(wrong("two files in it have one name: extract it, and name the folder"));
    }
    if archive.has_overlapping_files().map_err(plain)? {
        return Err(wrong("files in it share bytes, as in a bomb: extract it, and name the folder"));
    }
    for number in 0..archive.len() {
        let entry = archive.by_index_data(number).map_err(plain)?;
        if entry.is_dir() {
            continue;
        }
        let path = PathBuf::from(OsStr::from_bytes(entry.name_raw()));
        let mode = entry.unix_mode().unwrap_or(0o644) & 0o777;
        let modified = entry.last_modified().map_or(0, seconds);
        let member = Member { path, number, bytes: entry.size(), mode, modified };
        let passed_over = match entry.compression() {
            _ if entry.is_symlink() => Some(Skipped::SymbolicLink),
            _ if entry.encrypted() => Some(Skipped::Encrypted),
            CompressionMethod::Stored | CompressionMethod::Deflated if entry.size() > LONGEST as u64 => {
                Some(Skipped::Long)
            }
            CompressionMethod::Stored | CompressionMethod::Deflated => None,
            _ => Some(Skipped::Method),
        };
        let is_wanted = if let Some(reason) = passed_over {
            each(&member, Err(reason))
        } else {
            let stored: Box<dyn Read + '_> = match archive.by_index(number) {
                Ok(stored) => Box::new(stored),
                Err(error) => Box::new(Failed(Some(plain(error)))),
            };
            let mut read = BufReader::with_capacity(64 << 10, stored);
            let name = member.path.file_name().unwrap_or_default().as_encoded_bytes();
            let is_apple = name.starts_with(b"._")
                && read.fill_buf().is_ok_and(|first| first.starts_with(&APPLE_DOUBLE));
            each(&member, if is_apple { Err(Skipped::AppleDouble) } else { Ok(Box::new(read)) })
        };
        if !is_wanted {
            break;
        }
    }
    Ok(())
}

/// A file that cannot be read.
struct Failed(Option<io::Error>);

impl Read for Failed {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(self.0.take().unwrap_or_else(|| wrong("it cannot be read")))
    }
}

/// The error of the library in plain words.
fn plain(error: ZipError) -> io::Error {
    match error {
        ZipError::Io(error) => error,
        other => wrong(format!("it is no valid zip archive ({other})")),
    }
}

/// Seconds since 1970. The time of a zip archive has no zone: it is read as UTC.
fn seconds(time: DateTime) -> u64 {
    // Years begin in March, so that the day of a leap year comes last.
    let (year, month) = (u64::from(time.year()), u64::from(time.month()));
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = 365 * year + leap_days + (153 * month + 2) / 5 + u64::from(time.day()) - 1;
    let hours = 24 * (days - 719_468) + u64::from(time.hour());
    3_600 * hours + 60 * u64::from(time.minute()) + u64::from(time.second())
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::super::shown;
    use super::*;

    fn archive(files: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
        let mut to = ZipWriter::new(Cursor::new(Vec::new()));
        let time = DateTime::from_date_and_time(2024, 2, 29, 12, 30, 2).unwrap();
        let options = SimpleFileOptions::default().compression_method(method).last_modified_time(time);
        for (name, content) in files {
            if name.ends_with('/') {
                to.add_directory(*name, options).unwrap();
                continue;
            }
            to.start_file(*name, options).unwrap();
            to.write_all(content).unwrap();
        }
        to.finish().unwrap().into_inner()
    }

    /// The names in an archive, with the text of each or why there is none.
    fn found(bytes: Vec<u8>) -> io::Result<Vec<(String, String)>> {
        let mut all = Vec::new();
        each_zipped(Cursor::new(bytes), &mut |member, read| {
            let text = read.map_err(|reason| reason.to_string()).and_then(|mut read| {
                let mut text = String::new();
                read.read_to_string(&mut text).map(|_| text).map_err(|error| error.to_string())
            });
            all.push((shown(&member.path), text.unwrap_or_else(|why| format!("! {why}"))));
            true
        })?;
        Ok(all)
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn files_come_in_the_order_of_the_list() {
        let files: [(&str, &[u8]); 4] =
            [("b.txt", b"two"), ("d/", b""), ("d/a.txt", b"one"), ("._a", b"\0\x05\x16\x07")];
        let expected = [("b.txt", "two"), ("d/a.txt", "one"), ("._a", "! attributes of macOS")];
        for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
            assert_eq!(found(archive(&files, method)).unwrap(), pairs(&expected));
        }
        let time = DateTime::from_date_and_time(2024, 2, 29, 12, 30, 2).unwrap();
        assert_eq!(seconds(time), 1_709_209_802);
        assert_eq!(seconds(DateTime::default()), 315_532_800);
    }

    #[test]
    fn what_is_not_read_is_named_and_the_rest_is_read() {
        let bytes = archive(&[("a.txt", b"one"), ("b.txt", b"two")], CompressionMethod::Stored);
        // The list has flags at 8, the method at 10, the checksum at 16 and the size at 24 of each entry.
        let list = memchr::memmem::find(&bytes, b"PK\x01\x02").unwrap();
        let with = |at: usize, value: &[u8]| {
            let mut changed = bytes.clone();
            changed[list + at..][..value.len()].copy_from_slice(value);
            found(changed).unwrap()
        };
        for (at, value, why) in [
            (8, &[1_u8, 0][..], "! encrypted"),
            (10, &[12, 0], "! packed by a method that is not read"),
            (24, &[0, 0, 0, 0xf0], "! longer than 256 MiB"),
            (16, &[1, 2, 3, 4], "! Invalid checksum"),
        ] {
            assert_eq!(with(at, value), pairs(&[("a.txt", why), ("b.txt", "two")]), "{at}");
        }
    }

    #[test]
    fn archives_that_are_damaged_or_bombs_are_refused() {
        let bytes = archive(&[("a.txt", b"one"), ("b.txt", b"two")], CompressionMethod::Stored);
        let list = memchr::memmem::find(&bytes, b"PK\x01\x02").unwrap();
        let second = list + memchr::memmem::rfind(&bytes[list..], b"PK\x01\x02").unwrap();
        let refused = |bytes: Vec<u8>| found(bytes).unwrap_err().to_string();
        let mut shared = bytes.clone();
        // Where its data are: both entries have the first file.
        let place = bytes[list + 42..][..4].to_vec();
        shared[second + 42..][..4].copy_from_slice(&place);
        assert!(refused(shared).starts_with("files in it share bytes"));
        let mut named = bytes.clone();
        named[second + 46] = b'a';
        assert!(refused(named).starts_with("two files in it have one name"));
        for end in [0, 3, bytes.len() / 2, bytes.len() - 1] {
            assert!(refused(bytes[..end].to_vec()).starts_with("it is no valid zip archive"), "{end}");
        }
    }
}
