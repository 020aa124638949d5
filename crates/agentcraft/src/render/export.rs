//! A session as a Markdown document.

use domain::turn::{EventKind, Stop, ToolStatus};
use engine::SessionView;

use super::{ask::answer_text, style::one_line};

/// What has been written so far, and what the last thing was.
#[derive(Debug, Default)]
struct Document {
    text: String,
    /// Whether the agent's words may go on without a break.
    speaking: bool,
}

/// The document of a session with these events.
pub(crate) fn session_markdown<'a>(
    session: &SessionView,
    events: impl Iterator<Item = &'a EventKind>,
) -> String {
    let mut document = Document {
        text: format!(
            "# Session {}\n\nAgent `{}`, created {}, {} turns.\n",
            session.session_id, session.agent_name, session.created_at, session.turns
        ),
        speaking: false,
    };
    for event in events {
        document.add(event);
    }
    document.paragraph("");
    document.text
}

impl Document {
    fn add(&mut self, event: &EventKind) {
        match event {
            EventKind::TurnStarted { turn, prompt, .. } => {
                self.paragraph(&format!("## Turn {}\n\n{}", turn.0, quote(prompt)));
            }
            EventKind::Text { text } => {
                if !self.speaking {
                    self.text.push('\n');
                }
                self.speaking = true;
                self.text.push_str(text);
            }
            EventKind::ToolCall(tool) => {
                self.paragraph(&format!(
                    "- {} {}",
                    tool.kind.as_str(),
                    code(&one_line(&tool.title))
                ));
            }
            EventKind::ToolUpdate(update) if update.status == Some(ToolStatus::Failed) => {
                self.paragraph("- it failed");
            }
            EventKind::Ask(ask) => {
                let text = super::ask::ask_text(ask, super::Style::Plain);
                self.paragraph(&quote(text.trim_end()));
            }
            EventKind::AskSettled { answer, by, .. } => {
                self.paragraph(&quote(&answer_text(None, answer, by.as_deref())));
            }
            EventKind::Notice { text } => self.paragraph(&format!("_{}_", one_line(text))),
            EventKind::Artifact { path, .. } => {
                self.paragraph(&format!("- file {}", code(&one_line(path))));
            }
            EventKind::TurnEnded { stop, .. } => match stop {
                Stop::EndTurn => self.paragraph(""),
                Stop::Failed { message } => {
                    self.paragraph(&format!("**failed**: {}", one_line(message)));
                }
                stop => self.paragraph(&format!("**{}**", stop.as_str())),
            },
            EventKind::ToolUpdate(_)
            | EventKind::Thought { .. }
            | EventKind::Plan { .. }
            | EventKind::Usage(_)
            | EventKind::Other { .. } => {}
        }
    }

    fn paragraph(&mut self, text: &str) {
        if std::mem::take(&mut self.speaking) && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        if !text.is_empty() {
            self.text.push('\n');
            self.text.push_str(text);
            self.text.push('\n');
        }
    }
}

fn quote(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("> {line}")).collect();
    lines.join("\n")
}

/// A code span that may itself hold backticks.
fn code(text: &str) -> String {
    match text.contains('`') {
        true => format!("`` {text} ``"),
        false => format!("`{text}`"),
    }
}

#[cfg(test)]
mod tests {
    use domain::session::Lease;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_has_a_chapter_for_each_turn() {
        let events: Vec<EventKind> = serde_json::from_value(json!([
            {"type": "turn-started", "turn": 1, "prompt": "do\nit"},
            {"type": "text", "text": "I "},
            {"type": "text", "text": "do."},
            {"type": "tool-call", "id": "t", "title": "Write `a`", "kind": "edit", "status": "pending"},
            {"type": "tool-update", "id": "t", "status": "failed"},
            {"type": "turn-ended", "turn": 1, "stop": {"reason": "cancelled"}},
        ]))
        .unwrap();
        let session = SessionView {
            session_id: "s-1".to_owned(),
            agent_name: "x".to_owned(),
            client_id: None,
            state: Lease::Idle,
            created_at: "2026-11-15T10:00:00Z".to_owned(),
            last_activity_at: "2026-11-15T10:00:00Z".to_owned(),
            idle_ttl_ms: 1,
            turns: 1,
            prompt: None,
            busy: false,
            clients: 0,
            asks: 0,
            last_seq: 6,
        };
        assert_eq!(
            session_markdown(&session, events.iter()),
            "# Session s-1\n\nAgent `x`, created 2026-11-15T10:00:00Z, 1 turns.\n\n## Turn 1\n\n> do\n> it\n\n\
             I do.\n\n- edit `` Write `a` ``\n\n- it failed\n\n**cancelled**\n"
        );
    }
}
