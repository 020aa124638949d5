//! The other node as its peer sees it: its card, messages to it over A2A, and the ways of the archive plane.

mod executor;

use std::{path::Path, time::Duration};

use domain::delegation::Transport;
use futures_util::{Stream, TryStreamExt};
use platform::Tasks;
use reqwest::{Client, Response, StatusCode, Url, header::ACCEPT, redirect::Policy};
use serde_json::{Value, json};
use wire::{
    a2a::{AgentExtension, Binding, CARD_PATHS, Version, v03},
    awcp::EXTENSION_URI,
};

pub(crate) use executor::{Events, Executor};

use crate::{convert, error::chain, spool};

/// The largest card or answer.
const BODY_MAX: usize = 1024 * 1024;

/// How long a connection may take to come up.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// How long a card, or the answer to anything but an INVITE, may take.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// How long an archive may take: a gigabyte over a slow line.
const TRANSFER_MAX: Duration = Duration::from_secs(60 * 60);

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
    #[error("{url} refused: {why}")]
    Refused { url: String, why: String },
}

/// A client for all peers.
#[derive(Debug, Clone)]
pub(crate) struct Peers {
    http: Client,
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
    pub(crate) fn new() -> Self {
        let http = Client::builder()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_MAX)
            .build()
            .expect("these settings need nothing of the machine");
        Self { http }
    }

    /// In which dialect the peer takes workspaces: its card says so, or it is asked.
    pub(crate) async fn find(&self, url: &str, token: Option<&str>) -> Result<Found, PeerError> {
        match self.find_card(url, token).await {
            Ok(peer) => Ok(Found::Peer(peer)),
            Err(error @ (PeerError::NoCard { .. } | PeerError::NoExtension { .. })) => {
                let executor = Executor::find(&self.http, &parse(url)?).await;
                executor.map(Found::Executor).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the peer's card and refuses one that takes no workspaces.
    async fn find_card(&self, url: &str, token: Option<&str>) -> Result<Peer, PeerError> {
        let base = parse(url)?;
        let mut why = String::new();
        for place in places(&base) {
            let mut request = self
                .http
                .get(place.clone())
                .timeout(ANSWER_MAX)
                .header(ACCEPT, "application/json");
            if let Some(token) = token {
                request = request.bearer_auth(token);
            }
            let response = request
                .send()
                .await
                .map_err(|error| unreachable(&place, &error))?;
            if !response.status().is_success() {
                why = format!(
                    "{place} answered with status {}",
                    response.status().as_u16()
                );
                continue;
            }
            let card = body(response).await.and_then(|bytes| {
                let value: Value =
                    serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
                v03::read_card(&value).map_err(|error| error.to_string())
            });
            let card = match card {
                Ok(card) => card,
                Err(error) => {
                    why = format!("{place}: {error}");
                    continue;
                }
            };
            let mut extensions = card.capabilities.extensions.iter();
            let extension = extensions.find(|extension| extension.uri == EXTENSION_URI);
            let extension = extension.ok_or_else(|| PeerError::NoExtension {
                url: url.to_owned(),
            })?;
            let way = card.supported_interfaces.iter().find_map(|interface| {
                let version = Version::parse(&interface.protocol_version)?;
                let is_rpc = Binding::parse(&interface.protocol_binding) == Some(Binding::JsonRpc);
                let url = parse(&interface.url).ok().filter(|_| is_rpc)?;
                Some((url, version))
            });
            let (way, version) = way.ok_or_else(|| PeerError::NoWay {
                url: url.to_owned(),
            })?;
            return Ok(Peer {
                http: self.http.clone(),
                url: way,
                version,
                token: token.map(str::to_owned),
                transports: transports(extension),
            });
        }
        let url = url.to_owned();
        Err(PeerError::NoCard { url, why })
    }

    /// Posts a message to where its receiver wants it, with the secret of the delegation.
    pub(crate) async fn reply(
        &self,
        url: &str,
        secret: &str,
        data: &Value,
    ) -> Result<(), PeerError> {
        let url = parse(url)?;
        let request = self.http.post(url.clone()).bearer_auth(secret).json(data);
        let response = request.timeout(ANSWER_MAX).send().await;
        let response = response.map_err(|error| unreachable(&url, &error))?;
        check(response, &url).await.map(drop)
    }

    /// Fetches an archive into a file.
    pub(crate) async fn fetch(
        &self,
        url: &str,
        secret: &str,
        (folder, name): (&Path, &str),
        max: u64,
        tasks: &Tasks,
    ) -> Result<u64, PeerError> {
        let url = parse(url)?;
        let request = self.http.get(url.clone()).bearer_auth(secret);
        let response = request.timeout(TRANSFER_MAX).send().await;
        let response = response.map_err(|error| unreachable(&url, &error))?;
        let response = check(response, &url).await?;
        let pieces = response.bytes_stream();
        let kept = spool::keep(folder, name, pieces, max, tasks).await;
        kept.map_err(|error| PeerError::Unreachable {
            url: url.to_string(),
            why: chain(&error),
        })
    }

    /// Sends an archive.
    pub(crate) async fn deliver(
        &self,
        url: &str,
        secret: &str,
        pieces: impl Stream<Item = std::io::Result<bytes::Bytes>> + Send + 'static,
    ) -> Result<(), PeerError> {
        let url = parse(url)?;
        let body = reqwest::Body::wrap_stream(pieces.into_stream());
        let request = self.http.post(url.clone()).bearer_auth(secret).body(body);
        let response = request.timeout(TRANSFER_MAX).send().await;
        let response = response.map_err(|error| unreachable(&url, &error))?;
        check(response, &url).await.map(drop)
    }
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

    /// Sends `data` as the part of a message; gives the data of the answer, if it has some.
    pub(crate) async fn send(
        &self,
        data: &Value,
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

/// How long the answer to an ordinary message may take.
pub(crate) fn answer_limit() -> Duration {
    ANSWER_MAX
}

fn parse(url: &str) -> Result<Url, PeerError> {
    let bad = |why: String| PeerError::BadUrl {
        url: url.to_owned(),
        why,
    };
    let parsed = Url::parse(url).map_err(|error| bad(error.to_string()))?;
    if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
        return Err(bad("it begins with http:// or https://".to_owned()));
    }
    Ok(parsed)
}

fn places(base: &Url) -> Vec<Url> {
    if base.path().ends_with(".json") {
        return vec![base.clone()];
    }
    let path = base.path().trim_end_matches('/').to_owned();
    let mut prefixes = vec![path.clone()];
    if !path.is_empty() {
        prefixes.push(String::new());
    }
    let at = |prefix: &str, card: &str| {
        let mut place = base.clone();
        place.set_path(&format!("{prefix}{card}"));
        place.set_query(None);
        place
    };
    prefixes
        .iter()
        .flat_map(|prefix| CARD_PATHS.map(|card| at(prefix, card)))
        .collect()
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
    let words = body(response).await.unwrap_or_default();
    let words = String::from_utf8_lossy(&words).into_owned();
    let url = url.to_string();
    let why = format!("status {}: {words}", status.as_u16());
    let is_passing = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    Err(match is_passing {
        true => PeerError::Unreachable { url, why },
        false => PeerError::Refused { url, why },
    })
}

async fn body(mut response: Response) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| chain(&error))? {
        if bytes.len() + piece.len() > BODY_MAX {
            return Err(format!("its answer has more than {BODY_MAX} bytes"));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}
