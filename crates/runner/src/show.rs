//! Telling what happens in a run as the events of a turn: a plan of its steps, a tool call for each step as it runs.
//!
//! Everything that is told goes through the mask, so that no secret of the environment gets out.

mod masked;
mod plan;
mod spent;
mod voices;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use domain::turn::{
    Answer, AskKind, EventKind, Location, PlanEntry, PlanStatus, Raw, Stop, ToolCall, ToolContent,
    ToolKind, ToolStatus, ToolUpdate,
};
use engine::SessionSink;
use workflow::{Announcement, Finish, Mask, MaskStream, Outcome, StepStatus};

use spent::Spent;
use voices::Voice;

pub(crate) use voices::Lines;

use crate::history;

/// What is shown of a step's output, where not all of it is wanted: its end.
const SHOWN_MAX: usize = 64 * 1024;

/// The kind of step in which a run ends.
const TERMINAL: &str = "terminal";

/// Whoever watches a run.
#[derive(Debug, Clone)]
pub struct Audience {
    sink: SessionSink,
    mask: Arc<RwLock<Mask>>,
    steps: Arc<Mutex<Progress>>,
    /// Texts on their way, of which the beginning of a secret may be held back.
    streams: Arc<Mutex<BTreeMap<(String, Voice), MaskStream>>>,
    /// What the agents of the turn have used.
    spent: Arc<Mutex<Spent>>,
    detail: Detail,
    /// Put before the ids of everything, so that no other run in the same conversation has the same.
    run: String,
    /// Put before the paths of the steps: of a run inside another.
    prefix: String,
}

/// How much those who watch are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Updates of calls, with the end of what a step prints.
    Shortened,
    /// In the end all that is kept of what a step has printed, and a line for each attempt that has failed.
    Whole,
    /// The same, but what commands print is said line by line as it comes, and is no part of their calls.
    Streamed,
}

#[derive(Debug, Default)]
struct Progress {
    /// In the order of the file, with how far each is.
    entries: Vec<PlanEntry>,
    /// What each of them is called, whatever has become of it.
    names: Vec<String>,
    /// Where among them a step is.
    places: HashMap<String, usize>,
    /// Where each step is written.
    written: HashMap<String, Location>,
    /// Changes that were not told yet.
    untold: usize,
    /// What was shown of the output of each step in progress: an update replaces all that was there.
    outputs: BTreeMap<String, String>,
    /// How often a path was started, so that a repeated step is a call of its own.
    sightings: BTreeMap<String, u32>,
    /// How often a run inside was begun at a path: each attempt of a step begins one.
    entered: BTreeMap<String, u32>,
}

impl Audience {
    pub fn new(sink: SessionSink, mask: Mask) -> Self {
        Self {
            sink,
            mask: Arc::new(RwLock::new(mask)),
            steps: Arc::default(),
            streams: Arc::default(),
            spent: Arc::default(),
            detail: Detail::Shortened,
            run: String::new(),
            prefix: String::new(),
        }
    }

    /// For those who print what is told and cannot look at a call again.
    #[must_use]
    pub fn told_everything(self) -> Self {
        Self {
            detail: Detail::Whole,
            ..self
        }
    }

    /// As above, for those who pass on every line as it comes.
    #[must_use]
    pub fn told_as_it_is_printed(self) -> Self {
        Self {
            detail: Detail::Streamed,
            ..self
        }
    }

    /// Whether what a command prints is told as it comes.
    pub(crate) fn is_streamed(&self) -> bool {
        self.detail == Detail::Streamed
    }

    /// What is taken out of everything that is told.
    fn mask(&self) -> Mask {
        let mask = self.mask.read().unwrap_or_else(PoisonError::into_inner);
        mask.clone()
    }

    /// How a run came out, as it may be told.
    pub fn masked(&self, finish: &Finish) -> Finish {
        history::masked(finish.clone(), &self.mask())
    }

