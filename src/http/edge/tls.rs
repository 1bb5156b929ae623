//! TLS from files, read again when they change, without a restart.
//!
//! A pair of files that cannot be used at the start is an error; later it is a line in the log, and the pair
//! before it stays in use.

use std::fs;
use std::io;
use std::path::PathBuf;
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
        /// What the system says.
        source: io::Error,
    },
    /// A file is not PEM, or does not hold what it should.
    #[error("{} holds no {wanted} in PEM", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        wanted: &'static str,
        /// Why it cannot be read.
        source: pem::Error,
    },
    /// Certificate and key do not fit, or are of a kind that is not known.
    #[error("{} and {} cannot be used together", certificate.display(), key.display())]
    Pair {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why not.
        source: rustls::Error,
    },
}

/// When a file was changed, and its size; `None` if it is not there.
type Stamp = Option<(SystemTime, u64)>;

/// The certificate in use.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// What serves TLS; clones share the certificate.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    current: Arc<Current>,
    files: Arc<[PathBuf; 2]>,
}

impl Tls {
    /// Reads certificate chain and private key from these two files.
    ///
    /// # Errors
    /// [`TlsError`] that names the file at fault.
    pub fn open(certificate: PathBuf, key: PathBuf) -> Result<Tls, TlsError> {
        let files = Arc::new([certificate, key]);
        let current = Arc::new(Current(RwLock::new(Arc::new(read(&files)?))));
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|source| unfit(&files, source))?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::clone(&current) as _);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), current, files })
    }

    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.acceptor.accept(stream).await
    }

    /// What tells whether the files were changed.
    fn stamps(&self) -> [Stamp; 2] {
        self.files.each_ref().map(|path| {
            let about = fs::metadata(path).ok()?;
            Some((about.modified().ok()?, about.len()))
        })
    }

    /// Reads the files again whenever they change; looks every so often, without end. What cannot be used is
    /// tried again at each look and told once.
    pub async fn follow_files(self, every: std::time::Duration) {
        let (mut used, mut told) = (self.stamps(), None);
        let mut tick = tokio::time::interval(every);
        loop {
            tick.tick().await;
            let found = self.stamps();
            if found == used {
                told = None;
                continue;
            }
            match read(&self.files) {
                Ok(pair) => {
                    *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
                    (used, told) = (found, None);
                    tracing::info!(certificate = %self.files[0].display(), "the certificate was read again");
                }
                // The two files are not changed in one moment: the next look may find them in order.
                Err(error) if told.replace(found) != Some(found) => self.tell(&error),
                Err(_) => {}
            }
        }
    }

    fn tell(&self, error: &TlsError) {
        let [certificate, key] = self.files.each_ref().map(|path| path.display());
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::warn!(
            %certificate, %key, %error, cause,
            "the changed certificate is not used; the one before it stays in use"
        );
    }
}

fn unfit([certificate, key]: &[PathBuf; 2], source: rustls::Error) -> TlsError {
    TlsError::Pair { certificate: certificate.clone(), key: key.clone(), source }
}

fn read(files: &[PathBuf; 2]) -> Result<CertifiedKey, TlsError> {
    let [certificate, key] = files;
    let text =
        |path: &PathBuf| fs::read(path).map_err(|source| TlsError::File { path: path.clone(), source });
    let pem = |path: &PathBuf, wanted| {
        let path = path.clone();
        move |source| TlsError::Pem { path, wanted, source }
    };
    let chain = CertificateDer::pem_slice_iter(&text(certificate)?).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(pem(certificate, "certificate"))?;
    if chain.is_empty() {
        return Err(pem(certificate, "certificate")(pem::Error::NoItemsFound));
    }
    let key = PrivateKeyDer::from_pem_slice(&text(key)?).map_err(pem(key, "private key"))?;
    let pair = CertifiedKey::from_der(chain, key, &ring::default_provider());
    pair.map_err(|source| unfit(files, source))
}
