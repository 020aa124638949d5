//! From the events of a turn to words about how far it is. No clock and no IO: the turn decides when to send them.

use std::{collections::HashMap, mem};

use crate::{
    event::{Event, PlanEntry},
    settled::{self, Asked},
};

/// Bytes of the answer so far that a message shows: enough to read along, little enough to send many times a second.
const TEXT_MAX: usize = 2048;

/// Tools whose titles are remembered; an agent that uses more in one turn is told by id.
const TITLES_MAX: usize = 1024;

/// What a turn has shown so far, and what of it nobody has been told yet.
#[derive(Debug)]
pub(crate) struct Progress {
    state: State,
    /// The end of the answer so far.
    text: String,
    text_is_new: bool,
    titles: HashMap<String, String>,
    asked: Asked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Turns of others may come before ours.
    Waiting,
    Running(u64),
    Over,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Waiting,
            text: String::new(),
            text_is_new: false,
            titles: HashMap::new(),
            asked: Asked::default(),
        }
    }

    /// Takes an event in; `own` is the beginning of our turn. What is to be told at once is returned; text gathers until
    /// [`Progress::text`] takes it.
    pub(crate) fn take(&mut self, event: Event, own: bool) -> Option<String> {
        match (self.state, &event) {
            (State::Waiting, Event::TurnStarted { turn, .. }) if own => {
                self.state = State::Running(*turn);
                return Some("the agent has begun".to_owned());
            }
            (State::Waiting | State::Over, _) => return None,
            (State::Running(own), Event::TurnEnded { turn, .. }) if *turn == own => {
                self.state = State::Over;
                return None;
            }
            (State::Running(_), _) => {}
        }
        match event {
            Event::Text { text } => {
                self.say(&text);
                None
            }
            Event::ToolCall { id, title, status } => {
                let told = format!("tool {status}: {title}");
                if self.titles.len() < TITLES_MAX {
                    self.titles.insert(id, title);
                }
                Some(told)
            }
            Event::ToolUpdate { id, title, status } => {
                let title = title.or_else(|| self.titles.get(&id).cloned());
                status.map(|status| format!("tool {status}: {}", title.unwrap_or(id)))
            }
            Event::Plan { entries } => Some(plan(&entries)),
            Event::Ask(ask) => {
                let told = format!("the agent asks: {}", settled::question(&ask.kind));
                self.asked.ask(ask);
                Some(told)
            }
            Event::AskSettled { ask, answer, by } => {
                let told = self.asked.settle(&ask, &answer);
                Some(match by {
                    Some(by) => format!("{told}, by {by}"),
                    None => format!("{told}, since nobody was there"),
                })
            }
            Event::Artifact { path, change } => Some(format!("file {change}: {path}")),
            Event::Notice { text } => Some(text),
            Event::TurnStarted { .. } | Event::TurnEnded { .. } | Event::Other => None,
        }
    }

    /// Whether our turn has begun and not ended.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    /// Whether there is text that nobody has been told.
    pub(crate) fn has_text(&self) -> bool {
        self.text_is_new
    }

    /// The answer so far, if it has grown since it was last taken.
    pub(crate) fn text(&mut self) -> Option<String> {
        mem::take(&mut self.text_is_new).then(|| self.text.clone())
    }

    fn say(&mut self, text: &str) {
        self.text.push_str(text);
        self.text_is_new = true;
        if self.text.len() > TEXT_MAX {
            // Half is cut, so that not every piece that follows cuts again.
            let from = self.text.ceil_char_boundary(self.text.len() - TEXT_MAX / 2);
            self.text = format!("…{}", &self.text[from..]);
        }
    }
}

fn plan(entries: &[PlanEntry]) -> String {
    let done = entries
        .iter()
        .filter(|entry| entry.status == "completed")
        .count();
    let current = entries
        .iter()
        .find(|entry| entry.status == "in-progress")
        .map_or(String::new(), |entry| format!(": {}", entry.text));
    format!("plan {done}/{}{current}", entries.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words are the same for everybody: they do not tell whose turn it is.
    fn started(turn: u64) -> Event {
        Event::TurnStarted {
            turn,
            prompt: "go on".to_owned(),
        }
    }

    fn begun(turn: u64) -> Progress {
        let mut progress = Progress::new();
        assert!(progress.take(started(turn), true).is_some());
        progress
    }

    fn text(text: &str) -> Event {
        Event::Text {
            text: text.to_owned(),
        }
    }

    #[test]
    fn only_our_own_turn_is_told() {
        let mut progress = Progress::new();
        let stop = || crate::event::Stop {
            reason: "end-turn".to_owned(),
            message: None,
        };
        let theirs = [
            started(1),
            text("not for us"),
            Event::TurnEnded {
                turn: 1,
                stop: stop(),
            },
        ];
        for event in theirs {
            assert_eq!(progress.take(event, false), None);
        }
        assert!(progress.take(started(2), true).is_some());
        progress.take(text("a"), false);
        progress.take(text("b"), false);
        assert_eq!(progress.text().as_deref(), Some("ab"));
        assert_eq!(progress.text(), None);
        let ended = Event::TurnEnded {
            turn: 2,
            stop: stop(),
        };
        progress.take(ended, false);
        progress.take(text("of the next turn"), false);
        assert_eq!(progress.text(), None);
    }

    #[test]
    fn tools_and_plans_are_told_at_once() {
        let mut progress = begun(1);
        let call = Event::ToolCall {
            id: "t".to_owned(),
            title: "Write a.txt".to_owned(),
            status: "pending".to_owned(),
        };
        assert_eq!(
            progress.take(call, false).as_deref(),
            Some("tool pending: Write a.txt")
        );
        let update = Event::ToolUpdate {
            id: "t".to_owned(),
            title: None,
            status: Some("failed".to_owned()),
        };
        assert_eq!(
            progress.take(update, false).as_deref(),
            Some("tool failed: Write a.txt")
        );
        let entry = |text: &str, status: &str| PlanEntry {
            text: text.to_owned(),
            status: status.to_owned(),
        };
        let plan = Event::Plan {
            entries: vec![entry("read", "completed"), entry("write", "in-progress")],
        };
        assert_eq!(
            progress.take(plan, false).as_deref(),
            Some("plan 1/2: write")
        );
    }

    #[test]
    fn a_long_answer_is_told_by_its_end() {
        let mut progress = begun(1);
        for _ in 0..3000 {
            progress.take(text("ä"), false);
        }
        let told = progress.text().unwrap();
        assert!(told.len() <= TEXT_MAX + 4, "{}", told.len());
        assert!(told.starts_with('…') && told.ends_with('ä'));
    }
}
