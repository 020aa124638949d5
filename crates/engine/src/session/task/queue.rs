//! Prompts that wait for their turn: on disk before whoever gave them hears that they were taken.

use std::{collections::BTreeSet, sync::atomic::Ordering};

use domain::{session::Input, turn::TurnId};
use store::Change;

use super::SessionTask;
use crate::{EngineError, session::queued::Queued};

/// What the store has of the prompts that wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    kept: BTreeSet<TurnId>,
    /// Documents to be removed with whatever is written next.
    pub(super) gone: Vec<Change>,
}

impl Queue {
    /// A prompt waits no more.
    pub(super) fn leave(&mut self, session: &str, turn: TurnId) {
        if self.kept.remove(&turn) {
            self.gone.push(Queued::gone(session, turn));
        }
    }
}

impl SessionTask {
    /// Whether a prompt that waited is left to the next daemon: the agents of this one are being stopped.
    pub(super) fn stays_waiting(&self, turn: TurnId) -> bool {
        self.around.closing.load(Ordering::SeqCst) && self.queue.kept.contains(&turn)
    }

    /// Keeps a prompt that has to wait; one that cannot be kept is not taken.
    pub(super) async fn keep_waiting(&mut self, turn: TurnId) -> Result<(), EngineError> {
        let waiting = self.prompts.iter().find(|(waiting, _)| *waiting == turn);
        let Some((_, prompt)) = waiting else {
            return Ok(()); // Its turn has begun.
        };
        let text = self.written(&prompt.text);
        let queued = Queued::new(&self.record.id, turn, text, prompt);
        match self.around.store.write(vec![queued.kept()]).await {
            Ok(()) => {
                self.queue.kept.insert(turn);
                Ok(())
            }
            Err(source) => {
                self.input(Input::Cancel { turn: Some(turn) }).await?;
                let name = self.record.id.clone();
                Err(EngineError::Store { name, source })
            }
        }
    }
}
