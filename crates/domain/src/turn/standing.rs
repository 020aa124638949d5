//! An answer that came when the turn that had asked was gone: what the agent is told, and what holds when it asks again.

use serde::{Deserialize, Serialize};

use super::{Answer, AskKind, OptionKind};

/// An answer for what the agent will ask again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Standing {
    /// May it do this?
    Act {
        title: String,
        input: Option<String>,
        kind: OptionKind,
    },
    /// What shall it know?
    Words { question: String, answer: String },
}

impl Standing {
    /// What an answer means where the same is asked again.
    pub fn of(kind: &AskKind, answer: &Answer) -> Option<Self> {
        match (kind, answer) {
            (AskKind::Permission { tool, .. }, answer) => Some(Self::Act {
                title: tool.title.clone(),
                input: tool.input.clone(),
                // One of another kind is chosen by whoever knows it, each time.
                kind: chosen(kind, answer).filter(|kind| *kind != OptionKind::Other)?,
            }),
            (AskKind::Question { text, .. }, Answer::Text { text: answer }) => Some(Self::Words {
                question: text.clone(),
                answer: answer.clone(),
            }),
            (AskKind::Question { .. }, Answer::Option { .. } | Answer::Declined) => None,
        }
    }

    /// The answer that stands for this ask, if it is about the very same.
    pub fn answer(&self, asked: &AskKind) -> Option<Answer> {
        match (self, asked) {
            (Self::Act { title, input, kind }, AskKind::Permission { tool, .. }) => {
                let is_same = *title == tool.title && *input == tool.input;
                let id = asked.option(*kind).filter(|_| is_same)?.id.clone();
                Some(Answer::Option { id })
            }
            (Self::Words { question, answer }, AskKind::Question { text, .. }) => {
                let text = (question == text).then(|| answer.clone())?;
                Some(Answer::Text { text })
            }
            (Self::Act { .. }, AskKind::Question { .. })
            | (Self::Words { .. }, AskKind::Permission { .. }) => None,
        }
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
    #[test]
    fn an_answer_in_words_holds_for_the_very_same_question() {
        let question = |text: &str| AskKind::Question {
            text: text.to_owned(),
            schema: None,
        };
        let text = "A4".to_owned();
        let given = Answer::Text { text };
        let standing = Standing::of(&question("size?"), &given).unwrap();
        assert_eq!(standing.answer(&question("size?")), Some(given));
        assert_eq!(standing.answer(&question("colour?")), None);
        assert_eq!(standing.answer(&permission("size?")), None);
        assert_eq!(Standing::of(&question("size?"), &Answer::Declined), None);
    }
}
