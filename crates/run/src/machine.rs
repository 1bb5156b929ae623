//! The resources of this process: its memory limit, its memory, threads and files, and the CPU time of its
//! threads.
//!
//! They are read from `/proc` and the control groups of Linux, versions 1 and 2, with the limits of all
//! parent groups. If these are not available, the result is `None`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A memory limit and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Bytes.
    pub bytes: u64,
    /// The file that states it.
    pub from: PathBuf,
}

/// The lowest memory limit of this process: those of its control groups, and the memory of the machine.
pub fn memory_limit() -> Option<MemoryLimit> {
    limit_under(Path::new("/"))
}

/// The memory that this process can get without taking it from others: what the machine has left, and what
/// the lowest limit leaves beside the memory that it has.
pub fn free_memory() -> Option<u64> {
    let left = kilobytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    let limit = memory_limit()?.bytes.saturating_sub(resident_bytes()?);
    Some(left.min(limit))
}

/// The name of the machine.
pub fn host_name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// The resident memory of this process in bytes.
pub fn resident_bytes() -> Option<u64> {
    kilobytes(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// Figures of this process from Linux.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// The CPU time of all its threads.
    pub cpu: Duration,
    /// When it started, since 1970.
    pub started: Duration,
    /// Its resident memory.
    pub resident_bytes: u64,
    /// Its virtual memory.
    pub virtual_bytes: u64,
    /// The limit of virtual memory; 0 without one.
    pub most_virtual_bytes: u64,
    /// The number of its threads.
    pub threads: u64,
    /// The number of open file descriptors.
    pub open_files: u64,
    /// The limit of open file descriptors; 0 without one.
    pub most_open_files: u64,
}

impl Process {
    /// The present figures; `None` if `/proc` does not have them.
    pub fn now() -> Option<Process> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The name of the program, in parentheses, may have spaces. After it, the fields are counted from 3.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        let ticks = |count: u64| Duration::from_secs_f64(count as f64 / per_second);
        let of_machine = fs::read_to_string("/proc/stat").ok()?;
        let booted = of_machine.lines().find_map(|line| line.strip_prefix("btime "))?.parse().ok()?;
        let most = |of| rustix::process::getrlimit(of).current.unwrap_or(0);
        Some(Process {
            cpu: ticks(field(14)? + field(15)?),
            started: Duration::from_secs(booted) + ticks(field(22)?),
            resident_bytes: field(24)? * rustix::param::page_size() as u64,
            virtual_bytes: field(23)?,
            most_virtual_bytes: most(rustix::process::Resource::As),
            threads: field(20)?,
            // One of them is the directory that is read here.
            open_files: fs::read_dir("/proc/self/fd").ok()?.count() as u64 - 1,
            most_open_files: most(rustix::process::Resource::Nofile),
        })
    }
}

/// Makes the kernel use only small pages for this process, if it can. With huge pages, a process with many
/// threads that allocate and free at random places keeps about twice the memory that it uses.
pub fn disable_huge_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "transparent huge pages cannot be disabled");
    }
}

/// The CPU time that this thread has used. On a busy machine, wall-clock time would mostly measure other
/// work.
///
/// # Panics
/// Never: the clock starts at 0.
pub fn thread_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.try_into().expect("the clock starts at 0")
}

fn limit_under(root: &Path) -> Option<MemoryLimit> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let (groups, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
    let mut limits = group_limits(root, &groups, &mounts);
    let total = kilobytes(&read("proc/meminfo"), "MemTotal:");
    limits.extend(total.map(|bytes| MemoryLimit { bytes, from: root.join("proc/meminfo") }));
    limits.into_iter().min_by_key(|limit| limit.bytes)
}

/// The value of a line such as `VmRSS:   1234 kB`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1_024)
}

/// A mounted hierarchy of control groups that may limit memory.
struct Hierarchy {
    /// The group that is the root of the mount.
    top: PathBuf,
    mount: PathBuf,
    /// The files of a group that contain its limits.
    files: &'static [&'static str],
    /// The controller under which the group of the process is listed: empty for version 2.
    controller: &'static str,
}

/// The limits of the groups of the process and of all their parents, as far as they are visible.
fn group_limits(root: &Path, groups: &str, mounts: &str) -> Vec<MemoryLimit> {
    let mut limits = Vec::new();
    for hierarchy in mounts.lines().filter_map(hierarchy) {
        let Some(group) = group_of(groups, hierarchy.controller) else {
            continue;
        };
        // In a container the path of the group may be outside its own mount. Then the root of the mount is
        // the group.
        let below = Path::new(group).strip_prefix(&hierarchy.top).unwrap_or(Path::new(""));
        let inside = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
        for above in below.ancestors() {
            let directory = inside(&hierarchy.mount).join(above);
            for file in hierarchy.files {
                let from = directory.join(file);
                let text = fs::read_to_string(&from).unwrap_or_default();
                // Without a limit, version 2 has "max", and version 1 a number larger than any memory.
                if let Ok(bytes) = text.trim().parse() {
                    limits.push(MemoryLimit { bytes, from });
                }
            }
        }
    }
    limits
}

