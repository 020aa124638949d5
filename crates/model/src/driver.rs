//! The driver: conversations with one endpoint, kept in the node's store between turns.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use domain::turn::{Dialect, Stop};
use engine::{
    Continuity, Driver, DriverError, DriverFuture, EndpointAgent, Keep, NativeOpen, OpenSession,
    Opened, Records, SessionSink, ToolServer, ToolSources, Turn, TurnOptions,
};
use platform::files;
use reqwest::Client;

use crate::{
    conversation::Conversation, servers, settings::Settings, toolbox::Toolbox, tools::Place,
    turn::Work,
};

/// The kind of the documents that hold conversations.
const KIND: &str = "model-conversation";

/// What the workspace tells its agents, and how much of it a model is told.
const INSTRUCTIONS: &str = "AGENTS.md";
const INSTRUCTIONS_MAX: u64 = 128 * 1024;

/// Where conversations are kept: the store of the engine, once there is one.
pub type Memory = Arc<OnceLock<Records>>;

/// A driver for a template of the backend `openai-compatible`.
pub fn driver(
    agent: EndpointAgent,
    sources: ToolSources,
    memory: Memory,
) -> Result<Arc<dyn Driver>, DriverError> {
    let client = pinning::believing(Client::builder).map_err(|error| DriverError::Unsupported {
        what: format!("speak HTTP: {error}"),
    })?;
    Ok(Arc::new(ModelDriver {
        settings: Settings::of(&agent)?,
        client,
        agent,
        sources,
        memory,
        talks: Mutex::default(),
    }))
}

struct ModelDriver {
    settings: Settings,
    client: Client,
    agent: EndpointAgent,
    sources: ToolSources,
    memory: Memory,
    talks: Mutex<BTreeMap<String, Arc<Talk>>>,
}

impl std::fmt::Debug for ModelDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelDriver")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// A conversation that is open.
struct Talk {
    sink: SessionSink,
    toolbox: Toolbox,
    /// One turn at a time; the session sees to that, the lock only says so.
    conversation: tokio::sync::Mutex<Conversation>,
}

impl ModelDriver {
    async fn open(
        &self,
        open: OpenSession,
        brought: Vec<ToolServer>,
    ) -> Result<Opened, DriverError> {
        let (id, conversation, continuity) = match open.resume {
            None => (uuid(), Conversation::default(), Continuity::Fresh),
            Some(id) => match self.recall(&id).await {
                Some(conversation) => (id, conversation, Continuity::Resumed),
                None => {
                    let why = "what was said before is not in the store".to_owned();
                    (uuid(), Conversation::default(), Continuity::Lost { why })
                }
            },
        };
        let own = open.mcp_servers.into_iter().map(ToolServer::Stdio);
        let servers = servers::all(own.collect(), brought);
        let source = (!servers.is_empty()).then(|| {
            self.sources
                .open(servers, open.cwd.clone(), self.agent.around.clone())
        });
        let talk = Talk {
            sink: open.sink,
            toolbox: Toolbox::new(Place { root: open.cwd }, source),
            conversation: tokio::sync::Mutex::new(conversation),
        };
        self.talks().insert(id.clone(), Arc::new(talk));
        Ok(Opened { id, continuity })
    }

    async fn turn(&self, turn: Turn) -> Result<Stop, DriverError> {
        let talk = self.talks().get(&turn.session).cloned();
        let talk = talk.ok_or_else(|| DriverError::Protocol {
            what: "the conversation is not open".to_owned(),
        })?;
        let mut conversation = talk.conversation.lock().await;
        let work = Work {
            client: &self.client,
            settings: &self.settings,
            around: &self.agent.around,
            toolbox: &talk.toolbox,
            sink: &talk.sink,
            options: &turn.options,
            system: system(&talk.toolbox.place.root, &turn.options),
            cancel: &turn.cancel,
        };
        let stop = work.run(&mut conversation, &turn.prompt).await;
        self.remember(&turn.session, &conversation).await?;
        stop
    }

    async fn recall(&self, id: &str) -> Option<Conversation> {
        let stored = self.memory.get()?.get::<Conversation>(KIND, id).await;
        stored.ok().flatten().map(|stored| stored.value)
    }

    async fn remember(&self, id: &str, conversation: &Conversation) -> Result<(), DriverError> {
        let Some(records) = self.memory.get() else {
            return Ok(());
        };
        let kept = records.put(KIND, id, Keep::Finished, conversation, None);
        kept.await.map_err(|error| DriverError::Program {
            why: format!(
                "the conversation could not be kept: {}",
                engine::chain(&error)
            ),
        })
    }

    fn talks(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Talk>>> {
        self.talks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Driver for ModelDriver {
    fn open(&self, open: OpenSession) -> DriverFuture<'_, Result<Opened, DriverError>> {
        Box::pin(self.open(open, Vec::new()))
    }

    fn open_with(
        &self,
        open: OpenSession,
        words: NativeOpen,
    ) -> DriverFuture<'_, Result<Opened, DriverError>> {
        let brought = match words.params.dialect {
            Dialect::Acp => servers::brought(&words.params.frame),
            Dialect::Print => Vec::new(),
        };
        Box::pin(self.open(open, brought))
    }

    fn turn(&self, turn: Turn) -> DriverFuture<'_, Result<Stop, DriverError>> {
        Box::pin(self.turn(turn))
    }

    /// There is no process that could end.
    fn ended(&self) -> DriverFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn close<'a>(&'a self, session: &'a str) -> DriverFuture<'a, ()> {
        self.talks().remove(session);
        Box::pin(std::future::ready(()))
    }
}

/// What the model is told before anything else: the workspace's instructions, or those of the caller.
fn system(workspace: &Path, options: &TurnOptions) -> Option<String> {
    if options.system_prompt.is_some() {
        return options.instructions();
    }
    let told = files::read_bounded(&workspace.join(INSTRUCTIONS), INSTRUCTIONS_MAX).ok();
    let told = told.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let parts: Vec<String> = told
        .into_iter()
        .chain(options.append_system_prompt.clone())
        .collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

fn uuid() -> String {
    platform::owner::fresh_id()
}
