//! Certificates for offices: whom a member trusts and what it shows, and the same for a server that stands alone.

use std::{path::Path, sync::Arc};

use anyhow::Context;
use platform::files;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ClientConfig, RootCertStore, ServerConfig,
        crypto::aws_lc_rs::default_provider,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::WebPkiClientVerifier,
    },
};
use tokio_tungstenite::Connector;

/// A chain of certificates is a few kilobytes; a store of public ones a few hundred.
const PEM_MAX: u64 = 4 * 1024 * 1024;

/// A certificate and its key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity<'a> {
    pub(crate) certificate: &'a Path,
    pub(crate) key: &'a Path,
}

/// How a member connects with roots or a certificate of its own.
pub(super) fn connector(ca: &Path, own: Option<Identity<'_>>) -> anyhow::Result<Connector> {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots(ca)?);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => builder
            .with_client_auth_cert(certificates(own.certificate)?, key(own.key)?)
            .context("the certificate cannot be used with its key")?,
    };
    Ok(Connector::Rustls(Arc::new(config)))
}

/// How a server accepts: with its own certificate, and with one of its clients where that is wanted.
pub(crate) fn acceptor(own: Identity<'_>, client_ca: Option<&Path>) -> anyhow::Result<TlsAcceptor> {
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let roots = Arc::new(roots(ca)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            builder.with_client_cert_verifier(verifier.build()?)
        }
    };
    let config = builder
        .with_single_cert(certificates(own.certificate)?, key(own.key)?)
        .context("the certificate cannot be used with its key")?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    Ok(files::read_bounded(path, PEM_MAX)?)
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let pem = read(path)?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .with_context(|| format!("{} holds no certificates", path.display()))?;
    anyhow::ensure!(
        !found.is_empty(),
        "there is no certificate in {}",
        path.display()
    );
    Ok(found)
}

fn key(path: &Path) -> anyhow::Result<PrivateKeyDer<'static>> {
    let pem = read(path)?;
    PrivateKeyDer::from_pem_slice(&pem)
        .with_context(|| format!("there is no key in {}", path.display()))
}

fn roots(path: &Path) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .with_context(|| format!("{} holds a certificate of no use", path.display()))?;
    }
    Ok(roots)
}
