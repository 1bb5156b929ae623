//! An entry of the table of a band, and the form in which the table stores it.
//!
//! An entry is the hash of a band, 32 bits, and below it the number of a signature. A table orders entries
//! by a key: the hash of the band, then bits mixed from the whole entry. Queries use the hash. The mixed
//! bits only spread the entries of one band: they lead a writer directly to the line of an entry, even if
//! many signatures share the band.
//!
//! A segment stores an entry in two parts, in different lines: the back has the hash of the band but for
//! its first two bits, and two bits of the number; the front has the other bits of the number. The position
//! of an entry in a table implies the first two bits of its key. They are not stored; the front has the
//! state of the entry in their place: empty, occupied or removed. So every value of an entry can be stored,
//! and one read returns the state and the front.

/// The bits of a key: those of a hash, and enough more to distinguish the entries of one band.
pub(super) const KEY_BITS: u32 = 56;
/// The number of first bits of a key that its position implies.
pub(super) const LEAD_BITS: u32 = 2;
/// The number of first bits of an entry that the position of a packed entry implies.
pub(super) const IMPLIED_BITS: u32 = 16;
/// The bits of the hash of a band, and of the number of a signature.
pub(super) const BAND_BITS: u32 = 32;

/// The states of an entry, in the two highest bits of its front. 0 is an empty entry.
const OCCUPIED: u32 = 0b01;
const REMOVED: u32 = 0b10;
/// The bits of the number in a front, and where the state begins.
const FRONT_BITS: u32 = u32::BITS - LEAD_BITS;

/// The key of an entry.
#[inline(always)]
pub(super) fn key(entry: u64) -> u64 {
    const REST: u32 = KEY_BITS - BAND_BITS;
    u64::from(first(entry, BAND_BITS)) << REST | mixed(entry) >> (u64::BITS - REST)
}

/// A number that depends on every bit of the entry.
#[inline]
fn mixed(entry: u64) -> u64 {
    let mixed = (entry ^ (entry >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// The first bits of an entry: 1 to 32.
#[inline(always)]
pub(super) fn first(entry: u64, bits: u32) -> u32 {
    (entry >> (u64::BITS - bits)) as u32
}

/// The stored parts of an entry: front and back.
#[inline(always)]
pub(super) fn store(entry: u64) -> (u32, u32) {
    let front = entry as u32 & (u32::MAX >> LEAD_BITS);
    (front | OCCUPIED << FRONT_BITS, (entry >> FRONT_BITS) as u32)
}

/// The entry of these parts, whose key begins with `lead`; `None` if the entry is not occupied.
#[inline(always)]
pub(super) fn load((front, back): (u32, u32), lead: u32) -> Option<u64> {
    (front >> FRONT_BITS == OCCUPIED).then(|| {
        let front = front & (u32::MAX >> LEAD_BITS);
        u64::from(lead) << (u64::BITS - LEAD_BITS) | u64::from(back) << FRONT_BITS | u64::from(front)
    })
}

/// The entry whose packed form is `packed`, and whose first [`IMPLIED_BITS`] bits are those of `first`.
#[inline(always)]
pub(super) fn joined(first: u32, packed: u64) -> u64 {
    u64::from(first) << (u64::BITS - IMPLIED_BITS) | packed
}

/// The front of an entry that was removed.
pub(super) const fn removed_front() -> u32 {
    REMOVED << FRONT_BITS
}

/// Whether an entry was never used: the front is 0 only then, because the other states are not 0.
#[inline(always)]
pub(super) const fn is_empty(front: u32) -> bool {
    front == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_entry_is_loaded_unchanged() {
        let mut state = 3u64;
        for _ in 0..2_000 {
            state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(11);
            for entry in [state, state ^ state >> 31, 0, u64::MAX] {
                let (front, back) = store(entry);
                assert!(!is_empty(front));
                assert_eq!(load((front, back), first(entry, LEAD_BITS)), Some(entry));
                assert_eq!(load((removed_front(), back), first(entry, LEAD_BITS)), None);
                assert_eq!(load((0, 0), first(entry, LEAD_BITS)), None);
                let packed = entry & (u64::MAX >> IMPLIED_BITS);
                assert_eq!(joined(first(entry, IMPLIED_BITS), packed), entry);
                assert_eq!(key(entry) >> (KEY_BITS - BAND_BITS), entry >> BAND_BITS);
            }
        }
    }
}
