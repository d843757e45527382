//! TLS: the certificate and its key, read at the start and at each reload.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The name of PostgreSQL's protocol in a handshake. A client that begins with TLS must ask for it.
pub(crate) const APPLICATION_PROTOCOL: &[u8] = b"postgresql";

/// Where the certificate and its key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those that lead to its authority: PEM.
    pub certificate: PathBuf,
    /// Its private key: PEM.
    pub key: PathBuf,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or is not PEM.
    #[error("cannot read {path} for TLS: {problem}")]
    File {
        /// The file.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// The key opens the door to everybody who reads it.
    #[error("others may read the private key {path}: take their rights away, as `chmod 600 {path}` does")]
    OpenKey {
        /// The file.
        path: String,
    },
    /// Certificate and key do not fit, or are none that TLS takes.
    #[error("certificate {certificate} with its key: {problem}")]
    Refused {
        /// The file with the certificate.
        certificate: String,
        /// What is wrong.
        problem: String,
    },
}

impl TlsFiles {
    /// Reads both.
    pub(crate) fn load(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let certificates = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| unreadable(&self.certificate, &error))?;
        refuse_open_key(&self.key)?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| unreadable(&self.key, &error))?;
        let refused = |error: rustls::Error| TlsError::Refused {
            certificate: self.certificate.display().to_string(),
            problem: error.to_string(),
        };
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(refused)?
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .map_err(refused)?;
        config.alpn_protocols = vec![APPLICATION_PROTOCOL.to_vec()];
        Ok(Arc::new(config))
    }
}

fn unreadable(path: &Path, error: &rustls::pki_types::pem::Error) -> TlsError {
    TlsError::File { path: path.display().to_string(), problem: error.to_string() }
}

fn refuse_open_key(path: &Path) -> Result<(), TlsError> {
    use std::os::unix::fs::MetadataExt;
    let shown = path.display().to_string();
    let metadata = std::fs::metadata(path)
        .map_err(|error| TlsError::File { path: shown.clone(), problem: error.to_string() })?;
    // As PostgreSQL: a group may read a key that root owns.
    let forbidden = if metadata.uid() == 0 { 0o027 } else { 0o077 };
    match metadata.mode() & forbidden {
        0 => Ok(()),
        _ => Err(TlsError::OpenKey { path: shown }),
    }
}
