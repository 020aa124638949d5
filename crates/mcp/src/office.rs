//! Tools of others as an MCP server: whatever an [`engine::ToolSource`] offers, such as the computers of an office, with
//! news of every change, with progress and with cancellation; for one client on a pair of streams, or for many over HTTP.

mod names;
mod news;
mod resources;
mod shop;

use std::{sync::Arc, time::Duration};

use axum::Router;
use engine::ToolSource;
use platform::Tasks;
use rmcp::{
    ServiceExt,
    service::ServerInitializeError,
    transport::{
        async_rw::AsyncRwTransport,
        streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService},
    },
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::shop::Shop;
use crate::{
    lines::Lines,
    server::{ServeError, Watched},
    visits::Visits,
};

/// How long calls have to tell the other side that nobody waits for them any more.
const LEAVE_GRACE: Duration = Duration::from_secs(5);

/// The largest request over HTTP: what an office carries, with a frame around it.
const REQUEST_MAX: usize = 4 * 1024 * 1024;

/// What the client is told.
#[derive(Debug, Clone)]
pub struct OfficeFace {
    pub version: String,
    /// What these tools are, for the model.
    pub instructions: String,
}

/// Who may ask over HTTP, beside the token that they need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hosts {
    /// Clients that call this machine by a name of its own.
    Loopback,
    /// Clients on the network, by whatever name they know.
    Any,
}

/// Serves one client on standard input and output, until it closes the input or `stop` is cancelled.
pub async fn serve_office_stdio(
    face: OfficeFace,
    source: Arc<dyn ToolSource>,
    tasks: &Tasks,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let (reader, writer) = rmcp::transport::io::stdio_pipes();
    serve_office(face, source, (reader, writer), tasks, stop).await
}

/// Serves one client, by lines, until it closes its side or `stop` is cancelled.
pub async fn serve_office<R, W>(
    face: OfficeFace,
    source: Arc<dyn ToolSource>,
    (reader, writer): (R, W),
    tasks: &Tasks,
    stop: CancellationToken,
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let shop = Shop::new(face, source, tasks, &stop);
    let (gone, calls) = (shop.gone(), shop.calls());
    let reader = Watched {
        reader: Lines::new(reader),
        gone: gone.clone(),
    };
    let transport = AsyncRwTransport::new_server(reader, writer);
    let ended = match shop.serve_with_ct(transport, stop).await {
        Ok(running) => running
            .waiting()
            .await
            .map(|reason| info!(?reason, "the client has left"))
            .map_err(|source| ServeError::Loop { source }),
        // It left before it said anything.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            Ok(())
        }
        Err(source) => Err(ServeError::Handshake {
            source: Box::new(source),
        }),
    };
    gone.cancel();
    calls.close();
    if timeout(LEAVE_GRACE, calls.wait()).await.is_err() {
        warn!(calls = calls.len(), "left while calls were still ending");
    }
    ended
}

/// Serves clients at `/mcp` until `tasks` is cancelled. Whoever mounts it has found out that they may ask.
pub fn office_router(
    face: OfficeFace,
    source: Arc<dyn ToolSource>,
    hosts: Hosts,
    tasks: &Tasks,
) -> Router {
    let stop = tasks.stop();
    let mut http = StreamableHttpServerConfig::default()
        .with_cancellation_token(stop.clone())
        .with_max_request_body_bytes(REQUEST_MAX)
        // No page has a reason to come here.
        .enforce_origin_validation();
    if hosts == Hosts::Any {
        http = http.disable_allowed_hosts();
    }
    let room = Shop::room();
    let tasks = tasks.clone();
    let visits = Visits::new();
    let visiting = visits.clone();
    let service = StreamableHttpService::new(
        move || {
            let shop = Shop::new(face.clone(), source.clone(), &tasks, &stop);
            // The calls of all clients together are bounded, because a client may come with every call anew.
            let shop = shop.over_http(visiting.clone(), room.clone());
            Ok(shop.ending_when_dropped())
        },
        visits.manager(),
        http,
    );
    visits.watch(Router::new().route_service("/mcp", service))
}
