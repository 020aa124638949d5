//! `agentcraft agent run` and `agent prompt`: one prompt, its answer as it comes.
//!
//! A session of its own is opened on the agent's way, if one is open, so that the answer streams. Without one the daemon
//! starts the agent for the prompt, and everything comes at the end.

mod reading;
mod turn;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use domain::turn::{Ask, EventKind, Stop};
use engine::SessionView;
use serde_json::{Value, value::RawValue};
use wire::daemon::{
    AgentPromptParams, PromptResult, RunOptions, RunParams, SessionAttachParams,
    SessionCancelParams, SessionCreateParams, SessionEventsParams,
};

pub(super) use reading::{PROMPT_MAX, prompt_text};
pub(super) use turn::{OwnTurn, Step};

use super::{ask, template::absolute};
use crate::{
    args::{PromptArgs, RunArgs, TalkFormat},
    config::Config,
    connection::Connection,
    conversation::{Conversation, Input, kind_of, read_as},
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
    prompt: String,
    /// Whose events are shown; none where the daemon starts the agent for the prompt.
    session: Option<String>,
    /// What the agent waits for.
    asks: VecDeque<Ask>,
}

pub(super) fn run(
    arguments: RunArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let prompt = prompt_text(&arguments.prompt)?;
    let format = arguments.output.format;
    let mut talk = Talk::open(config, format, prompt.clone(), screen)?;
    if let Some(name) = &arguments.name {
        let answers = arguments.prompt != "-" && talk.screen.can_ask();
        let wanted = arguments.session_id.as_deref();
        // A person sees an agent that is started for them at work. A script goes on when the agent has stopped again.
        let start = talk.screen.can_ask();
        talk.session = match talk.join(&name.to_string(), wanted, answers, start) {
            Ok(session) => Some(session),
            Err(error) if is_code(&error, &["AGENT_NOT_ATTACHED"]) => None,
            // Not one of ours, so perhaps the program's own.
            Err(error) if is_foreign(wanted) && is_code(&error, &["GENERIC_BUSINESS"]) => None,
            Err(error) => return Err(error),
        };
    }
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
            session_id: talk.session.clone().or(arguments.session_id),
            timeout_ms: arguments.timeout,
            max_turns: arguments.max_turns,
            model: arguments.model,
        },
        cleanup: arguments.template.is_some().then_some(!arguments.keep),
    };
    let call = talk.conversation.send("agent.run", &params)?;
    let result = talk.finish("agent.run", call, format)?;
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
    let mut talk = Talk::open(config, format, message.clone(), screen)?;
    let answers = arguments.message != "-" && talk.screen.can_ask();
    let name = arguments.name.to_string();
    let session = talk.join(&name, arguments.session_id.as_deref(), answers, false)?;
    talk.session = Some(session.clone());
    let params = AgentPromptParams {
        name,
        message,
        session_id: Some(session),
    };
    let call = talk.conversation.send("agent.prompt", &params)?;
    let result = talk.finish("agent.prompt", call, format)?;
    talk.conclude(&result, format, true)
}

impl<'a> Talk<'a> {
    fn open(
        config: &Config,
        format: TalkFormat,
        prompt: String,
        screen: &'a mut Screen,
    ) -> Result<Self, CommandError> {
        let conversation = Connection::open(config)?.converse()?;
        let mut stream = Stream::new(format, Symbols::of_locale(&config.environment), screen);
        stream.typed(&prompt);
        Ok(Self {
            conversation,
            screen,
            stream,
            prompt,
            session: None,
            asks: VecDeque::new(),
        })
    }

