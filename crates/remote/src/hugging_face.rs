//! Data sets of Hugging Face: the commit of a revision, and the files of that commit.
//!
//! A commit never changes, so its files need no other version. `HF_ENDPOINT` names another server of the same
//! form, and `HF_TOKEN` a token for private and gated data sets.

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, LINK};
use reqwest::{Client, RequestBuilder, Response};
use serde::Deserialize;
use serde_json::json;

use super::Error;
use super::address::Address;

/// The revision if none is named.
const MAIN: &str = "main";
/// The statuses that have a meaning here.
const NO_TOKEN: u16 = 401;
const NO_RIGHT: u16 = 403;
const NONE: u16 = 404;
const TOO_MANY: u16 = 429;
/// The most requests for one list of files.
const PAGES: usize = 10_000;

/// The server.
pub(super) fn endpoint() -> String {
    let own = std::env::var("HF_ENDPOINT").ok().filter(|own| !own.is_empty());
    own.map_or_else(|| "https://huggingface.co".to_owned(), |own| own.trim_end_matches('/').to_owned())
}

/// The headers of every request.
pub(super) fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    let token = std::env::var("HF_TOKEN").ok().filter(|token| !token.is_empty());
    if let Some(mut value) = token.and_then(|token| HeaderValue::try_from(format!("Bearer {token}")).ok()) {
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    headers
}

/// A commit of a data set.
pub(super) struct DataSet {
    client: Client,
    /// `OWNER/NAME`.
    name: String,
    pub(super) commit: String,
}

/// A file or folder of a commit.
#[derive(Debug, Deserialize)]
pub(super) struct File {
    #[serde(rename = "type")]
    kind: String,
    pub(super) path: String,
    #[serde(default)]
    pub(super) size: u64,
}

#[derive(Deserialize)]
struct Revision {
    sha: String,
}

impl DataSet {
    /// The commit of the revision that an address names.
    pub(super) async fn find(address: &Address) -> Result<DataSet, Error> {
        let (name, revision) = address.place.split_once('@').unwrap_or((&address.place, MAIN));
        let client = Client::builder().default_headers(headers()).build();
        let client = client.map_err(|error| failed(&address.root, error))?;
        let url = format!("{}/api/datasets/{name}/revision/{}", endpoint(), encoded(revision));
        let found = sent(&address.root, client.get(url)).await?;
        let found = found.ok_or_else(|| Error::Missing { url: address.root.clone() })?;
        let Revision { sha } = found.json().await.map_err(|error| failed(&address.root, error))?;
        Ok(DataSet { client, name: name.to_owned(), commit: sha })
    }

    /// The path of a file on the server.
    pub(super) fn location(&self, file: &str) -> String {
        format!("datasets/{}/resolve/{}/{file}", self.name, self.commit)
    }

    /// The file at an address, or all files below it.
    pub(super) async fn files(&self, address: &Address) -> Result<Vec<File>, Error> {
        let (url, path) = (address.with(&address.path), &address.path);
        let api = |what: &str| format!("{}/api/datasets/{}/{what}/{}", endpoint(), self.name, self.commit);
        if !address.is_folder {
            let request = self.client.post(api("paths-info")).json(&json!({"paths": [path]}));
            let found = sent(&url, request).await?;
            let all: Vec<File> = match found {
                Some(found) => found.json().await.map_err(|error| failed(&url, error))?,
                None => Vec::new(),
            };
            if all.iter().any(|file| file.kind == "file") {
                return Ok(all);
            }
        }
        let folder = path.split('/').map(encoded).collect::<Vec<_>>().join("/");
        let mut next = Some(format!("{}/{folder}?recursive=true", api("tree")));
        let mut files = Vec::new();
        for _ in 0..PAGES {
            let Some(page) = next.take() else { break };
            let Some(found) = sent(&url, self.client.get(page)).await? else { break };
            next = next_page(&found);
            let page: Vec<File> = found.json().await.map_err(|error| failed(&url, error))?;
            files.extend(page.into_iter().filter(|file| file.kind == "file"));
        }
        Ok(files)
    }
}

/// The next page of a list, which a header names. Only one of the same server gets the token.
fn next_page(response: &Response) -> Option<String> {
    let link = response.headers().get(LINK)?.to_str().ok()?;
    let next = link.split(',').find(|link| link.contains("rel=\"next\""))?;
    let next = next.split_once('<')?.1.split_once('>')?.0;
    next.starts_with(&format!("{}/", endpoint())).then(|| next.to_owned())
}

fn encoded(part: &str) -> String {
    percent_encoding::utf8_percent_encode(part, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// The answer to a request; `None` if there is no such thing. Pauses that the server asks for are kept.
async fn sent(url: &str, request: RequestBuilder) -> Result<Option<Response>, Error> {
    const WAITS: [u64; 5] = [1, 2, 4, 8, 16];
    let mut waits = WAITS.into_iter();
    loop {
        let again = request.try_clone().expect("its body is in memory");
        let answer = again.timeout(std::time::Duration::from_mins(1)).send().await;
        let passes = match &answer {
            Ok(answer) => answer.status().is_server_error() || answer.status().as_u16() == TOO_MANY,
            Err(error) => error.is_connect() || error.is_timeout(),
        };
        if let Some(wait) = waits.next().filter(|_| passes) {
            tokio::time::sleep(std::time::Duration::from_secs(wait)).await;
            continue;
        }
        let answer = answer.map_err(|error| failed(url, error))?;
        return match answer.status().as_u16() {
            NONE => Ok(None),
            NO_TOKEN | NO_RIGHT => Err(Error::Refused {
                url: url.to_owned(),
                help: super::address::Kind::HuggingFace.help(),
                source: answer.status().to_string().into(),
            }),
            _ => answer.error_for_status().map(Some).map_err(|error| failed(url, error)),
        };
    }
}

fn failed(url: &str, error: reqwest::Error) -> Error {
    Error::Failed { url: url.to_owned(), source: Box::new(error) }
}
