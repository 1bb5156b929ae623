//! The records that were read and are not answered yet, in the order of the files.
//!
//! The reader appends, and the receiver of the answers removes. Its length is bounded by the lines that the
//! connection and the server hold, because every record is also a line of the stream, if only a blank one.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use lookalike_files::Unread;
use lookalike_text::CharsetOf;

/// A record, or the end of a file that cannot be read further.
#[derive(Debug)]
pub(super) struct Item {
    /// Its number among all records of all files, from 1.
    pub(super) number: u64,
    pub(super) file: Arc<str>,
    /// Its line in the file.
    pub(super) line: u64,
    /// The bytes of all files that were read with it.
    pub(super) passed: u64,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// A line that is or will be sent, and its place in the request.
    Sent { index: u64, id: Option<String>, is_mapped: bool, charset: Option<CharsetOf> },
    /// A record that is not read, or the rest of a file.
    Unread(Unread),
}

/// The queue of the reader and the receiver.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue(Arc<Mutex<VecDeque<Item>>>);

impl Queue {
    pub(super) fn push(&self, item: Item) {
        self.0.lock().push_back(item);
    }

    /// The number of lines whose places are before `end`.
    pub(super) fn sent_before(&self, end: u64) -> u64 {
        let is_before = |item: &&Item| matches!(item.what, What::Sent { index, .. } if index < end);
        self.0.lock().iter().filter(is_before).count() as u64
    }

    /// Removes the first record, if it is not sent or its place is before `end`.
    pub(super) fn pop_before(&self, end: u64) -> Option<Item> {
        let mut items = self.0.lock();
        match items.front()?.what {
            What::Sent { index, .. } if index >= end => None,
            _ => items.pop_front(),
        }
    }
}
