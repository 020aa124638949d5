//! One run at work: inputs come in, the machine decides, the decision is written down, and only then it is done.

mod asks;
mod begin;
pub(crate) mod bell;
mod claim;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use domain::turn::Stop;
use platform::{bell::Bell, crash};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use workflow::{AskInput, Effect, Finish, Input, Machine, Plan, Record, Start, Ticket};

use crate::{
    act,
    clock::{now, until},
    history::{History, Kept, Logged, RunState, SNAPSHOT_EVERY},
    refused::StartError,
    show::Audience,
    surroundings::Scene,
    world::{Answers, Remembering},
};

pub use begin::{Caller, Earlier, Order, TakenUp};

/// Inputs that wait: each comes from something the machine started, so there are never more than those.
const INPUTS_MAX: usize = 1024;

/// A run that somebody is at work on.
#[derive(Debug)]
pub struct Execution {
    id: String,
    machine: Machine,
    /// The world that the machine asks.
    world: Remembering,
    kept: Kept,
    history: History,
    scene: Scene,
    audience: Audience,
    inbox: mpsc::Receiver<Input>,
    outbox: mpsc::Sender<Input>,
    /// What was started and has not ended.
    acts: BTreeMap<Ticket, CancellationToken>,
    /// What somebody was asked and has not answered.
    asks: BTreeMap<Ticket, CancellationToken>,
    /// The user's turn to speak, in each conversation of the run; the first is told what is said.
    waiting: VecDeque<AskInput>,
    /// How many inputs there were.
    inputs: u64,
    /// How many places of the log have been written to.
    logged: u64,
    /// Rung by whoever, in another process, wants the run cancelled.
    bell: Option<Bell>,
}

/// Where a run has come to.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// It waits for words of the user.
    Waiting(AskInput),
    Finished(Finish),
}

impl Execution {
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The folder it works in.
    pub fn cwd(&self) -> &std::path::Path {
        &self.scene.cwd
    }

    /// What its steps have come to.
    pub(crate) fn records(&self) -> &BTreeMap<String, Record> {
        self.machine.records()
    }

    pub fn plan(&self) -> &Plan {
        self.machine.plan()
    }

    /// The last words of the run, and how the turn that it was ended.
    pub fn conclude(&self, finish: &Finish) -> Stop {
        self.audience.conclude(finish)
    }

    /// How it came out, as it may be told.
    pub(crate) fn masked(&self, finish: &Finish) -> Finish {
        self.audience.masked(finish)
    }

    /// Whoever watches has seen the beginning of what is in progress, so they are told its end.
    pub(crate) fn was_seen(&self) {
        for path in self.machine.in_progress() {
            self.audience.was_seen(path);
        }
    }

    /// Says something in the conversation that the run waits in.
    pub async fn answer(&mut self, text: String) -> Result<(), StartError> {
        let Some(asked) = self.waiting.pop_front() else {
            return Ok(());
        };
        self.kept.head.state = RunState::Running;
        self.audience.next_turn();
        self.take(Input::Answer {
            ticket: asked.ticket,
            text,
        })
        .await
    }

    /// Works until the run is over or waits for the user and nothing else is under way.
    pub async fn drive(&mut self, cancel: &CancellationToken) -> Result<Progress, StartError> {
        let mut is_cancelled = false;
        // Whoever asks for a cancel writes it down and rings: with the bell hung first, one of the two is noticed.
        if self.bell.is_none() && !cancel.is_cancelled() {
            self.bell = Some(bell::hang(&self.scene.node.folder, &self.id)?);
        }
        let mut has_rung = true;
        let ending = self.scene.node.around.tasks.stop();
        loop {
            if let Some(finish) = self.machine.finish() {
                return Ok(Progress::Finished(finish.clone()));
            }
            if has_rung && !is_cancelled {
                has_rung = false;
                is_cancelled = self.history.is_cancel_asked(&self.id).await?;
                if is_cancelled {
                    self.waiting.clear();
                    self.take_in_time(Input::Cancel).await?;
                    continue;
                }
            }
            if let Some(asked) = self.waiting.front()
                && self.acts.is_empty()
                && self.asks.is_empty()
                && !cancel.is_cancelled()
            {
                let asked = asked.clone();
                self.kept.head.state = RunState::Waiting;
                self.snapshot().await?;
                return Ok(Progress::Waiting(asked));
            }
            let wake = self.machine.next_wake();
            let input = tokio::select! { biased;
                () = cancel.cancelled(), if !is_cancelled => {
                    is_cancelled = true;
                    self.waiting.clear();
                    Input::Cancel
                }
                // What is under way ends with the process. That is no failure of its step, after which another would be begun.
                () = ending.cancelled(), if !is_cancelled => {
                    is_cancelled = true;
                    self.waiting.clear();
                    Input::Cancel
                }
                input = self.inbox.recv() => match input {
                    Some(input) => input,
                    None => unreachable!("we hold a sender ourselves"),
                },
                () = until(wake) => Input::Tick,
                () = bell::rung(self.bell.as_ref()), if !is_cancelled => {
                    has_rung = true;
                    continue;
                }
            };
            self.take_in_time(input).await?;
        }
    }

    /// An answer to a question that was withdrawn meanwhile, or a tick that came late, changes nothing.
    async fn take_in_time(&mut self, input: Input) -> Result<(), StartError> {
        match self.take(input).await {
            Err(StartError::Rejected(rejected)) => {
                tracing::debug!(run = self.id, %rejected, "an input came too late");
                Ok(())
            }
            taken => taken,
        }
    }

