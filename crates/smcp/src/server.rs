//! The office server: namespace, handshake, and the task-free surface of the relay.
//!
//! What may happen is decided by `domain::office`; this module moves bytes, acknowledges every request and keeps time.

mod ack;
mod answers;
mod bus;
mod door;
mod floor;
mod gate;
mod guests;
mod incoming;
mod join;
mod knowledge;
mod outcome;
mod relay;
mod requests;
mod shared;

use std::{sync::Arc, time::Duration};

use axum::Router;
use domain::office::Limits;
use futures_util::FutureExt;
use platform::Tasks;
use serde_json::Value;
use socketioxide::{
    extract::{Event, TryData},
    handler::ConnectHandler,
};
use socketioxide_redis::InitRes;
use tokio::sync::watch;
use wire::smcp::NAMESPACE;

pub use self::shared::{Sharing, SharingError};
use self::{
    bus::{AckSender, Adapter, SocketIo, SocketRef, Wire},
    door::{Call, Door, Passed, WaitingMax},
    guests::{Guests, Places},
    relay::Relay,
    shared::Shared,
};
use crate::{Audit, Authenticator};

/// The path of every transport, as all clients expect it.
const PATH: &str = "/socket.io";

/// Packets that wait for one reader: more than the requests it may have open, with room for notices. A reader that
/// leaves so many unread is closed.
const UNREAD_MAX: usize = 2048;

/// What an operator may set.
#[derive(Debug, Clone)]
pub struct OfficeConfig {
    pub limits: Limits,
    /// Events that a connection may send in a second, over time.
    pub events_per_second: u32,
    /// Events that a connection may send at once.
    pub events_burst: u32,
    /// The largest message, in bytes.
    pub payload_max: usize,
    /// Bytes of requests that one computer may have unread: a burst of large ones, but not the memory of this machine.
    pub unread_bytes_max: usize,
    /// How long a tool call may take when its caller does not say.
    pub call_timeout: Duration,
    /// How long a tool call may take at most, whatever its caller says.
    pub call_timeout_max: Duration,
    /// How long anything else may take.
    pub read_timeout: Duration,
    /// Connections that have not shown a token: a burst of members that come back, but not the memory of this machine.
    pub guests_max: usize,
    /// The same of one address, so that one machine alone keeps nobody out.
    pub guests_of_address_max: usize,
    /// How long a connection may take to show a token. The library keeps what it holds of one for that long, also when
    /// it has gone.
    pub hello_timeout: Duration,
    pub ping_interval: Duration,
    pub ping_timeout: Duration,
    /// How long a silent connection has to show that it lives, before its place is given away.
    pub probe_timeout: Duration,
    /// How often old answers are forgotten, and connections closed whose token has ended.
    pub sweep_every: Duration,
}

impl Default for OfficeConfig {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            events_per_second: 500,
            events_burst: 2000,
            payload_max: 8 * 1024 * 1024,
            unread_bytes_max: 64 * 1024 * 1024,
            call_timeout: Duration::from_secs(60),
            call_timeout_max: Duration::from_secs(24 * 60 * 60),
            read_timeout: Duration::from_secs(30),
            guests_max: 1024,
            guests_of_address_max: 512,
            hello_timeout: Duration::from_secs(10),
            ping_interval: Duration::from_secs(25),
            ping_timeout: Duration::from_secs(20),
            probe_timeout: Duration::from_secs(2),
            sweep_every: Duration::from_secs(5),
        }
    }
}

/// A running office server.
#[derive(Debug, Clone)]
pub struct OfficeServer {
    relay: Arc<Relay>,
}

/// One member, for people who look at the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    pub office: String,
    pub role: &'static str,
    pub name: String,
    pub connection: String,
    pub caller: String,
}

/// What the server keeps of its connections and their requests.
#[cfg(test)]
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Holds {
    pub(crate) connections: usize,
    pub(crate) requests: usize,
}

impl OfficeServer {
    /// Everybody who has joined an office.
    pub fn seats(&self) -> Vec<Seat> {
        self.relay.seats()
    }

    /// How much is kept for others.
    #[cfg(test)]
    pub(crate) fn holds(&self) -> Holds {
        self.relay.holds()
    }

    /// Changes whenever the seats may have changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.relay.changes()
    }
}

/// The routes of an office server. Its connections end when `tasks` is cancelled.
pub fn router(
    config: OfficeConfig,
    authenticate: Authenticator,
    audit: Audit,
    tasks: &Tasks,
) -> (Router, OfficeServer) {
    let (router, io) = build(&config, Wire::Alone, String::new());
    let relay = Relay::new(config, authenticate, audit, tasks.child(), None);
    let relay = Arc::new(relay);
    let listening = listen(&io, &relay).now_or_never();
    debug_assert!(
        matches!(listening, Some(Ok(()))),
        "there is nobody to wait for"
    );
    relay.keep_sweeping();
    close_with(tasks, io);
    (router, OfficeServer { relay })
}

