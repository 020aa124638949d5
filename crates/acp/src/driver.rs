//! The driver: opens sessions in the agent, takes turns in them, lets them go.

use std::{ffi::OsStr, sync::Arc, time::Duration};

use agent_client_protocol_schema::v1::{
    CancelNotification, CloseSessionRequest, PromptRequest, SetSessionModeRequest,
};
use domain::turn::{EventKind, Raw, Stop};
use engine::{
    About, AcpProcess, Continuity, Driver, DriverError, DriverFuture, DriverSurroundings, Expects,
    Lent, NativeAnswer, NativeMessage, NativeOpen, OpenSession, Opened, SessionSink, Turn, chain,
};
use jsonrpc::{Connection, ErrorObject, Limits, Message};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    client::{self, Client, Effect},
    convert,
    failure::AUTH_REQUIRED,
    files::{Files, Workspace},
    handshake::{self, Abilities},
    members::{Members, with_session},
    modes,
    opening::Opening,
    requests::Requests,
    sessions::{Repeats, Start, Words},
    terminal::Terminals,
};

/// Opening a session starts programs of the agent's and its MCP servers, and may repeat a long history.
const OPEN_MAX: Duration = Duration::from_secs(120);

/// What an agent gets to wind down a cancelled turn: it may have to stop a program first.
const CANCEL_MAX: Duration = Duration::from_secs(10);

/// An agent forgets a session at once, or need not be waited for.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// An agent that repeats late does so in one go: it has finished when it says nothing for this long.
const QUIET: Duration = Duration::from_millis(100);

/// How long it is listened to: what comes later is taken for new.
const REPEATING_MAX: Duration = Duration::from_secs(5);

/// Changing the mode is a note in the agent's memory.
const MODE_MAX: Duration = Duration::from_secs(10);

/// What a client may wait for a request that only the agent understands: a sign-in goes through a browser and a person.
const PASS_MAX: Duration = Duration::from_secs(600);

/// Sessions open in one agent: far more than people have.
const SESSIONS_MAX: usize = 1024;

/// Shakes hands with a started process.
pub fn connect(process: AcpProcess) -> DriverFuture<'static, Result<Arc<dyn Driver>, DriverError>> {
    Box::pin(async move {
        let AcpProcess {
            stdin,
            stdout,
            around,
        } = process;
        let driver = connect_streams(stdout, stdin, around).await?;
        Ok(Arc::new(driver) as Arc<dyn Driver>)
    })
}

/// Shakes hands with an agent whose output is `reader` and whose input is `writer`.
pub(crate) async fn connect_streams<R, W>(
    reader: R,
    writer: W,
    mut around: DriverSurroundings,
) -> Result<AcpDriver, DriverError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let tasks = around.tasks.child();
    around.tasks = tasks.clone();
    let guard = tasks.stop().drop_guard();
    let start_timeout = around.start_timeout;
    let mode = match around
        .environment
        .contains_key(OsStr::new(modes::CHOICE_VARIABLE))
    {
        true => Mode::Chosen,
        false => Mode::Asking,
    };
    let place = around.workspace.clone();
    let opened = tasks.spawn_blocking(move |_| Workspace::open(&place)).await;
    let place = match opened {
        Ok(Ok(place)) => place,
        Ok(Err(error)) => return Err(DriverError::Program { why: chain(&error) }),
        Err(error) => return Err(DriverError::Program { why: chain(&error) }),
    };
    // A stray line (a log, a banner) asked nothing; an agent that logs what it cannot place would answer for ever.
    let silence = |_| None;
    let (peer, incoming) =
        Connection::with_reply_to_malformed(reader, writer, Limits::default(), silence);
    let client = Client::new(peer);
    let terminals = Terminals::new(around, Arc::clone(&place));
    let files = Files::new(place);
    let requests = Requests::new(
        Arc::clone(&client),
        tasks.clone(),
        files,
        Arc::clone(&terminals),
    );
    let reading = (Arc::clone(&client), Arc::clone(&requests));
    tasks.spawn(|stop| client::read(incoming, reading.0, reading.1, stop));
    let request = handshake::request();
    let answer = client
        .request_within(start_timeout, "initialize", &request, Effect::Nothing)
        .await?;
    let abilities = handshake::abilities(&value(&answer))?;
    let hello = convert::raw(&answer);
    if abilities.stumbles_over_missing_files {
        requests.files.read_missing_as_empty();
    }
    let _ = client.sign_in.set(abilities.sign_in.clone()); // Nobody else sets it.
    Ok(AcpDriver {
        client,
        terminals,
        abilities,
        mode,
        hello,
        _guard: guard,
    })
}

