//! TLS with a certificate and a key from files. They are read again when they change, without a restart.
//!
//! A pair of files that cannot be used is an error at the start. Later it is a warning in the log, and the
//! previous pair stays in use.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

/// Why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{} cannot be read", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file is not PEM, or has no item of the wanted kind.
    #[error("{} holds no {wanted} in PEM: {}", path.display(), of_pem(error, wanted))]
    Pem {
        /// The file.
        path: PathBuf,
        /// The wanted kind of item.
        wanted: &'static str,
        /// The error of the parser.
        error: pem::Error,
    },
    /// Certificate and key do not belong together, or are of an unknown kind.
    #[error("{}", of_pair(certificate, key, error))]
    Pair {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The error of the TLS library.
        error: rustls::Error,
    },
}

/// What is wrong with a file in PEM.
fn of_pem(error: &pem::Error, wanted: &str) -> String {
    let label = wanted.to_ascii_uppercase();
    match error {
        pem::Error::NoItemsFound => {
            format!("it needs a block that begins with -----BEGIN {label}-----; convert it with openssl")
        }
        pem::Error::MissingSectionEnd { .. } => {
            format!("the line -----END {label}----- is missing; copy the file again, whole")
        }
        pem::Error::Base64Decode(_) | pem::Error::IllegalSectionStart { .. } => {
            "a block is not base64 between its BEGIN and END lines; copy the file again, whole".to_owned()
        }
        other => other.to_string(),
    }
}

/// What is wrong with a certificate and a key.
fn of_pair(certificate: &Path, key: &Path, error: &rustls::Error) -> String {
    let (certificate, key) = (certificate.display(), key.display());
    match error {
        rustls::Error::InconsistentKeys(_) => format!(
            "{key} is not the key of the certificate in {certificate}; name the key with which the \
             certificate was requested, and put the certificate of this server first in its file"
        ),
        rustls::Error::InvalidCertificate(_) => format!(
            "the first certificate in {certificate} cannot be decoded; copy the file again, whole, or have \
             it issued again"
        ),
        rustls::Error::General(_) => {
            format!("the key in {key} is no private key of RSA, ECDSA or Ed25519; make one of these kinds")
        }
        other => format!("{certificate} and {key} cannot be used together: {other}"),
    }
}

/// The modification time and the size of a file; `None` if it cannot be read.
type Stamp = Option<(SystemTime, u64)>;

/// The certificate in use.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Accepts TLS connections. Clones share the certificate.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    current: Arc<Current>,
    files: Arc<[PathBuf; 2]>,
}

impl Tls {
    /// Reads the certificate chain and the private key from these two files.
    ///
    /// # Errors
    /// [`TlsError`], which names the file at fault.
    pub fn open(certificate: PathBuf, key: PathBuf) -> Result<Tls, TlsError> {
        let files = Arc::new([certificate, key]);
        let current = Arc::new(Current(RwLock::new(Arc::new(read(&files)?))));
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| unusable(&files, error))?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::clone(&current) as _);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), current, files })
    }

    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.acceptor.accept(stream).await
    }

    /// The stamps of both files, which change with the files.
    fn stamps(&self) -> [Stamp; 2] {
        self.files.each_ref().map(|path| {
            let metadata = fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        })
    }

    /// Checks the files at this interval, for ever, and reads them again if they have changed. Files that
    /// cannot be used are tried again at each check, and reported once.
    pub async fn follow_files(self, interval: std::time::Duration) {
        let (mut used, mut reported) = (self.stamps(), None);
        let mut tick = tokio::time::interval(interval);
        loop {
            tick.tick().await;
            let found = self.stamps();
            if found == used {
                reported = None;
                continue;
            }
            match read(&self.files) {
                Ok(pair) => {
                    *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
                    (used, reported) = (found, None);
                    tracing::info!(certificate = %self.files[0].display(), "the certificate was read again");
                }
                // The two files do not change at the same moment: the next check may succeed.
                Err(error) if reported.replace(found) != Some(found) => self.report(&error),
                Err(_) => {}
            }
        }
    }

    fn report(&self, error: &TlsError) {
        let [certificate, key] = self.files.each_ref().map(|path| path.display());
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::warn!(
            %certificate, %key, %error, cause,
            "the changed certificate is not used; the previous one stays in use"
        );
    }
}

fn unusable([certificate, key]: &[PathBuf; 2], error: rustls::Error) -> TlsError {
    TlsError::Pair { certificate: certificate.clone(), key: key.clone(), error }
}

fn read(files: &[PathBuf; 2]) -> Result<CertifiedKey, TlsError> {
    let [certificate, key] = files;
    let text =
        |path: &PathBuf| fs::read(path).map_err(|source| TlsError::File { path: path.clone(), source });
    let pem = |path: &PathBuf, wanted| {
        let path = path.clone();
        move |error| TlsError::Pem { path, wanted, error }
    };
    let chain = CertificateDer::pem_slice_iter(&text(certificate)?).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(pem(certificate, "certificate"))?;
    if chain.is_empty() {
        return Err(pem(certificate, "certificate")(pem::Error::NoItemsFound));
    }
    let key = PrivateKeyDer::from_pem_slice(&text(key)?).map_err(pem(key, "private key"))?;
    let pair = CertifiedKey::from_der(chain, key, &ring::default_provider());
    pair.map_err(|error| unusable(files, error))
}
