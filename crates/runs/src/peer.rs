//! The driver of an agent on another node: its turns are runs there, its questions are asks here.

mod looking;

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use domain::turn::{Answer, AskKind, AskOption, EventKind, OptionKind, Stop, ToolCall};
use engine::{
    Calls, Continuity, Driver, DriverError, DriverFuture, EndpointAgent, Occasion, OpenSession,
    Opened, SessionSink, Turn, TurnOf,
};
use platform::files;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use wire::runs::{AwaitMetadata, Event, Message, Part, Run, RunMetadata, SessionInline};

use crate::client::{self, Client, ClientError, PeerAddress, RunStream};

/// How long a peer has to end a run that was cancelled.
const CANCEL_WITHIN: Duration = Duration::from_secs(10);

/// A file with a token in it.
const TOKEN_FILE_MAX: u64 = 4096;

/// Conversations of one agent that are open at a time; the engine closes those that are idle.
const OPEN_MAX: usize = 1024;

/// Questions of one turn that are answered no, by whomever: a peer that goes on asking wants no answer.
const REFUSED_MAX: usize = 20;

/// Questions of one turn in all. Work of a day may ask for hundreds of permissions; a policy would allow them without end.
const ASKS_MAX: usize = 1000;

/// Nodes of a chain that are told, and characters of their ids; no chain of ours is longer.
const NODES_MAX: usize = 16;
const NODE_ID_MAX: usize = 128;

/// Takes turns by asking an agent of another node.
#[derive(Debug)]
pub struct PeerDriver {
    client: Client,
    /// The agent there; without one the node decides.
    agent: Option<String>,
    /// The agent here.
    own_name: String,
    calls: Calls,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    sinks: HashMap<String, SessionSink>,
    /// Sessions that the peer has heard of.
    known: HashSet<String>,
    /// The session there, where the peer has forgotten the one that a conversation began with.
    renewed: HashMap<String, String>,
}

impl PeerDriver {
    /// Reads `url`, `agent`, `token`, `tokenEnv`, `tokenFile` and `fingerprint` from the backend's configuration.
    pub fn new(agent: &EndpointAgent, calls: Calls) -> Result<Self, DriverError> {
        let text = |key: &str| {
            let value = agent.config.get(key).and_then(Value::as_str);
            value.map(str::to_owned)
        };
        let url = text("url").ok_or_else(|| unsupported("be reached: its url is missing"))?;
        let address = PeerAddress {
            url,
            token: token(agent, &text)?,
            fingerprint: text("fingerprint"),
        };
        Ok(Self {
            client: Client::new(address)
                .map_err(|error| unsupported(&format!("be reached: {error}")))?,
            agent: text("agent"),
            own_name: agent.around.agent.clone(),
            calls,
            open: Mutex::default(),
        })
    }

    /// As the engine wants it.
    pub fn make(agent: &EndpointAgent, calls: Calls) -> Result<Arc<dyn Driver>, DriverError> {
        Ok(Arc::new(Self::new(agent, calls)?))
    }

    async fn open_session(&self, open: OpenSession) -> Result<Opened, DriverError> {
        let (id, continuity) = match open.resume {
            None => (Uuid::new_v4().to_string(), Continuity::Fresh),
            Some(id) => match self.client.knows_session(&id).await {
                Ok(true) => {
                    self.lock().known.insert(id.clone());
                    (id, Continuity::Resumed)
                }
                Ok(false) => {
                    let why = "the peer has forgotten the conversation".to_owned();
                    (Uuid::new_v4().to_string(), Continuity::Lost { why })
                }
                Err(error) => return Err(gone(&error)),
            },
        };
        let mut state = self.lock();
        if state.sinks.len() >= OPEN_MAX {
            return Err(unsupported("have more conversations at a time"));
        }
        state.sinks.insert(id.clone(), open.sink);
        Ok(Opened { id, continuity })
    }

