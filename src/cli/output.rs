//! Where a command writes the data that it fetches: a file, or standard output.
//!
//! It guarantees that a file appears under its final name only when it is complete, and that a failure or
//! an interruption leaves no file behind. Only SIGKILL leaves a `.partial` file. A device or a pipe is
//! written directly, because there is no file to replace.

use std::fs::{self, File};
use std::future::Future;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tokio::signal::unix::{SignalKind, signal};

use super::Failure;

pub(super) struct Output {
    place: Place,
    to: Box<dyn Write>,
}

enum Place {
    Standard,
    Device(PathBuf),
    File(Partial, PathBuf),
}

/// A file that is removed when dropped, unless it was renamed.
struct Partial {
    path: PathBuf,
    file: File,
    is_whole: bool,
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_whole {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Output {
    /// Opens the file, or standard output if `path` is `None`.
    pub(super) fn open(path: Option<PathBuf>) -> Result<Output, Failure> {
        let Some(path) = path else {
            return Ok(Output { place: Place::Standard, to: Box::new(io::stdout().lock()) });
        };
        if fs::metadata(&path).is_ok_and(|about| !about.is_file() && !about.is_dir()) {
            let file = File::options().write(true).open(&path).map_err(|error| failed(&path, &error))?;
            return Ok(Output { place: Place::Device(path), to: Box::new(BufWriter::new(file)) });
        }
        let partial = path.with_added_extension("partial");
        let file = File::create(&partial).map_err(|error| failed(&partial, &error))?;
        let to = file.try_clone().map_err(|error| failed(&partial, &error))?;
        let partial = Partial { path: partial, file, is_whole: false };
        Ok(Output { place: Place::File(partial, path), to: Box::new(BufWriter::new(to)) })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.to.write_all(bytes).map_err(|error| self.place.failed(error))
    }

    /// Syncs the file, runs `check` on it, and renames it to its final name if `check` succeeds. Returns
    /// the result of `check`, or `None` if the output is not a file.
    pub(super) async fn finish<T: Send + 'static>(
        mut self,
        check: impl FnOnce(&Path) -> Result<T, Failure> + Send + 'static,
    ) -> Result<Option<T>, Failure> {
        self.to.flush().map_err(|error| self.place.failed(error))?;
        let Place::File(mut partial, path) = self.place else {
            return Ok(None);
        };
        partial.file.sync_all().map_err(|error| failed(&partial.path, &error))?;
        let checked = partial.path.clone();
        let found = on_a_thread(move || check(&checked)).await?;
        fs::rename(&partial.path, &path).map_err(|error| failed(&path, &error))?;
        partial.is_whole = true;
        let directory =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(directory).and_then(|file| file.sync_all()).map_err(|error| failed(directory, &error))?;
        Ok(Some(found))
    }
}

impl Place {
    fn failed(&self, error: io::Error) -> Failure {
        match self {
            Place::Standard if error.kind() == io::ErrorKind::BrokenPipe => error.into(),
            Place::Standard => failed(Path::new("standard output"), &error),
            Place::Device(path) => failed(path, &error),
            Place::File(partial, _) => failed(&partial.path, &error),
        }
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("{} cannot be written: {error}", path.display()))
}

/// Runs long work on a new thread, so that the runtime still handles signals. A blocking task of the
/// runtime does not suit, because the runtime waits for it on shutdown.
async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let (send, done) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || send.send(work()));
    done.await.unwrap_or_else(|_| Err(Failure::new("the check ended without a result")))
}

/// Runs `work` with an output that is dropped, and so removed, on SIGINT or SIGTERM. If the output is not a
/// file, there is nothing to remove: the signals keep their default action, which ends the process at once,
/// even while it waits for a slow pipe.
pub(super) async fn interruptible<Work: Future<Output = Result<(), Failure>>>(
    output: Output,
    work: impl FnOnce(Output) -> Work,
) -> Result<(), Failure> {
    if !matches!(output.place, Place::File(..)) {
        return work(output).await;
    }
    let mut terminate = signal(SignalKind::terminate())?;
    let stopped = |message: &str, code| Err(Failure { message: message.to_owned(), code });
    tokio::select! {
        result = work(output) => result,
        _ = tokio::signal::ctrl_c() => stopped("interrupted", 130),
        _ = terminate.recv() => stopped("terminated", 143),
    }
}
