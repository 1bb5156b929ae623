//! The addresses of objects: `s3://bucket/key`, `gs://`, `az://`, `https://`, `hf://datasets/OWNER/NAME`.
//!
//! *Absent*: queries, such as those of signed addresses, and passwords in addresses.

use std::net::IpAddr;

use object_store::path::Path;

use super::Error;

/// The kind of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    S3,
    Google,
    Azure,
    Web,
    HuggingFace,
}

/// A parsed address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) kind: Kind,
    /// The address without the path and its slash, such as `s3://bucket`.
    pub(super) root: String,
    /// The bucket, container or host; the owner and name of a data set, with its revision.
    pub(super) place: String,
    /// The path in it, without a slash at its ends.
    pub(super) path: String,
    /// Whether it ends with a slash.
    pub(super) is_folder: bool,
}

const SCHEMES: [(&str, Kind); 6] = [
    ("s3://", Kind::S3),
    ("gs://", Kind::Google),
    ("az://", Kind::Azure),
    ("https://", Kind::Web),
    ("http://", Kind::Web),
    ("hf://", Kind::HuggingFace),
];

/// Whether a name is an address of an object, and no path.
pub fn is_address(name: &str) -> bool {
    SCHEMES.iter().any(|(scheme, _)| name.starts_with(scheme))
}

impl Address {
    /// # Errors
    /// [`Error::Address`] with what is wrong.
    pub(super) fn parse(url: &str) -> Result<Address, Error> {
        let wrong = |why: &str| Error::Address { url: url.to_owned(), why: why.to_owned() };
        let scheme = SCHEMES.iter().find(|(scheme, _)| url.starts_with(scheme));
        let (scheme, kind) =
            *scheme.ok_or_else(|| wrong("it begins with s3://, gs://, az://, https:// or hf://"))?;
        let rest = &url[scheme.len()..];
        let (place, path) = match kind {
            Kind::HuggingFace => {
                let rest = rest.strip_prefix("datasets/").ok_or_else(|| wrong(HF_FORM))?;
                let (owner, rest) = rest.split_once('/').ok_or_else(|| wrong(HF_FORM))?;
                let (name, path) = rest.split_once('/').unwrap_or((rest, ""));
                if owner.is_empty() || name.is_empty() {
                    return Err(wrong(HF_FORM));
                }
                (format!("{owner}/{name}"), path)
            }
            _ => rest.split_once('/').map_or((rest.to_owned(), ""), |(place, path)| (place.to_owned(), path)),
        };
        if place.is_empty() {
            return Err(wrong("the bucket or host is missing"));
        }
        if kind == Kind::Web {
            if place.contains('@') {
                return Err(wrong("names and passwords in addresses are not used: leave them out"));
            }
            if url.contains(['?', '#']) {
                return Err(wrong(
                    "an address with ? or # is not read: download the file, or name the object with s3://, \
                     gs:// or az://",
                ));
            }
            if scheme == "http://" && !is_loopback(&place) {
                return Err(wrong("http:// is not encrypted, and is for this machine only: use https://"));
            }
        }
        let root = match kind {
            Kind::HuggingFace => format!("{scheme}datasets/{place}"),
            _ => format!("{scheme}{place}"),
        };
        let is_folder = path.is_empty() || path.ends_with('/');
        let path = path.trim_matches('/').to_owned();
        if path.split('/').any(|part| part == "." || part == "..") || path.contains("//") {
            return Err(wrong("its path has an empty part, . or .."));
        }
        Ok(Address { kind, root, place, path, is_folder })
    }

    /// Its path, as the store takes it.
    pub(super) fn location(&self) -> Result<Path, Error> {
        let path =
            if self.kind == Kind::Web { Path::from_url_path(&self.path) } else { Path::parse(&self.path) };
        path.map_err(|error| Error::Address { url: self.with(&self.path), why: error.to_string() })
    }

    /// The address of a path in the same place.
    pub(super) fn with(&self, path: &str) -> String {
        format!("{}/{path}", self.root)
    }
}

const HF_FORM: &str =
    "it has the form hf://datasets/OWNER/NAME/PATH or hf://datasets/OWNER/NAME@REVISION/PATH";

/// Whether a host with or without a port is this machine.
pub(super) fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether an endpoint of a store is plain HTTP on this machine.
pub(super) fn is_plain_loopback(endpoint: &str) -> bool {
    endpoint
        .strip_prefix("http://")
        .is_some_and(|rest| is_loopback(rest.split('/').next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_or_refused_with_the_reason() {
        for (url, place, path, is_folder) in [
            ("s3://b/a/c.jsonl", "b", "a/c.jsonl", false),
            ("gs://b/a/", "b", "a", true),
            ("az://b", "b", "", true),
            ("https://e.org/x.parquet", "e.org", "x.parquet", false),
            ("http://127.0.0.1:80/x.jsonl", "127.0.0.1:80", "x.jsonl", false),
            ("http://[::1]:80/x.jsonl", "[::1]:80", "x.jsonl", false),
            ("hf://datasets/o/n", "o/n", "", true),
            ("hf://datasets/o/n@main/data/x.json", "o/n@main", "data/x.json", false),
        ] {
            let own = Address::parse(url).unwrap();
            assert_eq!((&*own.place, &*own.path, own.is_folder), (place, path, is_folder), "{url}");
            if !is_folder {
                assert_eq!(own.with(&own.path), url);
            }
        }
        for (url, why) in [
            ("ftp://b/a", "it begins with s3://"),
            ("s3:///a", "the bucket or host is missing"),
            ("s3://b/a//c", "an empty part"),
            ("s3://b/../c", "an empty part"),
            ("http://e.org/a", "http:// is not encrypted"),
            ("http://127.0.0.1.e.org/a", "http:// is not encrypted"),
            ("https://u:p@e.org/a", "passwords"),
            ("https://e.org/a?sig=1", "with ? or #"),
            ("hf://o/n/a", "hf://datasets/OWNER/NAME/PATH"),
            ("hf://datasets/o", "hf://datasets/OWNER/NAME/PATH"),
        ] {
            let error = Address::parse(url).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains(url), "{error}");
        }
        assert!(is_address("s3://b/a") && !is_address("s3/b") && !is_address("-"));
    }
}
