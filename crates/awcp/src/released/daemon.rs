//! The HTTP API of the released delegator's daemon, so that its programs lend through this node: `/awcp/daemon`, with a token in
//! the header, or `/awcp/daemon/TOKEN`, since those programs send none.
//!
//! Rounds of ours are delegations of their own. Here they are told as one, under the id of the first.

use std::{collections::HashMap, path::PathBuf, time::Duration};

use axum::{
    Extension, Json, Router,
    extract::{Path, RawPathParams, Request, State},
    http::StatusCode,
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use domain::delegation::{Access, Ending, Phase};
use engine::{Authenticator, Caller, Stored, Which};
use serde_json::{Value, json};
use wire::awcp::{
    ErrorCode,
    released::{self as words, DelegateRequest, DelegationRecord, ErrorAnswer},
};

use crate::{
    Create, DelegationError, Delegations, Keeping, Secrets, SnapshotStatus, clock, convert,
    delegations::RIGHT,
    peer::PeerError,
    record::{HOST_KIND, HostRecord},
};

/// Delegations that are looked through for the rounds of one.
const LOOKED_THROUGH_MAX: u32 = 10_000;

const TTL_DEFAULT: Duration = Duration::from_secs(60 * 60);

/// The word for a token in the path.
const TOKEN: &str = "token";

pub(super) fn router(delegations: Delegations, tokens: Authenticator) -> Router {
    let acts = Router::new()
        .route("/delegate", post(delegate))
        .route("/delegations", get(list))
        .route("/delegation/{id}", get(show).delete(cancel))
        .route("/delegation/{id}/continue", post(go_on))
        .route("/delegation/{id}/close", post(close))
        .route("/delegation/{id}/snapshots", get(snapshots))
        .route("/delegation/{id}/snapshots/{snapshot}/apply", post(apply))
        .route(
            "/delegation/{id}/snapshots/{snapshot}/discard",
            post(discard),
        )
        .with_state(delegations)
        .layer(from_fn_with_state(tokens, admit))
        .route("/health", get(health));
    Router::new()
        .nest("/awcp/daemon", acts.clone())
        .nest(&format!("/awcp/daemon/{{{TOKEN}}}"), acts)
}

async fn admit(
    State(tokens): State<Authenticator>,
    caller: Option<Extension<Caller>>,
    params: RawPathParams,
    request: Request,
    next: Next,
) -> Response {
    let shown = params.iter().find(|(name, _)| *name == TOKEN);
    let shown = shown.and_then(|(_, token)| tokens.check(token));
    let caller = caller.map(|Extension(caller)| caller).or(shown);
    match Delegations::permits(caller.as_ref()) {
        true => next.run(request).await,
        false => Refusal(
            StatusCode::UNAUTHORIZED,
            ErrorAnswer {
                error: "a token of this node is needed, in the header or in the path".to_owned(),
                code: Some(ErrorCode::AuthFailed),
                hint: Some(format!(
                    "`agentcraft token create NAME --right {RIGHT}` makes one"
                )),
            },
        )
        .into_response(),
    }
}

async fn health() -> Json<words::Health> {
    let status = "ok".to_owned();
    Json(words::Health { status })
}

struct Refusal(StatusCode, ErrorAnswer);

impl Refusal {
    fn new(status: StatusCode, error: impl Into<String>) -> Self {
        let answer = ErrorAnswer {
            error: error.into(),
            code: None,
            hint: None,
        };
        Self(status, answer)
    }

    fn invalid(error: &str) -> Self {
        let mut refusal = Self::new(StatusCode::BAD_REQUEST, error);
        refusal.1.code = Some(ErrorCode::WorkspaceInvalid);
        refusal
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
                return Self(
                    StatusCode::BAD_REQUEST,
                    ErrorAnswer {
                        error: failure.message.clone(),
                        code: Some(ErrorCode::from(failure.code.as_str()).in_released()),
                        hint: Some(failure.hint.clone()),
                    },
                );
            }
            DelegationError::NotFound { .. } => StatusCode::NOT_FOUND,
            DelegationError::Folder { .. }
            | DelegationError::NothingToUndo { .. }
            | DelegationError::NothingWaits { .. }
            | DelegationError::NoFurtherRound { .. }
            | DelegationError::Audit { .. }
            | DelegationError::Peer(PeerError::BadUrl { .. }) => StatusCode::BAD_REQUEST,
            DelegationError::Peer(_)
            | DelegationError::ShuttingDown
            | DelegationError::Files(_)
            | DelegationError::Engine(_)
            | DelegationError::Key(_)
            | DelegationError::Bind(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, crate::error::chain(&error))
    }
}