/// An agent that speaks ACP. Dropping it ends the connection and what runs for the agent.
#[derive(Debug)]
pub(crate) struct AcpDriver {
    client: Arc<Client>,
    terminals: Arc<Terminals>,
    abilities: Abilities,
    mode: Mode,
    /// The answer to `initialize`.
    hello: Raw,
    _guard: DropGuard,
}

/// The mode of new sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The one in which the agent asks before it acts, where it has one.
    Asking,
    /// Somebody has chosen one for this agent.
    Chosen,
}

impl Driver for AcpDriver {
    fn open(&self, open: OpenSession) -> DriverFuture<'_, Result<Opened, DriverError>> {
        Box::pin(self.open_session(open, None))
    }

    fn turn(&self, turn: Turn) -> DriverFuture<'_, Result<Stop, DriverError>> {
        Box::pin(self.take_turn(turn, None))
    }

    fn ended(&self) -> DriverFuture<'_, ()> {
        Box::pin(self.client.ended())
    }

    fn close<'a>(&'a self, session: &'a str) -> DriverFuture<'a, ()> {
        Box::pin(self.close_session(session))
    }

    fn open_with(
        &self,
        open: OpenSession,
        words: NativeOpen,
    ) -> DriverFuture<'_, Result<Opened, DriverError>> {
        Box::pin(self.open_session(open, Some(words)))
    }

    fn turn_with(&self, turn: Turn, words: Raw) -> DriverFuture<'_, Result<Stop, DriverError>> {
        Box::pin(self.take_turn(turn, Some(words)))
    }

    fn said(&self, about: About<'_>) -> Option<Raw> {
        match about {
            About::Agent => Some(self.hello.clone()),
            About::Conversation(id) => self.client.sessions.said(id),
        }
    }

    fn pass(&self, message: NativeMessage) -> DriverFuture<'_, Result<NativeAnswer, DriverError>> {
        Box::pin(self.pass_on(message))
    }

    fn lend(&self, conversation: &str, client: Lent) {
        self.client.sessions.lend(conversation, client);
    }
}

impl AcpDriver {
    async fn open_session(
        &self,
        open: OpenSession,
        words: Option<NativeOpen>,
    ) -> Result<Opened, DriverError> {
        let OpenSession {
            cwd,
            mcp_servers,
            resume,
            sink,
        } = open;
        if self.client.sessions.len() >= SESSIONS_MAX {
            return Err(DriverError::Unsupported {
                what: format!("have more than {SESSIONS_MAX} sessions open"),
            });
        }
        let opening = Opening {
            words: words.as_ref(),
            servers: convert::mcp_servers(mcp_servers),
            cwd: cwd.clone(),
        };
        let continuity = match resume {
            None => Continuity::Fresh,
            Some(id) => match self.take_up(&id, &opening, &sink).await? {
                TakenUp::Yes => {
                    return Ok(Opened {
                        id,
                        continuity: Continuity::Resumed,
                    });
                }
                TakenUp::No { why } => Continuity::Lost { why },
            },
        };
        let request = opening.new_session();
        let effect = Effect::Opens(Start {
            sink: sink.clone(),
            cwd,
        });
        let answer = self
            .client
            .request_within(OPEN_MAX, "session/new", &request, effect)
            .await?;
        let id = client::opened(&answer).ok_or_else(|| DriverError::Protocol {
            what: "its answer to session/new has no sessionId".to_owned(),
        })?;
        self.client.sessions.remember(&id, &answer);
        self.make_it_ask(&id, &answer, &sink).await;
        Ok(Opened { id, continuity })
    }

    /// Takes up an earlier session by whatever means the agent has.
    async fn take_up(
        &self,
        id: &str,
        opening: &Opening<'_>,
        sink: &SessionSink,
    ) -> Result<TakenUp, DriverError> {
        let mut why = "this agent cannot take up earlier sessions".to_owned();
        // Of a conversation that was never ours we know nothing, so what the agent repeats of it is news.
        let (words, ways) = match opening.wants_history() && sink.last_seq() == 0 {
            true => (Words::New, [Way::Load, Way::Resume]),
            false => (Words::Repeated, [Way::Resume, Way::Load]),
        };
        for way in ways {
            let able = match way {
                Way::Resume => self.abilities.resume,
                Way::Load => self.abilities.load,
            };
            if !able {
                continue;
            }
            // What it repeats comes before its answer, so it must be known as repeated by then.
            let start = Start {
                sink: sink.clone(),
                cwd: opening.cwd.clone(),
            };
            self.client.sessions.enter(id, start, words);
            match self.ask_to_take_up(way, id, opening).await {
                Ok(answer) => {
                    self.client.sessions.remember(id, &answer);
                    self.hear_it_out(id).await;
                    self.make_it_ask(id, &answer, sink).await;
                    return Ok(TakenUp::Yes);
                }
                Err(DriverError::Refused { code, message }) if code != AUTH_REQUIRED => {
                    why = format!(
                        "the agent could not take up the earlier session: {message} ({code})"
                    );
                }
                Err(error) => return Err(error),
            }
        }
        Ok(TakenUp::No { why })
    }

