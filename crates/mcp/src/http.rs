//! The same server on the node's HTTP listener, which has found out by then who is asking.

use axum::{
    Extension, Router,
    extract::Request,
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use engine::Caller;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use crate::{
    server::{Config, Server},
    visits::Visits,
};

/// The right that a caller needs.
const RIGHT: &str = "mcp";

/// Serves MCP at `/mcp` until `stop` is cancelled.
pub fn router(config: Config, stop: CancellationToken) -> Router {
    let http = StreamableHttpServerConfig::default()
        .with_cancellation_token(stop.clone())
        // The listener has compared the host with the names of this node already.
        .disable_allowed_hosts();
    let visits = Visits::new();
    let visiting = visits.clone();
    let service = StreamableHttpService::new(
        move || Ok(Server::new(&config, &stop).over_http(visiting.clone())),
        visits.manager(),
        http,
    );
    visits
        .watch(Router::new().route_service("/mcp", service))
        .layer(middleware::from_fn(only_with_the_right))
}

async fn only_with_the_right(
    caller: Option<Extension<Caller>>,
    request: Request,
    next: Next,
) -> Response {
    match caller {
        Some(Extension(caller)) if caller.may(RIGHT) => next.run(request).await,
        Some(_) | None => (
            StatusCode::FORBIDDEN,
            axum::Json(serde_json::json!({
                "error": { "code": "forbidden", "message": "this token may not use MCP" }
            })),
        )
            .into_response(),
    }
}
