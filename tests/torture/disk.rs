//! A disk of a test's own: an ext4 in a file, which can lose its power and be filled.
//!
//! Mounting takes root; without it a test says so and is left out.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A mounted file system; unmounted when it is dropped.
pub struct Disk {
    pub root: PathBuf,
    image: PathBuf,
}

impl Disk {
    /// A new ext4 of so many megabytes in a file of `dir`; `None`, and why, if that cannot be had here.
    pub fn ext4(dir: &Path, megabytes: u64) -> Option<Disk> {
        let image = dir.join("image");
        fs::File::create(&image).unwrap().set_len(megabytes << 20).unwrap();
        let made = run("mkfs.ext4", &["-q", "-F", "-m", "0", image.to_str().unwrap()]);
        let disk = Disk { root: dir.join("disk"), image };
        fs::create_dir(&disk.root).unwrap();
        match made.and_then(|()| disk.mount()) {
            Ok(()) => Some(disk),
            Err(why) => skipped(&why),
        }
    }

    fn mount(&self) -> Result<(), String> {
        let image = self.image.to_str().unwrap();
        run("mount", &["-o", "loop", image, self.root.to_str().unwrap()])
    }

    /// The power fails: what was not made durable is gone, the journal of the file system is not written out, and
    /// every call fails from now on (`EXT4_IOC_SHUTDOWN` with `EXT4_GOING_FLAGS_NOLOGFLUSH`).
    pub fn cut_power(&self) {
        let ioctl = "open(my $d, '<', $ARGV[0]) or die $!; my $f = pack('L', 2); ioctl($d, 0x8004587d, $f) or die $!;";
        run("perl", &["-e", ioctl, self.root.to_str().unwrap()]).unwrap();
    }

    /// The power is back.
    pub fn remount(&self) {
        self.unmount();
        self.mount().unwrap();
    }

    /// Takes all the room that is left but for about so many bytes; answers with the file that takes it.
    pub fn fill(&self, but: u64) -> PathBuf {
        let ballast = self.root.join("ballast");
        // What is reserved and not written costs no time; others may be faster, and some goes for its bookkeeping.
        let room = self.free().saturating_sub(but + (1 << 20));
        let _ = run("fallocate", &["-l", &room.to_string(), ballast.to_str().unwrap()]);
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&ballast).unwrap();
        while self.free() > but && file.write_all(&[1; 8 << 10]).is_ok() {}
        ballast
    }

    /// The bytes that anybody may still use.
    pub fn free(&self) -> u64 {
        let output = Command::new("stat").args(["-f", "-c", "%a %S"]).arg(&self.root).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (blocks, size) = text.trim().split_once(' ').unwrap();
        blocks.parse::<u64>().unwrap() * size.parse::<u64>().unwrap()
    }

    fn unmount(&self) {
        let root = self.root.to_str().unwrap();
        // A process that was killed a moment ago may still hold it.
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

fn skipped(why: &str) -> Option<Disk> {
    eprintln!("SKIPPED: no disk can be mounted here: {why}");
    None
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{program}: {error}")),
    }
}
