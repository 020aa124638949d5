//! `agentcraft agent run` and `agent prompt`: one prompt, its answer as it comes.
//!
//! The daemon sends the events of the turn, and asks what it asks, on the connection that gave the prompt.

mod reading;
mod turn;

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use domain::turn::{Ask, EventKind, Stop};
use serde_json::{Value, value::RawValue};
use wire::daemon::{
    AgentPromptParams, PromptResult, RunOptions, RunParams, SessionCancelParams,
    SessionEventsParams,
};

pub(super) use reading::{PROMPT_MAX, prompt_text};
pub(super) use turn::{OwnTurn, Step};

use super::{ask, question::Question, template::absolute};
use crate::{
    args::{PromptArgs, RunArgs, TalkFormat},
    config::Config,
    connection::Connection,
    conversation::{Conversation, Input, SessionEvent, read_as},
    error::CommandError,
    exit::Exit,
    render::{Screen, Stream, Symbols},
};

/// How often a stream that pauses shows what it held back.
pub(super) const PAUSE: Duration = Duration::from_millis(60);

/// How long the events of a turn may come after its answer.
pub(super) const LATE: Duration = Duration::from_secs(5);

/// One prompt on its way.
struct Talk<'a> {
    conversation: Conversation,
    screen: &'a mut Screen,
    stream: Stream,
    /// Whose events are shown; a run learns it with the first of them.
    session: Option<String>,
    /// What the agent waits for.
    asks: VecDeque<Ask>,
    /// The first of it, at the terminal.
    question: Option<Question>,
}

pub(super) fn run(
    arguments: RunArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let prompt = prompt_text(&arguments.prompt)?;
    let format = arguments.output.format;
    let mut talk = Talk::open(config, format, &prompt, screen)?;
    let answers = talk.can_answer(&arguments.prompt, format);
    talk.session = arguments.session_id.clone().filter(|id| is_own(id));
    let system_prompt_file = arguments.system_prompt_file.as_deref().map(absolute);
    let params = RunParams {
        name: arguments.name.as_ref().map(ToString::to_string),
        template: arguments.template.as_ref().map(ToString::to_string),
        prompt,
        options: RunOptions {
            system_prompt_file: system_prompt_file
                .transpose()?
                .map(|path| path.to_string_lossy().into_owned()),
            append_system_prompt: arguments.append_system_prompt,
            session_id: arguments.session_id,
            timeout_ms: arguments.timeout,
            max_turns: arguments.max_turns,
            model: arguments.model,
            trace: None,
        },
        cleanup: arguments.template.is_some().then_some(!arguments.keep),
        stream: true,
        answers,
    };
    let call = talk.conversation.send("agent.run", &params)?;
    let result = talk.finish("agent.run", call)?;
    let goes_on = arguments.template.is_none() || arguments.keep;
    talk.conclude(&result, format, goes_on)
}

pub(super) fn prompt(
    arguments: PromptArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let message = prompt_text(&arguments.message)?;
    let format = arguments.output.format;
    let mut talk = Talk::open(config, format, &message, screen)?;
    let answers = talk.can_answer(&arguments.message, format);
    talk.session.clone_from(&arguments.session_id);
    let params = AgentPromptParams {
        name: arguments.name.to_string(),
        message,
        session_id: arguments.session_id,
        stream: true,
        answers,
    };
    let call = talk.conversation.send("agent.prompt", &params)?;
    let result = talk.finish("agent.prompt", call)?;
    talk.conclude(&result, format, true)
}

impl<'a> Talk<'a> {
    fn open(
        config: &Config,
        format: TalkFormat,
        prompt: &str,
        screen: &'a mut Screen,
    ) -> Result<Self, CommandError> {
        let conversation = Connection::open(config)?.converse()?;
        let mut stream = Stream::new(format, Symbols::of_locale(&config.environment), screen);
        stream.typed(prompt);
        Ok(Self {
            conversation,
            screen,
            stream,
            session: None,
            asks: VecDeque::new(),
            question: None,
        })
    }

    /// Whether there is a person who sees what is asked, and can answer it.
    fn can_answer(&self, prompt: &str, format: TalkFormat) -> bool {
        prompt != "-" && format == TalkFormat::Text && self.screen.can_ask()
    }

    /// Shows the turn until its answer and its last event are there.
    fn finish(&mut self, method: &str, call: u64) -> Result<Box<RawValue>, CommandError> {
        let mut own = OwnTurn::default();
        let mut result: Option<(Box<RawValue>, Instant)> = None;
        let mut cancelled = false;
        loop {
            if let Some((answer, at)) = &result
                && (own.is_over_after(&read_as(method, answer)?) || at.elapsed() > LATE)
            {
                let answer = answer.clone();
                self.stream.close(self.screen)?;
                return Ok(answer);
            }
            match self.conversation.next(PAUSE) {
                None | Some(Input::Nudge) => {
                    self.stream.pause(self.screen)?;
                    self.ask()?;
                }
                Some(Input::Event(event)) => self.event(&event, &mut own)?,
                Some(Input::Answer { id, result: answer }) if id == call => {
                    let answer = answer.inspect_err(|_| {
                        let _ = self.stream.close(self.screen); // The error is what counts.
                    })?;
                    result = Some((answer, Instant::now()));
                }
                Some(Input::Answer { .. } | Input::Over(_)) => {}
                Some(Input::Interrupt) => self.interrupt(&mut cancelled)?,
                Some(Input::Lost(error)) => return Err(error),
            }
        }
    }

