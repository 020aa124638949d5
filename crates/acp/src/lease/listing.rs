//! `session/list`: the sessions that the daemon keeps for this agent, over or not, and after them those that only the agent
//! knows.

use std::path::Path;

use domain::turn::EventKind;
use engine::{Expects, Thread};
use jsonrpc::ErrorObject;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::{
    error,
    face::{Face, Folder},
    line::Line,
    opening,
};
use crate::{convert, members::Members, requests::parsed};

/// Events in which the first prompt of a session is looked for: agents announce commands and modes before it.
const GLANCE_MAX: usize = 32;

/// Letters of a title.
const TITLE_MAX: usize = 80;

/// Sessions of ours in the answer; older ones are found by their id.
const LIST_MAX: usize = 100;

pub(super) async fn list(
    face: &Face,
    params: Option<&RawValue>,
) -> Result<Box<RawValue>, ErrorObject> {
    let wanted = parsed(params);
    let threads = threads(face).await?;
    let folder = folder(face, &wanted);
    let mut members = Members::read(params.map_or("{}", RawValue::get)).unwrap_or_default();
    if folder.is_none() {
        members.remove("cwd");
    }
    let passed = face
        .pass(
            "session/list",
            Some(&members.write()),
            Expects::Answer,
            Line::default().join(),
        )
        .await;
    let theirs: Value = match passed {
        Ok(answer) => serde_json::from_str(answer.get()).unwrap_or_default(),
        // An agent that keeps no list has no sessions but ours.
        Err(_) => Value::Null,
    };
    let mut sessions = Vec::new();
    if wanted["cursor"].is_null() {
        for thread in threads.iter().take(LIST_MAX) {
            if folder.is_none_or(|folder| Path::new(folder) == thread.cwd) {
                sessions.push(shown(face, thread).await);
            }
        }
    }
    let ours: Vec<&str> = threads
        .iter()
        .filter_map(|thread| thread.conversation.as_deref())
        .collect();
    let others = theirs["sessions"].as_array().cloned().unwrap_or_default();
    sessions.extend(others.into_iter().filter(|session| {
        convert::text(session, "sessionId").is_some_and(|id| !ours.contains(&id))
    }));
    let mut answer = json!({ "sessions": sessions });
    if let Some(cursor) = theirs.get("nextCursor").filter(|cursor| !cursor.is_null()) {
        answer["nextCursor"] = cursor.clone();
    }
    to_raw_value(&answer).map_err(|error| ErrorObject::internal(error.to_string()))
}

/// Every session of ours that can be loaded: those that are not over, then those that can go on.
async fn threads(face: &Face) -> Result<Vec<Thread>, ErrorObject> {
    let sessions = face.engine.sessions();
    let mut threads = sessions.threads(&face.agent);
    if !opening::may_reopen(face)? {
        return Ok(threads);
    }
    let past = sessions.past_threads(&face.agent).await;
    let mut past = past.map_err(|error| error::of_engine(&error))?;
    // A conversation that goes on in another session is that one's.
    past.retain(|past| {
        let mut going_on = threads.iter();
        !going_on.any(|thread| thread.conversation == past.conversation)
    });
    threads.extend(past);
    Ok(threads)
}

/// An editor asks for the sessions of its folder. Where sessions work in the workspace, whatever folder the editor names,
/// they belong to every folder.
fn folder<'a>(face: &Face, wanted: &'a Value) -> Option<&'a str> {
    match face.folder {
        Folder::Client => convert::text(wanted, "cwd"),
        Folder::Workspace => None,
    }
}

async fn shown(face: &Face, thread: &Thread) -> Value {
    let mut session = json!({
        "sessionId": thread.view.session_id,
        "cwd": thread.cwd.to_string_lossy(),
        "updatedAt": thread.view.last_activity_at,
    });
    if let Some(title) = title(face, &thread.view.session_id).await {
        session["title"] = title.into();
    }
    session
}

/// The beginning of the first prompt.
async fn title(face: &Face, id: &str) -> Option<String> {
    let mut reader = face.engine.sessions().events(id, 1).await.ok()?;
    for _ in 0..GLANCE_MAX {
        let event = reader.try_next().await.ok()??;
        if let EventKind::TurnStarted { prompt, .. } = &event.kind {
            let line = prompt.lines().next().unwrap_or_default();
            return Some(line.chars().take(TITLE_MAX).collect());
        }
    }
    None
}
