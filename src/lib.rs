//! lookalike
pub mod cli;
pub mod config;
pub mod engine;
pub mod features;
pub mod fingerprint;
pub mod http;
pub mod ids;
pub mod index;
pub mod pool;
pub mod server;
pub mod service;
pub mod snapshot;
pub mod store;
pub mod telemetry;
pub mod text;
