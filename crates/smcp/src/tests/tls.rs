//! Offices over TLS, with certificates on one side and on both.

use std::{net::SocketAddr, sync::Arc};

use platform::Tasks;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ClientConfig, RootCertStore, ServerConfig,
        crypto::aws_lc_rs::default_provider,
        pki_types::{CertificateDer, PrivateKeyDer},
        server::WebPkiClientVerifier,
    },
    server::TlsStream,
};
use tokio_tungstenite::Connector;
use wire::smcp::Profile::Seed;

use super::support::{SOON, link};
use crate::{
    Caller, LinkError,
    agent::Agent,
    server::{OfficeConfig, router},
};

struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    roots: Arc<RootCertStore>,
}

fn identity() -> Identity {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = cert.der().clone();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    Identity {
        certificate,
        key: PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap(),
        roots: Arc::new(roots),
    }
}

struct Tls(TcpListener, TlsAcceptor);

impl axum::serve::Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = self.0.accept().await.unwrap();
            if let Ok(stream) = self.1.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// An office whose clients must show the given certificate.
async fn office(server: &Identity, client: &Identity, tasks: &Tasks) -> String {
    let provider = Arc::new(default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(client.roots.clone(), provider.clone());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(vec![server.certificate.clone()], server.key.clone_key())
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (router, _) = router(
        OfficeConfig::default(),
        Arc::new(|_: &str| Some(Caller::everywhere("any"))),
        Arc::new(|_| {}),
        tasks,
    );
    let listener = Tls(listener, TlsAcceptor::from(Arc::new(config)));
    tasks.spawn(|stop| async move {
        tokio::select! {
            () = stop.cancelled() => {}
            served = axum::serve(listener, router).into_future() => served.unwrap(),
        }
    });
    format!("https://localhost:{port}")
}

#[tokio::test]
async fn members_join_with_the_right_certificates_only() {
    let (server, client, stranger) = (identity(), identity(), identity());
    let tasks = Tasks::new();
    let url = office(&server, &client, &tasks).await;
    let connector = |roots: &Identity, own: &Identity| {
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots.roots.clone())
            .with_client_auth_cert(vec![own.certificate.clone()], own.key.clone_key())
            .unwrap();
        Some(Connector::Rustls(Arc::new(config)))
    };
    let mut right = link(&url, Seed, "ann", "o");
    right.connector = connector(&server, &client);
    let (agent, _listening) = Agent::start(right, &tasks);
    agent.joined().await.unwrap();
    for connector in [
        connector(&stranger, &client),
        connector(&server, &stranger),
        None,
    ] {
        let mut wrong = link(&url, Seed, "bob", "other");
        wrong.connector = connector;
        let (agent, _listening) = Agent::start(wrong, &tasks);
        let mut standing = agent.standing();
        let refused = standing.wait_for(|standing| {
            matches!(
                standing,
                crate::Standing::Away {
                    because: Some(LinkError::Unreachable(_) | LinkError::Lost)
                }
            )
        });
        tokio::time::timeout(SOON, refused).await.unwrap().unwrap();
    }
    assert_eq!(tasks.drain(SOON).await, platform::Drained::Clean);
}
