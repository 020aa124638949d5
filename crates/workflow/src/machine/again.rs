//! Runs that begin in the middle: what comes before a step is as an earlier run of the workflow has it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::plan::{Plan, StepKind};
use crate::problem::{Code, Problem, nearest};

use super::Machine;
use super::state::Record;

/// Where a run begins, if not where its plan does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beginning {
    pub step: String,
    pub extent: Extent,
}

/// How much of a workflow is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// The step and whatever follows it.
    Onwards,
    /// The step alone: nothing follows it, and no hook of the workflow is run.
    Alone,
}

impl Machine {
    /// The same run, which has not begun, with its beginning at a step. It sees of the results of an earlier run those that were there
    /// when the step began in it, or all of them if it never did.
    pub fn beginning_at(
        mut self,
        beginning: Beginning,
        earlier: &BTreeMap<String, Record>,
    ) -> Result<Self, Vec<Problem>> {
        check(&self.plan, &beginning).map_err(|problem| vec![problem])?;
        let until = earlier
            .get(&beginning.step)
            .map_or(u64::MAX, |record| record.order);
        let is_seen =
            |name: &str, record: &Record| record.order < until && self.plan.step(name).is_some();
        let seen = earlier
            .iter()
            .filter(|(name, record)| is_seen(name, record));
        self.state.records = seen
            .map(|(name, record)| (name.clone(), record.clone()))
            .collect();
        let orders = self.state.records.values().map(|record| record.order);
        self.state.records_made = orders.max().unwrap_or(0);
        self.state.beginning = Some(beginning);
        Ok(self)
    }
}

fn check(plan: &Plan, beginning: &Beginning) -> Result<(), Problem> {
    let Beginning { step: name, extent } = beginning;
    let Some(step) = plan.step(name) else {
        let names = plan.written_steps().map(|step| step.name.as_str());
        let mut problem =
            Problem::placeless(Code::MissingState, format!("there is no step {name}"));
        problem.hint = nearest(name, names).map(|near| format!("did you mean {near}?"));
        return Err(problem);
    };
    let around = plan
        .steps
        .iter()
        .find(|other| other.kind.inner().contains(name));
    match (extent, &step.kind, around) {
        (Extent::Alone, StepKind::Terminal(_), _) => Err(Problem::placeless(
            Code::InvalidTransition,
            format!("{name} is an end and does nothing"),
        )),
        (Extent::Onwards, _, Some(around)) => {
            let mut problem = Problem::placeless(
                Code::InvalidTransition,
                format!("{name} is a part of {}", around.name),
            );
            problem.hint = Some(format!("begin at {}, or run {name} alone", around.name));
            Err(problem)
        }
        (Extent::Alone | Extent::Onwards, _, _) => Ok(()),
    }
}
