//! Rounds of the released dialect: after a task its delegator may have another one done in the same place and the same
//! conversation, until it closes, is silent for too long, or the lease ends.

use std::time::Duration;

use domain::delegation::{Access, Failure, Report};
use tokio::sync::{Mutex, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::plane::Plane;

/// The round that is on, or was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Round {
    pub(crate) number: u32,
    /// What it came to, while the next one is waited for.
    pub(crate) done: Option<Report>,
}

#[derive(Debug)]
enum Next {
    Task(String),
    Close,
}

/// What the task of a delegation and whoever speaks for the delegator share.
#[derive(Debug)]
pub(crate) struct Rounds {
    shown: watch::Sender<Round>,
    next: mpsc::Sender<Next>,
    inbox: Mutex<mpsc::Receiver<Next>>,
    silence_max: Duration,
}

/// Why there is no next round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoRound {
    #[error("a round is under way; wait for its end")]
    UnderWay,
    #[error("the next round is {expected}")]
    OutOfTurn { expected: u32 },
}

impl Rounds {
    pub(crate) fn new(silence_max: Duration) -> Self {
        // At most one word waits: it is taken only between two rounds, and ends that.
        let (next, inbox) = mpsc::channel(1);
        let first = Round {
            number: 1,
            done: None,
        };
        Self {
            shown: watch::Sender::new(first),
            next,
            inbox: Mutex::new(inbox),
            silence_max,
        }
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Round> {
        self.shown.subscribe()
    }

    /// Begins the round of that number. Of two that ask at the same time one does.
    pub(crate) fn go_on(&self, number: u32, prompt: String) -> Result<(), NoRound> {
        let mut answer = Ok(());
        self.shown.send_if_modified(|round| {
            let expected = round.number.saturating_add(1);
            answer = match (&round.done, number == expected) {
                (None, _) => Err(NoRound::UnderWay),
                (Some(_), false) => Err(NoRound::OutOfTurn { expected }),
                (Some(_), true) => Ok(()),
            };
            if answer.is_ok() {
                *round = Round { number, done: None };
            }
            answer.is_ok()
        });
        if answer.is_ok() {
            let _ = self.next.try_send(Next::Task(prompt)); // Its delegation has ended meanwhile.
        }
        answer
    }

    /// Ends it with what the last round came to; whether it waited for another one.
    pub(crate) fn close(&self) -> bool {
        let waits = self.shown.borrow().done.is_some();
        // A word that is there already ends the waiting just as well.
        waits && self.next.try_send(Next::Close).is_ok()
    }
}

/// Between two rounds, where the workspace is.
pub(super) struct Between<'a> {
    pub(super) rounds: &'a Rounds,
    pub(super) plane: &'a Plane,
    pub(super) access: Access,
}

impl Between<'_> {
    /// Shows what a round came to, and waits for the task of the next one; nothing if there is none.
    pub(super) async fn next(
        &self,
        report: &Report,
        stop: &CancellationToken,
    ) -> Result<Option<String>, Failure> {
        self.plane.flush(self.access).await?;
        let rounds = self.rounds;
        rounds
            .shown
            .send_modify(|round| round.done = Some(report.clone()));
        let mut inbox = rounds.inbox.lock().await;
        let heard = tokio::select! { biased;
            () = stop.cancelled() => None,
            heard = tokio::time::timeout(rounds.silence_max, inbox.recv()) => heard.ok().flatten(),
        };
        Ok(match heard {
            Some(Next::Task(prompt)) => Some(prompt),
            Some(Next::Close) | None => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_round_begins_once_and_only_between_two() {
        let rounds = Rounds::new(Duration::from_secs(1));
        let go_on = |number| rounds.go_on(number, "more".to_owned());
        assert_eq!(go_on(2), Err(NoRound::UnderWay));
        assert!(!rounds.close());
        let report = Report {
            summary: "s".to_owned(),
            highlights: Vec::new(),
            notes: None,
        };
        rounds.shown.send_modify(|round| round.done = Some(report));
        assert_eq!(go_on(3), Err(NoRound::OutOfTurn { expected: 2 }));
        assert_eq!(go_on(2), Ok(()));
        assert_eq!(go_on(2), Err(NoRound::UnderWay));
        let now = rounds.watch().borrow().clone();
        assert_eq!((now.number, now.done), (2, None));
    }
}