/// A line of `mountinfo`: … root mount-point options - type source options.
fn hierarchy(line: &str) -> Option<Hierarchy> {
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (top, mount) = (place.next()?.into(), place.next()?.into());
    let mut kind = kind.split(' ');
    match (kind.next()?, kind.nth(1)?) {
        ("cgroup2", _) => {
            Some(Hierarchy { top, mount, files: &["memory.max", "memory.high"], controller: "" })
        }
        ("cgroup", options) if options.split(',').any(|option| option == "memory") => {
            Some(Hierarchy { top, mount, files: &["memory.limit_in_bytes"], controller: "memory" })
        }
        _ => None,
    }
}

/// The group in a line such as `4:cpu,memory:/path`.
fn group_of<'a>(groups: &'a str, controller: &str) -> Option<&'a str> {
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        fields.next().filter(|_| controllers.split(',').any(|name| name == controller))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root directory with these files.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn limit(files: &[(&str, &str)]) -> Option<(u64, String)> {
        let root = machine(files);
        let limit = limit_under(root.path())?;
        Some((limit.bytes, limit.from.strip_prefix(root.path()).unwrap().display().to_string()))
    }

    const MEMORY: (&str, &str) = ("proc/meminfo", "MemTotal:       2048 kB\nMemFree: 5 kB\n");
    const V2: (&str, &str) =
        ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n");
    const V1: (&str, &str) = (
        "proc/self/mountinfo",
        "33 30 0:30 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
         34 30 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
    );

    #[test]
    fn without_groups_the_limit_is_the_memory_of_the_machine() {
        assert_eq!(limit(&[MEMORY]), Some((2_097_152, "proc/meminfo".into())));
        assert_eq!(limit(&[]), None);
        assert_eq!(limit(&[("proc/meminfo", "MemTotal: lots\n")]), None);
    }

    #[test]
    fn the_lowest_limit_of_a_group_and_its_parents_counts() {
        let group = ("proc/self/cgroup", "0::/a/b\n");
        let files = |own: &'static str, above: &'static str| {
            [MEMORY, V2, group, ("sys/fs/cgroup/a/b/memory.max", own), ("sys/fs/cgroup/a/memory.max", above)]
        };
        assert_eq!(limit(&files("1000", "max")), Some((1_000, "sys/fs/cgroup/a/b/memory.max".into())));
        assert_eq!(limit(&files("max", "900")), Some((900, "sys/fs/cgroup/a/memory.max".into())));
        assert_eq!(limit(&files("1000", "900")), Some((900, "sys/fs/cgroup/a/memory.max".into())));
        assert_eq!(limit(&files("max", "max")), Some((2_097_152, "proc/meminfo".into())));
        let high = [MEMORY, V2, group, ("sys/fs/cgroup/a/b/memory.high", "700\n")];
        assert_eq!(limit(&high), Some((700, "sys/fs/cgroup/a/b/memory.high".into())));
    }

    #[test]
    fn version_one_in_a_container_is_read_at_the_root_of_its_mount() {
        let file = "sys/fs/cgroup/memory/memory.limit_in_bytes";
        let own = [MEMORY, V1, ("proc/self/cgroup", "5:cpu:/x\n4:memory:/docker/abc\n"), (file, "4096")];
        assert_eq!(limit(&own), Some((4_096, file.into())));
        let foreign = [MEMORY, V1, ("proc/self/cgroup", "4:memory:/elsewhere\n"), (file, "4096")];
        assert_eq!(limit(&foreign), Some((4_096, file.into())));
        let below = "sys/fs/cgroup/memory/below/memory.limit_in_bytes";
        let nested = [
            MEMORY,
            V1,
            ("proc/self/cgroup", "4:memory:/docker/abc/below\n"),
            (file, "9223372036854771712"),
            (below, "512"),
        ];
        assert_eq!(limit(&nested), Some((512, below.into())));
        let unlimited =
            [MEMORY, V1, ("proc/self/cgroup", "4:memory:/docker/abc\n"), (file, "9223372036854771712")];
        assert_eq!(limit(&unlimited), Some((2_097_152, "proc/meminfo".into())));
    }

    #[test]
    fn this_process_has_memory_and_a_limit() {
        assert!(resident_bytes().unwrap() > 100 << 10);
        assert!(memory_limit().unwrap().bytes > 1 << 20);
        let before = Process::now().unwrap();
        let spin = std::time::Instant::now();
        while Process::now().unwrap().cpu == before.cpu && spin.elapsed().as_secs() < 60 {}
        let now = Process::now().unwrap();
        assert!(now.cpu > before.cpu && now.threads >= 1 && now.open_files >= 3, "{now:?}");
        assert!(now.virtual_bytes > now.resident_bytes && now.resident_bytes > 100 << 10, "{now:?}");
        assert!(now.most_open_files >= now.open_files && now.started == before.started, "{now:?}");
        let age = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().saturating_sub(now.started);
        assert!(age.as_secs() < 3_600, "{age:?}");
    }
}
