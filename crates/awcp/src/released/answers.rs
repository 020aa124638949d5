//! The smaller questions of that dialect: how it stands, the result, that it was received, an end.

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use domain::delegation::{Access, Ending, RemoteInput};
use engine::Caller;
use platform::files;
use wire::awcp::{
    ErrorCode,
    released::{
        CancelAnswer, DelegationFailure, Ok as Done, ResultAnswer, ResultStatus, StatusAnswer,
    },
};

use super::Face;
use crate::Side;

/// How many there are. Which ones is nobody's business: an id is the key to its delegation.
pub(super) async fn status(
    State(face): State<Face>,
    caller: Option<Extension<Caller>>,
) -> Json<StatusAnswer> {
    let is_known = caller.is_some();
    let views = match is_known {
        true => face.delegations.list().await.unwrap_or_default(),
        false => Vec::new(),
    };
    let taken = views.iter().filter(|view| view.side == Side::Remote);
    let (mut pending, mut active, mut completed) = (0, 0, 0);
    for view in taken {
        match (view.state.is_end(), view.expires_at.is_some()) {
            (true, _) => completed += 1,
            (false, true) => active += 1,
            (false, false) => pending += 1,
        }
    }
    Json(StatusAnswer {
        pending_invitations: pending,
        active_delegations: active,
        completed_delegations: completed,
        delegations: Vec::new(),
    })
}

pub(super) async fn cancel(State(face): State<Face>, Path(id): Path<String>) -> Response {
    let Some(record) = face.record(&id).await else {
        return not_found().into_response();
    };
    let reason = "the delegator cancelled it".to_owned();
    let known = record.machine.id().clone();
    let cancelled = face.tell(&known, RemoteInput::Cancel { reason }).await;
    Json(CancelAnswer {
        ok: true,
        cancelled,
    })
    .into_response()
}

pub(super) async fn ack(State(face): State<Face>, Path(id): Path<String>) -> Response {
    let Some(record) = face.record(&id).await else {
        return not_found().into_response();
    };
    let known = record.machine.id().clone();
    if record.machine.phase().is_end() {
        face.tell(&known, RemoteInput::Told).await;
        let file = face
            .delegations
            .node
            .results_root()
            .join(format!("{known}.zip"));
        let removing = face
            .delegations
            .node
            .tasks()
            .spawn_blocking(move |_| files::remove_file_if_there(&file));
        if let Ok(Err(error)) = removing.await {
            tracing::warn!(%id, %error, "could not remove a result that was received");
        }
    }
    Json(Done { ok: true }).into_response()
}

pub(super) async fn result(State(face): State<Face>, Path(id): Path<String>) -> Response {
    let Some(record) = face.record(&id).await else {
        return not_found().into_response();
    };
    let known = record.machine.id();
    let empty = ResultAnswer {
        status: ResultStatus::Running,
        completed_at: None,
        summary: None,
        highlights: None,
        snapshot_base64: None,
        error: None,
        reason: None,
    };
    let snapshot = face.result(known).await;
    let (offered, allowed) = (
        record.machine.offer().access,
        face.delegations.node.config().access_max,
    );
    let brings = (offered, allowed) == (Access::Rw, Access::Rw);
    let idle = face.idle_round(known);
    let answer = match record.machine.ending() {
        None => match idle {
            None => empty,
            // As it is after the last round that is done.
            Some(report) => ResultAnswer {
                status: ResultStatus::Completed,
                summary: Some(report.summary),
                highlights: Some(report.highlights),
                snapshot_base64: snapshot,
                ..empty
            },
        },
        // Without what was changed it would say that nothing was.
        Some(Ending::Completed(_)) if brings && snapshot.is_none() => {
            return not_found().into_response();
        }
        Some(Ending::Completed(report)) => ResultAnswer {
            status: ResultStatus::Completed,
            summary: Some(report.summary.clone()),
            highlights: Some(report.highlights.clone()),
            snapshot_base64: snapshot,
            ..empty
        },
        Some(Ending::Error(failure) | Ending::Cancelled(failure) | Ending::Expired(failure)) => {
            ResultAnswer {
                status: ResultStatus::Error,
                error: Some(DelegationFailure {
                    code: ErrorCode::from(failure.code.as_str()).in_released(),
                    message: failure.message.clone(),
                    hint: Some(failure.hint.clone()),
                }),
                ..empty
            }
        }
    };
    Json(answer).into_response()
}

/// Nothing is said about what else there is.
fn not_found() -> (StatusCode, Json<ResultAnswer>) {
    let answer = ResultAnswer {
        status: ResultStatus::NotFound,
        completed_at: None,
        summary: None,
        highlights: None,
        snapshot_base64: None,
        error: None,
        reason: None,
    };
    (StatusCode::NOT_FOUND, Json(answer))
}
