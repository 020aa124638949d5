//! The addresses of the face. `-` in the place of an agent is the node, which passes a message to the agent it names.
//!
//! | address | what |
//! |---|---|
//! | `/.well-known/agent-card.json`, `/.well-known/agent.json` | the card of the node, for clients of both versions |
//! | `/a2a/AGENT/.well-known/agent-card.json` | the card of an agent, for clients of both versions |
//! | `/a2a/1.0/AGENT/.well-known/agent-card.json` | the same, strictly of 1.0; so is any card asked for with `A2A-Version: 1.0` |
//! | `GET` and `POST` at `/a2a/AGENT`, `/a2a/1.0/AGENT` | the card again, and JSON-RPC |
//! | `/a2a/AGENT/message:send`, `/a2a/AGENT/tasks`, … | HTTP+JSON; with `v1/` before the operation as 0.3 has it |

use std::sync::Arc;

use axum::{
    Router,
    extract::{Path, Request, State},
    http::{HeaderValue, Method, StatusCode},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use engine::{Caller, Engine, EngineError};
use platform::Tasks;
use wire::a2a::{CARD_PATHS, EXTENSION_HEADERS, VERSION_HEADER};

use crate::{A2aConfig, card::Shape, config::Extensions, face::Face, request::Target, rest, rpc};

/// The A2A face of a node. Whoever mounts it puts a `Caller` into the extensions of each request; without one only cards are
/// given. What the last daemon left is taken up before this returns.
pub async fn router(
    config: A2aConfig,
    engine: Engine,
    tasks: Tasks,
    extensions: Extensions,
) -> Result<Router, EngineError> {
    let face = Face::new(config, engine, tasks, extensions);
    face.take_up().await?;
    Ok(routes(face))
}

/// Whether a card is read at this path: cards are for everybody, and say more to those who bring a token.
pub fn is_card_path(path: &str) -> bool {
    let place = CARD_PATHS.iter().find_map(|card| path.strip_suffix(card));
    if place == Some("") {
        return true;
    }
    let place = place.unwrap_or(path.strip_suffix('/').unwrap_or(path));
    match place.strip_prefix("/a2a") {
        None => false,
        Some("") => true,
        Some(below) => {
            let below = below.strip_prefix("/1.0").unwrap_or(below);
            below.is_empty() || below.strip_prefix('/').is_some_and(|it| !it.contains('/'))
        }
    }
}

pub(crate) fn routes(face: Arc<Face>) -> Router {
    let mut router = Router::new()
        .route("/a2a", post(node_rpc).get(node_card))
        .route("/a2a/", post(node_rpc).get(node_card))
        .route("/a2a/{agent}", post(agent_rpc).get(agent_card))
        .route("/a2a/{agent}/", post(agent_rpc).get(agent_card))
        .route("/a2a/1.0", post(node_rpc).get(strict_node_card))
        .route("/a2a/1.0/", post(node_rpc).get(strict_node_card))
        .route("/a2a/1.0/{agent}", post(agent_rpc).get(strict_card))
        .route("/a2a/1.0/{agent}/", post(agent_rpc).get(strict_card))
        .route("/a2a/{agent}/{*path}", any(agent_rest))
        .route("/a2a/1.0/{agent}/{*path}", any(strict_rest));
    for path in CARD_PATHS {
        router = router.route(path, get(node_card));
    }
    let around = middleware::from_fn_with_state(face.clone(), around);
    router.layer(around).with_state(face)
}

async fn node_card(State(face): State<Arc<Face>>, request: Request) -> Response {
    card(&face, &Target::Node, Shape::Both, &request)
}

async fn strict_node_card(State(face): State<Arc<Face>>, request: Request) -> Response {
    card(&face, &Target::Node, Shape::Strict, &request)
}

async fn agent_card(
    State(face): State<Arc<Face>>,
    Path(agent): Path<String>,
    request: Request,
) -> Response {
    let target = target(&face, &agent, caller(&request)).await;
    card(&face, &target, Shape::Both, &request)
}

async fn strict_card(
    State(face): State<Arc<Face>>,
    Path(agent): Path<String>,
    request: Request,
) -> Response {
    let target = target(&face, &agent, caller(&request)).await;
    card(&face, &target, Shape::Strict, &request)
}

/// Whom a part of the path means: the node, or an agent by its name or by what it is made of.
async fn target(face: &Face, said: &str, caller: Option<Caller>) -> Target {
    match (Target::of(Some(said)), caller) {
        (Target::Agent(said), Some(caller)) => {
            let called = face.called(said.clone(), &caller).await;
            // Who cannot be made is told as nobody by whatever the path is of.
            Target::Agent(called.unwrap_or(said))
        }
        (target, _) => target,
    }
}

fn caller(request: &Request) -> Option<Caller> {
    request.extensions().get::<Caller>().cloned()
}

fn card(face: &Face, target: &Target, shape: Shape, request: &Request) -> Response {
    let caller = request.extensions().get::<Caller>();
    face.card_response(request.headers(), target, shape, caller)
}

async fn node_rpc(State(face): State<Arc<Face>>, request: Request) -> Response {
    rpc::serve(face, Target::Node, request).await
}

async fn agent_rpc(
    State(face): State<Arc<Face>>,
    Path(agent): Path<String>,
    request: Request,
) -> Response {
    let target = target(&face, &agent, caller(&request)).await;
    rpc::serve(face, target, request).await
}

async fn agent_rest(
    State(face): State<Arc<Face>>,
    Path((agent, _)): Path<(String, String)>,
    request: Request,
) -> Response {
    below(face, &agent, Shape::Both, request).await
}

async fn strict_rest(
    State(face): State<Arc<Face>>,
    Path((agent, _)): Path<(String, String)>,
    request: Request,
) -> Response {
    below(face, &agent, Shape::Strict, request).await
}

/// Everything below the address of an agent: its card, or an operation.
async fn below(face: Arc<Face>, agent: &str, shape: Shape, request: Request) -> Response {
    let target = target(&face, agent, caller(&request)).await;
    let base = match shape {
        Shape::Both => "/a2a/",
        Shape::Strict => "/a2a/1.0/",
    };
    // As it was written: an id may have a slash in it, which is not one of the path's.
    let path = request.uri().path().strip_prefix(base).unwrap_or_default();
    let path = path.split_once('/').map_or("", |(_, path)| path).to_owned();
    if CARD_PATHS
        .iter()
        .any(|card| card.strip_prefix('/') == Some(path.as_str()))
    {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return StatusCode::METHOD_NOT_ALLOWED.into_response();
        }
        return card(&face, &target, shape, &request);
    }
    rest::serve(face, target, &path, request).await
}

