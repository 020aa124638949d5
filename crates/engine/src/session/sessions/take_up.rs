//! Sessions that were not over when the last daemon ended.

use domain::turn::{EventKind, Stop, TurnId};

use super::{
    Sessions,
    left_open::{self, LeftOpen},
    of,
};
use crate::{
    EngineError, EventLog,
    session::{EventReader, SessionRecord, flush, task},
};

impl Sessions {
    /// Takes up every session that was not over when the last daemon ended.
    pub(crate) async fn take_up(&self) -> Result<(), EngineError> {
        for row in self
            .inner
            .around
            .store
            .sessions(true)
            .await
            .map_err(of(&"the sessions"))?
        {
            let Ok(mut record) = serde_json::from_str::<SessionRecord>(&row.record) else {
                tracing::error!(
                    session = row.id,
                    "the record of this session cannot be read; it is left alone"
                );
                continue;
            };
            let mut last = self
                .inner
                .around
                .store
                .last_event(&row.id)
                .await
                .map_err(of(&row.id))?;
            if let Some(turn) = record.running.take() {
                last = self.end_interrupted(&record, turn, last + 1).await?;
            }
            let orphan = self.is_orphan(&record);
            if record.rests && !orphan {
                continue; // Whoever asks for it takes it up.
            }
            let handle = self.spawn(record, task::Row::Written, last + 1);
            self.inner.live.insert(row.id.clone(), handle);
            if orphan {
                self.close(&row.id).await?;
            }
        }
        Ok(())
    }

    /// Whether its agent is gone, or another one of the same name.
    pub(super) fn is_orphan(&self, record: &SessionRecord) -> bool {
        let agents = &self.inner.around.agents;
        agents.id(&record.agent).ok().as_ref() != Some(&record.agent_id)
    }

    /// A turn that ran when the last daemon ended is over, with all it had at work; its session is not. It is told before
    /// anybody can look. Gives the number of its last event.
    pub(super) async fn end_interrupted(
        &self,
        record: &SessionRecord,
        turn: TurnId,
        seq: u64,
    ) -> Result<u64, EngineError> {
        let message = "the daemon ended during this turn; its last moments may be missing";
        let stop = Stop::Failed {
            message: message.to_owned(),
        };
        let store = &self.inner.around.store;
        let from = left_open::first_looked_at(seq);
        let events = EventReader::new(record.id.clone(), None, store.clone(), from);
        let ends = LeftOpen::read(events, turn).await?.ends();
        let last = seq + ends.len() as u64;
        let log = EventLog::new(seq);
        for end in ends {
            log.append(end, None);
        }
        log.append(EventKind::TurnEnded { turn, stop }, None);
        flush::flush(
            (store, &self.inner.around.tally),
            &log,
            &record.id,
            &record.agent,
            vec![record.change()],
        )
        .await
        .map_err(of(&record.id))?;
        Ok(last)
    }
}
