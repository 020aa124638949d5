//! One prompt and its answer, for callers that want no conversation: with an agent, or with a template of which an agent
//! is made just for that.

use std::{path::Path, time::Duration};

use domain::{
    Name,
    lifecycle::{Force, LaunchMode, WorkspacePolicy},
    session::{ClientId, WhenBusy},
    turn::{FileChange, Stop},
};
use platform::files::{self, Fingerprint};

use super::{Create, Engine, Overrides, source::Via};
use crate::{CreateSession, EngineError, Prompt, TurnOptions, TurnOutcome, session::is_own};

/// How long a prompt may take unless the caller says otherwise.
const TIMEOUT: Duration = Duration::from_secs(300);

/// How long a turn that ran out of time has to end after it was cancelled.
const CANCEL_GRACE: Duration = Duration::from_secs(10);

/// The longest system prompt: more than any model reads.
const SYSTEM_PROMPT_MAX: u64 = 1024 * 1024;

/// Files that are looked at to tell what a run has changed; a workspace with more is told only in part.
const FILES_MAX: usize = 100_000;

/// What says nothing about the work.
const SKIPPED: [&str; 4] = [".git", ".agentcraft", ".agentcraft.json", "node_modules"];

/// One prompt to an agent.
#[derive(Debug, Clone)]
pub struct RunAgent {
    pub name: Name,
    pub prompt: String,
    pub options: TurnOptions,
    /// A session of ours, or one of the agent's own.
    pub session: Option<String>,
    /// Who asks, if it is a client that may want to take it back.
    pub by: Option<ClientId>,
}

/// One prompt to an agent made of a template just for it.
#[derive(Debug, Clone)]
pub struct RunTemplate {
    pub template: String,
    pub prompt: String,
    pub options: TurnOptions,
    pub cleanup: bool,
}

/// What came of a prompt.
#[derive(Debug, Clone)]
pub struct RunResult {
    pub text: String,
    pub stop: Stop,
    pub session: String,
    pub agent: Name,
    /// Files that were created, changed or deleted in the workspace.
    pub artifacts: Vec<(String, FileChange)>,
}

impl Engine {
    /// Prompts an agent: through its process if it runs, else through a program run for this prompt, else by starting
    /// it for as long as the prompt takes.
    pub async fn run(&self, mut run: RunAgent) -> Result<RunResult, EngineError> {
        self.refuse_when_closing()?;
        self.read_system_prompt(&mut run.options).await?;
        let borrowed = self.borrow(&run.name).await?;
        let result = self.run_open(&run).await;
        if let Some(mut loan) = borrowed {
            let own = result.as_ref().ok().map(|result| result.session.as_str());
            if let Some(own) = own.or(run.session.as_deref()) {
                loan.is_for(own);
            }
            loan.give_back().await;
        }
        result
    }

    /// Prompts an agent that is made for it and, unless told otherwise, destroyed afterwards.
    pub async fn run_template(&self, run: RunTemplate) -> Result<RunResult, EngineError> {
        let name = Name::parse(&format!(
            "run-{}",
            &uuid::Uuid::new_v4().simple().to_string()[..12]
        ))
        .unwrap_or_else(|_| unreachable!("letters and digits are a name"));
        let overrides = Overrides {
            launch_mode: Some(LaunchMode::OneShot),
            workspace_policy: Some(WorkspacePolicy::Ephemeral),
            ..Overrides::default()
        };
        self.create(Create {
            name: name.clone(),
            template: run.template,
            overrides,
        })
        .await?;
        // Destroyed also when the asker leaves.
        let guard = Cleanup {
            engine: self.clone(),
            name: run.cleanup.then(|| name.clone()),
        };
        let run = RunAgent {
            name,
            prompt: run.prompt,
            options: run.options,
            session: None,
            by: None,
        };
        let result = self.run(run).await;
        guard.finish().await;
        result
    }

    async fn run_open(&self, run: &RunAgent) -> Result<RunResult, EngineError> {
        let workspace = self.sessions().workspace(&run.name)?;
        let before = self.fingerprint(&workspace).await?;
        let session = self.session_for(run).await?;
        let outcome = self.turn(&session, run).await?;
        let after = self.fingerprint(&workspace).await?;
        Ok(RunResult {
            text: outcome.text,
            stop: outcome.stop,
            session,
            agent: run.name.clone(),
            artifacts: changes(&before, &after),
        })
    }

