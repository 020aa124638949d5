//! Random plans and random answers: every run ends, cancel always ends, and a kill never repeats what had ended.

use std::collections::BTreeSet;
use std::fmt::Write;

use proptest::prelude::*;

use super::*;

/// Steps 0 to 5 with kinds and ways on chosen by chance; groups contain only steps with higher numbers.
fn workflow(choices: &[(u8, u8, u8)]) -> String {
    let mut text = String::from("name: demo\nstates:\n  initial: s0\n");
    let count = choices.len();
    let name = |index: usize| {
        if index < count {
            format!("s{index}")
        } else {
            "done".to_owned()
        }
    };
    for (index, (kind, ways, rule)) in choices.iter().enumerate() {
        let inner: Vec<String> = (index + 1..count.min(index + 3)).map(&name).collect();
        let kind = if inner.is_empty() { kind % 4 } else { kind % 7 };
        let what = match kind {
            0 => "type: command, command: run".to_owned(),
            1 => "type: agent, provider: claude, prompt: hi".to_owned(),
            2 => "type: agent, provider: claude, mode: conversation, prompt: hi".to_owned(),
            3 => "type: approval, message: ok".to_owned(),
            4 => format!(
                "type: parallel, parallel: [{}], strategy: {}",
                inner.join(", "),
                ["all_succeed", "any_succeed", "best_effort"][usize::from(*rule) % 3]
            ),
            5 => format!(
                "type: for_each, items: [1, 2], body: [{}]",
                inner.join(", ")
            ),
            _ => format!(
                "type: while, while: 'loop.Index < 2', body: [{}]",
                inner.join(", ")
            ),
        };
        let extra = match rule % 6 {
            0 => ", retry: {max_attempts: 3, initial_delay: 1s, jitter: 0.5}",
            1 => ", timeout: 2s",
            2 => ", continue_on_error: true",
            3 => ", hooks: {pre: [{command: before}], post: [{command: after}]}",
            4 if kind != 3 => ", approval: {on_deny: abort}",
            _ => "",
        };
        let target = name(index + 1 + usize::from(ways % 3));
        let failure = if ways % 2 == 0 {
            ", on_failure: done"
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "  s{index}: {{{what}{extra}, on_success: {target}{failure}}}"
        );
    }
    text.push_str("  done: {type: terminal}\nhooks: {workflow_end: [{command: end}], workflow_cancel: [{command: undo}]}\n");
    text
}

/// Performs effects by chance. Kills the runner now and then if told to.
struct Chance<'a> {
    answers: &'a [u8],
    next: usize,
}

impl Chance<'_> {
    fn draw(&mut self) -> u8 {
        let answer = self
            .answers
            .get(self.next % self.answers.len().max(1))
            .copied()
            .unwrap_or(0);
        self.next += 1;
        // The position takes part, so that a short list does not repeat itself for ever.
        answer.wrapping_add((self.next / self.answers.len().max(1)) as u8)
    }
}

/// What a runner owes the machine.
#[derive(Default)]
struct Owed {
    work: BTreeSet<Ticket>,
    words: BTreeSet<Ticket>,
    approvals: BTreeSet<Ticket>,
    repeats: BTreeSet<Ticket>,
    ended: BTreeSet<Ticket>,
}