    /// The same audience for one run, whose secrets nobody here is told from now on.
    pub(crate) fn of_run(&self, id: &str, secrets: &Mask) -> Self {
        // The end of an id is the part that chance has made.
        const LETTERS: usize = 8;
        let both = self.mask().and(secrets);
        *self.mask.write().unwrap_or_else(PoisonError::into_inner) = both;
        let from = id.ceil_char_boundary(id.len().saturating_sub(LETTERS));
        Self {
            run: match self.run.is_empty() {
                true => format!("{}:", &id[from..]),
                false => self.run.clone(),
            },
            ..self.clone()
        }
    }

    /// The last words of a run, and how the turn that it was ended.
    pub(crate) fn conclude(&self, finish: &Finish) -> Stop {
        if self.progress().untold > 0 {
            self.tell_plan();
        }
        if !finish.message.is_empty() && finish.outcome != Outcome::Failed {
            self.text(finish.message.clone());
        }
        match finish.outcome {
            Outcome::Succeeded => Stop::EndTurn,
            Outcome::Cancelled => Stop::Cancelled,
            Outcome::Failed => Stop::Failed {
                message: self.mask().text(&finish.message),
            },
        }
    }

    /// The same audience for a run inside this one.
    pub(crate) fn inside(&self, path: &str) -> Self {
        let times = {
            let mut progress = self.progress();
            let times = progress.entered.entry(path.to_owned()).or_default();
            *times += 1;
            *times
        };
        Self {
            prefix: match times {
                1 => format!("{}{path}/", self.prefix),
                more => format!("{}{path}#{more}/", self.prefix),
            },
            steps: Arc::default(),
            ..self.clone()
        }
    }

    pub(crate) fn announce(&self, announcement: &Announcement) {
        match announcement {
            Announcement::StepStarted {
                step,
                path,
                kind,
                description,
            } => {
                // The end of a run is told by its last words.
                if kind == TERMINAL {
                    return;
                }
                self.set(step, PlanStatus::InProgress, None);
                let written = self.progress().written.get(step).cloned();
                self.emit(EventKind::ToolCall(ToolCall {
                    id: self.begin(path),
                    title: self.title(path, description),
                    name: None,
                    kind: tool_kind(kind),
                    status: ToolStatus::InProgress,
                    locations: written.into_iter().collect(),
                    content: Vec::new(),
                    input: None,
                    output: None,
                }));
            }
            Announcement::StepRetrying {
                path,
                attempt,
                delay,
                error,
                ..
            } => {
                let pause = delay.map(|delay| format!(" in {}", workflow::format_duration(delay)));
                let words = format!(
                    "attempt {attempt} failed: {error}; trying again{}",
                    pause.unwrap_or_default()
                );
                if self.detail != Detail::Shortened {
                    self.notice(format!("{}{path}: {words}", self.prefix));
                }
                self.update(path, ToolStatus::InProgress, Some(words));
            }
            Announcement::StepEnded {
                step,
                path,
                status,
                error,
                ..
            } => {
                if !self.progress().sightings.contains_key(path) {
                    return;
                }
                self.flush(&self.own(path));
                let came_to = (*status != StepStatus::Succeeded).then_some(status.word());
                let came_to = came_to.map(|word| word.replace('_', " "));
                self.set(step, PlanStatus::Completed, came_to.as_deref());
                let (status, words) = match status {
                    StepStatus::Succeeded => (ToolStatus::Completed, None),
                    StepStatus::Skipped => {
                        self.rename(path, format!("{}{path} (skipped)", self.prefix));
                        (ToolStatus::Completed, None)
                    }
                    StepStatus::Failed => (ToolStatus::Failed, error.clone()),
                    StepStatus::TimedOut => (ToolStatus::Failed, Some("timed out".to_owned())),
                    StepStatus::Cancelled => (ToolStatus::Failed, Some("cancelled".to_owned())),
                };
                self.update(path, status, words);
            }
        }
    }

