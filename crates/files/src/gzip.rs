//! Gzip: any number of members in one file, and the place of each.

use std::io::{self, BufRead, Read};
use std::sync::Arc;

use flate2::bufread::GzDecoder;
use parking_lot::Mutex;

use super::wrong;

/// Where a part of a file begins: in the data, and in the file.
#[derive(Clone, Copy, Debug, Default)]
struct Start {
    unpacked: u64,
    packed: u64,
    is_packed: bool,
}

/// Relates places in the unpacked data to places in the file.
#[derive(Clone, Debug, Default)]
pub struct Places(Arc<Mutex<Start>>);

impl Places {
    /// Those of a compressed file of which no place is known.
    pub(super) fn unknown() -> Places {
        let start = Start { unpacked: u64::MAX, packed: 0, is_packed: true };
        Places(Arc::new(Mutex::new(start)))
    }

    /// The place in the file of data that begin at `unpacked`, whose first byte was read and none after its
    /// buffer: that of the member that begins there. `None` if none does.
    pub(super) fn of(&self, unpacked: u64) -> Option<u64> {
        let start = *self.0.lock();
        if start.is_packed { (start.unpacked == unpacked).then_some(start.packed) } else { Some(unpacked) }
    }
}

/// Counts the bytes that are taken out of a buffer.
pub(super) struct Consumed<R>(pub(super) R, pub(super) u64);

impl<R: BufRead> Read for Consumed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        self.1 += count as u64;
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Consumed<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.0.consume(count);
        self.1 += count as u64;
    }
}

/// How a member begins.
pub(super) const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Decompresses gzip data of any number of members. One read returns bytes of one member. Zeros after a
/// member fill a block of a tape, and mean nothing.
pub(super) struct Gzip<R: BufRead> {
    decoder: Option<GzDecoder<Consumed<R>>>,
    rest: Option<Consumed<R>>,
    has_begun: bool,
    passed: u64,
    places: Places,
}

impl<R: BufRead> Gzip<R> {
    pub(super) fn new(read: R, places: Places) -> Gzip<R> {
        Gzip { decoder: None, rest: Some(Consumed(read, 0)), has_begun: false, passed: 0, places }
    }
}

/// The error of the library in plain words.
fn plain(error: &io::Error) -> io::Error {
    let why = match error.kind() {
        io::ErrorKind::UnexpectedEof => "it ends too early".to_owned(),
        _ => error.to_string(),
    };
    io::Error::new(error.kind(), format!("not valid gzip data: {why}"))
}

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(decoder) = &mut self.decoder {
                let count = decoder.read(buffer).map_err(|error| plain(&error))?;
                self.passed += count as u64;
                if count > 0 || buffer.is_empty() {
                    return Ok(count);
                }
            }
            if let Some(decoder) = self.decoder.take() {
                self.rest = Some(decoder.into_inner());
            }
            let Some(mut rest) = self.rest.take() else { return Ok(0) };
            while self.has_begun && rest.fill_buf()?.first() == Some(&0) {
                let zeros = rest.fill_buf()?.iter().take_while(|byte| **byte == 0).count();
                rest.consume(zeros);
            }
            if rest.fill_buf()?.is_empty() {
                return Ok(0);
            }
            if self.has_begun && rest.fill_buf()?.first() != MAGIC.first() {
                return Err(wrong("not valid gzip data: something else follows them"));
            }
            self.has_begun = true;
            *self.places.0.lock() = Start { unpacked: self.passed, packed: rest.1, is_packed: true };
            self.decoder = Some(GzDecoder::new(rest));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write};

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn all_members_are_decompressed_and_their_places_are_known() {
        let parts: [&[u8]; 4] = [b"one\n", b"two\n", b"", b"three"];
        let (mut packed, mut starts) = (Vec::new(), Vec::new());
        for part in parts {
            starts.push(packed.len() as u64);
            let mut encoder = GzEncoder::new(packed, Compression::fast());
            encoder.write_all(part).unwrap();
            packed = encoder.finish().unwrap();
        }
        let places = Places::default();
        let read = |bytes: &[u8]| Gzip::new(io::Cursor::new(bytes.to_vec()), places.clone());
        let mut lines = Consumed(BufReader::new(read(&packed)), 0);
        for (line, start) in [("one\n", starts[0]), ("two\n", starts[1]), ("three", starts[3])] {
            lines.fill_buf().unwrap();
            assert_eq!(places.of(lines.1), Some(start));
            let mut found = String::new();
            lines.read_line(&mut found).unwrap();
            assert_eq!(found, line);
        }
        for cut in 1..packed.len() {
            let whole = starts.contains(&(cut as u64));
            assert_eq!(read(&packed[..cut]).read_to_end(&mut Vec::new()).is_ok(), whole, "{cut}");
        }
        let mut text = String::new();
        read(&[&packed[..], &[0; 700], &packed, &[0; 700]].concat()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo\nthreeone\ntwo\nthree");
        let error = read(&[&packed[..], b"x"].concat()).read_to_end(&mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("something else follows"), "{error}");
    }
}
