//! Another workflow as a step: a run of its own inside this one.

use workflow::{StepResult, StepStatus, WorkflowAction};

use super::Act;
use crate::{
    History, RunState,
    execution::{Caller, Execution, Order, Progress, TakenUp},
};

pub(super) async fn run(act: &Act, action: WorkflowAction) -> StepResult {
    let left = match act.resumed {
        true => take_up(act).await,
        false => Ok(Left::Nothing),
    };
    let started = match left {
        Ok(Left::Over(result)) => return *result,
        Ok(Left::Begun(execution)) => Ok(*execution),
        Ok(Left::Nothing) => begin(act, action).await,
        Err(why) => Err(why),
    };
    let mut execution = match started {
        Ok(execution) => execution,
        Err(why) => return StepResult::failed(1, why),
    };
    loop {
        match execution.drive(&act.stop).await {
            Ok(Progress::Finished(finish)) => {
                let mut result = finish.of_step(execution.records());
                if act.stop.is_cancelled() {
                    result.status = StepStatus::Cancelled;
                }
                return result;
            }
            // A run inside another asks questions; it never waits for a turn of its own.
            Ok(Progress::Waiting(_)) => {
                if let Err(error) = execution.answer(String::new()).await {
                    return StepResult::failed(1, engine::chain(&error));
                }
            }
            Err(error) => {
                execution.leave();
                return StepResult::failed(1, engine::chain(&error));
            }
        }
    }
}

async fn begin(act: &Act, action: WorkflowAction) -> Result<Execution, String> {
    let found = act.scene.node.shelf.find(&act.scene.cwd, &action.workflow);
    let found = found.map_err(|error| engine::chain(&error))?;
    let order = Order {
        cwd: act.scene.cwd.clone(),
        servers: act.scene.servers.clone(),
        choices: act.scene.choices.clone(),
        audience: act.audience.inside(&act.path),
        parent: Some(caller(act)),
        trace: act.scene.trace,
        call_stack: action.call_stack,
        talk: None,
        earlier: None,
    };
    let prepared = Execution::prepare(&act.scene.node, &found, action.inputs, order).await;
    prepared.map_err(|error| engine::chain(&error))
}

fn caller(act: &Act) -> Caller {
    Caller {
        run: act.run.clone(),
        path: act.path.clone(),
        ticket: act.ticket,
    }
}

/// What an interrupted step has left.
enum Left {
    /// It had not begun.
    Nothing,
    /// Its run was over, and nobody had heard of it.
    Over(Box<StepResult>),
    Begun(Box<Execution>),
}

/// Takes up what the step had begun. Where that cannot be done the step fails: to begin anew would do finished work again.
async fn take_up(act: &Act) -> Result<Left, String> {
    let history = History::new(act.scene.node.records.clone());
    let found = history.called_by(&caller(act)).await;
    let Some((id, kept)) = found.map_err(|error| engine::chain(&error))? else {
        return Ok(Left::Nothing);
    };
    if let Some(finish) = &kept.head.finish {
        let result = finish.of_step(kept.body.snapshot.records());
        return Ok(Left::Over(Box::new(result)));
    }
    if kept.head.state == RunState::Cancelled {
        // Somebody cancelled it while nobody worked on it.
        let mut result = StepResult::failed(1, "cancelled");
        result.status = StepStatus::Cancelled;
        return Ok(Left::Over(Box::new(result)));
    }
    let taken_up = TakenUp {
        servers: act.scene.servers.clone(),
        choices: act.scene.choices.clone(),
        ..TakenUp::going_on(act.audience.inside(&act.path))
    };
    let resumed = Execution::resume(&act.scene.node, &id, taken_up).await;
    match resumed {
        Ok(execution) => Ok(Left::Begun(Box::new(execution))),
        Err(error) => Err(format!(
            "the run {id} of this step cannot be gone on with: {}",
            engine::chain(&error)
        )),
    }
}