    async fn ask_to_take_up(
        &self,
        way: Way,
        id: &str,
        opening: &Opening<'_>,
    ) -> Result<Box<RawValue>, DriverError> {
        let repeats = match way {
            Way::Load if self.abilities.repeats_late => Repeats::Late,
            Way::Load | Way::Resume => Repeats::InTime,
        };
        let effect = Effect::TakesUp {
            session: id.to_owned(),
            repeats,
        };
        let request = opening.earlier_session(id);
        self.client
            .request_within(OPEN_MAX, way.method(), &request, effect)
            .await
    }

    /// Waits until an agent that repeats what was said also after its answer has finished.
    async fn hear_it_out(&self, id: &str) {
        let sessions = &self.client.sessions;
        let quiet = async {
            let mut heard = sessions.settling(id);
            while heard.is_some() {
                tokio::time::sleep(QUIET).await;
                let now = sessions.settling(id);
                if now == heard {
                    return;
                }
                heard = now;
            }
        };
        if tokio::time::timeout(REPEATING_MAX, quiet).await.is_err() {
            tracing::debug!(session = id, "the agent does not stop repeating");
        }
        sessions.settled(id);
    }

    /// Puts a session whose agent would act unasked into the mode in which it asks.
    async fn make_it_ask(&self, id: &str, answer: &RawValue, sink: &SessionSink) {
        let answer = value(answer);
        let (Mode::Asking, Some(mode)) = (self.mode, modes::to_ask_in(&answer)) else {
            return;
        };
        let request = SetSessionModeRequest::new(id.to_owned(), mode.to_owned());
        let set = self
            .client
            .request_within(MODE_MAX, "session/set_mode", &request, Effect::Nothing)
            .await;
        match set {
            Ok(_) => self.client.sessions.remember_mode(id, mode),
            Err(error) => {
                let text = format!(
                    "the agent could not be put into its mode {mode:?} and may act without asking: {error}"
                );
                sink.emit(EventKind::Notice { text }, None);
            }
        }
    }

    async fn take_turn(&self, turn: Turn, words: Option<Raw>) -> Result<Stop, DriverError> {
        // ACP has no words for the options.
        let Turn {
            session,
            prompt,
            options: _,
            cancel,
        } = turn;
        if cancel.is_cancelled() {
            return Ok(Stop::Cancelled);
        }
        let (sink, asks) =
            self.client
                .sessions
                .begin_turn(&session)
                .ok_or_else(|| DriverError::Unsupported {
                    what: format!("take a turn in session {session:?}, which is not open"),
                })?;
        let mut running = RunningTurn {
            client: &self.client,
            session: &session,
            asks,
            ended: false,
        };
        let native = words.and_then(|words| with_session(&words.frame, &session));
        let request = native.or_else(|| {
            let plain = PromptRequest::new(session.clone(), vec![prompt.into()]);
            to_raw_value(&plain).ok()
        });
        let answer = self
            .client
            .request_raw("session/prompt", request, Effect::Nothing);
        tokio::pin!(answer);
        let answered = tokio::select! { biased;
            answered = &mut answer => answered,
            () = cancel.cancelled() => running.wind_down(answer).await,
        };
        running.ended = true;
        let said = match self.understood(answered, &sink) {
            Ok(answer) => answer,
            Err(DriverError::Gone { how }) => return Err(DriverError::Gone { how }),
            Err(error) if cancel.is_cancelled() => {
                // Many agents end a cancelled prompt with an error of some kind.
                tracing::debug!(%error, "a cancelled turn ended with an error");
                return Ok(Stop::Cancelled);
            }
            Err(error) => return Err(error),
        };
        let answer = value(&said);
        if let Some(usage) = convert::usage(&answer) {
            sink.emit(EventKind::Usage(usage), Some(convert::raw(&said)));
        } else if Members::read(said.get()).is_some_and(|members| members.len() > 1) {
            sink.emit(answer_event(), Some(convert::raw(&said)));
        }
        Ok(convert::stop(&answer))
    }

