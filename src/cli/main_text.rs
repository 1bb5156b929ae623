//! `lookalike eval --main-text`: measures the main text of pages against main text that people marked.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde::Deserialize;

use super::Failure;
use crate::eval::{ExtractedPage, main_text_table};
use crate::text::{decode, main_text, visible_text};

/// What people marked in a page. Other fields are ignored.
#[derive(Deserialize)]
struct Marked {
    #[serde(rename = "articleBody")]
    text: String,
}

/// Prints the scores of the pages of a folder: `html/NAME.html` or `html/NAME.html.gz` for each name in
/// `ground-truth.json`.
pub(super) fn run(folder: &Path) -> Result<(), Failure> {
    let path = folder.join("ground-truth.json");
    let text = fs::read(&path).map_err(|error| at(&path, &error))?;
    let truth: BTreeMap<String, Marked> = serde_json::from_slice(&text).map_err(|error| at(&path, &error))?;
    let extracted = |(name, marked): (String, Marked)| {
        let page = page(folder, &name)?;
        Ok(ExtractedPage { name, marked: marked.text, main: main_text(&page), visible: visible_text(&page) })
    };
    let pages: Vec<ExtractedPage> = truth.into_iter().map(extracted).collect::<Result<_, Failure>>()?;
    std::io::stdout().lock().write_all(main_text_table(&pages).as_bytes())?;
    Ok(())
}

/// The decoded page of this name.
fn page(folder: &Path, name: &str) -> Result<String, Failure> {
    let mut path = folder.join("html").join(format!("{name}.html"));
    let mut bytes = Vec::new();
    let read = if path.exists() {
        File::open(&path).and_then(|mut file| file.read_to_end(&mut bytes))
    } else {
        path.add_extension("gz");
        File::open(&path).and_then(|file| MultiGzDecoder::new(file).read_to_end(&mut bytes))
    };
    read.map_err(|error| at(&path, &error))?;
    Ok(decode(&bytes, None, true).map_err(|error| at(&path, &error))?.text.into_owned())
}

fn at(path: &Path, error: &dyn std::error::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}
