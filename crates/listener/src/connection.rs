//! Connections: accepted up to a number, encrypted where they must be, each with bounds on what it may hold up.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{Extension, Router, extract::ConnectInfo};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use platform::Tasks;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::tls::Identity;

/// Connections at a time: many peers and browsers, few enough for the limit of open files.
const CONNECTIONS_MAX: usize = 512;

/// Connections of one address at a time: one machine alone never takes all places.
const OF_ONE_ADDRESS_MAX: usize = 384;

/// How long a client has for its headers; whoever dribbles them holds no place for longer.
const HEADERS_WITHIN: Duration = Duration::from_secs(15);

/// How long the handshake may take.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Headers of one request: tokens, cookies and a call chain fit well.
const HEADER_BYTES_MAX: usize = 64 * 1024;

/// How long to wait when no connection can be accepted, because files are short.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);

/// How long requests in progress have when the node ends; streams last for ever, so this is short.
const END_WITHIN: Duration = Duration::from_secs(2);

/// Takes connections until the token of the tasks is cancelled.
pub(crate) async fn accept(
    listener: TcpListener,
    identity: Option<Identity>,
    router: Router,
    tasks: Tasks,
    stop: CancellationToken,
) {
    let acceptor = identity.map(|identity| identity.acceptor);
    serve_router(listener, acceptor, router, tasks, stop).await;
}

/// The same for a router that stands alone, without the guards of the node: connections are bounded in number, for each
/// address too, and in the time they have for a handshake and for headers.
pub async fn serve_router(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    router: Router,
    tasks: Tasks,
    stop: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let addresses = Addresses::default();
    loop {
        let place = tokio::select! { biased;
            () = stop.cancelled() => return,
            place = places.clone().acquire_owned() => place.expect("the semaphore is never closed"),
        };
        let accepted = tokio::select! { biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, remote)) => {
                let Some(address) = addresses.enter(remote.ip()) else {
                    debug!(%remote, "its address has too many connections");
                    continue; // Closed at once; a place for others is worth more than words.
                };
                let _ = stream.set_nodelay(true); // Only slower without.
                let connection = Connection {
                    remote,
                    router: router.clone(),
                    acceptor: acceptor.clone(),
                    place,
                    address,
                };
                tasks.spawn(|stop| async move { connection.run(stream, stop).await });
            }
            Err(error) => {
                warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

/// How many connections each address has.
#[derive(Debug, Clone, Default)]
struct Addresses(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// A connection of an address, until it is dropped.
#[derive(Debug)]
struct OfAddress {
    all: Addresses,
    address: IpAddr,
}

impl Addresses {
    /// One more, unless there are too many.
    fn enter(&self, address: IpAddr) -> Option<OfAddress> {
        let mut counts = self.lock();
        let count = counts.entry(address).or_default();
        if *count >= OF_ONE_ADDRESS_MAX {
            return None;
        }
        *count += 1;
        drop(counts);
        Some(OfAddress {
            all: self.clone(),
            address,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OfAddress {
    fn drop(&mut self) {
        let mut counts = self.all.lock();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

struct Connection {
    remote: SocketAddr,
    router: Router,
    acceptor: Option<TlsAcceptor>,
    place: OwnedSemaphorePermit,
    address: OfAddress,
}

impl Connection {
    async fn run(self, stream: TcpStream, stop: CancellationToken) {
        let Self {
            remote,
            router,
            acceptor,
            place,
            address,
        } = self;
        let _held = (place, address);
        let router = router.layer(Extension(ConnectInfo(remote)));
        let Some(acceptor) = acceptor else {
            return serve(stream, router, stop).await;
        };
        let handshake = tokio::time::timeout(HANDSHAKE_WITHIN, acceptor.accept(stream));
        let shaken = tokio::select! { biased;
            () = stop.cancelled() => return,
            shaken = handshake => shaken,
        };
        match shaken {
            Ok(Ok(stream)) => serve(stream, router, stop).await,
            Ok(Err(error)) => debug!(%remote, %error, "the handshake failed"),
            Err(_) => debug!(%remote, "the handshake took too long"),
        }
    }
}

async fn serve<S>(stream: S, router: Router, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! { biased;
        () = stop.cancelled() => None,
        ended = connection.as_mut() => Some(ended),
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(END_WITHIN, connection).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a connection broke");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_never_takes_all_places_and_gives_them_back() {
        let addresses = Addresses::default();
        let [one, other] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        let held: Vec<_> = (0..OF_ONE_ADDRESS_MAX)
            .map(|_| addresses.enter(one).unwrap())
            .collect();
        assert!(addresses.enter(one).is_none());
        assert!(addresses.enter(other).is_some());
        drop(held);
        assert!(addresses.lock().is_empty());
        assert!(addresses.enter(one).is_some());
    }
}
