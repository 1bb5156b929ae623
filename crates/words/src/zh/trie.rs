//! A double-array trie over characters: finds the words that begin at a given character of a text.
//!
//! After Aoe, "An efficient digital search algorithm by using a double-array structure" (IEEE Transactions
//! on Software Engineering 15, 1989). A step from a node by a character is one read: the child is at the
//! index base of the node plus code of the character, if the node stored there has this code. No two nodes
//! have the same base, so comparing the code is sufficient. A node has eight bytes; eight bits of them are
//! a filter of the codes of its children, so most steps that fail read nothing. Frequent characters have
//! small codes, which places nodes that are read often close together.
//!
//! Not here: changes. A trie is built once, from all its words. That of the built-in words is built by
//! `build.rs`, which compiles this file, too.

use std::borrow::Cow;
use std::ops::Range;

/// The bits of each part of a node, from the most significant part.
const BASE_BITS: u32 = 22;
const FILTER_BITS: u32 = 8;
const CODE_BITS: u32 = 18;
const VALUE_BITS: u32 = 16;

/// The largest value of a word.
pub(super) const MAX_VALUE: u32 = (1 << VALUE_BITS) - 1;

/// The number of family sizes for which the position of the last search is kept separately.
const SIZES: usize = 32;

/// Words, each with a value.
#[derive(Debug)]
pub(super) struct Trie {
    codes: Codes,
    /// The nodes of single characters, by code.
    first: Vec<Node>,
    /// All others, little-endian, as they stand in the program.
    nodes: Cow<'static, [[u8; 8]]>,
}

/// The base of the children, the filter of their codes, the node's own code, and the value of the word that
/// ends here. A node without children has an empty filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node(u64);

/// The content of a place without a node: a code that no character has, not even an unknown one.
const NOTHING: Node = Node(((1 << CODE_BITS) - 1) << VALUE_BITS);

impl Node {
    fn new(code: u32, value: u32) -> Node {
        Node(u64::from(code) << VALUE_BITS | u64::from(value))
    }

    fn set_children(&mut self, base: usize, filter: u64) {
        self.0 |= (base as u64) << (64 - BASE_BITS) | filter << (64 - BASE_BITS - FILTER_BITS);
    }

    /// The value of the word that ends here; 0 if no word does.
    #[inline]
    pub(super) fn value(self) -> u32 {
        self.0 as u32 & MAX_VALUE
    }

    #[inline]
    fn code(self) -> u32 {
        (self.0 >> VALUE_BITS) as u32 & ((1 << CODE_BITS) - 1)
    }

    /// Whether a child of this code is possible.
    #[inline]
    fn may_have(self, code: u32) -> bool {
        self.0 >> (64 - BASE_BITS - FILTER_BITS) & filter(code) != 0
    }
}

#[inline]
fn filter(code: u32) -> u64 {
    1 << (code % FILTER_BITS)
}

impl Trie {
    /// The trie of these words and their values, 1 to [`MAX_VALUE`]. The words are sorted and distinct, and
    /// none is empty. `None` if they need about four million nodes or more, or more than 262,000 different
    /// characters.
    pub(super) fn of(words: &[(&str, u32)]) -> Option<Trie> {
        let codes = Codes::of(words)?;
        let mut first = vec![NOTHING; codes.count as usize];
        let mut builder = Builder {
            words,
            codes: &codes,
            nodes: Vec::new(),
            taken: Places::default(),
            bases: Places::default(),
            last: [0; SIZES],
        };
        let mut level = Vec::new();
        for child in builder.children(0..words.len(), 0) {
            first[child.code as usize] = Node::new(child.code, child.value);
            level.push((child.code, child));
        }
        let mut next = builder.place(level, Some(&mut first))?;
        while !next.is_empty() {
            next = builder.place(next, None)?;
        }
        let nodes: Vec<[u8; 8]> = builder.nodes.into_iter().map(|node| node.0.to_le_bytes()).collect();
        Some(Trie { codes, first, nodes: nodes.into() })
    }

