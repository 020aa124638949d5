//! Certificates for offices: whom a member trusts and what it shows, and the same for a server that stands alone.

use std::{io, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use anyhow::Context;
use platform::{Tasks, files};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::timeout,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ClientConfig, RootCertStore, ServerConfig,
        crypto::aws_lc_rs::default_provider,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::WebPkiClientVerifier,
    },
    server::TlsStream,
};
use tokio_tungstenite::Connector;

/// A chain of certificates is a few kilobytes; a store of public ones a few hundred.
const PEM_MAX: u64 = 4 * 1024 * 1024;

/// How long a client has for its handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// Handshakes at once; those beyond wait in the kernel.
const HANDSHAKES_MAX: usize = 256;

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

/// Connections whose handshake is done. Each has a task of its own for that, so a slow one holds up nobody.
#[derive(Debug)]
pub(crate) struct TlsListener {
    address: SocketAddr,
    accepted: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
}

impl TlsListener {
    pub(crate) fn start(
        listener: TcpListener,
        acceptor: TlsAcceptor,
        tasks: &Tasks,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (accepting, accepted) = mpsc::channel(HANDSHAKES_MAX);
        let shaking = tasks.child();
        tasks.spawn(|stop| async move {
            loop {
                let Ok(place) = accepting.clone().reserve_owned().await else {
                    break; // Nobody serves any more.
                };
                let dialled = tokio::select! { biased;
                    () = stop.cancelled() => break,
                    dialled = accept(&listener) => dialled,
                };
                let acceptor = acceptor.clone();
                shaking.spawn(|stop| async move {
                    let shaken = timeout(HANDSHAKE_MAX, acceptor.accept(dialled.0));
                    let shaken = tokio::select! { biased;
                        () = stop.cancelled() => return,
                        shaken = shaken => shaken,
                    };
                    if let Ok(Ok(stream)) = shaken {
                        place.send((stream, dialled.1));
                    }
                });
            }
        });
        Ok(Self { address, accepted })
    }
}

/// Waits out errors such as too many open files, which only time mends.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    const PAUSE: Duration = Duration::from_millis(200);
    loop {
        match listener.accept().await {
            Ok(accepted) => {
                let _ = accepted.0.set_nodelay(true); // Only slower without.
                return accepted;
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.accepted.recv().await {
            Some(accepted) => accepted,
            None => std::future::pending().await, // We are told to end.
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.address)
    }
}
