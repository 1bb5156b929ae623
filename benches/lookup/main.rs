//! Benchmarks: fingerprints with every profile; lookups with the index, `mih-rs` and the linear scan;
//! lookups over HTTP compared with a bare handler; snapshots and inserts.
//!
//! Machines are shared and noisy, so each comparison runs its contenders in turn for several rounds, and
//! reports the median of the ratios of the rounds. `cargo bench --bench lookup` runs everything with
//! 1,000,000 hashes. Arguments after `--` select parts (`fingerprint`, `index`, `snapshot`, `http`,
//! `ingest`, `passages`, `singles`, `dedupe`, `clusters`, `beside`) and other numbers of hashes. Parts of
//! `index` can be selected separately: `built`, `even`, `skewed`, `wide`, `wider`, `threads`, `pairs`,
//! `minhash`. The name of a form (`avx2`, `avx512`, `scalar`) makes the index use it.

mod beside;
mod clusters;
mod data;
mod dedupe;
mod fingerprint;
mod http;
mod index;
mod ingest;
mod passages;
mod rounds;
mod server;
mod singles;
mod snapshot;

use lookalike_hamming::Form;

/// The allocator of the binary, so that the bare handler uses the same one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    // The HTTP client needs a provider even without TLS.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [part, name, count] = &arguments[..]
        && part == "build"
    {
        return index::build(name, count.parse().expect("a number of hashes"));
    }
    if let [part, way, path] = &arguments[..]
        && part == "load"
    {
        return snapshot::load(way, path.as_ref());
    }
    if let [part, profile, path] = &arguments[..]
        && part == "dedupe-alone"
    {
        return dedupe::alone(profile, path.as_ref());
    }
    let mut counts: Vec<usize> = arguments.iter().filter_map(|argument| argument.parse().ok()).collect();
    if counts.is_empty() {
        counts.push(1_000_000);
    }
    for form in arguments.iter().filter_map(|argument| Form::named(argument)) {
        assert!(form.prefer(), "this processor has no {}", form.name());
    }
    let is_part = |argument: &&String| argument.parse::<usize>().is_err() && Form::named(argument).is_none();
    let parts: Vec<&String> = arguments.iter().filter(is_part).collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| *wanted == part);
    if wanted("fingerprint") {
        fingerprint::run();
    }
    let of_index: Vec<&str> =
        index::PARTS.into_iter().filter(|part| wanted("index") || wanted(part)).collect();
    if !of_index.is_empty() {
        index::run(&counts, &of_index);
    }
    if wanted("snapshot") {
        snapshot::run(&counts);
    }
    if wanted("http") {
        http::run(counts[0]);
    }
    if wanted("ingest") {
        ingest::run();
    }
    if wanted("passages") {
        passages::run(counts[0] as u64);
    }
    if wanted("singles") {
        singles::run();
    }
    if wanted("dedupe") {
        dedupe::run(counts[0]);
    }
    if wanted("clusters") {
        clusters::run(&counts);
    }
    if wanted("beside") {
        beside::run(&counts);
    }
}
