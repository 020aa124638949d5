//! A member's connection to an office server: it dials, joins, answers heartbeats, and comes back after every loss.
//!
//! One task owns the socket. A request that is under way when the line breaks ends with `Lost`; whoever asked decides
//! whether to repeat it, with the same request id.

mod dial;
mod packet;

use std::{collections::HashMap, fmt, time::Duration};

use futures_util::{SinkExt, StreamExt};
use platform::Tasks;
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until, timeout},
};
use tokio_tungstenite::{Connector, tungstenite::Message};
use tokio_util::sync::CancellationToken;
use wire::smcp::{ErrorBody, Profile, ServerEvent};

use self::{
    dial::Line,
    packet::{Incomplete, Packet},
};

/// Commands that wait to be written: enough for a burst of calls; more must wait for the line.
const COMMANDS_MAX: usize = 1024;

/// Events that wait to be handled. When the handler is slower than that, the line is not read any more.
const EVENTS_MAX: usize = 1024;

/// How long one message may take to be written before the line counts as dead.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The first pause after a loss, which doubles up to the last.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_LAST: Duration = Duration::from_secs(15);

/// How long a server has to answer a join: as long as it may take to find that our old connection is dead.
const JOIN_TIMEOUT: Duration = Duration::from_secs(20);

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
    pub(crate) async fn send(self, body: Value) {
        let (id, line) = (self.id, self.line);
        // When the task has ended there is nobody to answer.
        let _ = self.commands.send(Command::Ack { id, line, body }).await;
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
        let runner = Runner {
            config,
            role,
            arrivals,
            standing,
            replies: commands.downgrade(),
            line: 0,
        };
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

struct Runner {
    config: LinkConfig,
    role: &'static str,
    arrivals: mpsc::Sender<Arrival>,
    standing: watch::Sender<Standing>,
    /// Weak, so that the task does not keep itself alive.
    replies: mpsc::WeakSender<Command>,
    /// Counts connections, so that an answer never travels on a later one.
    line: u64,
}

/// Why a line ended.
enum End {
    Lost,
    Stopped,
}

/// Who waits for an acknowledgement.
enum Waiting {
    Caller(oneshot::Sender<Vec<Value>>),
    Join,
}

/// What one connection keeps.
struct Talk {
    line: Line,
    waiting: HashMap<u64, Waiting>,
    last_id: u64,
    incomplete: Option<Incomplete>,
    heard: Instant,
    rejoin: Option<Instant>,
    rejoin_pause: Duration,
}

impl Runner {
    async fn run(mut self, mut commands: mpsc::Receiver<Command>, stop: CancellationToken) {
        let mut pause = RETRY_FIRST;
        loop {
            let dialled = tokio::select! { biased;
                () = stop.cancelled() => break,
                dialled = dial::dial(&self.config) => dialled,
            };
            let because = match dialled {
                Ok(line) => {
                    self.line += 1;
                    pause = RETRY_FIRST;
                    match self.talk(line, &mut commands, &stop).await {
                        End::Stopped => break,
                        End::Lost => LinkError::Lost,
                    }
                }
                Err(error) => error,
            };
            tracing::debug!(error = %because, office = %self.config.office, "away from the office");
            let away = Standing::Away {
                because: Some(because),
            };
            self.standing.send_replace(away);
            if self.arrivals.send(Arrival::Away).await.is_err() {
                break; // Nobody listens any more.
            }
            if self.pause(pause, &mut commands, &stop).await.is_none() {
                break;
            }
            pause = (pause * 2).min(RETRY_LAST);
        }
        self.standing.send_replace(Standing::Ended);
    }

    /// Waits before dialling again. What is asked meanwhile is dropped, which tells its asker that the line is lost.
    async fn pause(
        &self,
        pause: Duration,
        commands: &mut mpsc::Receiver<Command>,
        stop: &CancellationToken,
    ) -> Option<()> {
        let until = Instant::now() + pause;
        loop {
            tokio::select! { biased;
                () = stop.cancelled() => return None,
                () = sleep_until(until) => return Some(()),
                command = commands.recv() => drop(command?),
            }
        }
    }

    async fn talk(
        &self,
        line: Line,
        commands: &mut mpsc::Receiver<Command>,
        stop: &CancellationToken,
    ) -> End {
        let mut talk = Talk {
            line,
            waiting: HashMap::new(),
            last_id: 0,
            incomplete: None,
            heard: Instant::now(),
            rejoin: Some(Instant::now()),
            rejoin_pause: RETRY_FIRST,
        };
        self.standing
            .send_replace(Standing::Waiting { refused: None });
        loop {
            let silent = talk.heard + talk.line.silence_max;
            let rejoin = talk.rejoin;
            let step = tokio::select! { biased;
                () = stop.cancelled() => {
                    let _ = talk.write(packet::disconnect()).await; // The server notices in any case.
                    let _ = timeout(RETRY_FIRST, talk.line.socket.close(None)).await;
                    return End::Stopped;
                }
                () = sleep_until(silent) => None,
                () = sleep_until(rejoin.unwrap_or(silent)), if rejoin.is_some() => self.join(&mut talk).await,
                message = talk.line.socket.next() => match message {
                    Some(Ok(message)) => self.hear(&mut talk, message).await,
                    Some(Err(_)) | None => None,
                },
                command = commands.recv() => match command {
                    Some(command) => self.say(&mut talk, command).await,
                    None => return End::Stopped, // Every handle is gone.
                },
            };
            if step.is_none() {
                return End::Lost;
            }
        }
    }

    async fn join(&self, talk: &mut Talk) -> Option<()> {
        let body = json!({
            "role": self.role, "name": self.config.name, "office_id": self.config.office
        });
        // Without an answer it is asked again.
        talk.rejoin = Some(Instant::now() + JOIN_TIMEOUT);
        talk.ask(ServerEvent::JOIN_OFFICE, &body, Waiting::Join)
            .await
    }

    async fn say(&self, talk: &mut Talk, command: Command) -> Option<()> {
        match command {
            Command::Emit {
                event,
                body,
                answer: Some(answer),
            } => talk.ask(&event, &body, Waiting::Caller(answer)).await,
            Command::Emit {
                event,
                body,
                answer: None,
            } => talk.write(packet::event(None, &event, &body)).await,
            Command::Ack { id, line, body } if line == self.line => {
                talk.write(packet::ack(id, &body)).await
            }
            Command::Ack { .. } => Some(()), // Its connection is gone.
        }
    }

    async fn hear(&self, talk: &mut Talk, message: Message) -> Option<()> {
        talk.heard = Instant::now();
        let packet = match message {
            Message::Text(text) => match text.as_str().split_at_checked(1)? {
                ("2", _) => return talk.write("3".to_owned()).await,
                ("4", rest) => packet::read(rest),
                ("1", _) => return None,
                _ => Packet::Other,
            },
            Message::Binary(bytes) => match talk.incomplete.take() {
                Some(incomplete) => incomplete.attach(&bytes),
                None => Packet::Other,
            },
            Message::Close(_) => return None,
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => Packet::Other,
        };
        match packet {
            Packet::Connect | Packet::Other => Some(()),
            Packet::ConnectError(_) | Packet::Disconnect => None,
            Packet::Incomplete(incomplete) => {
                talk.incomplete = Some(incomplete);
                Some(())
            }
            Packet::Ack { id, args } => match talk.waiting.remove(&id) {
                Some(Waiting::Join) => self.on_join_answer(talk, &args).await,
                Some(Waiting::Caller(answer)) => {
                    let _ = answer.send(args); // The asker may have run out of patience.
                    Some(())
                }
                None => Some(()),
            },
            Packet::Event { id, name, body } => {
                let reply = match id {
                    Some(id) => Some(Reply {
                        id,
                        line: self.line,
                        commands: self.replies.upgrade()?,
                    }),
                    None => None,
                };
                self.arrive(Arrival::Event { name, body, reply }).await
            }
        }
    }

    async fn on_join_answer(&self, talk: &mut Talk, args: &[Value]) -> Option<()> {
        match join_refusal(args) {
            None => {
                talk.rejoin = None;
                self.standing.send_replace(Standing::Joined);
                self.arrive(Arrival::Joined).await
            }
            Some(refused) => {
                talk.rejoin = Some(Instant::now() + talk.rejoin_pause);
                talk.rejoin_pause = (talk.rejoin_pause * 2).min(RETRY_LAST);
                let refused = Some(refused);
                self.standing.send_replace(Standing::Waiting { refused });
                Some(())
            }
        }
    }

    async fn arrive(&self, arrival: Arrival) -> Option<()> {
        self.arrivals.send(arrival).await.ok()
    }
}

impl Talk {
    async fn ask(&mut self, event: &str, body: &Value, waiting: Waiting) -> Option<()> {
        self.last_id += 1;
        // Callers that have given up leave their place here until the line ends or somebody asks again.
        self.waiting.retain(|_, waiting| match waiting {
            Waiting::Caller(answer) => !answer.is_closed(),
            Waiting::Join => true,
        });
        self.waiting.insert(self.last_id, waiting);
        self.write(packet::event(Some(self.last_id), event, body))
            .await
    }

    async fn write(&mut self, text: String) -> Option<()> {
        let written = timeout(WRITE_TIMEOUT, self.line.socket.send(Message::text(text))).await;
        matches!(written, Ok(Ok(()))).then_some(())
    }
}

/// Why a join was refused, in either profile.
fn join_refusal(args: &[Value]) -> Option<ErrorBody> {
    match args {
        [Value::Bool(true), ..] => None,
        [Value::Bool(false), reason, ..] => {
            let words = reason.as_str().unwrap_or("the office gave no reason");
            Some(ErrorBody::new(403, words))
        }
        [said @ Value::Object(_), ..] => ErrorBody::from_value(said),
        _ => Some(ErrorBody::new(500, "the office gave no answer")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_a_join_is_read_in_both_profiles() {
        for (args, code) in [
            (json!([true, null]), None),
            (json!([true]), None),
            (json!([{"office_id": "o"}]), None),
            (json!([false, "no"]), Some(403)),
            (
                json!([{"error": {"code": 400, "message": "no"}}]),
                Some(400),
            ),
            (json!([{"code": 404, "message": "no"}]), Some(404)),
            (json!([]), Some(500)),
        ] {
            let refused = join_refusal(args.as_array().unwrap());
            assert_eq!(refused.map(|error| error.code), code, "{args}");
        }
    }

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
