//! One peer's part of an intent: asking it, following its run, answering its questions.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use engine::Note;
use serde_json::json;
use uuid::Uuid;
use wire::runs::RunMetadata;

use super::{
    Answered, Intent, IntentOptions, Intents, Leg, LegError, LegStatus, WITHIN, WITHIN_MAX,
    again::taken,
    run::{self, Begun, RemoteRun, Stage, Wanted},
};
use crate::{
    answers::{AnsweredBy, Decision, Question, decide},
    client::{Client, ClientError},
    error::LanError,
    peer::Peer,
    ports::Human,
};

/// Questions of one run that are answered without the human: a peer that asks without end is stopped.
const ANSWERS_MAX: usize = 20;

/// A peer that may be asked, and why.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) peer: Peer,
    pub(super) capability: Option<String>,
    pub(super) score: f64,
    pub(super) why: String,
}

/// Who answers what a peer asks, and from what they said.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    pub(super) human: Option<&'a Arc<dyn Human>>,
    pub(super) context: &'a [String],
}

/// Why a run that goes on is not followed.
pub(super) enum Ended {
    Cancelled,
    TooLate,
}

/// The time that a peer has for its work. It stands still while a human thinks.
#[derive(Debug)]
pub(super) struct Budget {
    left: Duration,
}

impl Budget {
    pub(super) fn of(left: Duration) -> Self {
        Self { left }
    }

    /// What comes of it, unless the time is up before.
    pub(super) async fn spend<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let began = tokio::time::Instant::now();
        let done = tokio::time::timeout(self.left, work).await;
        self.left = self.left.saturating_sub(began.elapsed());
        done.ok()
    }
}

/// Why a run goes on that waited for the human.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WentOn {
    WithTheAnswer,
    /// It no longer waited; what the human said was not used.
    ByItself,
    /// It waits for something else; what the human said was not used.
    ToAnotherQuestion,
}

/// What became of asking one peer.
pub(super) enum Attempt {
    Taken(Box<Leg>),
    /// It has not begun, so that another may be asked.
    NotTaken(String),
}

impl Intents {
    pub(super) async fn attempt(
        &self,
        intent: &Intent,
        options: &IntentOptions,
        candidate: &Candidate,
    ) -> Attempt {
        let peer = &candidate.peer;
        let client = match self.inner.peers.client(peer) {
            Ok(client) => client,
            Err(error) => return Attempt::NotTaken(error.to_string()),
        };
        let mut leg = leg(candidate);
        let begun = match self.begin(&client, intent, options, candidate).await {
            Ok(begun) => begun,
            Err(error) => {
                let human = options.human.as_ref();
                return self.not_begun(peer, leg, error, human).await;
            }
        };
        self.pace().worked(&peer.agent_id);
        self.inner.peers.heard(&peer.agent_id);
        let within = options.within.unwrap_or(WITHIN).min(WITHIN_MAX);
        leg.run_id = begun.run.run_id.clone();
        leg.session_id = begun.run.session_id.clone();
        self.begun(intent, &leg).await;
        let asker = Asker {
            human: options.human.as_ref(),
            context: &intent.context,
        };
        let budget = Budget::of(within);
        let followed = self.see_through(&client, begun, &mut leg, asker, budget);
        let followed = options.cancel.run_until_cancelled(followed).await;
        if followed.is_none() {
            if let Some(run_id) = &leg.run_id {
                run::cancel(&client, run_id).await;
            }
            leg.end(Ended::Cancelled);
        }
        Attempt::Taken(Box::new(leg))
    }

