//! Runs as they were left: taken from the records, to be gone on with or to be looked at.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Serialize;
use serde_json::{Map, Value};
use workflow::{Machine, Mask, Plan, Record};

use crate::{
    found::{self, Found, ShelfError},
    history::{History, Kept, RunView, values},
    refused::StartError,
    setup::Stage,
    world::Remembering,
};

/// A run at the place where it was left.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(crate) view: RunView,
    pub(crate) kept: Kept,
    pub(crate) machine: Machine,
    /// The world that the machine asks.
    pub(crate) world: Remembering,
    /// How many inputs it has had.
    pub(crate) inputs: u64,
    /// How many places of the log there are.
    pub(crate) logged: u64,
}

/// A run with all of its steps, for people.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunDetail {
    #[serde(flatten)]
    pub view: RunView,
    pub inputs: Map<String, Value>,
    /// Steps that have ended, in that order.
    pub steps: Vec<StepDetail>,
    /// Where it is, or was when whoever worked on it went away.
    pub in_progress: Vec<String>,
}

/// One step, the last time it ran.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepDetail {
    pub name: String,
    #[serde(flatten)]
    pub record: Record,
}

/// Everything about one run.
pub async fn detail(
    history: &History,
    id: &str,
    environment: &BTreeMap<OsString, OsString>,
) -> Result<RunDetail, StartError> {
    let restored = restore(history, id, environment).await?;
    let machine = &restored.machine;
    let mut steps: Vec<StepDetail> = machine
        .records()
        .iter()
        .map(|(name, record)| StepDetail {
            name: name.clone(),
            record: record.clone(),
        })
        .collect();
    steps.sort_by_key(|step| step.record.order);
    let in_progress = machine.in_progress().into_iter().map(str::to_owned);
    Ok(RunDetail {
        inputs: machine.setup().inputs.clone(),
        in_progress: in_progress.collect(),
        steps,
        view: restored.view,
    })
}

impl RunDetail {
    /// As it may be shown; `more` has what nobody may see today.
    #[must_use]
    pub fn masked(self, more: &Mask) -> Self {
        let mask = self.view.mask.and(more);
        let step = |step: StepDetail| StepDetail {
            record: masked(step.record, &mask),
            ..step
        };
        Self {
            inputs: values(self.inputs, &mask),
            steps: self.steps.into_iter().map(step).collect(),
            view: self.view.masked(more),
            ..self
        }
    }
}

fn masked(record: Record, mask: &Mask) -> Record {
    let json = |value: Option<Value>| value.map(|value| mask.json(&value));
    Record {
        output: mask.text(&record.output),
        stderr: mask.text(&record.stderr),
        error: record.error.map(|error| mask.text(&error)),
        response: json(record.response),
        json: json(record.json),
        data: values(record.data, mask),
        ..record
    }
}

pub(crate) async fn restore(
    history: &History,
    id: &str,
    environment: &BTreeMap<OsString, OsString>,
) -> Result<Restored, StartError> {
    let missing = || StartError::NoRun { id: id.to_owned() };
    let view = history.get(id).await?.ok_or_else(missing)?;
    let kept = history.kept(&view.id).await?.ok_or_else(missing)?;
    let found = view.found();
    let plan = plan_of(&kept, &found)?;
    let stage = Stage {
        cwd: &kept.head.cwd,
        environment,
    };
    let world = Remembering::new(stage.world(&found));
    let asked = Arc::new(world.clone());
    let mut machine = Machine::restore(Arc::new(plan), kept.body.snapshot.clone(), asked);
    let mut inputs = kept.head.inputs;
    let (since, places) = history.since(&view.id, kept.head.inputs).await?;
    for logged in since {
        inputs = logged.number;
        // It is decided as it was then; what it led to has been done or was interrupted.
        world.recall(logged.answers);
        machine.apply(logged.input, logged.at)?;
    }
    // From here on the world is as it is now.
    world.take();
    Ok(Restored {
        view,
        kept,
        machine,
        world,
        inputs,
        logged: places,
    })
}

impl RunView {
    /// The file that it was made of, as it may be found again.
    pub fn found(&self) -> Found {
        Found {
            name: self.workflow.clone(),
            path: self.path.clone(),
            pack: pack_of(&self.path),
        }
    }
}

/// A file in `PACK/workflows` belongs to the pack.
fn pack_of(path: &Path) -> Option<PathBuf> {
    let folder = path.parent()?;
    let pack = folder.parent()?;
    let is_pack = pack.parent()?.file_name()? == "workflow-packs";
    is_pack.then(|| pack.to_owned())
}

/// The plan of the file as it was when the run began.
fn plan_of(kept: &Kept, found: &Found) -> Result<Plan, StartError> {
    let templates = |name: &str| match kept.body.templates.get(name) {
        Some(text) => Ok(text.clone()),
        None => found::template(&kept.head.cwd, name),
    };
    let loaded = workflow::load(&kept.body.text, &templates);
    loaded.plan.ok_or_else(|| {
        StartError::Shelf(ShelfError::Invalid {
            path: found.path.clone(),
            problems: loaded.problems,
        })
    })
}
