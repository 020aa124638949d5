//! Connections that have not shown a token yet: how many there may be, in all and of one address.
//!
//! Whoever opens a connection takes a place and gives it back with a good token, or with the end of the connection, which
//! comes soon to those who show none. A session has one WebSocket at a time, so a place stands for one connection and not
//! for many.

use std::{
    collections::{HashMap, HashSet},
    mem,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use axum::{
    Json,
    extract::{ConnectInfo, OriginalUri, Request},
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde_json::json;

use super::gate::query;

/// When somebody who found no place may try again: by then silent connections have been closed.
const COME_AGAIN_SECS: &str = "10";

/// Refusals of one guest that are written down; it may ask again and again until its time is over.
const WRITTEN_DOWN_MAX: usize = 4;

/// How many guests there may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    pub(super) all: usize,
    pub(super) of_one_address: usize,
}

/// Everybody who has not shown a token.
#[derive(Debug)]
pub(super) struct Guests {
    places: Places,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    all: usize,
    addresses: HashMap<IpAddr, usize>,
    /// Sessions that have a WebSocket or are getting one.
    changing: HashSet<String>,
}

/// A connection without a token, until it shows one or is dropped.
#[derive(Debug)]
pub(super) struct Guest {
    guests: Arc<Guests>,
    address: Option<IpAddr>,
    is_let_in: AtomicBool,
    refusals: AtomicUsize,
}

/// The one WebSocket of a session that began by polling.
#[derive(Debug)]
struct Line {
    guests: Arc<Guests>,
    session: String,
}

impl Guests {
    pub(super) fn new(places: Places) -> Arc<Self> {
        Arc::new(Self {
            places,
            inside: Mutex::default(),
        })
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(self: &Arc<Self>, address: Option<IpAddr>) -> Option<Guest> {
        let mut inside = self.inside();
        if inside.all >= self.places.all {
            return None;
        }
        if let Some(address) = address {
            let count = inside.addresses.entry(address).or_default();
            if *count >= self.places.of_one_address {
                return None;
            }
            *count += 1;
        }
        inside.all += 1;
        drop(inside);
        Some(Guest {
            guests: Arc::clone(self),
            address,
            is_let_in: AtomicBool::new(false),
            refusals: AtomicUsize::new(0),
        })
    }

    fn change(self: &Arc<Self>, session: &str) -> Option<Line> {
        let is_first = self.inside().changing.insert(session.to_owned());
        is_first.then(|| Line {
            guests: Arc::clone(self),
            session: session.to_owned(),
        })
    }
}

impl Guest {
    /// It has shown a token, and is a guest no more.
    pub(super) fn let_in(&self) {
        if self.is_let_in.swap(true, Ordering::SeqCst) {
            return;
        }
        let mut inside = self.guests.inside();
        inside.all -= 1;
        if let Some(address) = self.address
            && let Some(count) = inside.addresses.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                inside.addresses.remove(&address);
            }
        }
    }

    /// Whether one more refusal of this guest is worth a line.
    pub(super) fn is_worth_a_line(&self) -> bool {
        self.refusals.fetch_add(1, Ordering::SeqCst) < WRITTEN_DOWN_MAX
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.let_in();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.guests.inside().changing.remove(&self.session);
    }
}

type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Gives every new connection a place; the library keeps it with the request for as long as it keeps the connection.
pub(super) fn take_places(
    guests: Arc<Guests>,
) -> impl Fn(Request, Next) -> Answering + Clone + Send + Sync + 'static {
    move |mut request, next| {
        let guests = Arc::clone(&guests);
        Box::pin(async move {
            let uri = request.uri();
            match query(uri, "sid") {
                None => {
                    let remote = request.extensions().get::<ConnectInfo<SocketAddr>>();
                    let address = remote.map(|ConnectInfo(remote)| party(remote.ip()));
                    let Some(guest) = guests.enter(address) else {
                        return no_place();
                    };
                    request.extensions_mut().insert(Arc::new(guest));
                    lighten(&mut request);
                }
                Some(session) if query(uri, "transport") == Some("websocket") => {
                    let Some(line) = guests.change(session) else {
                        return has_a_line();
                    };
                    request.extensions_mut().insert(Arc::new(line));
                }
                Some(_) => {}
            }
            next.run(request).await
        })
    }
}

/// Copies what the library keeps of the request: as it came, each of its parts holds the whole buffer that it was read
/// into, for as long as the connection lasts.
fn lighten(request: &mut Request) {
    request.extensions_mut().remove::<OriginalUri>();
    if let Ok(uri) = request.uri().to_string().parse() {
        *request.uri_mut() = uri;
    }
    let headers = mem::take(request.headers_mut());
    for (name, value) in &headers {
        let copied = (
            HeaderName::from_bytes(name.as_str().as_bytes()),
            HeaderValue::from_bytes(value.as_bytes()),
        );
        if let (Ok(name), Ok(value)) = copied {
            request.headers_mut().append(name, value);
        }
    }
}

/// Who counts as one: a whole network of the newer addresses belongs to one party.
fn party(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address @ IpAddr::V4(_) => address,
    }
}

fn no_place() -> Response {
    let body = json!({
        "code": 503,
        "message": "Too many connections have not shown a token yet: come again in some seconds.",
    });
    let again = [(header::RETRY_AFTER, COME_AGAIN_SECS)];
    (StatusCode::SERVICE_UNAVAILABLE, again, Json(body)).into_response()
}

fn has_a_line() -> Response {
    let body = json!({ "code": 400, "message": "This session has a WebSocket already." });
    (StatusCode::BAD_REQUEST, Json(body)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guests() -> Arc<Guests> {
        Guests::new(Places {
            all: 3,
            of_one_address: 2,
        })
    }

    #[test]
    fn one_address_never_takes_all_places_and_a_token_gives_one_back() {
        let guests = guests();
        let [one, other] = ["10.0.0.1", "10.0.0.2"].map(|text| Some(text.parse().unwrap()));
        let first = guests.enter(one).unwrap();
        let second = guests.enter(one).unwrap();
        assert!(guests.enter(one).is_none());
        let third = guests.enter(other).unwrap();
        assert!(guests.enter(None).is_none(), "all places are taken");
        first.let_in();
        first.let_in();
        drop(first);
        let again = guests.enter(one).unwrap();
        assert!(guests.enter(None).is_none(), "a place was given back twice");
        drop((second, third, again));
        let inside = guests.inside();
        assert_eq!((inside.all, inside.addresses.len()), (0, 0));
    }

    #[test]
    fn a_session_has_one_websocket_at_a_time() {
        let guests = guests();
        let line = guests.change("s").unwrap();
        assert!(guests.change("s").is_none());
        assert!(guests.change("t").is_some());
        drop(line);
        assert!(guests.change("s").is_some());
    }

    #[test]
    fn a_request_is_the_same_when_it_is_light() {
        let request = Request::builder()
            .uri("/socket.io/?EIO=4&a2c_version=0.4.0")
            .header("user-agent", "Python/3")
            .header("x-own", "a")
            .header("x-own", "b");
        let mut request = request.body(axum::body::Body::empty()).unwrap();
        let headers = request.headers().clone();
        lighten(&mut request);
        assert_eq!(request.uri(), "/socket.io/?EIO=4&a2c_version=0.4.0");
        assert_eq!(*request.headers(), headers);
    }

    #[test]
    fn a_network_of_the_newer_addresses_is_one_party() {
        let of = |text: &str| party(text.parse().unwrap()).to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), of("2001:db8:1:2::1"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:10.0.0.1"), "10.0.0.1");
    }
}
