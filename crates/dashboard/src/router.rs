//! The paths of the page and of its API, behind one right.

use std::{fmt, sync::Arc};

use axum::{
    Extension, Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{delete, get, post},
};
use engine::{Caller, Engine, Records};
use platform::Tasks;
use serde_json::{Value, json};

use crate::{
    agents,
    answer::{Answer, Refused, json_of},
    glance::{self, Around},
    journal, page, records,
    sent::Sent,
    sessions, stream,
    watchers::Watchers,
};

/// The right that a caller needs; the owner has it.
pub(crate) const RIGHT: &str = "dashboard";

/// What the page needs.
#[derive(Debug, Clone)]
pub struct Config {
    pub engine: Engine,
    /// Where runs of workflows are kept.
    pub runs: Records,
    pub workflows: Workflows,
    pub around: Around,
    pub version: String,
    /// What the node is called.
    pub name: String,
    /// Streams end when they are cancelled.
    pub tasks: Tasks,
}

/// Every workflow that can be run here, as JSON: name, description, inputs, steps and graph.
#[derive(Clone)]
pub struct Workflows(Arc<dyn Fn() -> Vec<Value> + Send + Sync>);

impl Workflows {
    pub fn new(list: impl Fn() -> Vec<Value> + Send + Sync + 'static) -> Self {
        Self(Arc::new(list))
    }

    pub(crate) fn list(&self) -> Vec<Value> {
        (self.0)()
    }
}

impl fmt::Debug for Workflows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Workflows")
    }
}

/// The page at `/`, its files below `/assets`, its API below `/api`.
pub fn router(config: Config) -> Router {
    let watchers = Watchers::new(config.engine.sessions().clone(), config.tasks.clone());
    let sent = Sent::new(config.tasks.clone());
    let state = Arc::new(config);
    Router::new()
        .route("/", get(page::index))
        .route("/assets/{*path}", get(page::file))
        .route("/api/overview", get(overview))
        .route("/api/glance", get(glance::look))
        .route("/api/agents", get(agents::list).post(agents::create))
        .route("/api/agents/{name}", delete(agents::destroy))
        .route("/api/agents/{name}/{act}", post(agents::act))
        .route("/api/templates", get(agents::templates))
        .route("/api/workflows", get(workflows))
        .route("/api/sessions", get(sessions::list).post(sessions::create))
        .route(
            "/api/sessions/{id}",
            get(sessions::look).delete(sessions::close),
        )
        .route("/api/sessions/{id}/prompt", post(sessions::prompt))
        .route("/api/sessions/{id}/cancel", post(sessions::cancel))
        .route("/api/sessions/{id}/waiting", get(sessions::waiting))
        .route(
            "/api/sessions/{id}/turns/{turn}",
            delete(sessions::take_back),
        )
        .route("/api/sessions/{id}/asks/{ask}", post(sessions::answer))
        .route("/api/asks", get(sessions::asks))
        .route("/api/journal", get(journal::search))
        .route("/api/usage", get(journal::usage))
        .route("/api/records/{kind}", get(records::list))
        .route("/api/stream", get(stream::follow))
        .layer(Extension(watchers))
        .layer(Extension(sent))
        .layer(Extension(stream::Daemon::now()))
        .layer(middleware::from_fn(only_with_the_right))
        .with_state(state)
}

/// Kinds of agents without a process of their own: they are ready as they are, and never run.
const WITHOUT_PROCESS: [&str; 6] = [
    "workflow",
    "peer",
    "delegation",
    "a2a",
    "openai-compatible",
    "command",
];

async fn overview(State(config): State<Arc<Config>>) -> Answer {
    let agents = config.engine.agents();
    let runnable = agents
        .iter()
        .filter(|agent| !WITHOUT_PROCESS.contains(&agent.backend_type.as_str()));
    let sessions = config.engine.sessions().list(None);
    json_of(&json!({
        "name": config.name,
        "version": config.version,
        "agents": agents.len(),
        "runnable": runnable.count(),
        "running": agents.iter().filter(|agent| agent.status == "running").count(),
        "sessions": sessions.len(),
        "busy": sessions.iter().filter(|session| session.busy).count(),
        "asks": sessions.iter().map(|session| session.asks).sum::<usize>(),
    }))
}

async fn workflows(State(config): State<Arc<Config>>) -> Answer {
    let workflows = config.workflows.clone();
    let listed = tokio::task::spawn_blocking(move || workflows.list()).await;
    json_of(&listed.unwrap_or_default())
}

pub(crate) async fn only_with_the_right(
    caller: Option<Extension<Caller>>,
    request: Request,
    next: Next,
) -> Response {
    match caller {
        Some(Extension(caller)) if caller.may(RIGHT) => next.run(request).await,
        Some(_) | None => Refused::forbidden().into_response(),
    }
}
