//! Doing what a step says: a command, a turn of an agent, an operation, another workflow.

mod agent;
mod command;
mod context;
mod nested;
mod operation;

use tokio_util::sync::CancellationToken;
use workflow::{Action, CommandAction, Start, StepResult};

use crate::{show::Audience, surroundings::Scene};

/// One thing that the machine has started.
#[derive(Debug)]
pub(crate) struct Act {
    pub(crate) scene: Scene,
    pub(crate) audience: Audience,
    /// The run it belongs to.
    pub(crate) run: String,
    /// Where in the run.
    pub(crate) path: String,
    /// The step had been started before the run was interrupted.
    pub(crate) resumed: bool,
    pub(crate) stop: CancellationToken,
}

/// Does it to its end, or until it is told to stop; then everything it had started is gone.
pub(crate) async fn perform(
    start: Start,
    run: String,
    scene: Scene,
    audience: Audience,
    stop: CancellationToken,
) -> StepResult {
    let act = Act {
        scene,
        audience,
        run,
        path: start.path,
        resumed: start.resumed,
        stop,
    };
    match start.action {
        Action::Command(command) => command::run(&act, &command).await,
        Action::Hook { command } => {
            let command = CommandAction {
                line: command,
                script: None,
                dir: None,
                capture: workflow::Capture::default(),
            };
            command::run(&act, &command).await
        }
        Action::Agent(agent) => agent::run(&act, *agent).await,
        Action::Operation(operation) => operation::run(&act, operation).await,
        Action::Workflow(workflow) => Box::pin(nested::run(&act, workflow)).await,
    }
}
