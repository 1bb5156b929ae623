//! The console in a real browser: Debian's Chromium, driven from outside, with the release binary.
//!
//! Each test opens a page with real articles and does what a user does. Without `chromium` and `chromedriver`
//! the tests print that they skip. Not here: the modules of the console one by one; the contract of the API.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics, in its helpers too")]

mod accessibility;
mod articles;
mod browser;
mod calibrate;
mod clusters;
mod collections;
mod compare;
mod documents;
mod failures;
mod find;
mod first_view;
mod groups;
mod images;
mod import;
mod keys;
mod long_texts;
mod marks;
mod review;
mod screenshots;
#[path = "../service/server.rs"]
#[allow(dead_code, reason = "the tests of the service use more of it")]
mod server;
#[path = "../service/skipped.rs"]
mod skipped;
mod tasks;
