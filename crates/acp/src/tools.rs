//! The tool calls of one session that were seen: who they are, so that a bare word about one later makes sense.

use std::collections::{HashMap, VecDeque};

use domain::turn::{EventKind, ToolCall, ToolKind, ToolStatus, ToolUpdate};

/// Calls that are remembered; agents speak of the last few.
const CALLS_MAX: usize = 512;

/// Bytes that are remembered: an input may hold a whole file, and must be there when its permission is asked for.
const WEIGHT_MAX: usize = 8 * 1024 * 1024;

#[derive(Debug, Default)]
pub(crate) struct KnownTools {
    calls: HashMap<String, Known>,
    /// Ids from the oldest sighting to the newest.
    order: VecDeque<String>,
    weight: usize,
}

#[derive(Debug)]
struct Known {
    call: ToolCall,
    /// Whether the session was told of it; a call may have been seen only in the request for its permission.
    told: bool,
}

impl KnownTools {
    /// What a word about a call means for the session: a new call, or news of one it was told of.
    pub(crate) fn tell(&mut self, update: ToolUpdate) -> EventKind {
        let known = self.calls.get(&update.id);
        if known.is_some_and(|known| known.told) {
            self.remember(&update, Told::Yes);
            return EventKind::ToolUpdate(update);
        }
        let mut call = match known {
            Some(known) => known.call.clone(),
            None => unknown(&update.id),
        };
        call.merge(&update);
        self.remember(&update, Told::Yes);
        EventKind::ToolCall(named(call))
    }

    /// The call that a permission is asked for, completed with what is known of it.
    pub(crate) fn asked(&mut self, update: ToolUpdate) -> ToolCall {
        self.remember(&update, Told::No);
        let mut call = match self.calls.get(&update.id) {
            Some(known) => known.call.clone(),
            None => unknown(&update.id),
        };
        call.merge(&update);
        named(call)
    }

    fn remember(&mut self, update: &ToolUpdate, told: Told) {
        let known = match self.calls.remove(&update.id) {
            Some(known) => {
                self.weight -= weight(&known.call);
                known
            }
            None => {
                self.order.push_back(update.id.clone());
                Known {
                    call: unknown(&update.id),
                    told: false,
                }
            }
        };
        let Known {
            mut call,
            told: before,
        } = known;
        call.merge(update);
        // What it showed and gave back says nothing about who it is.
        call.content = Vec::new();
        call.output = None;
        if matches!(call.status, ToolStatus::Completed | ToolStatus::Failed) {
            call.input = None; // Nobody asks for what has been done.
        }
        self.weight += weight(&call);
        let told = before || told == Told::Yes;
        self.calls.insert(update.id.clone(), Known { call, told });
        self.forget_oldest();
    }

    fn forget_oldest(&mut self) {
        while self.order.len() > 1 && (self.order.len() > CALLS_MAX || self.weight > WEIGHT_MAX) {
            let oldest = self.order.pop_front().unwrap_or_default();
            if let Some(known) = self.calls.remove(&oldest) {
                self.weight -= weight(&known.call);
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Yes,
    No,
}

fn unknown(id: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        title: String::new(),
        name: None,
        kind: ToolKind::Other,
        status: ToolStatus::Pending,
        locations: Vec::new(),
        content: Vec::new(),
        input: None,
        output: None,
    }
}

/// A call that nobody gave a title is called after its tool or its kind.
fn named(mut call: ToolCall) -> ToolCall {
    if call.title.trim().is_empty() {
        call.title = match (&call.name, call.kind) {
            (Some(name), _) => name.clone(),
            (None, ToolKind::Other) => "tool call".to_owned(),
            (None, kind) => kind.as_str().to_owned(),
        };
    }
    call
}

fn weight(call: &ToolCall) -> usize {
    let places: usize = call.locations.iter().map(|place| place.path.len()).sum();
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    call.id.len() + call.title.len() + length(&call.name) + places + length(&call.input)
}

#[cfg(test)]
mod tests {
    use domain::turn::Location;

    use super::*;

    fn update(id: &str) -> ToolUpdate {
        ToolUpdate {
            id: id.to_owned(),
            ..ToolUpdate::default()
        }
    }

    fn full(id: &str) -> ToolUpdate {
        ToolUpdate {
            title: Some("Run ls".to_owned()),
            name: Some("Bash".to_owned()),
            kind: Some(ToolKind::Execute),
            input: Some(r#"{"command":"ls"}"#.to_owned()),
            locations: Some(vec![Location {
                path: "/w/a".to_owned(),
                line: None,
            }]),
            ..update(id)
        }
    }

    #[test]
    fn a_bare_permission_takes_its_identity_from_the_call_seen_before() {
        let mut tools = KnownTools::default();
        let EventKind::ToolCall(told) = tools.tell(full("t")) else {
            panic!("it is the first word of it");
        };
        assert_eq!(tools.asked(update("t")), told);
        assert_eq!(told.name.as_deref(), Some("Bash"));
        let changed = ToolUpdate {
            title: Some("Run ls -a".to_owned()),
            ..update("t")
        };
        assert_eq!(tools.asked(changed).title, "Run ls -a");
    }

    #[test]
    fn a_call_that_only_its_permission_carried_is_told_at_the_first_update() {
        let mut tools = KnownTools::default();
        tools.asked(full("t"));
        let done = ToolUpdate {
            status: Some(ToolStatus::Completed),
            ..update("t")
        };
        let EventKind::ToolCall(call) = tools.tell(done.clone()) else {
            panic!("nobody was told of it");
        };
        assert_eq!(
            (call.title.as_str(), call.status),
            ("Run ls", ToolStatus::Completed)
        );
        assert_eq!(tools.tell(done.clone()), EventKind::ToolUpdate(done));
    }

    #[test]
    fn an_update_out_of_nowhere_is_a_call_with_some_title() {
        let mut tools = KnownTools::default();
        let EventKind::ToolCall(call) = tools.tell(update("t")) else {
            panic!("nobody was told of it");
        };
        assert_eq!(call.title, "tool call");
        let called = ToolUpdate {
            name: Some("bash".to_owned()),
            ..update("u")
        };
        let EventKind::ToolCall(call) = tools.tell(called) else {
            panic!("nobody was told of it");
        };
        assert_eq!(call.title, "bash");
    }

    #[test]
    fn memory_is_bounded_in_number_and_in_bytes() {
        let mut tools = KnownTools::default();
        for index in 0..2 * CALLS_MAX {
            tools.tell(full(&index.to_string()));
        }
        assert_eq!(
            (tools.calls.len(), tools.order.len()),
            (CALLS_MAX, CALLS_MAX)
        );
        for index in 0..4 {
            let mut large = full(&format!("large-{index}"));
            large.input = Some("x".repeat(WEIGHT_MAX / 2));
            tools.tell(large);
        }
        assert!(tools.weight <= WEIGHT_MAX);
        let weights: usize = tools.calls.values().map(|known| weight(&known.call)).sum();
        assert_eq!(weights, tools.weight);
    }
}