    /// The session that the prompt goes to: the one asked for, or a new one. An agent that does not run is started for
    /// it if `start` says so.
    fn join(
        &mut self,
        agent: &str,
        session: Option<&str>,
        answers: bool,
        start: bool,
    ) -> Result<String, CommandError> {
        let client_id = Some("command".to_owned());
        let view: SessionView = match session {
            Some(session) => self.conversation.call(
                "session.attach",
                &SessionAttachParams {
                    session_id: session.to_owned(),
                    client_id,
                    answers,
                    start,
                    ..SessionAttachParams::default()
                },
            )?,
            None => self.conversation.call(
                "session.create",
                &SessionCreateParams {
                    agent_name: agent.to_owned(),
                    client_id,
                    stream: true,
                    answers,
                    start,
                    ..SessionCreateParams::default()
                },
            )?,
        };
        Ok(view.session_id)
    }

    /// Shows the turn until its answer and its last event are there.
    fn finish(
        &mut self,
        method: &str,
        call: u64,
        format: TalkFormat,
    ) -> Result<Box<RawValue>, CommandError> {
        let mut own = OwnTurn::new(&self.prompt);
        let mut result: Option<(Box<RawValue>, Instant)> = None;
        let mut cancelled = false;
        loop {
            if let Some((answer, at)) = &result
                && (self.session.is_none()
                    || own.is_over_after(&read_as(method, answer)?)
                    || at.elapsed() > LATE)
            {
                let answer = answer.clone();
                if self.session.is_none() {
                    self.catch_up(&read_as(method, &answer)?, format)?;
                }
                self.stream.close(self.screen)?;
                return Ok(answer);
            }
            match self.conversation.next(PAUSE) {
                None | Some(Input::Nudge) => {
                    self.stream.pause(self.screen)?;
                    self.answer()?;
                }
                Some(Input::Event(event)) if Some(&event.session_id) == self.session.as_ref() => {
                    let kind = event.kind();
                    if own.takes(kind.as_ref()) != Step::Skip {
                        self.stream
                            .event(&event.event, kind.as_ref(), self.screen)?;
                        note_asks(&mut self.asks, kind.as_ref());
                    }
                }
                Some(Input::Event(_)) => {}
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

    /// Cancels at the first Ctrl-C, leaves at the second.
    fn interrupt(&mut self, cancelled: &mut bool) -> Result<(), CommandError> {
        match (&self.session, std::mem::replace(cancelled, true)) {
            (Some(session), false) => {
                let params = SessionCancelParams {
                    session_id: session.clone(),
                    own: true,
                };
                self.conversation.send("session.cancel", &params)?;
                Ok(())
            }
            (None, _) | (Some(_), true) => {
                self.stream.close(self.screen)?;
                Err(CommandError::Shown(Exit::Failed))
            }
        }
    }

    /// Asks the person at the terminal what the agent asks, if there is one.
    fn answer(&mut self) -> Result<(), CommandError> {
        let Some(session) = &self.session else {
            return Ok(());
        };
        if !self.screen.can_ask() {
            return Ok(());
        }
        while let Some(question) = self.asks.pop_front() {
            self.stream.close(self.screen)?;
            let answer = ask::on_terminal(&question);
            let params = ask::params(session, &question, answer);
            self.conversation.send("session.answer", &params)?;
        }
        Ok(())
    }

    /// What an agent that was started for the prompt has said, once it is known.
    fn catch_up(&mut self, result: &PromptResult, format: TalkFormat) -> Result<(), CommandError> {
        if format == TalkFormat::Text {
            self.stream.answer(&result.text, self.screen)?;
            return Ok(());
        }
        // Without the events the result alone has to do.
        let events = events(&mut self.conversation, &result.session_id).unwrap_or_default();
        let begins =
            |event: &RawValue| matches!(kind_of(event), Some(EventKind::TurnStarted { .. }));
        let first = events.iter().rposition(|event| begins(event)).unwrap_or(0);
        for event in &events[first..] {
            self.screen.line(event.get())?;
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

/// Whether a session is named that is none of ours.
fn is_foreign(session: Option<&str>) -> bool {
    session.is_some_and(|id| !id.starts_with("s-"))
}

/// Whether the daemon answered with one of these constants.
pub(super) fn is_code(error: &CommandError, codes: &[&str]) -> bool {
    matches!(error, CommandError::Remote(remote) if codes.contains(&remote.error_code.as_str()))
}
