//! A column: one value of a fixed number of bytes for each document.
//!
//! It grows by pieces and never moves, so that it needs no second copy of itself while it grows.

/// The number of values in a piece.
const PIECE: usize = 1 << 12;

/// Values of equal size, by the number of the document.
#[derive(Debug)]
pub(super) struct Column {
    pieces: Vec<Vec<u8>>,
    stride: usize,
}

impl Column {
    /// An empty column of values of this many bytes, at least one.
    pub(super) fn of(stride: usize) -> Column {
        Column { pieces: Vec::new(), stride }
    }

    /// Appends a value.
    ///
    /// # Panics
    /// If it has another size.
    pub(super) fn push(&mut self, value: &[u8]) {
        assert_eq!(value.len(), self.stride, "values of a column have one size");
        match self.pieces.last_mut() {
            Some(piece) if piece.len() < PIECE * self.stride => piece.extend_from_slice(value),
            _ => {
                let mut piece = Vec::with_capacity(PIECE * self.stride);
                piece.extend_from_slice(value);
                self.pieces.push(piece);
            }
        }
    }

    /// The value of a document.
    pub(super) fn get(&self, number: u32) -> &[u8] {
        let (piece, at) = (number as usize / PIECE, number as usize % PIECE);
        &self.pieces[piece][at * self.stride..][..self.stride]
    }

    /// The bytes that it occupies.
    pub(super) fn bytes(&self) -> usize {
        self.pieces.iter().map(Vec::capacity).sum()
    }
}
