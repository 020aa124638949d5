//! What happened, on its way to the disk and to whoever looks at the session.

use domain::{session::Lease, turn::Ask};
use tokio::time::Instant;
use tracing::warn;

use super::SessionTask;
use crate::{
    agent::chain,
    session::{
        Waiting,
        flush::{self, FLUSH_AFTER, FLUSH_BYTES},
    },
};

/// How long a full disk has before events are stored again.
const FLUSH_AGAIN: std::time::Duration = std::time::Duration::from_secs(1);

/// Whether what happened is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Yes,
    NotYet,
}

impl SessionTask {
    /// What the agent calls the conversation is needed to take it up again.
    pub(super) async fn keep_conversation(&mut self) {
        let conversation = self.slot.conversation();
        if self.record.agent_session == conversation {
            return;
        }
        self.record.agent_session = conversation;
        // In a turn it is kept with the first words of it; without one, somebody waits to be told its name.
        if self.machine.turn().is_none() {
            self.keep().await;
        }
    }

    pub(super) fn plan_flush(&mut self) {
        let (events, weight) = self.log.unstored_len();
        self.flush_at = match (events, weight) {
            (0, _) if self.is_kept() => None,
            (_, FLUSH_BYTES..) if self.flush_at.is_none() => Some(Instant::now()),
            _ => self.flush_at.or_else(|| Some(Instant::now() + FLUSH_AFTER)),
        };
    }

    /// Keeps the record, with every event that is not stored yet; what the store has already is not written again.
    pub(super) async fn keep(&mut self) -> Kept {
        let record = self.record.as_kept();
        let mut changes = self.queue.gone.clone();
        if self.kept.as_ref() != Some(&record) {
            changes.append(&mut self.along);
            changes.push(record.change());
        }
        let kept = self.flush(changes).await;
        if kept == Kept::Yes {
            self.queue.gone.clear();
            self.kept = Some(record);
        }
        kept
    }

    fn is_kept(&self) -> bool {
        self.queue.gone.is_empty() && self.kept.as_ref() == Some(&self.record.as_kept())
    }

    pub(super) async fn flush(&mut self, changes: Vec<store::Change>) -> Kept {
        self.flush_at = None;
        let flushed = flush::flush(
            (&self.around.store, &self.around.tally),
            &self.log,
            &self.record.id,
            &self.record.agent,
            changes,
        )
        .await;
        if let Err(error) = flushed {
            warn!(session = %self.record.id, error = %chain(&error), "could not keep what happened");
            self.log.release();
            self.flush_at = Some(Instant::now() + FLUSH_AGAIN);
            return Kept::NotYet;
        }
        if self.machine.turn().is_none() && self.machine.lease() == Lease::Idle {
            self.log.forget();
        }
        Kept::Yes
    }

    pub(super) fn waiting(&self) -> Waiting {
        let asks = self.machine.asks().map(|(id, kind)| Ask {
            id: id.clone(),
            kind: kind.clone(),
        });
        let prompts = self.prompts.iter();
        let mut prompts: Vec<_> = prompts
            .map(|(turn, prompt)| (*turn, self.written(&prompt.text)))
            .collect();
        prompts.sort_by_key(|(turn, _)| turn.0);
        Waiting {
            asks: asks.collect(),
            prompts,
        }
    }

    /// A prompt as whoever looks at the session sees it. Where nobody is there who knows what is
    /// secret in it, it stands as it is.
    pub(super) fn written(&self, prompt: &str) -> String {
        let source = self
            .around
            .agents
            .source(&self.record.agent, self.record.via);
        source.map_or_else(
            |_| prompt.to_owned(),
            |source| source.driver.written(prompt),
        )
    }

    pub(super) fn show(&self) {
        let mut view = self.record.past_view(self.log.last_seq());
        view.client_id = self
            .machine
            .clients()
            .next()
            .map(|client| name_of(&client.0));
        view.clients = self.machine.clients().count();
        view.busy = self.machine.turn().is_some();
        view.asks = self.machine.asks().count();
        view.state = self.machine.lease();
        self.view.send_if_modified(|shown| {
            let changed = *shown != view;
            *shown = view;
            changed
        });
    }
}

/// The name a client gave itself, without what tells its connection from others.
fn name_of(client: &str) -> String {
    client
        .split_once('#')
        .map_or(client, |(name, _)| name)
        .to_owned()
}
