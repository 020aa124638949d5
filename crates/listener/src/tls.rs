//! The certificate of the node: given by the user, or made by us and kept in the home. Peers know it by its fingerprint.

use std::{
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::{Path, PathBuf},
    sync::Arc,
};

use platform::files::{self, Durability, FileError, Mode};
use sha2::{Digest, Sha256};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::aws_lc_rs,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

/// The certificate and key that we made, in one file.
const OWN_FILE: &str = "listener.pem";

/// A chain of certificates is a few kilobytes.
const PEM_MAX: u64 = 256 * 1024;

/// Whether the connection is encrypted, and with which certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Tls {
    #[default]
    Off,
    /// A certificate of our own, made at the first start and kept in the home.
    SelfSigned { home: PathBuf },
    /// A certificate of the user's, with its chain, and its key.
    Files { certificate: PathBuf, key: PathBuf },
}

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("could not make a certificate for this node")]
    Generate { source: rcgen::Error },
    #[error("could not keep or read {}", path.display())]
    File { path: PathBuf, source: FileError },
    #[error("there is no certificate or no key in {}", path.display())]
    Pem { path: PathBuf },
    #[error("the certificate cannot be used with its key")]
    Unusable { source: tokio_rustls::rustls::Error },
}

/// A certificate in use.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) acceptor: TlsAcceptor,
    /// `sha256:` and the certificate's hash in hex.
    pub(crate) fingerprint: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.fingerprint)
    }
}

impl Tls {
    /// Reads the certificate, making it where it is ours to make. Blocks briefly.
    pub(crate) fn identity(&self, names: &[String]) -> Result<Option<Identity>, TlsError> {
        match self {
            Self::Off => Ok(None),
            Self::SelfSigned { home } => {
                let path = home.join(OWN_FILE);
                let pem = match read(&path) {
                    Err(TlsError::File { source, .. }) if source.is_not_found() => {
                        generate(&path, names)?
                    }
                    read => read?,
                };
                identity(&path, &pem, &path, &pem).map(Some)
            }
            Self::Files { certificate, key } => {
                let (certificates, keys) = (read(certificate)?, read(key)?);
                identity(certificate, &certificates, key, &keys).map(Some)
            }
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    files::read_bounded(path, PEM_MAX).map_err(|source| TlsError::File {
        path: path.to_owned(),
        source,
    })
}

fn generate(path: &Path, names: &[String]) -> Result<Vec<u8>, TlsError> {
    let mut all = vec![
        "localhost".to_owned(),
        IpAddr::V4(Ipv4Addr::LOCALHOST).to_string(),
        IpAddr::V6(Ipv6Addr::LOCALHOST).to_string(),
    ];
    let own = platform::system::hostname();
    // A name that no certificate can hold is left out; peers go by the fingerprint anyway.
    let is_plain = |name: &&String| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b".-:".contains(&byte))
    };
    all.extend(names.iter().chain([&own]).filter(is_plain).cloned());
    all.sort();
    all.dedup();
    let made =
        rcgen::generate_simple_self_signed(all).map_err(|source| TlsError::Generate { source })?;
    let pem = format!("{}{}", made.cert.pem(), made.signing_key.serialize_pem());
    files::write_atomic(path, pem.as_bytes(), Mode::PRIVATE, Durability::default()).map_err(
        |source| TlsError::File {
            path: path.to_owned(),
            source,
        },
    )?;
    Ok(pem.into_bytes())
}

fn identity(
    certificate_path: &Path,
    certificates: &[u8],
    key_path: &Path,
    keys: &[u8],
) -> Result<Identity, TlsError> {
    let missing = |path: &Path| TlsError::Pem {
        path: path.to_owned(),
    };
    let chain: Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_slice_iter(certificates).collect();
    let chain = chain.map_err(|_| missing(certificate_path))?;
    let first = chain.first().ok_or_else(|| missing(certificate_path))?;
    let fingerprint = fingerprint(first);
    let key = PrivateKeyDer::from_pem_slice(keys).map_err(|_| missing(key_path))?;
    let unusable = |source| TlsError::Unusable { source };
    // Named here, because another crate may have built in a second provider.
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(unusable)?;
    Ok(Identity {
        acceptor: TlsAcceptor::from(Arc::new(config)),
        fingerprint,
    })
}

fn fingerprint(certificate: &[u8]) -> String {
    let hash = Sha256::digest(certificate);
    hash.iter().fold("sha256:".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // A String takes everything.
        text
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn our_certificate_is_made_once_and_is_for_the_owner_alone() {
        let home = tempfile::tempdir().unwrap();
        let tls = Tls::SelfSigned {
            home: home.path().to_owned(),
        };
        let first = tls.identity(&["node.example".to_owned()]).unwrap().unwrap();
        let second = tls.identity(&[]).unwrap().unwrap();
        assert_eq!(first.fingerprint, second.fingerprint);
        assert_eq!(first.fingerprint.len(), "sha256:".len() + 64);
        let mode = home.path().join(OWN_FILE).metadata().unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }

    #[test]
    fn our_certificate_holds_this_machine_in_both_families() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(OWN_FILE);
        let pem = generate(&path, &[]).unwrap();
        let der = CertificateDer::from_pem_slice(&pem).unwrap();
        let holds = |bytes: &[u8]| der.windows(bytes.len()).any(|window| window == bytes);
        // An address in a certificate: its tag, its length, its bytes.
        let v6 = [&[0x87, 16][..], &Ipv6Addr::LOCALHOST.octets()].concat();
        let v4 = [&[0x87, 4][..], &Ipv4Addr::LOCALHOST.octets()].concat();
        assert!(holds(&v6) && holds(&v4) && holds(b"localhost"));
    }

    #[test]
    fn files_that_hold_no_certificate_are_refused_in_words() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("x.pem");
        std::fs::write(&path, "nothing").unwrap();
        let tls = Tls::Files {
            certificate: path.clone(),
            key: path,
        };
        let error = tls.identity(&[]).unwrap_err().to_string();
        assert!(error.starts_with("there is no certificate"), "{error}");
    }
}
