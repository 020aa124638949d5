//! Workflows and their runs: the problems of a file, a plan, a run as it happens and afterwards.

use std::{borrow::Cow, collections::BTreeMap, io, time::Duration};

use domain::turn::{Answer, AskId, AskKind, Event, EventKind, ToolContent, ToolStatus, ToolUpdate};
use jiff::Timestamp;
use runner::{RunDetail, RunState, RunView};
use serde_json::value::{RawValue, to_raw_value};
use workflow::{Plan, Problem, Severity, StepStatus, format_duration};

use super::{
    Screen, Stream, Symbols,
    fields::Fields,
    style::{Style, Tone, many_lines, one_line},
    table::{Cell, Column, Table},
    time::relative,
};
use crate::{args::TalkFormat, config::Config};

/// Stands in the id of a tool call between the step and the call of its agent.
const INNER: &str = "::";

/// A run as it happens.
#[derive(Debug)]
pub(crate) enum RunLines {
    /// A conversation on a terminal, with what each step has printed below its line.
    Terminal(Box<Stream>),
    /// Lines of JSON.
    Json(Box<Stream>),
    /// Plain lines: what steps and agents print to stdout, the progress to stderr.
    Plain(Plain),
}

#[derive(Debug, Default)]
pub(crate) struct Plain {
    /// Titles of calls in progress, and what they have printed.
    calls: BTreeMap<String, (String, String)>,
    /// The answer of an agent ends in the middle of a line.
    open_line: bool,
}

impl RunLines {
    pub(crate) fn new(format: TalkFormat, config: &Config, screen: &Screen) -> Self {
        let symbols = Symbols::of_locale(&config.environment);
        let stream = || Box::new(Stream::new(format, symbols, screen));
        match (format, screen.width()) {
            (TalkFormat::Text, None) => Self::Plain(Plain::default()),
            (TalkFormat::Text, Some(_)) => Self::Terminal(stream()),
            (TalkFormat::Json, _) => Self::Json(stream()),
        }
    }

    /// Whether what commands print is wanted line by line as it comes.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    pub(crate) fn event(&mut self, event: &Event, screen: &mut Screen) -> io::Result<()> {
        match self {
            Self::Plain(plain) => plain.event(&event.kind, screen),
            Self::Json(stream) => {
                let raw = to_raw_value(event)?;
                stream.event(&raw, Some(&event.kind), screen)
            }
            Self::Terminal(stream) => {
                let (kind, printed) = apart(&event.kind);
                stream.event(RawValue::NULL, Some(&kind), screen)?;
                let Some((status, printed)) = printed else {
                    return Ok(());
                };
                stream.close(screen)?;
                let text = ended(&printed);
                match status {
                    ToolStatus::Failed => screen.aside(&many_lines(&text)),
                    ToolStatus::Completed | ToolStatus::Pending | ToolStatus::InProgress => {
                        screen.print(&many_lines(&text))
                    }
                }
            }
        }
    }

    /// The person here has answered this one, and need not be told.
    pub(crate) fn answered(&mut self, ask: &AskId) {
        if let Self::Terminal(stream) | Self::Json(stream) = self {
            stream.answered(ask);
        }
    }

    /// The question has gone out of sight.
    pub(crate) fn repeat_ask(&mut self) {
        if let Self::Terminal(stream) | Self::Json(stream) = self {
            stream.repeat_ask();
        }
    }

    pub(crate) fn pause(&mut self, screen: &mut Screen) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Terminal(stream) | Self::Json(stream) => stream.pause(screen),
        }
    }

    pub(crate) fn close(&mut self, screen: &mut Screen) -> io::Result<()> {
        match self {
            Self::Plain(plain) => plain.end_line(screen),
            Self::Terminal(stream) | Self::Json(stream) => stream.close(screen),
        }
    }
}

/// The end of a step without what it has printed, and that: people want to read it whole.
fn apart(kind: &EventKind) -> (Cow<'_, EventKind>, Option<(ToolStatus, String)>) {
    let EventKind::ToolUpdate(update) = kind else {
        return (Cow::Borrowed(kind), None);
    };
    let (Some(status @ (ToolStatus::Completed | ToolStatus::Failed)), false) =
        (update.status, update.id.contains(INNER))
    else {
        return (Cow::Borrowed(kind), None);
    };
    let parts = update.content.iter().flatten().cloned();
    let (said, rest): (Vec<_>, Vec<_>) =
        parts.partition(|part| matches!(part, ToolContent::Text { .. }));
    let without = ToolUpdate {
        content: Some(rest),
        ..update.clone()
    };
    let printed = Some((status, texts(&said)));
    (Cow::Owned(EventKind::ToolUpdate(without)), printed)
}

