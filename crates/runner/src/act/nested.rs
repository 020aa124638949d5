//! Another workflow as a step: a run of its own inside this one.

use workflow::{StepResult, StepStatus, WorkflowAction};

use super::Act;
use crate::execution::{Execution, Order, Progress, TakenUp};

pub(super) async fn run(act: &Act, action: WorkflowAction) -> StepResult {
    let started = match take_up(act, &action).await {
        Some(execution) => Ok(execution),
        None => begin(act, action).await,
    };
    let mut execution = match started {
        Ok(execution) => execution,
        Err(why) => return StepResult::failed(1, why),
    };
    loop {
        match execution.drive(&act.stop).await {
            Ok(Progress::Finished(finish)) => {
                let mut result = StepResult::from(&finish);
                if act.stop.is_cancelled() {
                    result.status = StepStatus::Cancelled;
                }
                return result;
            }
            // A run inside another asks questions; it never waits for a turn of its own.
            Ok(Progress::Waiting(_)) => {
                if let Err(error) = execution.answer(String::new()).await {
                    return StepResult::failed(1, error.to_string());
                }
            }
            Err(error) => return StepResult::failed(1, error.to_string()),
        }
    }
}

async fn begin(act: &Act, action: WorkflowAction) -> Result<Execution, String> {
    let found = act.scene.node.shelf.find(&act.scene.cwd, &action.workflow);
    let found = found.map_err(|error| error.to_string())?;
    let order = Order {
        cwd: act.scene.cwd.clone(),
        servers: act.scene.servers.clone(),
        choices: act.scene.choices.clone(),
        audience: act.audience.inside(&act.path),
        parent: Some(act.run.clone()),
        call_stack: action.call_stack,
        talk: None,
    };
    let prepared = Execution::prepare(&act.scene.node, &found, action.inputs, order).await;
    prepared.map_err(|error| error.to_string())
}

/// The run that was interrupted inside this step, if there is one.
async fn take_up(act: &Act, action: &WorkflowAction) -> Option<Execution> {
    const RECENT: u32 = 1_000;
    if !act.resumed {
        return None;
    }
    let history = crate::History::new(act.scene.node.records.clone());
    let runs = history.list(RECENT).await.ok()?;
    let inside = runs.into_iter().find(|run| {
        run.parent.as_deref() == Some(&act.run)
            && run.workflow == action.workflow
            && run.finish.is_none()
    })?;
    let taken_up = TakenUp {
        servers: act.scene.servers.clone(),
        choices: act.scene.choices.clone(),
        ..TakenUp::going_on(act.audience.inside(&act.path))
    };
    Execution::resume(&act.scene.node, &inside.id, taken_up)
        .await
        .ok()
}
