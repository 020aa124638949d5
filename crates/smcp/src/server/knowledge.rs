//! What the server knows of a computer's tools: enough to refuse a call for one that may not be used, before it travels.

use std::collections::BTreeMap;

use serde_json::Value;
use wire::smcp::{ConfigAnswer, ConfigProblem, ErrorBody, ServerConfig};

use crate::convert::code;

/// What a computer has said of its configuration.
#[derive(Debug, Clone, Default)]
pub(super) enum Knowledge {
    /// It has been asked and has not answered yet.
    Asking,
    /// It does not say; then it decides alone.
    #[default]
    Nothing,
    Config(Offer),
}

/// A configuration, as far as refusing needs it.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    servers: BTreeMap<String, ServerConfig>,
    problems: BTreeMap<String, ConfigProblem>,
}

impl Knowledge {
    pub(super) fn of(answer: &Value) -> Self {
        if ErrorBody::from_value(answer).is_some() || !answer["servers"].is_object() {
            return Self::Nothing;
        }
        let (config, problems) = ConfigAnswer::from_value(answer);
        Self::Config(Offer {
            servers: config.servers,
            problems,
        })
    }

    pub(super) fn is_asking(&self) -> bool {
        matches!(self, Self::Asking)
    }

    /// Why a tool may not be called, if that is known.
    pub(super) fn refuses(&self, tool: &str) -> Option<ErrorBody> {
        let Self::Config(offer) = self else {
            return None;
        };
        let problem = offer
            .problems
            .iter()
            .find(|(key, _)| is_of(tool, key).is_some());
        if let Some((server, problem)) = problem {
            let words = format!("The server of this tool is not configured rightly: {problem}.");
            return Some(refused(
                code::NOT_FOUND,
                &words,
                tool,
                server,
                "misconfigured",
            ));
        }
        offer
            .servers
            .iter()
            .find_map(|(key, server)| server_refuses(tool, key, server))
    }
}

fn server_refuses(tool: &str, key: &str, server: &ServerConfig) -> Option<ErrorBody> {
    let bundle = server.bundle_id.as_deref().unwrap_or(key);
    let own = is_of(tool, bundle).or_else(|| {
        let is_named = server.tool_meta.contains_key(tool)
            || server.forbidden_tools.iter().any(|name| name == tool);
        is_named.then_some(tool)
    })?;
    if server.disabled {
        let words = "The server of this tool is disabled.";
        return Some(refused(code::FORBIDDEN, words, tool, bundle, "disabled"));
    }
    let is_forbidden = server.forbidden_tools.iter().any(|name| {
        let alias = server
            .tool_meta
            .get(name)
            .and_then(|meta| meta.alias.as_deref());
        name == own || alias == Some(own)
    });
    is_forbidden.then(|| {
        let words = "This tool is forbidden on that computer.";
        refused(code::FORBIDDEN, words, tool, bundle, "forbidden")
    })
}

/// The tool's own name, if the shown name begins with the server's.
fn is_of<'a>(tool: &'a str, bundle: &str) -> Option<&'a str> {
    tool.strip_prefix(bundle)?.strip_prefix("__")
}

fn refused(code: i64, words: &str, tool: &str, server: &str, reason: &str) -> ErrorBody {
    ErrorBody::new(code, words)
        .with("tool_name", tool)
        .with("mcp_server", server)
        .with("reason", reason)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn disabled_forbidden_and_misconfigured_tools_are_refused() {
        let knowledge = Knowledge::of(&json!({"servers": {
            "time": {"type": "stdio", "command": "x", "bundle_id": "time", "forbidden_tools": ["set", "zone"],
                     "tool_meta": {"zone": {"alias": "place"}}},
            "off": {"type": "stdio", "command": "x", "disabled": true, "tool_meta": {"plain": {}}},
            "web": {"type": "http"},
        }}));
        for (tool, reason) in [
            ("time__now", None),
            ("time__set", Some("forbidden")),
            ("time__place", Some("forbidden")),
            ("off__any", Some("disabled")),
            ("plain", Some("disabled")),
            ("web__get", Some("misconfigured")),
            ("unknown__x", None),
        ] {
            let refused = knowledge.refuses(tool);
            let said = refused.as_ref().map(|error| &error.details["reason"]);
            assert_eq!(said, reason.map(|reason| json!(reason)).as_ref(), "{tool}");
        }
    }

    #[test]
    fn a_computer_that_does_not_say_decides_alone() {
        for answer in [
            json!(null),
            json!({}),
            json!({"error": {"code": 500, "message": "m"}}),
        ] {
            assert!(Knowledge::of(&answer).refuses("off__any").is_none());
        }
    }
}
