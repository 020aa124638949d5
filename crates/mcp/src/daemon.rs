//! The daemon as the server sees it: a socket to connect to, calls, and the events that come along.

use std::{
    io,
    path::{Path, PathBuf},
    pin::pin,
    time::Duration,
};

use jsonrpc::{Connection, ErrorObject, Incoming, Limits, Peer, Received};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use tokio::{net::UnixStream, time::timeout};
use wire::daemon::ErrorData;

use crate::event::{Event, Notice};

/// The notification that carries an event of a session.
const SESSION_EVENT: &str = "session.event";

/// How long what only reads may take: a daemon that is slower hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the daemon listens.
#[derive(Debug, Clone)]
pub(crate) struct Daemon {
    socket: PathBuf,
}

/// One connection. It has no task: it is read while somebody waits for an answer.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) peer: Peer,
    incoming: Incoming,
}

/// What came while nobody asked for it.
#[derive(Debug)]
pub(crate) enum Came {
    Event {
        event: Box<Event>,
        /// It is the beginning of a turn that was asked for on this connection.
        own: bool,
    },
    /// Something that is not for us.
    Nothing,
    /// The daemon is gone.
    End,
}

/// Why the daemon gave no answer, or one that is a refusal.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DaemonError {
    #[error(
        "no daemon runs at {}; start one with `agentcraft daemon start`",
        socket.display()
    )]
    NotRunning { socket: PathBuf },
    #[error("could not connect to the daemon at {}", socket.display())]
    Connect { socket: PathBuf, source: io::Error },
    #[error("{}", .0.message)]
    Refused(ErrorObject),
    #[error(
        "the daemon went away during {method}; see `agentcraft daemon status`, or start it with `agentcraft daemon start`"
    )]
    Lost { method: String },
    #[error("the daemon did not answer within {} s; see `agentcraft daemon status`", PATIENCE.as_secs())]
    Silent,
    #[error("could not send {method} to the daemon")]
    Send {
        method: String,
        source: jsonrpc::CallError,
    },
    #[error("could not read the daemon's answer to {method}")]
    Unreadable {
        method: String,
        source: serde_json::Error,
    },
}

impl DaemonError {
    /// What the daemon said about its refusal.
    pub(crate) fn data(&self) -> Option<ErrorData> {
        match self {
            Self::Refused(error) => serde_json::from_str(error.data.as_deref()?.get()).ok(),
            Self::NotRunning { .. }
            | Self::Connect { .. }
            | Self::Lost { .. }
            | Self::Silent
            | Self::Send { .. }
            | Self::Unreadable { .. } => None,
        }
    }

    /// Whether the daemon refused with this constant.
    pub(crate) fn is(&self, code: wire::daemon::ErrorCode) -> bool {
        self.data()
            .is_some_and(|data| data.error_code == code.name())
    }
}

impl Daemon {
    pub(crate) fn new(socket: &Path) -> Self {
        Self {
            socket: socket.to_owned(),
        }
    }

    pub(crate) async fn connect(&self) -> Result<Link, DaemonError> {
        let socket = self.socket.clone();
        match UnixStream::connect(&socket).await {
            Ok(stream) => {
                let (reader, writer) = stream.into_split();
                let (peer, incoming) = Connection::new(reader, writer, Limits::default());
                Ok(Link { peer, incoming })
            }
            Err(source) => Err(match source.kind() {
                // A socket without a listener is what a killed daemon leaves behind.
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    DaemonError::NotRunning { socket }
                }
                _ => DaemonError::Connect { socket, source },
            }),
        }
    }

    /// One call on a connection of its own.
    pub(crate) async fn call<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<R, DaemonError> {
        self.connect().await?.call(method, params).await
    }
}

impl Link {
    /// Calls a method; what else comes meanwhile is dropped. A call that is given up leaves the link usable.
    pub(crate) async fn call<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<R, DaemonError> {
        let mut answer = pin!(self.peer.call(method, params));
        loop {
            tokio::select! { biased;
                answer = &mut answer => return read(method, answer),
                came = self.came() => if matches!(came, Came::End) {
                    return Err(DaemonError::Lost { method: method.to_owned() });
                },
            }
        }
    }

    /// The next thing that is no answer. Answers find their callers while somebody waits here.
    pub(crate) async fn came(&mut self) -> Came {
        let Self { incoming, .. } = self;
        match incoming.recv().await {
            None => Came::End,
            Some(Received::Notification {
                method,
                params: Some(params),
                ..
            }) if method == SESSION_EVENT => match serde_json::from_str::<Notice>(params.get()) {
                Ok(Notice { event, own }) => Came::Event {
                    event: Box::new(event),
                    own,
                },
                Err(_) => Came::Nothing, // An event of a newer daemon.
            },
            Some(
                Received::Notification { .. }
                | Received::Request(_)
                | Received::Response { .. }
                | Received::Malformed { .. },
            ) => Came::Nothing,
        }
    }
}

/// Work that only reads, or that the daemon hangs. What creates, starts or takes a turn may take as long as it wants.
pub(crate) async fn in_time<T>(
    work: impl Future<Output = Result<T, DaemonError>>,
) -> Result<T, DaemonError> {
    timeout(PATIENCE, work)
        .await
        .unwrap_or(Err(DaemonError::Silent))
}

/// The result in an answer, or why there is none.
pub(crate) fn read<R: DeserializeOwned>(
    method: &str,
    answer: Result<Box<RawValue>, jsonrpc::CallError>,
) -> Result<R, DaemonError> {
    let method = || method.to_owned();
    match answer {
        Ok(result) => {
            serde_json::from_str(result.get()).map_err(|source| DaemonError::Unreadable {
                method: method(),
                source,
            })
        }
        Err(jsonrpc::CallError::Remote(error)) => Err(DaemonError::Refused(error)),
        Err(jsonrpc::CallError::Closed) => Err(DaemonError::Lost { method: method() }),
        Err(source) => Err(DaemonError::Send {
            method: method(),
            source,
        }),
    }
}
