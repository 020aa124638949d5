//! A command's connection to the daemon: the socket's client, with errors that say what to do about them.

use std::{io, os::unix::net::UnixStream};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use socket::{CallError, Client, ConnectError};
use wire::daemon::{Empty, ErrorCode, PingResult};

use crate::{
    config::Config,
    conversation::Conversation,
    error::{CommandError, Remote, Versions},
};

/// What this command was built as.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug)]
pub(crate) struct Connection {
    client: Client,
}

impl Connection {
    pub(crate) fn open(config: &Config) -> Result<Self, CommandError> {
        match Client::connect(&config.socket) {
            Ok(client) => Ok(Self { client }),
            Err(ConnectError { socket, source }) => Err(match source.kind() {
                // A socket without a listener is what a killed daemon leaves behind.
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    CommandError::NotRunning { socket }
                }
                _ => CommandError::Connect { socket, source },
            }),
        }
    }

    /// Opens a connection if there is a daemon to connect to.
    pub(crate) fn open_if_running(config: &Config) -> Result<Option<Self>, CommandError> {
        match Self::open(config) {
            Ok(connection) => Ok(Some(connection)),
            Err(CommandError::NotRunning { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Calls a method and waits as long as the daemon works on it.
    pub(crate) fn call<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<R, CommandError> {
        self.client
            .call(method, params)
            .map_err(|error| self.explain(error))
    }

    /// Calls a method whose answer is printed as it came, or read by [`Connection::read`].
    pub(crate) fn ask(
        &mut self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<Value, CommandError> {
        self.call(method, params)
    }

    /// Reads an answer that [`Connection::ask`] brought.
    pub(crate) fn read<R: DeserializeOwned>(
        &mut self,
        method: &str,
        answer: Value,
    ) -> Result<R, CommandError> {
        serde_json::from_value(answer).map_err(|source| {
            self.explain(CallError::Unreadable {
                method: method.to_owned(),
                source,
            })
        })
    }

    pub(crate) fn ping(&mut self) -> Result<PingResult, CommandError> {
        self.call("daemon.ping", &Empty {})
    }

    /// Turns the connection into one that reads the events of sessions while it calls.
    pub(crate) fn converse(self) -> Result<Conversation, CommandError> {
        let (outgoing, incoming) = self.client.split().map_err(explain)?;
        Ok(Conversation::open(outgoing, incoming))
    }

    /// The bare connection, for a protocol other than ours, and what has been read of it already.
    pub(crate) fn into_stream(self) -> Result<(UnixStream, Vec<u8>), CommandError> {
        self.client.into_stream().map_err(explain)
    }

    fn explain(&mut self, error: CallError) -> CommandError {
        let mut error = explain(error);
        match &mut error {
            CommandError::Remote(remote) if remote.code == ErrorCode::MethodNotFound.number() => {
                remote.versions = self.different_versions();
            }
            CommandError::Unreadable { versions, .. } => *versions = self.different_versions(),
            _ => {}
        }
        error
    }

    /// Asked only after an answer that a difference would explain: it costs a round trip.
    fn different_versions(&mut self) -> Option<Versions> {
        // Only the version is read, since the rest may be what differs.
        let answer: Value = self.client.call("daemon.ping", &Empty {}).ok()?;
        let daemon = answer.get("version")?.as_str()?;
        (daemon != VERSION).then(|| Versions {
            command: VERSION.to_owned(),
            daemon: daemon.to_owned(),
        })
    }
}

/// A failed call as a failed command.
pub(crate) fn explain(error: CallError) -> CommandError {
    match error {
        CallError::Remote {
            code,
            message,
            data,
        } => {
            let (error_code, context) = data
                .map(|data| (data.error_code, data.context))
                .unwrap_or_default();
            CommandError::Remote(Box::new(Remote {
                code,
                message,
                error_code,
                context,
                versions: None,
            }))
        }
        CallError::Unreadable { method, source } => CommandError::Unreadable {
            method,
            source,
            versions: None,
        },
        error @ (CallError::Closed { .. }
        | CallError::Silent { .. }
        | CallError::Exchange { .. }) => CommandError::Lost(error),
    }
}
