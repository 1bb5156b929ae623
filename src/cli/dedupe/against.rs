//! The documents of `--against`: those of files, or those of a collection of a server, which are fetched
//! into a working file first.

use std::fs::File;
use std::io::{BufWriter, Write};
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
use lookalike_hash::CollectionName;
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
}

#[derive(Deserialize)]
struct Collection {
    profile: String,
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
        Against { exported_from: names.len(), inputs, names, indexes, urls }
    }

    /// Whether there are collections.
    pub(super) fn has_collections(&self) -> bool {
        !self.urls.is_empty()
    }

    /// The weights that the first index was made with.
    pub(super) fn weights(&self) -> Option<Weights> {
        Some(self.indexes.first()?.weights())
    }

    /// Fetches the collections into files of the folder.
    pub(super) fn fetch(&mut self, access: &Access, profile: &Profile, folder: &Path) -> Result<(), Failure> {
        let mut fetched = Vec::new();
        for (number, url) in self.urls.iter().enumerate() {
            let to = folder.join(format!("against-{number}.jsonl"));
            block_on(fetch(url, access.clone(), profile, &to))?;
            fetched.push(to);
        }
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

/// Writes the documents of a collection into a file.
async fn fetch(url: &str, access: Access, profile: &Profile, to: &Path) -> Result<(), Failure> {
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
    let request = client.request(Method::GET, &collection_route(&name, "/export"));
    let mut body = client.send(request).await?.bytes_stream();
    let file = File::create(to).map_err(|error| at(to, &error))?;
    let mut file = BufWriter::new(file);
    while let Some(part) = body.next().await {
        let part = part.map_err(|error| client.broken(error))?;
        file.write_all(&part).map_err(|error| at(to, &error))?;
    }
    file.flush().map_err(|error| at(to, &error))
}
