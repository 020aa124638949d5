//! The port for whatever can take a turn: a process that speaks ACP, a program run once for each prompt.
//!
//! The engine owns sessions, history and permissions; a driver only translates between an agent and a [`SessionSink`].

use std::{
    borrow::Cow, collections::BTreeMap, ffi::OsString, fmt, path::PathBuf, pin::Pin, sync::Arc,
    task::Poll, time::Duration,
};

use catalog::McpServer;
use domain::{
    Trace,
    turn::{Answer, AskKind, EventKind, Raw, Stop, ToolCall},
};
use platform::{
    Guardian, Owner, Tasks,
    process::{ChildStdin, ChildStdout},
};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::{
    EventLog,
    session::{About, Lent, NativeAnswer, NativeMessage, NativeOpen},
};

/// A future of a driver.
pub type DriverFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Takes turns for one agent. Every wait on the agent ends when the agent dies.
pub trait Driver: Send + Sync + fmt::Debug {
    /// Begins a conversation in the agent, or takes up an earlier one where the agent can.
    fn open(&self, open: OpenSession) -> DriverFuture<'_, Result<Opened, DriverError>>;

    /// Carries out one prompt. Events go to the sink that the session was opened with, all of them before this returns
    /// as far as the agent has sent them. When `cancel` fires the agent is told, and this still returns its stop reason.
    fn turn(&self, turn: Turn) -> DriverFuture<'_, Result<Stop, DriverError>>;

    /// Resolves when nothing can be said to the agent any more, though its process may live.
    fn ended(&self) -> DriverFuture<'_, ()>;

    /// Lets go of a conversation; the agent may forget it.
    fn close<'a>(&'a self, session: &'a str) -> DriverFuture<'a, ()>;

    /// Whether there is anybody to take turns, as far as that can be told: asked before an agent is kept that was made of
    /// what somebody wrote. Only who is surely not there is refused; one that is away now may come back.
    fn is_there(&self) -> DriverFuture<'_, Result<(), DriverError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// As [`Driver::open`], with the words of a client that speaks the agent's own protocol.
    fn open_with(
        &self,
        open: OpenSession,
        words: NativeOpen,
    ) -> DriverFuture<'_, Result<Opened, DriverError>> {
        drop(words);
        self.open(open)
    }

    /// As [`Driver::turn`], with the prompt in the words of the agent's own protocol.
    fn turn_with(&self, turn: Turn, words: Raw) -> DriverFuture<'_, Result<Stop, DriverError>> {
        drop(words);
        self.turn(turn)
    }

    /// A prompt as it is written down and shown, without the secrets in it.
    fn written(&self, prompt: &str) -> String {
        prompt.to_owned()
    }

    /// What the agent said of itself or of a conversation, word for word.
    fn said(&self, about: About<'_>) -> Option<Raw> {
        let _ = about;
        None
    }

    /// Passes on what only the agent's own protocol has words for.
    fn pass(&self, message: NativeMessage) -> DriverFuture<'_, Result<NativeAnswer, DriverError>> {
        let what = format!("be asked for {}", message.method);
        Box::pin(async move { Err(DriverError::Unsupported { what }) })
    }

    /// Lets a client do what the agent asks for in a conversation, for as long as the client is there.
    fn lend(&self, conversation: &str, client: Lent) {
        let _ = (conversation, client);
    }
}

/// What a conversation needs.
#[derive(Debug)]
pub struct OpenSession {
    /// Absolute.
    pub cwd: PathBuf,
    pub mcp_servers: Vec<McpServer>,
    /// The agent's own id of a conversation to take up.
    pub resume: Option<String>,
    /// Where everything goes that happens in it, in a turn or between turns.
    pub sink: SessionSink,
}

/// A conversation in the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The agent's own id.
    pub id: String,
    pub continuity: Continuity,
}

/// Whether the agent knows what was said before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Continuity {
    /// Nothing was to be taken up.
    Fresh,
    Resumed,
    /// The agent cannot take it up; the words say why.
    Lost {
        why: String,
    },
}

/// One prompt.
#[derive(Debug)]
pub struct Turn {
    /// The agent's own id of the conversation.
    pub session: String,
    pub prompt: String,
    pub options: TurnOptions,
    pub cancel: CancellationToken,
}

impl Turn {
    /// The prompt for an agent that has no word for instructions: they stand before it.
    pub fn told(&self) -> Cow<'_, str> {
        match self.options.instructions() {
            Some(instructions) => Cow::Owned(format!("{instructions}\n\n{}", self.prompt)),
            None => Cow::Borrowed(&self.prompt),
        }
    }
}