/// Finds the version where the query names it, and tells the client which of the extensions it named are in use.
async fn around(State(face): State<Arc<Face>>, mut request: Request, next: Next) -> Response {
    if let Some(version) = rest::version_in_query(request.uri().query().unwrap_or_default())
        && !request.headers().contains_key(VERSION_HEADER)
    {
        request.headers_mut().insert(VERSION_HEADER, version);
    }
    let granted = face.granted(request.headers());
    let mut response = next.run(request).await;
    if let Some(Ok(value)) = granted.map(|granted| HeaderValue::from_str(&granted)) {
        for name in EXTENSION_HEADERS {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_known_by_their_path() {
        for (path, is_card) in [
            ("/.well-known/agent-card.json", true),
            ("/.well-known/agent.json", true),
            ("/a2a/news/.well-known/agent-card.json", true),
            ("/a2a/1.0/-/.well-known/agent-card.json", true),
            ("/runs/.well-known/agent-card.json", false),
            ("/a2a", true),
            ("/a2a/news", true),
            ("/a2a/1.0/news/", true),
            ("/a2abc", false),
            ("/a2a/news/tasks", false),
            ("/a2a/1.0/news/extendedAgentCard", false),
            ("/a2a/news/x/.well-known/agent-card.json", false),
        ] {
            assert_eq!(is_card_path(path), is_card, "{path}");
        }
    }
}
