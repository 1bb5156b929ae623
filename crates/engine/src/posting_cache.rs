//! The posting cache: for hashes stored or looked up recently, the single posting of the hash.
//!
//! Reading a posting list from the store costs a lookup several microseconds, more than the rest of the
//! lookup. Most lookups that find something find a document that was stored or found shortly before. The
//! writer adds postings when it stores them, and lookups add those that they read.
//!
//! *Absent*: posting lists with more than one posting, and postings with large metadata.
//!
//! # Why an answer from the cache cannot be stale
//! The writer makes a collection's [`Epoch`] odd before its commit becomes visible, replaces or removes the
//! posting of every hash that the commit touches, and then makes the epoch even again. A reader uses the
//! cache only if the epoch was even before it read the index and the cache, and unchanged afterwards: then
//! no commit became visible in between. A reader adds a posting only while it holds the lock of the shard,
//! and only if the epoch is unchanged since before its view of the store was taken. If the writer begins a
//! commit after that check, it waits for the lock and then replaces the posting.
//!
//! # Memory
//! All collections share one capacity, which is approximate. Postings are packed in blocks: 33 bytes for a
//! 64-bit hash and an id of 16 bytes. A hash table of their places takes half as much again, and nine tenths
//! if it has doubled because evictions filled it with tombstones. When the cache is full, the oldest block is
//! emptied. An evicted posting is read from the store and cached again at its next lookup.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use parking_lot::Mutex;

use lookalike_hash::{CollectionId, DocumentId, Hash};

/// Shards, each with its own lock. There are many, so that two threads rarely contend for one; a power of
/// two.
const SHARDS: usize = 128;
/// Bytes of a block. The low [`OFFSET_BITS`] bits of a place are the offset in the block.
const BLOCK: usize = 1 << OFFSET_BITS;
const OFFSET_BITS: u32 = 13;
/// The maximum length of cached metadata in bytes. A posting with more is not cached.
const MAX_METADATA: usize = 256;

/// The single document that has a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CachedPosting {
    pub(super) id: DocumentId,
    /// When it expires. Expiry is not a commit, so the reader must compare this with the clock.
    pub(super) expires_ms: Option<u64>,
    pub(super) metadata: Option<String>,
}

/// A hash that a commit touches, and its single posting after the commit; `None` if there are several, none,
/// or it is not known.
pub(super) struct TouchedHash {
    pub(super) collection: CollectionId,
    pub(super) hash: Hash,
    pub(super) posting: Option<CachedPosting>,
}

/// Twice the number of a collection's commits. It is odd while a commit becomes visible.
#[derive(Default)]
pub(super) struct Epoch(AtomicU64);

impl Epoch {
    /// The epoch; `None` while a commit becomes visible.
    pub(super) fn stable(&self) -> Option<u64> {
        Some(self.0.load(Ordering::SeqCst)).filter(|epoch| epoch.is_multiple_of(2))
    }

