//! How a delegation goes, as a stream that ends with it.

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::{Path, State},
    response::sse::{Event as Line, KeepAlive, Sse},
};
use domain::delegation::{DelegationId, Ending, Phase, Report};
use futures_util::{Stream, StreamExt, stream};
use wire::awcp::{
    ErrorCode,
    released::{Event, Progress},
};

use super::Face;
use crate::{
    DelegationView, clock, convert,
    remote::{RemoteHandle, Round},
};

/// A line that means nothing, so that nothing between us takes the silence for the end.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Where the stream is.
enum At {
    Beginning,
    /// Rounds up to this one are told.
    Waiting {
        told: u32,
    },
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
            At::Waiting { told } => go_on(&face, &id, told).await,
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
    (vec![event], At::Waiting { told: 0 })
}

/// Waits for the end, or for that of a round, and tells it with its result: also to who comes again.
async fn go_on(face: &Face, id: &str, told: u32) -> (Vec<Event>, At) {
    let Some(known) = convert::id(id) else {
        return (Vec::new(), At::Over);
    };
    if let Some(handle) = face.delegations.node.remote(&known)
        && let Some(round) = next_round(handle, told).await
    {
        let at = At::Waiting { told: round.number };
        return (round_done(face, &known, round).await, at);
    }
    let events = match face.delegations.get_taken(&known).await {
        Ok(view) => ended(face, &known, view).await,
        Err(_) => Vec::new(),
    };
    (events, At::Over)
}

/// The round after those that were told, once it is done; nothing if the delegation ends first.
async fn next_round(handle: RemoteHandle, told: u32) -> Option<Round> {
    let RemoteHandle {
        mut view, rounds, ..
    } = handle;
    let ended = async {
        let _ = view.wait_for(|view| view.state.is_end()).await; // It is gone, and so it has ended.
    };
    let Some(rounds) = rounds else {
        ended.await;
        return None;
    };
    let mut rounds = rounds.watch();
    let done = rounds.wait_for(|round| round.done.is_some() && round.number > told);
    tokio::select! { biased;
        () = ended => None,
        done = done => done.ok().map(|round| round.clone()),
    }
}

async fn round_done(face: &Face, id: &DelegationId, round: Round) -> Vec<Event> {
    let Some(report) = round.done else {
        return Vec::new(); // The next one has begun.
    };
    let (mut events, snapshot_id) = snapshot(face, id, &report).await;
    events.push(Event::RoundDone {
        delegation_id: id.to_string(),
        timestamp: now(),
        round: round.number,
        summary: report.summary,
        highlights: Some(report.highlights),
        snapshot_ids: snapshot_id.clone().map(|id| vec![id]),
        recommended_snapshot_id: snapshot_id,
    });
    events
}

/// The changed workspace as an event, with its id, if there is one.
async fn snapshot(face: &Face, id: &DelegationId, report: &Report) -> (Vec<Event>, Option<String>) {
    let Some(text) = face.result(id).await else {
        return (Vec::new(), None);
    };
    let snapshot_id = snapshot_id(id);
    let event = Event::Snapshot {
        delegation_id: id.to_string(),
        timestamp: now(),
        snapshot_id: snapshot_id.clone(),
        summary: report.summary.clone(),
        highlights: None,
        snapshot_base64: text,
        recommended: Some(true),
        metadata: None,
    };
    (vec![event], Some(snapshot_id))
}

async fn ended(face: &Face, id: &DelegationId, view: DelegationView) -> Vec<Event> {
    let name = id.to_string();
    match view.ending {
        Some(Ending::Completed(report)) => {
            let (mut events, snapshot_id) = snapshot(face, id, &report).await;
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