    /// Asks the peer; where it has forgotten the session, in a new one.
    async fn begin(
        &self,
        client: &Client,
        intent: &Intent,
        options: &IntentOptions,
        candidate: &Candidate,
    ) -> Result<Begun, ClientError> {
        let peer = &candidate.peer;
        let session_id = match &intent.session {
            Some(main) => self
                .inner
                .sessions
                .last(main, &peer.agent_id)
                .await
                .unwrap_or_default(),
            None => None,
        };
        let within = options.within.map(|within| within.as_secs_f64());
        let key = Uuid::new_v4().to_string();
        let mut wanted = Wanted {
            text: &intent.text,
            capability: candidate.capability.as_deref(),
            session_id,
            metadata: RunMetadata {
                source_agent_id: Some(self.inner.peers.node().id.clone()),
                call_chain: options.chain.clone(),
                master_session_id: intent.session.clone(),
                locale: options.locale.clone(),
                preferred_output: options.preferred_output.clone(),
                timeout_seconds: within,
                ..RunMetadata::default()
            },
            key: &key,
        };
        let begun = run::begin(client, peer, &wanted).await;
        match begun {
            Err(ClientError::Refused {
                status: 404 | 410, ..
            }) if wanted.session_id.is_some() => {
                wanted.session_id = None;
                let key = Uuid::new_v4().to_string();
                let again = Wanted {
                    key: &key,
                    ..wanted
                };
                run::begin(client, peer, &again).await
            }
            begun => begun,
        }
    }

    /// Where the work goes on is known as soon as it does: this node may end before the run.
    async fn begun(&self, intent: &Intent, leg: &Leg) {
        if let Some(main) = &intent.session
            && let Err(error) = self.inner.sessions.add(main, leg).await
        {
            tracing::warn!(error = %engine::chain(&error), "a session at a peer was not noted");
        }
        if let Err(error) = self.keep_leg(intent, leg, taken(intent, leg)).await {
            tracing::warn!(error = %engine::chain(&error), "where an intent goes on was not noted");
        }
    }

    /// Whether another peer may be asked depends on whether this one may have begun.
    async fn not_begun(
        &self,
        peer: &Peer,
        mut leg: Leg,
        error: ClientError,
        human: Option<&Arc<dyn Human>>,
    ) -> Attempt {
        if error.is_away() {
            let _ = self.inner.peers.failed(&peer.agent_id, &error).await; // It may have been removed meanwhile.
            if let Some(human) = human {
                human.tell(format!("{} is offline: {error}", peer.alias));
            }
        }
        if error.status().is_none_or(|status| status >= 500) {
            self.pace().failed(&peer.agent_id, Instant::now());
        }
        let may_try_another = match &error {
            ClientError::Unreachable { .. } | ClientError::Address { .. } => true,
            // It cannot, or may not, or not now; what it says of the request itself would be said by all.
            ClientError::Refused { status, .. } => {
                matches!(status, 401 | 403 | 404 | 405 | 422 | 429 | 501..=503)
            }
            ClientError::Lost { .. } | ClientError::Protocol { .. } => false,
        };
        if may_try_another {
            return Attempt::NotTaken(error.to_string());
        }
        leg.status = LegStatus::Failed;
        leg.error = Some(LegError::from(&error));
        Attempt::Taken(Box::new(leg))
    }

