//! An object that is read at any place, such as the pages of Parquet, by blocks that are held for a while.
//!
//! A column is read in order and others between: when a block follows one that is held, the next two are
//! asked for as well. Memory: 64 MiB.

use std::collections::VecDeque;
use std::sync::mpsc::Receiver;

use bytes::Bytes;
use parking_lot::Mutex;

use super::{Error, Object};

/// The bytes of a block.
const BLOCK: u64 = 1 << 20;
/// The blocks that are held, the one that was used last at the end.
const HELD: usize = 64;
/// The blocks that are asked for ahead.
const AHEAD: u64 = 2;

/// An object that is read at any place.
pub struct Blocks {
    object: Object,
    held: Mutex<VecDeque<(u64, Block)>>,
}

enum Block {
    Coming(Receiver<Result<Bytes, Error>>),
    Here(Bytes),
}

impl Blocks {
    /// The blocks of an object.
    pub fn of(object: Object) -> Blocks {
        Blocks { object, held: Mutex::default() }
    }

    /// The size of the object.
    pub fn bytes(&self) -> u64 {
        self.object.bytes()
    }

    /// Reads some bytes from a place on; none at the end.
    ///
    /// # Errors
    /// If the store does not send them.
    pub fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<usize, Error> {
        if at >= self.bytes() || buffer.is_empty() {
            return Ok(0);
        }
        let block = self.block(at / BLOCK)?;
        let own = &block[(at % BLOCK) as usize..];
        let count = own.len().min(buffer.len());
        buffer[..count].copy_from_slice(&own[..count]);
        Ok(count)
    }

    fn block(&self, number: u64) -> Result<Bytes, Error> {
        let mut held = self.held.lock();
        let found = held.iter().position(|(own, _)| *own == number).and_then(|at| held.remove(at));
        let block = match found.map_or_else(|| self.ask(number), |(_, block)| block) {
            Block::Here(bytes) => bytes,
            Block::Coming(part) => {
                let part = part.recv().expect("requests do not panic");
                part.map_err(|error| self.object.noted(error))?
            }
        };
        let is_held = |number: u64, held: &VecDeque<(u64, Block)>| held.iter().any(|(own, _)| *own == number);
        if number > 0 && is_held(number - 1, &held) {
            let last = (self.bytes() - 1) / BLOCK;
            for next in (number + 1..=number + AHEAD).filter(|next| *next <= last) {
                if !is_held(next, &held) {
                    held.push_back((next, self.ask(next)));
                }
            }
        }
        held.push_back((number, Block::Here(block.clone())));
        while held.len() > HELD {
            held.pop_front();
        }
        Ok(block)
    }

    fn ask(&self, number: u64) -> Block {
        let from = number * BLOCK;
        Block::Coming(self.object.ask(from..(from + BLOCK).min(self.bytes())))
    }
}