type Params = Path<HashMap<String, String>>;

fn id_of(params: &Params) -> String {
    params.get("id").cloned().unwrap_or_default()
}

async fn delegate(
    State(delegations): State<Delegations>,
    Json(request): Json<DelegateRequest>,
) -> Result<Json<words::DelegateAnswer>, Refusal> {
    let [resource] = request.environment.resources.as_slice() else {
        return Err(Refusal::invalid("one folder is lent at a time"));
    };
    let dir = PathBuf::from(&resource.source);
    if resource.kind != "fs" || !dir.is_absolute() {
        return Err(Refusal::invalid(
            "a resource is a folder, by its whole path",
        ));
    }
    let both = [Some(resource.mode), request.access_mode];
    let access = match both.contains(&Some(wire::awcp::Access::Ro)) {
        true => Access::Ro,
        false => Access::Rw,
    };
    let create = Create {
        peer_url: request.executor_url,
        token: request.auth.map(|auth| auth.credential.0),
        dir,
        description: Some(request.task.description),
        prompt: request.task.prompt,
        access,
        ttl: request.ttl_seconds.map_or(TTL_DEFAULT, Duration::from_secs),
        transports: Vec::new(),
        quota_bytes: None,
        secrets: Secrets::Refuse,
        keeping: match request.snapshot_mode {
            None | Some(words::SnapshotMode::Auto) => Keeping::Auto,
            Some(words::SnapshotMode::Staged) => Keeping::Staged,
            Some(words::SnapshotMode::Discard) => Keeping::Discard,
        },
        continues: None,
        trace: None,
        chain: Vec::new(),
    };
    let delegation_id = delegations.create(create).await?.to_string();
    Ok(Json(words::DelegateAnswer { delegation_id }))
}

async fn list(State(delegations): State<Delegations>) -> Result<Json<Value>, Refusal> {
    let records = delegations.lent().await?;
    let rows = records.iter().filter(|record| record.continues.is_none());
    let rows: Vec<words::DelegationRow> = rows
        .map(|record| words::DelegationRow {
            id: record.machine.id().to_string(),
            state: state(record).to_owned(),
            executor_url: record.peer_url.clone(),
            environment: environment(record),
            created_at: clock::text(record.created_at),
        })
        .collect();
    let live = records
        .iter()
        .filter(|record| !record.machine.phase().is_end());
    Ok(Json(json!({
        "activeDelegations": live.count(), "delegations": rows,
    })))
}

async fn show(
    State(delegations): State<Delegations>,
    params: Params,
) -> Result<Json<DelegationRecord>, Refusal> {
    let rounds = delegations.rounds(&id_of(&params)).await?;
    Ok(Json(told(&rounds)))
}

async fn cancel(
    State(delegations): State<Delegations>,
    params: Params,
) -> Result<Json<words::Ok>, Refusal> {
    let last = delegations.last_round(&id_of(&params)).await?;
    delegations.cancel(&last, "it was cancelled").await?;
    Ok(Json(words::Ok { ok: true }))
}

async fn go_on(
    State(delegations): State<Delegations>,
    params: Params,
    Json(request): Json<words::ContinueRequest>,
) -> Result<Json<Value>, Refusal> {
    let rounds = delegations.rounds(&id_of(&params)).await?;
    let last = delegations.last_round(&id_of(&params)).await?;
    delegations.go_on(&last, request.task.prompt).await?;
    Ok(Json(json!({ "ok": true, "round": rounds.len() + 1 })))
}

async fn close(
    State(delegations): State<Delegations>,
    params: Params,
) -> Result<Json<words::Ok>, Refusal> {
    let last = delegations.last_round(&id_of(&params)).await?;
    delegations.close(&last).await?;
    Ok(Json(words::Ok { ok: true }))
}

