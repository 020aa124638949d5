//! One prompt and its answer, for callers that want no conversation: with an agent, or with a template of which an agent
//! is made just for that.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use domain::{
    Name,
    lifecycle::{Force, LaunchMode, WorkspacePolicy},
    session::{ClientId, WhenBusy},
    turn::{FileChange, Stop},
};
use platform::files::{self, Fingerprint};

use super::{Create, Engine, Loan, Overrides, Purpose, Start, source::Via};
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

/// A run whose session is open and whose prompt is not given yet, so that somebody can look on from its first word. Dropping it
/// gives everything back.
#[derive(Debug)]
pub struct OpenRun {
    engine: Engine,
    run: RunAgent,
    session: String,
    workspace: PathBuf,
    before: Fingerprint,
    held: Held,
}

/// What is given back when a run is over.
#[derive(Debug)]
struct Held {
    loan: Option<Loan>,
    cleanup: Cleanup,
}

impl Engine {
    /// Prompts an agent, and waits for the answer.
    pub async fn run(&self, run: RunAgent) -> Result<RunResult, EngineError> {
        self.open_run(run).await?.finish().await
    }

    /// Gets an agent ready for a prompt: its process if it runs, else a program run for this prompt, else it is started for
    /// as long as the prompt takes.
    pub async fn open_run(&self, run: RunAgent) -> Result<OpenRun, EngineError> {
        let cleanup = Cleanup {
            engine: self.clone(),
            name: None,
        };
        self.get_ready(run, cleanup).await
    }

    /// Makes an agent for one prompt, which is destroyed afterwards unless told otherwise.
    pub async fn open_template_run(&self, run: RunTemplate) -> Result<OpenRun, EngineError> {
        let name = Name::parse(&format!(
            "run-{}",
            &uuid::Uuid::new_v4().simple().to_string()[..12]
        ))
        .unwrap_or_else(|_| unreachable!("letters and digits are a name"));
        let overrides = Overrides {
            launch_mode: Some(LaunchMode::OneShot),
            workspace_policy: Some(WorkspacePolicy::Ephemeral),
            purpose: match run.cleanup {
                true => Purpose::Passing,
                false => Purpose::OneUse,
            },
            ..Overrides::default()
        };
        self.create(Create {
            name: name.clone(),
            template: run.template,
            overrides,
        })
        .await?;
        let cleanup = Cleanup {
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
        self.get_ready(run, cleanup).await
    }

    async fn get_ready(&self, mut run: RunAgent, cleanup: Cleanup) -> Result<OpenRun, EngineError> {
        let mut held = Held {
            loan: None,
            cleanup,
        };
        match self.prepare(&mut run, &mut held).await {
            Ok((session, workspace, before)) => Ok(OpenRun {
                engine: self.clone(),
                run,
                session,
                workspace,
                before,
                held,
            }),
            Err(error) => {
                held.give_back(run.session.as_deref()).await;
                Err(error)
            }
        }
    }

    /// The session, the workspace, and what is in it before the prompt.
    async fn prepare(
        &self,
        run: &mut RunAgent,
        held: &mut Held,
    ) -> Result<(String, PathBuf, Fingerprint), EngineError> {
        self.refuse_when_closing()?;
        self.read_system_prompt(&mut run.options).await?;
        held.loan = self.borrow(&run.name, Start::IfNeeded).await?;
        let workspace = self.sessions().workspace(&run.name)?;
        let before = self.fingerprint(&workspace).await?;
        let session = self.session_for(run).await?;
        Ok((session, workspace, before))
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

impl OpenRun {
    /// Where its events are.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Says which client asks, which may want to take it back.
    pub fn asked_by(&mut self, client: ClientId) {
        self.run.by = Some(client);
    }

    /// Gives the prompt, waits for the answer, and gives back what was borrowed or made for it.
    pub async fn finish(self) -> Result<RunResult, EngineError> {
        let outcome = self.engine.turn(&self.session, &self.run).await;
        let after = self.engine.fingerprint(&self.workspace).await;
        self.held.give_back(Some(&self.session)).await;
        let outcome = outcome?;
        Ok(RunResult {
            text: outcome.text,
            stop: outcome.stop,
            session: self.session,
            agent: self.run.name,
            artifacts: changes(&self.before, &after?),
        })
    }
}

impl Held {
    async fn give_back(self, session: Option<&str>) {
        if let Some(mut loan) = self.loan {
            if let Some(session) = session {
                loan.is_for(session);
            }
            loan.give_back().await;
        }
        self.cleanup.finish().await;
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

/// Destroys the agent of a run, at the latest when it is dropped: the asker may leave.
#[derive(Debug)]
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