    /// An error of the agent's in our words; its own are kept for clients that speak the same protocol.
    fn understood(
        &self,
        answered: Result<Answered, DriverError>,
        sink: &SessionSink,
    ) -> Result<Box<RawValue>, DriverError> {
        let error = match answered? {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        if let Ok(said) = to_raw_value(&json!({ "error": error })) {
            sink.emit(answer_event(), Some(convert::raw(&said)));
        }
        Err(self.client.refused(&error))
    }

    /// Hands on a message of a client's, and what the agent answers.
    async fn pass_on(&self, message: NativeMessage) -> Result<NativeAnswer, DriverError> {
        let NativeMessage {
            conversation,
            method,
            params,
            expects,
        } = message;
        let text = params.as_ref().map_or("{}", |params| &params.frame);
        let named = conversation
            .as_ref()
            .and_then(|id| with_session(text, id))
            .or_else(|| RawValue::from_string(text.to_owned()).ok());
        if expects == Expects::Nothing {
            let params = named;
            let line = Message::Notification { method, params }.encode();
            let sent = self.client.peer.send_line(line).await;
            sent.map_err(|_| self.client.gone())?;
            return Ok(NativeAnswer::Result("null".into()));
        }
        let asked = self.client.request_raw(&method, named, Effect::Passes);
        let answer = tokio::time::timeout(PASS_MAX, asked).await;
        let answer = answer.map_err(|_| DriverError::Silent {
            what: "a request of its client",
            limit: PASS_MAX,
        })??;
        if let ("session/set_mode", Some(id), Ok(_)) = (method.as_str(), &conversation, &answer) {
            let mode = Members::read(text).and_then(|members| members.text("modeId"));
            self.client
                .sessions
                .remember_mode(id, &mode.unwrap_or_default());
        }
        Ok(match answer {
            Ok(result) => NativeAnswer::Result(result.get().into()),
            Err(error) => {
                let text = to_raw_value(&error).expect("an error has only text keys");
                NativeAnswer::Error(text.get().into())
            }
        })
    }

    async fn close_session(&self, session: &str) {
        if self.abilities.close {
            let request = CloseSessionRequest::new(session.to_owned());
            let closed = self
                .client
                .request_within(CLOSE_MAX, "session/close", &request, Effect::Nothing)
                .await;
            if let Err(error) = closed {
                tracing::debug!(session, %error, "the agent did not close a session");
            }
        }
        self.client.sessions.remove(session);
        self.terminals.close(session).await;
    }
}

/// What the agent made of a request.
type Answered = Result<Box<RawValue>, ErrorObject>;

#[derive(Clone, Copy, Debug)]
enum Way {
    Resume,
    Load,
}

impl Way {
    fn method(self) -> &'static str {
        match self {
            Way::Resume => "session/resume",
            Way::Load => "session/load",
        }
    }
}

#[derive(Debug)]
enum TakenUp {
    Yes,
    No { why: String },
}

/// A prompt that is not answered. If nobody waits for it any more the agent is told to stop.
#[derive(Debug)]
struct RunningTurn<'a> {
    client: &'a Client,
    session: &'a str,
    asks: CancellationToken,
    ended: bool,
}

impl RunningTurn<'_> {
    /// Tells the agent to stop, and waits a while for its answer.
    async fn wind_down(
        &mut self,
        answer: impl Future<Output = Result<Answered, DriverError>>,
    ) -> Result<Answered, DriverError> {
        // The protocol wants every open permission answered as cancelled.
        self.asks.cancel();
        let cancel = CancelNotification::new(self.session.to_owned());
        let told = self.client.peer.notify("session/cancel", &cancel);
        let wound_down = async {
            let _ = told.await; // If it is gone the answer says so.
            answer.await
        };
        match tokio::time::timeout(CANCEL_MAX, wound_down).await {
            Ok(answered) => answered,
            Err(_) => Err(DriverError::Silent {
                what: "session/cancel",
                limit: CANCEL_MAX,
            }),
        }
    }
}

impl Drop for RunningTurn<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.asks.cancel();
            let cancel = CancelNotification::new(self.session.to_owned());
            let _ = self.client.peer.try_notify("session/cancel", &cancel); // It may be gone, or not read.
        }
        self.client.sessions.end_turn(self.session);
    }
}

/// The agent's answer to a prompt, for clients that want all of it.
fn answer_event() -> EventKind {
    EventKind::Other {
        name: "session/prompt".to_owned(),
    }
}

/// An answer as a value; null if it is nested beyond reading.
fn value(answer: &RawValue) -> Value {
    serde_json::from_str(answer.get()).unwrap_or_default()
}
