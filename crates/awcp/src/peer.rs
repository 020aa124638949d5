//! The other node as its peer sees it: its card, messages to it over A2A, and the ways of the archive plane.

mod executor;

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use cards::CardError;
use domain::{TRACEPARENT, Trace, delegation::Transport};
use futures_util::{Stream, TryStreamExt};
use platform::Tasks;
use reqwest::{Client, Response, StatusCode, Url, redirect::Policy};
use serde_json::{Value, json};
use wire::{
    a2a::{AgentExtension, Binding, Version},
    awcp::EXTENSION_URI,
};

pub(crate) use executor::{Events, Executor};

use crate::{
    KnownPeers, convert,
    error::chain,
    spool::{self, SpoolError},
};

/// The largest card or answer.
const BODY_MAX: usize = 1024 * 1024;

/// How long a connection may take to come up.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// How long a card, or the answer to anything but an INVITE, may take.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// How long a connection may be silent, or what was sent over it unanswered, before it is looked at and given up: a network
/// that was cut tells nobody.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// Connections to a peer that are kept without a use: fewer than a question is repeated over dead ones.
const IDLE_MAX: usize = 2;

/// How long an archive may take: a gigabyte over a slow line.
const TRANSFER_MAX: Duration = Duration::from_secs(60 * 60);

/// Clients for certificates that are kept; more peers than that are made anew.
const PINNED_MAX: usize = 64;

/// Why a peer could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    #[error("{url:?} is not the address of a peer: {why}")]
    BadUrl { url: String, why: String },
    #[error("{url} has no agent card: {why}")]
    NoCard { url: String, why: String },
    #[error(
        "the peer at {url} does not take workspaces: its card lacks the extension {EXTENSION_URI}"
    )]
    NoExtension { url: String },
    #[error("the card of {url} names no address that speaks JSON-RPC")]
    NoWay { url: String },
    #[error("{url} cannot be reached: {why}")]
    Unreachable { url: String, why: String },
    #[error("what {url} sent could not be kept: {why}")]
    NotKept { url: String, why: String },
    #[error("{url} does not take it from this node (status {status})")]
    Denied { url: String, status: u16 },
    #[error("{url} refused: {why}")]
    Refused { url: String, why: String },
}

impl From<CardError> for PeerError {
    fn from(error: CardError) -> Self {
        match error {
            CardError::BadUrl { url, why } => Self::BadUrl { url, why },
            CardError::NoCard { url, why } => Self::NoCard { url, why },
            CardError::Unreachable { url, why } => Self::Unreachable { url, why },
        }
    }
}

/// Clients for all peers: one for those that the machine trusts, and one for each certificate of a paired one.
#[derive(Debug, Clone)]
pub(crate) struct Peers {
    known: KnownPeers,
    plain: Client,
    pinned: Arc<Mutex<BTreeMap<String, Client>>>,
}

/// Where a host is spoken to by its remote, and with what.
#[derive(Clone, Copy)]
pub(crate) struct Home<'a> {
    pub(crate) url: &'a str,
    pub(crate) secret: &'a str,
    /// The hash of the certificate that the host shows.
    pub(crate) certificate: Option<&'a str>,
}

/// A peer that takes workspaces, by its dialect.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    Peer(Peer),
    Executor(Executor),
}

/// A peer whose card was read.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    http: Client,
    url: Url,
    version: Version,
    token: Option<String>,
    /// What its card says of how workspaces get there.
    transports: Vec<Transport>,
}

impl Peers {
    pub(crate) fn new(known: KnownPeers) -> Self {
        Self {
            known,
            plain: client(None).expect("these settings need nothing of the machine"),
            pinned: Arc::default(),
        }
    }

    /// A client that believes this certificate alone, or those that the machine trusts.
    fn client(&self, fingerprint: Option<&str>) -> Result<Client, String> {
        let Some(fingerprint) = fingerprint else {
            return Ok(self.plain.clone());
        };
        let mut pinned = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = pinned.get(fingerprint) {
            return Ok(client.clone());
        }
        if pinned.len() >= PINNED_MAX {
            pinned.clear();
        }
        let client = client(Some(fingerprint))?;
        pinned.insert(fingerprint.to_owned(), client.clone());
        Ok(client)
    }

    /// The same, where a way home says which certificate.
    fn client_home(&self, home: &Home<'_>) -> Result<(Client, Url), PeerError> {
        let url = cards::parse(home.url)?;
        let client = self
            .client(home.certificate)
            .map_err(|why| PeerError::BadUrl {
                url: home.url.to_owned(),
                why,
            })?;
        Ok((client, url))
    }

