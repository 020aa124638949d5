//! Workflows as an agent: a prompt names one and gives its inputs; the turn is the run.

mod offers;
mod turns;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
};

use domain::turn::{Dialect, EventKind, Raw, Stop};
use engine::{
    About, Continuity, Driver, DriverError, DriverFuture, EndpointAgent, NativeAnswer,
    NativeMessage, NativeOpen, OpenSession, Opened, Turn,
};
use serde_json::{Value, json};

use crate::{
    ShelfError,
    history::History,
    servers::Servers,
    surroundings::{self, Surroundings},
    talk::Talk,
    watch::Watch,
    words, written,
};

/// Makes the driver of an agent from what its backend is given; its runs have what the surroundings give them. An agent
/// that is for one workflow alone has it where the node's are, or in its workspace.
pub fn driver(agent: &EndpointAgent, node: Surroundings) -> Result<Arc<dyn Driver>, DriverError> {
    let text = |key: &str| agent.config.get(key).and_then(Value::as_str);
    let only = text("workflow").filter(|name| *name != "*");
    if let Some(name) = only {
        let found = node.shelf.find(&node.around.workspace, name);
        found.map_err(|error| nowhere(&error))?;
    }
    Ok(Arc::new_cyclic(|ourselves| RunKeeper {
        only: only.map(str::to_owned),
        usual: text("default").map(str::to_owned),
        node,
        talks: Mutex::default(),
        watch: OnceLock::new(),
        ourselves: ourselves.clone(),
    }))
}

fn nowhere(error: &ShelfError) -> DriverError {
    let there_are = match error {
        ShelfError::Missing { known, .. } if known.is_empty() => {
            "; the node's workflows are in configs/workflows".to_owned()
        }
        ShelfError::Missing { known, .. } => format!("; there are {}", known.join(", ")),
        ShelfError::Read { .. } | ShelfError::Invalid { .. } => String::new(),
    };
    let what = format!(
        "run a workflow: {error} on this node{there_are} (`agentcraft workflow run` has those of your folder too)"
    );
    DriverError::Unsupported { what }
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
    async fn open(&self, open: OpenSession, brought: Servers) -> Opened {
        let (id, continuity) = match open.resume {
            // Runs are in the store; the conversation itself has nothing else to remember.
            Some(id) => (id, Continuity::Resumed),
            None => (platform::owner::fresh_id(), Continuity::Fresh),
        };
        let servers = Servers::of_programs(open.mcp_servers).with(brought);
        let talk = Talk::new(id.clone(), open.sink, open.cwd, servers);
        let talk = Arc::new(match continuity {
            Continuity::Resumed => talk.taken_up(),
            Continuity::Fresh | Continuity::Lost { .. } => talk,
        });
        self.talks().insert(id.clone(), Arc::clone(&talk));
        if continuity == Continuity::Resumed {
            self.tell_interrupted(&talk).await;
        }
        self.offer(&[talk]);
        Opened { id, continuity }
    }

    /// Whoever takes a conversation up is told of a run that was cut off in it.
    async fn tell_interrupted(&self, talk: &Talk) {
        let history = History::new(self.node.records.clone());
        let found = async {
            let run = history.interrupted_in(&talk.id).await?;
            Ok::<_, engine::EngineError>(match run {
                // What was said stands in the session, and is shown with it.
                Some(run) if history.is_first_told(&run).await? => Some(run),
                Some(_) | None => None,
            })
        };
        match found.await {
            Ok(None) => {}
            Ok(Some(run)) => {
                let text = format!(
                    "the run {run} was interrupted here; `agentcraft workflow resume {run}` goes on with it"
                );
                talk.sink.emit(EventKind::Notice { text }, None);
            }
            Err(error) => {
                tracing::warn!(error = %engine::chain(&error), "could not look for an interrupted run");
            }
        }
    }

    fn talk(&self, id: &str) -> Result<Arc<Talk>, DriverError> {
        let talk = self.talks().get(id).cloned();
        talk.ok_or_else(|| DriverError::Protocol {
            what: "the conversation is not open".to_owned(),
        })
    }

    fn talks(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Talk>>> {
        self.talks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an editor is told of an agent that runs workflows: the servers it brings may be behind an address too.
fn hello(agent: &str) -> Raw {
    let hello = json!({
        "protocolVersion": 1,
        "agentCapabilities": { "mcpCapabilities": { "http": true, "sse": true } },
        // A conversation has nothing to remember but its runs, so each can go on; none is known by an id that others give.
        "_meta": { "agentcraft": { "reopens": true } },
        "agentInfo": { "name": agent, "version": env!("CARGO_PKG_VERSION") },
        "authMethods": [],
    });
    Raw {
        dialect: Dialect::Acp,
        frame: hello.to_string().into(),
    }
}

/// The folder that an editor names, where its folder counts.
fn named_folder(params: &str) -> Option<PathBuf> {
    let params: Value = serde_json::from_str(params).ok()?;
    let folder = PathBuf::from(params["cwd"].as_str()?);
    folder.is_absolute().then_some(folder)
}

impl Driver for RunKeeper {
    fn open(&self, open: OpenSession) -> DriverFuture<'_, Result<Opened, DriverError>> {
        Box::pin(async move { Ok(self.open(open, Servers::default()).await) })
    }

    fn turn(&self, turn: Turn) -> DriverFuture<'_, Result<Stop, DriverError>> {
        Box::pin(self.take(turn))
    }

    fn open_with(
        &self,
        open: OpenSession,
        opening: NativeOpen,
    ) -> DriverFuture<'_, Result<Opened, DriverError>> {
        // Whoever takes a conversation up may have another folder open than the one who began it.
        let open = OpenSession {
            cwd: named_folder(&opening.params.frame).unwrap_or(open.cwd),
            ..open
        };
        let (brought, left_out) = Servers::brought(&opening.params.frame);
        for text in left_out {
            open.sink.emit(EventKind::Notice { text }, None);
        }
        Box::pin(async move { Ok(self.open(open, brought).await) })
    }

    fn turn_with(&self, turn: Turn, said: Raw) -> DriverFuture<'_, Result<Stop, DriverError>> {
        Box::pin(async move {
            if said.dialect != Dialect::Acp {
                return self.take(turn).await;
            }
            match words::prompt(&said.frame) {
                Ok(prompt) => self.take(Turn { prompt, ..turn }).await,
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
        let id = match about {
            About::Conversation(id) => id,
            About::Agent => return Some(hello(&self.node.around.agent)),
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

    fn written(&self, prompt: &str) -> String {
        written::without_secrets(prompt, |name| {
            surroundings::is_secret(name, &self.node.secret_names)
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
            self.follow();
            let parked = talk.run.lock().await.take();
            if let Some(parked) = parked
                && let Some(execution) = parked.take().await
            {
                execution.abandon().await;
            }
        })
    }
}
