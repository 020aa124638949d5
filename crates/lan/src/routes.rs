//! The paths of this crate: peers, intents and pairing for the owner, and requests to pair for anybody.

use std::{net::SocketAddr, time::Duration};

use axum::{
    Extension, Json, Router,
    body::Bytes,
    extract::{ConnectInfo, DefaultBodyLimit, Path, State},
    http::{StatusCode, header},
    middleware::map_response,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use engine::Caller;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{error::LanError, intents::IntentOptions, lan::Lan, pairing::Grant, peers::NewPeer};

/// Paths that must be reachable without a token: whoever wants to pair has none.
pub const OPEN_PATHS: [&str; 1] = ["/pair/requests"];

/// The right to see and change peers, and to send intents.
const RIGHT: &str = "peers";

/// What a stranger may send.
const STRANGER_BODY_MAX: usize = 4 * 1024;

/// An intent with what was said before it.
const BODY_MAX: usize = 1024 * 1024;

type Who = Option<Extension<Caller>>;
type Answer = Result<Response, Refused>;

pub(crate) fn router(lan: Lan) -> Router {
    let strangers = Router::new()
        .route("/pair/requests", post(pair_open))
        .route("/pair/requests/{id}", post(pair_claim))
        .layer(DefaultBodyLimit::max(STRANGER_BODY_MAX));
    Router::new()
        .route("/peers", get(list).post(add))
        .route("/peers/{id}", get(show).delete(remove))
        .route("/peers/{id}/ping", post(ping))
        .route("/peers/{id}/refresh", post(refresh))
        .route("/peers/{id}/unpair", post(unpair))
        .route("/intents", post(send))
        .route("/intents/route", post(rank))
        .route("/intents/{id}", get(intent))
        .route("/intents/{id}/answer", post(answer))
        .route("/intents/sessions", get(trees))
        .route("/intents/sessions/{main}", get(sessions))
        .route("/pair", get(waiting).post(ask))
        .route("/pair/asked/{id}", get(asked))
        .route("/pair/accept", post(accept))
        .route("/pair/refuse", post(refuse))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .merge(strangers)
        .route_layer(map_response(in_json))
        .with_state(lan)
}

/// What the framework turns away by itself is told like everything else.
async fn in_json(response: Response) -> Response {
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if is_json || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let allow = response.headers().get(header::ALLOW).cloned();
    let mut told = Refused::ByFramework(status).into_response();
    if let Some(allow) = allow {
        told.headers_mut().insert(header::ALLOW, allow);
    }
    told
}

/// Why a request was turned away.
enum Refused {
    ByFramework(StatusCode),
    NoCaller,
    NoRight,
    Lan(LanError),
}

impl From<LanError> for Refused {
    fn from(error: LanError) -> Self {
        Self::Lan(error)
    }
}

fn check(who: &Who) -> Result<(), Refused> {
    match who {
        None => Err(Refused::NoCaller),
        Some(caller) if !caller.may(RIGHT) => Err(Refused::NoRight),
        Some(_) => Ok(()),
    }
}

fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, Refused> {
    serde_json::from_slice(body).map_err(|error| {
        Refused::Lan(LanError::Invalid {
            what: format!("the body cannot be read: {error}"),
        })
    })
}

fn told(value: impl serde::Serialize) -> Answer {
    Ok(Json(value).into_response())
}

async fn list(State(lan): State<Lan>, who: Who) -> Answer {
    check(&who)?;
    told(json!({ "peers": lan.peers().list() }))
}

#[derive(Deserialize)]
struct Add {
    url: String,
    token: Option<String>,
    fingerprint: Option<String>,
}

async fn add(State(lan): State<Lan>, who: Who, body: Bytes) -> Answer {
    check(&who)?;
    let Add {
        url,
        token,
        fingerprint,
    } = read(&body)?;
    let new = NewPeer {
        url,
        token,
        fingerprint,
    };
    let peer = lan.peers().add(new).await?;
    Ok((StatusCode::CREATED, Json(peer)).into_response())
}

async fn show(State(lan): State<Lan>, who: Who, Path(id): Path<String>) -> Answer {
    check(&who)?;
    told(lan.peers().show(&id)?)
}

async fn remove(State(lan): State<Lan>, who: Who, Path(id): Path<String>) -> Answer {
    check(&who)?;
    lan.pairing().remove(&id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn ping(State(lan): State<Lan>, who: Who, Path(id): Path<String>) -> Answer {
    check(&who)?;
    told(lan.peers().ping(&id).await?)
}

async fn refresh(State(lan): State<Lan>, who: Who, Path(id): Path<String>) -> Answer {
    check(&who)?;
    let id = lan.peers().show(&id)?.id;
    told(lan.peers().refresh(&id).await?)
}

async fn unpair(State(lan): State<Lan>, who: Who, Path(id): Path<String>) -> Answer {
    check(&who)?;
    told(lan.pairing().end(&id).await?)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToSend {
    text: String,
    peer: Option<String>,
    #[serde(default)]
    capability: Option<String>,
    fan_out: Option<usize>,
    session: Option<String>,
    #[serde(default)]
    context: Vec<String>,
    #[serde(default)]
    call_chain: Vec<String>,
    locale: Option<String>,
    preferred_output: Option<String>,
    timeout_seconds: Option<f64>,
}

async fn send(State(lan): State<Lan>, who: Who, body: Bytes) -> Answer {
    check(&who)?;
    let send: ToSend = read(&body)?;
    let within = send
        .timeout_seconds
        .map(Duration::try_from_secs_f64)
        .transpose();
    let within = within.map_err(|_| LanError::Invalid {
        what: "timeoutSeconds is a number of seconds".to_owned(),
    })?;
    let options = IntentOptions {
        peer: send.peer,
        capability: send.capability,
        fan_out: send.fan_out,
        session: send.session,
        context: send.context,
        chain: send.call_chain,
        locale: send.locale,
        preferred_output: send.preferred_output,
        within,
        ..IntentOptions::default()
    };
    told(lan.intents().send(&send.text, options).await?)
}

#[derive(Deserialize)]
struct Text {
    text: String,
}

async fn rank(State(lan): State<Lan>, who: Who, body: Bytes) -> Answer {
    check(&who)?;
    let Text { text } = read(&body)?;
    told(json!({ "ranked": lan.intents().route(&text) }))
}

async fn intent(State(lan): State<Lan>, who: Who, Path(id): Path<String>) -> Answer {
    check(&who)?;
    told(lan.intents().show(&id).await?)
}

async fn answer(State(lan): State<Lan>, who: Who, Path(id): Path<String>, body: Bytes) -> Answer {
    check(&who)?;
    told(lan.intents().answer(&id, read(&body)?).await?)
}

async fn trees(State(lan): State<Lan>, who: Who) -> Answer {
    check(&who)?;
    told(json!({ "sessions": lan.intents().trees().await? }))
}

async fn sessions(State(lan): State<Lan>, who: Who, Path(main): Path<String>) -> Answer {
    check(&who)?;
    told(lan.intents().sessions(&main).await?)
}

async fn waiting(State(lan): State<Lan>, who: Who) -> Answer {
    check(&who)?;
    told(json!({ "requests": lan.pairing().waiting() }))
}

#[derive(Deserialize)]
struct Ask {
    /// A peer that is known, or an address.
    peer: String,
    #[serde(flatten)]
    grant: Grant,
}

async fn ask(State(lan): State<Lan>, who: Who, body: Bytes) -> Answer {
    check(&who)?;
    let Ask { peer, grant } = read(&body)?;
    told(lan.pairing().ask(&peer, grant).await?)
}

async fn asked(State(lan): State<Lan>, who: Who, Path(id): Path<String>) -> Answer {
    check(&who)?;
    told(lan.pairing().asked(&id)?)
}

#[derive(Deserialize)]
struct Typed {
    code: String,
    #[serde(flatten)]
    grant: Grant,
}

async fn accept(State(lan): State<Lan>, who: Who, body: Bytes) -> Answer {
    check(&who)?;
    let Typed { code, grant } = read(&body)?;
    told(lan.pairing().accept(&code, grant).await?)
}

async fn refuse(State(lan): State<Lan>, who: Who, body: Bytes) -> Answer {
    check(&who)?;
    let Typed { code, .. } = read(&body)?;
    lan.pairing().refuse(&code).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

type Remote = Option<Extension<ConnectInfo<SocketAddr>>>;

async fn pair_open(State(lan): State<Lan>, from: Remote, body: Bytes) -> Answer {
    let from = from.map(|from| from.0.0.ip());
    let opened = lan.pairing().open(read(&body)?, from)?;
    Ok((StatusCode::CREATED, Json(opened)).into_response())
}

async fn pair_claim(State(lan): State<Lan>, Path(id): Path<String>, body: Bytes) -> Answer {
    told(lan.pairing().claim(&id, read(&body)?).await?)
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let (status, code) = match &self {
            Self::NoCaller => (StatusCode::UNAUTHORIZED, "unauthorized"),
            Self::NoRight => (StatusCode::FORBIDDEN, "forbidden"),
            Self::ByFramework(status @ StatusCode::PAYLOAD_TOO_LARGE) => {
                (*status, "body_too_large")
            }
            Self::ByFramework(status) => (*status, "invalid_input"),
            Self::Lan(error) => class(error),
        };
        let (message, suggestion, details) = match self {
            Self::NoCaller => ("this needs a token".to_owned(), None, None),
            Self::NoRight => (format!("this token does not allow {RIGHT}"), None, None),
            Self::ByFramework(StatusCode::PAYLOAD_TOO_LARGE) => {
                ("the body is too large".to_owned(), None, None)
            }
            Self::ByFramework(status) => (
                format!("this cannot be asked for so ({status})"),
                None,
                None,
            ),
            Self::Lan(error) => {
                let (suggestion, details) = hint(&error);
                (engine::chain(&error), suggestion, details)
            }
        };
        let body = json!({
            "code": word(status),
            "message": message,
            "status": "failed",
            "error": { "code": code, "message": message, "suggestion": suggestion, "details": details },
        });
        (status, Json(body)).into_response()
    }
}

fn class(error: &LanError) -> (StatusCode, &'static str) {
    match error {
        LanError::NoPeer { .. } => (StatusCode::NOT_FOUND, "no_such_peer"),
        LanError::NotMet { .. } => (StatusCode::CONFLICT, "peer_not_met"),
        LanError::Unpaired { .. } => (StatusCode::CONFLICT, "peer_not_paired"),
        LanError::Unproven { .. } => (StatusCode::CONFLICT, "certificate_not_known"),
        LanError::NoIntent { .. } => (StatusCode::NOT_FOUND, "no_such_intent"),
        LanError::NoFit { .. } => (StatusCode::NOT_FOUND, "no_capability"),
        LanError::NoPairing => (StatusCode::NOT_FOUND, "no_such_pairing"),
        LanError::Ourselves => (StatusCode::BAD_REQUEST, "self_loop_rejected"),
        LanError::KnownElsewhere { .. } => (StatusCode::CONFLICT, "known_elsewhere"),
        LanError::Ambiguous { .. } => (StatusCode::CONFLICT, "ambiguous_peer"),
        LanError::Invalid { .. } => (StatusCode::BAD_REQUEST, "invalid_input"),
        LanError::TooMany { .. } => (StatusCode::CONFLICT, "too_many_peers"),
        LanError::TooFast { .. } | LanError::PairingBusy => {
            (StatusCode::TOO_MANY_REQUESTS, "too_many_requests")
        }
        LanError::Tokens { .. } | LanError::Records { .. } => {
            (StatusCode::INTERNAL_SERVER_ERROR, "server_error")
        }
        LanError::Peer(_) => (StatusCode::BAD_GATEWAY, "peer_failed"),
    }
}

fn hint(error: &LanError) -> (Option<String>, Option<Value>) {
    use crate::client::ClientError;
    let fixed = |words: &str| (Some(words.to_owned()), None);
    match error {
        LanError::NoFit { .. } => fixed("name a peer, or look at what the peers can do"),
        LanError::NoPairing => fixed("ask the other side for a new code"),
        LanError::Peer(ClientError::Refused {
            suggestion,
            details,
            ..
        }) => (suggestion.clone(), details.as_deref().cloned()),
        LanError::Peer(error) if error.is_about_certificate() => {
            fixed("it signed its certificate itself: `agentcraft peer pair URL`")
        }
        LanError::Peer(_) => fixed("look whether the peer is on and can be reached"),
        LanError::NoPeer { .. }
        | LanError::NotMet { .. }
        | LanError::Unpaired { .. }
        | LanError::Unproven { .. }
        | LanError::Ambiguous { .. }
        | LanError::NoIntent { .. }
        | LanError::Ourselves
        | LanError::KnownElsewhere { .. }
        | LanError::Invalid { .. }
        | LanError::TooMany { .. }
        | LanError::TooFast { .. }
        | LanError::PairingBusy
        | LanError::Tokens { .. }
        | LanError::Records { .. } => (None, None),
    }
}

/// The word of the three that clients of the runs API know.
fn word(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "not_found",
        status if status.is_server_error() => "server_error",
        _ => "invalid_input",
    }
}