    /// In which dialect the peer takes workspaces: its card says so, or it is asked.
    pub(crate) async fn find(&self, url: &str, token: Option<&str>) -> Result<Found, PeerError> {
        let base = cards::parse(url)?;
        let known = self.known.find(&base.origin().ascii_serialization());
        let bad = |why| PeerError::BadUrl {
            url: url.to_owned(),
            why,
        };
        let http = self.client(known.fingerprint.as_deref()).map_err(bad)?;
        let token = token.map(str::to_owned).or(known.token);
        match find_card(&http, &base, url, token).await {
            Ok(peer) => Ok(Found::Peer(peer)),
            Err(error @ (PeerError::NoCard { .. } | PeerError::NoExtension { .. })) => {
                let executor = Executor::find(&http, &base).await;
                executor.map(Found::Executor).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Posts a message to where its receiver wants it, with the secret of the delegation.
    pub(crate) async fn reply(&self, home: Home<'_>, data: &Value) -> Result<(), PeerError> {
        let (http, url) = self.client_home(&home)?;
        let request = http.post(url.clone()).bearer_auth(home.secret).json(data);
        let response = request.timeout(ANSWER_MAX).send().await;
        let response = response.map_err(|error| unreachable(&url, &error))?;
        check(response, &url).await.map(drop)
    }

    /// Fetches an archive into a file.
    pub(crate) async fn fetch(
        &self,
        home: Home<'_>,
        (folder, name): (&Path, &str),
        max: u64,
        tasks: &Tasks,
    ) -> Result<u64, PeerError> {
        let (http, url) = self.client_home(&home)?;
        let request = http.get(url.clone()).bearer_auth(home.secret);
        let response = request.timeout(TRANSFER_MAX).send().await;
        let response = response.map_err(|error| unreachable(&url, &error))?;
        let response = check(response, &url).await?;
        let pieces = response.bytes_stream();
        let kept = spool::keep(folder, name, pieces, max, tasks).await;
        kept.map_err(|error| {
            let (url, why) = (url.to_string(), chain(&error));
            match error {
                SpoolError::Lost { .. } => PeerError::Unreachable { url, why },
                SpoolError::TooLarge { .. }
                | SpoolError::Keep(_)
                | SpoolError::Write(_)
                | SpoolError::ShuttingDown => PeerError::NotKept { url, why },
            }
        })
    }

    /// Sends an archive.
    pub(crate) async fn deliver(
        &self,
        home: Home<'_>,
        pieces: impl Stream<Item = std::io::Result<bytes::Bytes>> + Send + 'static,
    ) -> Result<(), PeerError> {
        let (http, url) = self.client_home(&home)?;
        let body = reqwest::Body::wrap_stream(pieces.into_stream());
        let request = http.post(url.clone()).bearer_auth(home.secret).body(body);
        let response = request.timeout(TRANSFER_MAX).send().await;
        let response = response.map_err(|error| unreachable(&url, &error))?;
        check(response, &url).await.map(drop)
    }
}

fn client(fingerprint: Option<&str>) -> Result<Client, String> {
    let builder = || {
        Client::builder()
            .redirect(Policy::none())
            .pool_max_idle_per_host(IDLE_MAX)
            .tcp_keepalive(SILENCE_MAX)
            .tcp_user_timeout(SILENCE_MAX)
            .connect_timeout(CONNECT_MAX)
    };
    let built = match fingerprint {
        Some(fingerprint) => {
            let pinned = pinning::pinned(fingerprint).map_err(|error| error.to_string())?;
            builder().tls_backend_preconfigured(pinned).build()
        }
        None => pinning::believing(builder),
    };
    built.map_err(|error| chain(&error))
}

/// The address of this machine from which a peer is reached; nothing if nobody knows.
pub(crate) async fn facing(url: &str) -> Option<IpAddr> {
    let url = cards::parse(url).ok()?;
    let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
    let port = url.port_or_known_default()?;
    let mut there = tokio::net::lookup_host((host, port)).await.ok()?;
    let there = there.next()?;
    let any: SocketAddr = match there {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    // Nothing is sent: the kernel chooses the way, and with it our address.
    let socket = tokio::net::UdpSocket::bind(any).await.ok()?;
    socket.connect(there).await.ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Reads the peer's card and refuses one that takes no workspaces.
async fn find_card(
    http: &Client,
    base: &Url,
    url: &str,
    token: Option<String>,
) -> Result<Peer, PeerError> {
    let card = cards::read(http, url, token.as_deref(), ANSWER_MAX).await?;
    let mut extensions = card.capabilities.extensions.iter();
    let extension = extensions.find(|extension| extension.uri == EXTENSION_URI);
    let extension = extension.ok_or_else(|| PeerError::NoExtension {
        url: url.to_owned(),
    })?;
    let mut ways = cards::ways(&card).into_iter();
    let way = ways.find(|way| way.binding == Binding::JsonRpc);
    let way = way.ok_or_else(|| PeerError::NoWay {
        url: url.to_owned(),
    })?;
    Ok(Peer {
        http: http.clone(),
        // A card may lead anywhere, and the token is for the host that was named.
        token: token.filter(|_| way.url.origin() == base.origin()),
        url: way.url,
        version: way.version,
        transports: transports(extension),
    })
}

/// The words in the extension's parameters that are known here.
fn transports(extension: &AgentExtension) -> Vec<Transport> {
    let params = extension.params.as_ref();
    let words = params
        .and_then(|it| it.get("transports"))
        .and_then(Value::as_array);
    let words = words.into_iter().flatten().filter_map(Value::as_str);
    words
        .filter_map(|word| convert::transport(&wire::awcp::Transport::from(word)))
        .collect()
}

impl Peer {
    /// Whether its card says that workspaces can get there this way.
    pub(crate) fn takes(&self, transport: Transport) -> bool {
        self.transports.contains(&transport)
    }

    /// Whether the same INVITE again is a question to it: nodes like this one say in their cards how workspaces get there.
    pub(crate) fn can_be_asked(&self) -> bool {
        !self.transports.is_empty()
    }

    /// Sends `data` as the part of a message; gives the data of the answer, if it has some.
    pub(crate) async fn send(
        &self,
        data: &Value,
        trace: Trace,
        limit: Duration,
    ) -> Result<Option<Value>, PeerError> {
        let id = uuid::Uuid::new_v4().to_string();
        let (method, message) = match self.version {
            Version::V1 => (
                "SendMessage",
                json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "data": data }],
                    "extensions": [EXTENSION_URI] }),
            ),
            Version::V03 => (
                "message/send",
                json!({ "kind": "message", "messageId": id, "role": "user",
                    "parts": [{ "kind": "data", "data": data }], "extensions": [EXTENSION_URI] }),
            ),
        };
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "message": message } });
        let mut request = self.http.post(self.url.clone()).timeout(limit).json(&body);
        request = request.header("A2A-Extensions", EXTENSION_URI);
        request = request.header(TRACEPARENT, traceparent(trace));
        if self.version == Version::V1 {
            request = request.header("A2A-Version", "1.0");
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let response = request
            .send()
            .await
            .map_err(|error| unreachable(&self.url, &error))?;
        let response = check(response, &self.url).await?;
        let refused = |why: String| PeerError::Refused {
            url: self.url.to_string(),
            why,
        };
        let bytes = self::body(response).await.map_err(refused)?;
        let answer: Value = serde_json::from_slice(&bytes)
            .map_err(|error| refused(format!("its answer is no JSON: {error}")))?;
        if let Some(error) = answer.get("error") {
            let words = error.get("message").and_then(Value::as_str);
            return Err(refused(
                words.unwrap_or("an error without words").to_owned(),
            ));
        }
        let result = &answer["result"];
        let message = result.get("message").unwrap_or(result);
        let parts = message.get("parts").and_then(Value::as_array);
        let data = parts
            .into_iter()
            .flatten()
            .find_map(|part| part.get("data"));
        Ok(data.cloned())
    }
}

/// The header of a message that belongs to a trace.
pub(crate) fn traceparent(trace: Trace) -> String {
    trace.traceparent(uuid::Uuid::new_v4().as_u64_pair().0)
}

/// How long the answer to an ordinary message may take.
pub(crate) fn answer_limit() -> Duration {
    ANSWER_MAX
}

fn unreachable(url: &Url, error: &reqwest::Error) -> PeerError {
    PeerError::Unreachable {
        url: url.to_string(),
        why: chain(error),
    }
}

async fn check(response: Response, url: &Url) -> Result<Response, PeerError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let url = url.to_string();
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        let status = status.as_u16();
        return Err(PeerError::Denied { url, status });
    }
    // What it said is not told on: a peer chooses the address, and would read through us what only we can reach.
    let why = format!("status {}", status.as_u16());
    let is_passing = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    Err(match is_passing {
        true => PeerError::Unreachable { url, why },
        false => PeerError::Refused { url, why },
    })
}

async fn body(response: Response) -> Result<Vec<u8>, String> {
    body_up_to(response, BODY_MAX).await
}

async fn body_up_to(mut response: Response, max: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| chain(&error))? {
        if bytes.len() + piece.len() > max {
            return Err(format!("its answer has more than {max} bytes"));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}
