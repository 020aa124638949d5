//! From the protocol's JSON to the words of a turn, and back. Total functions: what is unknown has a meaning too.
//!
//! Values are read one by one and not through the schema's types, because real agents leave out what is required, add
//! what is not known, and use words of later versions.

use agent_client_protocol_schema::v1;
use catalog::McpServer;
use domain::{
    permission::outside_name,
    turn::{
        AskOption, Dialect, EventKind, Location, OptionKind, PlanEntry, PlanStatus, Raw, Stop,
        ToolContent, ToolKind, ToolStatus, ToolUpdate, Usage,
    },
};
use serde_json::{Value, value::RawValue};

/// What an update says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Meaning {
    Plain(EventKind),
    /// A word about a tool call; whether it is the first one depends on what was seen.
    Tool(ToolUpdate),
    /// What the whole session has cost so far, in US dollars.
    SessionCost(f64),
}

/// The meaning of the `update` of a `session/update`.
pub(crate) fn update(update: &Value) -> Meaning {
    let name = text(update, "sessionUpdate").unwrap_or("session/update");
    let meaning =
        match name {
            "agent_message_chunk" => content_text(&update["content"])
                .map(|text| Meaning::Plain(EventKind::Text { text })),
            "agent_thought_chunk" => content_text(&update["content"])
                .map(|text| Meaning::Plain(EventKind::Thought { text })),
            "tool_call" | "tool_call_update" => tool(update).map(Meaning::Tool),
            "plan" => plan(update).map(|entries| Meaning::Plain(EventKind::Plan { entries })),
            "usage_update" => session_cost(update).map(Meaning::SessionCost),
            _ => None,
        };
    meaning.unwrap_or_else(|| other(name))
}

/// Whose words an update is, where it is a part of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    Person,
    Agent,
}

/// Who speaks in an update; nobody in one that tells of the session and not of what is said and done in it.
pub(crate) fn speaker(update: &Value) -> Option<Speaker> {
    match text(update, "sessionUpdate")? {
        "user_message_chunk" => Some(Speaker::Person),
        "agent_message_chunk"
        | "agent_thought_chunk"
        | "tool_call"
        | "tool_call_update"
        | "plan" => Some(Speaker::Agent),
        _ => None,
    }
}

pub(crate) fn other(name: &str) -> Meaning {
    Meaning::Plain(EventKind::Other {
        name: name.to_owned(),
    })
}

/// A message's params, word for word.
pub(crate) fn raw(params: &RawValue) -> Raw {
    Raw {
        dialect: Dialect::Acp,
        frame: params.get().into(),
    }
}

/// A tool call or an update of one; nothing if it does not say of which.
pub(crate) fn tool(value: &Value) -> Option<ToolUpdate> {
    let id = match &value["toolCallId"] {
        Value::String(id) => id.clone(),
        Value::Number(id) => id.to_string(),
        _ => return None,
    };
    Some(ToolUpdate {
        title: text(value, "title").map(str::to_owned),
        name: tool_name(value, &id).map(|name| outside_name(name).to_owned()),
        id,
        kind: text(value, "kind").map(tool_kind),
        status: text(value, "status").and_then(tool_status),
        locations: value["locations"]
            .as_array()
            .map(|list| list.iter().filter_map(location).collect()),
        content: value["content"]
            .as_array()
            .map(|list| list.iter().filter_map(tool_content).collect()),
        input: json(&value["rawInput"]),
        output: json(&value["rawOutput"]),
    })
}

/// What the tool is called. The protocol has a place for it, which few agents use; others have places of their own.
fn tool_name<'a>(call: &'a Value, id: &'a str) -> Option<&'a str> {
    let meta = &call["_meta"];
    text(call, "name")
        .or_else(|| text(&meta["claudeCode"], "toolName"))
        .or_else(|| text(meta, "toolName"))
        .filter(|name| !name.trim().is_empty())
        .or_else(|| name_in_id(id))
}

/// Gemini says the name only in the ids it makes: `NAME-MILLISECONDS-COUNT`.
fn name_in_id(id: &str) -> Option<&str> {
    /// Milliseconds since the epoch have as many digits until the year 2286.
    const MILLISECONDS_DIGITS: usize = 13;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let mut parts = id.rsplitn(3, '-');
    let (count, milliseconds, name) = (parts.next()?, parts.next()?, parts.next()?);
    let is_one = is_number(count)
        && is_number(milliseconds)
        && milliseconds.len() == MILLISECONDS_DIGITS
        && !name.is_empty();
    is_one.then_some(name)
}

/// The options of a permission. What one of a kind that we do not know allows, only whoever chooses it can say.
pub(crate) fn options(options: &Value) -> Vec<AskOption> {
    let option = |value: &Value| {
        let id = text(value, "optionId")?.to_owned();
        Some(AskOption {
            name: text(value, "name").unwrap_or(&id).to_owned(),
            kind: option_kind(text(value, "kind").unwrap_or_default()),
            id,
        })
    };
    let list = options.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(option).collect()
}

