//! `agentcraft run`: one prompt to an agent of any node over the runs API; what the run awaits is asked here.

use std::{pin::pin, sync::Arc};

use domain::turn::{Answer, Ask, AskId, AskKind, EventKind};
use runs::client::{self, Client, ClientError, PeerAddress, RunStream};
use serde_json::{Value, value::RawValue};
use tokio::sync::Notify;
use wire::runs::{Event, Message, Part, Run};

use super::{
    ask,
    talk::{PAUSE, prompt_text},
};
use crate::{
    args::{RemoteRunArgs, TalkFormat},
    config::Config,
    error::CommandError,
    exit::Exit,
    interrupt::Interrupts,
    node::token_of,
    render::{Screen, Stream, Symbols},
};

/// What an ask that declines is answered with, where only words are understood.
const NO_ANSWER: &str = "There is no answer; go on as you can.";

/// Questions that are answered no because nobody is here; whoever goes on asking wants no answer.
const UNANSWERED_MAX: usize = 20;

/// What somebody does whom the other node does not know.
const NO_TOKEN: &str = "name a file with a token of that node with --token-file; its owner makes one with `agentcraft token create NAME --right runs`";

/// A run that is followed.
struct Following<'a> {
    runtime: tokio::runtime::Runtime,
    client: Client,
    format: TalkFormat,
    stream: Stream,
    screen: &'a mut Screen,
    /// Whether parts of the answer came; some nodes tell only the whole.
    has_parts: bool,
    interrupts: Interrupts,
    pressed: Arc<Notify>,
    is_cancelled: bool,
    /// Questions that nobody was here to answer.
    unanswered: usize,
}

/// What came of waiting for an event.
type Told = Result<Option<Event>, ClientError>;

/// What ended a stream of events.
enum Pause {
    Awaits {
        run: String,
        /// Which question it is, where the node says so.
        ask: Option<String>,
        kind: Box<AskKind>,
    },
    Completed,
    Cancelled,
    Failed(String),
}

pub(super) fn run(
    arguments: RemoteRunArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let prompt = prompt_text(&arguments.prompt)?;
    let can_ask = arguments.prompt != "-" && screen.can_ask();
    let format = arguments.output.format;
    let client = Client::new(PeerAddress {
        url: arguments.url,
        token: token_of(arguments.token_file.as_deref())?,
        fingerprint: arguments.fingerprint,
    });
    let client = client.map_err(|error| failed(error, format, screen))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::machine("start the runtime", error))?;
    let mut stream = Stream::new(format, Symbols::of_locale(&config.environment), screen);
    stream.typed(&prompt);
    let pressed = Arc::new(Notify::new());
    let nudge = pressed.clone();
    let mut following = Following {
        runtime,
        client,
        format,
        stream,
        screen,
        has_parts: false,
        interrupts: Interrupts::listen(move || nudge.notify_one()),
        pressed,
        is_cancelled: false,
        unanswered: 0,
    };
    let create = client::prompt(arguments.agent, prompt);
    let begun = following
        .runtime
        .block_on(following.client.run(&create, &[], None));
    let mut events = begun.map_err(|error| failed(error, format, following.screen))?;
    loop {
        match following.follow(&mut events)? {
            Pause::Completed => return Ok(()),
            Pause::Cancelled => return Err(following.ended("the run was cancelled")),
            Pause::Failed(message) => return Err(following.ended(&message)),
            Pause::Awaits { run, .. } if following.is_asked_too_often(can_ask) => {
                // It ends by itself when nobody answers.
                let _ = following.runtime.block_on(following.client.cancel(&run));
                return Err(following.ended(&format!(
                    "the run has asked {UNANSWERED_MAX} times and nobody is here to answer, so it was cancelled"
                )));
            }
            Pause::Awaits { run, ask, kind } => {
                let seen = events.seen();
                let answered = following.answer(&run, ask.as_deref(), *kind, seen, can_ask)?;
                let Some(resumed) = answered else {
                    following.interrupt(&events)?;
                    return Err(following.ended("the run was cancelled"));
                };
                events = resumed;
            }
        }
    }
}