    async fn take_turn(&self, turn: Turn) -> Result<Stop, DriverError> {
        let sink = self.lock().sinks.get(&turn.session).cloned();
        let sink = sink.ok_or_else(|| DriverError::Protocol {
            what: "the conversation is not open".to_owned(),
        })?;
        let left = match turn.options.occasion {
            Occasion::LateAnswer => self.left(&turn).await.map_err(|error| gone(&error))?,
            Occasion::Prompt => None,
        };
        let (mut stream, mut paused) = match left {
            Some(left) => left,
            None => match self.begun(&turn, &sink).await {
                Ok(stream) => (stream, None),
                Err(error) => return self.not_begun(error),
            },
        };
        let (mut told, mut asked) = (Told::default(), Asked::default());
        loop {
            let followed = match paused.take() {
                Some(paused) => paused,
                None => {
                    let following = self.follow(&mut stream, &sink, &turn.cancel, &mut told);
                    following.await?
                }
            };
            match followed {
                Followed::Over(stop) => return Ok(stop),
                Followed::Awaits { run, ask, kind } => {
                    let answer = tokio::select! { biased;
                        () = turn.cancel.cancelled() => Answer::Declined,
                        answer = sink.ask((*kind).clone(), None) => answer,
                    };
                    if turn.cancel.is_cancelled() {
                        let _ = self.client.cancel(&run).await; // It ends by itself when nobody answers.
                        return Ok(Stop::Cancelled);
                    }
                    if let Some(message) = asked.too_often(&kind, &answer) {
                        let _ = self.client.cancel(&run).await; // It ends by itself when nobody answers.
                        return Ok(Stop::Failed { message });
                    }
                    let message = Message::new("user", vec![Part::text(words(&kind, &answer))]);
                    let resumed = self
                        .client
                        .resume(&run, ask.as_deref(), message, stream.seen())
                        .await;
                    stream = resumed.map_err(|error| gone(&error))?;
                }
            }
        }
    }

    /// The run at the peer that an earlier turn has left, and what it awaits; nothing if it is over, or the peer does
    /// not tell.
    async fn left(
        &self,
        turn: &Turn,
    ) -> Result<Option<(RunStream, Option<Followed>)>, ClientError> {
        let session = self.session_there(&turn.session);
        let run = match self.client.active_run(&session).await {
            Ok(Some(run)) => self.client.read(&run).await?,
            Ok(None) => return Ok(None),
            Err(error) if error.is_not_found() || error.is_expired_session() => return Ok(None),
            Err(error) => return Err(error),
        };
        let stream = self.client.follow(&run.run_id);
        let paused = (run.status == "awaiting").then(|| awaits(run)).flatten();
        Ok(Some((stream, paused)))
    }

    /// The run of this turn; where the peer has forgotten the conversation, in a new one there.
    async fn begun(&self, turn: &Turn, sink: &SessionSink) -> Result<RunStream, ClientError> {
        match self.begin(turn).await {
            Err(error) if error.is_expired_session() => {
                let text = "the peer has forgotten the conversation; this begins a new one there";
                sink.emit(
                    EventKind::Notice {
                        text: text.to_owned(),
                    },
                    None,
                );
                let fresh = Uuid::new_v4().to_string();
                self.lock().renewed.insert(turn.session.clone(), fresh);
                self.begin(turn).await
            }
            begun => begun,
        }
    }

    async fn begin(&self, turn: &Turn) -> Result<RunStream, ClientError> {
        let chain = self.calls.chain(TurnOf {
            trace: turn.options.trace,
            agent: &self.own_name,
            prompt: &turn.prompt,
        });
        let session = self.session_there(&turn.session);
        let mut create = client::prompt(self.agent.clone(), turn.prompt.clone());
        create.metadata = Some(RunMetadata {
            source_agent_id: chain.last().cloned(),
            call_chain: chain.clone(),
            master_session_id: Some(turn.session.clone()),
            ..RunMetadata::default()
        });
        if self.lock().known.contains(&session) {
            create.session_id = Some(session.clone());
        } else {
            create.session = Some(SessionInline {
                id: session.clone(),
                history: Vec::new(),
                state: None,
            });
        }
        let stream = self.client.run(&create, &chain, turn.options.trace).await?;
        self.lock().known.insert(session);
        Ok(stream)
    }