    /// The trie in bytes: the number of codes, the character of each code from 1 on, and the nodes.
    #[allow(dead_code, reason = "the build script uses it")]
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.codes.count.to_le_bytes().to_vec();
        bytes.extend(self.codes.characters().into_iter().flat_map(|c| u32::from(c).to_le_bytes()));
        bytes.extend(self.first.iter().flat_map(|node| node.0.to_le_bytes()));
        bytes.extend(self.nodes.iter().flatten());
        bytes
    }

    /// The trie that has these bytes. `None` if no trie has them.
    pub(super) fn from_bytes(bytes: &'static [u8]) -> Option<Trie> {
        let (count, rest) = bytes.split_first_chunk()?;
        let count = u32::from_le_bytes(*count) as usize;
        let (characters, nodes) = rest.split_at_checked(count.checked_sub(1)? * 4)?;
        let characters = characters.as_chunks().0.iter().map(|c| char::from_u32(u32::from_le_bytes(*c)));
        let (first, nodes) = nodes.as_chunks().0.split_at_checked(count)?;
        let first = first.iter().map(|node| Node(u64::from_le_bytes(*node))).collect();
        let codes = Codes::of_characters(characters.collect::<Option<_>>()?)?;
        Some(Trie { codes, first, nodes: nodes.into() })
    }

    /// The code of a character; 0 if no word has it.
    #[inline]
    pub(super) fn code(&self, c: char) -> u32 {
        self.codes.of_char(c)
    }

    /// The node of a single character; for code 0 a node without value or children.
    #[inline]
    pub(super) fn first(&self, code: u32) -> Node {
        self.first[code as usize]
    }

    /// The child of a node by a code, if there is one.
    #[inline]
    pub(super) fn step(&self, node: Node, code: u32) -> Option<Node> {
        if !node.may_have(code) {
            return None;
        }
        let base = (node.0 >> (64 - BASE_BITS)) as usize;
        let child = self.nodes.get(base + code as usize).map(|node| Node(u64::from_le_bytes(*node)));
        child.filter(|child| child.code() == code)
    }

    /// The value of a word; 0 if the trie does not have it.
    pub(super) fn value(&self, word: &str) -> u32 {
        let mut codes = word.chars().map(|c| self.code(c));
        let Some(first) = codes.next() else { return 0 };
        codes.try_fold(self.first(first), |node, code| self.step(node, code)).map_or(0, Node::value)
    }
}

/// A number for each character that occurs in words.
#[derive(Debug)]
struct Codes {
    /// The codes of characters of the basic plane, by character.
    basic: Vec<u32>,
    /// Other characters and their codes, sorted.
    other: Vec<(char, u32)>,
    /// The number of codes in use, including 0, which is the code of characters that no word has.
    count: u32,
}

impl Codes {
    fn of(words: &[(&str, u32)]) -> Option<Codes> {
        let mut weights = std::collections::HashMap::<char, u64>::new();
        for (word, value) in words {
            word.chars().for_each(|c| *weights.entry(c).or_default() += u64::from(*value));
        }
        let mut order: Vec<(char, u64)> = weights.into_iter().collect();
        order.sort_unstable_by_key(|&(c, weight)| (std::cmp::Reverse(weight), c));
        Codes::of_characters(order.into_iter().map(|(c, _)| c).collect())
    }

    /// The codes of these characters: 1 for the first. `None` if they are too many.
    fn of_characters(characters: Vec<char>) -> Option<Codes> {
        let count = u32::try_from(characters.len() + 1).ok().filter(|&count| count < (1 << CODE_BITS) - 1)?;
        let mut codes = Codes { basic: vec![0; 0x1_0000], other: Vec::new(), count };
        for (code, c) in (1..).zip(characters) {
            match codes.basic.get_mut(c as usize) {
                Some(place) => *place = code,
                None => codes.other.push((c, code)),
            }
        }
        codes.other.sort_unstable();
        Some(codes)
    }

    /// The characters in the order of their codes.
    fn characters(&self) -> Vec<char> {
        let basic = (0..).zip(&self.basic).filter(|(_, code)| **code > 0);
        let basic = basic.filter_map(|(c, code)| Some((*code, char::from_u32(c)?)));
        let other = self.other.iter().map(|(c, code)| (*code, *c));
        let mut all: Vec<(u32, char)> = basic.chain(other).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, c)| c).collect()
    }

    #[inline]
    fn of_char(&self, c: char) -> u32 {
        self.basic.get(c as usize).copied().unwrap_or_else(|| self.of_other(c))
    }

    #[inline]
    fn of_other(&self, c: char) -> u32 {
        self.other.binary_search_by_key(&c, |&(other, _)| other).map_or(0, |at| self.other[at].1)
    }
}

