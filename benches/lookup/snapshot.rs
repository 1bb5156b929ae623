//! Snapshots: the time to write and to load one, its size compared with its information content, and the
//! peak memory of a load, each load in a separate process; compared with the insertion of hash after hash.

use std::collections::HashSet;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lookalike_hamming::snapshot::{self, Content, Section};
use lookalike_hamming::{Filed, HashIndex, Index, Progress};
use lookalike_hash::{CollectionId, Hash, Sequence, Width};

use crate::index::data::{self, Spread};

/// Hashes in a run, and in a chunk of the plain file.
const CHUNK: usize = 65_536;
/// The compared methods of loading.
const METHODS: [&str; 2] = ["snapshot", "plain hashes, inserted one by one"];

pub fn run(counts: &[usize]) {
    let dir = tempfile::tempdir().expect("space for temporary files");
    for &count in counts {
        for spread in [Spread::Even, Spread::Skewed] {
            println!("\n## snapshot of {count} hashes of 64 bits, {spread}\n");
            report(dir.path(), data::hashes::<u64>(count, spread));
        }
        println!("\n## snapshot of {count} hashes of 128 bits, even\n");
        report(dir.path(), data::hashes::<u128>(count, Spread::Even));
    }
}

fn report<W: Filed>(dir: &Path, hashes: Vec<W>) {
    let count = hashes.len();
    let mut sorted = hashes;
    sorted.sort_unstable();
    let plain = dir.join("plain");
    let start = Instant::now();
    write_plain(&plain, &sorted).expect("space for a file");
    let plain_seconds = start.elapsed().as_secs_f64();
    let runs: Vec<Vec<W>> = sorted.chunks(CHUNK).map(<[W]>::to_vec).collect();
    drop(sorted);
    let index = Index::built(&runs, 2, &Progress::default()).expect("the runs ascend");
    drop(runs);
    let index: Arc<dyn HashIndex> = Arc::new(index);
    let section = Section { collection: CollectionId(1), width: W::WIDTH, profile: "copies-64@1".to_owned() };
    let content = [Content { section, index, without: HashSet::new() }];
    let start = Instant::now();
    let file = snapshot::write(dir, Sequence(1), &content, &|| Ok(()), || Ok(Sequence(1)))
        .expect("space for a file");
    let seconds = start.elapsed().as_secs_f64();
    drop(content);
    let bound = information(count, W::WIDTH);
    println!(
        "| | written in s | bits a hash | ÷ {bound:.2}, the information of even ones |\n|---|---|---|---|"
    );
    let plain_bytes = fs::metadata(&plain).map_or(0, |meta| meta.len());
    for (name, seconds, bytes) in
        [("snapshot", seconds, file.bytes), ("plain hashes, sorted before", plain_seconds, plain_bytes)]
    {
        let bits = bytes as f64 * 8.0 / count as f64;
        println!("| {name} | {seconds:.2} | {bits:.3} | {:.4} |", bits / bound);
    }
    println!(
        "\n| loaded from | s | processor s | M hashes/s | bytes a hash, computed | resident after, MB \
         | peak, MB | peak ÷ after |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for method in METHODS {
        let path = if method == METHODS[0] { &file.path } else { &plain };
        let own = std::env::current_exe().expect("this program has a file");
        let output = std::process::Command::new(own)
            .args(["load".as_ref(), method.as_ref(), path.as_os_str()])
            .output();
        let output = output.expect("this program can be run");
        println!("| {method} | {} |", String::from_utf8_lossy(&output.stdout).trim());
    }
}

/// Loads a snapshot and prints time and memory. Runs in a separate process, so that the peak is that of the
/// load.
pub fn load(method: &str, path: &Path) {
    let start = Instant::now();
    let index = if method == METHODS[0] { at_once(path) } else { inserted(path) };
    let (seconds, busy) = (start.elapsed().as_secs_f64(), processor_seconds());
    std::thread::sleep(Duration::from_secs(1));
    let (resident, peak) = (status("VmRSS:"), status("VmHWM:"));
    let len = index.len() as f64;
    println!(
        "{seconds:.2} | {busy:.2} | {:.1} | {:.1} | {resident:.0} | {peak:.0} | {:.2}",
        len / seconds / 1e6,
        index.bytes() as f64 / len,
        peak / resident
    );
    black_box(index);
}

fn at_once(path: &Path) -> Arc<dyn HashIndex> {
    let loaded = snapshot::load(path, &Progress::default()).expect("it was just written");
    loaded.sections.into_iter().next().expect("it has a section").1
}

/// Inserts the hashes of a plain file one chunk after the other, as a baseline.
fn inserted(path: &Path) -> Arc<dyn HashIndex> {
    let mut file = std::io::BufReader::with_capacity(1 << 20, File::open(path).expect("it was just written"));
    let mut head = [0];
    file.read_exact(&mut head).expect("it begins with the width");
    let width = Width::from_bits(head[0].into()).expect("a width");
    let index = lookalike_hamming::of_width(width);
    let mut chunk = vec![0; CHUNK * width.bytes()];
    loop {
        let mut length = 0;
        while length < chunk.len() {
            match file.read(&mut chunk[length..]).expect("it was just written") {
                0 => break,
                read => length += read,
            }
        }
        if length == 0 {
            return index;
        }
        index.insert_all(&mut chunk[..length].chunks_exact(width.bytes()).filter_map(Hash::from_bytes));
    }
}

/// Writes the width, and the hashes one after the other.
fn write_plain<W: Filed>(path: &Path, sorted: &[W]) -> std::io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    file.write_all(&[W::WIDTH.bits() as u8])?;
    let mut bytes = Vec::with_capacity(16);
    for hash in sorted {
        bytes.clear();
        hash.to_hash().write_bytes(&mut bytes);
        file.write_all(&bytes)?;
    }
    file.into_inner()?.sync_all()
}

/// The information in `count` distinct uniform hashes, in bits a hash: log2 of the number of such sets, by
/// Stirling's formula, divided by `count`.
fn information(count: usize, width: Width) -> f64 {
    let count = count as f64;
    let tail = (2.0 * std::f64::consts::PI * count).log2() / (2.0 * count);
    f64::from(width.bits()) - count.log2() + std::f64::consts::LOG2_E - tail
}

/// The processor time of this process in seconds. Unlike the elapsed time, it does not depend on the load
/// of the machine.
fn processor_seconds() -> f64 {
    let status = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = status.rsplit(')').next().unwrap_or_default().split(' ');
    // User and system time, in units of 10 ms.
    fields.skip(12).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// A field of `/proc/self/status`, in megabytes.
fn status(name: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or_default() / 1_000.0
}
