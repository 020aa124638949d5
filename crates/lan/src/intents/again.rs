//! Intents that this node was at when it ended: what peers do for them goes on, and is followed again.

use std::time::Duration;

use engine::{Batch, EngineError, Keep, Note, Which};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    Intent, IntentStatus, Intents, Leg, LegError, LegStatus, WITHIN,
    leg::{Asker, Budget},
    record::INTENT,
    run,
};
use crate::{client::ClientError, error::LanError};

/// The kind of the records: what a peer does for an intent that is under way.
const LEG: &str = "intent-leg";

/// Intents and legs that are taken up; more are not sent in the moment before a node ends.
const TAKEN_UP_MAX: u32 = 1024;

/// How often a peer is looked for that is not back yet.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize, Deserialize)]
struct LegRecord {
    intent: String,
    leg: Leg,
}

fn id_of(intent: &Intent, leg: &Leg) -> String {
    format!("{}/{}", intent.id, leg.peer)
}

impl Intents {
    /// Keeps who works for an intent, and where.
    pub(super) async fn keep_leg(
        &self,
        intent: &Intent,
        leg: &Leg,
        note: Note,
    ) -> Result<(), EngineError> {
        let kept = LegRecord {
            intent: intent.id.clone(),
            leg: leg.clone(),
        };
        let (records, id) = (self.inner.peers.records(), id_of(intent, leg));
        records.put(LEG, &id, Keep::Live, &kept, Some(note)).await
    }

    /// What the intent itself tells need not be told apart.
    pub(super) fn forget_legs(intent: &Intent, batch: &mut Batch) {
        if intent.status != IntentStatus::Working {
            for leg in &intent.legs {
                batch.remove(LEG, &id_of(intent, leg));
            }
        }
    }

    /// Takes up what the last daemon was at. When it returns, what that was is known, so that nothing sent from then on is taken
    /// for it.
    pub(crate) async fn take_up(&self) -> Result<(), LanError> {
        let records = self.inner.peers.records();
        let legs = records.list::<LegRecord>(LEG, Which::Live, None, TAKEN_UP_MAX);
        let mut legs: Vec<LegRecord> = legs.await?.into_iter().map(|row| row.value).collect();
        let intents = records.list::<Intent>(INTENT, Which::Live, None, TAKEN_UP_MAX);
        let intents = intents.await?.into_iter().map(|row| row.value);
        for intent in intents.filter(|intent| intent.status == IntentStatus::Working) {
            let (its, others) = legs.into_iter().partition(|kept| kept.intent == intent.id);
            legs = others;
            let its: Vec<LegRecord> = its;
            let its = its.into_iter().map(|kept| kept.leg).collect();
            let follower = self.clone();
            self.inner.tasks.spawn(|stop| async move {
                let followed = stop.run_until_cancelled(follower.again(intent, its)).await;
                if let Some(Err(error)) = followed {
                    tracing::warn!(error = %engine::chain(&error), "an intent was not followed");
                }
            });
        }
        Ok(())
    }

    async fn again(&self, mut intent: Intent, legs: Vec<Leg>) -> Result<(), LanError> {
        let context = intent.context.clone();
        let asker = Asker {
            human: self.inner.deciding.human.as_ref(),
            context: &context,
        };
        let followed = legs.into_iter().map(|leg| self.leg_again(leg, asker));
        intent.legs = futures_util::future::join_all(followed).await;
        intent.settle();
        if let Some(main) = &intent.session {
            for leg in &intent.legs {
                self.inner.sessions.add(main, leg).await?;
            }
        }
        self.keep(&intent, "intent.followed-again").await
    }

    pub(super) async fn leg_again(&self, mut leg: Leg, asker: Asker<'_>) -> Leg {
        let failed = |mut leg: Leg, error: LegError| {
            (leg.status, leg.error) = (LegStatus::Failed, Some(error));
            leg
        };
        let peers = &self.inner.peers;
        let client = peers
            .get(&leg.peer)
            .and_then(|peer| Ok(peers.client(&peer)?));
        let (client, id) = match (client, leg.run_id.clone()) {
            (Ok(client), Some(id)) => (client, id),
            (Err(error), _) => {
                return failed(leg, LegError::plain("peer_unusable", &error.to_string()));
            }
            (Ok(_), None) => {
                let words = "this node ended before the peer had said which run it began";
                return failed(leg, LegError::plain("interrupted", words));
            }
        };
        let mut budget = Budget::of(WITHIN);
        let read = budget.spend(async {
            loop {
                match run::read(&client, &id).await {
                    // It may begin later than we do, as after a power cut.
                    Err(ClientError::Unreachable { .. } | ClientError::Lost { .. }) => {
                        tokio::time::sleep(LOOK_AGAIN).await;
                    }
                    read => break read,
                }
            }
        });
        match read.await {
            Some(Ok(run)) => {
                let followed = self.see_through(&client, run.into(), &mut leg, asker, budget);
                followed.await;
            }
            Some(Err(error)) => self.broken(&mut leg, &error).await,
            None => self.out_of_time(&client, &mut leg).await,
        }
        leg
    }
}

/// That a peer has taken an intent, for the journal.
pub(super) fn taken(intent: &Intent, leg: &Leg) -> Note {
    Note {
        kind: "intent.taken".to_owned(),
        session: intent.session.clone(),
        body: json!({
            "intent": intent.id, "peer": leg.peer, "name": leg.peer_name, "run": leg.run_id, "session": leg.session_id,
        }),
        ..Note::default()
    }
}
