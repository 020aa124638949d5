//! An answer that came when the turn that had asked was gone: what the agent is told, and what holds when it asks again.

use serde::{Deserialize, Serialize};

use super::{Answer, AskKind, OptionKind};

/// An answer for an act that the agent will ask about again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    title: String,
    input: Option<String>,
    kind: OptionKind,
}

impl Standing {
    /// What an answer means for the same act asked about again.
    pub fn of(kind: &AskKind, answer: &Answer) -> Option<Self> {
        let AskKind::Permission { tool, .. } = kind else {
            return None;
        };
        Some(Self {
            title: tool.title.clone(),
            input: tool.input.clone(),
            // One of another kind is chosen by whoever knows it, each time.
            kind: chosen(kind, answer).filter(|kind| *kind != OptionKind::Other)?,
        })
    }

    /// The answer that stands for this ask, if it is about the very same act.
    pub fn answer(&self, kind: &AskKind) -> Option<Answer> {
        let AskKind::Permission { tool, .. } = kind else {
            return None;
        };
        if self.title != tool.title || self.input != tool.input {
            return None;
        }
        let id = kind.option(self.kind)?.id.clone();
        Some(Answer::Option { id })
    }
}

/// The prompt that goes on where a turn that is gone had asked.
pub fn go_on(kind: &AskKind, answer: &Answer) -> String {
    match (kind, answer) {
        (AskKind::Question { text, .. }, Answer::Text { text: answer }) => {
            format!("You asked:\n{text}\n\nThe answer is:\n{answer}\n\nGo on with the task.")
        }
        (AskKind::Permission { tool, .. }, answer) => {
            let allowed = match chosen(kind, answer) {
                Some(OptionKind::AllowOnce | OptionKind::AllowAlways) => "allowed",
                // What an option of another kind allows, only the agent could say, and its question is gone.
                Some(OptionKind::RejectOnce | OptionKind::RejectAlways | OptionKind::Other)
                | None => "not allowed",
            };
            format!(
                "You asked for permission: {}\n\nThis is {allowed}. Go on with the task.",
                tool.title
            )
        }
        (AskKind::Question { text, .. }, Answer::Declined | Answer::Option { .. }) => {
            format!("You asked:\n{text}\n\nThere is no answer. Go on with the task as you can.")
        }
    }
}

fn chosen(kind: &AskKind, answer: &Answer) -> Option<OptionKind> {
    match (kind, answer) {
        (AskKind::Permission { options, .. }, Answer::Option { id }) => options
            .iter()
            .find(|option| option.id == *id)
            .map(|option| option.kind),
        (AskKind::Permission { .. } | AskKind::Question { .. }, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::{AskOption, ToolCall, ToolKind, ToolStatus};

    fn permission(title: &str) -> AskKind {
        let option = |id: &str, kind| AskOption {
            id: id.to_owned(),
            name: id.to_owned(),
            kind,
        };
        AskKind::Permission {
            tool: ToolCall {
                id: "call".to_owned(),
                title: title.to_owned(),
                name: None,
                kind: ToolKind::Edit,
                status: ToolStatus::Pending,
                locations: Vec::new(),
                content: Vec::new(),
                input: None,
                output: None,
            },
            options: vec![
                option("once", OptionKind::AllowOnce),
                option("never", OptionKind::RejectAlways),
            ],
            destructive: false,
        }
    }

    fn option(id: &str) -> Answer {
        Answer::Option { id: id.to_owned() }
    }

    #[test]
    fn a_permission_that_came_too_late_for_its_turn_holds_for_the_very_same_act() {
        let kind = permission("write a");
        let standing = Standing::of(&kind, &option("once")).unwrap();
        assert_eq!(standing.answer(&kind), Some(option("once")));
        assert_eq!(standing.answer(&permission("write b")), None);
        assert!(go_on(&kind, &option("once")).contains("This is allowed."));
        assert!(go_on(&kind, &option("never")).contains("not allowed"));
    }
}