impl Plain {
    fn event(&mut self, kind: &EventKind, screen: &mut Screen) -> io::Result<()> {
        match kind {
            EventKind::Text { text } => {
                self.open_line = !text.ends_with('\n');
                screen.words(text)
            }
            EventKind::ToolCall(call) => {
                let title = one_line(&call.title).into_owned();
                screen.note(&format!("started   {}{title}", indent(&call.id)))?;
                self.calls.insert(call.id.clone(), (title, String::new()));
                Ok(())
            }
            EventKind::ToolUpdate(update) => self.update(update, screen),
            EventKind::Notice { text } => screen.note(&many_lines(text)),
            EventKind::Ask(ask) => {
                let words = match &ask.kind {
                    AskKind::Permission { tool, .. } => &tool.title,
                    AskKind::Question { text, .. } => text,
                };
                screen.note(&format!("asks      {}", one_line(words)))
            }
            EventKind::AskSettled { answer, by, .. } => {
                let by = by.as_deref().unwrap_or("nobody");
                let words = match answer {
                    Answer::Option { id } => id,
                    Answer::Text { text } => text,
                    Answer::Declined => "declined",
                };
                screen.note(&format!("answered  {} ({by})", one_line(words)))
            }
            EventKind::TurnStarted { .. }
            | EventKind::Thought { .. }
            | EventKind::Plan { .. }
            | EventKind::Artifact { .. }
            | EventKind::Usage(_)
            | EventKind::Other { .. }
            | EventKind::TurnEnded { .. } => Ok(()),
        }
    }

    fn update(&mut self, update: &ToolUpdate, screen: &mut Screen) -> io::Result<()> {
        let (title, printed) = self.calls.entry(update.id.clone()).or_default();
        if let Some(content) = &update.content {
            *printed = texts(content);
        }
        if let Some(renamed) = &update.title {
            *title = one_line(renamed).into_owned();
        }
        let (Some(status @ (ToolStatus::Completed | ToolStatus::Failed)), title) =
            (update.status, title.clone())
        else {
            return Ok(());
        };
        let printed = std::mem::take(printed);
        self.calls.remove(&update.id);
        self.end_line(screen)?;
        let is_step = !update.id.contains(INNER);
        let (word, is_failure) = match status {
            ToolStatus::Failed => ("failed", true),
            ToolStatus::Completed | ToolStatus::Pending | ToolStatus::InProgress => ("done", false),
        };
        if is_failure {
            screen.aside(&ended(&printed))?;
        } else if is_step {
            screen.words(&ended(&printed))?;
        }
        screen.note(&format!("{word:<9} {}{title}", indent(&update.id)))
    }

    fn end_line(&mut self, screen: &mut Screen) -> io::Result<()> {
        match std::mem::take(&mut self.open_line) {
            true => screen.print("\n"),
            false => Ok(()),
        }
    }
}

fn indent(id: &str) -> &'static str {
    match id.contains(INNER) {
        true => "  ",
        false => "",
    }
}

fn texts(content: &[ToolContent]) -> String {
    let mut text = String::new();
    for part in content {
        if let ToolContent::Text { text: part } = part {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(part);
        }
    }
    text
}

/// With a line break at its end, unless it is empty.
fn ended(text: &str) -> String {
    match text.is_empty() || text.ends_with('\n') {
        true => text.to_owned(),
        false => format!("{text}\n"),
    }
}

/// Every problem on a line, as compilers tell them.
pub(crate) fn problem_lines(file: &str, problems: &[Problem], style: Style) -> String {
    let mut text = String::new();
    for problem in problems {
        let place = match (file, problem.line) {
            ("", _) => String::new(),
            (file, 0) => format!("{file}: "),
            (file, line) => format!("{file}:{line}:{}: ", problem.column),
        };
        let label = match problem.severity {
            Severity::Error => style.paint(Tone::Bad, "error"),
            Severity::Warning => style.paint(Tone::Doubtful, "warning"),
        };
        let hint = problem.hint.as_ref().map(|hint| format!(" ({hint})"));
        let words = format!(
            "{}: {}{}",
            problem.code,
            problem.message,
            hint.unwrap_or_default()
        );
        text.push_str(&format!("{place}{label}: {}\n", one_line(&words)));
    }
    text
}

