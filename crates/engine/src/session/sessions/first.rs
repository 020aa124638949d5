//! A session that begins with a turn: both are kept at once, under an id that whoever asks has kept before.

use domain::turn::TurnId;
use tokio::sync::oneshot;

use super::{AttachAs, CreateSession, Prompt, Sessions};
use crate::{
    Batch, EngineError, EventReader,
    session::{handle::Command, task::Row, work::WaitingPrompt},
};

/// A new conversation, who holds it, and the first that is said in it.
#[derive(Debug)]
pub struct FirstTurn {
    /// From [`Sessions::fresh_id`].
    pub id: String,
    pub create: CreateSession,
    pub attach: AttachAs,
    pub prompt: Prompt,
    /// Documents of whoever asks that are kept in the same transaction: with the turn, or not at all.
    pub along: Batch,
}

impl Sessions {
    /// Begins a session with its first turn, and gives the turn's events. The session rests while nobody uses it: it is
    /// not listed then, and whoever asks for it by its id takes it up again.
    pub async fn begin_first(
        &self,
        first: FirstTurn,
    ) -> Result<(TurnId, EventReader), EngineError> {
        let FirstTurn {
            id,
            create,
            attach,
            prompt,
            along,
        } = first;
        let via = self.via(&create.agent)?;
        let via = via.ok_or_else(|| EngineError::NotStarted {
            name: create.agent.clone(),
        })?;
        self.inner.around.agents.source(&create.agent, via)?;
        let cwd = self.workspace(&create.agent)?;
        let mut record = self.record(create, via, cwd)?;
        record.id.clone_from(&id);
        record.rests = true;
        let handle = self.spawn(record, Row::Missing, 1);
        self.inner.live.insert(id.clone(), handle.clone());
        let (reply, begun) = oneshot::channel();
        let prompt = WaitingPrompt {
            text: prompt.text,
            options: prompt.options,
            words: None,
            by: prompt.by,
        };
        let command = Command::Begin {
            client: attach.client,
            answers: attach.answers,
            prompt,
            along,
            reply,
        };
        let sent = handle.commands.send(command).await;
        sent.map_err(|_| EngineError::ShuttingDown)?;
        let turn = begun.await.map_err(|_| EngineError::ShuttingDown)??;
        let store = self.inner.around.store.clone();
        Ok((turn, EventReader::new(id, Some(handle.log), store, 1)))
    }
}
