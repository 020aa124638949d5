//! The HTTP face: the archive plane and the way home for remotes, and the daemon's own API for commands.

use std::time::Duration;

use axum::{
    Extension, Json, Router,
    body::Body,
    extract::{DefaultBodyLimit, Path, Query, Request, State},
    http::{HeaderMap, StatusCode, header::AUTHORIZATION},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use domain::delegation::{Access, DelegationId, HostInput};
use engine::Caller;
use futures_util::TryStreamExt;
use serde::Deserialize;
use serde_json::{Value, json};
use wire::awcp::seed::Message;

use crate::{
    CreateRequest, DelegationError, Delegations,
    asker::Asker,
    convert,
    host::{ARCHIVE, BUNDLE, DELTA, HostEvent, HostHandle},
    peer::PeerError,
    spool::{self, SpoolError},
};

/// A message of a remote: a summary and some highlights.
const MESSAGE_MAX: usize = 4 * 1024 * 1024;

/// How long a wait may hold a connection; whoever wants longer asks again.
const WAIT_MAX: Duration = Duration::from_secs(10 * 60);
const WAIT_DEFAULT: Duration = Duration::from_secs(60);

/// For how long a wait is answered that may be this long.
pub fn wait_limit(wanted: Option<Duration>) -> Duration {
    wanted.unwrap_or(WAIT_DEFAULT).min(WAIT_MAX)
}

/// Everything, for a node whose listener puts a [`Caller`] on each request. What [`peer_router`] serves needs none.
pub fn router(delegations: Delegations) -> Router {
    peer_router(delegations.clone()).merge(owner_router(delegations))
}

/// What remotes reach with the secret of their delegation, and nobody with anything else.
pub fn peer_router(delegations: Delegations) -> Router {
    Router::new()
        .route("/awcp/{id}/archive", get(archive))
        .route(
            "/awcp/{id}/delta",
            post(delta).layer(DefaultBodyLimit::disable()),
        )
        .route(
            "/awcp/{id}/message",
            post(message).layer(DefaultBodyLimit::max(MESSAGE_MAX)),
        )
        .with_state(delegations)
}

/// What callers with the right to delegations may do.
pub fn owner_router(delegations: Delegations) -> Router {
    Router::new()
        .route("/delegations", post(create).get(list))
        .route("/delegations/prune", post(prune))
        .route("/delegations/{id}", get(status))
        .route("/delegations/{id}/wait", get(wait))
        .route("/delegations/{id}/audit", get(audit))
        .route("/delegations/{id}/cancel", post(cancel))
        .route("/delegations/{id}/undo", post(undo))
        .route("/delegations/{id}/snapshots", get(snapshots))
        .route("/delegations/{id}/apply", post(apply))
        .route("/delegations/{id}/discard", post(discard))
        .route("/delegations/{id}/continue", post(go_on))
        .route("/delegations/{id}/close", post(close))
        .with_state(delegations)
}

/// A refusal: a status and words.
struct Refusal(StatusCode, Value);

impl Refusal {
    fn new(status: StatusCode, words: impl Into<String>) -> Self {
        Self(status, json!({ "error": words.into() }))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(self.1)).into_response()
    }
}

impl From<DelegationError> for Refusal {
    fn from(error: DelegationError) -> Self {
        let status = match &error {
            DelegationError::Refused(failure) => {
                let body = json!({
                    "error": failure.message, "code": failure.code.as_str(), "hint": failure.hint,
                });
                return Self(StatusCode::UNPROCESSABLE_ENTITY, body);
            }
            DelegationError::NotFound { .. } => StatusCode::NOT_FOUND,
            DelegationError::Folder { .. } => StatusCode::BAD_REQUEST,
            DelegationError::NothingToUndo { .. }
            | DelegationError::NothingWaits { .. }
            | DelegationError::NoFurtherRound { .. }
            | DelegationError::Audit { .. } => StatusCode::CONFLICT,
            DelegationError::Peer(PeerError::BadUrl { .. }) => StatusCode::BAD_REQUEST,
            DelegationError::Peer(_) => StatusCode::BAD_GATEWAY,
            DelegationError::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
            DelegationError::Files(_)
            | DelegationError::Engine(_)
            | DelegationError::Key(_)
            | DelegationError::Bind(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, crate::error::chain(&error))
    }
}

type Answer = Result<Json<Value>, Refusal>;

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    value.strip_prefix("Bearer ")
}

