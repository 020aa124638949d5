//! Workflows as an agent: a prompt names one and gives its inputs; the turn is the run.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
};

use domain::turn::{Answer, AskKind, Dialect, EventKind, Raw, Stop};
use engine::{
    About, Continuity, Driver, DriverError, DriverFuture, EndpointAgent, NativeAnswer,
    NativeMessage, NativeOpen, OpenSession, Opened, Turn,
};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use workflow::{AskInput, Plan};

use crate::{
    act,
    choices::{Choices, Offered},
    execution::{Execution, Order, Progress, TakenUp},
    found::{Found, ShelfError},
    history::History,
    prompt::Command,
    refused::StartError,
    show::Audience,
    surroundings::{Scene, Surroundings},
    talk::Talk,
    watch::Watch,
    words,
};

/// The code of JSON-RPC for a value that cannot be taken.
const INVALID_PARAMS: i64 = -32602;

/// Makes the driver of an agent from what its backend is given; its runs have what the surroundings give them.
pub fn driver(agent: &EndpointAgent, node: Surroundings) -> Arc<dyn Driver> {
    let text = |key: &str| agent.config.get(key).and_then(Value::as_str);
    let only = text("workflow").filter(|name| *name != "*");
    Arc::new_cyclic(|ourselves| RunKeeper {
        only: only.map(str::to_owned),
        usual: text("default").map(str::to_owned),
        node,
        talks: Mutex::default(),
        watch: OnceLock::new(),
        ourselves: ourselves.clone(),
    })
}

/// The driver: each conversation has at most one run that waits for words.
#[derive(Debug)]
pub struct RunKeeper {
    /// The one workflow that every prompt runs; without it the prompt names one.
    only: Option<String>,
    /// What a prompt runs that names none.
    usual: Option<String>,
    node: Surroundings,
    talks: Mutex<BTreeMap<String, Arc<Talk>>>,
    /// There from the first conversation on, where the system can watch.
    watch: OnceLock<Option<Watch>>,
    ourselves: Weak<RunKeeper>,
}

impl RunKeeper {
    fn open(&self, open: OpenSession) -> Opened {
        let (id, continuity) = match open.resume {
            // Runs are in the store; the conversation itself has nothing else to remember.
            Some(id) => (id, Continuity::Resumed),
            None => (platform::owner::fresh_id(), Continuity::Fresh),
        };
        let talk = Talk::new(id.clone(), open.sink, open.cwd, open.mcp_servers);
        let talk = Arc::new(match continuity {
            Continuity::Resumed => talk.taken_up(),
            Continuity::Fresh | Continuity::Lost { .. } => talk,
        });
        self.talks().insert(id.clone(), Arc::clone(&talk));
        self.offer(&[talk]);
        Opened { id, continuity }
    }

    /// Tells conversations their commands, if they are others than before. What is read is watched before it is read,
    /// so that no change is missed; a folder that came meanwhile is read once more.
    fn offer(&self, talks: &[Arc<Talk>]) {
        const ROUNDS_MAX: usize = 8;
        self.follow();
        for _ in 0..ROUNDS_MAX {
            for talk in talks {
                talk.offer(self.commands(&talk.cwd));
            }
            if !self.follow() {
                return;
            }
        }
    }

    /// Watches the folders of all conversations; says whether one is new.
    fn follow(&self) -> bool {
        let watch = self.watch.get_or_init(|| {
            let (watch, mut changes) = Watch::start()?;
            let ourselves = self.ourselves.clone();
            self.node.around.tasks.spawn(|stop| async move {
                loop {
                    let goes_on = tokio::select! { biased;
                        () = stop.cancelled() => false,
                        goes_on = changes.next() => goes_on,
                    };
                    match ourselves.upgrade().filter(|_| goes_on) {
                        Some(keeper) => keeper.offer_again().await,
                        None => return,
                    }
                }
            });
            Some(watch)
        });
        let Some(watch) = watch else {
            return false;
        };
        let talks: Vec<Arc<Talk>> = self.talks().values().cloned().collect();
        let folders = talks
            .iter()
            .flat_map(|talk| self.node.shelf.watched(&talk.cwd));
        watch.follow(folders.collect())
    }

    async fn offer_again(self: Arc<Self>) {
        let tasks = self.node.around.tasks.clone();
        let offering = tasks.spawn_blocking(move |_| {
            let talks: Vec<Arc<Talk>> = self.talks().values().cloned().collect();
            self.offer(&talks);
        });
        let _ = offering.await; // The program is shutting down.
    }

    /// The commands, as editors are told of them.
    fn commands(&self, cwd: &Path) -> Vec<Value> {
        self.available(cwd)
            .into_iter()
            .map(|(found, description, hint)| {
                let mut command = json!({ "name": found.name, "description": description });
                if let Some(hint) = hint {
                    command["input"] = json!({ "hint": hint });
                }
                command
            })
            .collect()
    }