    /// Most agents have to be told the words: they have no option for a file, and a missing one would be left out.
    async fn read_system_prompt(&self, options: &mut TurnOptions) -> Result<(), EngineError> {
        let Some(path) = options.system_prompt_file.clone() else {
            return Ok(());
        };
        let file = path.clone();
        let read = self
            .blocking(move || files::read_bounded(&file, SYSTEM_PROMPT_MAX))
            .await?;
        match read {
            Ok(bytes) => {
                options.system_prompt = Some(String::from_utf8_lossy(&bytes).into_owned());
                Ok(())
            }
            Err(error) if error.is_not_found() => Err(EngineError::FileNotFound { path }),
            Err(error) => Err(EngineError::SystemPrompt {
                path,
                reason: error.to_string(),
            }),
        }
    }

    async fn session_for(&self, run: &RunAgent) -> Result<String, EngineError> {
        if let Some(session) = &run.session {
            let known = self.sessions().get(session).await;
            if known.is_ok() || is_own(session) {
                self.sessions().check_owner(session, &run.name).await?;
                return Ok(session.clone());
            }
        }
        let via = self.sessions().via(&run.name)?.unwrap_or(Via::Process);
        let create = CreateSession {
            agent: run.name.clone(),
            client: Some("run".to_owned()),
            idle_ttl: None,
        };
        let view = self
            .sessions()
            .create_via(create, via, run.session.clone())
            .await?;
        Ok(view.session_id)
    }

    async fn turn(&self, session: &str, run: &RunAgent) -> Result<TurnOutcome, EngineError> {
        let from = self.sessions().get(session).await?.last_seq + 1;
        let limit = run.options.timeout.unwrap_or(TIMEOUT);
        let prompt = Prompt {
            text: run.prompt.clone(),
            options: run.options.clone(),
            when_busy: WhenBusy::Queue,
            by: run.by.clone(),
        };
        let turn = self.sessions().prompt(session, prompt).await?;
        let waiting = self.sessions().outcome(session, turn, from);
        match tokio::time::timeout(limit, waiting).await {
            Ok(outcome) => outcome,
            Err(_) => {
                self.sessions().cancel_turn(session, turn).await?;
                let ending = self.sessions().outcome(session, turn, from);
                let _ = tokio::time::timeout(CANCEL_GRACE, ending).await; // The words below are true either way.
                Err(EngineError::TurnTimeout {
                    name: run.name.clone(),
                    limit,
                })
            }
        }
    }

    async fn fingerprint(&self, workspace: &Path) -> Result<Fingerprint, EngineError> {
        let dir = workspace.to_owned();
        self.blocking(move || files::fingerprint(&dir, &SKIPPED, FILES_MAX))
            .await
    }
}

/// What differs between two looks at a folder.
fn changes(before: &Fingerprint, after: &Fingerprint) -> Vec<(String, FileChange)> {
    let changed = after
        .iter()
        .filter_map(|(path, print)| match before.get(path) {
            None => Some((path.clone(), FileChange::Created)),
            Some(old) if old != print => Some((path.clone(), FileChange::Modified)),
            Some(_) => None,
        });
    let gone = before.keys().filter(|path| !after.contains_key(*path));
    changed
        .chain(gone.map(|path| (path.clone(), FileChange::Deleted)))
        .collect()
}

/// Destroys the agent of a run, at the latest when it is dropped.
struct Cleanup {
    engine: Engine,
    name: Option<Name>,
}

impl Cleanup {
    async fn finish(mut self) {
        if let Some(name) = self.name.take() {
            let _ = self.engine.destroy(name.as_str(), Force::Yes).await; // The next start finishes what is left.
        }
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        let Some(name) = self.name.take() else { return };
        let engine = self.engine.clone();
        self.engine.tasks().spawn(|_| async move {
            let _ = engine.destroy(name.as_str(), Force::Yes).await; // As above.
        });
    }
}
