//! One run at work: inputs come in, the machine decides, the decision is written down, and only then it is done.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use catalog::McpServer;
use domain::{
    Timestamp,
    turn::{Answer, AskKind, AskOption, OptionKind, ToolKind},
};
use engine::EngineError;
use platform::crash;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use workflow::{
    AskApproval, AskInput, AskRepeat, Code, Decision, Effect, Finish, Input, Machine, Outcome,
    Plan, Problem, Rejected, Repeat, RewindFrom, Setup, Start, Ticket,
};

use crate::{
    act,
    found::{Found, ShelfError},
    history::{History, Kept, Logged, RunState, SNAPSHOT_EVERY, Worker},
    restore::{Restored, restore},
    setup::Stage,
    show::Audience,
    surroundings::{Scene, Surroundings},
};

/// Inputs that wait: each comes from something the machine started, so there are never more than those.
const INPUTS_MAX: usize = 1024;

/// How often a run looks whether somebody in another process wants it cancelled. A row of a local file is read.
const CANCEL_LOOK: Duration = Duration::from_millis(500);

/// What a form asks where a step was interrupted.
const REPEAT_FORM: &str = r#"{"type":"object","properties":{"decision":{"type":"string","enum":["again","skip","fail"]}},"required":["decision"]}"#;

const ALLOW: &str = "allow";
const REJECT: &str = "reject";

/// A run that somebody is at work on.
#[derive(Debug)]
pub struct Execution {
    id: String,
    machine: Machine,
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
    /// The user's turn to speak.
    waiting: Option<AskInput>,
    /// How many inputs there were.
    inputs: u64,
}

/// Where a run has come to.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// It waits for words of the user.
    Waiting(AskInput),
    Finished(Finish),
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    #[error("{}", words(problems))]
    Inputs { problems: Vec<Problem> },
    #[error("{why}")]
    Prompt { why: String },
    #[error("there is no run {id}")]
    NoRun { id: String },
    #[error("somebody else is at work on the run {id}")]
    Busy { id: String },
    #[error(transparent)]
    Rejected(#[from] Rejected),
    #[error(transparent)]
    Store(#[from] EngineError),
}

impl StartError {
    /// What a command that ends because of it exits with, by the numbers of the format.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Shelf(ShelfError::Invalid { problems, .. }) | Self::Inputs { problems } => {
                workflow::exit_code(problems).max(1)
            }
            Self::Shelf(ShelfError::Missing { .. })
            | Self::Prompt { .. }
            | Self::NoRun { .. }
            | Self::Busy { .. }
            | Self::Rejected(_) => 1,
            Self::Shelf(ShelfError::Read { .. }) | Self::Store(_) => Code::SystemIo.exit_code(),
        }
    }

    /// Everything that is wrong, where it is a list.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Shelf(ShelfError::Invalid { problems, .. }) | Self::Inputs { problems } => {
                problems
            }
            Self::Shelf(ShelfError::Missing { .. } | ShelfError::Read { .. })
            | Self::Prompt { .. }
            | Self::NoRun { .. }
            | Self::Busy { .. }
            | Self::Rejected(_)
            | Self::Store(_) => &[],
        }
    }
}

/// What a command that ran the workflow exits with: the number that its end says, or that of what went wrong.
pub fn exit_code(finish: &Finish) -> i32 {
    match finish.outcome {
        Outcome::Succeeded => 0,
        Outcome::Failed | Outcome::Cancelled => finish.exit_code.max(1),
    }
}

fn words(problems: &[Problem]) -> String {
    let words: Vec<String> = problems.iter().map(ToString::to_string).collect();
    words.join("; ")
}

/// Who runs, where, for whom.
#[derive(Debug)]
pub struct Order {
    /// The working directory of the run.
    pub cwd: PathBuf,
    /// Whoever asks for the run may bring servers along.
    pub mcp_servers: Vec<McpServer>,
    pub audience: Audience,
    /// The run that this one is a step of.
    pub parent: Option<String>,
    /// The workflows that are being run above it.
    pub call_stack: Vec<String>,
}

impl Execution {
    /// A new run that has not begun; fails with everything that is wrong with the file or the inputs.
    pub async fn prepare(
        node: &Surroundings,
        found: &Found,
        inputs: Map<String, Value>,
        order: Order,
    ) -> Result<Self, StartError> {
        let text = found.text()?;
        let plan = Arc::new(found.plan(&order.cwd)?);
        let id = fresh_id();
        let scene = Scene {
            node: node.clone(),
            cwd: order.cwd.clone(),
            mcp_servers: order.mcp_servers,
        };
        let stage = Stage {
            cwd: &scene.cwd,
            environment: scene.environment(),
        };
        let world = stage.world(found);
        let setup = Setup {
            parent_run: order.parent.clone(),
            call_stack: order.call_stack,
            ..stage.setup(&id, inputs, &world)
        };
        let machine =
            Machine::new(plan, setup, world).map_err(|problems| StartError::Inputs { problems })?;
        let kept = Kept {
            workflow: found.name.clone(),
            path: found.path.clone(),
            text,
            cwd: order.cwd,
            parent: order.parent,
            started_at: now().0,
            state: RunState::Running,
            worker: Worker::ourselves(),
            inputs: 0,
            snapshot: machine.state().clone(),
            finish: None,
        };
        let mut execution = Self::assemble(id, machine, kept, scene, order.audience);
        execution.snapshot().await?;
        execution.audience.plan(execution.machine.plan());
        execution.take(Input::Begin).await?;
        Ok(execution)
    }

