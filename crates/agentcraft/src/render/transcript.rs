//! A conversation as it is shown: events in, text for the terminal out. It knows what stands on the current line.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use domain::turn::{
    Ask, AskId, AskKind, EventKind, FileChange, PlanEntry, PlanStatus, Stop, ToolCall, ToolStatus,
};

use super::{
    ask::{answer_text, ask_text},
    markdown::{Dialect, Markdown},
    style::{Style, Tone, many_lines, one_line},
    symbols::Symbols,
    tool::{tool_line, tool_outcome},
};

/// Tool calls that are remembered for later words on them; an agent with more at once is told less well.
const TOOLS_MAX: usize = 256;

/// Lines of a prompt that are repeated to those who did not write it.
const PROMPT_LINES_MAX: usize = 6;

/// Where the text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Surface {
    /// A terminal whose last line may be written anew.
    Terminal { width: usize },
    /// Something that only grows: a pipe, a file.
    Paper,
}

#[derive(Debug)]
pub(crate) struct Transcript {
    style: Style,
    symbols: Symbols,
    surface: Surface,
    /// What the current line belongs to.
    block: Block,
    text: Markdown,
    thought: Markdown,
    tools: BTreeMap<String, ToolCall>,
    plan: Vec<PlanEntry>,
    /// What the turn waits for, in the order it was asked. Most is answered by the policy at once, and then the answer says it all.
    asks: VecDeque<Ask>,
    /// The one that is in sight: one at a time, so that an answer is an answer to it.
    shown_ask: Option<AskId>,
    /// Tool calls whose changes were shown when they were asked about.
    shown_changes: BTreeSet<String>,
    /// Asks whose answer the reader has given and need not be told.
    own_answers: BTreeSet<AskId>,
    /// A prompt that the reader has typed and need not be told.
    own_prompt: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Block {
    /// The cursor is at the begin of a line.
    None,
    Text,
    Thought,
    /// The line of this call, still open.
    Tool(String),
}

impl Transcript {
    pub(crate) fn new(style: Style, symbols: Symbols, surface: Surface) -> Self {
        let (width, dialect) = match surface {
            Surface::Terminal { width } => (width, Dialect::Everything),
            Surface::Paper => (usize::MAX, Dialect::Verbatim),
        };
        let markdown = |dialect| Markdown::new(style, symbols, width, dialect);
        Self {
            style,
            symbols,
            surface,
            block: Block::None,
            text: markdown(dialect),
            thought: markdown(Dialect::Faint),
            tools: BTreeMap::new(),
            plan: Vec::new(),
            asks: VecDeque::new(),
            shown_ask: None,
            shown_changes: BTreeSet::new(),
            own_answers: BTreeSet::new(),
            own_prompt: None,
        }
    }

    /// The terminal has another width now.
    pub(crate) fn resize(&mut self, width: usize) {
        if let Surface::Terminal { .. } = self.surface {
            self.surface = Surface::Terminal { width };
            self.text.resize(width);
            self.thought.resize(width);
        }
    }

    /// This prompt stands on the screen already.
    pub(crate) fn typed(&mut self, prompt: &str) {
        self.own_prompt = Some(prompt.to_owned());
    }

    /// The reader has answered this one.
    pub(crate) fn answered(&mut self, ask: &AskId) {
        self.asks.retain(|open| open.id != *ask);
        self.own_answers.insert(ask.clone());
    }

    /// What to write for an event.
    pub(crate) fn event(&mut self, event: &EventKind) -> String {
        match event {
            EventKind::Text { text } => self.stream(Block::Text, text),
            EventKind::Thought { text } => self.stream(Block::Thought, text),
            EventKind::ToolCall(tool) => {
                if self.tools.len() >= TOOLS_MAX {
                    self.tools.pop_first();
                }
                self.tools.insert(tool.id.clone(), tool.clone());
                self.show_tool(&tool.id, None)
            }
            EventKind::ToolUpdate(update) => match self.tools.get_mut(&update.id) {
                Some(tool) => {
                    let before = (tool.status, tool.title.clone());
                    tool.merge(update);
                    let id = tool.id.clone();
                    self.show_tool(&id, Some(before))
                }
                None => String::new(),
            },
            EventKind::Plan { entries } => self.show_plan(entries),
            EventKind::Ask(ask) => {
                self.asks.push_back(ask.clone());
                String::new()
            }
            EventKind::AskSettled {
                ask, answer, by, ..
            } => {
                let known = self.asks.iter().find(|open| open.id == *ask).cloned();
                self.asks.retain(|open| open.id != *ask);
                if self.own_answers.remove(ask) {
                    return String::new();
                }
                let words = answer_text(known.as_ref(), answer, by.as_deref());
                self.note(Tone::Faint, &format!("  {words}"))
            }
            EventKind::TurnStarted { prompt, .. } => self.show_prompt(prompt),
            EventKind::TurnEnded { stop, .. } => self.show_end(stop),
            EventKind::Notice { text } => {
                self.note(Tone::Doubtful, &format!("note: {}", one_line(text)))
            }
            EventKind::Artifact { path, change } => {
                let verb = match change {
                    FileChange::Created => "created",
                    FileChange::Modified => "changed",
                    FileChange::Deleted => "deleted",
                };
                self.note(Tone::Faint, &format!("{verb} {}", one_line(path)))
            }
            EventKind::Usage(_) | EventKind::Other { .. } => String::new(),
        }
    }