    /// Follows a run and answers its questions, until it is over, a human must answer, or its time is up.
    pub(super) async fn see_through(
        &self,
        client: &Client,
        begun: Begun,
        leg: &mut Leg,
        asker: Asker<'_>,
        mut budget: Budget,
    ) {
        let (mut begun, mut not_taken, mut lost) = (begun, None, 0);
        loop {
            let Some(followed) = budget.spend(run::follow(client, begun)).await else {
                return self.out_of_time(client, leg).await;
            };
            let run = match followed {
                Ok(run) => run,
                Err(error) => return self.broken(leg, &error).await,
            };
            leg.take(&run);
            if run.stage() != Stage::Awaiting {
                return;
            }
            let question = run.question(&leg.peer_name);
            if lost >= ANSWERS_MAX {
                return leg.waits_for(&question);
            }
            let answered = self.answer_for(&question, leg, asker, not_taken.take());
            let Some(answered) = answered.await else {
                return leg.waits_for(&question);
            };
            let resumed = run::resume(client, &run, &question, &answered.answer);
            let Some(resumed) = budget.spend(resumed).await else {
                return self.out_of_time(client, leg).await;
            };
            begun = match resumed {
                Ok(resumed) => {
                    self.journal(leg, &answered).await;
                    leg.answers.push(answered);
                    leg.asked_because = None;
                    begun = resumed;
                    continue;
                }
                Err(ClientError::Refused {
                    status: 422,
                    message,
                    ..
                }) => {
                    not_taken = Some(message);
                    run.into()
                }
                // Somebody else has answered it meanwhile.
                Err(ClientError::Refused {
                    status: 403 | 409, ..
                }) => match run::read(client, leg.run_id.as_deref().unwrap_or_default()).await {
                    Ok(run) => run.into(),
                    Err(error) => return self.broken(leg, &error).await,
                },
                Err(error) => return self.broken(leg, &error).await,
            };
            lost += 1;
        }
    }

    /// The peer has used up its time, and is told to stop.
    pub(super) async fn out_of_time(&self, client: &Client, leg: &mut Leg) {
        if let Some(run_id) = &leg.run_id {
            run::cancel(client, run_id).await;
        }
        leg.end(Ended::TooLate);
    }

    /// The answer to a question; nothing if it must wait for the human.
    async fn answer_for(
        &self,
        question: &Question,
        leg: &mut Leg,
        asker: Asker<'_>,
        not_taken: Option<String>,
    ) -> Option<Answered> {
        let decision = match not_taken {
            _ if leg.answers.len() >= ANSWERS_MAX => Decision::AskHuman {
                because: format!("the peer has asked {ANSWERS_MAX} times"),
            },
            // Whoever answered for the human would say the same again.
            Some(why) => {
                if let Some(human) = asker.human {
                    human.tell(format!("{}: {why}", question.peer));
                }
                Decision::AskHuman { because: why }
            }
            None => self.decided(question, asker.context).await,
        };
        match decision {
            Decision::Answer {
                text,
                by,
                confidence,
                because,
            } => Some(Answered {
                question: question.text.clone(),
                answer: text,
                by,
                confidence,
                because,
            }),
            Decision::AskHuman { because } => {
                leg.asked_because = Some(because.clone());
                let asked = asker.human?.ask(question.clone());
                let answer = tokio::time::timeout(WITHIN_MAX, asked).await.ok()??;
                Some(Answered {
                    question: question.text.clone(),
                    answer,
                    by: AnsweredBy::Human,
                    confidence: 1.0,
                    because,
                })
            }
        }
    }

    /// By rules and the human's own words; then by the agent that may answer for them, where it is sure.
    async fn decided(&self, question: &Question, context: &[String]) -> Decision {
        let deciding = &self.inner.deciding;
        let decision = decide(question, &deciding.rules, context);
        let Decision::AskHuman { because } = decision else {
            return decision;
        };
        match deciding.advisers.answer(question, context).await {
            Ok(said) => Decision::Answer {
                text: said.answer,
                by: AnsweredBy::Agent,
                confidence: said.confidence,
                because: said.because,
            },
            Err(Some(why)) => Decision::AskHuman {
                because: format!("{because}; {why}"),
            },
            Err(None) => Decision::AskHuman { because },
        }
    }