/// Why a turn is over; an answer without a reason we know is an end all the same.
pub(crate) fn stop(answer: &Value) -> Stop {
    match text(answer, "stopReason") {
        Some("max_tokens") => Stop::MaxTokens,
        Some("max_turn_requests") => Stop::MaxTurnRequests,
        Some("refusal") => Stop::Refusal,
        Some("cancelled") => Stop::Cancelled,
        Some("end_turn") => Stop::EndTurn,
        reason => {
            tracing::debug!(?reason, "unknown stop reason");
            Stop::EndTurn
        }
    }
}

/// What the answer to a prompt says that it took.
pub(crate) fn usage(answer: &Value) -> Option<Usage> {
    let usage = &answer["usage"];
    let found = Usage {
        input_tokens: usage["inputTokens"].as_u64(),
        output_tokens: usage["outputTokens"].as_u64(),
        cost_usd: None,
    };
    (found != Usage::default()).then_some(found)
}

/// The words in a block of content, where it has any.
pub(crate) fn content_text(content: &Value) -> Option<String> {
    if let Value::String(text) = content {
        return Some(text.clone());
    }
    match text(content, "type")? {
        "text" => text(content, "text").map(str::to_owned),
        "resource" => text(&content["resource"], "text").map(str::to_owned),
        "resource_link" => {
            let uri = text(content, "uri")?;
            let name = text(content, "title").or_else(|| text(content, "name"));
            Some(format!("[{}]({uri})", name.unwrap_or(uri)))
        }
        _ => None,
    }
}

pub(crate) fn mcp_servers(servers: Vec<McpServer>) -> Vec<v1::McpServer> {
    let convert = |server: McpServer| {
        let variables = server.env.into_iter();
        let stdio = v1::McpServerStdio::new(server.name.as_str(), server.command)
            .args(server.args)
            .env(
                variables
                    .map(|(name, value)| v1::EnvVariable::new(name, value))
                    .collect(),
            );
        v1::McpServer::Stdio(stdio)
    };
    servers.into_iter().map(convert).collect()
}

pub(crate) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

fn tool_kind(word: &str) -> ToolKind {
    let known = ToolKind::ALL.iter().find(|(name, _)| *name == word);
    known.map_or(ToolKind::Other, |(_, kind)| *kind)
}

fn tool_status(word: &str) -> Option<ToolStatus> {
    Some(match word {
        "pending" => ToolStatus::Pending,
        "in_progress" => ToolStatus::InProgress,
        "completed" => ToolStatus::Completed,
        // A later word for the same end: a call that was cancelled did not succeed.
        "failed" | "cancelled" => ToolStatus::Failed,
        _ => return None,
    })
}

fn location(value: &Value) -> Option<Location> {
    Some(Location {
        path: text(value, "path")?.to_owned(),
        line: value["line"].as_u64().and_then(|line| line.try_into().ok()),
    })
}

fn tool_content(value: &Value) -> Option<ToolContent> {
    match text(value, "type")? {
        "content" => content_text(&value["content"]).map(|text| ToolContent::Text { text }),
        "diff" => Some(ToolContent::Diff {
            path: text(value, "path")?.to_owned(),
            old: text(value, "oldText").map(str::to_owned),
            new: text(value, "newText").unwrap_or_default().to_owned(),
        }),
        "terminal" => Some(ToolContent::Terminal {
            id: text(value, "terminalId")?.to_owned(),
        }),
        _ => None,
    }
}

fn option_kind(word: &str) -> OptionKind {
    match word {
        "allow_once" => OptionKind::AllowOnce,
        "allow_always" => OptionKind::AllowAlways,
        "reject_once" => OptionKind::RejectOnce,
        "reject_always" => OptionKind::RejectAlways,
        _ => OptionKind::Other,
    }
}

fn plan(update: &Value) -> Option<Vec<PlanEntry>> {
    let entry = |value: &Value| {
        Some(PlanEntry {
            text: text(value, "content")?.to_owned(),
            status: match text(value, "status") {
                Some("in_progress") => PlanStatus::InProgress,
                Some("completed") => PlanStatus::Completed,
                _ => PlanStatus::Pending,
            },
        })
    };
    let entries = update["entries"].as_array()?;
    Some(entries.iter().filter_map(entry).collect())
}

fn session_cost(update: &Value) -> Option<f64> {
    let cost = &update["cost"];
    let dollars = text(cost, "currency").is_some_and(|unit| unit.eq_ignore_ascii_case("usd"));
    cost["amount"].as_f64().filter(|_| dollars)
}

/// JSON text; absent and null are the same.
fn json(value: &Value) -> Option<String> {
    (!value.is_null()).then(|| value.to_string())
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
