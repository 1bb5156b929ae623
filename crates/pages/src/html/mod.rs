//! The text of HTML pages: the main text, or all that is visible.
//!
//! `page` passes the tokens of a page to what builds a text (`visible`) or a tree (`tree`) from them.
//! `boilerplate` removes from the tree what surrounds an article, by names (`class_names`), words
//! (`notices`) and measures (`measure`); `main_text` takes the article. Not here: the charset (`charset`).

mod all_text;
mod boilerplate;
mod class_names;
mod main_text;
mod measure;
mod notices;
mod page;
mod tree;
mod visible;

pub use main_text::{PageRead, PageText, checked_page_text, main_text, memory_for_page, page_text};
pub use visible::visible_text;
