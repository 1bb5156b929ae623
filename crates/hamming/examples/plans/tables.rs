//! Sorted tables, in each of which other blocks of the hash come first.
//!
//! Manku, Jain and Das Sarma, "Detecting near-duplicates for web crawling" (WWW 2007), 3.1: if a hash is cut
//! into m blocks and k bits differ, at least m - k blocks agree. There is a table for each choice of m - k
//! blocks. It has the hashes with the bits in another order, those of the chosen blocks first, and is sorted.
//! A lookup finds the hashes that agree with the query in these first bits by binary search, and compares the
//! rest of their bits. The paper's designs for k = 3 are 4 tables (4 blocks, one exact), 10 (5 blocks, two
//! exact), 20 (6 blocks, three exact), and 16: one of 4 blocks is exact, and the rest is cut into 4 pieces,
//! one of which is exact. The same four are here for every k.
//!
//! Costs, for n hashes: one copy of each hash per table; a lookup makes one binary search per table, log2 n
//! cache misses one after the other. Each further exact block divides the candidates by hundreds and
//! multiplies the tables. Interpolation instead of binary search, which the paper mentions for even hashes,
//! and its compressed tables are absent.

use super::bits::{Bits, choose};
use super::{Built, Neighbour, Touched};

pub(super) struct Tables<W> {
    tables: Vec<Table<W>>,
    k: u32,
}

struct Table<W> {
    /// Where each bit of a stored hash comes from, the first bits first.
    order: Vec<Piece>,
    /// The number of first pieces that must agree, and of their bits.
    first: usize,
    exact: u32,
    /// The hashes in this order of bits, sorted.
    hashes: Vec<W>,
}

/// The `bits` bits of a hash from bit `from` upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    from: u32,
    bits: u32,
}

/// The number of tables with `exact` exact blocks.
pub(super) fn count(k: u32, exact: u32) -> u128 {
    choose(k + exact, exact)
}

/// The bytes of this many tables.
pub(super) fn bytes<W>(hashes: u128, tables: u128) -> u128 {
    hashes * tables * size_of::<W>() as u128
}

/// The number of bits of pieces.
fn length(pieces: &[Piece]) -> u32 {
    pieces.iter().map(|piece| piece.bits).sum()
}

/// Cuts a sequence of bits into parts whose lengths differ by one bit at most.
fn cut(pieces: &[Piece], parts: u32) -> Vec<Vec<Piece>> {
    let end = |part: u32| length(pieces) * part / parts;
    (0..parts).map(|part| between(pieces, end(part), end(part + 1))).collect()
}

/// The bits of a sequence from number `from` to before number `to`.
fn between(pieces: &[Piece], from: u32, to: u32) -> Vec<Piece> {
    let mut inside = Vec::new();
    let mut at = 0;
    for piece in pieces {
        let (start, end) = (from.max(at), to.min(at + piece.bits));
        if start < end {
            inside.push(Piece { from: piece.from + start - at, bits: end - start });
        }
        at += piece.bits;
    }
    inside
}

/// Every choice of `count` of the numbers from `from` to before `end`.
fn choices(from: u32, end: u32, count: u32) -> Vec<Vec<u32>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let beginning = |first: u32| {
        choices(first + 1, end, count - 1).into_iter().map(move |rest| [vec![first], rest].concat())
    };
    (from..end).flat_map(beginning).collect()
}

/// The chosen parts, and all others.
fn split(parts: &[Vec<Piece>], chosen: &[u32]) -> (Vec<Piece>, Vec<Piece>) {
    let is_chosen = |number: usize| chosen.contains(&(number as u32));
    let side = |wanted: bool| {
        let of_side = parts.iter().enumerate().filter(|(number, _)| is_chosen(*number) == wanted);
        of_side.flat_map(|(_, part)| part.iter().copied()).collect()
    };
    (side(true), side(false))
}

impl<W: Bits> Tables<W> {
    /// A table for each choice of `exact` of k + `exact` blocks.
    pub(super) fn new(hashes: &[W], k: u32, exact: u32) -> Tables<W> {
        let blocks = cut(&[Piece { from: 0, bits: W::WIDTH.bits() }], k + exact);
        let orders = choices(0, k + exact, exact).into_iter().map(|chosen| split(&blocks, &chosen));
        Tables { tables: orders.map(|(first, rest)| Table::new(hashes, &first, &rest)).collect(), k }
    }

    /// A table for each of k + 1 blocks and each of k + 1 pieces of the other blocks.
    pub(super) fn cut_twice(hashes: &[W], k: u32) -> Tables<W> {
        let blocks = cut(&[Piece { from: 0, bits: W::WIDTH.bits() }], k + 1);
        let mut tables = Vec::new();
        for block in 0..=k {
            let (first, rest) = split(&blocks, &[block]);
            let pieces = cut(&rest, k + 1);
            for piece in 0..=k {
                let (second, rest) = split(&pieces, &[piece]);
                tables.push(Table::new(hashes, &[first.clone(), second].concat(), &rest));
            }
        }
        Tables { tables, k }
    }

    /// Whether no table before table `number` finds a hash that differs from the query in these bits.
    fn is_first(&self, number: usize, differing: W) -> bool {
        let finds = |table: &Table<W>| {
            table.order[..table.first].iter().all(|piece| differing.piece(piece.from, piece.bits) == W::ZERO)
        };
        !self.tables[..number].iter().any(finds)
    }
}

impl<W: Bits> Table<W> {
    fn new(hashes: &[W], first: &[Piece], rest: &[Piece]) -> Table<W> {
        let order = [first, rest].concat();
        let mut table = Table { order, first: first.len(), exact: length(first), hashes: Vec::new() };
        table.hashes = hashes.iter().map(|hash| table.ordered(*hash)).collect();
        table.hashes.sort_unstable();
        table
    }

    /// The hash with its bits in the order of the table.
    fn ordered(&self, hash: W) -> W {
        let next = |all: W, piece: &Piece| all.followed_by(hash.piece(piece.from, piece.bits), piece.bits);
        self.order.iter().fold(W::ZERO, next)
    }

    /// The hash whose bits have this order in the table.
    fn original(&self, ordered: W) -> W {
        let mut original = W::ZERO;
        let mut left = W::WIDTH.bits();
        for piece in &self.order {
            left -= piece.bits;
            original = original ^ ordered.piece(left, piece.bits).followed_by(W::ZERO, piece.from);
        }
        original
    }

    /// The bits that must agree.
    fn key(&self, ordered: W) -> W {
        ordered.piece(W::WIDTH.bits() - self.exact, self.exact)
    }
}

impl<W: Bits> Built<W> for Tables<W> {
    fn within(&self, query: W, found: &mut Vec<Neighbour<W>>) -> Touched {
        let mut touched = Touched::default();
        for (number, table) in self.tables.iter().enumerate() {
            touched.probes += 1;
            let ordered = table.ordered(query);
            let key = table.key(ordered);
            let least = key.followed_by(W::ZERO, W::WIDTH.bits() - table.exact);
            let from = table.hashes.partition_point(|hash| *hash < least);
            for &hash in table.hashes[from..].iter().take_while(|hash| table.key(**hash) == key) {
                touched.candidates += 1;
                let differing = hash ^ ordered;
                if differing.ones() > self.k {
                    continue;
                }
                let original = table.original(differing);
                if self.is_first(number, original) {
                    found.push(Neighbour { distance: differing.ones(), hash: query ^ original });
                }
            }
        }
        touched
    }

    fn bytes(&self) -> usize {
        self.tables.iter().map(|table| size_of_val(&*table.hashes)).sum()
    }
}
