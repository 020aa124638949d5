//! Workflows as an agent: a prompt names one and gives its inputs; the turn is the run.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use catalog::McpServer;
use domain::turn::{Answer, AskKind, Dialect, EventKind, Raw, Stop};
use engine::{
    Continuity, Driver, DriverError, DriverFuture, EndpointAgent, NativeOpen, OpenSession, Opened,
    SessionSink, Turn,
};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use workflow::{AskInput, Plan};

use crate::{
    execution::{Execution, Order, Progress, StartError},
    found::{Found, ShelfError},
    prompt::Command,
    show::Audience,
    surroundings::Surroundings,
    words,
};

/// Makes the driver of an agent from what its backend is given; its runs have what the surroundings give them.
pub fn driver(agent: &EndpointAgent, node: Surroundings) -> Arc<dyn Driver> {
    let only = agent.config.get("workflow").and_then(Value::as_str);
    Arc::new(RunKeeper {
        only: only.filter(|name| *name != "*").map(str::to_owned),
        node,
        talks: Mutex::default(),
    })
}

/// The driver: each conversation has at most one run that waits for words.
#[derive(Debug)]
pub struct RunKeeper {
    /// The one workflow that every prompt runs; without it the prompt names one.
    only: Option<String>,
    node: Surroundings,
    talks: Mutex<BTreeMap<String, Arc<Talk>>>,
}

#[derive(Debug)]
struct Talk {
    sink: SessionSink,
    cwd: PathBuf,
    mcp_servers: Vec<McpServer>,
    /// One turn at a time; the session sees to that.
    run: tokio::sync::Mutex<Option<Execution>>,
}

impl RunKeeper {
    fn open(&self, open: OpenSession) -> Opened {
        let (id, continuity) = match open.resume {
            // Runs are in the store; the conversation itself has nothing else to remember.
            Some(id) => (id, Continuity::Resumed),
            None => (platform::owner::fresh_id(), Continuity::Fresh),
        };
        let talk = Talk {
            sink: open.sink,
            cwd: open.cwd,
            mcp_servers: open.mcp_servers,
            run: tokio::sync::Mutex::default(),
        };
        self.offer(&talk, &id);
        self.talks().insert(id.clone(), Arc::new(talk));
        Opened { id, continuity }
    }

    /// Tells an editor which commands there are, in the words of its protocol.
    fn offer(&self, talk: &Talk, session: &str) {
        let commands: Vec<Value> = self
            .available(&talk.cwd)
            .into_iter()
            .map(|(found, description, hint)| {
                let mut command = json!({ "name": found.name, "description": description });
                if let Some(hint) = hint {
                    command["input"] = json!({ "hint": hint });
                }
                command
            })
            .collect();
        let frame = json!({
            "sessionId": session,
            "update": { "sessionUpdate": "available_commands_update", "availableCommands": commands },
        });
        let raw = Raw {
            dialect: Dialect::Acp,
            frame: frame.to_string().into(),
        };
        let kind = EventKind::Other {
            name: "available_commands_update".to_owned(),
        };
        talk.sink.emit(kind, Some(raw));
    }

    /// Every workflow that can be run, what it does, and which inputs it takes.
    fn available(&self, cwd: &Path) -> Vec<(Found, String, Option<String>)> {
        let mut all = self.node.shelf.list(cwd);
        all.retain(|found| self.only.as_ref().is_none_or(|only| found.name == *only));
        all.into_iter()
            .filter_map(|found| {
                let plan = found.plan(cwd).ok()?;
                let description = if plan.description.is_empty() {
                    format!("Run the workflow {}", found.name)
                } else {
                    plan.description.clone()
                };
                let hints: Vec<String> = plan
                    .inputs
                    .iter()
                    .map(|input| match input.required {
                        true => format!("{}=…", input.name),
                        false => format!("[{}=…]", input.name),
                    })
                    .collect();
                let hint = (!hints.is_empty()).then(|| hints.join(" "));
                Some((found, description, hint))
            })
            .collect()
    }

