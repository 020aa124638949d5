//! One prompt: a run that waits is told it, or it names a workflow that begins.

use domain::turn::{Answer, AskKind, Stop};
use engine::{DriverError, Occasion, Turn};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use workflow::{AskInput, Plan};

use super::RunKeeper;
use crate::{
    execution::{Execution, Order, Progress, TakenUp},
    found::{Found, ShelfError},
    history::History,
    parked::Parked,
    prompt::Command,
    refused::StartError,
    show::Audience,
    talk::Talk,
};

/// What is said first where a prompt cannot be read as a workflow and its inputs.
const INVALID_PROMPT: &str = "USER.ACP.INVALID_PROMPT";

/// How a prompt has come to its workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meant {
    /// By its name, with inputs after it.
    Named,
    /// By itself: all of it is text for the workflow.
    Text,
}

impl RunKeeper {
    pub(super) async fn take(&self, turn: Turn) -> Result<Stop, DriverError> {
        let talk = self.talk(&turn.session)?;
        let mut place = talk.run.lock().await;
        let audience = Audience::new(talk.sink.clone(), self.node.mask());
        let waiting = match (place.take(), talk.may_have_left()) {
            (Some(parked), _) => parked.take().await,
            (None, true) => self.left(&talk, audience.clone()).await,
            (None, false) => None,
        };
        let execution = match (waiting, turn.options.occasion) {
            (Some(mut waiting), _) => waiting.answer(turn.prompt.clone()).await.map(|()| waiting),
            (None, Occasion::Prompt) => self.begin(&talk, &turn, audience.clone()).await,
            (None, Occasion::LateAnswer) => self.asked(&talk, audience.clone()).await,
        };
        let mut execution = match execution {
            Ok(execution) => execution,
            Err(error) => return Ok(self.refuse(&talk, &audience, error)),
        };
        match execution.drive(&turn.cancel).await {
            Ok(Progress::Waiting(AskInput { .. })) => {
                *place = Some(Parked::new(execution, &self.node.around.tasks));
                Ok(Stop::EndTurn)
            }
            Ok(Progress::Finished(finish)) => Ok(execution.conclude(&finish)),
            Err(error) => {
                execution.leave();
                Err(DriverError::Program {
                    why: engine::chain(&error),
                })
            }
        }
    }

    /// The run whose question was answered when its turn was gone: it goes on at its gate, asks again, and is answered.
    async fn asked(&self, talk: &Talk, audience: Audience) -> Result<Execution, StartError> {
        let history = History::new(self.node.records.clone());
        match history.left_in(&talk.id).await? {
            Some(run) => self.taken_up(talk, &run, audience).await,
            None => Err(StartError::Prompt {
                why: "What was asked here is over; begin the workflow again.".to_owned(),
            }),
        }
    }

    async fn taken_up(
        &self,
        talk: &Talk,
        run: &str,
        audience: Audience,
    ) -> Result<Execution, StartError> {
        let taken_up = TakenUp {
            servers: talk.servers.clone(),
            choices: talk.choices().clone(),
            ..TakenUp::going_on(audience)
        };
        Execution::resume(&self.node, run, taken_up).await
    }

    /// The run that waits here since before a restart.
    async fn left(&self, talk: &Talk, audience: Audience) -> Option<Execution> {
        let history = History::new(self.node.records.clone());
        let run = history.waiting_in(&talk.id).await.ok().flatten()?;
        match self.taken_up(talk, &run, audience.clone()).await {
            Ok(execution) => {
                execution.was_seen();
                Some(execution)
            }
            Err(error) => {
                audience.notice(format!(
                    "the run {run} that waited here cannot be gone on with: {}",
                    engine::chain(&error)
                ));
                None
            }
        }
    }