    fn event(&mut self, event: &SessionEvent, own: &mut OwnTurn) -> Result<(), CommandError> {
        let session = self.session.get_or_insert_with(|| event.session_id.clone());
        if *session != event.session_id {
            return Ok(());
        }
        let kind = event.kind();
        if own.takes(kind.as_ref(), event.own) == Step::Skip {
            return Ok(());
        }
        note_asks(&mut self.asks, kind.as_ref());
        // Somebody else was faster, or the turn is over.
        let is_settled =
            |question: &mut Question| !self.asks.iter().any(|ask| question.is(&ask.id));
        if let Some(question) = self.question.take_if(is_settled) {
            question.take_away();
        }
        if let (Some(question), true) = (&mut self.question, kind.as_ref().is_some_and(is_shown)) {
            question.step_aside();
        }
        self.stream
            .event(&event.event, kind.as_ref(), self.screen)?;
        Ok(())
    }

    /// Cancels at the first Ctrl-C, leaves at the second.
    fn interrupt(&mut self, cancelled: &mut bool) -> Result<(), CommandError> {
        match (&self.session, std::mem::replace(cancelled, true)) {
            (Some(session), false) => {
                let params = SessionCancelParams {
                    session_id: session.clone(),
                    own: true,
                };
                self.conversation.send("session.cancel", &params)?;
                if let Some(question) = &mut self.question {
                    question.step_aside();
                }
                self.stream.close(self.screen)?;
                if self.screen.can_ask() {
                    // Terminals show the key itself as ^C.
                    self.screen.note("\ncancelling; Ctrl-C again leaves")?;
                }
                Ok(())
            }
            // The daemon takes back a prompt that nobody waits for any more before it is given.
            (None, _) | (Some(_), true) => {
                self.stream.close(self.screen)?;
                Err(CommandError::Shown(Exit::Failed))
            }
        }
    }

    /// Asks the person at the terminal what the agent asks, if there is one. What it is about stands above it already.
    fn ask(&mut self) -> Result<(), CommandError> {
        let (Some(session), Some(first)) = (&self.session, self.asks.front()) else {
            return Ok(());
        };
        if !self.screen.can_ask() {
            return Ok(());
        }
        let is_new = self.question.is_none();
        let question = match &mut self.question {
            Some(question) => question,
            none => {
                let waker = self.conversation.waker();
                let wake = Arc::new(move || waker.wake());
                none.insert(Question::open(first.clone(), wake)?)
            }
        };
        if let Some(answer) = question.answer() {
            let params = ask::params(session, question.asks(), answer);
            self.conversation.send("session.answer", &params)?;
            self.stream.answered(&question.asks().id);
            self.question = None;
            self.asks.pop_front();
        } else if !question.is_shown() {
            if !is_new {
                self.stream.repeat_ask();
            }
            self.stream.pause(self.screen)?;
            self.stream.close(self.screen)?;
            question.show();
        }
        Ok(())
    }

    /// Says how it ended.
    fn conclude(
        &mut self,
        answer: &RawValue,
        format: TalkFormat,
        goes_on: bool,
    ) -> Result<(), CommandError> {
        let result: PromptResult = read_as("agent.run", answer)?;
        match format {
            TalkFormat::Json => {
                let mut value: Value = read_as("agent.run", answer)?;
                value["type"] = "result".into();
                self.screen.json_line(&value)?;
            }
            TalkFormat::Text => {
                for path in result.artifacts.iter().flatten() {
                    self.screen
                        .note(&format!("changed {}", path.escape_debug()))?;
                }
                if goes_on && self.screen.err_width().is_some() {
                    let id = &result.session_id;
                    self.screen.note(&format!(
                        "go on with --session-id {id}, or `agentcraft session attach {id}`"
                    ))?;
                }
            }
        }
        match result.stop_reason.as_str() {
            reason if reason == Stop::EndTurn.as_str() => Ok(()),
            _ if format == TalkFormat::Json => Err(CommandError::Shown(Exit::Failed)),
            reason => Err(CommandError::Turn {
                message: result
                    .error
                    .unwrap_or_else(|| format!("the turn ended early ({reason})")),
                session: result.session_id,
            }),
        }
    }
}

/// Whether an event may write something below a question.
pub(super) fn is_shown(event: &EventKind) -> bool {
    !matches!(
        event,
        EventKind::Usage(_) | EventKind::Other { .. } | EventKind::Ask(_)
    )
}

/// Whether a session is one of ours, and not one of the program's own.
fn is_own(session: &str) -> bool {
    session.starts_with("s-")
}

/// Keeps the asks that wait for an answer.
pub(super) fn note_asks(asks: &mut VecDeque<Ask>, event: Option<&EventKind>) {
    match event {
        Some(EventKind::Ask(ask)) => asks.push_back(ask.clone()),
        Some(EventKind::AskSettled { ask, .. }) => asks.retain(|open| open.id != *ask),
        Some(EventKind::TurnEnded { .. }) => asks.clear(),
        _ => {}
    }
}

/// Every event of a session, page by page.
pub(super) fn events(
    conversation: &mut Conversation,
    session: &str,
) -> Result<Vec<Box<RawValue>>, CommandError> {
    let mut events: Vec<Box<RawValue>> = Vec::new();
    let mut from_seq = 1;
    loop {
        let params = SessionEventsParams {
            session_id: session.to_owned(),
            from_seq,
            limit: None,
        };
        let page: Vec<Box<RawValue>> = conversation.call("session.events", &params)?;
        let Some(last) = page.last() else {
            return Ok(events);
        };
        from_seq = seq(last) + 1;
        events.extend(page);
    }
}

pub(super) fn seq(event: &RawValue) -> u64 {
    let value: Value = serde_json::from_str(event.get()).unwrap_or_default();
    value
        .get("seq")
        .and_then(Value::as_u64)
        .unwrap_or(u64::MAX - 1)
}
