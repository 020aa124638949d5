//! A member's connection to an office server: its handle, what goes in and what comes out.
//!
//! One task owns the socket. A request that is under way when the line breaks ends with `Lost`; whoever asked decides
//! whether to repeat it, with the same request id.

mod dial;
mod packet;
mod runner;

use std::{fmt, time::Duration};

use platform::Tasks;
use serde_json::Value;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};
use tokio_tungstenite::Connector;
use wire::smcp::{ErrorBody, Profile};

use self::runner::Runner;

/// Commands that wait to be written: enough for a burst of calls; more must wait for the line.
const COMMANDS_MAX: usize = 1024;

/// Events that wait to be handled. When the handler is slower than that, the line is not read any more.
const EVENTS_MAX: usize = 1024;

/// Where and as whom to join.
#[derive(Clone)]
pub struct LinkConfig {
    /// `http://host:port`, or https, ws, wss.
    pub url: String,
    pub token: String,
    pub profile: Profile,
    pub office: String,
    pub name: String,
    /// TLS with roots or a certificate of one's own; none uses the public roots.
    pub connector: Option<Connector>,
}

impl fmt::Debug for LinkConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkConfig")
            .field("url", &self.url)
            .field("token", &"***")
            .field("profile", &self.profile)
            .field("office", &self.office)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Why something asked of an office did not succeed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LinkError {
    #[error("the office server cannot be reached: {0}")]
    Unreachable(String),
    #[error("the server at this address is not an office server")]
    NotAnOffice,
    #[error("the connection to the office was lost")]
    Lost,
    #[error("the office did not answer in time")]
    TimedOut,
    #[error("the office refused: {} ({})", .0.message, .0.code)]
    Refused(ErrorBody),
    #[error("the office's answer to {event} cannot be read")]
    Unreadable { event: String },
}

/// Where a member stands.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    /// Dialling, or waiting to dial again.
    Away {
        because: Option<LinkError>,
    },
    /// Connected; the office has not let us in yet, or has refused.
    Waiting {
        refused: Option<ErrorBody>,
    },
    Joined,
    /// It will not come back.
    Ended,
}

/// Something that arrived.
#[derive(Debug)]
pub(crate) enum Arrival {
    Joined,
    Away,
    Event {
        name: String,
        body: Value,
        reply: Option<Reply>,
    },
}

/// Answers one event; dropped unused, it answers nothing.
#[derive(Debug)]
pub(crate) struct Reply {
    id: u64,
    line: u64,
    commands: mpsc::Sender<Command>,
}

impl Reply {
    pub(crate) fn teller(&self) -> Teller {
        Teller(self.commands.clone())
    }

    pub(crate) async fn send(self, body: Value) {
        let (id, line) = (self.id, self.line);
        // When the task has ended there is nobody to answer.
        let _ = self.commands.send(Command::Ack { id, line, body }).await;
    }
}

/// Says something beside an answer, on whichever connection there is.
#[derive(Debug, Clone)]
pub(crate) struct Teller(mpsc::Sender<Command>);

impl Teller {
    /// Says it if there is room; otherwise it is not said.
    pub(crate) fn try_tell(&self, event: &str, body: Value) {
        let command = Command::Emit {
            event: event.to_owned(),
            body,
            answer: None,
        };
        let _ = self.0.try_send(command); // As it says.
    }
}

enum Command {
    Emit {
        event: String,
        body: Value,
        answer: Option<oneshot::Sender<Vec<Value>>>,
    },
    Ack {
        id: u64,
        line: u64,
        body: Value,
    },
}

/// A handle to the connection; when the last is dropped, or the tasks are cancelled, the connection ends.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    commands: mpsc::Sender<Command>,
    standing: watch::Receiver<Standing>,
}

impl Link {
    /// Starts to dial and join; what arrives comes out of the receiver.
    pub(crate) fn start(
        config: LinkConfig,
        role: &'static str,
        tasks: &Tasks,
    ) -> (Self, mpsc::Receiver<Arrival>) {
        let (commands, waiting) = mpsc::channel(COMMANDS_MAX);
        let (arrivals, arriving) = mpsc::channel(EVENTS_MAX);
        let (standing, seen) = watch::channel(Standing::Away { because: None });
        let runner = Runner::new(config, role, arrivals, standing, commands.downgrade());
        tasks.spawn(|stop| runner.run(waiting, stop));
        let link = Self {
            commands,
            standing: seen,
        };
        (link, arriving)
    }

    pub(crate) fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.clone()
    }

    /// Waits until the office has let us in, or has refused.
    pub(crate) async fn joined(&self) -> Result<(), LinkError> {
        let mut standing = self.standing();
        let settled = standing.wait_for(|standing| match standing {
            Standing::Joined | Standing::Ended => true,
            Standing::Waiting { refused } => refused.is_some(),
            Standing::Away { because } => matches!(because, Some(LinkError::Refused(_))),
        });
        match settled.await.as_deref() {
            Ok(Standing::Joined) => Ok(()),
            Ok(Standing::Waiting {
                refused: Some(refused),
            }) => Err(LinkError::Refused(refused.clone())),
            Ok(Standing::Away {
                because: Some(because),
            }) => Err(because.clone()),
            Ok(_) | Err(_) => Err(LinkError::Lost),
        }
    }

    /// Asks, and waits for the acknowledgement.
    pub(crate) async fn request(
        &self,
        event: &str,
        body: Value,
        patience: Duration,
    ) -> Result<Vec<Value>, LinkError> {
        let (answer, answered) = oneshot::channel();
        let command = Command::Emit {
            event: event.to_owned(),
            body,
            answer: Some(answer),
        };
        let asked = async {
            let sent = self.commands.send(command).await;
            sent.map_err(|_| LinkError::Lost)?;
            answered.await.map_err(|_| LinkError::Lost)
        };
        timeout(patience, asked)
            .await
            .unwrap_or(Err(LinkError::TimedOut))
    }

    /// Says something that needs no answer.
    pub(crate) async fn tell(&self, event: &str, body: Value) -> Result<(), LinkError> {
        let command = Command::Emit {
            event: event.to_owned(),
            body,
            answer: None,
        };
        let sent = self.commands.send(command).await;
        sent.map_err(|_| LinkError::Lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_never_shown() {
        let config = LinkConfig {
            url: "http://h".to_owned(),
            token: "very-secret".to_owned(),
            profile: Profile::Seed,
            office: "o".to_owned(),
            name: "n".to_owned(),
            connector: None,
        };
        assert!(!format!("{config:?}").contains("very-secret"));
    }
}
