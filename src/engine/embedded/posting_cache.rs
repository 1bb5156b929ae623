//! Sole postings at hand: for hashes stored or looked up lately, the one document that bears them.
//!
//! A posting list costs a lookup several microseconds in the store, more than all the rest of it. Most lookups
//! that find something find a document that came or was found not long ago, so who bears its hash is kept here:
//! as the writer stores it, and as a lookup reads it.
//!
//! # Why a stale answer cannot come of it
//! The writer makes a collection's [`Epoch`] odd before its commit can be seen, notes or forgets the posting of every
//! hash that the commit touches, and makes the epoch even again. A reader answers from here only if the epoch was even and
//! the same before and after it read the index and everything it needs, so no commit came in sight in between; and it
//! notes a posting list only under the lock of the shard and if the epoch is still the one from before its view of the store was
//! taken. If the writer begins after that check, it waits for the lock to replace what was just noted.
//!
//! # Room
//! All collections share so many bytes, or about so many: postings lie packed in blocks, 33 bytes for a 64-bit hash and an id of
//! 16, and a table says where, which takes half as much again. When all is full, the block that was begun first is emptied.
//! What is asked for again after that is read and noted anew.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use parking_lot::Mutex;

use crate::ids::{CollectionId, DocumentId, Hash};

/// Parts with a lock each: a power of two, so that two threads seldom want the same.
const SHARDS: usize = 128;
/// Bytes of a block, and the first bits of a place that are an offset in one.
const BLOCK: usize = 1 << OFFSET_BITS;
const OFFSET_BITS: u32 = 13;
/// Bytes of metadata up to which a posting is kept.
const SMALL: usize = 256;

/// The one document that bears a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CachedPosting {
    pub(super) id: DocumentId,
    /// When it expires: no commit says so at that moment, so whoever answers from here has to look at the time.
    pub(super) expires_ms: Option<u64>,
    pub(super) metadata: Option<String>,
}

/// A hash that a commit touches, and who alone bears it now; `None` if several do, nobody does, or it is not known.
pub(super) struct TouchedHash {
    pub(super) collection: CollectionId,
    pub(super) hash: Hash,
    pub(super) sole: Option<CachedPosting>,
}

/// How many commits of a collection came in sight, twice; odd while one comes.
#[derive(Default)]
pub(super) struct Epoch(AtomicU64);

impl Epoch {
    /// The epoch, if no commit is coming in sight.
    pub(super) fn quiet(&self) -> Option<u64> {
        Some(self.0.load(Ordering::SeqCst)).filter(|epoch| epoch.is_multiple_of(2))
    }

