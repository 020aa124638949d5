//! What has been said with a model, in its own words, kept so that a conversation outlives the daemon.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What a model is reminded of at most; beyond it the oldest turns are forgotten.
const HISTORY_BYTES_MAX: usize = 512 * 1024;

/// One conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Conversation {
    messages: Vec<Value>,
}

/// A tool that the model asked for, whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) id: String,
    pub(crate) name: String,
    /// JSON text, as the model wrote it.
    pub(crate) arguments: String,
}

impl Conversation {
    pub(crate) fn messages(&self) -> &[Value] {
        &self.messages
    }

    /// Begins a turn, and says where, for `rewind`.
    pub(crate) fn user(&mut self, prompt: &str) -> usize {
        self.messages
            .push(json!({ "role": "user", "content": prompt }));
        self.forget_the_oldest();
        self.messages.len() - 1
    }

    pub(crate) fn assistant(&mut self, text: &str, wanted: &[Wanted]) {
        let mut message = json!({ "role": "assistant", "content": text });
        if !wanted.is_empty() {
            let calls: Vec<Value> = wanted
                .iter()
                .map(|wanted| {
                    json!({
                        "id": wanted.id,
                        "type": "function",
                        "function": { "name": wanted.name, "arguments": wanted.arguments },
                    })
                })
                .collect();
            message["tool_calls"] = Value::Array(calls);
        }
        self.messages.push(message);
    }

    pub(crate) fn tool(&mut self, id: &str, output: &str) {
        self.messages
            .push(json!({ "role": "tool", "tool_call_id": id, "content": output }));
    }

    /// Takes back what was said from the message of this index on, so that a turn that failed leaves no half of itself.
    pub(crate) fn rewind(&mut self, to: usize) {
        self.messages.truncate(to);
    }

    /// Whole turns go, so that no tool's answer is left without its question.
    fn forget_the_oldest(&mut self) {
        let size = |messages: &[Value]| -> usize {
            messages
                .iter()
                .map(|message| message.to_string().len())
                .sum()
        };
        while size(&self.messages) > HISTORY_BYTES_MAX {
            let next = self.messages.iter().skip(1);
            let Some(next) = next.clone().position(|message| message["role"] == "user") else {
                return;
            };
            self.messages.drain(..=next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_conversation_forgets_whole_turns() {
        let mut conversation = Conversation::default();
        let long = "x".repeat(HISTORY_BYTES_MAX / 3);
        for turn in 0..4 {
            let place = conversation.user(&format!("{turn} {long}"));
            assert_eq!(conversation.messages()[place]["role"], "user");
            assert_eq!(place, conversation.messages().len() - 1);
            conversation.assistant("", &[Wanted::default()]);
            conversation.tool("", "done");
        }
        let first = &conversation.messages()[0];
        assert_eq!(first["role"], "user");
        assert!(first["content"].as_str().unwrap().starts_with("2 "));
        let before = conversation.messages().len();
        let place = conversation.user(&format!("4 {long}"));
        assert!(place < before, "something was forgotten for it");
        conversation.assistant("half", &[]);
        conversation.rewind(place);
        let last = conversation.messages().last().unwrap();
        assert_eq!(last["role"], "tool", "nothing of the turn is left");
    }
}
