//! The documents of `--against`: those of files, or those of a collection of a server, which are fetched
//! into a working file first.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use futures::StreamExt;
use reqwest::Method;
use serde::Deserialize;

use super::super::Failure;
use super::super::client::{Access, Server, block_on, collection_route};
use super::index::Index;
use super::inputs::Inputs;
use super::weights::Weights;
use crate::cli::at;
use lookalike_files::Format;
use lookalike_hash::{CollectionName, Frequencies};
use lookalike_text::fingerprint::{Profile, makes_the_same};

/// Documents that are not to be in the output.
#[derive(Default)]
pub(super) struct Against {
    /// Their files.
    pub(super) inputs: Inputs,
    /// The names of the files, for the list of dropped documents: the path, or the URL of the collection.
    pub(super) names: Vec<String>,
    /// From this file on, lines are those that a server exports.
    pub(super) exported_from: usize,
    /// Indexes that were made earlier.
    pub(super) indexes: Vec<Index>,
    /// The collections, which are fetched into files at the beginning of a run.
    urls: Vec<String>,
    /// The file with the weights of the collections, if they have any.
    table: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Collection {
    profile: String,
    weights: Option<Table>,
}

/// The weights of a collection, as its settings name them.
#[derive(PartialEq, Deserialize)]
struct Table {
    digest: String,
}

impl Against {
    /// The files of these arguments. Collections are still to be fetched.
    pub(super) fn of(arguments: &[PathBuf], format: Option<Format>, images: bool) -> Against {
        let url = |path: &&PathBuf| {
            ["http://", "https://"]
                .iter()
                .any(|start| path.as_os_str().as_encoded_bytes().starts_with(start.as_bytes()))
        };
        let (urls, others): (Vec<&PathBuf>, Vec<&PathBuf>) = arguments.iter().partition(url);
        let (of_index, files): (Vec<&PathBuf>, Vec<&PathBuf>) =
            others.into_iter().partition(|path| Index::is_at(path));
        let files: Vec<PathBuf> = files.into_iter().cloned().collect();
        let mut inputs =
            if files.is_empty() { Inputs::default() } else { Inputs::of(&files, format, images) };
        let names: Vec<String> = inputs.files.iter().map(|input| input.shown.clone()).collect();
        let mut indexes = Vec::new();
        for path in of_index {
            match Index::open(path) {
                Ok(index) => indexes.push(index),
                Err(error) => inputs.problems.push(error.message),
            }
        }
        let urls = urls.into_iter().map(|url| url.display().to_string()).collect();
        Against { exported_from: names.len(), inputs, names, indexes, urls, table: None }
    }

    /// Whether there are collections without weights.
    pub(super) fn has_unweighted(&self) -> bool {
        !self.urls.is_empty() && self.table.is_none()
    }

    /// Whether there are collections with weights.
    pub(super) fn has_weighted(&self) -> bool {
        self.table.is_some()
    }

    /// The weights of the collections, or those that the first index was made with.
    pub(super) fn weights(&self) -> Option<Weights> {
        let of_index = || Some(self.indexes.first()?.weights());
        self.table.clone().map(Weights::File).or_else(of_index)
    }

    /// Fetches the collections into files of the folder.
    pub(super) fn fetch(&mut self, access: &Access, profile: &Profile, folder: &Path) -> Result<(), Failure> {
        let mut fetched = Vec::new();
        let table = folder.join("against.idf");
        let mut weights = Vec::new();
        for (number, url) in self.urls.iter().enumerate() {
            let to = folder.join(format!("against-{number}.jsonl"));
            weights.push(block_on(fetch(url, access.clone(), profile, &to, &table))?);
            fetched.push(to);
        }
        if let Some(at) = weights.iter().position(|of| *of != weights[0]) {
            let [first, other] = [&self.urls[0], &self.urls[at]];
            return Err(Failure::new(format!(
                "{first} and {other} have other weights, so their documents cannot be compared with one \
                 another: name one of them, or reindex one with the weights of the other"
            )));
        }
        self.table = weights.iter().any(Option::is_some).then_some(table);
        if !fetched.is_empty() {
            let inputs = Inputs::of(&fetched, Some(Format::Jsonl), false);
            if !inputs.problems.is_empty() {
                return Err(lookalike_files::Failure::all(&inputs.problems).into());
            }
            self.inputs.files.extend(inputs.files);
            self.names.extend(self.urls.iter().cloned());
        }
        self.names.extend(self.indexes.iter().flat_map(|index| index.about.files.iter().cloned()));
        Ok(())
    }
}

fn reindexed(name: &CollectionName) -> Failure {
    Failure::new(format!("the collection {name} was reindexed while it was read: try again"))
}

/// Writes the documents of a collection into a file, and its weights into another if it has any. Returns the
/// name of the weights.
async fn fetch(
    url: &str,
    access: Access,
    profile: &Profile,
    to: &Path,
    table: &Path,
) -> Result<Option<Table>, Failure> {
    let (server, name) = url.split_once("/collections/").unwrap_or((url, "default"));
    let name =
        CollectionName::new(name.trim_end_matches('/')).map_err(|error| Failure::new(error.to_string()))?;
    let client = Server::at(server.to_owned(), access).client()?;
    let about = client.send(client.request(Method::GET, &collection_route(&name, ""))).await?;
    let collection: Collection = about.json().await.map_err(|error| client.broken(error))?;
    let own = profile.id().to_string();
    if !makes_the_same(&collection.profile, &own) {
        let of = collection.profile;
        let message = format!("the collection {name} has the profile {of}, not {own}; --profile sets it");
        return Err(Failure::new(message));
    }
    // Those of sketches change no hash.
    let weights = collection.weights.filter(|_| profile.takes_weights());
    if weights.is_some() {
        let found = client.send(client.request(Method::GET, &collection_route(&name, "/weights"))).await?;
        let bytes = found.bytes().await.map_err(|error| client.broken(error))?;
        let found = Frequencies::from_bytes(&bytes).ok().map(|table| format!("{:016x}", table.digest()));
        if found.as_ref() != weights.as_ref().map(|own| &own.digest) {
            return Err(reindexed(&name));
        }
        std::fs::write(table, bytes).map_err(|error| at(table, &error))?;
    }
    let request = client.request(Method::GET, &collection_route(&name, "/export"));
    let mut body = client.send(request).await?.bytes_stream();
    let file = File::create(to).map_err(|error| at(to, &error))?;
    let mut file = BufWriter::new(file);
    while let Some(part) = body.next().await {
        let part = part.map_err(|error| client.broken(error))?;
        file.write_all(&part).map_err(|error| at(to, &error))?;
    }
    file.flush().map_err(|error| at(to, &error))?;
    let mut header = String::new();
    let read = File::open(to).and_then(|file| BufReader::new(file).read_line(&mut header));
    read.map_err(|error| at(to, &error))?;
    let made_by = weights.as_ref().map_or_else(String::new, |own| format!("~{}\"", own.digest));
    if header.contains(&made_by) { Ok(weights) } else { Err(reindexed(&name)) }
}