    /// Gives a run up between two turns: it is cancelled, and everything of it is gone when this returns.
    pub async fn abandon(mut self) {
        let cancel = CancellationToken::new();
        cancel.cancel();
        self.waiting.clear();
        if let Err(error) = self.drive(&cancel).await {
            tracing::warn!(run = self.id, error = %engine::chain(&error), "could not end a run");
        }
    }

    /// Resolves when somebody, in whatever process, wants the run cancelled while nobody drives it.
    pub async fn cancel_asked(&self) {
        loop {
            // Whoever asks writes it down first and rings then.
            match self.history.is_cancel_asked(&self.id).await {
                Ok(true) => return,
                Ok(false) => bell::rung(self.bell.as_ref()).await,
                Err(error) => {
                    tracing::warn!(run = self.id, error = %engine::chain(&error), "could not see whether a run shall be cancelled");
                    bell::rung(self.bell.as_ref()).await;
                }
            }
        }
    }

    /// Gives up a run that cannot be written down any more. It is as it was written last, and nobody works on it: that is
    /// written as soon as it can be, so that somebody can take the run up.
    pub(crate) fn leave(self) {
        const AGAIN: Duration = Duration::from_secs(2);
        let (history, id) = (self.history.clone(), self.id.clone());
        let mut kept = self.kept.clone();
        if kept.head.finish.is_none() {
            kept.head.state = RunState::Interrupted;
        }
        let tasks = self.scene.node.around.tasks.clone();
        drop(self);
        tasks.spawn(|ending| async move {
            while let Err(error) = history.snapshot(&id, &kept).await {
                tracing::warn!(run = id, error = %engine::chain(&error), "could not write down that nobody works on a run");
                tokio::select! { biased;
                    () = ending.cancelled() => return,
                    () = tokio::time::sleep(AGAIN) => {}
                }
            }
        });
    }

    async fn take(&mut self, input: Input) -> Result<(), StartError> {
        match &input {
            Input::Finished { ticket, .. } => drop(self.acts.remove(ticket)),
            Input::Approve { ticket, .. }
            | Input::Repeat { ticket, .. }
            | Input::Answer { ticket, .. } => drop(self.asks.remove(ticket)),
            Input::Begin | Input::Tick | Input::Cancel | Input::Recover | Input::Rewind { .. } => {}
        }
        let at = now();
        self.world.recall(Answers::default());
        let effects = self.machine.apply(input.clone(), at)?;
        self.inputs += 1;
        let logged = Logged {
            number: self.inputs,
            at,
            input,
            answers: self.world.take(),
        };
        crash::point("workflow.taken");
        let since = self.inputs - self.kept.head.inputs;
        if self.machine.finish().is_some() || since >= self.snapshot_after() {
            self.snapshot().await?;
        } else {
            self.history.log(&self.id, since, &logged).await?;
            self.logged = self.logged.max(since);
        }
        crash::point("workflow.decided");
        for effect in effects {
            self.perform(effect);
        }
        self.audience.room().await;
        Ok(())
    }

    /// A snapshot costs as much as the run has steps, so a long run makes them more rarely: the cost for each step stays.
    fn snapshot_after(&self) -> u64 {
        SNAPSHOT_EVERY.max(self.machine.records().len() as u64 / 4)
    }

    async fn snapshot(&mut self) -> Result<(), StartError> {
        self.kept.head.inputs = self.inputs;
        self.kept.body.snapshot = self.machine.state().clone();
        if let Some(finish) = self.machine.finish() {
            self.kept.head.state = finish.outcome.into();
            self.kept.head.finish = Some(finish.clone());
        }
        self.history.snapshot(&self.id, &self.kept).await?;
        if self.kept.head.finish.is_some() {
            self.history.forget_inputs(&self.id, self.logged).await?;
        }
        Ok(())
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Start(start) => self.start(start),
            Effect::Stop { ticket, .. } | Effect::Withdraw { ticket } => {
                if let Some(stop) = self.acts.get(&ticket) {
                    stop.cancel();
                }
                if let Some(withdrawn) = self.asks.remove(&ticket) {
                    withdrawn.cancel();
                }
                self.waiting.retain(|asked| asked.ticket != ticket);
            }
            Effect::AskInput(asked) => self.ask_input(asked),
            Effect::AskApproval(asked) => self.ask_approval(asked),
            Effect::AskRepeat(asked) => self.ask_repeat(asked),
            Effect::WakeAt { .. } => {} // The loop looks at the machine's own time.
            Effect::Log { message, .. } => self.audience.notice(message),
            Effect::Announce(announcement) => self.audience.announce(&announcement),
            Effect::Finish(_) => {} // The loop sees it.
        }
    }

    fn start(&mut self, start: Start) {
        let stop = CancellationToken::new();
        self.acts.insert(start.ticket, stop.clone());
        let (scene, audience, outbox) = (
            self.scene.clone(),
            self.audience.clone(),
            self.outbox.clone(),
        );
        let run = self.id.clone();
        self.scene.node.around.tasks.spawn(|ending| async move {
            let ticket = start.ticket;
            let both = stop.clone();
            let watched = async {
                tokio::select! {
                    () = ending.cancelled() => both.cancel(),
                    () = both.cancelled() => {}
                }
                std::future::pending::<()>().await;
            };
            let result = tokio::select! {
                result = act::perform(start, run, scene, audience, stop) => result,
                () = watched => unreachable!("it only passes the end on"),
            };
            let result = Box::new(result);
            let _ = outbox.send(Input::Finished { ticket, result }).await; // The run may have been dropped.
        });
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        for stop in self.acts.values().chain(self.asks.values()) {
            stop.cancel();
        }
        if let Some(bell) = self.bell.take() {
            bell::take_down(bell, &self.scene.node.folder, &self.id);
        }
    }
}