/// What a workflow is and what it asks for.
pub(crate) fn workflow_detail(plan: &Plan, style: Style) -> String {
    let mut fields = Fields::new(style, &plan.name, (Tone::Normal, &plan.version));
    let inputs = plan.inputs.iter().map(|input| {
        let need = match (&input.default, input.required) {
            (Some(default), _) => format!(", default {default}"),
            (None, true) => ", required".to_owned(),
            (None, false) => String::new(),
        };
        let about = match input.description.as_str() {
            "" => String::new(),
            words => format!(": {words}"),
        };
        format!("{} ({}{need}){about}", input.name, input.kind.word())
    });
    fields
        .field("about", &plan.description)
        .field("author", &plan.author)
        .field("tags", &plan.tags.join(", "))
        .field("needs", &plan.environment.join(", "))
        .list("inputs", inputs);
    fields.finish()
}

pub(crate) fn run_table(runs: &[RunView]) -> Table {
    let now = Timestamp::now();
    let columns = [
        Column::whole("RUN"),
        Column::shortened("WORKFLOW"),
        Column::shortened("STATE"),
        Column::shortened("STARTED"),
        Column::shortened("TOOK"),
    ];
    let row = |run: &RunView| {
        let (tone, state) = state(run.state);
        let workflow = match &run.parent {
            None => run.workflow.clone(),
            Some(parent) => format!("{} (part of {parent})", run.workflow),
        };
        [
            Cell::toned(Tone::Strong, &run.id),
            Cell::new(&workflow),
            Cell::toned(tone, state),
            Cell::new(&relative(&moment(run.started_at), now)),
            Cell::new(&took(run.started_at, run.updated_at)),
        ]
    };
    Table::new(columns, runs.iter().map(row))
}

/// A run with its steps.
pub(crate) fn run_detail(detail: &RunDetail, style: Style) -> String {
    let run = &detail.view;
    let (tone, word) = state(run.state);
    let mut fields = Fields::new(style, &run.id, (tone, word));
    let inputs = detail
        .inputs
        .iter()
        .map(|(name, value)| format!("{name} = {value}"));
    let steps = detail.steps.iter().map(|step| {
        let record = &step.record;
        let error = record.error.as_ref().map(|error| format!(": {error}"));
        let exit = match record.status {
            StepStatus::Failed => format!(" (exit code {})", record.exit_code),
            StepStatus::Succeeded
            | StepStatus::TimedOut
            | StepStatus::Cancelled
            | StepStatus::Skipped => String::new(),
        };
        format!(
            "{} {}{exit} in {}{}",
            step.name,
            record.status.word(),
            took(record.started, record.ended),
            error.unwrap_or_default()
        )
    });
    fields
        .field("workflow", &run.workflow)
        .field("file", &run.path.to_string_lossy())
        .field("folder", &run.cwd.to_string_lossy())
        .field("part of", run.parent.as_deref().unwrap_or_default())
        .field("rerun of", run.rerun_of.as_deref().unwrap_or_default())
        .field("started", &moment(run.started_at))
        .field("took", &took(run.started_at, run.updated_at))
        .list("inputs", inputs)
        .list("steps", steps)
        .list("in progress", detail.in_progress.iter().cloned());
    if let Some(finish) = &run.finish {
        fields.field("message", &finish.message);
    }
    fields.finish()
}

fn state(state: RunState) -> (Tone, &'static str) {
    match state {
        RunState::Running => (Tone::Good, "running"),
        RunState::Waiting => (Tone::Doubtful, "waiting"),
        RunState::Interrupted => (Tone::Doubtful, "interrupted"),
        RunState::Succeeded => (Tone::Good, "succeeded"),
        RunState::Failed => (Tone::Bad, "failed"),
        RunState::Cancelled => (Tone::Faint, "cancelled"),
    }
}

fn moment(millis: i64) -> String {
    Timestamp::from_millisecond(millis).map_or_else(|_| String::new(), |moment| moment.to_string())
}

fn took(from: i64, to: i64) -> String {
    let millis = u64::try_from(to - from).unwrap_or(0);
    format_duration(Duration::from_millis(millis))
}
