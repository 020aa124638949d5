//! How the certificate of a peer is judged: by its hash, or not at all while we only learn which one it has.
//!
//! Nodes sign their own certificates, so whoever signed one and which names it holds says nothing. That the other side has
//! the key of the certificate it shows is checked in both cases.

mod authorities;

use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use wire::hex;

pub use authorities::{believing, has_authorities};

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    #[error("a fingerprint is sha256: and 64 hex digits")]
    Fingerprint,
    #[error("TLS cannot be set up")]
    Tls(#[source] Error),
}

/// The fingerprint that a connection showed.
#[derive(Debug, Clone, Default)]
pub struct Seen(Arc<Mutex<Option<String>>>);

/// Two places to learn into are never the same.
impl PartialEq for Seen {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Seen {
    pub fn fingerprint(&self) -> Option<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Trusts one certificate.
pub fn pinned(fingerprint: &str) -> Result<ClientConfig, PinError> {
    let fingerprint = normal(fingerprint)?;
    config(Some(fingerprint), Seen::default())
}

/// Trusts any, and tells which.
pub fn learning(seen: Seen) -> Result<ClientConfig, PinError> {
    config(None, seen)
}

/// `sha256:` and 64 lower-case digits, however it was written.
pub fn normal(fingerprint: &str) -> Result<String, PinError> {
    let hash = fingerprint.strip_prefix("sha256:").unwrap_or(fingerprint);
    let hash = hash.replace(':', "").to_ascii_lowercase();
    if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(PinError::Fingerprint);
    }
    Ok(format!("sha256:{hash}"))
}

fn config(pin: Option<String>, seen: Seen) -> Result<ClientConfig, PinError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let judge = Judge {
        pin,
        seen,
        provider: provider.clone(),
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(PinError::Tls)?;
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(judge))
        .with_no_client_auth())
}

#[derive(Debug)]
struct Judge {
    pin: Option<String>,
    seen: Seen,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let shown = format!("sha256:{}", hex(&Sha256::digest(end_entity)));
        let fits = self.pin.as_ref().is_none_or(|pin| *pin == shown);
        *self.seen.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(shown);
        if fits {
            return Ok(ServerCertVerified::assertion());
        }
        Err(Error::General(
            "its certificate is not the one it is known by".to_owned(),
        ))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_however_it_was_written() {
        let plain = "ab".repeat(32);
        let colons = plain
            .as_bytes()
            .chunks(2)
            .map(|pair| String::from_utf8_lossy(pair).to_uppercase());
        let colons = colons.collect::<Vec<_>>().join(":");
        let expected = format!("sha256:{plain}");
        for written in [plain.as_str(), &expected, &colons] {
            assert_eq!(normal(written).unwrap(), expected);
        }
        normal("sha256:abc").unwrap_err();
        normal(&"zz".repeat(32)).unwrap_err();
    }
}