    /// A commit is about to come in sight.
    pub(super) fn begin_commit(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// It is in sight, and every posting that it touches is noted or forgotten.
    pub(super) fn end_commit(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The postings at hand, of all collections.
pub(super) struct PostingCache {
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
    /// Blocks of a shard, at most.
    most: usize,
}

impl PostingCache {
    /// Room for so many bytes, a megabyte at least; for none it keeps nothing.
    pub(super) fn new(bytes: u64) -> PostingCache {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let most = bytes / SHARDS / (BLOCK + BLOCK / 2);
        let most = if bytes == 0 { 0 } else { most.clamp(1, 1 << (u32::BITS - OFFSET_BITS)) };
        PostingCache {
            hasher: RandomState::default(),
            shards: std::array::from_fn(|_| Mutex::default()),
            most,
        }
    }

    /// The sole posting of a hash, if it is at hand.
    pub(super) fn get(&self, of: CollectionId, hash: Hash) -> Option<CachedPosting> {
        let code = self.code(of, hash);
        self.shard(code).lock().get(code, of, hash)
    }

    /// Notes a posting that was read from a view taken after `seen` was the epoch, unless a commit came since.
    pub(super) fn note(
        &self,
        epoch: &Epoch,
        seen: u64,
        of: CollectionId,
        hash: Hash,
        posting: &CachedPosting,
    ) {
        let code = self.code(of, hash);
        let mut shard = self.shard(code).lock();
        // What is there under this epoch is what would be noted.
        if epoch.quiet() == Some(seen) && shard.find(code, of, hash).is_none() {
            self.put(&mut shard, code, of, hash, posting);
        }
    }

    /// Notes or forgets what a commit touched, if it is done; if it failed half-way, all of it is forgotten. Between the two
    /// halves of its epoch.
    pub(super) fn follow(&self, touched: &[TouchedHash], is_done: bool) {
        for TouchedHash { collection, hash, sole } in touched {
            let code = self.code(*collection, *hash);
            let mut shard = self.shard(code).lock();
            shard.forget(code, *collection, *hash);
            if let Some(posting) = sole.as_ref().filter(|_| is_done) {
                self.put(&mut shard, code, *collection, *hash, posting);
            }
        }
    }

    fn code(&self, of: CollectionId, hash: Hash) -> Code {
        Code(self.hasher.hash_one((of, hash)) as u32)
    }

    fn shard(&self, code: Code) -> &Mutex<Shard> {
        &self.shards[code.shard()]
    }

    fn put(&self, shard: &mut Shard, code: Code, of: CollectionId, hash: Hash, posting: &CachedPosting) {
        if self.most == 0 || posting.metadata.as_ref().is_some_and(|metadata| metadata.len() > SMALL) {
            return;
        }
        shard.make_room(Entry::bytes(hash, posting), self.most, |of, hash| self.code(of, hash));
        shard.put(code, of, hash, posting);
    }
}

/// What a collection and a hash come to as the key of a table: stands in the table, so that it grows without a look at the
/// entries.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Code(u32);

impl Code {
    fn shard(self) -> usize {
        self.0 as usize % SHARDS
    }

    /// For the table, which takes the lowest bits and the highest seven: what tells codes of a shard apart, spread over all.
    fn key(self) -> u64 {
        u64::from(self.0 / SHARDS as u32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// A part of the postings: packed in blocks, found by where they begin.
#[derive(Default)]
struct Shard {
    places: HashTable<(Code, u32)>,
    blocks: Vec<Vec<u8>>,
    /// The block that is being filled; the one after it, round about, was begun first.
    newest: usize,
}

impl Shard {
    fn find(&self, code: Code, of: CollectionId, hash: Hash) -> Option<Entry<'_>> {
        let is_it = |found: &(Code, u32)| found.0 == code && Entry::at(&self.blocks, found.1).is_of(of, hash);
        self.places.find(code.key(), is_it).map(|found| Entry::at(&self.blocks, found.1))
    }

    fn get(&self, code: Code, of: CollectionId, hash: Hash) -> Option<CachedPosting> {
        self.find(code, of, hash)?.posting()
    }

    fn forget(&mut self, code: Code, of: CollectionId, hash: Hash) {
        let Shard { places, blocks, .. } = self;
        let is_it = |found: &(Code, u32)| found.0 == code && Entry::at(blocks, found.1).is_of(of, hash);
        if let Ok(found) = places.find_entry(code.key(), is_it) {
            found.remove();
        }
    }

    /// Sees to it that the block that is being filled takes so many bytes more.
    fn make_room(&mut self, bytes: usize, most: usize, code: impl Fn(CollectionId, Hash) -> Code) {
        if self.blocks.get(self.newest).is_some_and(|block| block.len() + bytes <= BLOCK) {
            return;
        }
        if self.blocks.len() < most {
            self.blocks.push(Vec::with_capacity(BLOCK));
            self.newest = self.blocks.len() - 1;
            return;
        }
        self.newest = (self.newest + 1) % self.blocks.len();
        let Shard { places, blocks, newest } = self;
        let (mut place, end) = (place(*newest, 0), place(*newest, blocks[*newest].len()));
        while place < end {
            let entry = Entry::at(blocks, place);
            // What was forgotten or noted anew since has another place or none.
            if let Ok(found) = places.find_entry(code(entry.of, entry.hash).key(), |found| found.1 == place) {
                found.remove();
            }
            place += entry.length as u32;
        }
        blocks[*newest].clear();
    }

    /// Puts a posting into the block that is being filled, for a hash that has none.
    fn put(&mut self, code: Code, of: CollectionId, hash: Hash, posting: &CachedPosting) {
        let block = &mut self.blocks[self.newest];
        let place = place(self.newest, block.len());
        Entry::write(block, of, hash, posting);
        self.places.insert_unique(code.key(), (code, place), |(code, _)| code.key());
    }
}

/// Where an entry begins: its block and its offset there, which may be the block's end.
fn place(block: usize, offset: usize) -> u32 {
    (block << OFFSET_BITS) as u32 + offset as u32
}

/// A posting as it lies in a block.
///
/// ```text
/// u16 length of it all   u16 length of the id   u8 hash bytes + 1 if it expires + 2 if it has metadata
/// u32 collection   8 or 16 hash   (u64 expires)   id   (metadata)
/// ```
struct Entry<'a> {
    length: usize,
    of: CollectionId,
    hash: Hash,
    expires_ms: Option<u64>,
    id: &'a [u8],
    metadata: Option<&'a [u8]>,
}

const EXPIRES: u8 = 1;
const METADATA: u8 = 2;

impl<'a> Entry<'a> {
    fn bytes(hash: Hash, posting: &CachedPosting) -> usize {
        let metadata = posting.metadata.as_ref().map_or(0, String::len);
        9 + hash.width().bytes()
            + if posting.expires_ms.is_some() { 8 } else { 0 }
            + posting.id.as_str().len()
            + metadata
    }

    fn write(block: &mut Vec<u8>, of: CollectionId, hash: Hash, posting: &CachedPosting) {
        let id = posting.id.as_str().as_bytes();
        let has = |has: bool, flag| if has { flag } else { 0 };
        let flags = hash.width().bytes() as u8
            | has(posting.expires_ms.is_some(), EXPIRES)
            | has(posting.metadata.is_some(), METADATA);
        block.extend((Entry::bytes(hash, posting) as u16).to_le_bytes());
        block.extend((id.len() as u16).to_le_bytes());
        block.push(flags);
        block.extend(of.0.to_le_bytes());
        hash.write_bytes(block);
        block.extend(posting.expires_ms.iter().flat_map(|at| at.to_le_bytes()));
        block.extend(id);
        block.extend(posting.metadata.iter().flat_map(|metadata| metadata.bytes()));
    }

    /// Reads what [`Entry::write`] wrote at a place.
    fn at(blocks: &'a [Vec<u8>], place: u32) -> Entry<'a> {
        let bytes = &blocks[(place >> OFFSET_BITS) as usize][place as usize % BLOCK..];
        let number = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let (length, id, flags) = (number(0), number(2), bytes[4]);
        let of = CollectionId(u32::from_le_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]));
        let (hash, rest) = bytes[9..length].split_at(usize::from(flags & !(EXPIRES | METADATA)));
        let hash = Hash::from_bytes(hash).expect("8 or 16 bytes, as they were written");
        let (expires_ms, rest) = match rest.split_first_chunk::<8>() {
            Some((at, rest)) if flags & EXPIRES != 0 => (Some(u64::from_le_bytes(*at)), rest),
            _ => (None, rest),
        };
        let (id, metadata) = rest.split_at(id);
        Entry { length, of, hash, expires_ms, id, metadata: (flags & METADATA != 0).then_some(metadata) }
    }

    fn is_of(&self, of: CollectionId, hash: Hash) -> bool {
        self.hash == hash && self.of == of
    }

    fn posting(&self) -> Option<CachedPosting> {
        let id = DocumentId::new(std::str::from_utf8(self.id).ok()?).ok()?;
        let metadata = self.metadata.map(|bytes| std::str::from_utf8(bytes).map(str::to_owned));
        Some(CachedPosting { id, expires_ms: self.expires_ms, metadata: metadata.transpose().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn posting(id: &str) -> CachedPosting {
        CachedPosting { id: DocumentId::new(id).unwrap(), expires_ms: None, metadata: None }
    }

    const HERE: CollectionId = CollectionId(1);

    fn touched(hash: Hash, sole: Option<CachedPosting>) -> [TouchedHash; 1] {
        [TouchedHash { collection: HERE, hash, sole }]
    }

    #[test]
    fn what_a_commit_touched_is_followed_and_what_it_overtook_is_not_noted() {
        let (sole, epoch, hash) = (PostingCache::new(1 << 20), Epoch::default(), Hash::from_u64(7));
        let before = epoch.quiet().unwrap();
        sole.note(&epoch, before, HERE, hash, &posting("a"));
        assert_eq!(sole.get(HERE, hash), Some(posting("a")));
        assert_eq!(sole.get(CollectionId(2), hash), None);
        epoch.begin_commit();
        assert_eq!(epoch.quiet(), None);
        sole.note(&epoch, before, HERE, Hash::from_u64(8), &posting("b"));
        sole.follow(&touched(hash, None), true);
        epoch.end_commit();
        assert_eq!(sole.get(HERE, hash), None);
        sole.note(&epoch, before, HERE, hash, &posting("a"));
        assert_eq!(sole.get(HERE, hash), None, "read before the commit");
        sole.note(&epoch, epoch.quiet().unwrap(), HERE, hash, &posting("c"));
        assert_eq!(sole.get(HERE, hash), Some(posting("c")));
        assert_eq!(sole.get(HERE, Hash::from_u64(8)), None);
        sole.follow(&touched(hash, Some(posting("d"))), true);
        assert_eq!(sole.get(HERE, hash), Some(posting("d")), "as it was stored");
        sole.follow(&touched(hash, Some(posting("e"))), false);
        assert_eq!(sole.get(HERE, hash), None, "nobody knows");
    }

    #[test]
    fn the_room_is_bounded_and_the_latest_stay() {
        let sole = PostingCache::new(8 << 20);
        let count = 400_000;
        for number in 0..count {
            sole.follow(
                &touched(Hash::from_u64(number), Some(posting(&format!("document-{number:07}")))),
                true,
            );
        }
        let found = |number| sole.get(HERE, Hash::from_u64(number)).is_some();
        let kept = (0..count).filter(|number| found(*number)).count();
        assert!((110_000..170_000).contains(&kept), "{kept}");
        assert!((count - 90_000..count).all(found));
        assert!(!(0..count - 200_000).any(found));
        let bytes = |shard: &Mutex<Shard>| {
            let shard = shard.lock();
            shard.blocks.iter().map(Vec::capacity).sum::<usize>() + shard.places.allocation_size()
        };
        let bytes: usize = sole.shards.iter().map(bytes).sum();
        assert!(bytes <= 9 << 20, "{bytes}");
        let none = PostingCache::new(0);
        none.follow(&touched(Hash::from_u64(1), Some(posting("a"))), true);
        assert_eq!(none.get(HERE, Hash::from_u64(1)), None);
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_was_noted_last(
            steps in prop::collection::vec(
                (0..3u32, 0..200u64, any::<bool>(), prop::option::of(("[a-zé中]{1,60}", any::<Option<u64>>(), prop::option::of("[a-zé中]{0,140}")))),
                1..2_000,
            ),
        ) {
            // A block a shard, which is emptied now and then.
            let sole = PostingCache::new(1);
            let mut last: HashMap<(CollectionId, Hash), Option<CachedPosting>> = HashMap::new();
            let mut kept = 0;
            for (of, value, wide, noted) in steps {
                let of = CollectionId(of);
                let hash = if wide { Hash::from_u128(u128::from(value) << 64) } else { Hash::from_u64(value) };
                let noted = noted.map(|(id, expires_ms, metadata)| {
                    CachedPosting { id: DocumentId::new(&id).unwrap(), expires_ms, metadata }
                });
                sole.follow(&[TouchedHash { collection: of, hash, sole: noted.clone() }], true);
                let is_small = noted.as_ref().and_then(|noted| noted.metadata.as_ref()).is_none_or(|text| text.len() <= SMALL);
                prop_assert_eq!(sole.get(of, hash), noted.clone().filter(|_| is_small));
                last.insert((of, hash), noted);
            }
            for ((of, hash), noted) in &last {
                let found = sole.get(*of, *hash);
                kept += usize::from(found.is_some());
                prop_assert!(found.is_none() || found == *noted);
            }
            let wanted = last.values().flatten().count();
            prop_assert!(kept * 10 >= wanted.min(1_000) * 3, "{kept} of {wanted}");
        }
    }
}
