//! What is known of a JPEG file without decoding it.

use crate::Refusal;
use crate::kinds::Kind;

pub(crate) struct JpegFrame {
    /// The bytes a pixel that a progressive file takes for its coefficients.
    pub(crate) coefficient_bytes: u64,
}

impl JpegFrame {
    /// Reads the segments before the first scan, and looks for the end after it: the decoder would fill what
    /// is missing with grey.
    pub(crate) fn of(bytes: &[u8]) -> Result<JpegFrame, Refusal> {
        let (mut at, mut coefficient_bytes) = (2, 0);
        // The components of a frame that is not progressive, if some are smaller than others.
        let mut uneven = None;
        loop {
            let Some(&[marker, code, high, low]) = bytes.get(at..).and_then(<[u8]>::first_chunk) else {
                return Err(Kind::Jpeg.damaged(&"it has no scan"));
            };
            match (marker, code) {
                (0xff, 0xff) => at += 1,
                (0xff, 0xda) => {
                    let of_scan = bytes.get(at + 4).copied();
                    if uneven.is_some_and(|all| of_scan.is_some_and(|own| own < all)) {
                        return Err(Refusal::Scans);
                    }
                    break;
                }
                (0xff, _) => {
                    if matches!(code, 0xc0 | 0xc1) {
                        let count = bytes.get(at + 9).copied().unwrap_or_default();
                        let parts = bytes.get(at + 10..).unwrap_or_default().as_chunks::<3>().0;
                        let mut sizes = parts.iter().take(count.into()).map(|[_, size, _]| size);
                        let first = sizes.next();
                        uneven = sizes.any(|size| Some(size) != first).then_some(count);
                    }
                    if matches!(code, 0xc2 | 0xc6 | 0xca | 0xce) {
                        coefficient_bytes = 2 * u64::from(bytes.get(at + 9).copied().unwrap_or(4));
                    }
                    at += 2 + usize::from(u16::from_be_bytes([high, low]));
                }
                _ => at += 1,
            }
        }
        match memchr::memmem::rfind(&bytes[at..], b"\xff\xd9") {
            Some(_) => Ok(JpegFrame { coefficient_bytes }),
            None => Err(Kind::Jpeg.damaged(&"its end is missing")),
        }
    }
}
