//! The tools of an office for many MCP clients over HTTP, each of which shows the token.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use platform::Tasks;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    args::McpOfficeArgs,
    error::CommandError,
    node::token_of,
    office::{self, Identity, OfficeTools, TOKEN_MIN, fresh_token, is_same},
    render::Screen,
};

/// Serves until told to stop.
pub(super) async fn serve(
    arguments: &McpOfficeArgs,
    address: SocketAddr,
    (face, source): (mcp::OfficeFace, Arc<OfficeTools>),
    tasks: &Tasks,
    screen: &mut Screen,
    stop: CancellationToken,
) -> Result<(), CommandError> {
    let given = token_of(arguments.client_token_file.as_deref())?;
    if given.as_ref().is_some_and(|token| token.len() < TOKEN_MIN) {
        return Err(CommandError::Refused {
            message: format!("the clients' token is shorter than {TOKEN_MIN} characters"),
            hint: "leave --client-token-file out, and one is made".to_owned(),
        });
    }
    let acceptor = match (&arguments.listen_cert, &arguments.listen_key) {
        (Some(certificate), Some(key)) => {
            let acceptor = office::acceptor(Identity { certificate, key }, None);
            Some(acceptor.map_err(|error| CommandError::machine("read the certificates", error))?)
        }
        (_, _) => None,
    };
    let attempt = |error| CommandError::machine(format!("listen on {address}"), error);
    let socket = TcpListener::bind(address).await.map_err(attempt)?;
    let address = socket.local_addr().map_err(attempt)?;
    let hosts = match address.ip().is_loopback() {
        true => mcp::Hosts::Loopback,
        false => mcp::Hosts::Any,
    };
    let scheme = if acceptor.is_some() { "https" } else { "http" };
    screen.line(&format!("MCP server at {scheme}://{address}/mcp"))?;
    let token = given.clone().unwrap_or_else(fresh_token);
    if given.is_none() {
        screen.line(&format!("token: {token}"))?;
        screen.note("clients send it as `Authorization: Bearer`; it is not shown again")?;
    }
    if acceptor.is_none() && !address.ip().is_loopback() {
        screen.warning(
            "tokens and tools travel unencrypted; --listen-cert and --listen-key encrypt them",
        )?;
    }
    let router = mcp::office_router(face, source, hosts, tasks)
        .layer(middleware::from_fn_with_state(Arc::new(token), admit));
    let connections = tasks.child();
    tasks.spawn(|stop| listener::serve_router(socket, acceptor, router, connections, stop));
    stop.cancelled().await;
    Ok(())
}

/// Lets in whoever shows the token.
async fn admit(State(token): State<Arc<String>>, request: Request, next: Next) -> Response {
    if bearer(request.headers()).is_some_and(|given| is_same(&token, given)) {
        return next.run(request).await;
    }
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    let words = "this server needs its token as `Authorization: Bearer`";
    let body = serde_json::json!({ "error": { "code": "unauthorized", "message": words } });
    (StatusCode::UNAUTHORIZED, challenge, axum::Json(body)).into_response()
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    given.strip_prefix("Bearer ").map(str::trim)
}
