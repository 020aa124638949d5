//! The listener: bound first, then given its faces, then served.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request},
    middleware,
    response::Response,
};
use engine::Records;
use platform::Tasks;
use tokio::net::TcpListener;
use tracing::info;

use crate::{
    Refusal, Tls, TlsError, Tokens, Traffic,
    audit::Audit,
    body, connection,
    guard::{self, Guard, Open},
    hosts::Hosts,
    routes,
    tls::Identity,
    traffic::Face,
};

/// A request's body unless a face sets another bound for its own: prompts with pictures fit.
const BODY_MAX: usize = 16 * 1024 * 1024;

/// Whom the node believes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those who bring a token, on loopback too: other users of the machine are not the owner.
    #[default]
    Tokens,
    /// Everybody who can reach the port may ask agents. For a network at home.
    Open,
}

/// Where and for whom to listen.
#[derive(Debug, Clone)]
pub struct ListenerConfig {
    pub addr: SocketAddr,
    pub trust: Trust,
    /// Names of this node beside its own host name and addresses.
    pub hosts: Vec<String>,
    /// Sites whose pages may call this node, such as `https://example.org`.
    pub origins: Vec<String>,
    pub tls: Tls,
}

#[derive(Debug, thiserror::Error)]
pub enum ListenerError {
    #[error(
        "listening on {addr} lets other machines in without encryption; turn tls on, or set trust = \"open\" to trust the whole network"
    )]
    Unprotected { addr: SocketAddr },
    #[error("could not listen on {addr}")]
    Bind { addr: SocketAddr, source: io::Error },
    #[error("could not prepare encryption")]
    Tls { source: TlsError },
}

/// A bound port and the faces behind it.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    addr: SocketAddr,
    config: ListenerConfig,
    identity: Option<Identity>,
    tokens: Tokens,
    records: Records,
    faces: Router,
    open_paths: Vec<String>,
    readable: Vec<fn(&str) -> bool>,
    traffic: Traffic,
}

impl Listener {
    /// Takes the port. Nothing is answered before [`Listener::serve`].
    pub async fn bind(
        config: ListenerConfig,
        tokens: Tokens,
        records: Records,
    ) -> Result<Self, ListenerError> {
        let addr = config.addr;
        if !addr.ip().is_loopback() && config.tls == Tls::Off && config.trust == Trust::Tokens {
            return Err(ListenerError::Unprotected { addr });
        }
        let identity = config
            .tls
            .identity(&config.hosts)
            .map_err(|source| ListenerError::Tls { source })?;
        let bound = |source| ListenerError::Bind { addr, source };
        let socket = TcpListener::bind(addr).await.map_err(bound)?;
        let addr = socket.local_addr().map_err(bound)?;
        Ok(Self {
            socket,
            addr,
            config,
            identity,
            tokens,
            records,
            faces: Router::new(),
            open_paths: Vec::new(),
            readable: Vec::new(),
            traffic: Traffic::default(),
        })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address for a program on this machine, such as `http://127.0.0.1:7420`.
    pub fn local_url(&self) -> String {
        let ip = match self.addr.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => IpAddr::from([127, 0, 0, 1]),
            IpAddr::V6(_) => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
        };
        format!(
            "{}://{}",
            self.scheme(),
            SocketAddr::new(ip, self.addr.port())
        )
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.identity.is_some() {
            "https"
        } else {
            "http"
        }
    }

    /// The certificate's hash, by which peers know the node; nothing without encryption.
    pub fn fingerprint(&self) -> Option<&str> {
        self.identity
            .as_ref()
            .map(|identity| identity.fingerprint.as_str())
    }

    /// What has been answered so far.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Adds a face under the name by which it is counted. Its paths must be its own.
    pub fn mount(&mut self, name: &'static str, face: Router) {
        let named = face.layer(middleware::map_response(move |mut answer: Response| {
            answer.extensions_mut().insert(Face(name));
            std::future::ready(answer)
        }));
        self.faces = std::mem::take(&mut self.faces).merge(named);
    }

    /// Lets requests without a token through to this path and what is below it: its face authenticates by itself.
    /// Those who bring a token are known there too.
    pub fn open_path(&mut self, prefix: &str) {
        self.open_paths.push(prefix.to_owned());
    }

    /// Lets those without a token read what is at the paths that are picked; their face tells them what is meant for all.
    pub fn open_reading(&mut self, is_open: fn(&str) -> bool) {
        self.readable.push(is_open);
    }

    /// Answers until the tasks are cancelled.
    pub fn serve(self, tasks: &Tasks) {
        let scheme = self.scheme();
        let audit = Audit::start(self.records, tasks);
        let hosts = Hosts::new(self.config.hosts, self.config.origins);
        let guard = Guard::new(
            hosts,
            self.config.trust,
            scheme,
            self.tokens.clone(),
            Open {
                paths: self.open_paths,
                readable: self.readable,
            },
            audit,
        );
        let router = self
            .faces
            .merge(routes::router(self.tokens, scheme == "https"))
            .fallback(async || Refusal::NotFound)
            .layer(DefaultBodyLimit::max(BODY_MAX))
            .layer(middleware::map_request(async |request: Request| {
                body::at_some_pace(request)
            }))
            .layer(middleware::from_fn_with_state(
                Arc::new(guard),
                guard::guard,
            ));
        let traffic = self.traffic;
        let router = router.layer(middleware::from_fn(move |request, next| {
            traffic.clone().pass(request, next)
        }));
        info!(addr = %self.addr, scheme, trust = ?self.config.trust, "listening");
        let (socket, identity, connections) = (self.socket, self.identity, tasks.child());
        tasks.spawn(|stop| connection::accept(socket, identity, router, connections, stop));
    }
}
