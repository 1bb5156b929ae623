//! How to reach etcd, and under which names.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, fs};

use reqwest::{Certificate, Identity, Url};
use tokio_rustls::rustls::crypto::ring;

use crate::LogError;

/// How to reach etcd.
#[derive(Clone, Debug)]
pub struct EtcdSettings {
    /// URLs of etcd's servers, such as `http://10.0.0.1:2379`. One is enough, but only all of them survive
    /// the loss of a server.
    pub endpoints: Vec<String>,
    /// The first part of all keys, without slashes.
    pub prefix: String,
    /// The name of this server, which no other replica has.
    pub server: String,
    /// The user, if etcd asks for one.
    pub credentials: Option<Credentials>,
    /// The only certificates that are trusted to sign those of etcd, in PEM. Without it, those of the system
    /// are trusted.
    pub ca_file: Option<PathBuf>,
    /// The certificate that this server shows to etcd.
    pub certificate: Option<ClientCertificate>,
    /// The identity of the etcd cluster, if it is known from an earlier run: another one is refused.
    pub etcd_cluster: Option<u64>,
    /// How long the first try of a request may take. Each further try may take twice as long.
    pub first_try: Duration,
    /// How long requests other than appends are retried.
    pub timeout: Duration,
    /// How long a tail may be silent before it checks that nothing was lost.
    pub quiet: Duration,
    /// How many appends may be in progress.
    pub lanes: usize,
}

/// A user of etcd.
#[derive(Clone)]
pub struct Credentials {
    /// The name.
    pub user: String,
    /// The password.
    pub password: String,
}

/// Leaves out the password, which must not reach a log.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// A certificate and its key.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// The file of the certificate, in PEM.
    pub certificate: PathBuf,
    /// The file of the private key, in PEM.
    pub key: PathBuf,
}

const NAME_RULE: &str = "use 1 to 64 of the characters a-z, A-Z, 0-9, '.', '-' and '_'";
const ENDPOINT_RULE: &str = "give URLs such as http://10.0.0.1:2379, without a path";

impl EtcdSettings {
    /// The settings with which replicas usually run.
    pub fn new(endpoints: Vec<String>, prefix: &str, server: &str) -> EtcdSettings {
        EtcdSettings {
            endpoints,
            prefix: prefix.to_owned(),
            server: server.to_owned(),
            credentials: None,
            ca_file: None,
            certificate: None,
            etcd_cluster: None,
            first_try: Duration::from_secs(2),
            timeout: Duration::from_secs(10),
            quiet: Duration::from_secs(2),
            lanes: 4,
        }
    }

    /// The endpoints without a slash at the end.
    ///
    /// # Errors
    /// [`LogError::Setting`] if a setting cannot be used.
    pub(super) fn checked_endpoints(&self) -> Result<Vec<String>, LogError> {
        for (field, value) in
            [("the prefix of shared_log.url", &self.prefix), ("replicas.server", &self.server)]
        {
            if !is_name(value) {
                return Err(LogError::Setting { field, value: value.clone(), rule: NAME_RULE });
            }
        }
        let endpoints: Option<Vec<String>> = self.endpoints.iter().map(|url| checked_url(url)).collect();
        endpoints.filter(|urls| !urls.is_empty()).ok_or_else(|| LogError::Setting {
            field: "shared_log.url",
            value: self.endpoints.join(","),
            rule: ENDPOINT_RULE,
        })
    }

    /// The HTTP client for these settings.
    pub(super) fn http_client(&self) -> Result<reqwest::Client, LogError> {
        // This fails if the process has a default already, which is then used.
        let _ = ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .connect_timeout(self.first_try)
            .tcp_nodelay(true)
            .pool_idle_timeout(Duration::from_mins(1));
        builder = match &self.ca_file {
            Some(path) => builder.tls_certs_only(authorities(path)?),
            // Without TLS, a system without certificates is sufficient.
            None if self.endpoints.iter().all(|url| url.starts_with("http:")) => builder.tls_certs_only([]),
            None => builder,
        };
        if let Some(own) = &self.certificate {
            builder = builder.identity(identity(own)?);
        }
        builder.build().map_err(LogError::Client)
    }
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(allowed)
}

fn checked_url(url: &str) -> Option<String> {
    let parsed = Url::parse(url).ok()?;
    let is_usable = ["http", "https"].contains(&parsed.scheme()) && parsed.path() == "/";
    is_usable.then(|| url.trim_end_matches('/').to_owned())
}

fn read(path: &Path) -> Result<Vec<u8>, LogError> {
    fs::read(path).map_err(|source| LogError::File {
        path: path.to_owned(),
        what: "it cannot be read",
        source: Some(source),
    })
}

fn authorities(path: &Path) -> Result<Vec<Certificate>, LogError> {
    let found = Certificate::from_pem_bundle(&read(path)?).unwrap_or_default();
    if found.is_empty() {
        let what = "it holds no certificate in PEM";
        return Err(LogError::File { path: path.to_owned(), what, source: None });
    }
    Ok(found)
}

fn identity(own: &ClientCertificate) -> Result<Identity, LogError> {
    let mut pem = read(&own.key)?;
    pem.push(b'\n');
    pem.extend(read(&own.certificate)?);
    Identity::from_pem(&pem).map_err(|_| LogError::File {
        path: own.certificate.clone(),
        what: "it and the file of the key are not a certificate and a private key in PEM",
        source: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(endpoints: &[&str], prefix: &str, server: &str) -> Result<Vec<String>, LogError> {
        let endpoints = endpoints.iter().map(|&url| url.to_owned()).collect();
        EtcdSettings::new(endpoints, prefix, server).checked_endpoints()
    }

    #[test]
    fn settings_are_checked() {
        let good = checked(&["http://a:2379/", "https://[::1]:2379"], "news", "s-1.x_y");
        assert_eq!(good.unwrap(), ["http://a:2379", "https://[::1]:2379"]);
        let long = "x".repeat(65);
        for (prefix, server) in [("", "s"), ("a/b", "s"), ("a", ""), ("a", "é"), ("a", &long)] {
            let error = checked(&["http://a:2379"], prefix, server).unwrap_err();
            assert!(error.to_string().contains("use 1 to 64"), "{error}");
        }
        for urls in [&[][..], &["a:2379"], &["http://a/v3"], &["ftp://a"], &["http://a:1", "nonsense"]] {
            let error = checked(urls, "a", "s").unwrap_err();
            assert!(error.to_string().contains("give URLs such as"), "{error}");
        }
    }

    #[test]
    fn a_password_is_not_printed() {
        let credentials = Some(Credentials { user: "u".to_owned(), password: "secret".to_owned() });
        let settings = EtcdSettings { credentials, ..EtcdSettings::new(vec![], "a", "b") };
        assert!(!format!("{settings:?}").contains("secret"));
    }
}
