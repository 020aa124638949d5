//! Doing what a step says: a command, a turn of an agent, an operation, another workflow.

mod agent;
mod command;
pub(crate) mod context;
mod heard;
mod nested;
mod operation;

use std::path::PathBuf;

use tokio_util::sync::CancellationToken;
use workflow::{Action, CommandAction, Start, StepResult};

use crate::{
    show::Audience,
    surroundings::{self, Scene},
};

/// One thing that the machine has started.
#[derive(Debug)]
pub(crate) struct Act {
    pub(crate) scene: Scene,
    pub(crate) audience: Audience,
    /// The run it belongs to.
    pub(crate) run: String,
    /// Where in the run.
    pub(crate) path: String,
    /// Tells it from everything else that the run has started.
    pub(crate) ticket: u64,
    /// The step had been started before the run was interrupted.
    pub(crate) resumed: bool,
    pub(crate) stop: CancellationToken,
}

impl Act {
    /// The name that its processes carry. No other step has it, in no run: whatever carries it is killed when the step ends.
    fn tag(&self) -> String {
        let (agent, step) = (
            &self.scene.node.around.agent,
            surroundings::plain(&self.path),
        );
        format!("{agent}.{}.{}.{step}", self.run, self.ticket)
    }

    /// The file for what a stream of this step has beyond what is kept of it.
    fn overflow(&self, stream: &str) -> PathBuf {
        let name = surroundings::plain(&self.path);
        let folder = self.scene.node.folder.join(&self.run);
        folder.join(format!("{}-{name}.{stream}", self.ticket))
    }
}

/// Who can be the agent of a step in a run there: programs that are installed, and agents of the node.
pub(crate) fn providers(scene: &Scene) -> Vec<String> {
    agent::known(scene)
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
        ticket: start.ticket.0,
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
