//! What is told, without its secrets: the words in it are masked, never its ids, kinds and states.
//!
//! Each field is named here. A short secret may be a word such as `text` or `completed`; were everything masked that is a
//! string somewhere, that word would be taken out of the frame itself.

use domain::turn::{
    Ask, AskKind, AskOption, EventKind, Location, PlanEntry, ToolCall, ToolContent, ToolUpdate,
};
use serde_json::Value;
use workflow::Mask;

pub(super) fn event(kind: EventKind, mask: &Mask) -> EventKind {
    if mask.is_empty() {
        return kind;
    }
    let text = |text: String| mask.text(&text);
    match kind {
        EventKind::TurnStarted {
            turn,
            prompt,
            trace,
            by,
        } => EventKind::TurnStarted {
            turn,
            prompt: text(prompt),
            trace,
            by,
        },
        EventKind::Text { text: words } => EventKind::Text { text: text(words) },
        EventKind::Thought { text: words } => EventKind::Thought { text: text(words) },
        EventKind::ToolCall(call) => EventKind::ToolCall(tool(call, mask)),
        EventKind::ToolUpdate(told) => EventKind::ToolUpdate(update(told, mask)),
        EventKind::Plan { entries } => EventKind::Plan {
            entries: entries
                .into_iter()
                .map(|entry| PlanEntry {
                    text: text(entry.text),
                    ..entry
                })
                .collect(),
        },
        EventKind::Ask(Ask { id, kind }) => EventKind::Ask(Ask {
            id,
            kind: ask(kind, mask),
        }),
        EventKind::Artifact { path, change } => EventKind::Artifact {
            path: text(path),
            change,
        },
        EventKind::Notice { text: words } => EventKind::Notice { text: text(words) },
        // Nothing in these is said by a run.
        EventKind::AskSettled { .. }
        | EventKind::Usage(_)
        | EventKind::Other { .. }
        | EventKind::TurnEnded { .. } => kind,
    }
}

pub(super) fn ask(kind: AskKind, mask: &Mask) -> AskKind {
    if mask.is_empty() {
        return kind;
    }
    match kind {
        AskKind::Permission {
            tool: call,
            options,
            destructive,
        } => AskKind::Permission {
            tool: tool(call, mask),
            options: options
                .into_iter()
                .map(|option| AskOption {
                    name: mask.text(&option.name),
                    ..option
                })
                .collect(),
            destructive,
        },
        AskKind::Question { text, schema } => AskKind::Question {
            text: mask.text(&text),
            schema: schema.map(|schema| form(&schema, mask)),
        },
    }
}

/// The words of a form that people read.
fn form(schema: &str, mask: &Mask) -> String {
    match serde_json::from_str::<Value>(schema) {
        Ok(mut value) => {
            read_words(&mut value, mask);
            value.to_string()
        }
        Err(_) => mask.text(schema),
    }
}

fn read_words(schema: &mut Value, mask: &Mask) {
    const READ: [&str; 3] = ["title", "description", "default"];
    match schema {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(words) if READ.contains(&name.as_str()) => {
                        *words = mask.text(words);
                    }
                    other => read_words(other, mask),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| read_words(item, mask)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn tool(call: ToolCall, mask: &Mask) -> ToolCall {
    ToolCall {
        title: mask.text(&call.title),
        name: call.name.map(|name| mask.text(&name)),
        locations: locations(call.locations, mask),
        content: contents(call.content, mask),
        input: call.input.map(|input| mask.frame(&input)),
        output: call.output.map(|output| mask.frame(&output)),
        ..call
    }
}

fn update(told: ToolUpdate, mask: &Mask) -> ToolUpdate {
    ToolUpdate {
        title: told.title.map(|title| mask.text(&title)),
        name: told.name.map(|name| mask.text(&name)),
        locations: told.locations.map(|places| locations(places, mask)),
        content: told.content.map(|content| contents(content, mask)),
        input: told.input.map(|input| mask.frame(&input)),
        output: told.output.map(|output| mask.frame(&output)),
        ..told
    }
}

fn locations(places: Vec<Location>, mask: &Mask) -> Vec<Location> {
    let masked = |place: Location| Location {
        path: mask.text(&place.path),
        ..place
    };
    places.into_iter().map(masked).collect()
}

fn contents(content: Vec<ToolContent>, mask: &Mask) -> Vec<ToolContent> {
    let masked = |content| match content {
        ToolContent::Text { text } => ToolContent::Text {
            text: mask.text(&text),
        },
        ToolContent::Diff { path, old, new } => ToolContent::Diff {
            path: mask.text(&path),
            old: old.map(|old| mask.text(&old)),
            new: mask.text(&new),
        },
        ToolContent::Terminal { id } => ToolContent::Terminal { id },
    };
    content.into_iter().map(masked).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::turn::{OptionKind, ToolKind, ToolStatus};

    /// Words of our own frames, and one that is long.
    fn mask() -> Mask {
        let words = ["text", "completed", "execute", "s-1", "yes-1", "object"];
        let values = words.into_iter().chain(["supersecret-value-1"]);
        Mask::of_values(values.map(str::to_owned))
    }

    #[test]
    fn a_secret_that_is_a_word_of_the_frame_is_masked_in_texts_alone() {
        let told = EventKind::ToolUpdate(ToolUpdate {
            id: "s-1".to_owned(),
            status: Some(ToolStatus::Completed),
            kind: Some(ToolKind::Execute),
            content: Some(vec![ToolContent::Text {
                text: "key supersecret-value-1, kind text".to_owned(),
            }]),
            input: Some(r#"{"a":"supersecret-value-1"}"#.to_owned()),
            ..ToolUpdate::default()
        });
        let EventKind::ToolUpdate(shown) = event(told, &mask()) else {
            panic!("another event");
        };
        assert_eq!(shown.id, "s-1");
        assert_eq!(shown.status, Some(ToolStatus::Completed));
        let text = "key ***, kind ***".to_owned();
        assert_eq!(shown.content, Some(vec![ToolContent::Text { text }]));
        assert_eq!(shown.input.as_deref(), Some(r#"{"a":"***"}"#));
    }

    #[test]
    fn an_answer_to_a_masked_question_is_still_understood() {
        let option = AskOption {
            id: "yes-1".to_owned(),
            name: "Use supersecret-value-1".to_owned(),
            kind: OptionKind::AllowOnce,
        };
        let call = ToolCall {
            id: "s-1".to_owned(),
            title: "send supersecret-value-1".to_owned(),
            name: None,
            kind: ToolKind::Execute,
            status: ToolStatus::Pending,
            locations: Vec::new(),
            content: Vec::new(),
            input: None,
            output: None,
        };
        let asked = AskKind::Permission {
            tool: call,
            options: vec![option],
            destructive: false,
        };
        let AskKind::Permission { tool, options, .. } = ask(asked, &mask()) else {
            panic!("another question");
        };
        assert_eq!((tool.id.as_str(), tool.title.as_str()), ("s-1", "send ***"));
        assert_eq!(options[0].id, "yes-1");
        assert_eq!(options[0].name, "Use ***");
        let schema = r#"{"type":"object","title":"supersecret-value-1"}"#;
        assert_eq!(form(schema, &mask()), r#"{"type":"object","title":"***"}"#);
    }
}
