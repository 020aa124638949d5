//! `session/list`: the sessions that the daemon keeps for this agent, over or not, and after them those that only the agent
//! knows.

use std::{collections::BTreeSet, path::Path};

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

/// Sessions of ours in one page.
const PAGE: usize = 100;

/// What a cursor of ours begins with; the rest says how many sessions came before. Any other one is the agent's.
const CURSOR: &str = "agentcraft:";

pub(super) async fn list(
    face: &Face,
    params: Option<&RawValue>,
) -> Result<Box<RawValue>, ErrorObject> {
    let wanted = parsed(params);
    let from = ours_from(&wanted["cursor"])?;
    let threads = threads(face).await?;
    let folder = folder(face, &wanted);
    let is_wanted = |thread: &&Thread| folder.is_none_or(|it| Path::new(it) == thread.cwd);
    let mut ours = threads.iter().filter(is_wanted);
    let mut sessions = Vec::new();
    if let Some(from) = from {
        for thread in ours.by_ref().skip(from).take(PAGE) {
            sessions.push(shown(face, thread).await);
        }
        if ours.next().is_some() {
            let next = format!("{CURSOR}{}", from.saturating_add(PAGE));
            return answer(&json!({ "sessions": sessions, "nextCursor": next }));
        }
    }
    let mut members = Members::read(params.map_or("{}", RawValue::get)).unwrap_or_default();
    if folder.is_none() {
        members.remove("cwd");
    }
    if from.is_some() {
        members.remove("cursor");
    }
    let theirs = theirs(face, &members).await;
    let known: BTreeSet<&str> = threads
        .iter()
        .filter_map(|thread| thread.conversation.as_deref())
        .collect();
    let others = theirs["sessions"].as_array().cloned().unwrap_or_default();
    sessions.extend(others.into_iter().filter(|session| {
        convert::text(session, "sessionId").is_some_and(|id| !known.contains(id))
    }));
    let mut page = json!({ "sessions": sessions });
    if let Some(cursor) = theirs.get("nextCursor").filter(|cursor| !cursor.is_null()) {
        page["nextCursor"] = cursor.clone();
    }
    answer(&page)
}

/// How many of our sessions come before the page that is asked for; nothing if only the agent's are left.
fn ours_from(cursor: &Value) -> Result<Option<usize>, ErrorObject> {
    let Some(from) = cursor.as_str().map(|cursor| cursor.strip_prefix(CURSOR)) else {
        return Ok(cursor.is_null().then_some(0));
    };
    let Some(from) = from else {
        return Ok(None);
    };
    let from = from.parse();
    from.map(Some)
        .map_err(|_| ErrorObject::invalid_params("cursor: it is none that was given here"))
}

/// What the agent lists. One that keeps no list has no sessions but ours.
async fn theirs(face: &Face, asked: &Members<'_>) -> Value {
    let asked = asked.write();
    let line = Line::default().join();
    let passed = face.pass("session/list", Some(&asked), Expects::Answer, line);
    let answer = passed.await.ok();
    answer
        .and_then(|answer| serde_json::from_str(answer.get()).ok())
        .unwrap_or_default()
}

fn answer(page: &Value) -> Result<Box<RawValue>, ErrorObject> {
    to_raw_value(page).map_err(|error| ErrorObject::internal(error.to_string()))
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
