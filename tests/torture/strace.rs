//! Fault injection by system call: the server runs under `strace`, which counts its calls on each file and
//! lets one of them fail.
//!
//! A recording run finds the points. A point is named by call, file and number, so that it is the same in
//! the next run. Files with random names (`.tmp…` before a rename) have no points; only the rename to their
//! final name is one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Calls that change data on the disk, or make it durable.
const CALLS: &str = "write,writev,pwrite64,pwritev,fsync,fdatasync,sync_file_range,ftruncate,fallocate,\
                     rename,renameat,renameat2,unlink,unlinkat,mkdir,rmdir,link,linkat,copy_file_range";

/// The N-th system call of a kind on a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    pub call: String,
    /// The path of the file in the data directory.
    pub file: String,
    pub number: usize,
}

/// The fault at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process is killed before the call.
    Kill,
    /// The call fails, once.
    Once(&'static str),
    /// This call and all later ones fail.
    Always(&'static str),
    /// The call returns 0 and writes nothing.
    Nothing,
    /// The call is delayed by this many seconds.
    Slow(u32),
}

/// Whether `strace` works here. Prints the reason if it does not.
pub fn available() -> bool {
    let output = Command::new("strace").args(["-f", "-qq", "-o", "/dev/null", "true"]).output();
    let works = output.as_ref().is_ok_and(|output| output.status.success());
    if !works {
        eprintln!("SKIPPED: strace does not work here: {output:?}");
    }
    works
}

/// The command with a fault at a point of its data directory.
pub fn with_fault(command: &Command, data: &Path, point: &Point, fault: Fault) -> Command {
    let Point { call, file, number } = point;
    let injection = match fault {
        Fault::Kill => format!("signal=KILL:when={number}"),
        Fault::Once(error) => format!("error={error}:when={number}"),
        Fault::Always(error) => format!("error={error}:when={number}+"),
        Fault::Nothing => format!("retval=0:when={number}"),
        Fault::Slow(seconds) => format!("delay_enter={seconds}s:when={number}"),
    };
    let mut arguments = vec!["-P".to_owned(), data.join(file).to_str().unwrap().to_owned()];
    arguments.extend([
        "-e".to_owned(),
        format!("trace={call}"),
        "-e".to_owned(),
        format!("inject={call}:{injection}"),
    ]);
    arguments.extend(["-o".to_owned(), injected_calls(data).to_str().unwrap().to_owned()]);
    // Signals are not delivered at the stops of this filter (strace 6.1).
    if fault != Fault::Kill {
        arguments.push("--seccomp-bpf".to_owned());
    }
    under_strace(command, &arguments)
}

/// The file to which `strace` writes the calls of a point, with a mark at those that got the fault.
fn injected_calls(data: &Path) -> PathBuf {
    data.with_file_name("met")
}

/// Whether the fault was injected. It may not be, because concurrent threads can take another order than in
/// the recording.
pub fn was_injected(data: &Path) -> bool {
    fs::read_to_string(injected_calls(data)).is_ok_and(|calls| calls.contains("(INJECTED)"))
}

/// Kills the `strace` of a process, which continues without it.
pub fn release(process: u32) {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:")).map_or("0", str::trim);
    if tracer != "0" {
        let _ = Command::new("kill").args(["-KILL", tracer]).status();
    }
}

/// The command, with its calls recorded in `trace`.
pub fn recorded(command: &Command, trace: &Path) -> Command {
    let calls = format!("trace={CALLS}");
    let out = trace.to_str().unwrap();
    under_strace(command, &["-y", "--seccomp-bpf", "-s", "0", "-e", &calls, "-o", out].map(str::to_owned))
}

/// With `-D`, strace is the grandchild, so that the child process to kill and to wait for is the server.
fn under_strace(command: &Command, arguments: &[String]) -> Command {
    let mut traced = Command::new("strace");
    traced
        .args(["-D", "-f", "-qq"])
        .args(arguments)
        .arg("--")
        .arg(command.get_program())
        .args(command.get_args());
    traced.env_clear();
    traced.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    traced
}

/// The points of a recording, by call and file, in ascending number.
pub fn points(trace: &Path, data: &Path) -> Vec<Point> {
    let text = fs::read_to_string(trace).unwrap();
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for line in text.lines() {
        let Some((call, file)) = called(line, data) else {
            continue;
        };
        if !file.contains(".tmp") {
            *counts.entry((call, file)).or_default() += 1;
        }
    }
    let each = |((call, file), count): ((String, String), usize)| {
        (1..=count).map(move |number| Point { call: call.clone(), file: file.clone(), number })
    };
    counts.into_iter().flat_map(each).collect()
}

/// The call of a line, and the last file of the data directory that it names: for a rename, the target.
fn called(line: &str, data: &Path) -> Option<(String, String)> {
    let (_, rest) = line.split_once(' ')?;
    let (call, arguments) = rest.trim_start().split_once('(')?;
    if !call.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return None;
    }
    let data = data.to_str()?;
    let (_, after) = arguments.rsplit_once(data)?;
    let file = after.split(['"', '>']).next()?.trim_start_matches('/');
    Some((call.to_owned(), file.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read() {
        let data = Path::new("/d");
        let read = |line| called(line, data);
        let point = |call: &str, file: &str| Some((call.to_owned(), file.to_owned()));
        assert_eq!(read(r#"12 write(3</d/store/0.jnl>, ""..., 9) = 9"#), point("write", "store/0.jnl"));
        assert_eq!(read(r"1  fsync(3</d/store> <unfinished ...>"), point("fsync", "store"));
        assert_eq!(read(r#"1 rename("/d/F.partial", "/d/F") = 0"#), point("rename", "F"));
        assert_eq!(read(r"1 <... fsync resumed>) = 0"), None);
        assert_eq!(read(r#"1 write(4<anon_inode:[eventfd]>, "", 8) = 8"#), None);
    }
}
