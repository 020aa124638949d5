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
    /// There is no further one.
    is_last: bool,
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
    #[error("the last round is over; invite again for the next task")]
    Over,
}

impl Rounds {
    pub(crate) fn new(silence_max: Duration) -> Self {
        // At most one word waits: it is taken only between two rounds, and ends that.
        let (next, inbox) = mpsc::channel(1);
        let first = Round {
            number: 1,
            done: None,
            is_last: false,
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
                _ if round.is_last => Err(NoRound::Over),
                (None, _) => Err(NoRound::UnderWay),
                (Some(_), false) => Err(NoRound::OutOfTurn { expected }),
                (Some(_), true) => {
                    let sent = self.next.try_send(Next::Task(prompt));
                    sent.map_err(|_| NoRound::Over)
                }
            };
            if answer.is_ok() {
                *round = Round {
                    number,
                    done: None,
                    is_last: false,
                };
            }
            answer.is_ok()
        });
        answer
    }

    /// Ends it with what the last round came to; whether it waited for another one, or was ended so before.
    pub(crate) fn close(&self) -> bool {
        let mut closed = false;
        self.shown.send_if_modified(|round| {
            closed = round.is_last || round.done.is_some();
            if closed && !round.is_last {
                round.is_last = true;
                let _ = self.next.try_send(Next::Close); // A word that is there already ends the waiting just as well.
            }
            false
        });
        closed
    }

    /// Whoever asks for a further round from now on is told that there is none. One that was begun just before is done.
    fn end(&self, inbox: &mut mpsc::Receiver<Next>) -> Option<String> {
        let mut task = None;
        self.shown.send_if_modified(|round| {
            task = match inbox.try_recv() {
                Ok(Next::Task(prompt)) => Some(prompt),
                Ok(Next::Close) | Err(_) => None,
            };
            round.is_last = task.is_none();
            false
        });
        task
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
            Some(Next::Close) => None,
            None => rounds.end(&mut inbox),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between() -> Rounds {
        let rounds = Rounds::new(Duration::from_secs(1));
        let report = Report {
            summary: "s".to_owned(),
            highlights: Vec::new(),
            notes: None,
        };
        rounds.shown.send_modify(|round| round.done = Some(report));
        rounds
    }

    #[test]
    fn what_is_closed_stays_closed_however_often_it_is_said_and_goes_on_no_more() {
        let rounds = between();
        for _ in 0..3 {
            assert!(rounds.close());
        }
        assert_eq!(rounds.go_on(2, "more".to_owned()), Err(NoRound::Over));
        assert!(rounds.watch().borrow().done.is_some());
    }

    #[test]
    fn after_the_silence_a_round_that_was_begun_is_done_and_no_further_one_begins() {
        let mut begun = between();
        assert_eq!(begun.go_on(2, "more".to_owned()), Ok(()));
        let mut inbox = std::mem::replace(&mut begun.inbox, Mutex::new(mpsc::channel(1).1));
        assert_eq!(begun.end(inbox.get_mut()).as_deref(), Some("more"));
        assert!(!begun.close(), "a round is under way");

        let mut silent = between();
        let mut inbox = std::mem::replace(&mut silent.inbox, Mutex::new(mpsc::channel(1).1));
        assert_eq!(silent.end(inbox.get_mut()), None);
        assert_eq!(silent.go_on(2, "more".to_owned()), Err(NoRound::Over));
        assert!(silent.close(), "it has ended as done");
    }

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
