//! Sessions that were not over when the last daemon ended.

use domain::turn::{EventKind, Stop, TurnId};
use store::Change;

use super::{
    Sessions,
    left_open::{self, LeftOpen},
    of,
};
use crate::{
    EngineError, EventLog,
    session::{EventReader, SessionRecord, flush, queued::Queued, record::in_short, task},
};

impl Sessions {
    /// Takes up every session that was not over when the last daemon ended.
    pub(crate) async fn take_up(&self) -> Result<(), EngineError> {
        let store = &self.inner.around.store;
        let mut queued = Queued::all(store).await.map_err(of(&"queued prompts"))?;
        let rows = store.sessions(true).await;
        for row in rows.map_err(of(&"the sessions"))? {
            let Ok(mut record) = serde_json::from_str::<SessionRecord>(&row.record) else {
                tracing::error!(
                    session = row.id,
                    "the record of this session cannot be read; it is left alone"
                );
                continue;
            };
            let mut last = store.last_event(&row.id).await.map_err(of(&row.id))?;
            if let Some(turn) = record.running.take() {
                last = self.end_interrupted(&record, turn, last + 1).await?;
            }
            if let Some(queued) = queued.remove(&row.id) {
                last = self.end_queued(&mut record, queued, last + 1).await?;
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
        self.keep_told(record, &log, Vec::new()).await?;
        Ok(last)
    }

    /// Prompts that waited when the last daemon ended were never given to the agent. Whoever looks at the session sees them, and
    /// that they came to nothing. Gives the number of the last event.
    async fn end_queued(
        &self,
        record: &mut SessionRecord,
        queued: Vec<Queued>,
        seq: u64,
    ) -> Result<u64, EngineError> {
        let log = EventLog::new(seq);
        let mut gone = Vec::new();
        for queued in queued {
            record.turns = record.turns.max(queued.turn().0);
            record.prompt = Some(in_short(queued.text()));
            gone.push(Queued::gone(&record.id, queued.turn()));
            for event in queued.told() {
                log.append(event, None);
            }
        }
        self.keep_told(record, &log, gone).await?;
        Ok(log.last_seq())
    }

    /// Keeps what is told of a session before it is taken up.
    async fn keep_told(
        &self,
        record: &SessionRecord,
        log: &EventLog,
        mut changes: Vec<Change>,
    ) -> Result<(), EngineError> {
        let around = &self.inner.around;
        changes.push(record.change());
        let (session, agent) = (&record.id, &record.agent);
        flush::flush((&around.store, &around.tally), log, session, agent, changes)
            .await
            .map_err(of(session))
    }
}
