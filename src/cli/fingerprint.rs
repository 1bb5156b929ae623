//! `lookalike fingerprint`: prints the fingerprints of files, without a server.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::Failure;
use lookalike_files::{Format, doubts, is_archive, unpacked, wrong};
use lookalike_hash::HashForm;
use lookalike_http::CharsetOut;
use lookalike_text::fingerprint::{Fingerprint, Profile, Status, check_takes_texts};
use lookalike_text::profiles;
use lookalike_text::{CharsetOf, Decoded, PageText, decode, page_text};
use lookalike_wording::counted;

#[derive(Debug, Args)]
pub(super) struct FingerprintArguments {
    /// Files with one text each; .gz and .zst are decompressed; - is standard input. With a profile of
    /// images: images, and folders of them
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Profile, with or without version
    #[arg(long, default_value = "copies-128")]
    profile: String,
    /// TOML file that defines your own profiles
    #[arg(long, value_name = "FILE")]
    profiles: Option<PathBuf>,
    /// Treat the files as HTML pages
    #[arg(long)]
    html: bool,
    /// Which text of a page is used
    #[arg(long, value_name = "WHICH", default_value = "main", requires = "html")]
    page: OfPage,
    /// Charset of the files, such as gbk; by default UTF-8, else the declared or detected one
    #[arg(long)]
    charset: Option<String>,
    /// Form of the hashes: hex, 0x, decimal, signed, base64
    #[arg(long, value_name = "FORM", default_value = "hex")]
    hash_format: HashForm,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// The text of a page that is used.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum OfPage {
    /// The main text, as the server extracts it
    Main,
    /// All visible text
    Visible,
}

impl From<OfPage> for PageText {
    fn from(page: OfPage) -> PageText {
        match page {
            OfPage::Main => PageText::Main,
            OfPage::Visible => PageText::Visible,
        }
    }
}

pub(super) fn run(arguments: &FingerprintArguments) -> Result<(), Failure> {
    let profile = profile(arguments.profiles.as_deref(), &arguments.profile)?;
    if profile.takes_images() {
        return super::images::run(profile, &arguments.files, arguments.hash_format, arguments.json);
    }
    check_takes_texts(profile).map_err(Failure::new)?;
    let mut failed = 0;
    for file in &arguments.files {
        let name = file.display().to_string();
        match read(file, arguments.charset.as_deref(), arguments.html) {
            Ok((text, charset)) => {
                let page = arguments.html.then(|| page_text(&text, arguments.page.into()));
                let which = page.as_ref().map(|page| page.which);
                let text = page.map_or(text, |page| page.text);
                if charset.is_doubtful() {
                    eprintln!("lookalike: {name}: {}", doubts(&charset));
                }
                print(&name, profile, profile.fingerprint(&text), (charset, which), arguments)?;
            }
            Err(error) => {
                eprintln!("lookalike: {name}: {error}");
                failed += 1;
            }
        }
    }
    if failed > 0 { Err(Failure::new(format!("{failed} of the files could not be read"))) } else { Ok(()) }
}

/// The profile with this name, built in or defined in `file`.
pub(super) fn profile(file: Option<&Path>, name: &str) -> Result<&'static Profile, Failure> {
    let profiles = profiles::load(file).map_err(|error| Failure::of(&error, 78))?;
    profiles.named(name).ok_or_else(|| {
        Failure::new(format!("there is no profile {name:?}; there are {}", profiles.listing()))
    })
}

fn read(file: &Path, charset: Option<&str>, is_page: bool) -> io::Result<(String, CharsetOf)> {
    let format = Format::named(file).filter(|format| *format != Format::Text);
    if format == Some(Format::Image) {
        return Err(wrong("it is an image: --profile pdq makes hashes of images"));
    }
    if format.is_some() || is_archive(file) {
        return Err(wrong(of_many(file, format)));
    }
    let mut bytes = Vec::new();
    unpacked(file, &Arc::default())?.read_to_end(&mut bytes)?;
    let Decoded { text, charset } = decode(&bytes, charset, is_page).map_err(io::Error::other)?;
    Ok((text.into_owned(), charset))
}

/// Why a file of many documents has no fingerprint, and what the user may want instead.
fn of_many(file: &Path, format: Option<Format>) -> String {
    let (name, piped) = (file.display(), "fingerprint - reads one text from standard input");
    let one = match format {
        Some(Format::Jsonl) => format!("; {piped}: head -1 {name} | jq -r .text | lookalike fingerprint -"),
        _ => format!("; {piped}"),
    };
    let copied = if is_archive(file) {
        String::new()
    } else {
        format!(", `lookalike dedupe {name} -o FOLDER` copies it without near-duplicates")
    };
    format!(
        "it has many documents, and fingerprint takes one text per file: `lookalike import {name}` stores \
         them in a server{copied}{one}"
    )
}

fn print(
    name: &str,
    profile: &Profile,
    made: Fingerprint,
    (charset, page): (CharsetOf, Option<PageText>),
    arguments: &FingerprintArguments,
) -> io::Result<()> {
    let hash = arguments.hash_format.write(made.hash);
    let status = match made.status {
        Status::Ok => "ok",
        Status::Short => "short",
        Status::Empty => "empty",
    };
    let mut out = io::stdout().lock();
    if arguments.json {
        let mut line = serde_json::json!({
            "file": name, "hash": hash, "bits": profile.width().bits(),
            "profile": profile.id().to_string(), "features": made.features, "status": status,
            "k": made.k, "sensitivity": made.moved.within(made.k), "charset": CharsetOut::from(charset),
        });
        if let Some(page) = page {
            line["page"] = if page == PageText::Main { "main" } else { "visible" }.into();
        }
        return writeln!(out, "{line}");
    }
    if made.status != Status::Ok {
        let features = counted(made.features as u64, "feature");
        eprintln!("lookalike: {name}: {status}: {features}; a changed word may move it beyond k");
    }
    writeln!(out, "{hash}  {name}")
}
