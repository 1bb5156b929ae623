//! Lengths of stretches of the most frequent characters, found from their bytes, many at a time.
//!
//! Not here: the class of a character (`class`). These functions are shortcuts around it; the tests of their
//! callers compare the results with and without the shortcut.

/// The number of bytes at the beginning that pass a test. The test runs on sixteen bytes at a time, and
/// more than once on some, so it should be cheap and have no branch.
#[inline]
pub(super) fn leading(bytes: &[u8], is_one: impl Fn(&u8) -> bool) -> usize {
    let (blocks, _) = bytes.as_chunks::<16>();
    let whole =
        blocks.iter().take_while(|block| block.iter().fold(true, |all, byte| all & is_one(byte))).count();
    16 * whole + bytes[16 * whole..].iter().take_while(|byte| is_one(byte)).count()
}

/// The length in bytes of the CJK ideographs at the beginning of a text: U+4E00 to U+9FFF, three bytes each.
#[inline]
pub(super) fn ideographs(bytes: &[u8]) -> usize {
    let (characters, _) = bytes.as_chunks::<3>();
    let is_one =
        |&[first, second, _]: &[u8; 3]| (0xe5..=0xe9).contains(&first) || (first == 0xe4 && second >= 0xb8);
    3 * characters.iter().take_while(|character| is_one(character)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_end_where_they_should() {
        for length in 0..70 {
            for other in [" ", "é", ""] {
                let text = format!("{}{other}{}", "a".repeat(length), "a".repeat(20));
                let expected = text.bytes().take_while(u8::is_ascii_lowercase).count();
                assert_eq!(leading(text.as_bytes(), u8::is_ascii_lowercase), expected);
            }
        }
    }

    #[test]
    fn ideographs_are_those_of_the_block() {
        for c in ('\u{80}'..='\u{ffff}').chain('\u{20000}'..='\u{20100}') {
            let text = format!("中{c}");
            let expected = if ('\u{4e00}'..='\u{9fff}').contains(&c) { 6 } else { 3 };
            assert_eq!(ideographs(text.as_bytes()), expected, "U+{:04X}", u32::from(c));
        }
        assert_eq!([ideographs(b""), ideographs(b"ab")], [0, 0]);
    }
}
