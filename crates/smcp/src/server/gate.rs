//! The handshake's HTTP side: the version in the query, and answers in portions that every client can take.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    Json,
    body::Bytes,
    extract::Request,
    http::{Method, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde_json::json;
use wire::smcp::{Profile, SHIPPED_VERSION, Version};

/// The code of a version that we do not speak.
const VERSION_MISMATCH: i64 = 4008;

/// What clients of one family decode at most from one answer; they drop the connection over a larger one.
const PORTION_PACKETS: usize = 16;

/// Between packets of one answer.
const SEPARATOR: u8 = 0x1e;

/// Sessions with packets kept back at once; beyond it an answer is given whole, since losing it would be worse.
const SESSIONS_MAX: usize = 1024;

/// How long packets are kept back: a session that has not come for them in this time is dead.
const KEPT_BACK_MAX: Duration = Duration::from_secs(120);

/// Bytes of one answer: the largest message with its neighbours.
const ANSWER_MAX: usize = 64 * 1024 * 1024;

/// One value of the query, as it is written.
pub(super) fn query<'a>(uri: &'a Uri, key: &str) -> Option<&'a str> {
    let pairs = uri.query()?.split('&');
    pairs
        .filter_map(|pair| pair.split_once('='))
        .find_map(|(name, value)| (name == key).then_some(value))
}

/// The profile that a handshake chooses, and the version it names.
pub(super) fn profile(uri: &Uri) -> (Profile, Option<String>) {
    match query(uri, "a2c_version") {
        Some(version) => (Profile::Shipped, Some(version.to_owned())),
        None => (Profile::Seed, None),
    }
}

/// Refuses a handshake whose version we do not speak. Without one it is the specification's profile.
pub(super) async fn check_version(request: Request, next: Next) -> Response {
    let uri = request.uri();
    let named = query(uri, "a2c_version").filter(|_| query(uri, "sid").is_none());
    match named.map(Version::parse) {
        None => next.run(request).await,
        Some(Ok(version)) if version.is_shipped() => next.run(request).await,
        Some(Ok(version)) => {
            let body = json!({
                "code": VERSION_MISMATCH,
                "message": "Protocol version mismatch",
                "server_version": SHIPPED_VERSION.to_string(),
                "client_version": version.to_string(),
                "min_supported": "0.4.0",
                "max_supported": "0.4.999",
            });
            let code = [("x-a2c-error-code", VERSION_MISMATCH.to_string())];
            (StatusCode::BAD_REQUEST, code, Json(body)).into_response()
        }
        Some(Err(error)) => {
            let message = format!("Invalid a2c_version: {error}");
            let body = json!({ "code": 400, "message": message });
            (StatusCode::BAD_REQUEST, Json(body)).into_response()
        }
    }
}

/// What each session has not been given yet.
pub(super) type KeptBack = Arc<Mutex<HashMap<String, Rest>>>;

/// Packets of one session, and since when they wait.
pub(super) struct Rest {
    packets: Vec<Bytes>,
    since: Instant,
}

type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Gives polling clients that cannot take more than a few packets at once the rest with their next request.
pub(super) fn in_portions(
    kept: KeptBack,
) -> impl Fn(Request, Next) -> Answering + Clone + Send + Sync + 'static {
    move |request, next| {
        let kept = Arc::clone(&kept);
        Box::pin(async move {
            let Some(session) = small_reader(&request) else {
                return next.run(request).await;
            };
            let waiting = lock(&kept).remove(&session);
            if let Some(rest) = waiting {
                return portion(&kept, session, rest.packets).into_response();
            }
            let response = next.run(request).await;
            if response.status() != StatusCode::OK {
                return response;
            }
            let (mut parts, body) = response.into_parts();
            parts.headers.remove(header::CONTENT_LENGTH);
            match axum::body::to_bytes(body, ANSWER_MAX).await {
                Ok(bytes) => (parts, portion(&kept, session, split(&bytes))).into_response(),
                Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            }
        })
    }
}

/// The session of a poll by a client with that limit. These clients change to WebSocket before they first poll, so
/// nothing that is kept back can be overtaken.
fn small_reader(request: &Request) -> Option<String> {
    let uri = request.uri();
    let agent = request.headers().get(header::USER_AGENT)?.to_str().ok()?;
    let agent = agent.to_ascii_lowercase();
    let is_poll = request.method() == Method::GET && query(uri, "transport") == Some("polling");
    (is_poll && agent.contains("python")).then_some(())?;
    query(uri, "sid").map(str::to_owned)
}

fn split(bytes: &Bytes) -> Vec<Bytes> {
    bytes
        .split(|byte| *byte == SEPARATOR)
        .map(|packet| bytes.slice_ref(packet))
        .collect()
}

/// The body of the next answer; what does not fit is kept back.
fn portion(kept: &KeptBack, session: String, mut packets: Vec<Bytes>) -> Vec<u8> {
    if packets.len() > PORTION_PACKETS {
        let mut kept = lock(kept);
        kept.retain(|_, rest| rest.since.elapsed() < KEPT_BACK_MAX);
        if kept.len() < SESSIONS_MAX {
            let rest = Rest {
                packets: packets.split_off(PORTION_PACKETS),
                since: Instant::now(),
            };
            kept.insert(session, rest);
        }
    }
    packets.join(&SEPARATOR)
}

fn lock(kept: &KeptBack) -> MutexGuard<'_, HashMap<String, Rest>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_chooses_the_profile() {
        let uri = |text: &str| text.parse::<Uri>().unwrap();
        assert_eq!(
            profile(&uri("/socket.io/?EIO=4&a2c_version=0.4.2&t=1")),
            (Profile::Shipped, Some("0.4.2".to_owned()))
        );
        assert_eq!(profile(&uri("/socket.io/?EIO=4")), (Profile::Seed, None));
        assert_eq!(profile(&uri("/socket.io/")), (Profile::Seed, None));
    }

    #[test]
    fn a_long_answer_comes_in_portions_and_loses_nothing() {
        let kept = KeptBack::default();
        let all: Vec<String> = (0..40).map(|n| format!("4{n}")).collect();
        let bytes = Bytes::from(all.join("\u{1e}"));
        let mut seen = Vec::new();
        let mut packets = split(&bytes);
        loop {
            let given = split(&Bytes::from(portion(&kept, "s".to_owned(), packets)));
            assert!(given.len() <= PORTION_PACKETS);
            seen.extend(
                given
                    .into_iter()
                    .map(|p| String::from_utf8(p.to_vec()).unwrap()),
            );
            match lock(&kept).remove("s") {
                Some(rest) => packets = rest.packets,
                None => break,
            }
        }
        assert_eq!(seen, all);
    }
}