impl Owed {
    fn note(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Start(start) => {
                    assert!(
                        !self.ended.contains(&start.ticket),
                        "{} was started again after it had ended",
                        start.path
                    );
                    assert!(
                        self.work.insert(start.ticket),
                        "{} runs twice at once",
                        start.path
                    );
                }
                Effect::AskInput(ask) => drop(self.words.insert(ask.ticket)),
                Effect::AskApproval(ask) => drop(self.approvals.insert(ask.ticket)),
                Effect::AskRepeat(ask) => drop(self.repeats.insert(ask.ticket)),
                Effect::Withdraw { ticket } => {
                    self.words.remove(ticket);
                    self.approvals.remove(ticket);
                    self.repeats.remove(ticket);
                }
                Effect::Stop { .. }
                | Effect::WakeAt { .. }
                | Effect::Log { .. }
                | Effect::Announce(_)
                | Effect::Finish(_) => {}
            }
        }
    }

    fn input(&mut self, chance: &mut Chance<'_>) -> Option<Input> {
        let pick = |set: &mut BTreeSet<Ticket>, draw: u8| {
            let ticket = set
                .iter()
                .nth(usize::from(draw) % set.len().max(1))
                .copied()?;
            set.remove(&ticket);
            Some(ticket)
        };
        if let Some(ticket) = pick(&mut self.repeats, chance.draw()) {
            let decision =
                [Repeat::Again, Repeat::Fail, Repeat::Skip][usize::from(chance.draw()) % 3];
            return Some(Input::Repeat { ticket, decision });
        }
        if let Some(ticket) = pick(&mut self.approvals, chance.draw()) {
            let decision = if chance.draw().is_multiple_of(4) {
                Decision::Deny
            } else {
                Decision::Allow
            };
            return Some(Input::Approve { ticket, decision });
        }
        if let Some(ticket) = pick(&mut self.words, chance.draw()) {
            let text = if chance.draw().is_multiple_of(3) {
                "more"
            } else {
                ""
            };
            return Some(Input::Answer {
                ticket,
                text: text.to_owned(),
            });
        }
        let ticket = pick(&mut self.work, chance.draw())?;
        self.ended.insert(ticket);
        let result = if chance.draw().is_multiple_of(3) {
            StepResult::failed(1, "no")
        } else {
            StepResult::succeeded("yes")
        };
        Some(Input::Finished {
            ticket,
            result: Box::new(result),
        })
    }
}

const ROUNDS_MAX: usize = 5000;

fn play(
    choices: &[(u8, u8, u8)],
    answers: &[u8],
    kill_every: Option<usize>,
    cancel_after: Option<usize>,
) -> Machine {
    let text = workflow(choices);
    let plan = plan_of(&text);
    let world: Arc<dyn World> = Arc::new(Desk::default());
    let mut machine =
        Machine::new(Arc::clone(&plan), Setup::default(), Arc::clone(&world)).unwrap();
    let mut chance = Chance { answers, next: 0 };
    let mut owed = Owed::default();
    let mut now = 0;
    let begun = machine.apply(Input::Begin, Timestamp(now)).unwrap();
    owed.note(&begun);
    for round in 0..ROUNDS_MAX {
        if machine.finish().is_some() {
            return machine;
        }
        if cancel_after == Some(round) {
            let effects = machine.apply(Input::Cancel, Timestamp(now)).unwrap();
            owed.note(&effects);
        }
        if kill_every.is_some_and(|every| round % every == every - 1) {
            let written = serde_json::to_string(machine.state()).unwrap();
            let state = serde_json::from_str(&written).unwrap();
            machine = Machine::restore(Arc::clone(&plan), state, Arc::clone(&world));
            let ended = std::mem::take(&mut owed.ended);
            owed = Owed {
                ended,
                ..Owed::default()
            };
            let effects = machine.apply(Input::Recover, Timestamp(now)).unwrap();
            owed.note(&effects);
        }
        now += 700;
        let input = owed.input(&mut chance).unwrap_or(Input::Tick);
        let effects = machine.apply(input, Timestamp(now)).unwrap();
        owed.note(&effects);
        let effects = machine.apply(Input::Tick, Timestamp(now)).unwrap();
        owed.note(&effects);
    }
    panic!("the run does not end:\n{text}\n{:#?}", machine.state());
}

fn plans() -> impl Strategy<Value = Vec<(u8, u8, u8)>> {
    prop::collection::vec((any::<u8>(), any::<u8>(), any::<u8>()), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_run_ends(choices in plans(), answers in prop::collection::vec(any::<u8>(), 1..60)) {
        let machine = play(&choices, &answers, None, None);
        prop_assert!(machine.in_progress().is_empty());
    }

    #[test]
    fn cancel_always_ends(choices in plans(), answers in prop::collection::vec(any::<u8>(), 1..60), after in 0_usize..20) {
        play(&choices, &answers, None, Some(after));
    }

    #[test]
    fn a_kill_never_repeats_what_had_ended(
        choices in plans(),
        answers in prop::collection::vec(any::<u8>(), 1..60),
        every in 1_usize..6,
        cancel in prop::option::of(0_usize..30),
    ) {
        play(&choices, &answers, Some(every), cancel);
    }
}
