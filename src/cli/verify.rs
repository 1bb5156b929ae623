//! `lookalike verify`: checks a data directory for damage. It changes nothing.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::Failure;
use super::serve::open_code;
use lookalike_engine as engine;
use lookalike_wording::counted;

#[derive(Debug, Args)]
pub(super) struct VerifyArguments {
    /// Data directory; no server may be using it
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(super) fn run(arguments: &VerifyArguments) -> Result<(), Failure> {
    let (mut grave, mut light, mut refused) = (0, 0, 0);
    let verified = engine::verify(&arguments.dir, &mut |flaw| {
        if flaw.is_refused() {
            refused += 1;
        } else if flaw.is_grave() {
            grave += 1;
        } else {
            light += 1;
        }
        let _ = writeln!(std::io::stdout(), "{}", Failure::of(&flaw, 65));
    });
    let verified = verified.map_err(|error| Failure::of(&error, open_code(&error)))?;
    let dir = arguments.dir.display();
    if let Some(why) = &verified.unlocked {
        let why = Failure::of(why, 0);
        eprintln!(
            "{why}; verified without a lock: what a running server writes meanwhile may look like damage"
        );
    }
    if refused > 0 && grave == 0 {
        let message = format!(
            "{dir}: access to {} is denied, so it is not known whether damage is there",
            counted(refused, "file")
        );
        return Err(Failure { message, code: 1 });
    }
    if grave > 0 {
        let message = format!(
            "{dir} is damaged in {}: a server does not start on it. Restore a backup, or copy what is \
             readable with `lookalike repair`",
            counted(grave, "place")
        );
        return Err(Failure { message, code: 65 });
    }
    if light > 0 {
        let message =
            format!("{dir}: the documents are whole; passed over: {}", counted(light, "damaged snapshot"));
        return Err(Failure { message, code: 65 });
    }
    let (files, bytes) = (counted(verified.files, "file"), counted(verified.bytes, "byte"));
    println!("{dir} is sound: {files}, {bytes}");
    Ok(())
}
