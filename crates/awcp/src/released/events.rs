//! How a delegation goes, as a stream that ends with it.

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::{Path, State},
    response::sse::{Event as Line, KeepAlive, Sse},
};
use domain::delegation::{DelegationId, Ending, Phase};
use futures_util::{Stream, StreamExt, stream};
use wire::awcp::{
    ErrorCode,
    released::{Event, Progress},
};

use super::Face;
use crate::{DelegationView, clock, convert};

/// A line that means nothing, so that nothing between us takes the silence for the end.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Where the stream is.
enum At {
    Beginning,
    Waiting,
    Over,
}

pub(super) async fn events(
    State(face): State<Face>,
    Path(id): Path<String>,
) -> Sse<impl Stream<Item = Result<Line, Infallible>>> {
    let beginning = (face, id, At::Beginning);
    let told = stream::unfold(beginning, |(face, id, at)| async move {
        let (events, next) = match at {
            At::Beginning => begin(&face, &id).await,
            At::Waiting => (end(&face, &id).await, At::Over),
            At::Over => return None,
        };
        Some((stream::iter(events), (face, id, next)))
    });
    let lines = told.flatten().map(|event| {
        let text = serde_json::to_string(&event).unwrap_or_default();
        Ok(Line::default().data(text))
    });
    Sse::new(lines).keep_alive(KeepAlive::new().interval(KEEPALIVE).text("keepalive"))
}

async fn begin(face: &Face, id: &str) -> (Vec<Event>, At) {
    if face.record(id).await.is_none() {
        let event = Event::Error {
            delegation_id: id.to_owned(),
            timestamp: now(),
            code: ErrorCode::NotFound,
            message: "there is no delegation of that id here".to_owned(),
            hint: None,
        };
        return (vec![event], At::Over);
    }
    let event = Event::Status {
        delegation_id: id.to_owned(),
        timestamp: now(),
        status: Progress::Running,
        message: None,
        progress: None,
    };
    (vec![event], At::Waiting)
}

/// Waits for the end, and tells it with its result: also to who comes again.
async fn end(face: &Face, id: &str) -> Vec<Event> {
    let Some(known) = convert::id(id) else {
        return Vec::new();
    };
    if let Some(mut handle) = face.delegations.node.remote(&known) {
        let _ = handle.view.wait_for(|view| view.state.is_end()).await; // It is gone, and so it has ended.
    }
    let Ok(view) = face.delegations.get_taken(&known).await else {
        return Vec::new();
    };
    told(face, &known, view).await
}

async fn told(face: &Face, id: &DelegationId, view: DelegationView) -> Vec<Event> {
    let name = id.to_string();
    match view.ending {
        Some(Ending::Completed(report)) => {
            let mut events = Vec::new();
            let snapshot = face.result(id).await;
            let snapshot_id = snapshot.as_ref().map(|_| snapshot_id(id));
            if let (Some(text), Some(snapshot_id)) = (snapshot, snapshot_id.clone()) {
                events.push(Event::Snapshot {
                    delegation_id: name.clone(),
                    timestamp: now(),
                    snapshot_id,
                    summary: report.summary.clone(),
                    highlights: None,
                    snapshot_base64: text,
                    recommended: Some(true),
                    metadata: None,
                });
            }
            events.push(Event::Done {
                delegation_id: name,
                timestamp: now(),
                summary: report.summary,
                highlights: Some(report.highlights),
                snapshot_ids: snapshot_id.clone().map(|id| vec![id]),
                recommended_snapshot_id: snapshot_id,
            });
            events
        }
        Some(Ending::Error(failure) | Ending::Cancelled(failure) | Ending::Expired(failure)) => {
            vec![Event::Error {
                delegation_id: name,
                timestamp: now(),
                code: ErrorCode::from(failure.code.as_str()).in_released(),
                message: failure.message,
                hint: Some(failure.hint),
            }]
        }
        None => {
            debug_assert!(view.state != Phase::Completed, "an end says how");
            Vec::new()
        }
    }
}

/// The same each time it is told.
pub(super) fn snapshot_id(id: &DelegationId) -> String {
    let name = id.to_string();
    let digits: String = name.chars().filter(char::is_ascii_hexdigit).collect();
    format!("snap_{:0>12}", &digits[digits.len().saturating_sub(12)..])
}

pub(super) fn now() -> String {
    clock::text(clock::now())
}