    /// What a step has printed so far. It may end in the middle of a secret, so the beginning of one is held back.
    pub(crate) fn output_so_far(&self, path: &str, text: &str) {
        self.output(path, &self.mask().stream().push(text));
    }

    /// All that is kept of what a step has printed.
    pub(crate) fn whole_output(&self, path: &str, text: &str) {
        let masked = self.mask().text(text);
        match self.detail {
            Detail::Shortened => self.output(path, &masked),
            Detail::Whole => {
                let id = self.current(path);
                self.progress().outputs.insert(id, masked); // It is told with the end of the step.
            }
            Detail::Streamed => {} // It was told.
        }
    }

    fn output(&self, path: &str, masked: &str) {
        let shown = shortened(masked);
        if shown.is_empty() {
            return;
        }
        let id = self.current(path);
        self.progress().outputs.insert(id, shown);
        self.update(path, ToolStatus::InProgress, None);
    }

    pub(crate) fn notice(&self, text: impl Into<String>) {
        self.emit(EventKind::Notice { text: text.into() });
    }

    /// Something that the run itself says, whole.
    pub(crate) fn text(&self, text: impl Into<String>) {
        self.emit(EventKind::Text { text: text.into() });
    }

    fn title(&self, path: &str, description: &str) -> String {
        let inside = &self.prefix;
        match description {
            "" => format!("{inside}{path}"),
            words => format!("{inside}{path}: {words}"),
        }
    }

    fn own(&self, path: &str) -> String {
        format!("{}{}{path}", self.run, self.prefix)
    }

    /// Asks whoever is there.
    pub(crate) async fn ask(&self, kind: AskKind, raw: Option<Raw>) -> Answer {
        let mask = self.mask();
        // Words that hold a secret are asked in our own.
        let raw = raw.filter(|raw| mask.frame(&raw.frame) == *raw.frame);
        self.sink.ask(masked::ask(kind, &mask), raw).await
    }

    /// Asks what the agent of a step asks: the call is the one that was told of, under the name it was told by.
    pub(crate) async fn ask_inner(&self, path: &str, kind: AskKind, raw: Option<Raw>) -> Answer {
        let own = |id: &str| format!("{}::{id}", self.own(path));
        let AskKind::Permission {
            tool,
            options,
            destructive,
        } = kind
        else {
            return self.ask(kind, raw).await;
        };
        let raw = raw.and_then(|raw| {
            let mut frame: serde_json::Value = serde_json::from_str(&raw.frame).ok()?;
            let id = frame.pointer_mut("/toolCall/toolCallId")?;
            *id = own(id.as_str()?).into();
            Some(Raw {
                frame: frame.to_string().into(),
                ..raw
            })
        });
        let tool = ToolCall {
            id: own(&tool.id),
            ..tool
        };
        let kind = AskKind::Permission {
            tool,
            options,
            destructive,
        };
        self.ask(kind, raw).await
    }

    pub(crate) async fn room(&self) {
        self.sink.room().await;
    }

    /// The tool call that stands for the step, for whoever decides about it.
    pub(crate) fn call_of(&self, path: &str, title: String, kind: ToolKind) -> ToolCall {
        ToolCall {
            id: self.current(path),
            title,
            name: None,
            kind,
            status: ToolStatus::Pending,
            locations: Vec::new(),
            content: Vec::new(),
            input: None,
            output: None,
        }
    }

    fn update(&self, path: &str, status: ToolStatus, words: Option<String>) {
        let id = self.current(path);
        let output = match status {
            ToolStatus::Completed | ToolStatus::Failed => self.progress().outputs.remove(&id),
            ToolStatus::Pending | ToolStatus::InProgress => {
                self.progress().outputs.get(&id).cloned()
            }
        };
        let is_over = matches!(status, ToolStatus::Completed | ToolStatus::Failed);
        let content: Vec<ToolContent> = output
            .into_iter()
            .chain(words.map(|words| self.mask().text(&words)))
            .map(|text| ToolContent::Text { text })
            .collect();
        let update = ToolUpdate {
            id,
            status: Some(status),
            // What was said of an earlier attempt goes when the step is over.
            content: (is_over || !content.is_empty()).then_some(content),
            ..ToolUpdate::default()
        };
        self.sink.emit(EventKind::ToolUpdate(update), None);
    }

