//! What happens in a session, as far as a caller of a tool or a reader of a transcript wants to know it.

use domain::turn::{Answer, Ask, AskId};
use serde::Deserialize;

/// `session.event`.
#[derive(Debug, Deserialize)]
pub(crate) struct Notice {
    pub(crate) event: Event,
    /// It is the beginning of a turn that we have asked for.
    #[serde(default)]
    pub(crate) own: bool,
}

/// One event; kinds that say nothing here, or that a newer daemon has, are `Other`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub(crate) enum Event {
    TurnStarted {
        turn: u64,
        prompt: String,
    },
    Text {
        text: String,
    },
    ToolCall {
        id: String,
        title: String,
        status: String,
    },
    ToolUpdate {
        id: String,
        #[serde(default)]
        title: Option<String>,
        #[serde(default)]
        status: Option<String>,
    },
    Plan {
        entries: Vec<PlanEntry>,
    },
    Ask(Ask),
    AskSettled {
        ask: AskId,
        answer: Answer,
        #[serde(default)]
        by: Option<String>,
    },
    Artifact {
        path: String,
        change: String,
    },
    Notice {
        text: String,
    },
    TurnEnded {
        turn: u64,
        stop: Stop,
    },
    #[serde(other)]
    Other,
}

/// One line of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct PlanEntry {
    pub(crate) text: String,
    pub(crate) status: String,
}

/// Why a turn is over.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Stop {
    pub(crate) reason: String,
    #[serde(default)]
    pub(crate) message: Option<String>,
}

/// A session, as `session.create`, `session.get` and `session.list` give it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionView {
    pub(crate) session_id: String,
    pub(crate) agent_name: String,
    pub(crate) state: String,
    #[serde(default)]
    pub(crate) turns: u64,
    #[serde(default)]
    pub(crate) created_at: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: serde_json::Value) -> Event {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn events_are_read_with_what_matters_of_them() {
        let cases = [
            (
                json!({"seq": 1, "at": 5, "type": "turn-started", "turn": 2, "prompt": "hi"}),
                Event::TurnStarted {
                    turn: 2,
                    prompt: "hi".to_owned(),
                },
            ),
            (
                json!({"type": "tool-update", "id": "a", "status": "completed", "content": []}),
                Event::ToolUpdate {
                    id: "a".to_owned(),
                    title: None,
                    status: Some("completed".to_owned()),
                },
            ),
            (
                json!({"type": "turn-ended", "turn": 2, "stop": {"reason": "failed", "message": "no"}}),
                Event::TurnEnded {
                    turn: 2,
                    stop: Stop {
                        reason: "failed".to_owned(),
                        message: Some("no".to_owned()),
                    },
                },
            ),
            (
                json!({"type": "ask-settled", "ask": "a-1", "answer": {"answer": "declined"}, "by": "policy"}),
                Event::AskSettled {
                    ask: AskId("a-1".to_owned()),
                    answer: Answer::Declined,
                    by: Some("policy".to_owned()),
                },
            ),
        ];
        for (value, event) in cases {
            assert_eq!(read(value.clone()), event, "{value}");
        }
    }

    #[test]
    fn kinds_of_tomorrow_are_other() {
        assert_eq!(
            read(json!({"type": "hologram", "shape": [1, 2]})),
            Event::Other
        );
    }
}