    /// Goes on with a run that waited for the human, unless it asks something else by now.
    pub(super) async fn go_on(
        &self,
        client: &Client,
        leg: &mut Leg,
        answered: Answered,
        context: &[String],
    ) -> Result<WentOn, LanError> {
        let asker = Asker {
            human: None,
            context,
        };
        let run_id = leg.run_id.clone().unwrap_or_default();
        let mut run = run::read(client, &run_id).await?;
        let question = run.question(&leg.peer_name);
        if run.stage() == Stage::Awaiting && leg.waits_on(&question) {
            match run::resume(client, &run, &question, &answered.answer).await {
                Ok(resumed) => {
                    self.journal(leg, &answered).await;
                    leg.answers.push(answered);
                    leg.settled();
                    let budget = Budget::of(WITHIN);
                    self.see_through(client, resumed, leg, asker, budget).await;
                    return Ok(WentOn::WithTheAnswer);
                }
                Err(ClientError::Refused {
                    status: 403 | 409, ..
                }) => run = run::read(client, &run_id).await?,
                Err(error) => return Err(error.into()),
            }
        }
        if run.stage() == Stage::Awaiting {
            let question = run.question(&leg.peer_name);
            if !leg.waits_on(&question) {
                leg.asked_because = Some("what it asked before is answered".to_owned());
                leg.waits_for(&question);
            }
            return Ok(WentOn::ToAnotherQuestion);
        }
        leg.settled();
        let budget = Budget::of(WITHIN);
        self.see_through(client, run.into(), leg, asker, budget)
            .await;
        Ok(WentOn::ByItself)
    }

    pub(super) async fn broken(&self, leg: &mut Leg, error: &ClientError) {
        if error.is_away() {
            let _ = self.inner.peers.failed(&leg.peer, error).await; // It may have been removed meanwhile.
        }
        leg.status = LegStatus::Failed;
        leg.error = Some(LegError::from(error));
    }

    /// Who answered what, and why: the human can look it up.
    async fn journal(&self, leg: &Leg, answered: &Answered) {
        let note = Note {
            kind: "intent.answered".to_owned(),
            body: json!({
                "peer": leg.peer, "run": leg.run_id, "question": answered.question, "answer": answered.answer,
                "by": answered.by, "confidence": answered.confidence, "because": answered.because,
            }),
            ..Note::default()
        };
        self.inner.peers.note(note).await;
    }
}

/// A leg that was not begun.
pub(super) fn refused(candidate: &Candidate, error: LegError) -> Leg {
    Leg {
        status: LegStatus::Failed,
        error: Some(error),
        ..leg(candidate)
    }
}

fn leg(candidate: &Candidate) -> Leg {
    Leg {
        peer: candidate.peer.agent_id.clone(),
        peer_name: candidate.peer.alias.to_string(),
        capability: candidate.capability.clone(),
        score: candidate.score,
        why: candidate.why.clone(),
        run_id: None,
        session_id: None,
        status: LegStatus::Working,
        text: String::new(),
        output: Vec::new(),
        question: None,
        ask: None,
        asked_because: None,
        answers: Vec::new(),
        error: None,
    }
}

impl Leg {
    /// Nobody waits for it any more.
    pub(super) fn end(&mut self, ended: Ended) {
        (self.status, self.error) = match ended {
            Ended::Cancelled => (LegStatus::Cancelled, None),
            Ended::TooLate => {
                let error = LegError {
                    suggestion: Some("give it more time, or ask for less".to_owned()),
                    ..LegError::plain(
                        "execution_timeout",
                        "the peer did not finish in time and was told to stop",
                    )
                };
                (LegStatus::Failed, Some(error))
            }
        };
    }

    /// What waited for the human waits no more.
    fn settled(&mut self) {
        (self.question, self.ask, self.asked_because) = (None, None, None);
    }

    fn take(&mut self, run: &RemoteRun) {
        self.run_id = run.run_id.clone().or(self.run_id.take());
        self.session_id = run.session_id.clone().or(self.session_id.take());
        self.text = run.text();
        self.output = run.output.clone();
        self.status = match run.stage() {
            Stage::Completed => LegStatus::Completed,
            Stage::Cancelled => LegStatus::Cancelled,
            Stage::Awaiting => LegStatus::Awaiting,
            Stage::Working | Stage::Failed => LegStatus::Failed,
        };
        if run.stage() == Stage::Failed {
            self.error = Some(LegError::of_run(run.error.as_ref()));
        }
    }
}