    fn rename(&self, path: &str, title: String) {
        self.emit(EventKind::ToolUpdate(ToolUpdate {
            id: self.current(path),
            title: Some(title),
            ..ToolUpdate::default()
        }));
    }

    fn emit(&self, kind: EventKind) {
        self.sink.emit(masked::event(kind, &self.mask()), None);
    }

    /// The beginning of this step was told before.
    pub(crate) fn was_seen(&self, path: &str) {
        self.begin(path);
    }

    fn begin(&self, path: &str) -> String {
        *self
            .progress()
            .sightings
            .entry(path.to_owned())
            .or_default() += 1;
        self.current(path)
    }

    fn current(&self, path: &str) -> String {
        let sighting = self.progress().sightings.get(path).copied().unwrap_or(1);
        match sighting {
            1 => self.own(path),
            more => format!("{}#{more}", self.own(path)),
        }
    }

    fn progress(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of a text that is long, and how much was before it.
fn shortened(text: &str) -> String {
    let from = text.ceil_char_boundary(text.len().saturating_sub(SHOWN_MAX));
    match from {
        0 => text.to_owned(),
        from => format!("… {from} bytes before this\n{}", &text[from..]),
    }
}

fn tool_kind(word: &str) -> ToolKind {
    match word {
        "command" => ToolKind::Execute,
        "agent" => ToolKind::Think,
        "operation" => ToolKind::Fetch,
        _ => ToolKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use engine::{EventLog, Page};
    use tokio::sync::mpsc;

    use super::*;

    fn audience(log: &Arc<EventLog>) -> Audience {
        let (asks, _) = mpsc::channel(1);
        let mask = Mask::of_values(["abcdefgh12345678".to_owned()]);
        Audience::new(SessionSink::new(log.clone(), asks), mask)
    }

    fn told(log: &EventLog) -> Vec<EventKind> {
        match log.read(1, 100) {
            Page::Events(events) => events.iter().map(|event| event.kind.clone()).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn text(text: &str) -> EventKind {
        EventKind::Text {
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_secret_over_two_pieces_is_masked_and_each_source_has_its_own_pieces() {
        let log = Arc::new(EventLog::new(1));
        let audience = audience(&log);
        audience.inner("a", text("say abcdefgh"));
        audience.inner("b", text("12345678 is no secret"));
        audience.inner("a", text("12345678!"));
        audience.silence("a");
        assert_eq!(
            told(&log),
            [text("say "), text("12345678 is no secret"), text("***!")]
        );
    }

    #[test]
    fn what_was_held_back_comes_before_whatever_follows_it() {
        let log = Arc::new(EventLog::new(1));
        let audience = audience(&log);
        audience.inner("a", text("it begins abcd"));
        let notice = EventKind::Notice {
            text: "then".to_owned(),
        };
        audience.inner("a", notice.clone());
        assert_eq!(told(&log), [text("it begins "), text("abcd"), notice]);
    }

    #[test]
    fn output_that_ends_in_the_middle_of_a_secret_is_held_back_and_shown_whole_in_the_end() {
        let log = Arc::new(EventLog::new(1));
        let audience = audience(&log);
        audience.output_so_far("s", "key: abcdefgh1234");
        audience.whole_output("s", "key: abcdefgh12345678");
        let shown: Vec<String> = told(&log)
            .into_iter()
            .map(|kind| match kind {
                EventKind::ToolUpdate(update) => match update.content.unwrap().remove(0) {
                    ToolContent::Text { text } => text,
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(shown, ["key: ", "key: ***"]);
    }
}