    fn session_there(&self, conversation: &str) -> String {
        let renewed = self.lock().renewed.get(conversation).cloned();
        renewed.unwrap_or_else(|| conversation.to_owned())
    }

    /// A refusal ends the turn in words that the caller can act on; only a peer that is away is the driver's failure.
    fn not_begun(&self, error: ClientError) -> Result<Stop, DriverError> {
        match error {
            ClientError::Refused {
                message,
                suggestion,
                code,
                details,
                ..
            } => {
                let way_on = suggestion.map_or(String::new(), |way_on| format!(" ({way_on})"));
                let way_here = details.as_deref().and_then(way_here).unwrap_or_default();
                let url = self.client.url();
                Ok(Stop::Failed {
                    message: format!("{url} refused: {message} [{code}]{way_here}{way_on}"),
                })
            }
            error => Err(gone(&error)),
        }
    }

    /// Passes on what happens until the run awaits or is over. A cancel is passed on too, and its end awaited.
    async fn follow(
        &self,
        stream: &mut RunStream,
        sink: &SessionSink,
        cancel: &CancellationToken,
        told: &mut Told,
    ) -> Result<Followed, DriverError> {
        let mut is_cancelled = false;
        loop {
            let event = tokio::select! { biased;
                () = cancel.cancelled(), if !is_cancelled => {
                    is_cancelled = true;
                    if let Some(run) = stream.run_id() {
                        let _ = self.client.cancel(run).await; // Its end is not waited for for ever.
                    }
                    continue;
                }
                event = stream.next() => event.map_err(|error| gone(&error))?,
                () = tokio::time::sleep(CANCEL_WITHIN), if is_cancelled => return Ok(Followed::Over(Stop::Cancelled)),
            };
            let Some(event) = event else {
                return Err(DriverError::Protocol {
                    what: "the stream ended before the run did".to_owned(),
                });
            };
            if let Some(followed) = pass_on(event, sink, told) {
                return Ok(followed);
            }
            sink.room().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Driver for PeerDriver {
    fn is_there(&self) -> DriverFuture<'_, Result<(), DriverError>> {
        Box::pin(self.look())
    }

    fn open(&self, open: OpenSession) -> DriverFuture<'_, Result<Opened, DriverError>> {
        Box::pin(self.open_session(open))
    }

    fn turn(&self, turn: Turn) -> DriverFuture<'_, Result<Stop, DriverError>> {
        Box::pin(self.take_turn(turn))
    }

    fn ended(&self) -> DriverFuture<'_, ()> {
        Box::pin(std::future::pending()) // There is no process that could end.
    }

    fn close<'a>(&'a self, session: &'a str) -> DriverFuture<'a, ()> {
        // The session there lives on until it expires: ours may be taken up again.
        let mut open = self.lock();
        open.sinks.remove(session);
        open.known.remove(session);
        if let Some(there) = open.renewed.remove(session) {
            open.known.remove(&there);
        }
        drop(open);
        Box::pin(std::future::ready(()))
    }
}

/// How a stream of events ended.
enum Followed {
    Over(Stop),
    Awaits {
        run: String,
        /// Which question it is, where the peer says so.
        ask: Option<String>,
        kind: Box<AskKind>,
    },
}

/// What was passed on of the agent's words.
#[derive(Debug, Default)]
struct Told {
    has_parts: bool,
}

/// What a peer has asked in a turn.
#[derive(Debug, Default)]
struct Asked {
    count: usize,
    refused: usize,
}

