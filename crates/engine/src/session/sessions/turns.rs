//! Turns of a session: begun, waited for, cancelled, and what is asked in them answered.

use domain::{
    session::ClientId,
    turn::{Answer, AskId, EventKind, Raw, TurnId},
};

use super::{Prompt, Sessions, TurnOutcome};
use crate::{
    Answered, EngineError,
    session::{
        handle::{Cancel, Command},
        work::WaitingPrompt,
    },
};

impl Sessions {
    /// Begins a turn, or queues it; [`Sessions::outcome`] waits for its end.
    pub async fn prompt(&self, id: &str, prompt: Prompt) -> Result<TurnId, EngineError> {
        self.prompt_in_words(id, prompt, None).await
    }

    pub(super) async fn prompt_in_words(
        &self,
        id: &str,
        prompt: Prompt,
        words: Option<Raw>,
    ) -> Result<TurnId, EngineError> {
        let Prompt {
            text,
            options,
            when_busy,
            by,
        } = prompt;
        let reachable = self.inner.live.get(id).map(|handle| handle.reach);
        if let Some((agent, via)) = reachable {
            self.inner.around.agents.source(&agent, via)?;
        }
        let prompt = WaitingPrompt {
            text,
            options,
            words,
            by,
        };
        self.send(id, |reply| Command::Prompt {
            prompt,
            when_busy,
            reply,
        })
        .await
    }

    /// Waits for the end of a turn and gathers what the agent said in it. `from` is an event number before its begin.
    pub async fn outcome(
        &self,
        id: &str,
        turn: TurnId,
        from: u64,
    ) -> Result<TurnOutcome, EngineError> {
        let mut reader = self.events(id, from).await?;
        let (mut text, mut begun) = (String::new(), false);
        while let Some(event) = reader.next().await? {
            match &event.kind {
                EventKind::TurnStarted { turn: started, .. } => begun = *started == turn,
                EventKind::Text { text: part } if begun => text.push_str(part),
                EventKind::TurnEnded { turn: ended, stop } if *ended == turn => {
                    return Ok(TurnOutcome {
                        turn,
                        stop: stop.clone(),
                        text,
                        last_seq: event.seq,
                    });
                }
                _ => {}
            }
        }
        Err(EngineError::SessionNotFound { id: id.to_owned() })
    }

    /// Ends the turn that runs; the next one that waits begins. No turn is no error.
    pub async fn cancel(&self, id: &str) -> Result<(), EngineError> {
        let what = Cancel::Running;
        self.ask(id, |reply| Command::Cancel { what, reply }).await
    }

    /// Ends one turn, or takes it from those that wait. That it is over is no error.
    pub async fn cancel_turn(&self, id: &str, turn: TurnId) -> Result<(), EngineError> {
        let what = Cancel::Turn(turn);
        self.ask(id, |reply| Command::Cancel { what, reply }).await
    }

    /// Ends what a client has asked for, running or waiting, and nothing of others.
    pub async fn cancel_own(&self, id: &str, client: ClientId) -> Result<(), EngineError> {
        let what = Cancel::AskedBy(client);
        self.ask(id, |reply| Command::Cancel { what, reply }).await
    }

    /// Ends what a client has asked for, or, if that is nothing, the turn that it sees running.
    pub async fn cancel_as(&self, id: &str, client: ClientId) -> Result<(), EngineError> {
        let what = Cancel::AsSeenBy(client);
        self.ask(id, |reply| Command::Cancel { what, reply }).await
    }

    /// A client cannot answer what it was asked: another one may; if none can, `denial` is the answer.
    pub async fn decline(
        &self,
        id: &str,
        ask: AskId,
        denial: Answer,
        by: ClientId,
    ) -> Result<(), EngineError> {
        self.ask(id, |reply| Command::Decline {
            ask,
            denial,
            by,
            reply,
        })
        .await
    }

    /// Answers an ask; the first answer wins.
    pub async fn answer(
        &self,
        id: &str,
        ask: AskId,
        answer: Answer,
        by: ClientId,
    ) -> Result<(), EngineError> {
        let words = None;
        self.answer_in_words(id, ask, Answered { answer, words }, by)
            .await
    }

    /// The same, with the client's own words, for an agent that understands them.
    pub async fn answer_in_words(
        &self,
        id: &str,
        ask: AskId,
        answered: Answered,
        by: ClientId,
    ) -> Result<(), EngineError> {
        let Answered { answer, words } = answered;
        self.ask(id, |reply| Command::Answer {
            ask,
            answer,
            words,
            by,
            reply,
        })
        .await
    }
}
