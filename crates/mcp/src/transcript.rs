//! A session as a page of markdown.

use std::{collections::HashMap, fmt::Write};

use crate::{
    event::{Event, SessionView},
    settled::Asked,
};

/// The longest page: what a model can still be given. The rest is left out, and the page says so.
const PAGE_MAX: usize = 1024 * 1024;

/// A page that grows event by event.
#[derive(Debug)]
pub(crate) struct Transcript {
    page: String,
    /// Whether the last thing on the page is unfinished text of the agent.
    in_text: bool,
    titles: HashMap<String, String>,
    asked: Asked,
    full: bool,
}

impl Transcript {
    pub(crate) fn of(session: &SessionView) -> Self {
        let page = format!(
            "# Session {}\n\nAgent {}, {}, begun {}, turns: {}\n",
            session.session_id,
            session.agent_name,
            session.state,
            session.created_at,
            session.turns
        );
        Self {
            page,
            in_text: false,
            titles: HashMap::new(),
            asked: Asked::default(),
            full: false,
        }
    }

    /// Whether more events would be left out.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    pub(crate) fn add(&mut self, event: Event) {
        if self.full {
            return;
        }
        match event {
            Event::TurnStarted { turn, prompt } => {
                let quoted = prompt.replace('\n', "\n> ");
                self.block(&format!("## Turn {turn}\n\n> {quoted}"));
            }
            Event::Text { text } => {
                if !self.in_text {
                    self.page.push('\n');
                }
                self.page.push_str(&text);
                self.in_text = true;
            }
            Event::ToolCall { id, title, status } => {
                self.tool(&title, Some(&status));
                self.titles.insert(id, title);
            }
            Event::ToolUpdate { id, title, status } => {
                let title = title.or_else(|| self.titles.get(&id).cloned());
                self.tool(title.as_deref().unwrap_or(&id), status.as_deref());
            }
            Event::Ask(ask) => self.asked.ask(ask),
            Event::AskSettled { ask, answer, by } => {
                let told = self.asked.settle(&ask, &answer);
                let by = by.as_deref().unwrap_or("nobody");
                self.block(&format!("- {told} (by {by})"));
            }
            Event::Artifact { path, change } => self.block(&format!("- file {change}: `{path}`")),
            Event::Notice { text } => self.block(&format!("*{text}*")),
            Event::TurnEnded { stop, .. } if stop.reason != "end-turn" => {
                let message = stop.message.unwrap_or_default();
                let words = format!("{} {message}", stop.reason);
                self.block(&format!("*The turn ended: {}*", words.trim_end()));
            }
            Event::TurnEnded { .. } | Event::Plan { .. } | Event::Other => {}
        }
        if self.page.len() > PAGE_MAX {
            let end = self.page.floor_char_boundary(PAGE_MAX);
            self.page.truncate(end);
            self.block("*The rest is left out.*");
            self.full = true;
        }
    }

    pub(crate) fn into_page(mut self) -> String {
        if self.in_text {
            self.page.push('\n');
        }
        self.page
    }

    /// A tool call is told once, when it is over.
    fn tool(&mut self, title: &str, status: Option<&str>) {
        if let Some(status @ ("completed" | "failed")) = status {
            self.block(&format!("- {title}: {status}"));
        }
    }

    fn block(&mut self, text: &str) {
        if self.in_text {
            self.page.push('\n');
            self.in_text = false;
        }
        let _ = writeln!(self.page, "\n{text}"); // A string takes everything.
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Stop;

    fn session() -> SessionView {
        SessionView {
            session_id: "s-1".to_owned(),
            agent_name: "reviewer".to_owned(),
            state: "idle".to_owned(),
            turns: 1,
            created_at: "2026-11-15T00:00:00Z".to_owned(),
        }
    }

    #[test]
    fn a_session_reads_as_a_page() {
        let mut transcript = Transcript::of(&session());
        let text = |text: &str| Event::Text {
            text: text.to_owned(),
        };
        let events = [
            Event::TurnStarted {
                turn: 1,
                prompt: "look\nhere".to_owned(),
            },
            text("I "),
            text("look."),
            Event::ToolCall {
                id: "t".to_owned(),
                title: "Read a.txt".to_owned(),
                status: "pending".to_owned(),
            },
            Event::ToolUpdate {
                id: "t".to_owned(),
                title: None,
                status: Some("completed".to_owned()),
            },
            text("Done."),
            Event::TurnEnded {
                turn: 1,
                stop: Stop {
                    reason: "failed".to_owned(),
                    message: Some("no".to_owned()),
                },
            },
        ];
        for event in events {
            transcript.add(event);
        }
        assert_eq!(
            transcript.into_page(),
            "# Session s-1\n\nAgent reviewer, idle, begun 2026-11-15T00:00:00Z, turns: 1\n\n\
             ## Turn 1\n\n> look\n> here\n\nI look.\n\n- Read a.txt: completed\n\nDone.\n\n\
             *The turn ended: failed no*\n"
        );
    }

    #[test]
    fn a_page_has_an_end() {
        let mut transcript = Transcript::of(&session());
        while !transcript.is_full() {
            transcript.add(Event::Text {
                text: "ä".repeat(1000),
            });
        }
        let page = transcript.into_page();
        assert!(page.len() < PAGE_MAX + 100);
        assert!(page.ends_with("*The rest is left out.*\n"));
    }
}
