//! Events as messages to the editor: the agent's own frame with the session's id changed, or one made of the meaning.

use domain::turn::{
    Dialect, Event, EventKind, Location, PlanStatus, Raw, ToolCall, ToolContent, ToolStatus,
    ToolUpdate,
};
use serde_json::{
    Map, Value, json,
    value::{RawValue, to_raw_value},
};

use crate::members::Members;

pub(super) const UPDATE: &str = "session/update";

/// A notification to the editor.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) method: String,
    pub(super) params: Box<RawValue>,
}

/// How an editor is told something.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style<'a> {
    /// What the editor calls the session.
    pub(super) session: &'a str,
    /// The terminals of the agent are the editor's, which can show them.
    pub(super) terminals: bool,
    /// Words of ours have a kind of their own.
    pub(super) notices: bool,
}

/// What the editor is told of an event, if anything.
pub(super) fn of_event(event: &Event, style: Style<'_>) -> Option<Frame> {
    match acp(event.raw.as_ref()) {
        Some(raw) => forwarded(raw, &event.kind, style),
        None => Some(update(style, made(&event.kind, style)?)),
    }
}

/// Says that an update of so many bytes does not fit into a line.
pub(super) fn left_out(length: usize, style: Style<'_>) -> Option<Frame> {
    let text = format!("An update of {length} bytes was left out: it does not fit into a line.");
    Some(update(style, made(&EventKind::Notice { text }, style)?))
}

/// Says that the editor was too far behind for what the agent said outside of any session.
pub(super) fn missed(count: u64, style: Style<'_>) -> Option<Frame> {
    let text = format!("{count} messages of the agent were missed: the editor was too far behind.");
    Some(update(style, made(&EventKind::Notice { text }, style)?))
}

/// What somebody else said in the session.
pub(super) fn of_prompt(prompt: &str, words: Option<&Raw>, style: Style<'_>) -> Vec<Frame> {
    let blocks = acp(words)
        .and_then(|raw| {
            Members::read(&raw.frame)?
                .get("prompt")
                .map(RawValue::get)
                .map(str::to_owned)
        })
        .and_then(|blocks| serde_json::from_str::<Vec<Value>>(&blocks).ok())
        .unwrap_or_else(|| vec![text(prompt)]);
    let chunk = |content| {
        update(
            style,
            json!({ "sessionUpdate": "user_message_chunk", "content": content }),
        )
    };
    blocks.into_iter().map(chunk).collect()
}

/// The answer to a prompt as the agent gave it: a result or an error.
pub(super) fn prompt_answer(event: &Event) -> Option<&Raw> {
    let raw = acp(event.raw.as_ref())?;
    let of_prompt = match &event.kind {
        EventKind::Usage(_) => true,
        EventKind::Other { name } => name == "session/prompt",
        _ => false,
    };
    // Most events are words of the agent, which need not be read for this.
    (of_prompt && !Members::read(&raw.frame)?.has("update")).then_some(raw)
}

/// Whether an event has no frame in the protocol's words.
pub(super) fn is_ours(event: &Event) -> bool {
    acp(event.raw.as_ref()).is_none()
}

fn acp(raw: Option<&Raw>) -> Option<&Raw> {
    raw.filter(|raw| raw.dialect == Dialect::Acp)
}

fn forwarded(raw: &Raw, kind: &EventKind, style: Style<'_>) -> Option<Frame> {
    let mut members = Members::read(&raw.frame)?;
    let method = match kind {
        EventKind::Other { name } if !members.has("update") => name.clone(),
        _ => UPDATE.to_owned(),
    };
    if method == UPDATE && !members.has("update") {
        return None;
    }
    if members.has("sessionId") {
        members.set("sessionId", style.session);
    }
    let params = members.write();
    // An editor that is shown a terminal it does not have shows an error instead.
    let params = match kind {
        EventKind::ToolCall(_) | EventKind::ToolUpdate(_) if !style.terminals => {
            without_terminals(params)
        }
        _ => params,
    };
    Some(Frame { method, params })
}

fn without_terminals(params: Box<RawValue>) -> Box<RawValue> {
    if !params.get().contains("\"terminalId\"") {
        return params;
    }
    let Ok(mut value) = serde_json::from_str::<Value>(params.get()) else {
        return params;
    };
    if let Some(content) = value["update"]["content"].as_array_mut() {
        content.retain(|part| part["type"] != "terminal");
    }
    to_raw_value(&value).unwrap_or(params)
}

