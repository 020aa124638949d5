//! Intents: words of a human that go to whichever peer can do it, or to several at once.
//!
//! The next peer is tried where one is away or says that it cannot; where a peer may have begun the work, nobody else gets
//! it. Questions on the way are answered from rules and context, or wait for the human.

mod again;
mod answering;
mod choosing;
mod late;
mod leg;
mod pace;
mod record;
mod run;
mod sessions;

use std::{
    collections::{HashSet, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use domain::chain::DEPTH_MAX;
use engine::{Batch, Keep, Note};
use platform::Tasks;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    advice::Advisers, answers::AnswerRule, error::LanError, peers::Peers, ports::Human,
    rank::Ranked,
};
use leg::{Attempt, Candidate};
use pace::{Held, Pace, Source};
use record::INTENT;
pub use record::{Answered, Intent, IntentStatus, Leg, LegError, LegStatus, Tried};
use sessions::Sessions;
pub use sessions::{RemoteSession, RemoteSessions};

/// Characters of an intent: a long letter.
const TEXT_MAX: usize = 64 * 1024;

/// Peers that one intent may go to at once.
const FAN_OUT_MAX: usize = 16;

/// How long a peer may work unless the caller says otherwise, and at most.
const WITHIN: Duration = Duration::from_secs(10 * 60);
const WITHIN_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The intents of a node. Clones are the same.
#[derive(Clone)]
pub struct Intents {
    inner: Arc<Inner>,
}

struct Inner {
    peers: Peers,
    tasks: Tasks,
    deciding: Deciding,
    sessions: Sessions,
    pace: Mutex<Pace>,
    /// Intents whose question somebody answers at this moment.
    answering: Mutex<HashSet<String>>,
    /// Told whenever something has become of an intent.
    changed: Notify,
}

/// Who decides: what the owner has set once for all, whoever is there, and agents in their place.
pub(crate) struct Deciding {
    pub(crate) rules: Vec<AnswerRule>,
    pub(crate) human: Option<Arc<dyn Human>>,
    pub(crate) advisers: Advisers,
}

impl fmt::Debug for Intents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intents").finish_non_exhaustive()
    }
}

/// What a human says to a peer that asks.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Reply {
    pub text: String,
    /// Whose question it is, where several wait.
    pub peer: Option<String>,
    /// The question that the human has seen, as its leg names it; another one is not answered.
    #[serde(default)]
    pub ask: Option<String>,
}

/// How an intent is sent.
#[derive(Clone, Default)]
pub struct IntentOptions {
    /// Only to this peer: by its id, what it is called here, or its address.
    pub peer: Option<String>,
    /// What the peer that is named shall do it with; whatever fits best unless it is said.
    pub capability: Option<String>,
    /// To how many peers at once; one unless it is said.
    pub fan_out: Option<usize>,
    /// The main session it belongs to; sessions at peers go on with it.
    pub session: Option<String>,
    /// What the human said before, the oldest first.
    pub context: Vec<String>,
    /// Who has called whom until here; empty for one that begins here.
    pub chain: Vec<String>,
    pub locale: Option<String>,
    pub preferred_output: Option<String>,
    pub within: Option<Duration>,
    /// Who is asked in this conversation; without one the intent waits until somebody answers it by its id.
    pub human: Option<Arc<dyn Human>>,
    /// Ends what peers do for it.
    pub cancel: CancellationToken,
}

impl fmt::Debug for IntentOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntentOptions")
            .field("peer", &self.peer)
            .field("fan_out", &self.fan_out)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