    /// Shows what is held back: nothing has come for a moment.
    pub(crate) fn pause(&mut self) -> String {
        let mut out = match self.block {
            Block::Text => self.text.pause(),
            Block::Thought => self.thought.pause(),
            Block::None | Block::Tool(_) => String::new(),
        };
        let first = self.asks.front();
        if let Some(ask) = first
            .filter(|ask| self.shown_ask.as_ref() != Some(&ask.id))
            .cloned()
        {
            let text = ask_text(&ask, self.style);
            // Whoever decides sees first what would change.
            let change = match &ask.kind {
                AskKind::Permission { tool, .. } => {
                    self.shown_changes.insert(tool.id.clone());
                    tool_outcome(tool, self.style, self.symbols, self.width())
                }
                AskKind::Question { .. } => String::new(),
            };
            out.push_str(&self.close());
            out.push_str(&change);
            out.push_str(&text);
            self.shown_ask = Some(ask.id);
        }
        out
    }

    /// The question has gone out of sight.
    pub(crate) fn repeat_ask(&mut self) {
        self.shown_ask = None;
    }

    /// Ends the line that has begun, so that something else may be written.
    pub(crate) fn close(&mut self) -> String {
        match std::mem::replace(&mut self.block, Block::None) {
            Block::None => String::new(),
            Block::Text => self.text.finish(),
            Block::Thought => self.thought.finish(),
            Block::Tool(_) => "\n".to_owned(),
        }
    }

    fn width(&self) -> Option<usize> {
        match self.surface {
            Surface::Terminal { width } => Some(width),
            Surface::Paper => None,
        }
    }

    fn stream(&mut self, block: Block, text: &str) -> String {
        let mut out = if self.block == block {
            String::new()
        } else {
            self.close()
        };
        let markdown = match block {
            Block::Thought => &mut self.thought,
            Block::None | Block::Text | Block::Tool(_) => &mut self.text,
        };
        out.push_str(&markdown.push(text));
        self.block = block;
        out
    }

    /// Shows a call: at once and in place on a terminal, when it is over elsewhere.
    fn show_tool(&mut self, id: &str, before: Option<(ToolStatus, String)>) -> String {
        let Some(tool) = self.tools.get(id) else {
            return String::new();
        };
        let over = matches!(tool.status, ToolStatus::Completed | ToolStatus::Failed);
        let was_over = matches!(
            before,
            Some((ToolStatus::Completed | ToolStatus::Failed, _))
        );
        let changed = before
            .as_ref()
            .is_none_or(|(status, title)| *status != tool.status || *title != tool.title);
        let in_place = self.block == Block::Tool(id.to_owned());
        let live = matches!(self.surface, Surface::Terminal { .. });
        // A line that cannot be written anew is worth repeating only when the call is over.
        if was_over || !changed || !(over || live && (in_place || before.is_none())) {
            return String::new();
        }
        let line = tool_line(tool, self.style, self.symbols, self.width());
        let told = tool.status == ToolStatus::Completed && self.shown_changes.contains(id);
        let outcome = match over && !told {
            true => tool_outcome(tool, self.style, self.symbols, self.width()),
            false => String::new(),
        };
        let mut out = match in_place {
            true => "\r\x1b[K".to_owned(),
            false => self.close(),
        };
        out.push_str(&line);
        if over {
            self.block = Block::None;
            out.push('\n');
            out.push_str(&outcome);
        } else {
            self.block = Block::Tool(id.to_owned());
        }
        out
    }

    /// The whole plan at first, then what has changed.
    fn show_plan(&mut self, entries: &[PlanEntry]) -> String {
        let known = std::mem::replace(&mut self.plan, entries.to_vec());
        let mut out = self.close();
        for entry in entries.iter().filter(|entry| !known.contains(entry)) {
            let (tone, mark) = match entry.status {
                PlanStatus::Pending => (Tone::Faint, " "),
                PlanStatus::InProgress => (Tone::Doubtful, self.symbols.waiting),
                PlanStatus::Completed => (Tone::Good, self.symbols.done),
            };
            let mark = self.style.paint(tone, mark);
            out.push_str(&format!("[{mark}] {}\n", one_line(&entry.text)));
        }
        out
    }

    fn show_prompt(&mut self, prompt: &str) -> String {
        self.plan.clear();
        let mut out = self.close();
        if self.own_prompt.take().is_some_and(|own| own == prompt) {
            return out;
        }
        let text = many_lines(prompt);
        for line in text.lines().take(PROMPT_LINES_MAX) {
            let line = format!("> {line}");
            out.push_str(&format!("{}\n", self.style.paint(Tone::Strong, &line)));
        }
        if text.lines().count() > PROMPT_LINES_MAX {
            out.push_str(&format!("> {}\n", self.symbols.more));
        }
        out
    }

    fn show_end(&mut self, stop: &Stop) -> String {
        self.tools.clear();
        self.asks.clear();
        self.shown_changes.clear();
        let (tone, words) = match stop {
            Stop::EndTurn => return self.close(),
            Stop::Cancelled => (Tone::Doubtful, "cancelled".to_owned()),
            Stop::MaxTokens => (Tone::Doubtful, "stopped at the token limit".to_owned()),
            Stop::MaxTurnRequests => (Tone::Doubtful, "stopped at the limit of steps".to_owned()),
            Stop::Refusal => (Tone::Bad, "the agent refuses to go on".to_owned()),
            Stop::Failed { message } => (Tone::Bad, format!("failed: {}", one_line(message))),
        };
        self.note(tone, &words)
    }

    fn note(&mut self, tone: Tone, words: &str) -> String {
        format!("{}{}\n", self.close(), self.style.paint(tone, words))
    }
}

#[cfg(test)]
#[path = "transcript_tests.rs"]
mod tests;