impl Following<'_> {
    /// Shows what happens until the run awaits or is over.
    fn follow(&mut self, events: &mut RunStream) -> Result<Pause, CommandError> {
        loop {
            if self.interrupts.take() {
                self.interrupt(events)?;
            }
            let Some(event) = self.next(events)? else {
                continue;
            };
            let event = event.map_err(|error| failed(error, self.format, self.screen))?;
            let Some(event) = event else {
                return Ok(Pause::Failed("the stream ended before the run did".into()));
            };
            if let Some(pause) = self.show(&event)? {
                self.stream.close(self.screen)?;
                return Ok(pause);
            }
        }
    }

    /// The next event; nothing if Ctrl-C was pressed. Waiting is one wait, however often it is looked at: a stream that has
    /// broken takes its time to come back.
    fn next(&mut self, events: &mut RunStream) -> Result<Option<Told>, CommandError> {
        let (stream, screen, pressed) = (&mut self.stream, &mut *self.screen, &self.pressed);
        let next = self.runtime.block_on(async {
            let mut next = pin!(events.next());
            loop {
                tokio::select! { biased;
                    () = pressed.notified() => return Ok(None),
                    event = &mut next => return Ok(Some(event)),
                    () = tokio::time::sleep(PAUSE) => stream.pause(screen)?,
                }
            }
        });
        next.map_err(CommandError::Print)
    }

    fn show(&mut self, event: &Event) -> Result<Option<Pause>, CommandError> {
        let pause = pause(event);
        let kind = match &pause {
            Some(Pause::Awaits { run, kind, .. }) => {
                Some(EventKind::Ask(asked(run, (**kind).clone())))
            }
            Some(Pause::Completed) if !self.has_parts => whole_text(event),
            Some(Pause::Completed | Pause::Cancelled | Pause::Failed(_)) => None,
            None => told(event),
        };
        self.has_parts |= matches!(kind, Some(EventKind::Text { .. }));
        self.stream
            .event(&raw(event)?, kind.as_ref(), self.screen)?;
        Ok(pause)
    }

    /// Cancels at the first Ctrl-C, leaves at the second.
    fn interrupt(&mut self, events: &RunStream) -> Result<(), CommandError> {
        match (
            events.run_id(),
            std::mem::replace(&mut self.is_cancelled, true),
        ) {
            (Some(run), false) => {
                let cancelled = self.runtime.block_on(self.client.cancel(run));
                cancelled.map_err(|error| failed(error, self.format, self.screen))
            }
            (None, _) | (Some(_), true) => {
                self.stream.close(self.screen)?;
                Err(CommandError::Shown(Exit::Failed))
            }
        }
    }

    /// Counts a question that nobody is here to answer.
    fn is_asked_too_often(&mut self, can_ask: bool) -> bool {
        self.unanswered += usize::from(!can_ask);
        self.unanswered > UNANSWERED_MAX
    }

    /// Answers what the run awaits; where there is nobody to ask, the answer is no. Nothing goes on after Ctrl-C.
    fn answer(
        &mut self,
        run: &str,
        meant: Option<&str>,
        kind: AskKind,
        seen: u64,
        can_ask: bool,
    ) -> Result<Option<RunStream>, CommandError> {
        let ask = asked(run, kind);
        let answer = if can_ask {
            ask::on_terminal(&ask)
        } else {
            self.screen
                .note("the run awaits an answer and nobody is here to give it: answered no")?;
            Some(ask.kind.denial())
        };
        let Some(answer) = answer else {
            return Ok(None);
        };
        let message = Message::new("user", vec![Part::text(words(&ask.kind, answer))]);
        let resumed = self
            .runtime
            .block_on(self.client.resume(run, meant, message, seen));
        let resumed = resumed.map_err(|error| failed(error, self.format, self.screen))?;
        Ok(Some(resumed))
    }

    fn ended(&mut self, message: &str) -> CommandError {
        match self.format {
            // Its last event says so.
            TalkFormat::Json => CommandError::Shown(Exit::Failed),
            TalkFormat::Text => CommandError::Refused {
                message: message.to_owned(),
                hint: "the node that ran it has the whole story in its journal".to_owned(),
            },
        }
    }
}

fn pause(event: &Event) -> Option<Pause> {
    match event.kind.as_str() {
        "run.awaiting" => {
            let run = event.run.as_ref()?;
            Some(Pause::Awaits {
                run: run.run_id.clone(),
                ask: run.ask().map(str::to_owned),
                kind: Box::new(awaited(run)?),
            })
        }
        "run.completed" => Some(Pause::Completed),
        "run.cancelled" => Some(Pause::Cancelled),
        "run.failed" | "error" => {
            let inner = event.run.as_ref().and_then(|run| run.error.as_ref());
            let error = inner.or(event.error.as_ref());
            let message = error.map_or("the run failed", |error| error.message.as_str());
            Some(Pause::Failed(message.to_owned()))
        }
        _ => None,
    }
}

/// What a run awaits: a choice where the node tells the options, words where it does not.
fn awaited(run: &Run) -> Option<AskKind> {
    let (message, metadata) = run.awaited()?;
    let choice = metadata.and_then(|metadata| {
        let part = |key: &str| metadata.extra.get(key).cloned();
        Some(AskKind::Permission {
            tool: serde_json::from_value(part("tool")?).ok()?,
            options: serde_json::from_value(part("options")?).ok()?,
            destructive: metadata.is_final(),
        })
    });
    let text: Vec<&str> = message.parts.iter().filter_map(Part::as_text).collect();
    let question = || AskKind::Question {
        text: text.join("\n"),
        schema: None,
    };
    Some(choice.unwrap_or_else(question))
}