    /// Takes up a run that was interrupted, or runs one again from a step.
    pub async fn resume(
        node: &Surroundings,
        id: &str,
        from: Option<RewindFrom>,
        inputs: Map<String, Value>,
        audience: Audience,
    ) -> Result<Self, StartError> {
        let history = History::new(node.records.clone());
        let restored = restore(&history, id, &node.around.environment).await?;
        let Restored {
            view,
            mut kept,
            machine,
            inputs: count,
        } = restored;
        if matches!(view.state, RunState::Running | RunState::Waiting) {
            return Err(StartError::Busy { id: view.id });
        }
        let scene = Scene {
            node: node.clone(),
            cwd: kept.cwd.clone(),
            mcp_servers: Vec::new(),
        };
        let mut todo = Vec::new();
        let is_over = machine.finish().is_some();
        if count == 0 {
            // It was written down and had not begun.
            todo.push(Input::Begin);
        } else if !is_over {
            todo.push(Input::Recover);
        }
        if is_over || from.is_some() {
            let from = from.unwrap_or(RewindFrom::Current);
            todo.push(Input::Rewind { from, inputs });
        }
        kept.worker = Worker::ourselves();
        kept.state = RunState::Running;
        kept.finish = None;
        let mut execution = Self::assemble(view.id, machine, kept, scene, audience);
        execution.inputs = count;
        // Nothing is written before it is known that all of it can be done.
        let mut effects = Vec::new();
        for input in todo {
            effects.extend(execution.machine.apply(input, now())?);
            execution.inputs += 1;
        }
        execution.history.forget_cancel(&execution.id).await?;
        execution.snapshot().await?;
        crash::point("workflow.resumed");
        execution.audience.plan(execution.machine.plan());
        for effect in effects {
            execution.perform(effect);
        }
        Ok(execution)
    }

