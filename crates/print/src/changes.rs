//! Changes of files that calls have told of. A later word on a call replaces all that it shows, and must not take them away.

use std::collections::BTreeMap;

use domain::turn::{EventKind, ToolContent, ToolStatus, ToolUpdate};

/// Calls in progress whose changes are remembered; programs carry out a few at a time.
const CALLS_MAX: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// By the id of the call.
    told: BTreeMap<String, Vec<ToolContent>>,
}

impl Changes {
    /// The event as it is told: what a call has changed stays with it, unless it failed and has changed nothing.
    pub(crate) fn keep(&mut self, event: EventKind) -> EventKind {
        match event {
            EventKind::ToolCall(call) => {
                let is_change =
                    |content: &&ToolContent| matches!(content, ToolContent::Diff { .. });
                let changes: Vec<_> = call.content.iter().filter(is_change).cloned().collect();
                if !changes.is_empty() {
                    if self.told.len() >= CALLS_MAX {
                        self.told.pop_first();
                    }
                    self.told.insert(call.id.clone(), changes);
                }
                EventKind::ToolCall(call)
            }
            EventKind::ToolUpdate(update) => EventKind::ToolUpdate(self.update(update)),
            other => other,
        }
    }

    fn update(&mut self, update: ToolUpdate) -> ToolUpdate {
        let changes = match update.status {
            Some(ToolStatus::Failed) => {
                self.told.remove(&update.id);
                return update;
            }
            Some(ToolStatus::Completed) => self.told.remove(&update.id),
            Some(ToolStatus::Pending | ToolStatus::InProgress) | None => {
                self.told.get(&update.id).cloned()
            }
        };
        let with = |content: Vec<ToolContent>| -> Vec<ToolContent> {
            let changes = changes.unwrap_or_default();
            changes.into_iter().chain(content).collect()
        };
        ToolUpdate {
            content: update.content.map(with),
            ..update
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool;

    fn shown(event: EventKind) -> Option<Vec<ToolContent>> {
        match event {
            EventKind::ToolUpdate(update) => update.content,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_edit_shows_its_change_until_it_fails() {
        let input = json!({"file_path": "/a", "old_string": "x", "new_string": "y"});
        let change = ToolContent::Diff {
            path: "/a".to_owned(),
            old: Some("x".to_owned()),
            new: "y".to_owned(),
        };
        let text = |text: &str| ToolContent::Text {
            text: text.to_owned(),
        };
        let mut changes = Changes::default();
        for id in ["1", "2"] {
            let call = tool::call(id, "Edit", &input, ToolStatus::InProgress);
            assert_eq!(call.content, std::slice::from_ref(&change));
            changes.keep(EventKind::ToolCall(call));
        }
        let told = |id, status, words: &str| {
            EventKind::ToolUpdate(tool::update(id, status, &json!(words)))
        };
        let so_far = changes.keep(told("1", ToolStatus::InProgress, "so far"));
        assert_eq!(shown(so_far), Some(vec![change.clone(), text("so far")]));
        let done = changes.keep(told("1", ToolStatus::Completed, "done"));
        assert_eq!(shown(done), Some(vec![change, text("done")]));
        let failed = changes.keep(told("2", ToolStatus::Failed, "no"));
        assert_eq!(shown(failed), Some(vec![text("no")]));
        assert!(changes.told.is_empty());
    }
}