/// What a caller may ask for beside the prompt; drivers ignore what their agent has no word for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnOptions {
    pub system_prompt_file: Option<PathBuf>,
    /// What stands in that file; the engine reads it before the turn.
    pub system_prompt: Option<String>,
    pub append_system_prompt: Option<String>,
    pub max_turns: Option<u32>,
    pub model: Option<String>,
    pub timeout: Option<Duration>,
    /// What the turn belongs to; one that belongs to nothing begins a trace of its own.
    pub trace: Option<Trace>,
    pub occasion: Occasion,
}

/// Why there is a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Occasion {
    #[default]
    Prompt,
    /// An earlier turn of the conversation has asked, and was gone when it was answered; the prompt tells the answer in
    /// words. A driver whose work outlives its turns goes on with that work instead, and asks again: the answer stands.
    LateAnswer,
}

impl TurnOptions {
    /// What the agent is to be told before the prompt.
    pub fn instructions(&self) -> Option<String> {
        let parts = [&self.system_prompt, &self.append_system_prompt];
        let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }
}

/// Why a driver could not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    #[error("the agent's process ended ({how})")]
    Gone { how: String },
    #[error("the agent answered with an error: {message} ({code})")]
    Refused { code: i64, message: String },
    #[error("the agent did not answer {what} within {} s", limit.as_secs())]
    Silent { what: &'static str, limit: Duration },
    #[error("the agent does not follow its protocol: {what}")]
    Protocol { what: String },
    #[error("this agent cannot {what}")]
    Unsupported { what: String },
    #[error("could not run the agent's program: {why}")]
    Program { why: String },
}

/// What a driver may use of the machine.
#[derive(Debug, Clone)]
pub struct DriverSurroundings {
    pub tasks: Tasks,
    pub guardian: Guardian,
    pub owner: Owner,
    /// The agent's name, of which process tags are made: `NAME.SUFFIX` for each further process.
    pub agent: String,
    pub workspace: PathBuf,
    /// The whole environment of a child.
    pub environment: BTreeMap<OsString, OsString>,
    /// How long the agent may take to answer its first request.
    pub start_timeout: Duration,
}

/// A started process whose standard streams speak ACP.
#[derive(Debug)]
pub struct AcpProcess {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub around: DriverSurroundings,
}

/// A program that is run once for each prompt.
#[derive(Debug, Clone)]
pub struct PrintProgram {
    /// `claude-code`, `codex`, …, or `command` for a program of the user's.
    pub backend: String,
    /// The program the template names, instead of the backend's own.
    pub program: Option<PathBuf>,
    /// Arguments of a `command`, in which `{{prompt}}` stands for the prompt.
    pub args: Option<Vec<String>>,
    pub model: Option<String>,
    pub around: DriverSurroundings,
}

/// An agent without a program of its own: a model endpoint, a workflow, somebody else's agent.
#[derive(Debug, Clone)]
pub struct EndpointAgent {
    /// The word of the backend: `openai-compatible`, `workflow`, `peer`, `a2a`, `delegation`.
    pub backend: String,
    /// What the template says of the backend, as written.
    pub config: Map<String, Value>,
    pub model: Option<String>,
    pub around: DriverSurroundings,
}

/// Makes the drivers of agents without a program; nothing if this build has none for the backend.
#[derive(Clone)]
pub struct EndpointDrivers {
    make: Arc<MakeEndpoint>,
    stamp: Arc<StampOf>,
}

impl fmt::Debug for EndpointDrivers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EndpointDrivers")
    }
}

type MakeEndpoint = dyn Fn(EndpointAgent) -> Result<Arc<dyn Driver>, DriverError> + Send + Sync;

type StampOf = dyn Fn(&str, &Map<String, Value>) -> u64 + Send + Sync;

impl EndpointDrivers {
    pub fn new(
        make: impl Fn(EndpointAgent) -> Result<Arc<dyn Driver>, DriverError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            make: Arc::new(make),
            stamp: Arc::new(|_, _| 0),
        }
    }

    /// With a function of the backend and its configuration that changes whenever a driver has to be made anew.
    #[must_use]
    pub fn stamped(
        self,
        stamp: impl Fn(&str, &Map<String, Value>) -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self {
            stamp: Arc::new(stamp),
            ..self
        }
    }

    /// A node without any.
    pub fn none() -> Self {
        Self::new(|agent| {
            Err(DriverError::Unsupported {
                what: format!(
                    "run on {}: this program was built without it",
                    agent.backend
                ),
            })
        })
    }

    /// The driver of this agent.
    pub fn make(&self, agent: EndpointAgent) -> Result<Arc<dyn Driver>, DriverError> {
        (self.make)(agent)
    }

    /// A driver that was made under another stamp knows what no longer holds.
    pub(crate) fn stamp(&self, backend: &str, config: Option<&Map<String, Value>>) -> u64 {
        let none = Map::new();
        (self.stamp)(backend, config.unwrap_or(&none))
    }
}