    /// Call before a commit becomes visible.
    pub(super) fn begin_commit(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Call when the commit is visible and the cache reflects it.
    pub(super) fn end_commit(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The cached postings of all collections.
pub(super) struct PostingCache {
    /// Of the form `quality`: with some seeds, the low bits of the form `fast` spread hashes that follow each
    /// other unevenly over the shards.
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
    /// The maximum number of blocks of a shard.
    max_blocks: usize,
}

impl PostingCache {
    /// A cache of about `bytes` bytes, but at least one block per shard; 0 disables it.
    pub(super) fn new(bytes: u64) -> PostingCache {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let max_blocks = bytes / SHARDS / (BLOCK + BLOCK / 2);
        let max_blocks = if bytes == 0 { 0 } else { max_blocks.clamp(1, 1 << (u32::BITS - OFFSET_BITS)) };
        PostingCache {
            hasher: RandomState::default(),
            shards: std::array::from_fn(|_| Mutex::default()),
            max_blocks,
        }
    }

    /// The single posting of a hash, if it is cached.
    pub(super) fn get(&self, of: CollectionId, hash: Hash) -> Option<CachedPosting> {
        let code = self.code(of, hash);
        self.shard(code).lock().get(code, of, hash)
    }

    /// Adds a posting that was read from a view taken after `seen` was the epoch, unless a commit has begun
    /// since.
    pub(super) fn add(
        &self,
        epoch: &Epoch,
        seen: u64,
        of: CollectionId,
        hash: Hash,
        posting: &CachedPosting,
    ) {
        let code = self.code(of, hash);
        let mut shard = self.shard(code).lock();
        // An entry that exists under this epoch equals the new one.
        if epoch.stable() == Some(seen) && shard.find(code, of, hash).is_none() {
            self.put(&mut shard, code, of, hash, posting);
        }
    }

    /// Replaces the postings that a commit touched. If the commit failed (`is_done` is false), it removes
    /// them, because their state is unknown. Call it between [`Epoch::begin_commit`] and
    /// [`Epoch::end_commit`].
    pub(super) fn apply_commit(&self, touched: &[TouchedHash], is_done: bool) {
        for TouchedHash { collection, hash, posting } in touched {
            let code = self.code(*collection, *hash);
            let mut shard = self.shard(code).lock();
            shard.remove(code, *collection, *hash);
            if let Some(posting) = posting.as_ref().filter(|_| is_done) {
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
        if self.max_blocks == 0
            || posting.metadata.as_ref().is_some_and(|metadata| metadata.len() > MAX_METADATA)
        {
            return;
        }
        shard.ensure_space(Entry::bytes(hash, posting), self.max_blocks, |of, hash| self.code(of, hash));
        shard.put(code, of, hash, posting);
    }
}

/// The hash code of a collection and a hash. The table stores it, so that it can grow without reading the
/// entries.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Code(u32);

impl Code {
    fn shard(self) -> usize {
        self.0 as usize % SHARDS
    }

    /// The table uses the lowest bits and the highest seven. Multiplying spreads the bits that differ within
    /// a shard over all 64.
    fn key(self) -> u64 {
        u64::from(self.0 / SHARDS as u32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// A shard: postings packed in blocks, and a table of the places where they begin.
#[derive(Default)]
struct Shard {
    places: HashTable<(Code, u32)>,
    blocks: Vec<Vec<u8>>,
    /// The block that is being filled. The next one, cyclically, is the oldest.
    newest: usize,
}

impl Shard {
    fn find(&self, code: Code, of: CollectionId, hash: Hash) -> Option<Entry<'_>> {
        let is_match =
            |found: &(Code, u32)| found.0 == code && Entry::at(&self.blocks, found.1).is_of(of, hash);
        self.places.find(code.key(), is_match).map(|found| Entry::at(&self.blocks, found.1))
    }

    fn get(&self, code: Code, of: CollectionId, hash: Hash) -> Option<CachedPosting> {
        self.find(code, of, hash)?.posting()
    }

    fn remove(&mut self, code: Code, of: CollectionId, hash: Hash) {
        let Shard { places, blocks, .. } = self;
        let is_match = |found: &(Code, u32)| found.0 == code && Entry::at(blocks, found.1).is_of(of, hash);
        if let Ok(found) = places.find_entry(code.key(), is_match) {
            found.remove();
        }
    }

    /// Ensures that the block that is being filled has space for `bytes` more bytes. It may evict the oldest
    /// block.
    fn ensure_space(&mut self, bytes: usize, max_blocks: usize, code: impl Fn(CollectionId, Hash) -> Code) {
        if self.blocks.get(self.newest).is_some_and(|block| block.len() + bytes <= BLOCK) {
            return;
        }
        if self.blocks.len() < max_blocks {
            self.blocks.push(Vec::with_capacity(BLOCK));
            self.newest = self.blocks.len() - 1;
            return;
        }
        self.newest = (self.newest + 1) % self.blocks.len();
        let Shard { places, blocks, newest } = self;
        let (mut place, end) = (place(*newest, 0), place(*newest, blocks[*newest].len()));
        while place < end {
            let entry = Entry::at(blocks, place);
            // A posting that was removed or replaced has no table entry with this place.
            if let Ok(found) = places.find_entry(code(entry.of, entry.hash).key(), |found| found.1 == place) {
                found.remove();
            }
            place += entry.length as u32;
        }
        blocks[*newest].clear();
    }

    /// Appends a posting to the block that is being filled. The hash must have no entry.
    fn put(&mut self, code: Code, of: CollectionId, hash: Hash, posting: &CachedPosting) {
        let block = &mut self.blocks[self.newest];
        let place = place(self.newest, block.len());
        Entry::write(block, of, hash, posting);
        self.places.insert_unique(code.key(), (code, place), |(code, _)| code.key());
    }
}

/// A place: a block and an offset in it. The offset may be the block's end.
fn place(block: usize, offset: usize) -> u32 {
    (block << OFFSET_BITS) as u32 + offset as u32
}

/// A posting as it is stored in a block.
///
/// ```text
/// u16 total length   u16 length of the id   u8 hash bytes + 1 if it expires + 2 if it has metadata
/// u32 collection   8, 16 or 32 hash   (u64 expires)   id   (metadata)
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

    /// Decodes the entry that [`Entry::write`] wrote at a place.
    fn at(blocks: &'a [Vec<u8>], place: u32) -> Entry<'a> {
        let bytes = &blocks[(place >> OFFSET_BITS) as usize][place as usize % BLOCK..];
        let number = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let (length, id, flags) = (number(0), number(2), bytes[4]);
        let of = CollectionId(u32::from_le_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]));
        let (hash, rest) = bytes[9..length].split_at(usize::from(flags & !(EXPIRES | METADATA)));
        let hash = Hash::from_bytes(hash).expect("8, 16 or 32 bytes, as they were written");
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

    fn touched(hash: Hash, posting: Option<CachedPosting>) -> [TouchedHash; 1] {
        [TouchedHash { collection: HERE, hash, posting }]
    }

    #[test]
    fn a_commit_replaces_postings_and_a_reader_that_it_overtook_adds_none() {
        let (cache, epoch, hash) = (PostingCache::new(1 << 20), Epoch::default(), Hash::from_u64(7));
        let before = epoch.stable().unwrap();
        cache.add(&epoch, before, HERE, hash, &posting("a"));
        assert_eq!(cache.get(HERE, hash), Some(posting("a")));
        assert_eq!(cache.get(CollectionId(2), hash), None);
        epoch.begin_commit();
        assert_eq!(epoch.stable(), None);
        cache.add(&epoch, before, HERE, Hash::from_u64(8), &posting("b"));
        cache.apply_commit(&touched(hash, None), true);
        epoch.end_commit();
        assert_eq!(cache.get(HERE, hash), None);
        cache.add(&epoch, before, HERE, hash, &posting("a"));
        assert_eq!(cache.get(HERE, hash), None, "read before the commit");
        cache.add(&epoch, epoch.stable().unwrap(), HERE, hash, &posting("c"));
        assert_eq!(cache.get(HERE, hash), Some(posting("c")));
        assert_eq!(cache.get(HERE, Hash::from_u64(8)), None);
        cache.apply_commit(&touched(hash, Some(posting("d"))), true);
        assert_eq!(cache.get(HERE, hash), Some(posting("d")), "as it was stored");
        cache.apply_commit(&touched(hash, Some(posting("e"))), false);
        assert_eq!(cache.get(HERE, hash), None, "the state is unknown");
    }

    #[test]
    fn memory_is_bounded_and_the_newest_postings_remain() {
        let cache = PostingCache::new(8 << 20);
        let count = 400_000;
        for number in 0..count {
            cache.apply_commit(
                &touched(Hash::from_u64(number), Some(posting(&format!("document-{number:07}")))),
                true,
            );
        }
        let found = |number| cache.get(HERE, Hash::from_u64(number)).is_some();
        let kept = (0..count).filter(|number| found(*number)).count();
        assert!((110_000..170_000).contains(&kept), "{kept}");
        assert!((count - 90_000..count).all(found));
        assert!(!(0..count - 200_000).any(found));
        let bytes = |shard: &Mutex<Shard>| {
            let shard = shard.lock();
            shard.blocks.iter().map(Vec::capacity).sum::<usize>() + shard.places.allocation_size()
        };
        let bytes: usize = cache.shards.iter().map(bytes).sum();
        // With some seeds of the hash function all tables have doubled.
        let doubled = SHARDS * (4_096 * 9 + 16 + 5 * BLOCK);
        assert!(bytes <= doubled && doubled < 10_000_000, "{bytes} of {doubled}");
        let none = PostingCache::new(0);
        none.apply_commit(&touched(Hash::from_u64(1), Some(posting("a"))), true);
        assert_eq!(none.get(HERE, Hash::from_u64(1)), None);
    }

    proptest! {
        #[test]
        fn a_cached_posting_is_the_last_one_added(
            steps in prop::collection::vec(
                (
                    0..3u32,
                    0..200u64,
                    any::<bool>(),
                    prop::option::of((
                        "[a-zé中]{1,60}",
                        any::<Option<u64>>(),
                        prop::option::of("[a-zé中]{0,140}"),
                    )),
                ),
                1..2_000,
            ),
        ) {
            // One block per shard, so that eviction happens.
            let cache = PostingCache::new(1);
            let mut last: HashMap<(CollectionId, Hash), Option<CachedPosting>> = HashMap::new();
            let mut kept = 0;
            for (of, value, wide, added) in steps {
                let of = CollectionId(of);
                let hash =
                    if wide { Hash::from_u128(u128::from(value) << 64) } else { Hash::from_u64(value) };
                let added = added.map(|(id, expires_ms, metadata)| {
                    CachedPosting { id: DocumentId::new(&id).unwrap(), expires_ms, metadata }
                });
                cache.apply_commit(&[TouchedHash { collection: of, hash, posting: added.clone() }], true);
                let is_small = |metadata: &String| metadata.len() <= MAX_METADATA;
                let cached = added.filter(|added| added.metadata.as_ref().is_none_or(is_small));
                prop_assert_eq!(cache.get(of, hash), cached.clone());
                last.insert((of, hash), cached);
            }
            for ((of, hash), added) in &last {
                let found = cache.get(*of, *hash);
                kept += usize::from(found.is_some());
                prop_assert!(found.is_none() || found == *added);
            }
            let wanted = last.values().flatten().count();
            prop_assert!(kept * 10 >= wanted.min(1_000) * 3, "{kept} of {wanted}");
        }
    }
}
