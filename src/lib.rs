//! lookalike
pub mod ids;
pub mod index;