impl Intents {
    pub(crate) fn new(peers: Peers, tasks: Tasks, deciding: Deciding) -> Self {
        let sessions = Sessions::new(peers.records().clone());
        let inner = Inner {
            peers,
            tasks,
            deciding,
            sessions,
            pace: Mutex::default(),
            answering: Mutex::default(),
            changed: Notify::new(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Which peers could do it, the best first; nothing is sent.
    pub fn route(&self, text: &str) -> Vec<Ranked> {
        self.inner.peers.index().route(text)
    }

    /// Sends an intent and waits for what comes of it. It is carried through even if nobody waits any more.
    pub async fn send(&self, text: &str, options: IntentOptions) -> Result<Intent, LanError> {
        let (intents, text) = (self.clone(), text.to_owned());
        let task = self.inner.tasks.spawn(|stop| async move {
            let sent = stop
                .run_until_cancelled(intents.send_now(text, options))
                .await;
            sent.unwrap_or_else(|| Err(ending()))
        });
        task.await.unwrap_or_else(|_| Err(ending()))
    }

    /// Answers the question on which an intent waits.
    pub async fn answer(&self, id: &str, reply: Reply) -> Result<Intent, LanError> {
        let (intents, id) = (self.clone(), id.to_owned());
        let task = self.inner.tasks.spawn(|stop| async move {
            let work = intents.answer_now(&id, &reply);
            stop.run_until_cancelled(work)
                .await
                .unwrap_or_else(|| Err(ending()))
        });
        task.await.unwrap_or_else(|_| Err(ending()))
    }

    /// An intent that was sent.
    pub async fn show(&self, id: &str) -> Result<Intent, LanError> {
        let found = self.inner.peers.records().get::<Intent>(INTENT, id).await?;
        found
            .map(|found| found.value)
            .ok_or_else(|| LanError::NoIntent {
                id: id.chars().take(128).collect(),
            })
    }

    /// Every main session that has led to sessions at peers, the latest first.
    pub async fn trees(&self) -> Result<Vec<RemoteSessions>, LanError> {
        self.inner.sessions.all().await
    }

    /// The sessions at peers that a main session has led to.
    pub async fn sessions(&self, main: &str) -> Result<RemoteSessions, LanError> {
        self.inner.sessions.of(main).await
    }

    async fn send_now(&self, text: String, options: IntentOptions) -> Result<Intent, LanError> {
        if text.trim().is_empty() || text.chars().count() > TEXT_MAX {
            return Err(LanError::Invalid {
                what: format!("an intent has 1 to {TEXT_MAX} characters"),
            });
        }
        let mut options = options;
        options.human = options.human.or_else(|| self.inner.deciding.human.clone());
        let from = if options.chain.is_empty() {
            options.chain = self.inner.peers.node().begin();
            Source::Anybody
        } else {
            Source::Run
        };
        if options.chain.len() >= DEPTH_MAX {
            return Err(LanError::Invalid {
                what: format!(
                    "{DEPTH_MAX} nodes have called one another in a row; this one calls no other"
                ),
            });
        }
        let candidates = self.candidates(&text, &options).await?;
        let wanted = options
            .fan_out
            .unwrap_or(1)
            .clamp(1, FAN_OUT_MAX)
            .min(candidates.len());
        let mut context = options.context.clone();
        context.push(text.clone());
        let mut intent = Intent {
            id: Uuid::now_v7().to_string(),
            text,
            session: options.session.clone(),
            status: IntentStatus::Working,
            legs: Vec::new(),
            tried: Vec::new(),
            context,
        };
        // It is known before anybody works for it: this node may end before they do.
        self.keep(&intent, "intent.began").await?;
        let pool = Mutex::new(VecDeque::from(candidates));
        let workers = (0..wanted).map(|_| self.work(&intent, &options, from, &pool));
        for (leg, tried) in futures_util::future::join_all(workers).await {
            intent.legs.extend(leg);
            intent.tried.extend(tried);
        }
        intent.settle();
        if intent.legs.is_empty()
            && let Some(human) = &options.human
        {
            human.tell(format!("no peer could be asked: {}", intent.text));
        }
        self.keep(&intent, "intent.sent").await?;
        Ok(intent)
    }

    /// Takes candidates from the pool until one takes the intent.
    async fn work(
        &self,
        intent: &Intent,
        options: &IntentOptions,
        from: Source,
        pool: &Mutex<VecDeque<Candidate>>,
    ) -> (Option<Leg>, Vec<Tried>) {
        let mut tried = Vec::new();
        loop {
            let next = pool
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front();
            let Some(candidate) = next else {
                return (None, tried);
            };
            let failed = |why: String| Tried {
                peer: candidate.peer.agent_id.clone(),
                peer_name: candidate.peer.name().to_owned(),
                why,
            };
            let held = {
                let (mut pace, peer) = (self.pace(), &candidate.peer);
                pace.seen(&peer.agent_id, peer.last_seen);
                pace.begin(&peer.agent_id, &intent.text, from, Instant::now())
            };
            let attempt = match held {
                Ok(()) => {
                    let _under_way = UnderWay {
                        intents: self,
                        peer: &candidate.peer.agent_id,
                        text: &intent.text,
                    };
                    self.attempt(intent, options, &candidate).await
                }
                Err(held) => self.held(&candidate, &held),
            };
            match attempt {
                Attempt::Taken(leg) => {
                    if let Some(main) = &intent.session
                        && let Err(error) = self.inner.sessions.add(main, &leg).await
                    {
                        tracing::warn!(error = %engine::chain(&error), "a session at a peer was not noted");
                    }
                    return (Some(*leg), tried);
                }
                Attempt::NotTaken(why) => tried.push(failed(why)),
            }
        }
    }

    async fn keep(&self, intent: &Intent, kind: &str) -> Result<(), LanError> {
        let keep = match intent.status {
            IntentStatus::Working | IntentStatus::Awaiting => Keep::Live,
            IntentStatus::Completed | IntentStatus::Partial | IntentStatus::Failed => {
                Keep::Finished
            }
        };
        let legs = intent.legs.iter().map(|leg| {
            json!({ "peer": leg.peer, "capability": leg.capability, "run": leg.run_id, "status": leg.status, "why": leg.why })
        });
        let note = Note {
            kind: kind.to_owned(),
            session: intent.session.clone(),
            body: json!({ "intent": intent.id, "legs": legs.collect::<Vec<_>>(), "tried": intent.tried }),
            ..Note::default()
        };
        let mut batch = Batch::default();
        batch.put(INTENT, &intent.id, keep, intent)?;
        batch.note(note);
        Self::forget_legs(intent, &mut batch);
        self.inner.peers.records().write_all(batch).await?;
        self.inner.changed.notify_waiters();
        Ok(())
    }

    /// A peer that is not asked now: another one may be, unless the words have come back to us.
    fn held(&self, candidate: &Candidate, held: &Held) -> Attempt {
        let (node, peer) = (self.inner.peers.node(), &candidate.peer);
        match held {
            Held::TooFast => Attempt::NotTaken(
                LanError::TooFast {
                    peer: peer.alias.to_string(),
                }
                .to_string(),
            ),
            Held::Failing(rest) => Attempt::NotTaken(format!(
                "{} has failed again and again; it is asked again in {} s",
                peer.alias,
                rest.as_secs() + 1
            )),
            Held::UnderWay => {
                let error = LegError {
                    suggestion: Some(
                        "do this yourself, or wait for the answer that is on its way".to_owned(),
                    ),
                    details: Some(json!({ "call_chain": [node.id, peer.agent_id, node.id] })),
                    ..LegError::plain(
                        "circular_call_detected",
                        &format!(
                            "{} is already doing this for {}; asking again would be a circle",
                            peer.alias, node.name
                        ),
                    )
                };
                Attempt::Taken(Box::new(leg::refused(candidate, error)))
            }
        }
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.inner
            .pace
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Words that are under way at a peer, until this is dropped.
struct UnderWay<'a> {
    intents: &'a Intents,
    peer: &'a str,
    text: &'a str,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.intents.pace().end(self.peer, self.text);
    }
}

fn ending() -> LanError {
    LanError::Invalid {
        what: "the node is ending".to_owned(),
    }
}

#[cfg(test)]
#[path = "intents_tests.rs"]
mod tests;