    fn assemble(
        id: String,
        machine: Machine,
        kept: Kept,
        scene: Scene,
        audience: Audience,
    ) -> Self {
        let (outbox, inbox) = mpsc::channel(INPUTS_MAX);
        Self {
            id,
            machine,
            history: History::new(scene.node.records.clone()),
            kept,
            scene,
            audience,
            inbox,
            outbox,
            acts: BTreeMap::new(),
            asks: BTreeMap::new(),
            waiting: None,
            inputs: 0,
        }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// The folder it works in.
    pub fn cwd(&self) -> &std::path::Path {
        &self.scene.cwd
    }

    pub fn plan(&self) -> &Plan {
        self.machine.plan()
    }

    /// Says something in the conversation that the run waits in.
    pub async fn answer(&mut self, text: String) -> Result<(), StartError> {
        let Some(asked) = self.waiting.take() else {
            return Ok(());
        };
        self.kept.state = RunState::Running;
        self.take(Input::Answer {
            ticket: asked.ticket,
            text,
        })
        .await
    }

    /// Works until the run is over or waits for the user and nothing else is under way.
    pub async fn drive(&mut self, cancel: &CancellationToken) -> Result<Progress, StartError> {
        let mut is_cancelled = false;
        let mut look = tokio::time::interval(CANCEL_LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            if let Some(finish) = self.machine.finish() {
                return Ok(Progress::Finished(finish.clone()));
            }
            if let Some(asked) = &self.waiting
                && self.acts.is_empty()
                && self.asks.is_empty()
                && !cancel.is_cancelled()
            {
                let asked = asked.clone();
                self.kept.state = RunState::Waiting;
                self.snapshot().await?;
                return Ok(Progress::Waiting(asked));
            }
            let wake = self.machine.next_wake();
            let input = tokio::select! { biased;
                () = cancel.cancelled(), if !is_cancelled => {
                    is_cancelled = true;
                    self.waiting = None;
                    Input::Cancel
                }
                input = self.inbox.recv() => match input {
                    Some(input) => input,
                    None => unreachable!("we hold a sender ourselves"),
                },
                () = until(wake) => Input::Tick,
                _ = look.tick(), if !is_cancelled => {
                    if !self.history.is_cancel_asked(&self.id).await? {
                        continue;
                    }
                    is_cancelled = true;
                    self.waiting = None;
                    Input::Cancel
                }
            };
            match self.take(input).await {
                // An answer to a question that was withdrawn meanwhile, or a tick that came late.
                Err(StartError::Rejected(rejected)) => {
                    tracing::debug!(run = self.id, %rejected, "an input came too late");
                }
                taken => taken?,
            }
        }
    }

    /// Gives a run up between two turns: it is cancelled, and everything of it is gone when this returns.
    pub async fn abandon(mut self) {
        let cancel = CancellationToken::new();
        cancel.cancel();
        self.waiting = None;
        if let Err(error) = self.drive(&cancel).await {
            tracing::warn!(run = self.id, error = %engine::chain(&error), "could not end a run");
        }
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
        let logged = Logged {
            number: self.inputs + 1,
            at,
            input: input.clone(),
        };
        let effects = self.machine.apply(input, at)?;
        self.inputs += 1;
        crash::point("workflow.taken");
        if self.machine.finish().is_some() || self.inputs.is_multiple_of(SNAPSHOT_EVERY) {
            self.snapshot().await?;
        } else {
            self.history.log(&self.id, &logged).await?;
        }
        crash::point("workflow.decided");
        for effect in effects {
            self.perform(effect);
        }
        self.audience.room().await;
        Ok(())
    }

    async fn snapshot(&mut self) -> Result<(), StartError> {
        self.kept.inputs = self.inputs;
        self.kept.snapshot = self.machine.state().clone();
        if let Some(finish) = self.machine.finish() {
            self.kept.state = finish.outcome.into();
            self.kept.finish = Some(finish.clone());
        }
        self.history.snapshot(&self.id, &self.kept).await?;
        if self.kept.finish.is_some() {
            self.history.forget_inputs(&self.id, self.inputs).await?;
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
                if self
                    .waiting
                    .as_ref()
                    .is_some_and(|asked| asked.ticket == ticket)
                {
                    self.waiting = None;
                }
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

    /// The conversation of a run at the top is the conversation of the turn; one further down asks a question.
    fn ask_input(&mut self, asked: AskInput) {
        if self.kept.parent.is_none() {
            self.waiting = Some(asked);
            return;
        }
        let kind = AskKind::Question {
            text: asked.text.clone(),
            schema: None,
        };
        let ticket = asked.ticket;
        self.ask(ticket, kind, move |answer| Input::Answer {
            ticket,
            text: match answer {
                Answer::Text { text } => text,
                Answer::Option { .. } | Answer::Declined => String::new(),
            },
        });
    }

    fn ask_approval(&mut self, asked: AskApproval) {
        let title = if asked.message.is_empty() {
            asked.summary
        } else {
            format!("{} ({})", asked.message, asked.summary)
        };
        let option = |id: &str, name: &str, kind| AskOption {
            id: id.to_owned(),
            name: name.to_owned(),
            kind,
        };
        let kind = AskKind::Permission {
            tool: self.audience.call_of(&asked.path, title, ToolKind::Other),
            options: vec![
                option(ALLOW, "Approve", OptionKind::AllowOnce),
                option(REJECT, "Deny", OptionKind::RejectOnce),
            ],
            // An approval is there to be given by a human.
            destructive: true,
        };
        let ticket = asked.ticket;
        self.ask(ticket, kind, move |answer| Input::Approve {
            ticket,
            decision: if answer
                == (Answer::Option {
                    id: ALLOW.to_owned(),
                }) {
                Decision::Allow
            } else {
                Decision::Deny
            },
        });
    }

    fn ask_repeat(&mut self, asked: AskRepeat) {
        let kind = AskKind::Question {
            text: format!("{} Do it again, skip it, or fail?", asked.message),
            schema: Some(REPEAT_FORM.to_owned()),
        };
        let ticket = asked.ticket;
        self.ask(ticket, kind, move |answer| Input::Repeat {
            ticket,
            decision: match answer {
                Answer::Text { text } => repeat_of(&text),
                Answer::Option { .. } | Answer::Declined => Repeat::Fail,
            },
        });
    }

    fn ask(
        &mut self,
        ticket: Ticket,
        kind: AskKind,
        input: impl FnOnce(Answer) -> Input + Send + 'static,
    ) {
        let (audience, outbox) = (self.audience.clone(), self.outbox.clone());
        let withdrawn = CancellationToken::new();
        self.asks.insert(ticket, withdrawn.clone());
        self.scene.node.around.tasks.spawn(|ending| async move {
            let answer = tokio::select! { biased;
                () = withdrawn.cancelled() => return,
                () = ending.cancelled() => Answer::Declined,
                answer = audience.ask(kind, None) => answer,
            };
            let _ = outbox.send(input(answer)).await; // The run may have been dropped.
        });
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        for stop in self.acts.values().chain(self.asks.values()) {
            stop.cancel();
        }
    }
}

/// A word that somebody typed, or the form with it.
fn repeat_of(text: &str) -> Repeat {
    let form: Value = serde_json::from_str(text).unwrap_or_default();
    match form["decision"].as_str().unwrap_or(text).trim() {
        "again" => Repeat::Again,
        "skip" => Repeat::Skip,
        _ => Repeat::Fail,
    }
}

async fn until(wake: Option<Timestamp>) {
    match wake {
        None => std::future::pending().await,
        Some(at) => {
            let millis = u64::try_from(at.0 - now().0).unwrap_or(0);
            tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
        }
    }
}

pub(crate) fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let millis = since.map_or(0, |since| since.as_millis());
    Timestamp(i64::try_from(millis).unwrap_or(i64::MAX))
}

/// Later ones sort after earlier ones.
fn fresh_id() -> String {
    uuid::Uuid::now_v7().to_string()
}