    async fn turn(&self, turn: Turn) -> Result<Stop, DriverError> {
        let talk = self.talks().get(&turn.session).cloned();
        let talk = talk.ok_or_else(|| DriverError::Protocol {
            what: "the conversation is not open".to_owned(),
        })?;
        let mut place = talk.run.lock().await;
        let audience = Audience::new(talk.sink.clone(), self.node.mask());
        let execution = match place.take() {
            Some(mut waiting) => waiting.answer(turn.prompt.clone()).await.map(|()| waiting),
            None => self.begin(&talk, &turn, audience.clone()).await,
        };
        let mut execution = match execution {
            Ok(execution) => execution,
            Err(error) => return Ok(self.refuse(&talk, &audience, error)),
        };
        match execution.drive(&turn.cancel).await {
            Ok(Progress::Waiting(AskInput { .. })) => {
                *place = Some(execution);
                Ok(Stop::EndTurn)
            }
            Ok(Progress::Finished(finish)) => Ok(audience.conclude(&finish)),
            Err(error) => Err(DriverError::Program {
                why: engine::chain(&error),
            }),
        }
    }

    async fn begin(
        &self,
        talk: &Talk,
        turn: &Turn,
        audience: Audience,
    ) -> Result<Execution, StartError> {
        let command = match (&self.only, Command::parse(&turn.prompt)) {
            (_, Some(command)) => command,
            (Some(only), None) => Command {
                name: only.clone(),
                rest: turn.prompt.trim().to_owned(),
            },
            (None, None) => {
                return Err(StartError::Shelf(ShelfError::Missing {
                    name: String::new(),
                    known: Vec::new(),
                }));
            }
        };
        let found = self.node.shelf.find(&talk.cwd, &command.name)?;
        let plan = found.plan(&talk.cwd)?;
        let mut inputs = command.inputs(&plan).map_err(|error| StartError::Prompt {
            why: error.to_string(),
        })?;
        ask_missing(&plan, &mut inputs, &audience, &turn.cancel).await;
        let order = Order {
            cwd: talk.cwd.clone(),
            mcp_servers: talk.mcp_servers.clone(),
            audience,
            parent: None,
            call_stack: Vec::new(),
        };
        Execution::prepare(&self.node, &found, inputs, order).await
    }

    /// Says what is wrong and what there is; the turn has not done anything.
    fn refuse(&self, talk: &Talk, audience: &Audience, error: StartError) -> Stop {
        let mut words = match &error {
            StartError::Shelf(ShelfError::Missing { name, .. }) if name.is_empty() => {
                "Name a workflow with a slash before it.".to_owned()
            }
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

    fn talks(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Talk>>> {
        self.talks.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Driver for RunKeeper {
    fn open(&self, open: OpenSession) -> DriverFuture<'_, Result<Opened, DriverError>> {
        Box::pin(std::future::ready(Ok(self.open(open))))
    }

    fn turn(&self, turn: Turn) -> DriverFuture<'_, Result<Stop, DriverError>> {
        Box::pin(self.turn(turn))
    }

    fn open_with(
        &self,
        open: OpenSession,
        opening: NativeOpen,
    ) -> DriverFuture<'_, Result<Opened, DriverError>> {
        let (brought, left_out) = words::servers(&opening.params.frame);
        for text in left_out {
            open.sink.emit(EventKind::Notice { text }, None);
        }
        let mcp_servers = words::merged(open.mcp_servers, brought);
        Driver::open(
            self,
            OpenSession {
                mcp_servers,
                ..open
            },
        )
    }

    fn turn_with(&self, turn: Turn, said: Raw) -> DriverFuture<'_, Result<Stop, DriverError>> {
        Box::pin(async move {
            if said.dialect != Dialect::Acp {
                return self.turn(turn).await;
            }
            match words::prompt(&said.frame) {
                Ok(prompt) => self.turn(Turn { prompt, ..turn }).await,
                Err(why) => {
                    let talk = self.talks().get(&turn.session).cloned();
                    if let Some(talk) = talk {
                        talk.sink.emit(EventKind::Text { text: why }, None);
                    }
                    Ok(Stop::Refusal)
                }
            }
        })
    }

    /// There is no process that could end.
    fn ended(&self) -> DriverFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn close<'a>(&'a self, session: &'a str) -> DriverFuture<'a, ()> {
        let talk = self.talks().remove(session);
        Box::pin(async move {
            let Some(talk) = talk else {
                return;
            };
            if let Some(execution) = talk.run.lock().await.take() {
                execution.abandon().await;
            }
        })
    }
}
