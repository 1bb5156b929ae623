//! `lookalike idf`: computes the inverse document frequency of words from the user's texts, for a profile
//! with `weights = "tf-idf"`.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use flate2::read::MultiGzDecoder;
use serde::Deserialize;

use super::Failure;
use lookalike_text::features::{Cutter, StopWords, WordPlan};
use lookalike_text::{Dictionary, Edition, normalise};
use lookalike_wording::counted;

#[derive(Debug, Args)]
pub(super) struct IdfArguments {
    /// Input files: .jsonl and .jsonl.gz hold one {"text": …} per line, any other file is one text
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Leave out words that occur in fewer texts than this; they get the weight of unknown words
    #[arg(long, default_value_t = 2)]
    least: u32,
    /// Words to add to the built-in dictionary, one per line
    #[arg(long, value_name = "FILE")]
    user_dictionary: Option<PathBuf>,
    /// Output file; by default standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Document {
    text: String,
}

/// The number of texts that contain each word.
#[derive(Default)]
struct Counts {
    texts: u32,
    words: HashMap<String, u32>,
}

pub(super) fn run(arguments: &IdfArguments) -> Result<(), Failure> {
    let own = arguments.user_dictionary.as_deref().map(dictionary).transpose()?;
    let dictionary = own.as_ref().unwrap_or_else(|| Dictionary::built_in());
    let mut counts = Counts::default();
    for file in &arguments.files {
        each_text(file, |text| counts.add(&text, dictionary))?;
    }
    if counts.texts == 0 {
        return Err(Failure::new("there is no text in these files"));
    }
    match &arguments.output {
        None => counts.write(arguments.least, io::stdout().lock())?,
        Some(path) => counts.write(arguments.least, File::create(path).map_err(|error| at(path, &error))?)?,
    }
    Ok(())
}

fn dictionary(path: &Path) -> Result<Dictionary, Failure> {
    let lines = fs::read_to_string(path).map_err(|error| at(path, &error))?;
    let wrong = |error| Failure::new(format!("{}: {error}", path.display()));
    Dictionary::with_words(&lines, Edition::Jieba).map_err(wrong)
}

impl Counts {
    fn add(&mut self, text: &str, dictionary: &Dictionary) {
        // Counts every word that any profile can extract: a word that is missing from the table gets the
        // weight of the rarest one.
        let plan = WordPlan {
            cutter: Cutter::Guess,
            least_characters: 1,
            drops_numbers: false,
            stop_words: StopWords::default(),
            shortest: 1,
            longest: 1,
        };
        let mut words = Vec::new();
        plan.words(&normalise(text), dictionary, |word| words.push(word.to_owned()));
        words.sort_unstable();
        words.dedup();
        self.texts += 1;
        words.into_iter().for_each(|word| *self.words.entry(word).or_default() += 1);
    }

    /// Writes the weights by document frequency, the highest first, after the weight of unknown words,
    /// which is that of a word in one text.
    fn write(&self, least: u32, out: impl Write) -> io::Result<()> {
        let mut out = BufWriter::new(out);
        // A weight of 0 would drop the word. A word of every text gets almost 0 instead.
        let idf = |texts: u32| (f64::from(self.texts) / f64::from(texts)).ln().max(0.001);
        let mut words: Vec<(&String, u32)> = self
            .words
            .iter()
            .map(|(word, &texts)| (word, texts))
            .filter(|(_, texts)| *texts >= least)
            .collect();
        words.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        writeln!(out, "# {}, words in at least {least} of them", counted(self.texts.into(), "text"))?;
        writeln!(out, "* {:.6}", idf(1))?;
        for (word, texts) in words {
            writeln!(out, "{word} {:.6}", idf(texts))?;
        }
        out.flush()
    }
}

fn each_text(path: &Path, mut each: impl FnMut(String)) -> Result<(), Failure> {
    let name = path.to_string_lossy();
    if !name.ends_with(".jsonl") && !name.ends_with(".jsonl.gz") {
        each(fs::read_to_string(path).map_err(|error| at(path, &error))?);
        return Ok(());
    }
    let file = File::open(path).map_err(|error| at(path, &error))?;
    let reader: Box<dyn Read> =
        if name.ends_with(".gz") { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    for (number, line) in (1..).zip(BufReader::new(reader).lines()) {
        let line = line.map_err(|error| at(path, &error))?;
        let document: Document = serde_json::from_str(&line)
            .map_err(|error| Failure::new(format!("{}:{number}: {error}", path.display())))?;
        each(document.text);
    }
    Ok(())
}

fn at(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}
