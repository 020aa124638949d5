//! Runs as they were left: taken from the records, to be gone on with or to be looked at.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Serialize;
use serde_json::{Map, Value};
use workflow::{Machine, Plan, Record};

use crate::{
    found::{self, Found, ShelfError},
    history::{History, Kept, RunView},
    refused::StartError,
    setup::Stage,
};

/// A run at the place where it was left.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(crate) view: RunView,
    pub(crate) kept: Kept,
    pub(crate) machine: Machine,
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

pub(crate) async fn restore(
    history: &History,
    id: &str,
    environment: &BTreeMap<OsString, OsString>,
) -> Result<Restored, StartError> {
    let missing = || StartError::NoRun { id: id.to_owned() };
    let view = history.get(id).await?.ok_or_else(missing)?;
    let kept = history.kept(&view.id).await?.ok_or_else(missing)?;
    let found = found_of(&kept);
    let plan = plan_of(&kept, &found)?;
    let stage = Stage {
        cwd: &kept.cwd,
        environment,
    };
    let world = stage.world(&found);
    let mut machine = Machine::restore(Arc::new(plan), kept.snapshot.clone(), world);
    let mut inputs = kept.inputs;
    let (since, places) = history.since(&view.id, kept.inputs).await?;
    for logged in since {
        inputs = logged.number;
        // It was taken before, so it is taken again; what it led to has been done or was interrupted.
        let _ = machine.apply(logged.input, logged.at);
    }
    Ok(Restored {
        view,
        kept,
        machine,
        inputs,
        logged: places,
    })
}

fn found_of(kept: &Kept) -> Found {
    Found {
        name: kept.workflow.clone(),
        path: kept.path.clone(),
        pack: pack_of(&kept.path),
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
    let templates = |name: &str| found::template(&kept.cwd, name);
    let loaded = workflow::load(&kept.text, &templates);
    loaded.plan.ok_or_else(|| {
        StartError::Shelf(ShelfError::Invalid {
            path: found.path.clone(),
            problems: loaded.problems,
        })
    })
}