    /// What there is to choose from in a conversation.
    fn offered(&self, talk: &Talk) -> Offered {
        let scene = Scene {
            node: self.node.clone(),
            cwd: talk.cwd.clone(),
            mcp_servers: Vec::new(),
            choices: Choices::default(),
        };
        Offered {
            roles: act::context::roles(&scene),
            providers: act::providers(&scene),
        }
    }

    fn talk(&self, id: &str) -> Result<Arc<Talk>, DriverError> {
        let talk = self.talks().get(id).cloned();
        talk.ok_or_else(|| DriverError::Protocol {
            what: "the conversation is not open".to_owned(),
        })
    }

    /// A request of an editor that changes what its runs do.
    fn choose(&self, message: &NativeMessage) -> Result<Value, DriverError> {
        let unknown = || DriverError::Unsupported {
            what: format!("be asked for {}", message.method),
        };
        let talk = self.talk(message.conversation.as_deref().ok_or_else(unknown)?)?;
        let params = message.params.as_ref().map_or("{}", |raw| &raw.frame);
        let params: Value = serde_json::from_str(params).unwrap_or_default();
        let text = |key: &str| params[key].as_str().unwrap_or_default();
        let offered = self.offered(&talk);
        let mut choices = talk.choices();
        let chosen = match message.method.as_str() {
            "session/set_config_option" => {
                choices.choose(text("configId"), text("value"), &offered)
            }
            "session/set_mode" => choices.choose_mode(text("modeId"), &offered),
            _ => return Err(unknown()),
        };
        chosen.map_err(|message| DriverError::Refused {
            code: INVALID_PARAMS,
            message,
        })?;
        let options = choices.options(&offered);
        let modes = choices.modes(&offered);
        drop(choices);
        if message.method == "session/set_mode" {
            talk.tell("config_option_update", &json!({ "configOptions": options }));
            return Ok(json!({}));
        }
        talk.tell(
            "current_mode_update",
            &json!({ "currentModeId": modes["currentModeId"] }),
        );
        Ok(json!({ "configOptions": options }))
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
        let talk = self.talk(&turn.session)?;
        let mut place = talk.run.lock().await;
        let audience = Audience::new(talk.sink.clone(), self.node.mask());
        if talk.may_have_left() {
            *place = self.left(&talk, audience.clone()).await;
        }
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

    /// The run that waits here since before a restart.
    async fn left(&self, talk: &Talk, audience: Audience) -> Option<Execution> {
        let history = History::new(self.node.records.clone());
        let run = history.waiting_in(&talk.id).await.ok().flatten()?;
        let taken_up = TakenUp {
            mcp_servers: talk.mcp_servers.clone(),
            choices: talk.choices().clone(),
            ..TakenUp::going_on(audience.clone())
        };
        match Execution::resume(&self.node, &run, taken_up).await {
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
        let usual = self.only.as_ref().or(self.usual.as_ref());
        let named = Command::parse(&turn.prompt);
        let is_named = named.is_some();
        let command = match (usual, named) {
            (_, Some(command)) => command,
            (Some(usual), None) => Command {
                name: usual.clone(),
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
        let inputs = match is_named {
            true => command.inputs(&plan),
            false => command.text(&plan),
        };
        let mut inputs = inputs.map_err(|error| StartError::Prompt {
            why: error.to_string(),
        })?;
        ask_missing(&plan, &mut inputs, &audience, &turn.cancel).await;
        let order = Order {
            cwd: talk.cwd.clone(),
            mcp_servers: talk.mcp_servers.clone(),
            choices: talk.choices().clone(),
            audience,
            parent: None,
            call_stack: Vec::new(),
            talk: Some(turn.session.clone()),
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

    fn said(&self, about: About<'_>) -> Option<Raw> {
        let About::Conversation(id) = about else {
            return None;
        };
        let talk = self.talk(id).ok()?;
        let offered = self.offered(&talk);
        let choices = talk.choices();
        let options = choices.options(&offered);
        let answer = json!({ "configOptions": options, "modes": choices.modes(&offered) });
        Some(Raw {
            dialect: Dialect::Acp,
            frame: answer.to_string().into(),
        })
    }

    fn pass(&self, message: NativeMessage) -> DriverFuture<'_, Result<NativeAnswer, DriverError>> {
        let chosen = self.choose(&message);
        let answer = chosen.map(|value| NativeAnswer::Result(value.to_string().into()));
        Box::pin(std::future::ready(answer))
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
            self.follow();
            if let Some(execution) = talk.run.lock().await.take() {
                execution.abandon().await;
            }
        })
    }
}
