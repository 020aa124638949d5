//! How runs begin: with a file and its inputs, or as one that somebody has left.

use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
    sync::Arc,
};

use domain::Trace;
use platform::crash;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use workflow::{Beginning, Finish, Input, Machine, Mask, Outcome, RewindFrom, Setup, World};

use super::{Execution, INPUTS_MAX, claim::Claim};
use crate::{
    choices::Choices,
    clock::{fresh_id, now},
    folders::FilePlaces,
    found::Found,
    history::{Body, Head, History, Kept, RunState, Worker},
    refused::StartError,
    restore::{Restored, restore},
    servers::Servers,
    setup::Stage,
    show::Audience,
    surroundings::{Scene, Surroundings, secret_inputs},
    world::Remembering,
};

/// Who runs, where, for whom.
#[derive(Debug)]
pub struct Order {
    /// The working directory of the run.
    pub cwd: PathBuf,
    /// Whoever asks for the run may bring servers along.
    pub servers: Servers,
    /// And may have chosen something for its agents.
    pub choices: Choices,
    pub audience: Audience,
    /// The step of another run that this one is.
    pub parent: Option<Caller>,
    /// What the turns of its agents belong to; without it the run begins a trace.
    pub trace: Option<Trace>,
    /// The workflows that are being run above it.
    pub call_stack: Vec<String>,
    /// The conversation that it belongs to, which finds it again when it waits there.
    pub talk: Option<String>,
    /// The run that it does again.
    pub earlier: Option<Earlier>,
}

/// A run that is done again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Earlier {
    pub run: String,
    /// Where, if not from its beginning: what comes before is then as it was in that run.
    pub at: Option<Beginning>,
}

/// A step that calls a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    pub run: String,
    pub path: String,
    /// Tells it from other attempts and rounds of the same step.
    pub ticket: u64,
}

/// How a run that was left is gone on with.
#[derive(Debug)]
pub struct TakenUp {
    /// Runs again from there instead of going on.
    pub from: Option<RewindFrom>,
    /// Instead of those it was given.
    pub inputs: Map<String, Value>,
    pub servers: Servers,
    pub choices: Choices,
    pub audience: Audience,
}

impl TakenUp {
    /// It goes on where it was left.
    pub fn going_on(audience: Audience) -> Self {
        Self {
            from: None,
            inputs: Map::new(),
            servers: Servers::default(),
            choices: Choices::default(),
            audience,
        }
    }
}

impl Execution {
    /// A new run that has not begun; fails with everything that is wrong with the file or the inputs.
    pub async fn prepare(
        node: &Surroundings,
        found: &Found,
        inputs: Map<String, Value>,
        order: Order,
    ) -> Result<Self, StartError> {
        let (text, templates, plan) = found.kept(&order.cwd)?;
        let id = fresh_id();
        let fresh = || Trace::new(uuid::Uuid::new_v4().as_u128());
        let trace = Some(order.trace.unwrap_or_else(fresh));
        let scene = Scene {
            node: node.clone(),
            cwd: order.cwd.clone(),
            servers: order.servers,
            choices: order.choices,
            trace,
            places: FilePlaces::of(found, &order.cwd, &node.around.environment),
        };
        let stage = Stage {
            cwd: &scene.cwd,
            environment: scene.environment(),
        };
        let remembering = Remembering::new(stage.world(found));
        let world: Arc<dyn World> = Arc::new(remembering.clone());
        let setup = Setup {
            parent_run: order.parent.as_ref().map(|caller| caller.run.clone()),
            call_stack: order.call_stack,
            ..stage.setup(&id, inputs, found, &world)
        };
        let machine = Machine::new(Arc::new(plan), setup, world)
            .map_err(|problems| StartError::Inputs { problems })?;
        let mut secrets = scene.node.secrets();
        secrets.extend(secret_inputs(
            &machine.setup().inputs,
            &scene.node.secret_names,
        ));
        let (machine, earlier) = match order.earlier {
            None => (machine, None),
            Some(earlier) => {
                let (machine, run) = after(&scene, machine, earlier).await?;
                // What it takes over may hold them.
                secrets.extend(run.kept.head.secrets);
                (machine, Some(run.view.id))
            }
        };
        let body = Body {
            text,
            templates,
            snapshot: machine.state().clone(),
        };
        let head = Head {
            workflow: found.name.clone(),
            path: found.path.clone(),
            cwd: order.cwd,
            caller: order.parent,
            trace,
            talk: order.talk,
            earlier,
            secrets,
            started_at: now().0,
            state: RunState::Running,
            worker: Worker::ourselves(),
            inputs: 0,
            finish: None,
        };
        let kept = Kept { head, body };
        let mut execution = Self::assemble(id, (machine, remembering), kept, scene, order.audience);
        execution.snapshot().await?;
        execution.tell_plan();
        execution.take(Input::Begin).await?;
        Ok(execution)
    }

