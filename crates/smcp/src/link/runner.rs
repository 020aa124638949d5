//! The task that owns a connection: it dials, joins, answers heartbeats, and comes back after every loss.

use std::{collections::HashMap, time::Duration};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until, timeout},
};
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;
use wire::smcp::{ErrorBody, ServerEvent};

use super::{
    Arrival, Command, LinkConfig, LinkError, Reply, Standing,
    dial::{self, Line},
    packet::{self, Incomplete, Packet},
};
use crate::convert::code;

/// How long one message may take to be written before the line counts as dead.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest message that is sent. The other side would close the connection over a larger one, with everything that
/// is under way on it: our servers take 8 MiB, the released libraries 4.
const MESSAGE_MAX: usize = 15 * 256 * 1024;

/// The first pause after a loss, which doubles up to the last.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_LAST: Duration = Duration::from_secs(15);

/// How long a server has to answer a join: as long as it may take to find that our old connection is dead.
const JOIN_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) struct Runner {
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
    pub(super) fn new(
        config: LinkConfig,
        role: &'static str,
        arrivals: mpsc::Sender<Arrival>,
        standing: watch::Sender<Standing>,
        replies: mpsc::WeakSender<Command>,
    ) -> Self {
        Self {
            config,
            role,
            arrivals,
            standing,
            replies,
            line: 0,
        }
    }

    pub(super) async fn run(
        mut self,
        mut commands: mpsc::Receiver<Command>,
        stop: CancellationToken,
    ) {
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
        let text = packet::event(Some(talk.last_id + 1), ServerEvent::JOIN_OFFICE, &body);
        talk.ask(text, Waiting::Join).await
    }

    async fn say(&self, talk: &mut Talk, command: Command) -> Option<()> {
        match command {
            Command::Emit {
                event,
                body,
                answer: Some(answer),
            } => {
                let text = packet::event(Some(talk.last_id + 1), &event, &body);
                if text.len() > MESSAGE_MAX {
                    let error = too_large("request", text.len());
                    // The asker may have run out of patience.
                    let _ = answer.send(vec![error.to_value(self.config.profile)]);
                    return Some(());
                }
                talk.ask(text, Waiting::Caller(answer)).await
            }
            Command::Emit {
                event,
                body,
                answer: None,
            } => talk.write(packet::event(None, &event, &body)).await,
            Command::Ack { id, line, body } if line == self.line => {
                let mut text = packet::ack(id, &body);
                if text.len() > MESSAGE_MAX {
                    let error = too_large("answer", text.len());
                    text = packet::ack(id, &error.to_value(self.config.profile));
                }
                talk.write(text).await
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
    /// Sends an event that was written with the next id.
    async fn ask(&mut self, text: String, waiting: Waiting) -> Option<()> {
        self.last_id += 1;
        // Callers that have given up leave their place here until the line ends or somebody asks again.
        self.waiting.retain(|_, waiting| match waiting {
            Waiting::Caller(answer) => !answer.is_closed(),
            Waiting::Join => true,
        });
        self.waiting.insert(self.last_id, waiting);
        self.write(text).await
    }

    async fn write(&mut self, text: String) -> Option<()> {
        let written = timeout(WRITE_TIMEOUT, self.line.socket.send(Message::text(text))).await;
        matches!(written, Ok(Ok(()))).then_some(())
    }
}

fn too_large(what: &str, size: usize) -> ErrorBody {
    let words = format!(
        "The {what} is too large: it has {size} bytes, and a message has at most {MESSAGE_MAX}."
    );
    ErrorBody::new(code::INVALID, words).with("reason", "too_large")
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
}