/// A node that is not placed yet, or a node whose children are not placed yet. There are hundreds of
/// thousands at a time, so their size determines the memory that building takes.
#[derive(Clone, Copy)]
struct Child {
    code: u32,
    value: u32,
    /// The words that begin with it: the index of the first, and the index after the last.
    from: u32,
    to: u32,
    /// The bytes that these words have in common.
    depth: u32,
}

impl Child {
    fn words(&self) -> Range<usize> {
        self.from as usize..self.to as usize
    }
}

/// A parent whose children are not placed yet, and the index of its node.
struct Family {
    at: u32,
    parent: Child,
    children: u32,
    /// The greatest value of any word below the parent.
    greatest: u32,
}

struct Builder<'a> {
    words: &'a [(&'a str, u32)],
    codes: &'a Codes,
    nodes: Vec<Node>,
    /// The places that have a node.
    taken: Places,
    /// The bases in use.
    bases: Places,
    /// The last base found for a family of each size; the last entry is for all larger families. The first
    /// entry is a place, not a base.
    last: [usize; SIZES],
}

impl Builder<'_> {
    /// The nodes that follow the first `depth` bytes of these words, which all words in the range have in
    /// common.
    fn children(&self, range: Range<usize>, depth: usize) -> Vec<Child> {
        let mut children: Vec<Child> = Vec::new();
        for at in range {
            let (word, value) = self.words[at];
            let Some(c) = word[depth..].chars().next() else { continue };
            let code = self.codes.of_char(c);
            let depth = depth + c.len_utf8();
            let value = if word.len() == depth { value } else { 0 };
            match children.last_mut() {
                Some(last) if last.code == code => last.to = at as u32 + 1,
                _ => children.push(Child {
                    code,
                    value,
                    from: at as u32,
                    to: at as u32 + 1,
                    depth: depth as u32,
                }),
            }
        }
        children
    }

    /// Places the children of a level and returns them as the next level. The nodes of the first level are
    /// in `first`, all others in `nodes`. Large families are placed first, while gaps are large; among
    /// families of one size, those with the greatest word values come first, so that nodes that are read
    /// often are close together.
    fn place(
        &mut self,
        level: Vec<(u32, Child)>,
        mut first: Option<&mut Vec<Node>>,
    ) -> Option<Vec<(u32, Child)>> {
        let family = |(at, parent): (u32, Child)| {
            let children = self.children(parent.words(), parent.depth as usize).len() as u32;
            let greatest = self.words[parent.words()].iter().map(|(_, value)| *value).max().unwrap_or(0);
            (children > 0).then_some(Family { at, parent, children, greatest })
        };
        let mut families: Vec<Family> = level.into_iter().filter_map(family).collect();
        families.sort_by_key(|family| std::cmp::Reverse((family.children, family.greatest)));
        let mut next = Vec::new();
        self.last[0] = 0;
        for Family { at: parent_at, parent, .. } in families {
            let children = self.children(parent.words(), parent.depth as usize);
            let base = self.base(&children);
            if base >= 1 << BASE_BITS {
                return None;
            }
            self.bases.take(base);
            let bits = children.iter().fold(0, |bits, child| bits | filter(child.code));
            first.as_deref_mut().unwrap_or(&mut self.nodes)[parent_at as usize].set_children(base, bits);
            for child in children {
                let at = base + child.code as usize;
                self.taken.take(at);
                if at >= self.nodes.len() {
                    self.nodes.resize(at + 1, NOTHING);
                }
                self.nodes[at] = Node::new(child.code, child.value);
                next.push((at as u32, child));
            }
        }
        Some(next)
    }

    /// A base at which all these children have a free place. The search begins where the last family of
    /// this size was placed. Its steps grow, so that it soon reaches free places; after the end all places
    /// are free.
    fn base(&mut self, children: &[Child]) -> usize {
        let first = children[0].code as usize;
        let size = children.len().min(SIZES) - 1;
        // A single child fits any gap, so for size 1 the search continues from the place and not from the
        // base.
        let from = if size == 0 { first.max(self.last[size]) } else { first + self.last[size] };
        let mut place = self.taken.free_from(from);
        for tries in 0.. {
            let base = place - first;
            let is_free = |child: &Child| !self.taken.has(base + child.code as usize);
            if !self.bases.has(base) && children[1..].iter().all(is_free) {
                self.last[size] = if size == 0 { place } else { base };
                return base;
            }
            place = self.taken.free_from(place + 1 + tries / 16);
        }
        unreachable!("after the end all places are free, and no base is in use there")
    }
}