fn asked(run: &str, kind: AskKind) -> Ask {
    Ask {
        id: AskId(run.to_owned()),
        kind,
    }
}

fn words(kind: &AskKind, answer: Answer) -> String {
    match (answer, kind) {
        (Answer::Option { id }, _) => id,
        (Answer::Text { text }, _) => text,
        (Answer::Declined, AskKind::Permission { .. }) => "no".to_owned(),
        (Answer::Declined, AskKind::Question { .. }) => NO_ANSWER.to_owned(),
    }
}

/// What an event says of the turn; nothing for what nodes of ours do not tell.
fn told(event: &Event) -> Option<EventKind> {
    if event.kind == "message.part" {
        let part = event.part.as_ref()?;
        let url = || Some(format!("\n{}\n", part.content_url.as_ref()?));
        let text = part.as_text().map(str::to_owned).or_else(url)?;
        return Some(EventKind::Text { text });
    }
    // Nodes of ours tell their own events in their own words, with dashes instead of underscores.
    let mut generic = event.generic.clone()?;
    let kind = generic.get("kind_of_event")?.as_str()?.replace('_', "-");
    generic["type"] = Value::from(kind);
    serde_json::from_value(generic).ok()
}

/// The answer of a node that tells no parts.
fn whole_text(event: &Event) -> Option<EventKind> {
    let parts = event.run.iter().flat_map(|run| &run.output);
    let text: String = parts
        .flat_map(|message| &message.parts)
        .filter_map(Part::as_text)
        .collect();
    (!text.is_empty()).then_some(EventKind::Text { text })
}

fn raw(event: &Event) -> Result<Box<RawValue>, CommandError> {
    serde_json::value::to_raw_value(event)
        .map_err(|error| CommandError::machine("write down an event", error))
}

/// The exit code tells a node that is away and an agent that is not there from a refusal.
fn failed(error: ClientError, format: TalkFormat, screen: &mut Screen) -> CommandError {
    let exit = match &error {
        ClientError::Unreachable { .. } | ClientError::Lost { .. } => Exit::Unreachable,
        ClientError::Address { .. } => Exit::Usage,
        ClientError::Refused { .. } if error.is_not_found() => Exit::NotFound,
        ClientError::Refused { .. } | ClientError::Protocol { .. } => Exit::Failed,
    };
    let message = error.to_string();
    let hint = match error {
        ClientError::Refused { status: 401, .. } => NO_TOKEN.into(),
        ClientError::Refused {
            suggestion: Some(suggestion),
            ..
        } => suggestion,
        error if error.is_about_certificate() => {
            "it signed its certificate itself: give --fingerprint sha256:… of it".into()
        }
        ClientError::Unreachable { .. } | ClientError::Lost { .. } => {
            "look at the address, and whether the node runs".into()
        }
        ClientError::Refused { .. }
        | ClientError::Address { .. }
        | ClientError::Protocol { .. } => "look at the address".into(),
    };
    screen.failure(&CommandError::Refused { message, hint }, format.into());
    CommandError::Shown(exit)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(value: Value) -> Event {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn an_await_with_options_is_a_choice_and_one_without_is_a_question() {
        let run = |metadata: Value| {
            json!({"type": "run.awaiting", "run": {
                "run_id": "r", "agent_name": "a", "status": "awaiting", "output": [],
                "await_request": {"type": "message", "metadata": metadata,
                    "message": {"role": "agent/a", "parts": [{"content_type": "text/plain", "content": "Which?"}]}},
            }})
        };
        let tool = json!({"id": "t", "title": "Write", "kind": "edit", "status": "pending"});
        let options = json!([{"id": "y", "name": "Allow", "kind": "allow-once"}]);
        let choice = event(run(json!({"tool": tool, "options": options})));
        assert!(matches!(
            pause(&choice),
            Some(Pause::Awaits { kind, .. })
                if matches!(&*kind, AskKind::Permission { options, .. } if options[0].id == "y")
        ));
        let question = event(run(json!({})));
        assert!(matches!(
            pause(&question),
            Some(Pause::Awaits { kind, .. })
                if matches!(&*kind, AskKind::Question { text, .. } if text == "Which?")
        ));
    }

    #[test]
    fn events_of_our_own_nodes_are_known_and_those_of_others_are_passed_over() {
        let thought =
            json!({"type": "generic", "generic": {"kind_of_event": "thought", "text": "hm"}});
        let text = "hm".to_owned();
        assert_eq!(told(&event(thought)), Some(EventKind::Thought { text }));
        let other = json!({"type": "generic", "generic": {"mood": "good"}});
        assert_eq!(told(&event(other)), None);
        let part = json!({"type": "message.part", "part": {"content_type": "text/plain", "content": "hi"}});
        let text = "hi".to_owned();
        assert_eq!(told(&event(part)), Some(EventKind::Text { text }));
    }
}
