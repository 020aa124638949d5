//! What was asked in a session and how it was answered, in words: the answer alone names an option that only the question explains.

use std::collections::HashMap;

use domain::turn::{Answer, Ask, AskId, AskKind, OptionKind};

/// Questions that are remembered until they are settled; a session has few open at a time.
const ASKS_MAX: usize = 256;

/// Questions that are not settled yet.
#[derive(Debug, Default)]
pub(crate) struct Asked(HashMap<AskId, AskKind>);

impl Asked {
    pub(crate) fn ask(&mut self, ask: Ask) {
        if self.0.len() < ASKS_MAX {
            self.0.insert(ask.id, ask.kind);
        }
    }

    /// What was asked and what the answer is, such as `Edit a.txt: allowed once`.
    pub(crate) fn settle(&mut self, ask: &AskId, answer: &Answer) -> String {
        match self.0.remove(ask) {
            Some(kind) => format!("{}: {}", question(&kind), words(&kind, answer)),
            None => match answer {
                Answer::Option { id } => id.clone(),
                Answer::Text { text } => text.clone(),
                Answer::Declined => "declined".to_owned(),
            },
        }
    }
}

pub(crate) fn question(kind: &AskKind) -> &str {
    match kind {
        AskKind::Permission { tool, .. } => &tool.title,
        AskKind::Question { text, .. } => text,
    }
}

fn words(kind: &AskKind, answer: &Answer) -> String {
    let word = match (kind, answer) {
        (AskKind::Permission { options, .. }, Answer::Option { id }) => {
            match options.iter().find(|option| option.id == *id) {
                Some(option) => match option.kind {
                    OptionKind::AllowOnce => "allowed once",
                    OptionKind::AllowAlways => "allowed for good",
                    OptionKind::RejectOnce => "denied",
                    OptionKind::RejectAlways => "denied for good",
                    OptionKind::Other => &option.name,
                },
                None => id,
            }
        }
        (AskKind::Permission { .. }, Answer::Declined) => "denied",
        (AskKind::Question { .. }, Answer::Declined) => "declined",
        (_, Answer::Text { text }) => text,
        (AskKind::Question { .. }, Answer::Option { id }) => id,
    };
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ask(value: serde_json::Value) -> Ask {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_was_decided_is_told_by_what_the_option_means() {
        let tool = json!({"id": "t", "title": "Edit a.txt", "kind": "edit", "status": "pending"});
        let options = json!([
            {"id": "y", "name": "Sure", "kind": "allow-once"},
            {"id": "a", "name": "Always", "kind": "allow-always"},
            {"id": "n", "name": "Nope", "kind": "reject-once"},
            {"id": "s", "name": "On Sundays", "kind": "other"},
        ]);
        let permission =
            json!({"id": "a-1", "ask": "permission", "tool": tool, "options": options});
        let chosen = |id: &str| Answer::Option { id: id.to_owned() };
        for (answer, told) in [
            (chosen("y"), "Edit a.txt: allowed once"),
            (chosen("a"), "Edit a.txt: allowed for good"),
            (chosen("n"), "Edit a.txt: denied"),
            (chosen("s"), "Edit a.txt: On Sundays"),
            (Answer::Declined, "Edit a.txt: denied"),
        ] {
            let mut asked = Asked::default();
            asked.ask(ask(permission.clone()));
            assert_eq!(asked.settle(&AskId("a-1".to_owned()), &answer), told);
        }
        let question = json!({"id": "a-2", "ask": "question", "text": "Which one?"});
        let mut asked = Asked::default();
        asked.ask(ask(question));
        let answer = Answer::Text {
            text: "the red one".to_owned(),
        };
        let id = AskId("a-2".to_owned());
        assert_eq!(asked.settle(&id, &answer), "Which one?: the red one");
        assert_eq!(asked.settle(&id, &chosen("y")), "y");
    }
}