/// A driver on its way.
pub type Connecting = DriverFuture<'static, Result<Arc<dyn Driver>, DriverError>>;

/// The drivers of this build, given to the engine by whoever assembles it.
#[derive(Clone)]
pub struct Drivers {
    /// Shakes hands with the process; returns once it has answered.
    pub acp: fn(AcpProcess) -> Connecting,
    /// Nothing if the backend has no such mode.
    pub print: fn(PrintProgram) -> Option<Arc<dyn Driver>>,
    pub endpoint: EndpointDrivers,
}

impl fmt::Debug for Drivers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Drivers")
    }
}

/// Where a driver puts what happens in one session.
#[derive(Debug, Clone)]
pub struct SessionSink {
    log: Arc<EventLog>,
    asks: mpsc::Sender<AskRequest>,
    rules: Option<Rules>,
}

/// What a session's policy denies, for acts that nobody is asked about.
#[derive(Clone)]
pub struct Rules(Arc<Denied>);

type Denied = dyn Fn(&ToolCall) -> Option<String> + Send + Sync;

impl Rules {
    /// The function says why an act is denied, if it is.
    pub fn new(denied: impl Fn(&ToolCall) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(denied))
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rules")
    }
}

/// An ask on its way to whoever decides.
#[derive(Debug)]
pub struct AskRequest {
    pub kind: AskKind,
    pub raw: Option<Raw>,
    pub answer: Answering,
}

/// The way back for an answer.
#[derive(Debug)]
pub struct Answering(oneshot::Sender<Answered>);

/// An answer, with the client's own words where it has some that the agent understands.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    pub answer: Answer,
    pub words: Option<Raw>,
}

impl Answered {
    fn declined() -> Self {
        Self {
            answer: Answer::Declined,
            words: None,
        }
    }
}

impl Answering {
    /// Gives it back if nobody waits for it any more.
    pub fn send(self, answer: Answer) -> Result<(), Answer> {
        self.send_with(answer, None)
    }

    pub(crate) fn send_with(self, answer: Answer, words: Option<Raw>) -> Result<(), Answer> {
        let sent = self.0.send(Answered { answer, words });
        sent.map_err(|unheard| unheard.answer)
    }

    /// Resolves when nobody waits for it any more.
    pub async fn closed(&mut self) {
        self.0.closed().await;
    }

    /// Whether nobody waits for it any more.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// As [`Answering::closed`], for whoever looks at several.
    pub fn poll_closed(&mut self, context: &mut std::task::Context<'_>) -> Poll<()> {
        self.0.poll_closed(context)
    }
}

impl SessionSink {
    /// A sink into `log`, with asks going to whoever reads the other end.
    pub fn new(log: Arc<EventLog>, asks: mpsc::Sender<AskRequest>) -> Self {
        Self {
            log,
            asks,
            rules: None,
        }
    }

    /// The same, with the rules that hold in its session.
    pub(crate) fn with_rules(mut self, rules: Rules) -> Self {
        self.rules = Some(rules);
        self
    }

    /// Why an act is denied that nobody is asked about, if it is. The session is told of it.
    pub fn denied(&self, act: &ToolCall) -> Option<String> {
        let why = self.rules.as_ref().and_then(|rules| (rules.0)(act))?;
        let text = format!("{}: {why}", act.title);
        self.emit(EventKind::Notice { text }, None);
        Some(why)
    }

    /// Something happened.
    pub fn emit(&self, kind: EventKind, raw: Option<Raw>) {
        self.log.append(kind, raw);
    }

    /// The number of the newest event, zero if nothing has happened yet.
    pub fn last_seq(&self) -> u64 {
        self.log.last_seq()
    }

    /// Waits until the history has caught up, if it has fallen far behind; a driver calls it between reads.
    pub async fn room(&self) {
        self.log.room().await;
    }

    /// Asks, and waits for the answer. Dropping the future withdraws the question.
    pub async fn ask(&self, kind: AskKind, raw: Option<Raw>) -> Answer {
        self.ask_for_words(kind, raw).await.answer
    }

    /// The same, for an agent that may understand the client's own words.
    pub async fn ask_for_words(&self, kind: AskKind, raw: Option<Raw>) -> Answered {
        let (answer, answered) = oneshot::channel();
        let answer = Answering(answer);
        let request = AskRequest { kind, raw, answer };
        if self.asks.send(request).await.is_err() {
            return Answered::declined(); // The session is gone, and nobody is there to ask.
        }
        answered.await.unwrap_or_else(|_| Answered::declined())
    }
}
