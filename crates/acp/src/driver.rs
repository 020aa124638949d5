//! The driver: opens sessions in the agent, takes turns in them, lets them go.

use std::{path::Path, sync::Arc, time::Duration};

use agent_client_protocol_schema::v1::{
    CancelNotification, CloseSessionRequest, LoadSessionRequest, McpServer, NewSessionRequest,
    PromptRequest, ResumeSessionRequest,
};
use domain::turn::{EventKind, Stop};
use engine::{
    AcpProcess, Continuity, Driver, DriverError, DriverFuture, DriverSurroundings, OpenSession,
    Opened, SessionSink, Turn, chain,
};
use jsonrpc::{Connection, Limits};
use serde_json::{Value, value::RawValue};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    client::{self, Client, Effect},
    convert,
    failure::AUTH_REQUIRED,
    files::{Files, Workspace},
    handshake::{self, Abilities},
    requests::Requests,
    sessions::{Start, Words},
    terminal::Terminals,
};

/// Opening a session starts programs of the agent's and its MCP servers, and may repeat a long history.
const OPEN_MAX: Duration = Duration::from_secs(120);

/// What an agent gets to wind down a cancelled turn: it may have to stop a program first.
const CANCEL_MAX: Duration = Duration::from_secs(10);

/// An agent forgets a session at once, or need not be waited for.
const CLOSE_MAX: Duration = Duration::from_secs(5);

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
    if abilities.stumbles_over_missing_files {
        requests.files.read_missing_as_empty();
    }
    let _ = client.sign_in.set(abilities.sign_in.clone()); // Nobody else sets it.
    Ok(AcpDriver {
        client,
        terminals,
        abilities,
        _guard: guard,
    })
}

/// An agent that speaks ACP. Dropping it ends the connection and what runs for the agent.
#[derive(Debug)]
pub(crate) struct AcpDriver {
    client: Arc<Client>,
    terminals: Arc<Terminals>,
    abilities: Abilities,
    _guard: DropGuard,
}

impl Driver for AcpDriver {
    fn open(&self, open: OpenSession) -> DriverFuture<'_, Result<Opened, DriverError>> {
        Box::pin(self.open_session(open))
    }

    fn turn(&self, turn: Turn) -> DriverFuture<'_, Result<Stop, DriverError>> {
        Box::pin(self.take_turn(turn))
    }

    fn ended(&self) -> DriverFuture<'_, ()> {
        Box::pin(self.client.ended())
    }

    fn close<'a>(&'a self, session: &'a str) -> DriverFuture<'a, ()> {
        Box::pin(self.close_session(session))
    }
}

impl AcpDriver {
    async fn open_session(&self, open: OpenSession) -> Result<Opened, DriverError> {
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
        let servers = convert::mcp_servers(mcp_servers);
        let continuity = match resume {
            None => Continuity::Fresh,
            Some(id) => match self.take_up(&id, &cwd, &servers, &sink).await? {
                TakenUp::Yes => {
                    return Ok(Opened {
                        id,
                        continuity: Continuity::Resumed,
                    });
                }
                TakenUp::No { why } => Continuity::Lost { why },
            },
        };
        let request = NewSessionRequest::new(cwd.clone()).mcp_servers(servers);
        let effect = Effect::Opens(Start { sink, cwd });
        let answer = self
            .client
            .request_within(OPEN_MAX, "session/new", &request, effect)
            .await?;
        let id = client::opened(&answer).ok_or_else(|| DriverError::Protocol {
            what: "its answer to session/new has no sessionId".to_owned(),
        })?;
        Ok(Opened { id, continuity })
    }

    /// Takes up an earlier session by whatever means the agent has.
    async fn take_up(
        &self,
        id: &str,
        cwd: &Path,
        servers: &[McpServer],
        sink: &SessionSink,
    ) -> Result<TakenUp, DriverError> {
        let mut why = "this agent cannot take up earlier sessions".to_owned();
        for (able, way) in [
            (self.abilities.resume, Way::Resume),
            (self.abilities.load, Way::Load),
        ] {
            if !able {
                continue;
            }
            // What it repeats comes before its answer, so it must be known as repeated by then.
            let start = Start {
                sink: sink.clone(),
                cwd: cwd.to_owned(),
            };
            self.client.sessions.enter(id, start, Words::Repeated);
            match self.ask_to_take_up(way, id, cwd, servers).await {
                Ok(_) => return Ok(TakenUp::Yes),
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
        cwd: &Path,
        servers: &[McpServer],
    ) -> Result<Box<RawValue>, DriverError> {
        let effect = Effect::TakesUp(id.to_owned());
        match way {
            Way::Resume => {
                let request =
                    ResumeSessionRequest::new(id.to_owned(), cwd).mcp_servers(servers.to_vec());
                self.client
                    .request_within(OPEN_MAX, "session/resume", &request, effect)
                    .await
            }
            Way::Load => {
                let request =
                    LoadSessionRequest::new(id.to_owned(), cwd).mcp_servers(servers.to_vec());
                self.client
                    .request_within(OPEN_MAX, "session/load", &request, effect)
                    .await
            }
        }
    }

    async fn take_turn(&self, turn: Turn) -> Result<Stop, DriverError> {
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
        let request = PromptRequest::new(session.clone(), vec![prompt.into()]);
        let answer = self
            .client
            .request("session/prompt", &request, Effect::Nothing);
        tokio::pin!(answer);
        let answered = tokio::select! { biased;
            answered = &mut answer => answered,
            () = cancel.cancelled() => running.wind_down(answer).await,
        };
        running.ended = true;
        let answer = match answered {
            Ok(answer) => value(&answer),
            Err(DriverError::Gone { how }) => return Err(DriverError::Gone { how }),
            Err(error) if cancel.is_cancelled() => {
                // Many agents end a cancelled prompt with an error of some kind.
                tracing::debug!(%error, "a cancelled turn ended with an error");
                return Ok(Stop::Cancelled);
            }
            Err(error) => return Err(error),
        };
        if let Some(usage) = convert::usage(&answer) {
            sink.emit(EventKind::Usage(usage), None);
        }
        Ok(convert::stop(&answer))
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

#[derive(Clone, Copy, Debug)]
enum Way {
    Resume,
    Load,
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
        answer: impl Future<Output = Result<Box<RawValue>, DriverError>>,
    ) -> Result<Box<RawValue>, DriverError> {
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

/// An answer as a value; null if it is nested beyond reading.
fn value(answer: &RawValue) -> Value {
    serde_json::from_str(answer.get()).unwrap_or_default()
}
