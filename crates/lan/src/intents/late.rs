//! An intent of a conversation whose turn has asked and is gone: the next turn follows it on, and asks again.

use std::{sync::Arc, time::Duration};

use engine::Which;
use tokio_util::sync::CancellationToken;

use super::{
    Intent, IntentStatus, Intents, LegStatus,
    leg::{Asker, Ended},
    record::INTENT,
    run,
};
use crate::{error::LanError, ports::Human};

/// Intents that are looked through; more do not wait at a time.
const LIVE_MAX: u32 = 1024;

/// How long an intent has that is being found again after a restart, as when its peer begins later than we do.
const FOUND_WITHIN: Duration = Duration::from_secs(60);

impl Intents {
    /// Follows the intent on which a conversation waits, and asks whoever listens to it now; nothing if none waits.
    pub(crate) async fn take_up_in(
        &self,
        session: &str,
        human: Arc<dyn Human>,
        cancel: &CancellationToken,
    ) -> Result<Option<Intent>, LanError> {
        let found = tokio::time::timeout(FOUND_WITHIN, self.waiting_in(session)).await;
        let Ok(Some(mut intent)) = found.unwrap_or(Ok(None)) else {
            return Ok(None);
        };
        let _answering = self.begin_answer(&intent.id)?;
        let context = intent.context.clone();
        let asker = Asker {
            human: Some(&human),
            context: &context,
        };
        for leg in &mut intent.legs {
            if leg.status != LegStatus::Awaiting {
                continue;
            }
            let followed = self.leg_again(leg.clone(), asker);
            match cancel.run_until_cancelled(followed).await {
                Some(followed) => *leg = followed,
                None => {
                    let peers = &self.inner.peers;
                    let peer = peers.get(&leg.peer)?;
                    if let (Ok(client), Some(run_id)) = (peers.client(&peer), &leg.run_id) {
                        run::cancel(&client, run_id).await;
                    }
                    leg.end(Ended::Cancelled);
                }
            }
            if let Err(error) = self.inner.sessions.add(session, leg).await {
                tracing::warn!(error = %engine::chain(&error), "a session at a peer was not noted");
            }
        }
        intent.settle();
        self.keep(&intent, "intent.followed-again").await?;
        Ok(Some(intent))
    }

    /// The intent of a conversation that waits for an answer; one that is still at work is waited for.
    async fn waiting_in(&self, session: &str) -> Result<Option<Intent>, LanError> {
        loop {
            let changed = self.inner.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            let records = self.inner.peers.records();
            let live = records.list::<Intent>(INTENT, Which::Live, None, LIVE_MAX);
            let its = live.await?.into_iter().map(|row| row.value);
            let its = its.filter(|intent| intent.session.as_deref() == Some(session));
            // Their ids are in the order of time.
            match its.max_by(|one, other| one.id.cmp(&other.id)) {
                Some(intent) if intent.status == IntentStatus::Working => changed.await,
                found => return Ok(found),
            }
        }
    }
}