    async fn begin(
        &self,
        talk: &Talk,
        turn: &Turn,
        audience: Audience,
    ) -> Result<Execution, StartError> {
        let (found, command, meant) = self.meant(talk, &turn.prompt)?;
        let plan = found.plan(&talk.cwd)?;
        let inputs = match meant {
            Meant::Named => command.inputs(&plan),
            Meant::Text => command.text(&plan),
        };
        let mut inputs = inputs.map_err(|error| StartError::Prompt {
            why: error.to_string(),
        })?;
        ask_missing(&plan, &mut inputs, &audience, &turn.cancel).await;
        let order = Order {
            cwd: talk.cwd.clone(),
            servers: talk.servers.clone(),
            choices: talk.choices().clone(),
            audience,
            parent: None,
            trace: turn.options.trace,
            call_stack: Vec::new(),
            talk: Some(turn.session.clone()),
            earlier: None,
        };
        Execution::prepare(&self.node, &found, inputs, order).await
    }

    /// The workflow that a prompt is for. One that the node's owner has chosen may be any file; one that a prompt names is
    /// on the shelf, and is the chosen one where the agent has that alone.
    fn meant(&self, talk: &Talk, prompt: &str) -> Result<(Found, Command, Meant), StartError> {
        let shelf = &self.node.shelf;
        let named = Command::parse(prompt);
        let text = |name: &str| Command {
            name: name.to_owned(),
            rest: prompt.trim().to_owned(),
        };
        if let Some(only) = &self.only {
            let found = shelf.find(&self.node.around.workspace, only)?;
            return Ok(match named.filter(|command| command.name == *only) {
                Some(command) => (found, command, Meant::Named),
                None => (found, text(only), Meant::Text),
            });
        }
        match (named, &self.usual) {
            (Some(command), _) => {
                let found = shelf.named(&talk.cwd, &command.name)?;
                Ok((found, command, Meant::Named))
            }
            (None, Some(usual)) => Ok((shelf.find(&talk.cwd, usual)?, text(usual), Meant::Text)),
            (None, None) => Err(StartError::Shelf(ShelfError::Missing {
                name: String::new(),
                known: Vec::new(),
            })),
        }
    }

    /// Says what is wrong and what there is; the turn has not done anything.
    fn refuse(&self, talk: &Talk, audience: &Audience, error: StartError) -> Stop {
        let mut words = match &error {
            StartError::Shelf(ShelfError::Missing { name, .. }) if name.is_empty() => {
                format!("{INVALID_PROMPT}: Name a workflow with a slash before it.")
            }
            StartError::Shelf(missing @ ShelfError::Missing { .. }) => {
                format!("{INVALID_PROMPT}: {missing}.")
            }
            StartError::Prompt { why } => format!("{INVALID_PROMPT}: {why}"),
            other => engine::chain(other),
        };
        if let StartError::Shelf(ShelfError::Missing { .. }) = error {
            let names = self.available(&talk.cwd).into_iter();
            let names: Vec<String> = names
                .map(|(found, _, _)| format!("/{}", found.name))
                .collect();
            words.push_str(&match names.is_empty() {
                true => " There are none here: put files into .agentcraft/workflows.".to_owned(),
                false => format!(" There are {}.", names.join(", ")),
            });
        }
        audience.text(words);
        Stop::Refusal
    }
}

/// Asks for what is required and was not given, where somebody can be asked; what is declined stays missing.
async fn ask_missing(
    plan: &Plan,
    inputs: &mut Map<String, Value>,
    audience: &Audience,
    cancel: &CancellationToken,
) {
    for spec in &plan.inputs {
        if !spec.required || spec.default.is_some() || inputs.contains_key(&spec.name) {
            continue;
        }
        let text = match spec.description.as_str() {
            "" => format!("{} ({})", spec.name, spec.kind.word()),
            words => format!("{} ({}): {words}", spec.name, spec.kind.word()),
        };
        let kind = AskKind::Question { text, schema: None };
        let answer = tokio::select! { biased;
            () = cancel.cancelled() => return,
            answer = audience.ask(kind, None) => answer,
        };
        let Answer::Text { text } = answer else {
            return;
        };
        let value = crate::prompt::typed(&text, Some(spec.kind));
        inputs.insert(spec.name.clone(), value);
    }
}