impl Asked {
    /// Counts a question with its answer; says so where it was one too many.
    fn too_often(&mut self, kind: &AskKind, answer: &Answer) -> Option<String> {
        self.count += 1;
        if *answer == Answer::Declined || *answer == kind.denial() {
            self.refused += 1;
        }
        match () {
            () if self.refused >= REFUSED_MAX => Some(format!(
                "the peer has asked {REFUSED_MAX} questions that were declined or found nobody to answer them; its run was cancelled"
            )),
            () if self.count >= ASKS_MAX => Some(format!(
                "the peer has asked {ASKS_MAX} questions in one turn; its run was cancelled"
            )),
            () => None,
        }
    }
}

fn pass_on(event: Event, sink: &SessionSink, told: &mut Told) -> Option<Followed> {
    match event.kind.as_str() {
        "message.part" => {
            let part = event.part?;
            told.has_parts = true;
            if let Some(text) = part_text(&part) {
                sink.emit(EventKind::Text { text }, None);
            }
            None
        }
        "generic" => {
            if let Some(kind) = event.generic.and_then(known_event) {
                sink.emit(kind, None);
            }
            None
        }
        "run.awaiting" => awaits(event.run?),
        "run.completed" => {
            let run = event.run?;
            // Some servers tell no parts, only the whole at the end.
            if !told.has_parts {
                for text in run
                    .output
                    .iter()
                    .flat_map(|message| &message.parts)
                    .filter_map(part_text)
                {
                    sink.emit(EventKind::Text { text }, None);
                }
            }
            Some(Followed::Over(Stop::EndTurn))
        }
        "run.cancelled" => Some(Followed::Over(Stop::Cancelled)),
        "run.failed" | "error" => {
            let error = event.run.and_then(|run| run.error).or(event.error);
            let message = error.map_or("the run failed".to_owned(), |error| error.message);
            Some(Followed::Over(Stop::Failed { message }))
        }
        _ => None,
    }
}

fn awaits(run: Run) -> Option<Followed> {
    let kind = Box::new(ask(&run)?);
    Some(Followed::Awaits {
        ask: run.ask().map(str::to_owned),
        run: run.run_id,
        kind,
    })
}

/// The words of a part, or where its bytes are.
fn part_text(part: &Part) -> Option<String> {
    match (part.as_text(), &part.content_url) {
        (Some(text), _) => Some(text.to_owned()),
        (None, Some(url)) => {
            let name = part.name.as_deref().unwrap_or("attachment");
            Some(format!("\n[{name}]({url})\n"))
        }
        (None, None) => None,
    }
}

/// What a node of our own kind tells beside the answer.
fn known_event(generic: Value) -> Option<EventKind> {
    let kind = generic.get("kind_of_event")?.as_str()?;
    let text = || Some(generic.get("text")?.as_str()?.to_owned());
    match kind {
        "thought" => Some(EventKind::Thought { text: text()? }),
        "notice" => Some(EventKind::Notice { text: text()? }),
        "tool_call" => Some(EventKind::ToolCall(serde_json::from_value(generic).ok()?)),
        "tool_update" => Some(EventKind::ToolUpdate(serde_json::from_value(generic).ok()?)),
        "usage" => Some(EventKind::Usage(serde_json::from_value(generic).ok()?)),
        _ => None,
    }
}

/// What a run awaits, as an ask. An act that cannot be undone is a permission, so that no policy answers for a human.
fn ask(run: &Run) -> Option<AskKind> {
    let (message, metadata) = run.awaited()?;
    let words: Vec<&str> = message.parts.iter().filter_map(Part::as_text).collect();
    let text = words.join("\n");
    let is_final = metadata.is_some_and(AwaitMetadata::is_final);
    let told = metadata.and_then(|metadata| {
        let options = metadata.extra.get("options")?.clone();
        let tool = metadata.extra.get("tool")?.clone();
        let options: Vec<AskOption> = serde_json::from_value(options).ok()?;
        Some((options, serde_json::from_value::<ToolCall>(tool).ok()?))
    });
    Some(match told {
        Some((options, tool)) => AskKind::Permission {
            tool,
            options,
            destructive: is_final,
        },
        None if is_final => plain_permission(text),
        None => AskKind::Question { text, schema: None },
    })
}

