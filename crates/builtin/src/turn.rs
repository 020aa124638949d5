//! One turn: from a prompt to its answer, however it ends.
//!
//! The command runs as one future. When the turn is stopped from outside that future is dropped, which kills its
//! processes and withdraws its questions, and the open tool calls are closed here.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agent_client_protocol_schema::v1::{
    ClientCapabilities, ContentBlock, PromptResponse, ReleaseTerminalRequest, SessionInfoUpdate,
    SessionUpdate, StopReason, TerminalId, ToolCall,
};
use jsonrpc::{CallError, ErrorObject, Peer, Responder, SendError};
use platform::Tasks;
use tokio::sync::{mpsc, watch};

use crate::{
    archive::Archive,
    commands,
    session::{Session, Stop},
    workspace::Workspace,
};

/// How long after its answer `/late` sends another update.
const LATE: Duration = Duration::from_millis(50);

/// A client that does not release a terminal by then is not waited for.
const RELEASE_MAX: Duration = Duration::from_secs(2);

/// What all turns of a connection share.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) peer: Peer,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) archive: Archive,
    pub(crate) environment: BTreeMap<OsString, OsString>,
    /// Tells the loop to end the process with this code.
    pub(crate) crash: mpsc::Sender<u8>,
}

/// A turn that runs.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) surroundings: Arc<Surroundings>,
    pub(crate) session: Arc<Session>,
    pub(crate) client: ClientCapabilities,
    pub(crate) tasks: Tasks,
    loose_ends: Mutex<LooseEnds>,
}

/// What has to be seen to when the turn ends.
#[derive(Debug, Default)]
pub(crate) struct LooseEnds {
    /// Tool calls without a final status, by id.
    pub(crate) calls: BTreeMap<String, ToolCall>,
    /// Terminals of the client that are not released.
    pub(crate) terminals: BTreeSet<String>,
    /// Another update is to follow the answer.
    pub(crate) late_update: bool,
}

/// Why a command did not come to its end.
#[derive(Debug)]
pub(crate) enum Interrupted {
    /// There is nobody to talk to any more.
    Closed,
    /// The prompt is to be answered with this error.
    Failed(ErrorObject),
}

/// How the command ends, with the stop reason of the turn.
pub(crate) type Outcome = Result<StopReason, Interrupted>;

impl From<SendError> for Interrupted {
    fn from(error: SendError) -> Interrupted {
        match error {
            SendError::Closed => Interrupted::Closed,
            error => Interrupted::Failed(ErrorObject::internal(error.to_string())),
        }
    }
}

impl Turn {
    pub(crate) fn new(
        surroundings: Arc<Surroundings>,
        session: Arc<Session>,
        client: ClientCapabilities,
        tasks: Tasks,
    ) -> Turn {
        Turn {
            surroundings,
            session,
            client,
            tasks,
            loose_ends: Mutex::default(),
        }
    }

    /// Runs the prompt and answers it exactly once.
    pub(crate) async fn run(
        self,
        prompt: Vec<ContentBlock>,
        responder: Responder,
        mut stopped: watch::Receiver<Option<Stop>>,
    ) {
        let outcome = tokio::select! { biased;
            stop = stopped_by(&mut stopped) => Err(stop),
            outcome = commands::answer(&self, prompt) => Ok(outcome),
        };
        self.close_calls().await;
        self.tasks.cancel(); // Searches look at this.
        self.save().await;
        // Before the answer: the client may send the next prompt as soon as it has it.
        self.session.end_turn();
        let answered = match outcome {
            Ok(Ok(reason)) => responder.reply(&PromptResponse::new(reason)).await,
            Ok(Err(Interrupted::Failed(error))) => responder.fail(error).await,
            Err(Stop::Cancelled) | Ok(Err(Interrupted::Closed)) => {
                responder
                    .reply(&PromptResponse::new(StopReason::Cancelled))
                    .await
            }
            Err(Stop::Withdrawn) => responder.fail(ErrorObject::cancelled()).await,
        };
        if answered.is_ok() {
            self.tie_up().await;
        }
    }

    pub(crate) fn loose_ends(&self) -> MutexGuard<'_, LooseEnds> {
        self.loose_ends
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the client. The question is withdrawn if the turn ends first.
    pub(crate) async fn call<P, R>(&self, method: &str, params: &P) -> Result<R, CallError>
    where
        P: serde::Serialize + ?Sized,
        R: serde::de::DeserializeOwned,
    {
        let answer = self
            .surroundings
            .peer
            .call_with_cancel(method, params)
            .await?;
        serde_json::from_str(answer.get()).map_err(|error| {
            let words = format!("the answer to {method} is not what the protocol says: {error}");
            CallError::Malformed(ErrorObject::invalid_params(words))
        })
    }

    /// Does blocking work on the files of the workspace, away from the loop.
    pub(crate) async fn on_files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Workspace) -> T + Send + 'static,
    ) -> Result<T, Interrupted> {
        let workspace = Arc::clone(&self.surroundings.workspace);
        let done = self.tasks.spawn_blocking(move |_| work(&workspace)).await;
        done.map_err(|_| {
            Interrupted::Failed(ErrorObject::internal("the work on the files was lost"))
        })
    }

    pub(crate) fn root(&self) -> &Path {
        self.surroundings.workspace.root()
    }

    /// Brings the file of the session up to date. A workspace that cannot be written to does not end the turn.
    pub(crate) async fn save(&self) {
        let (header, save) = {
            let mut state = self.session.state();
            (state.header.clone(), state.history.take_unsaved())
        };
        let archive = self.surroundings.archive.clone();
        let saved = self
            .tasks
            .spawn_blocking(move |_| archive.save(&header, &save))
            .await;
        drop(saved); // Loading this session after a restart then misses what was said.
    }

    /// What is left to do after the answer.
    async fn tie_up(&self) {
        let (terminals, late_update) = {
            let mut ends = self.loose_ends();
            (std::mem::take(&mut ends.terminals), ends.late_update)
        };
        for terminal in terminals {
            let id = TerminalId::new(terminal);
            let request = ReleaseTerminalRequest::new(self.session.id.clone(), id);
            let release = self.surroundings.peer.call("terminal/release", &request);
            let _ = tokio::time::timeout(RELEASE_MAX, release).await; // It is the client's from here on.
        }
        if late_update {
            tokio::time::sleep(LATE).await;
            let now = jiff::Timestamp::now().to_string();
            let update = SessionInfoUpdate::new()
                .title("A late update".to_owned())
                .updated_at(now);
            let _ = self.send(SessionUpdate::SessionInfoUpdate(update)).await; // The client may have left.
        }
    }
}

/// Resolves when the turn is to end. A session that is gone cancels its turn.
async fn stopped_by(stopped: &mut watch::Receiver<Option<Stop>>) -> Stop {
    match stopped.wait_for(Option::is_some).await {
        Ok(stop) => stop.unwrap_or(Stop::Cancelled),
        Err(_) => Stop::Cancelled,
    }
}
