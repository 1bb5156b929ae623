//! A disk for one test: an ext4 file system in a file, which can lose power and be filled.
//!
//! Mounting needs root; without it a test prints `SKIPPED` with the reason and returns.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::skipped::skipped;

/// A mounted file system, unmounted on drop.
pub struct Disk {
    pub root: PathBuf,
    image: PathBuf,
}

impl Disk {
    /// Creates and mounts an ext4 of `megabytes` MiB in a file of `dir`. Prints the reason and returns
    /// `None` if this is not possible.
    pub fn ext4(dir: &Path, megabytes: u64) -> Option<Disk> {
        let image = dir.join("image");
        fs::File::create(&image).unwrap().set_len(megabytes << 20).unwrap();
        let formatted = run("mkfs.ext4", &["-q", "-F", "-m", "0", image.to_str().unwrap()]);
        let disk = Disk { root: dir.join("disk"), image };
        fs::create_dir(&disk.root).unwrap();
        match formatted.and_then(|()| disk.mount()) {
            Ok(()) => Some(disk),
            Err(reason) => {
                skipped(&format!("no disk can be mounted here: {reason}"));
                None
            }
        }
    }

    fn mount(&self) -> Result<(), String> {
        let image = self.image.to_str().unwrap();
        run("mount", &["-o", "loop", image, self.root.to_str().unwrap()])
    }

    /// Simulates a power loss: data that is not durable is lost, the journal of the file system is not
    /// flushed, and every later call fails (`EXT4_IOC_SHUTDOWN` with `EXT4_GOING_FLAGS_NOLOGFLUSH`).
    pub fn cut_power(&self) {
        let ioctl = "open(my $d, '<', $ARGV[0]) or die $!; my $f = pack('L', 2); \
                     ioctl($d, 0x8004587d, $f) or die $!;";
        run("perl", &["-e", ioctl, self.root.to_str().unwrap()]).unwrap();
    }

    /// Mounts the file system again after a power loss.
    pub fn remount(&self) {
        self.unmount();
        self.mount().unwrap();
    }

    /// Fills the free space except for about `spare` bytes. Returns the file that fills it.
    pub fn fill(&self, spare: u64) -> PathBuf {
        let ballast = self.root.join("ballast");
        // Preallocation takes no time. The rest is written, because other writers may take or release space
        // meanwhile, and the file system needs some for its metadata.
        let length = self.free().saturating_sub(spare + (1 << 20));
        let _ = run("fallocate", &["-l", &length.to_string(), ballast.to_str().unwrap()]);
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&ballast).unwrap();
        while self.free() > spare && file.write_all(&[1; 8 << 10]).is_ok() {}
        ballast
    }

    /// The free space in bytes for any user.
    pub fn free(&self) -> u64 {
        let output = Command::new("stat").args(["-f", "-c", "%a %S"]).arg(&self.root).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (blocks, size) = text.trim().split_once(' ').unwrap();
        blocks.parse::<u64>().unwrap() * size.parse::<u64>().unwrap()
    }

    fn unmount(&self) {
        let root = self.root.to_str().unwrap();
        // A process that has just been killed may still have open files.
        for _ in 0..100 {
            if run("umount", &[root]).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = run("umount", &["-l", root]);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.unmount();
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{program}: {error}")),
    }
}