/// The delegation whose secret was shown. A wrong secret and a wrong id look the same.
fn admitted(
    delegations: &Delegations,
    id: &str,
    headers: &HeaderMap,
) -> Result<(DelegationId, HostHandle), Refusal> {
    let found = convert::id(id).and_then(|id| {
        let handle = delegations.node.host(&id)?;
        let is_known = handle.gate.knows(bearer(headers)?);
        is_known.then_some((id, handle))
    });
    let words = "the credential serves no lease";
    found.ok_or_else(|| Refusal::new(StatusCode::UNAUTHORIZED, words))
}

/// What is shut for good, or is not open yet after a restart: its remote asks again.
fn closed(handle: &HostHandle) -> Refusal {
    match handle.view.borrow().state.is_end() {
        true => Refusal::new(StatusCode::FORBIDDEN, "the lease is over"),
        false => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the host is coming up"),
    }
}

async fn archive(
    State(delegations): State<Delegations>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let (id, handle) = admitted(&delegations, &id, &headers)?;
    let over = || closed(&handle);
    let ends = {
        let gate = handle.gate.lock();
        gate.open.ok_or_else(over)?;
        gate.over.clone()
    };
    let folder = delegations.node.export_folder(&id);
    let packed = spool::open(&folder, ARCHIVE).or_else(|_| spool::open(&folder, BUNDLE));
    let file = packed.map_err(|_| over())?;
    let began = HostEvent::Input(HostInput::Began);
    let _ = handle.inputs.send(began).await; // It has ended meanwhile.
    let pieces = spool::pieces(file, delegations.node.tasks().clone());
    let pieces = spool::until(pieces, ends);
    Ok(Body::from_stream(pieces).into_response())
}

async fn delta(
    State(delegations): State<Delegations>,
    Path(id): Path<String>,
    headers: HeaderMap,
    request: Request,
) -> Answer {
    let (id, handle) = admitted(&delegations, &id, &headers)?;
    let (open, max, ends) = {
        let gate = handle.gate.lock();
        (gate.open, gate.delta_max, gate.over.clone())
    };
    match open {
        Some(Access::Rw) => {}
        Some(Access::Ro) => {
            let words = "the workspace is lent for reading, and changes are refused";
            return Err(Refusal::new(StatusCode::FORBIDDEN, words));
        }
        None => return Err(closed(&handle)),
    }
    let node = &delegations.node;
    let pieces = request.into_body().into_data_stream();
    // Whole under another name first: half of a delta is none.
    let folder = node.export_folder(&id);
    let name = format!("{DELTA}.{}", uuid::Uuid::new_v4().simple());
    let pieces = spool::until(pieces.map_err(std::io::Error::other), ends);
    let kept = spool::keep(&folder, &name, pieces, max, node.tasks()).await;
    kept.map_err(|error| {
        let status = match error {
            SpoolError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            SpoolError::Lost { .. } => StatusCode::BAD_REQUEST,
            SpoolError::Keep(_) | SpoolError::Write(_) | SpoolError::ShuttingDown => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        let words = format!(
            "the changes were not taken: {}",
            crate::error::chain(&error)
        );
        Refusal::new(status, words)
    })?;
    let replacing = node
        .tasks()
        .spawn_blocking(move |_| spool::replace(&folder, &name, DELTA));
    let failed = |words: String| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, words);
    let replaced = replacing
        .await
        .map_err(|_| failed("the node is shutting down".to_owned()))?;
    replaced.map_err(|error| failed(crate::error::chain(&error)))?;
    Ok(Json(json!({ "ok": true })))
}

async fn message(
    State(delegations): State<Delegations>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(data): Json<Value>,
) -> Answer {
    let refuse = |words: String| Refusal::new(StatusCode::BAD_REQUEST, words);
    let message = Message::from_data(&data).map_err(|error| refuse(error.to_string()))?;
    let known = convert::id(&id).filter(|id| id.to_string() == message.delegation_id());
    let known =
        known.ok_or_else(|| refuse("the message is about another delegation".to_owned()))?;
    let said = delegations
        .remote_says(&known, message, bearer(&headers), false)
        .await;
    let failed = |failure: domain::delegation::Failure| {
        Refusal::new(StatusCode::UNAUTHORIZED, failure.message)
    };
    said.map(Json).map_err(failed)
}

fn allow(caller: Option<Extension<Caller>>) -> Result<(), Refusal> {
    let caller = caller.map(|Extension(caller)| caller);
    match Delegations::permits(caller.as_ref()) {
        true => Ok(()),
        false => Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "this needs the right to delegations",
        )),
    }
}

