//! Names of tools as clients take them: `computer__tool`, in the alphabet and the length that models' providers allow.

use std::collections::BTreeSet;

use engine::Tool;
use serde_json::{Value, json};

/// Providers of models refuse longer names.
const NAME_MAX: usize = 64;

/// Letters of the hash that makes a shortened name its own.
const HASH_LENGTH: usize = 8;

/// A tool under the name that clients use.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shown {
    pub(super) name: String,
    pub(super) tool: Tool,
}

impl Shown {
    /// The definition for clients: the server's own, under the new name.
    pub(super) fn describe(self) -> rmcp::model::Tool {
        let mut raw = self.tool.raw;
        if let Value::Object(raw) = &mut raw {
            raw.insert("name".to_owned(), json!(self.name));
            raw.insert("inputSchema".to_owned(), json!(self.tool.input_schema));
        }
        serde_json::from_value(raw).unwrap_or_else(|_| {
            let description = self.tool.description.unwrap_or_default();
            rmcp::model::Tool::new(self.name, description, self.tool.input_schema)
        })
    }
}

/// Every tool under a name of its own, which depends on nothing but its server's name and its own.
pub(super) fn shown(tools: Vec<Tool>) -> Vec<Shown> {
    let mut taken = BTreeSet::new();
    let mut shown = Vec::new();
    for tool in tools {
        let name = name(&tool.server, &tool.name);
        // Two tools of one server with one name are one to everybody.
        if taken.insert(name.clone()) {
            shown.push(Shown { name, tool });
        }
    }
    shown
}

fn name(server: &str, tool: &str) -> String {
    let whole = format!("{server}__{tool}");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if whole.len() <= NAME_MAX && whole.chars().all(is_plain) {
        return whole;
    }
    let plain = whole
        .chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .take(NAME_MAX - HASH_LENGTH - 1);
    format!("{}_{:08x}", plain.collect::<String>(), hash(&whole))
}

/// FNV-1a: the same in every build, and no adversary gains anything from a collision but a hidden tool of their own.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_every_provider_and_stay_apart() {
        assert_eq!(name("nova", "files__read"), "nova__files__read");
        let long = "x".repeat(80);
        let names = [
            name("nova", &long),
            name("nova", &format!("{long}y")),
            name("büro 1", "a"),
            name("büro_1", "a"),
            name("nova", "files.read"),
        ];
        let mut seen = BTreeSet::new();
        for name in names {
            assert!(name.len() <= NAME_MAX, "{name}");
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            assert!(name.chars().all(plain), "{name}");
            assert!(seen.insert(name));
        }
    }

    #[test]
    fn a_definition_keeps_everything_but_its_name() {
        let raw = json!({
            "name": "read", "title": "Read", "description": "Reads.", "inputSchema": {},
            "annotations": {"readOnlyHint": true}
        });
        let tool = Tool {
            server: "nova".to_owned(),
            name: "read".to_owned(),
            description: Some("Reads.".to_owned()),
            input_schema: json!({"type": "object"}).as_object().unwrap().clone(),
            raw,
        };
        let described = shown(vec![tool.clone(), tool])
            .into_iter()
            .map(Shown::describe);
        let described: Vec<Value> = described.map(|tool| json!(tool)).collect();
        assert_eq!(
            json!(described),
            json!([{
                "name": "nova__read", "title": "Read", "description": "Reads.",
                "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}
            }])
        );
    }
}