async fn snapshots(
    State(delegations): State<Delegations>,
    params: Params,
) -> Result<Json<Value>, Refusal> {
    let rounds = delegations.rounds(&id_of(&params)).await?;
    let all: Vec<words::Snapshot> = rounds.iter().filter_map(snapshot).collect();
    Ok(Json(json!({ "snapshots": all })))
}

async fn apply(
    State(delegations): State<Delegations>,
    params: Params,
) -> Result<Json<words::Ok>, Refusal> {
    let round = delegations.round_of_snapshot(&params).await?;
    delegations.apply_snapshot(&round).await?;
    Ok(Json(words::Ok { ok: true }))
}

async fn discard(
    State(delegations): State<Delegations>,
    params: Params,
) -> Result<Json<words::Ok>, Refusal> {
    let round = delegations.round_of_snapshot(&params).await?;
    delegations.discard_snapshot(&round).await?;
    Ok(Json(words::Ok { ok: true }))
}

impl Delegations {
    async fn lent(&self) -> Result<Vec<HostRecord>, DelegationError> {
        let records = self.node.records();
        let stored: Vec<Stored<HostRecord>> = records
            .list(HOST_KIND, Which::All, None, LOOKED_THROUGH_MAX)
            .await?;
        Ok(stored.into_iter().map(|stored| stored.value).collect())
    }

    /// A delegation and those that went on with it, in their order. There is one at least.
    async fn rounds(&self, id: &str) -> Result<Vec<HostRecord>, DelegationError> {
        let first = self.host_record(id).await?;
        // What has not ended nobody went on with.
        let mut others = match first.machine.phase().is_end() {
            true => self.lent().await?,
            false => Vec::new(),
        };
        let mut rounds = vec![first];
        while let Some(last) = rounds.last() {
            let last = last.machine.id().to_string();
            let next = others
                .iter()
                .position(|other| other.continues.as_deref() == Some(last.as_str()));
            match next {
                Some(place) => rounds.push(others.swap_remove(place)),
                None => break,
            }
        }
        Ok(rounds)
    }

    async fn last_round(&self, id: &str) -> Result<String, DelegationError> {
        let rounds = self.rounds(id).await?;
        let last = rounds.last().map(|last| last.machine.id().to_string());
        last.ok_or_else(|| DelegationError::NotFound { id: id.to_owned() })
    }

    async fn round_of_snapshot(&self, params: &Params) -> Result<String, DelegationError> {
        let wanted = params.get("snapshot").cloned().unwrap_or_default();
        let rounds = self.rounds(&id_of(params)).await?;
        let has = |record: &&HostRecord| record.snapshot.as_ref().is_some_and(|it| it.id == wanted);
        let found = rounds.iter().find(has);
        found
            .map(|record| record.machine.id().to_string())
            .ok_or(DelegationError::NotFound { id: wanted })
    }
}

/// Its clients wait for an end that they know, and an expiry is none of theirs.
fn state(record: &HostRecord) -> &'static str {
    match record.machine.phase() {
        Phase::Created => "created",
        Phase::Invited => "invited",
        Phase::Accepted => "accepted",
        Phase::Started => "started",
        Phase::Running => "running",
        Phase::Completed => "completed",
        Phase::Error | Phase::Expired => "error",
        Phase::Cancelled => "cancelled",
    }
}

fn environment(record: &HostRecord) -> words::SourceEnvironment {
    words::SourceEnvironment {
        resources: vec![words::ResourceSource {
            name: sftp::WORKSPACE.to_owned(),
            kind: "fs".to_owned(),
            source: record.dir.display().to_string(),
            mode: convert::access_word(record.machine.offer().access),
        }],
    }
}

fn task(record: &HostRecord) -> words::Task {
    words::Task {
        description: record.task.description.clone(),
        prompt: record.task.prompt.clone(),
    }
}

