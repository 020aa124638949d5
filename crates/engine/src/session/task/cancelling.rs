//! Ending turns: the one that runs, a certain one, or what a client has asked for.

use domain::{
    session::{ClientId, Input},
    turn::TurnId,
};

use super::SessionTask;
use crate::{EngineError, session::handle::Cancel};

impl SessionTask {
    pub(super) async fn cancel(&mut self, what: Cancel) -> Result<(), EngineError> {
        let turns = match what {
            Cancel::Running => return self.input(Input::Cancel { turn: None }).await,
            Cancel::Turn(turn) => vec![turn],
            Cancel::AskedBy(client) => self.asked_by(&client),
            Cancel::AsSeenBy(client) => match self.asked_by(&client) {
                own if own.is_empty() => return self.input(Input::Cancel { turn: None }).await,
                own => own,
            },
        };
        for turn in turns {
            self.input(Input::Cancel { turn: Some(turn) }).await?;
        }
        Ok(())
    }

    /// What a client has asked for: what waits first, so that none of it begins when the rest is ended.
    fn asked_by(&self, client: &ClientId) -> Vec<TurnId> {
        let asked = self.askers.iter().filter(|(_, by)| *by == client);
        asked.map(|(turn, _)| *turn).rev().collect()
    }
}