async fn create(
    State(delegations): State<Delegations>,
    caller: Option<Extension<Caller>>,
    Json(request): Json<CreateRequest>,
) -> Answer {
    allow(caller)?;
    if !request.dir.is_absolute() {
        let words = "`dir` is an absolute path";
        return Err(Refusal::new(StatusCode::BAD_REQUEST, words));
    }
    if request.background {
        let id = delegations.create(request.into()).await?;
        return Ok(Json(json!(delegations.get(&id.to_string()).await?)));
    }
    let asker = Asker::ask(&delegations, request.into()).await?;
    let view = delegations.wait(asker.id(), WAIT_MAX).await;
    asker.was_answered();
    Ok(Json(json!(view?)))
}

async fn list(State(delegations): State<Delegations>, caller: Option<Extension<Caller>>) -> Answer {
    allow(caller)?;
    Ok(Json(json!({ "delegations": delegations.list().await? })))
}

async fn status(
    State(delegations): State<Delegations>,
    caller: Option<Extension<Caller>>,
    Path(id): Path<String>,
) -> Answer {
    allow(caller)?;
    Ok(Json(json!(delegations.get(&id).await?)))
}

#[derive(Deserialize)]
struct WaitQuery {
    /// In seconds.
    timeout: Option<u64>,
    /// Answer too when the log has more lines than that.
    beyond: Option<usize>,
    /// It is the asker's own: one that leaves while it waits for its folder takes it back.
    #[serde(default)]
    own: bool,
}

async fn wait(
    State(delegations): State<Delegations>,
    caller: Option<Extension<Caller>>,
    Path(id): Path<String>,
    Query(query): Query<WaitQuery>,
) -> Answer {
    allow(caller)?;
    let limit = wait_limit(query.timeout.map(Duration::from_secs));
    let asker = query.own.then(|| Asker::of(&delegations, &id));
    let view = match query.beyond {
        None => delegations.wait(&id, limit).await,
        Some(lines) => delegations.wait_beyond(&id, lines, limit).await,
    };
    if let Some(asker) = asker {
        asker.was_answered();
    }
    Ok(Json(json!(view?)))
}

async fn audit(
    State(delegations): State<Delegations>,
    caller: Option<Extension<Caller>>,
    Path(id): Path<String>,
) -> Answer {
    allow(caller)?;
    Ok(Json(json!(delegations.audit(&id).await?)))
}

async fn cancel(
    State(delegations): State<Delegations>,
    caller: Option<Extension<Caller>>,
    Path(id): Path<String>,
) -> Answer {
    allow(caller)?;
    let view = delegations.cancel(&id, "it was cancelled").await?;
    Ok(Json(json!(view)))
}

async fn undo(
    State(delegations): State<Delegations>,
    caller: Option<Extension<Caller>>,
    Path(id): Path<String>,
) -> Answer {
    allow(caller)?;
    delegations.undo(&id).await?;
    Ok(Json(json!({ "ok": true })))
}

async fn prune(
    State(delegations): State<Delegations>,
    caller: Option<Extension<Caller>>,
) -> Answer {
    allow(caller)?;
    let removed = delegations.prune().await?;
    Ok(Json(json!({ "removed": removed })))
}

async fn snapshots(
    State(delegations): State<Delegations>,
    caller: Option<Extension<Caller>>,
    Path(id): Path<String>,
) -> Answer {
    allow(caller)?;
    Ok(Json(
        json!({ "snapshots": delegations.snapshots(&id).await? }),
    ))
}

async fn apply(
    State(delegations): State<Delegations>,
    caller: Option<Extension<Caller>>,
    Path(id): Path<String>,
) -> Answer {
    allow(caller)?;
    Ok(Json(json!(delegations.apply_snapshot(&id).await?)))
}

async fn discard(
    State(delegations): State<Delegations>,
    caller: Option<Extension<Caller>>,
    Path(id): Path<String>,
) -> Answer {
    allow(caller)?;
    Ok(Json(json!(delegations.discard_snapshot(&id).await?)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContinueBody {
    prompt: String,
}

async fn go_on(
    State(delegations): State<Delegations>,
    caller: Option<Extension<Caller>>,
    Path(id): Path<String>,
    Json(body): Json<ContinueBody>,
) -> Answer {
    allow(caller)?;
    let next = delegations.go_on(&id, body.prompt).await?.to_string();
    Ok(Json(json!(delegations.get(&next).await?)))
}

async fn close(
    State(delegations): State<Delegations>,
    caller: Option<Extension<Caller>>,
    Path(id): Path<String>,
) -> Answer {
    allow(caller)?;
    Ok(Json(json!(delegations.close(&id).await?)))
}