fn result(record: &HostRecord) -> Option<words::DelegationResult> {
    match record.machine.ending() {
        Some(Ending::Completed(report)) => Some(words::DelegationResult {
            summary: report.summary.clone(),
            highlights: Some(report.highlights.clone()),
        }),
        Some(Ending::Error(_) | Ending::Cancelled(_) | Ending::Expired(_)) | None => None,
    }
}

/// When something was last written down of it.
fn changed_at(record: &HostRecord) -> String {
    let last = record.log.last().map(|line| line.at.clone());
    last.unwrap_or_else(|| clock::text(record.created_at))
}

fn snapshot(record: &HostRecord) -> Option<words::Snapshot> {
    let snapshot = record.snapshot.as_ref()?;
    let result = result(record);
    Some(words::Snapshot {
        id: snapshot.id.clone(),
        delegation_id: record.machine.id().to_string(),
        summary: result.map(|result| result.summary).unwrap_or_default(),
        highlights: None,
        status: match snapshot.status {
            SnapshotStatus::Pending => words::SnapshotStatus::Pending,
            SnapshotStatus::Applied => words::SnapshotStatus::Applied,
            SnapshotStatus::Discarded => words::SnapshotStatus::Discarded,
        },
        local_path: None,
        metadata: None,
        recommended: Some(true),
        created_at: changed_at(record),
        applied_at: None,
    })
}

fn round((number, record): (u32, &HostRecord)) -> words::Round {
    words::Round {
        number,
        task: task(record),
        started_at: clock::text(record.created_at),
        completed_at: record.machine.phase().is_end().then(|| changed_at(record)),
        result: result(record),
    }
}

/// All rounds as one, which stands as the last of them does.
fn told(rounds: &[HostRecord]) -> DelegationRecord {
    let (first, last) = (&rounds[0], &rounds[rounds.len() - 1]);
    let offer = last.machine.offer();
    let snapshots: Vec<words::Snapshot> = rounds.iter().filter_map(snapshot).collect();
    let applied = snapshots
        .iter()
        .rfind(|it| it.status == words::SnapshotStatus::Applied);
    let agreement = last.agreement.as_ref();
    let failure = last.machine.ending().and_then(Ending::failure);
    let numbered: Vec<words::Round> = (1_u32..).zip(rounds).map(round).collect();
    DelegationRecord {
        id: first.machine.id().to_string(),
        state: state(last).to_owned(),
        peer_url: last.peer_url.clone(),
        environment: environment(last),
        export_path: None,
        task: task(last),
        lease_config: words::ProposedLease {
            ttl_seconds: offer.ttl.as_secs(),
            access_mode: convert::access_word(offer.access),
        },
        retention_ms: None,
        active_lease: last.machine.lease().map(|lease| words::Lease {
            expires_at: clock::text(lease.until),
            access_mode: convert::access_word(lease.access),
        }),
        executor_work_dir: agreement.map(|it| words::WorkDir {
            path: it.mount_point.clone(),
        }),
        executor_constraints: agreement.map(|it| words::Constraints {
            accepted_access_mode: Some(convert::access_word(it.access)),
            max_ttl_seconds: Some(it.ttl.as_secs()),
            sandbox_profile: it.sandbox.map(|sandbox| words::SandboxProfile {
                cwd_only: Some(sandbox.cwd_only),
                allow_network: Some(sandbox.allow_network),
                allow_exec: Some(sandbox.allow_exec),
            }),
        }),
        applied_snapshot_id: applied.map(|it| it.id.clone()),
        snapshots: Some(snapshots),
        snapshot_policy: Some(words::SnapshotPolicy {
            mode: match last.keeping {
                Keeping::Auto => words::SnapshotMode::Auto,
                Keeping::Staged => words::SnapshotMode::Staged,
                Keeping::Discard => words::SnapshotMode::Discard,
            },
            retention_ms: None,
            max_snapshots: None,
        }),
        result: result(last),
        error: failure.map(|failure| words::DelegationFailure {
            code: ErrorCode::from(failure.code.as_str()).in_released(),
            message: failure.message.clone(),
            hint: Some(failure.hint.clone()),
        }),
        current_round: u32::try_from(rounds.len()).ok(),
        rounds: Some(numbered),
        created_at: clock::text(first.created_at),
        updated_at: changed_at(last),
    }
}