/// A yes or no, where the peer tells no options.
fn plain_permission(title: String) -> AskKind {
    use domain::turn::{ToolKind, ToolStatus};
    let option = |id: &str, name: &str, kind| AskOption {
        id: id.to_owned(),
        name: name.to_owned(),
        kind,
    };
    AskKind::Permission {
        tool: ToolCall {
            id: Uuid::new_v4().to_string(),
            title,
            name: None,
            kind: ToolKind::Other,
            status: ToolStatus::Pending,
            locations: Vec::new(),
            content: Vec::new(),
            input: None,
            output: None,
        },
        options: vec![
            option("yes", "Yes", OptionKind::AllowOnce),
            option("no", "No", OptionKind::RejectOnce),
        ],
        destructive: true,
    }
}

fn words(kind: &AskKind, answer: &Answer) -> String {
    match answer {
        Answer::Option { id } => id.clone(),
        Answer::Text { text } => text.clone(),
        Answer::Declined => match kind {
            AskKind::Permission { .. } => "no".to_owned(),
            AskKind::Question { .. } => "There is no answer; go on as you can.".to_owned(),
        },
    }
}

/// The token itself, or the name of a variable or file that holds it.
fn token(
    agent: &EndpointAgent,
    text: &impl Fn(&str) -> Option<String>,
) -> Result<Option<String>, DriverError> {
    if let Some(token) = text("token") {
        return Ok(Some(token));
    }
    if let Some(name) = text("tokenEnv") {
        let value = agent.around.environment.get(OsStr::new(&name));
        let value = value.map(|value| value.to_string_lossy().into_owned());
        return value
            .map(Some)
            .ok_or_else(|| unsupported(&format!("find its token: {name} is not set for it")));
    }
    let Some(path) = text("tokenFile") else {
        return Ok(None);
    };
    let read = files::read_bounded(Path::new(&path), TOKEN_FILE_MAX);
    let bytes = read.map_err(|error| unsupported(&format!("read its token: {error}")))?;
    Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned()))
}

/// The nodes that have called one another until it was refused, in order.
fn way_here(details: &Value) -> Option<String> {
    let chain = details.get("call_chain")?.as_array()?;
    let ids = chain.iter().take(NODES_MAX).filter_map(Value::as_str);
    let ids: Vec<String> = ids.map(|id| neighbour::cut(id, NODE_ID_MAX)).collect();
    Some(format!("; called by way of {}", ids.join(" > ")))
}

fn unsupported(what: &str) -> DriverError {
    DriverError::Unsupported {
        what: what.to_owned(),
    }
}

fn gone(error: &ClientError) -> DriverError {
    match error {
        ClientError::Protocol { what } => DriverError::Protocol { what: what.clone() },
        ClientError::Address { .. }
        | ClientError::Unreachable { .. }
        | ClientError::Lost { .. }
        | ClientError::Refused { .. } => DriverError::Gone {
            how: error.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_of_a_turn_come_to_an_end_whatever_is_answered() {
        let kind = plain_permission("write".to_owned());
        let option = |id: &str| Answer::Option { id: id.to_owned() };
        for (answer, allowed) in [
            (option("no"), REFUSED_MAX - 1),
            (Answer::Declined, REFUSED_MAX - 1),
            (option("yes"), ASKS_MAX - 1),
        ] {
            let mut asked = Asked::default();
            for number in 0..allowed {
                assert_eq!(asked.too_often(&kind, &answer), None, "{number} {answer:?}");
            }
            assert!(asked.too_often(&kind, &answer).is_some(), "{answer:?}");
        }
    }
}