/// The routes of one of several office servers that act as one.
pub async fn shared_router(
    config: OfficeConfig,
    sharing: &Sharing,
    authenticate: Authenticator,
    audit: Audit,
    tasks: &Tasks,
) -> Result<(Router, OfficeServer), SharingError> {
    let redis = sharing.connect().await?;
    let (router, io) = build(&config, Wire::Redis(redis.clone()), sharing.prefix());
    let members_max = config.limits.members_max;
    let (shared, parcels) = Shared::new(&redis, sharing.prefix(), io.clone(), members_max);
    let shared = Arc::new(shared);
    let others = Some(Arc::clone(&shared));
    let relay = Relay::new(config, authenticate, audit, tasks.child(), others);
    let relay = Arc::new(relay);
    listen(&io, &relay)
        .await
        .map_err(|error| SharingError::Listen {
            place: sharing.place(),
            reason: error.to_string(),
        })?;
    Shared::start(&relay, shared, parcels, &sharing.place()).await?;
    relay.keep_sweeping();
    close_with(tasks, io);
    Ok((router, OfficeServer { relay }))
}

fn build(config: &OfficeConfig, wire: Wire, prefix: String) -> (Router, SocketIo) {
    let (service, io) = socketioxide::SocketIo::builder()
        .req_path(PATH)
        .max_payload(u64::try_from(config.payload_max).unwrap_or(u64::MAX))
        .ws_max_message_size(config.payload_max)
        .ws_max_frame_size(config.payload_max)
        .max_buffer_size(UNREAD_MAX)
        .ping_interval(config.ping_interval)
        .ping_timeout(config.ping_timeout)
        .connect_timeout(config.hello_timeout)
        .with_adapter::<Adapter>(wire.adapter(prefix))
        .build_svc();
    let guests = Guests::new(Places {
        all: config.guests_max,
        of_one_address: config.guests_of_address_max,
    });
    let router = Router::new()
        .route_service(PATH, service.clone())
        .route_service(&format!("{PATH}/"), service)
        .layer(axum::middleware::from_fn(guests::take_places(guests)))
        .layer(axum::middleware::from_fn(gate::check_version))
        .layer(axum::middleware::from_fn(gate::in_portions(Arc::default())));
    (router, io)
}

fn close_with(tasks: &Tasks, io: SocketIo) {
    tasks.spawn(|stop| async move {
        stop.cancelled().await;
        io.close().await;
    });
}

/// The closures below run in the reader's task, and so they see events in the order in which they were sent.
fn listen(io: &SocketIo, relay: &Arc<Relay>) -> InitRes<Wire> {
    let admitting = Arc::clone(relay);
    let admit = move |socket: SocketRef, TryData(auth): TryData<Value>| {
        let admitted = admitting.admit(&socket, auth.ok().as_ref());
        if admitted.is_ok() {
            attend(&socket, &admitting);
        }
        async move { admitted }
    };
    let connecting = Arc::clone(relay);
    let connect = move |socket: SocketRef| {
        if let Some(door) = socket.extensions.get::<Arc<Door>>() {
            door.let_in(|| connecting.connected(&socket));
            door.take_waiting(|call| {
                connecting.receive(&socket, &call.name, call.body, call.ack);
            });
        }
        async {}
    };
    io.ns(NAMESPACE, connect.with(admit))
}

/// Handlers are set before the client is told that it is connected, so that nothing it sends finds nobody.
fn attend(socket: &SocketRef, relay: &Arc<Relay>) {
    let door = Arc::new(Door::new(WaitingMax {
        events: relay.config.events_burst as usize,
        bytes: relay.config.unread_bytes_max,
    }));
    socket.extensions.insert(Arc::clone(&door));
    let (receiving, leaving) = (Arc::clone(relay), Arc::clone(relay));
    let coming = Arc::clone(&door);
    socket.on_fallback(
        move |socket: SocketRef,
              Event(name): Event,
              TryData(body): TryData<Value>,
              ack: AckSender| {
            let body = body.ok();
            match coming.pass(Call { name, body, ack }) {
                Passed::Through(call) => {
                    receiving.receive(&socket, &call.name, call.body, call.ack);
                }
                Passed::Full(call) => receiving.turn_away(&socket, &call.name, call.ack),
                Passed::Waits | Passed::Gone => {}
            }
            async {}
        },
    );
    socket.on_disconnect(move |socket: SocketRef| {
        if door.leave() {
            leaving.lost(&socket);
        }
        async {}
    });
}
