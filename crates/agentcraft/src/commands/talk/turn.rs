//! Telling our own turn from those of others in the same session.

use domain::turn::{EventKind, Stop, TurnId};
use wire::daemon::PromptResult;

/// The turn that we have asked for, and how far it is.
#[derive(Debug, Default)]
pub(in crate::commands) struct OwnTurn {
    state: State,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Waiting,
    Running(TurnId),
    Over,
}

/// Whether an event belongs to the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum Step {
    Show,
    Skip,
}

impl OwnTurn {
    /// Whether there is nothing more to see once the turn's result is there.
    pub(in crate::commands) fn is_over_after(&self, result: &PromptResult) -> bool {
        match self.state {
            State::Over => true,
            // It was taken back before it began.
            State::Waiting => result.stop_reason == Stop::Cancelled.as_str(),
            State::Running(_) => false,
        }
    }

    /// Looks at the next event of the session; `own` says that it begins a turn of ours.
    pub(in crate::commands) fn takes(&mut self, event: Option<&EventKind>, own: bool) -> Step {
        match (self.state, event) {
            (State::Waiting, Some(EventKind::TurnStarted { turn, .. })) if own => {
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
    use super::*;

    #[test]
    fn turns_of_others_before_and_after_are_skipped() {
        let started = |turn| EventKind::TurnStarted {
            turn: TurnId(turn),
            prompt: "the same".to_owned(),
            trace: None,
            by: None,
        };
        let text = || EventKind::Text {
            text: "x".to_owned(),
        };
        let ended = |turn| EventKind::TurnEnded {
            turn: TurnId(turn),
            stop: Stop::EndTurn,
        };
        let events = [
            (started(1), false, Step::Skip),
            (text(), false, Step::Skip),
            (ended(1), false, Step::Skip),
            (started(2), true, Step::Show),
            (text(), false, Step::Show),
            (ended(2), false, Step::Show),
            (started(3), true, Step::Skip),
        ];
        let mut own = OwnTurn::default();
        for (event, is_own, step) in events {
            assert_eq!(own.takes(Some(&event), is_own), step, "{event:?}");
        }
        assert_eq!(own.state, State::Over);
    }

    #[test]
    fn a_turn_that_was_taken_back_before_it_began_is_over() {
        let result = |stop: Stop| PromptResult {
            stop_reason: stop.as_str().to_owned(),
            ..PromptResult::default()
        };
        let own = OwnTurn::default();
        assert!(own.is_over_after(&result(Stop::Cancelled)));
        assert!(!own.is_over_after(&result(Stop::EndTurn)));
    }
}