/// A set of places in an array.
#[derive(Default)]
struct Places {
    words: Vec<u64>,
}

impl Places {
    fn take(&mut self, at: usize) {
        if at / 64 >= self.words.len() {
            self.words.resize(at / 64 + 1, 0);
        }
        self.words[at / 64] |= 1 << (at % 64);
    }

    fn has(&self, at: usize) -> bool {
        self.words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// The first free place at or after `at`.
    fn free_from(&self, at: usize) -> usize {
        let mut word = at / 64;
        let mut taken = self.words.get(word).map_or(0, |taken| taken | ((1 << (at % 64)) - 1));
        if word >= self.words.len() {
            return at;
        }
        while taken == u64::MAX {
            word += 1;
            taken = self.words.get(word).copied().unwrap_or(0);
        }
        word * 64 + taken.trailing_ones() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The lengths in characters and the values of all words that a text begins with.
    fn prefixes(trie: &Trie, text: &str) -> Vec<(usize, u32)> {
        let mut codes = text.chars().map(|c| trie.code(c));
        let mut node = codes.next().map(|code| trie.first(code));
        let mut found = Vec::new();
        for length in 1.. {
            let Some(here) = node else { break };
            if here.value() > 0 {
                found.push((length, here.value()));
            }
            node = codes.next().and_then(|code| trie.step(here, code));
        }
        found
    }

    proptest! {
        #[test]
        fn every_word_is_found_with_its_value(
            words in proptest::collection::btree_map("[ab中国大𠀀]{1,4}", 1u32..MAX_VALUE, 0..60),
            texts in proptest::collection::vec("[abc中国大学𠀀𠀁]{0,6}", 20),
        ) {
            let sorted: Vec<(&str, u32)> =
                words.iter().map(|(word, value)| (word.as_str(), *value)).collect();
            let trie = Trie::from_bytes(Trie::of(&sorted).unwrap().to_bytes().leak()).unwrap();
            for text in texts.iter().chain(words.keys()) {
                let starts = text.char_indices().map(|(at, c)| at + c.len_utf8());
                let expected: Vec<(usize, u32)> = (1..)
                    .zip(starts)
                    .filter_map(|(length, end)| words.get(&text[..end]).map(|value| (length, *value)))
                    .collect();
                prop_assert_eq!(prefixes(&trie, text), expected, "{}", text);
                prop_assert_eq!(trie.value(text), words.get(text).copied().unwrap_or(0));
            }
        }
    }

    #[test]
    fn a_node_with_many_children_has_all_of_them() {
        let words: BTreeMap<String, u32> =
            (0x4e00..0x5000).map(|c| (format!("大{}", char::from_u32(c).unwrap()), c - 0x4dff)).collect();
        let sorted: Vec<(&str, u32)> = words.iter().map(|(word, value)| (word.as_str(), *value)).collect();
        let trie = Trie::of(&sorted).unwrap();
        assert!(words.iter().all(|(word, value)| trie.value(word) == *value));
        assert_eq!([trie.value("大"), trie.value("大a"), trie.value("一"), trie.value("")], [0; 4]);
    }

    #[test]
    fn free_places_are_found_after_taken_ones() {
        let mut places = Places::default();
        (0..130).filter(|at| at % 65 != 3).for_each(|at| places.take(at));
        let free: Vec<usize> = [0, 3, 4, 68, 69, 129, 130, 500].map(|at| places.free_from(at)).into();
        assert_eq!(free, [3, 3, 68, 68, 130, 130, 130, 500]);
    }
}
