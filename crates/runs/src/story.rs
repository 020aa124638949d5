//! What happens in a turn, told as the events and messages of a run.

use domain::{
    Name, Timestamp,
    turn::{Event as TurnEvent, EventKind},
};
use serde_json::{Value, json};
use wire::runs::{Event, Message, Part, RunEvent};

use crate::record::text;

/// The agent's message that is being told.
#[derive(Debug)]
pub(crate) struct Story {
    role: String,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    text: String,
    since: Timestamp,
}

impl Story {
    pub(crate) fn new(agent: &Name) -> Self {
        Self {
            role: format!("agent/{agent}"),
            open: None,
        }
    }

    /// What an event of the turn tells; asks, files and ends are told by the run itself.
    pub(crate) fn tell(&mut self, event: &TurnEvent) -> Vec<Event> {
        match &event.kind {
            EventKind::Text { text } => self.tell_text(text, event.at),
            EventKind::Thought { text } => vec![generic("thought", json!({ "text": text }))],
            EventKind::ToolCall(call) => vec![generic("tool_call", json!(call))],
            EventKind::ToolUpdate(update) => vec![generic("tool_update", json!(update))],
            EventKind::Plan { entries } => vec![generic("plan", json!({ "entries": entries }))],
            EventKind::Usage(usage) => vec![generic("usage", json!(usage))],
            EventKind::Notice { text } => vec![generic("notice", json!({ "text": text }))],
            EventKind::TurnStarted { .. }
            | EventKind::Ask(_)
            | EventKind::AskSettled { .. }
            | EventKind::Artifact { .. }
            | EventKind::Other { .. }
            | EventKind::TurnEnded { .. } => Vec::new(),
        }
    }

    fn tell_text(&mut self, words: &str, at: Timestamp) -> Vec<Event> {
        let mut events = Vec::new();
        let open = self.open.get_or_insert_with(|| {
            let mut message = Message::new(&self.role, nothing_yet());
            message.created_at = Some(text(at));
            events.push(Event::of_message(RunEvent::MessageCreated, message));
            Open {
                text: String::new(),
                since: at,
            }
        });
        open.text.push_str(words);
        events.push(Event::of_part(RunEvent::MessagePart, Part::text(words)));
        events
    }

    /// The words so far as one message, if there are any; what follows begins another.
    pub(crate) fn close(&mut self, at: Timestamp) -> Option<Message> {
        let open = self.open.take()?;
        Some(self.message(vec![Part::text(open.text)], open.since, at))
    }

    pub(crate) fn message(&self, parts: Vec<Part>, since: Timestamp, at: Timestamp) -> Message {
        let mut message = Message::new(&self.role, parts);
        message.created_at = Some(text(since));
        message.completed_at = Some(text(at));
        message
    }
}

/// The parts of a message that has only begun: the standard wants one in every message, and words are told once.
pub(crate) fn nothing_yet() -> Vec<Part> {
    vec![Part::text("")]
}

fn generic(kind: &str, mut body: Value) -> Event {
    body["kind_of_event"] = json!(kind);
    Event::of_generic(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind) -> TurnEvent {
        TurnEvent {
            seq: 1,
            at: Timestamp(0),
            kind,
            raw: None,
        }
    }

    #[test]
    fn deltas_are_parts_of_one_message_that_ends_as_one_text() {
        let mut story = Story::new(&Name::parse("echo").unwrap());
        let say = |text: &str| {
            event(EventKind::Text {
                text: text.to_owned(),
            })
        };
        let events: Vec<Event> = ["How", "dy"]
            .iter()
            .flat_map(|text| story.tell(&say(text)))
            .collect();
        let begun = events[0].message.as_ref().unwrap();
        assert_eq!(begun.parts, [Part::text("")], "a message has a part");
        let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
        assert_eq!(kinds, ["message.created", "message.part", "message.part"]);
        let message = story.close(Timestamp(1000)).unwrap();
        assert_eq!(message.role, "agent/echo");
        assert_eq!(message.parts, [Part::text("Howdy")]);
        assert_eq!(
            message.completed_at.as_deref(),
            Some("1970-01-01T00:00:01Z")
        );
        assert_eq!(story.close(Timestamp(1000)), None);
    }

    #[test]
    fn what_is_no_answer_is_told_beside_it() {
        let mut story = Story::new(&Name::parse("echo").unwrap());
        let thought = story.tell(&event(EventKind::Thought {
            text: "hm".to_owned(),
        }));
        assert_eq!(thought[0].kind, "generic");
        let generic = thought[0].generic.as_ref().unwrap();
        assert_eq!(
            generic,
            &json!({ "kind_of_event": "thought", "text": "hm" })
        );
        assert_eq!(story.close(Timestamp(0)), None);
    }
}