fn update(style: Style<'_>, update: Value) -> Frame {
    let params = json!({ "sessionId": style.session, "update": update });
    Frame {
        method: UPDATE.to_owned(),
        params: to_raw_value(&params).expect("a value can be written"),
    }
}

/// The update that says the same as an event which has no frame.
fn made(kind: &EventKind, style: Style<'_>) -> Option<Value> {
    let chunk = |name: &str, words: &str| json!({ "sessionUpdate": name, "content": text(words) });
    Some(match kind {
        EventKind::Text { text } => chunk("agent_message_chunk", text),
        EventKind::Thought { text } => chunk("agent_thought_chunk", text),
        EventKind::Notice { text } if style.notices => {
            json!({ "sessionUpdate": "notice", "severity": "info", "title": text })
        }
        EventKind::Notice { text } => chunk("agent_thought_chunk", text),
        EventKind::ToolCall(call) => {
            let mut value = tool_call(call);
            value["sessionUpdate"] = "tool_call".into();
            value
        }
        EventKind::ToolUpdate(update) => tool_update(update),
        EventKind::Plan { entries } => {
            let entry = |entry: &domain::turn::PlanEntry| {
                let status = match entry.status {
                    PlanStatus::Pending => "pending",
                    PlanStatus::InProgress => "in_progress",
                    PlanStatus::Completed => "completed",
                };
                json!({ "content": entry.text, "priority": "medium", "status": status })
            };
            let entries: Vec<Value> = entries.iter().map(entry).collect();
            json!({ "sessionUpdate": "plan", "entries": entries })
        }
        EventKind::TurnStarted { .. }
        | EventKind::Ask(_)
        | EventKind::AskSettled { .. }
        | EventKind::Artifact { .. }
        | EventKind::Usage(_)
        | EventKind::Other { .. }
        | EventKind::TurnEnded { .. } => return None,
    })
}

fn text(words: &str) -> Value {
    json!({ "type": "text", "text": words })
}

/// A tool call in the protocol's words, as an update and in a request for permission.
pub(super) fn tool_call(call: &ToolCall) -> Value {
    let mut value = json!({
        "toolCallId": call.id,
        "title": call.title,
        "kind": call.kind.as_str(),
        "status": status(call.status),
        "locations": call.locations.iter().map(location).collect::<Vec<_>>(),
        "content": call.content.iter().filter_map(content).collect::<Vec<_>>(),
    });
    put(
        &mut value,
        "rawInput",
        call.input.as_deref().and_then(parsed),
    );
    put(
        &mut value,
        "rawOutput",
        call.output.as_deref().and_then(parsed),
    );
    value
}

fn tool_update(update: &ToolUpdate) -> Value {
    let mut value = json!({ "sessionUpdate": "tool_call_update", "toolCallId": update.id });
    let list = |values: Vec<Value>| Value::Array(values);
    put(&mut value, "title", update.title.clone().map(Value::String));
    put(
        &mut value,
        "kind",
        update.kind.map(|kind| kind.as_str().into()),
    );
    put(
        &mut value,
        "status",
        update.status.map(|known| status(known).into()),
    );
    let locations = update.locations.as_ref();
    put(
        &mut value,
        "locations",
        locations.map(|known| list(known.iter().map(location).collect())),
    );
    let contents = update.content.as_ref();
    put(
        &mut value,
        "content",
        contents.map(|known| list(known.iter().filter_map(content).collect())),
    );
    put(
        &mut value,
        "rawInput",
        update.input.as_deref().and_then(parsed),
    );
    put(
        &mut value,
        "rawOutput",
        update.output.as_deref().and_then(parsed),
    );
    value
}

fn put(value: &mut Value, key: &str, found: Option<Value>) {
    if let (Some(object), Some(found)) = (value.as_object_mut(), found) {
        object.insert(key.to_owned(), found);
    }
}

fn parsed(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

fn status(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::Pending => "pending",
        ToolStatus::InProgress => "in_progress",
        ToolStatus::Completed => "completed",
        ToolStatus::Failed => "failed",
    }
}

fn location(location: &Location) -> Value {
    let mut value = Map::from_iter([("path".to_owned(), location.path.clone().into())]);
    if let Some(line) = location.line {
        value.insert("line".to_owned(), line.into());
    }
    Value::Object(value)
}

fn content(content: &ToolContent) -> Option<Value> {
    match content {
        ToolContent::Text { text: words } => {
            Some(json!({ "type": "content", "content": text(words) }))
        }
        ToolContent::Diff { path, old, new } => {
            Some(json!({ "type": "diff", "path": path, "oldText": old, "newText": new }))
        }
        ToolContent::Terminal { .. } => None,
    }
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
