//! Trust over TLS in the certificates of a file.
//!
//! With [`exactly`], the server that shows the first certificate of the file. With [`only`], a server is
//! trusted if its certificate is signed by one in the file, or is itself in the file. Its name
//! and its dates are checked in both cases. The second case needs code, because a certificate from `openssl
//! req -x509` is marked as an authority, and the rules for chains refuse an authority that acts as a
//! server. A user who names that certificate has stated that the server may have it.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{WebPkiServerVerifier, verify_server_name};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use super::ClientError;

/// The error of the rules for chains for an authority that acts as a server. The dates are checked before
/// it and the name after it. The type of the error is private to another crate, so this code compares its
/// text. If that text changes, such servers are refused.
const AUTHORITY_SERVES: &str = "CaUsedAsEndEntity";

/// A TLS configuration that trusts only the certificates of a file.
///
/// # Errors
/// [`ClientError::File`] and [`ClientError::Pem`].
pub(super) fn only(path: &Path) -> Result<ClientConfig, ClientError> {
    let given = certificates(path)?;
    let no_certificate = || ClientError::Pem { path: path.to_owned() };
    let mut roots = RootCertStore::empty();
    for certificate in &given {
        roots.add(certificate.clone()).map_err(|_| no_certificate())?;
    }
    let provider = Arc::new(ring::default_provider());
    // The builder fails for an empty list only.
    let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .map_err(|_| no_certificate())?;
    Ok(config(provider, Given { chains: Some(chains), given }))
}

/// A TLS configuration that trusts the first certificate of a file and no other, without a check of its name
/// and its dates.
///
/// # Errors
/// [`ClientError::File`] and [`ClientError::Pem`].
pub(super) fn exactly(path: &Path) -> Result<ClientConfig, ClientError> {
    let mut given = certificates(path)?;
    given.truncate(1);
    Ok(config(Arc::new(ring::default_provider()), Given { chains: None, given }))
}

/// The certificates of a file, one at least.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let text = std::fs::read(path).map_err(|source| ClientError::File { path: path.to_owned(), source })?;
    let found: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let given = found.ok().filter(|given| !given.is_empty());
    given.ok_or_else(|| ClientError::Pem { path: path.to_owned() })
}

fn config(provider: Arc<CryptoProvider>, verifier: Given) -> ClientConfig {
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has a cipher for every version")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth()
}

#[derive(Debug)]
struct Given {
    /// The rules for chains; `None` to trust the given certificates only.
    chains: Option<Arc<WebPkiServerVerifier>>,
    given: Vec<CertificateDer<'static>>,
}

fn is_authority_that_serves(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(CertificateError::Other(other))
            if other.to_string().contains(AUTHORITY_SERVES)
    )
}

impl ServerCertVerifier for Given {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chains) = &self.chains else {
            let is_given = self.given.contains(end_entity);
            let unknown = Error::InvalidCertificate(CertificateError::UnknownIssuer);
            return if is_given { Ok(ServerCertVerified::assertion()) } else { Err(unknown) };
        };
        let chained = chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match chained {
            Err(error) if is_authority_that_serves(&error) && self.given.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            chained => chained,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
