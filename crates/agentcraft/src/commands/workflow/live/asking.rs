//! What a run asks the person at the terminal: one question at a time, which leaves the terminal when the answer is not wanted any
//! more, because its time is over or the run is.

use std::{collections::VecDeque, future::poll_fn, sync::Arc, task::Poll};

use domain::{
    permission,
    turn::{Answer, Ask, AskId, EventKind},
};
use engine::{Answering, AskRequest};
use tokio::sync::Notify;

use super::{Live, run};
use crate::{commands::question::Question, error::CommandError};

/// Questions that wait for the person.
#[derive(Debug, Default)]
pub(super) struct Asking {
    open: VecDeque<Open>,
    /// The first of them, at the terminal.
    question: Option<Question>,
    /// Something was typed.
    woken: Arc<Notify>,
    /// How many there were.
    number: u64,
}

#[derive(Debug)]
struct Open {
    asked: Ask,
    answer: Answering,
}

impl Asking {
    /// Resolves when something was typed, and when one who asked does not wait any more.
    pub(super) async fn changed(&mut self) {
        let Self { open, woken, .. } = self;
        let withdrawn = poll_fn(|context| {
            let mut is_any = false;
            for open in open.iter_mut() {
                is_any |= open.answer.poll_closed(context).is_ready();
            }
            match is_any {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        });
        tokio::select! {
            () = woken.notified() => {}
            () = withdrawn => {}
        }
    }

    /// Makes room on the terminal.
    pub(super) fn step_aside(&mut self) {
        if let Some(question) = &mut self.question {
            question.step_aside();
        }
    }

    fn take(&mut self, ask: &AskId) -> Option<Open> {
        let place = self.open.iter().position(|open| open.asked.id == *ask)?;
        self.open.remove(place)
    }

    /// One that nobody waits for any more, which is off the terminal from now on.
    fn withdrawn(&mut self) -> Option<Open> {
        let place = self.open.iter().position(|open| open.answer.is_closed())?;
        let open = self.open.remove(place)?;
        let is_it = |question: &mut Question| question.is(&open.asked.id);
        if let Some(question) = self.question.take_if(is_it) {
            question.take_away();
        }
        Some(open)
    }
}

impl Live<'_> {
    /// Something that a step asks: the rules of the node answer it, or the person does.
    pub(super) fn ask(&mut self, request: AskRequest) -> Result<(), CommandError> {
        let AskRequest { kind, answer, .. } = request;
        let audience = match self.screen.can_ask() {
            true => permission::Audience::Somebody,
            false => permission::Audience::Nobody,
        };
        self.asking.number += 1;
        let asked = Ask {
            id: AskId(format!("ask-{}", self.asking.number)),
            kind,
        };
        self.log.append(EventKind::Ask(asked.clone()), None);
        let decided = run::by_policy(self.config, &asked.kind, &self.cwd, audience);
        let open = Open { asked, answer };
        match decided {
            Some(given) => self.settle(open, given, Some("policy")),
            None => self.asking.open.push_back(open),
        }
        self.look_at_answers()
    }

    /// Takes what was typed, takes away what is not asked any more, and asks what is next.
    pub(super) fn look_at_answers(&mut self) -> Result<(), CommandError> {
        while let Some(open) = self.asking.withdrawn() {
            self.settle(open, Answer::Declined, None);
        }
        if let Some(question) = &mut self.asking.question
            && let Some(given) = question.answer()
        {
            let id = question.asks().id.clone();
            self.asking.question = None;
            self.lines.answered(&id);
            if let Some(open) = self.asking.take(&id) {
                self.settle(open, given, Some("you"));
            }
        }
        while !self.show_question()? {}
        Ok(())
    }

    /// Puts the first question at the end of the terminal; false if it could not be, and the next one may.
    fn show_question(&mut self) -> Result<bool, CommandError> {
        let Some(first) = self.asking.open.front() else {
            return Ok(true);
        };
        let is_new = self.asking.question.is_none();
        if is_new {
            let woken = self.asking.woken.clone();
            let wake = Arc::new(move || woken.notify_one());
            match Question::open(first.asked.clone(), wake) {
                Ok(question) => self.asking.question = Some(question),
                Err(error) => {
                    tracing::warn!(%error, "nobody can be asked");
                    if let Some(open) = self.asking.open.pop_front() {
                        let denial = open.asked.kind.denial();
                        self.settle(open, denial, None);
                    }
                    return Ok(false);
                }
            }
        }
        if self
            .asking
            .question
            .as_ref()
            .is_some_and(Question::is_shown)
        {
            return Ok(true);
        }
        self.show_events()?;
        if !is_new {
            self.lines.repeat_ask();
        }
        self.lines.pause(self.screen)?;
        self.lines.close(self.screen)?;
        if let Some(question) = &mut self.asking.question {
            question.show();
        }
        Ok(true)
    }

    fn settle(&self, open: Open, given: Answer, by: Option<&str>) {
        let settled = EventKind::AskSettled {
            ask: open.asked.id,
            answer: given.clone(),
            by: by.map(str::to_owned),
            why: None,
        };
        self.log.append(settled, None);
        let _ = open.answer.send(given); // The step may have given up.
    }
}
