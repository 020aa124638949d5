//! Telling our own turn from those of others in the same session.

use domain::turn::{EventKind, TurnId};

/// A turn that begins with our prompt, and how far it is.
#[derive(Debug)]
pub(super) struct OwnTurn {
    prompt: String,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running(TurnId),
    Over,
}

/// Whether an event belongs to the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Show,
    Skip,
}

impl OwnTurn {
    pub(super) fn new(prompt: &str) -> Self {
        Self {
            prompt: prompt.to_owned(),
            state: State::Waiting,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Looks at the next event of the session.
    pub(super) fn takes(&mut self, event: Option<&EventKind>) -> Step {
        match (self.state, event) {
            (State::Waiting, Some(EventKind::TurnStarted { turn, prompt }))
                if *prompt == self.prompt =>
            {
                self.state = State::Running(*turn);
                Step::Show
            }
            (State::Running(own), Some(EventKind::TurnEnded { turn, .. })) if *turn == own => {
                self.state = State::Over;
                Step::Show
            }
            (State::Running(_), _) => Step::Show,
            (State::Waiting | State::Over, _) => Step::Skip,
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::turn::Stop;

    use super::*;

    #[test]
    fn turns_of_others_before_and_after_are_skipped() {
        let started = |turn, prompt: &str| EventKind::TurnStarted {
            turn: TurnId(turn),
            prompt: prompt.to_owned(),
        };
        let text = || EventKind::Text {
            text: "x".to_owned(),
        };
        let ended = |turn| EventKind::TurnEnded {
            turn: TurnId(turn),
            stop: Stop::EndTurn,
        };
        let events = [
            (started(1, "theirs"), Step::Skip),
            (text(), Step::Skip),
            (ended(1), Step::Skip),
            (started(2, "ours"), Step::Show),
            (text(), Step::Show),
            (ended(2), Step::Show),
            (started(3, "ours"), Step::Skip),
        ];
        let mut own = OwnTurn::new("ours");
        for (event, step) in events {
            assert_eq!(own.takes(Some(&event)), step, "{event:?}");
        }
        assert!(own.is_over());
    }
}
