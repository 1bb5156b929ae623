//! Bob Jenkins' lookup3 (public domain, 2006), `hashlittle2` with both seeds 0: the hash of yanyiwu/simhash.
//!
//! Its only purpose is to compute the fingerprints of that program: `XXH3` is as good and faster. Not here:
//! seeds, and the variants for words and big-endian machines, which give other values.

/// The 64 bits of `hashlittle2`: its first result (`pc`) in the upper half, its second (`pb`) in the lower.
pub(super) fn lookup3(bytes: &[u8]) -> u64 {
    let start = 0xdead_beef_u32.wrapping_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    let mut state = [start; 3];
    let mut rest = bytes;
    while rest.len() > 12 {
        let (block, after) = rest.split_at(12);
        take(&mut state, block);
        mix(&mut state);
        rest = after;
    }
    if !rest.is_empty() {
        take(&mut state, rest);
        finish(&mut state);
    }
    let [_, b, c] = state;
    u64::from(c) << 32 | u64::from(b)
}

/// Adds up to twelve bytes as three little-endian numbers; missing bytes are 0.
fn take(state: &mut [u32; 3], bytes: &[u8]) {
    for (word, bytes) in state.iter_mut().zip(bytes.chunks(4)) {
        let number = bytes.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte));
        *word = word.wrapping_add(number);
    }
}

/// Six rounds. Each subtracts, rotates and adds; then the roles of the three words rotate.
fn mix([a, b, c]: &mut [u32; 3]) {
    let round = |a: &mut u32, b: &mut u32, c: &mut u32, bits: u32| {
        *a = a.wrapping_sub(*c) ^ c.rotate_left(bits);
        *c = c.wrapping_add(*b);
    };
    round(a, b, c, 4);
    round(b, c, a, 6);
    round(c, a, b, 8);
    round(a, b, c, 16);
    round(b, c, a, 19);
    round(c, a, b, 4);
}

fn finish([a, b, c]: &mut [u32; 3]) {
    let round = |x: &mut u32, y: u32, bits: u32| *x = (*x ^ y).wrapping_sub(y.rotate_left(bits));
    round(c, *b, 14);
    round(a, *c, 11);
    round(b, *a, 25);
    round(c, *b, 16);
    round(a, *c, 4);
    round(b, *a, 14);
    round(c, *b, 24);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are from the driver in the author's file: for no bytes and for thirty bytes.
    #[test]
    fn hashes_match_the_authors_values() {
        assert_eq!(lookup3(b""), 0xdead_beef_dead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551_ce72_26e6);
    }

    #[test]
    fn every_length_of_the_tail_has_its_own_value() {
        let text = b"abcdefghijklmnopqrstuvwxyz";
        let all: std::collections::HashSet<u64> = (0..=text.len()).map(|end| lookup3(&text[..end])).collect();
        assert_eq!(all.len(), text.len() + 1);
    }
}
