//! The driver: opens sessions in the agent, takes turns in them, lets them go.

mod take_up;
mod turn;

use std::{ffi::OsStr, sync::Arc, time::Duration};

use agent_client_protocol_schema::v1::{CloseSessionRequest, SetSessionModeRequest};
use domain::turn::{EventKind, Raw, Stop};
use engine::{
    About, AcpProcess, Continuity, Driver, DriverError, DriverFuture, DriverSurroundings, Expects,
    Lent, NativeAnswer, NativeMessage, NativeOpen, OpenSession, Opened, SessionSink, Turn, chain,
};
use jsonrpc::{Connection, Limits, Malformed, MalformedKind, Message};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::DropGuard;

use crate::{
    client::{self, Client, Effect},
    convert,
    failure::RESOURCE_NOT_FOUND,
    files::{Files, Workspace},
    handshake::{self, Abilities},
    members::{Members, with_session},
    modes,
    opening::Opening,
    requests::Requests,
    sessions::Start,
    terminal::Terminals,
};
use take_up::TakenUp;

/// Opening a session starts programs of the agent's and its MCP servers, and may repeat a long history.
const OPEN_MAX: Duration = Duration::from_secs(120);

/// An agent forgets a session at once, or need not be waited for.
const CLOSE_MAX: Duration = Duration::from_secs(5);

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
    // A stray line (a log, a banner) asked nothing; an agent that logs what it cannot place would answer for ever. A request
    // that cannot be read, or is too long to be, is waited for.
    let answer = |malformed: &Malformed| {
        let of_request = [MalformedKind::Request, MalformedKind::TooLong];
        let is_request = of_request.contains(&malformed.kind) && malformed.id.is_some();
        is_request.then(|| malformed.error.clone())
    };
    let (peer, incoming) =
        Connection::with_reply_to_malformed(reader, writer, Limits::default(), answer);
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
        // What an agent repeats before it refuses counts too, so this is looked at first.
        let is_new_here = sink.last_seq() == 0;
        let continuity = match resume {
            None => Continuity::Fresh,
            Some(id) => match self.take_up(&id, &opening, &sink).await? {
                TakenUp::Yes => {
                    return Ok(Opened {
                        id,
                        continuity: Continuity::Resumed,
                    });
                }
                // Whoever names a conversation that only the agent can know wants that one and no other.
                TakenUp::No { why } if opening.names(&id) && is_new_here => {
                    return Err(DriverError::Refused {
                        code: RESOURCE_NOT_FOUND,
                        message: why,
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

    /// Hands on a message of a client's, and what the agent answers.
    async fn pass_on(&self, message: NativeMessage) -> Result<NativeAnswer, DriverError> {
        let NativeMessage {
            conversation,
            method,
            params,
            expects,
        } = message;
        let text = params.as_ref().map(|params| &*params.frame);
        let named = text.and_then(|text| match &conversation {
            Some(id) => with_session(text, id),
            None => RawValue::from_string(text.to_owned()).ok(),
        });
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
            let members = text.and_then(Members::read);
            let mode = members.and_then(|members| members.text("modeId"));
            self.client
                .sessions
                .remember_mode(id, &mode.unwrap_or_default());
        }
        if let (Some(id), Ok(result)) = (&conversation, &answer) {
            // Whoever changes a setting is told all of them.
            let options = &value(result)["configOptions"];
            self.client.sessions.remember_options(id, options);
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

/// An answer as a value; null if it is nested beyond reading.
fn value(answer: &RawValue) -> Value {
    serde_json::from_str(answer.get()).unwrap_or_default()
}
