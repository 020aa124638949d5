//! The mode of a session: an agent whose mode lets it act unasked is put into the one in which it asks.
//!
//! The permission policy decides what an agent asks for, so asking is what every agent is wanted to do; what the policy
//! allows it answers at once.

use serde_json::Value;

use crate::convert;

/// Modes in which agents ask before they change anything, the best first.
const ASKING: [&str; 2] = ["default", "read-only"];

/// Modes in which some agent, by its own judgement or with none, does what the policy may deny.
const UNASKED: [&str; 12] = [
    "acceptEdits",
    "agent",
    "agent-full-access",
    "auto",
    "auto-edit",
    "auto_edit",
    "autoEdit",
    "bypassPermissions",
    "dontAsk",
    "full-access",
    "workspace-write",
    "yolo",
];

/// The variable by which a template or a person chooses the first mode of Codex; what is chosen is left alone.
pub(crate) const CHOICE_VARIABLE: &str = "INITIAL_AGENT_MODE";

/// The mode that a session has to be put into, read from the answer that opened it.
pub(crate) fn to_ask_in(answer: &Value) -> Option<&str> {
    let modes = &answer["modes"];
    let current = convert::text(modes, "currentModeId")?;
    if !UNASKED.contains(&current) {
        return None;
    }
    let offered = modes["availableModes"].as_array()?;
    let mut wanted = ASKING.iter();
    wanted.find_map(|wanted| {
        let mut ids = offered.iter().filter_map(|mode| convert::text(mode, "id"));
        ids.find(|id| id == wanted)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(current: &str, offered: &[&str]) -> Value {
        let offered: Vec<Value> = offered
            .iter()
            .map(|id| json!({ "id": id, "name": id }))
            .collect();
        json!({ "sessionId": "s", "modes": { "currentModeId": current, "availableModes": offered } })
    }

    #[test]
    fn a_mode_that_acts_unasked_is_left_for_the_one_that_asks() {
        let codex = ["read-only", "workspace-write", "agent", "agent-full-access"];
        for current in ["agent", "workspace-write", "agent-full-access"] {
            assert_eq!(to_ask_in(&answer(current, &codex)), Some("read-only"));
        }
        let claude = ["acceptEdits", "default", "plan", "bypassPermissions"];
        let claude = answer("bypassPermissions", &claude);
        assert_eq!(to_ask_in(&claude), Some("default"));
    }

    #[test]
    fn a_mode_that_asks_or_is_not_known_stays() {
        for (current, offered) in [
            ("read-only", vec!["read-only", "agent"]),
            ("default", vec!["default", "yolo"]),
            ("plan", vec!["default", "plan"]),
            ("build", vec!["build", "plan"]),
            ("agent", vec!["agent", "ask", "plan"]),
        ] {
            assert_eq!(to_ask_in(&answer(current, &offered)), None, "{current}");
        }
        assert_eq!(to_ask_in(&json!({ "sessionId": "s" })), None);
        assert_eq!(
            to_ask_in(&json!({ "modes": { "currentModeId": "agent" } })),
            None
        );
    }
}
