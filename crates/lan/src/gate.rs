//! What a paired peer may do, beyond what its token says: asked before a face sees its request.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use axum::{
    Json, Router,
    body::to_bytes,
    extract::{Request, State},
    http::{Method, StatusCode},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use engine::{Caller, TokenId};
use serde_json::{Value, json};

use crate::{
    lan::Lan,
    pairing::{Allowed, CALLER, Limits},
};

/// The methods of A2A that begin work; what is asked about it afterwards is free.
const WORK: [&str; 4] = [
    "SendMessage",
    "SendStreamingMessage",
    "message/send",
    "message/stream",
];

/// The largest request of A2A.
const BODY_MAX: usize = 16 * 1024 * 1024;

#[derive(Debug, Clone)]
struct Gate {
    lan: Lan,
    allowed: Arc<Mutex<Allowed>>,
}

/// Why a peer is turned away although its token is good.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Closed {
    Hours(String),
    TooMany(u32),
    /// Its token is one of a pairing, and there is none.
    NotPaired,
}

/// The router behind the gate.
pub(crate) fn behind(lan: Lan, router: Router) -> Router {
    let gate = Gate {
        lan,
        allowed: Arc::default(),
    };
    router.layer(middleware::from_fn_with_state(gate, pass))
}

async fn pass(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Caller>();
    if caller.is_some_and(|caller| caller.name.starts_with(CALLER)) {
        // By its token: what peers are called is told by peers, and what cannot be found is not granted.
        let token = request.extensions().get::<TokenId>();
        let peer = token.and_then(|token| gate.lan.peers().holder(&token.0));
        let paired = peer.and_then(|peer| peer.pairing.map(|paired| (peer.agent_id, paired)));
        let Some((agent_id, paired)) = paired else {
            return Closed::NotPaired.into_response();
        };
        let begins = match begins(request.method(), request.uri().path()) {
            Begins::Surely => true,
            Begins::Never => false,
            Begins::AsTheBodySays => {
                let (parts, body) = request.into_parts();
                let Ok(body) = to_bytes(body, BODY_MAX).await else {
                    return StatusCode::PAYLOAD_TOO_LARGE.into_response();
                };
                let begins = says_work(&body);
                request = Request::from_parts(parts, body.into());
                begins
            }
        };
        let now = jiff::Zoned::now();
        let minute = now.hour() as u16 * 60 + now.minute() as u16;
        let mut allowed = gate.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        let checked = check(&paired.limits, &agent_id, begins, minute, &mut allowed);
        drop(allowed);
        if let Err(closed) = checked {
            return closed.into_response();
        }
    }
    next.run(request).await
}

/// Whether a request is one for work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begins {
    Surely,
    Never,
    AsTheBodySays,
}

fn begins(method: &Method, path: &str) -> Begins {
    if method != Method::POST {
        return Begins::Never;
    }
    let path = path.trim_end_matches('/');
    if path == "/runs" {
        return Begins::Surely;
    }
    let Some(below) = path.strip_prefix("/a2a") else {
        return Begins::Never;
    };
    let last = below.rsplit('/').next().unwrap_or_default();
    match last {
        "message:send" | "message:stream" => Begins::Surely,
        _ => Begins::AsTheBodySays,
    }
}

/// A body that cannot be read begins nothing. It is read as the face reads it, also where it says a thing twice.
fn says_work(body: &[u8]) -> bool {
    let said = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let method = said.get("method").and_then(Value::as_str);
    method.is_some_and(|method| WORK.contains(&method))
}

fn check(
    limits: &Limits,
    peer: &str,
    begins: bool,
    minute: u16,
    allowed: &mut Allowed,
) -> Result<(), Closed> {
    if let Some(hours) = limits.hours
        && !hours.holds(minute)
    {
        return Err(Closed::Hours(hours.into()));
    }
    match limits.per_minute {
        Some(limit) if begins && !allowed.take(peer, limit, Instant::now()) => {
            Err(Closed::TooMany(limit))
        }
        _ => Ok(()),
    }
}

impl IntoResponse for Closed {
    fn into_response(self) -> Response {
        let (status, code, message, suggestion) = match self {
            Self::NotPaired => (
                StatusCode::FORBIDDEN,
                "not_paired",
                "this node is not paired with you any more".to_owned(),
                "pair with it again",
            ),
            Self::Hours(hours) => (
                StatusCode::FORBIDDEN,
                "outside_hours",
                format!("this node takes work of yours only from {hours}"),
                "ask again within these hours, or ask its owner for others",
            ),
            Self::TooMany(limit) => (
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_requests",
                format!("this node takes {limit} runs of yours in a minute"),
                "wait a minute",
            ),
        };
        let body = json!({
            "code": "invalid_input", "message": message, "status": "failed",
            "error": { "code": code, "message": message, "suggestion": suggestion },
        });
        (status, Json(body)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairing::Hours;

    #[test]
    fn work_is_known_whatever_the_path_and_the_words_it_comes_in() {
        for (method, path, known) in [
            (Method::POST, "/runs", Begins::Surely),
            (Method::POST, "/runs/1/cancel", Begins::Never),
            (Method::POST, "/a2a/1.0/echo/message:stream", Begins::Surely),
            (Method::POST, "/a2a/-/v1/message:send/", Begins::Surely),
            (Method::POST, "/a2a/echo", Begins::AsTheBodySays),
            (Method::POST, "/a2a", Begins::AsTheBodySays),
            (Method::GET, "/a2a/echo/tasks", Begins::Never),
        ] {
            assert_eq!(begins(&method, path), known, "{method} {path}");
        }
        assert!(says_work(br#"{"method": "message/send", "id": 1}"#));
        assert!(says_work(
            br#"{"id": 1, "method": "SendStreaming\u004dessage"}"#
        ));
        assert!(says_work(
            br#"{"method": "GetTask", "method": "SendMessage"}"#
        ));
        assert!(!says_work(br#"{"method": "GetTask"}"#));
        assert!(!says_work(b"{"));
    }

    #[test]
    fn a_peer_is_let_in_at_its_hours_and_not_more_often_than_granted() {
        let limits = Limits {
            per_minute: Some(1),
            hours: Some(Hours::try_from("08:00-22:00".to_owned()).unwrap()),
            until: None,
        };
        let mut allowed = Allowed::default();
        let mut ask = |begins, minute| check(&limits, "p", begins, minute, &mut allowed);
        assert_eq!(ask(true, 600), Ok(()));
        assert_eq!(ask(true, 600), Err(Closed::TooMany(1)));
        assert_eq!(ask(false, 600), Ok(()), "looking is free");
        assert_eq!(ask(false, 60), Err(Closed::Hours("08:00-22:00".to_owned())));
    }
}
