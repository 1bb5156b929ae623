//! Snapshots: the time to write and to load one, its size compared with its information content, and the
//! peak memory of a load, each load in a separate process; compared with format 1 and with plain insertion.

use std::collections::HashSet;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lookalike::ids::{CollectionId, Hash, Sequence, Width};
use lookalike::index::{Filed, HashIndex, Index, Progress};
use lookalike::snapshot::{self, Content, Section};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use crate::index::data::{self, Spread};

/// Hashes in a chunk of format 1.
const PLAIN_CHUNK: usize = 65_536;
/// The compared methods of loading.
const METHODS: [&str; 3] = ["format 2", "format 1", "format 1, hash by hash"];

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
    let plain = dir.join("format-1");
    let start = Instant::now();
    write_plain(&plain, &sorted).expect("space for a file");
    let plain_seconds = start.elapsed().as_secs_f64();
    let runs: Vec<Vec<W>> = sorted.chunks(PLAIN_CHUNK).map(<[W]>::to_vec).collect();
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
        [("format 2", seconds, file.bytes), ("format 1, sorted before", plain_seconds, plain_bytes)]
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
        let path = if method == "format 2" { &file.path } else { &plain };
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
    let index = if method == METHODS[2] { inserted(path) } else { at_once(path) };
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

/// Loads format 1 by insertion of one chunk after the other, as a baseline.
fn inserted(path: &Path) -> Arc<dyn HashIndex> {
    let mut file = std::io::BufReader::with_capacity(1 << 20, File::open(path).expect("it was just written"));
    let mut take = |count: usize| {
        let mut bytes = vec![0; count];
        file.read_exact(&mut bytes).map(|()| bytes)
    };
    let head = take(24 + 12 + 11 + 8).expect("it begins with header and section");
    let width = if head[28] == 64 { Width::Bits64 } else { Width::Bits128 };
    let index = lookalike::index::of_width(width);
    loop {
        let count = take(4).map_or(0, |bytes| u32::from_le_bytes(bytes.try_into().expect("4 bytes")));
        if count == 0 {
            return index;
        }
        let bytes = take(count as usize * width.bytes()).expect("the chunk is whole");
        let checksum = take(8).expect("a chunk has a checksum");
        assert_eq!(checksum, xxh3_64(&bytes).to_le_bytes());
        index.insert_all(&mut bytes.chunks_exact(width.bytes()).filter_map(Hash::from_bytes));
    }
}

/// Writes format 1, which the library can only read.
fn write_plain<W: Filed>(path: &Path, sorted: &[W]) -> std::io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut whole = Xxh3Default::new();
    let mut put = |bytes: &[u8]| {
        whole.update(bytes);
        file.write_all(bytes)
    };
    put(b"lklsnap\n")?;
    put(&[&1u32.to_le_bytes()[..], &1u64.to_le_bytes(), &1u32.to_le_bytes()].concat())?;
    let mut section = Vec::new();
    [1, W::WIDTH.bits(), 11].iter().for_each(|number: &u32| section.extend(number.to_le_bytes()));
    section.extend(b"copies-64@1");
    put(&section)?;
    put(&xxh3_64(&section).to_le_bytes())?;
    for chunk in sorted.chunks(PLAIN_CHUNK) {
        let mut bytes = Vec::with_capacity(chunk.len() * W::WIDTH.bytes());
        chunk.iter().for_each(|hash| hash.to_hash().write_bytes(&mut bytes));
        put(&(chunk.len() as u32).to_le_bytes())?;
        put(&bytes)?;
        put(&xxh3_64(&bytes).to_le_bytes())?;
    }
    put(&0u32.to_le_bytes())?;
    put(&1u64.to_le_bytes())?;
    let checksum = whole.digest();
    file.write_all(&checksum.to_le_bytes())?;
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
