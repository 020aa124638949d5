//! Taking up an earlier session by whatever means the agent has, and hearing out what it repeats.

use std::time::Duration;

use engine::{DriverError, SessionSink};
use serde_json::value::RawValue;

use super::{AcpDriver, OPEN_MAX};
use crate::{
    client::Effect,
    failure::AUTH_REQUIRED,
    opening::Opening,
    sessions::{Repeats, Start, Words},
};

/// An agent that repeats late does so in one go: it has finished when it says nothing for this long.
const QUIET: Duration = Duration::from_millis(100);

/// How long it is listened to: what comes later is taken for new.
const REPEATING_MAX: Duration = Duration::from_secs(5);

impl AcpDriver {
    /// Takes up an earlier session by whatever means the agent has.
    pub(super) async fn take_up(
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
}

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
pub(super) enum TakenUp {
    Yes,
    No { why: String },
}