    /// Takes up a run that was interrupted, or runs one again from a step.
    pub async fn resume(
        node: &Surroundings,
        id: &str,
        taken_up: TakenUp,
    ) -> Result<Self, StartError> {
        let history = History::new(node.records.clone());
        let missing = || StartError::NoRun { id: id.to_owned() };
        let id = history.get(id).await?.ok_or_else(missing)?.id;
        // Between reading whose it is and writing that it is ours nobody else may do the same.
        let claim = Claim::take(&node.folder, &id)?;
        let restored = restore(&history, &id, &node.around.environment).await?;
        let Restored {
            view,
            mut kept,
            machine,
            world,
            inputs: count,
            logged,
        } = restored;
        if matches!(view.state, RunState::Running | RunState::Waiting) {
            return Err(StartError::Busy { id: view.id });
        }
        let has_succeeded = |finish: &Finish| finish.outcome == Outcome::Succeeded;
        if taken_up.from.is_none() && machine.finish().is_some_and(has_succeeded) {
            return Err(StartError::Over { id: view.id });
        }
        let scene = Scene {
            node: node.clone(),
            cwd: kept.head.cwd.clone(),
            servers: taken_up.servers,
            choices: taken_up.choices,
            trace: kept.head.trace,
            places: FilePlaces::of(&view.found(), &kept.head.cwd, &node.around.environment),
        };
        let mut todo = Vec::new();
        let is_over = machine.finish().is_some();
        if count == 0 {
            // It was written down and had not begun.
            todo.push(Input::Begin);
        } else if !is_over && taken_up.from.is_none() {
            // Whoever names a step wants that one alone: what was under way is neither gone on with nor asked about.
            todo.push(Input::Recover);
        }
        if is_over || taken_up.from.is_some() {
            let from = taken_up.from.unwrap_or(RewindFrom::Left);
            let inputs = taken_up.inputs.clone();
            todo.push(Input::Rewind { from, inputs });
        }
        kept.head.secrets.extend(scene.node.secrets());
        kept.head
            .secrets
            .extend(secret_inputs(&taken_up.inputs, &scene.node.secret_names));
        kept.head.worker = Worker::ourselves();
        kept.head.state = RunState::Running;
        kept.head.finish = None;
        let mut execution =
            Self::assemble(view.id, (machine, world), kept, scene, taken_up.audience);
        execution.inputs = count;
        execution.logged = logged;
        // Nothing is written before it is known that all of it can be done.
        let mut effects = Vec::new();
        for input in todo {
            // What an earlier one asked for was not performed, and after a rewind nobody waits for it.
            effects = execution.machine.apply(input, now())?;
            execution.inputs += 1;
        }
        execution.history.forget_cancel(&execution.id).await?;
        execution.history.forget_told(&execution.id).await?;
        execution.snapshot().await?;
        drop(claim);
        crash::point("workflow.resumed");
        execution.tell_plan();
        for effect in effects {
            execution.perform(effect);
        }
        Ok(execution)
    }

    /// The steps of the plan; those that have ended already are done.
    fn tell_plan(&self) {
        let (plan, ended) = (self.machine.plan(), self.machine.records());
        self.audience.plan(plan, &self.kept.head.path, ended);
    }

    fn assemble(
        id: String,
        (machine, world): (Machine, Remembering),
        kept: Kept,
        scene: Scene,
        audience: Audience,
    ) -> Self {
        let audience = audience.of_run(&id, &Mask::of_values(kept.head.secrets.iter().cloned()));
        let (outbox, inbox) = mpsc::channel(INPUTS_MAX);
        Self {
            id,
            machine,
            world,
            history: History::new(scene.node.records.clone()),
            kept,
            scene,
            audience,
            inbox,
            outbox,
            acts: BTreeMap::new(),
            asks: BTreeMap::new(),
            waiting: VecDeque::new(),
            inputs: 0,
            logged: 0,
            bell: None,
        }
    }
}

/// A run that has not begun, with what an earlier one had come to, where it begins in the middle.
async fn after(
    scene: &Scene,
    machine: Machine,
    earlier: Earlier,
) -> Result<(Machine, Restored), StartError> {
    let history = History::new(scene.node.records.clone());
    let run = restore(&history, &earlier.run, scene.environment()).await?;
    let machine = match earlier.at {
        None => machine,
        Some(at) => machine
            .beginning_at(at, run.machine.records())
            .map_err(|problems| StartError::Inputs { problems })?,
    };
    Ok((machine, run))
}
