//! Runs as they are written down: a snapshot now and then, and every input since, so that nothing is done twice.
//!
//! Writing the whole state at each step would cost more with each step; replaying the few inputs since the last
//! snapshot costs the same however long the run is.

mod over;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use domain::{Timestamp, Trace};
use engine::{Batch, EngineError, Keep, Note, Records, Which};
use platform::{ProcessRef, files, pid};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Map, Value, json};
use workflow::{Failure, Finish, Input, Mask, Outcome, State};

use crate::{
    execution::{Caller, bell},
    world::Answers,
};

/// The kind of the documents that say what each run is and how far: small, since every list of runs reads them.
const KIND: &str = "workflow-run";

/// The kind of the documents with what only taking a run up needs, and all that its steps have printed.
const BODY: &str = "workflow-run-body";

/// Inputs between two snapshots, at least. Each is kept at its place after the snapshot, so that the next ones take the
/// places of those that are not needed any more and nothing has to be deleted.
pub(crate) const SNAPSHOT_EVERY: u64 = 64;

/// Places of the log that are read: more inputs than a run may have steps.
const LOGGED_MAX: u32 = 200_000;

/// Removals under way at a time; the store takes many in one transaction, and refuses when thousands wait.
const REMOVALS: usize = 256;

/// The kind of the documents that say that a run shall be cancelled.
const CANCEL: &str = "workflow-cancel";

/// The kind of the documents that say that a conversation was told of a run that was cut off in it.
const TOLD: &str = "workflow-interruption-told";

/// Runs.
#[derive(Debug, Clone)]
pub struct History {
    records: Records,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// Somebody is at work on it.
    Running,
    /// It waits for an answer.
    Waiting,
    /// Whoever was at work on it is gone; it can be resumed.
    Interrupted,
    Succeeded,
    Failed,
    Cancelled,
}

impl RunState {
    /// Whether nothing more will come of it.
    pub fn is_over(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed | Self::Cancelled => true,
            Self::Running | Self::Waiting | Self::Interrupted => false,
        }
    }
}

/// A run, for people.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunView {
    pub id: String,
    pub workflow: String,
    pub state: RunState,
    pub path: PathBuf,
    pub cwd: PathBuf,
    pub parent: Option<String>,
    /// The run that it does again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rerun_of: Option<String>,
    pub started_at: i64,
    pub updated_at: i64,
    /// What came of it, once it is over.
    pub finish: Option<Finish>,
    /// Takes out what may not be shown of it.
    #[serde(skip)]
    pub mask: Mask,
}

/// A run as it is kept.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) head: Head,
    pub(crate) body: Body,
}

/// What only taking it up needs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Body {
    /// The text of the file when the run began: a run ends as it has begun, whatever becomes of the file.
    pub(crate) text: String,
    /// The templates of steps that the file uses, as they were then.
    #[serde(default)]
    pub(crate) templates: BTreeMap<String, String>,
    pub(crate) snapshot: State,
}

/// What it is and how far.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) workflow: String,
    pub(crate) path: PathBuf,
    pub(crate) cwd: PathBuf,
    /// The step that it is, of another run.
    #[serde(default)]
    pub(crate) caller: Option<Caller>,
    /// What it and the turns of its steps belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<Trace>,
    /// The conversation it belongs to.
    #[serde(default)]
    pub(crate) talk: Option<String>,
    /// The run that it does again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) earlier: Option<String>,
    /// Values that are never shown, of the environment it began in and of those it was taken up in.
    #[serde(default)]
    pub(crate) secrets: BTreeSet<String>,
    pub(crate) started_at: i64,
    pub(crate) state: RunState,
    /// Who is at work on it.
    pub(crate) worker: Worker,
    /// How many inputs the snapshot has seen.
    pub(crate) inputs: u64,
    pub(crate) finish: Option<Finish>,
}

/// A process, told from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Worker {
    pid: u32,
    started: u64,
}

impl Worker {
    pub(crate) fn ourselves() -> Self {
        let pid = pid::own_pid();
        Self {
            pid,
            started: ProcessRef::of(pid).map_or(0, |process| process.start_time),
        }
    }

    fn is_there(self) -> bool {
        let process = ProcessRef {
            pid: self.pid,
            start_time: self.started,
        };
        process.alive()
    }
}

/// An input and when it came.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Logged {
    pub(crate) number: u64,
    pub(crate) at: Timestamp,
    pub(crate) input: Input,
    /// What the world answered while it was decided.
    #[serde(default, skip_serializing_if = "Answers::is_empty")]
    pub(crate) answers: Answers,
}

impl History {
    pub fn new(records: Records) -> Self {
        Self { records }
    }

    /// Runs, the one that changed last first.
    pub async fn list(&self, limit: u32) -> Result<Vec<RunView>, EngineError> {
        let rows = self.records.list::<Head>(KIND, Which::All, None, limit);
        let rows = rows.await?.into_iter();
        Ok(rows.map(|row| view(row.id, row.at, row.value)).collect())
    }

    /// One run; the beginning of its id is enough where it is the only one.
    pub async fn get(&self, id: &str) -> Result<Option<RunView>, EngineError> {
        if let Some(row) = self.records.get::<Head>(KIND, id).await? {
            return Ok(Some(view(row.id, row.at, row.value)));
        }
        const RECENT: u32 = 1_000;
        let mut fitting = self.list(RECENT).await?;
        fitting.retain(|view| view.id.starts_with(id));
        match fitting.len() {
            1 => Ok(fitting.pop()),
            _ => Ok(None),
        }
    }

    /// Asks whoever works on the run to cancel it; one that nobody works on is cancelled by that. `runs` is where runs have
    /// their folders.
    pub async fn cancel(&self, id: &str, runs: &Path) -> Result<(), EngineError> {
        let Some(view) = self.get(id).await? else {
            return Ok(());
        };
        match view.state {
            RunState::Succeeded | RunState::Failed | RunState::Cancelled => Ok(()),
            RunState::Running | RunState::Waiting => {
                let none = Value::Null;
                self.records
                    .put(CANCEL, &view.id, Keep::Live, &none, None)
                    .await?;
                bell::ring(runs, &view.id);
                Ok(())
            }
            RunState::Interrupted => match self.kept(&view.id).await? {
                Some(mut kept) => {
                    kept.head.state = RunState::Cancelled;
                    self.snapshot(&view.id, &kept).await
                }
                None => Ok(()),
            },
        }
    }

    pub(crate) async fn is_cancel_asked(&self, id: &str) -> Result<bool, EngineError> {
        let asked = self.records.get::<Value>(CANCEL, id).await?;
        Ok(asked.is_some())
    }

    /// Whether nobody was told yet that the run was cut off; they are from now on.
    pub(crate) async fn is_first_told(&self, id: &str) -> Result<bool, EngineError> {
        if self.records.get::<Value>(TOLD, id).await?.is_some() {
            return Ok(false);
        }
        let none = Value::Null;
        let told = self.records.put(TOLD, id, Keep::Finished, &none, None);
        told.await.map(|()| true)
    }

    /// The run is gone on with, so that it may be cut off again.
    pub(crate) async fn forget_told(&self, id: &str) -> Result<(), EngineError> {
        match self.records.get::<Value>(TOLD, id).await? {
            Some(_) => self.records.remove(TOLD, id, None).await,
            None => Ok(()),
        }
    }

    pub(crate) async fn forget_cancel(&self, id: &str) -> Result<(), EngineError> {
        self.records.remove(CANCEL, id, None).await
    }

    /// Removes what only a run in progress needs: the inputs at so many places of its log, and the wish to cancel it.
    pub(crate) async fn forget_inputs(&self, id: &str, places: u64) -> Result<(), EngineError> {
        let (kind, mut place) = (ring(id), 0);
        while place < places {
            let until = places.min(place + REMOVALS as u64);
            let removals = (place + 1..=until).map(|place| {
                let (records, kind) = (self.records.clone(), kind.clone());
                async move { records.remove(&kind, &place.to_string(), None).await }
            });
            futures_util::future::try_join_all(removals).await?;
            place = until;
        }
        if self.is_cancel_asked(id).await? {
            self.forget_cancel(id).await?;
        }
        Ok(())
    }

    /// Removes the folders of runs that are not in the records any more.
    pub async fn forget_folders(&self, folder: &Path) -> Result<(), EngineError> {
        for place in files::list(folder).unwrap_or_default() {
            let id = place.file_name().unwrap_or_default().to_string_lossy();
            if self.records.get::<IgnoredAny>(KIND, &id).await?.is_some() {
                continue;
            }
            if let Err(error) = files::remove_tree(&place) {
                tracing::warn!(run = %id, error = %engine::chain(&error), "could not remove the files of an old run");
            }
        }
        Ok(())
    }

    /// The run that waits for words in a conversation, after whoever worked on it has gone.
    pub(crate) async fn waiting_in(&self, talk: &str) -> Result<Option<String>, EngineError> {
        self.live_in(talk, &[RunState::Waiting]).await
    }

    /// The run of a conversation that was cut off.
    pub(crate) async fn interrupted_in(&self, talk: &str) -> Result<Option<String>, EngineError> {
        self.live_in(talk, &[RunState::Running, RunState::Interrupted])
            .await
    }

    async fn live_in(
        &self,
        talk: &str,
        states: &[RunState],
    ) -> Result<Option<String>, EngineError> {
        const LIVE_MAX: u32 = 10_000;
        let rows = self.records.list::<Head>(KIND, Which::Live, None, LIVE_MAX);
        let mut rows = rows.await?.into_iter();
        let found = rows.find(|row| {
            let head = &row.value;
            states.contains(&head.state)
                && head.talk.as_deref() == Some(talk)
                && !head.worker.is_there()
        });
        Ok(found.map(|row| row.id))
    }

    /// The latest run of a conversation that came to no good end and that nobody works on: it may go on where it asked.
    pub(crate) async fn left_in(&self, talk: &str) -> Result<Option<String>, EngineError> {
        const LOOKED_AT_MAX: u32 = 10_000;
        let rows = self
            .records
            .list::<Head>(KIND, Which::All, None, LOOKED_AT_MAX);
        let is_done = |head: &Head| {
            let outcome = head.finish.as_ref().map(|finish| finish.outcome);
            outcome == Some(Outcome::Succeeded)
        };
        let its = rows.await?.into_iter().filter(|row| {
            let head = &row.value;
            head.talk.as_deref() == Some(talk) && head.caller.is_none()
        });
        let latest = its.max_by_key(|row| row.value.started_at);
        let left = latest.filter(|row| {
            let head = &row.value;
            !is_done(head) && (head.finish.is_some() || !head.worker.is_there())
        });
        Ok(left.map(|row| row.id))
    }

    /// The run that a step had begun before it was interrupted, whatever became of it.
    pub(crate) async fn called_by(
        &self,
        caller: &Caller,
    ) -> Result<Option<(String, Kept)>, EngineError> {
        const LOOKED_AT_MAX: u32 = 10_000;
        for which in [Which::Live, Which::All] {
            let rows = self.records.list::<Head>(KIND, which, None, LOOKED_AT_MAX);
            let mut rows = rows.await?.into_iter();
            let found = rows.find(|row| row.value.caller.as_ref() == Some(caller));
            if let Some(row) = found {
                let kept = self.kept(&row.id).await?;
                return Ok(kept.map(|kept| (row.id, kept)));
            }
        }
        Ok(None)
    }

    pub(crate) async fn kept(&self, id: &str) -> Result<Option<Kept>, EngineError> {
        let Some(head) = self.records.get::<Head>(KIND, id).await? else {
            return Ok(None);
        };
        let body = match self.records.get::<Body>(BODY, id).await? {
            Some(body) => Some(body),
            // Runs of earlier versions are one document.
            None => self.records.get::<Body>(KIND, id).await?,
        };
        Ok(body.map(|body| Kept {
            head: head.value,
            body: body.value,
        }))
    }

    /// The inputs after the snapshot, in order, and how many places of the log there are.
    pub(crate) async fn since(
        &self,
        id: &str,
        snapshot: u64,
    ) -> Result<(Vec<Logged>, u64), EngineError> {
        let rows = self
            .records
            .list::<Logged>(&ring(id), Which::All, None, LOGGED_MAX)
            .await?;
        let places = rows.iter().filter_map(|row| row.id.parse::<u64>().ok());
        let places = places.max().unwrap_or(0);
        let mut logged: Vec<Logged> = rows
            .into_iter()
            .map(|row| row.value)
            .filter(|logged| logged.number > snapshot)
            .collect();
        logged.sort_by_key(|logged| logged.number);
        Ok((logged, places))
    }

    pub(crate) async fn log(
        &self,
        id: &str,
        place: u64,
        logged: &Logged,
    ) -> Result<(), EngineError> {
        let place = place.to_string();
        self.records
            .put(&ring(id), &place, Keep::Finished, logged, None)
            .await
    }

    pub(crate) async fn snapshot(&self, id: &str, kept: &Kept) -> Result<(), EngineError> {
        let keep = match kept.head.state {
            RunState::Running | RunState::Waiting | RunState::Interrupted => Keep::Live,
            RunState::Succeeded | RunState::Failed | RunState::Cancelled => Keep::Finished,
        };
        let mut batch = Batch::default();
        batch.put(KIND, id, keep, &kept.head)?;
        batch.put(BODY, id, keep, &kept.body)?;
        if let Some(note) = note(id, &kept.head) {
            batch.note(note);
        }
        self.records.write_all(batch).await
    }
}

#[cfg(test)]
impl History {
    /// As if whoever works on a run had died.
    pub(crate) async fn orphan_all(&self) {
        for view in self.list(1_000).await.unwrap() {
            let mut kept = self.kept(&view.id).await.unwrap().unwrap();
            kept.head.worker = Worker { pid: 0, started: 0 };
            self.snapshot(&view.id, &kept).await.unwrap();
        }
    }
}

/// The journal tells the beginning and the end; what is between is in the turn's events.
fn note(id: &str, kept: &Head) -> Option<Note> {
    let kind = match (&kept.finish, kept.inputs) {
        (None, 0) => "workflow.started",
        (None, _) => return None,
        (Some(_), _) => "workflow.ended",
    };
    let mut body = json!({ "run": id, "workflow": kept.workflow });
    if let Some(trace) = kept.trace {
        body["trace"] = json!(trace);
    }
    if let Some(finish) = &kept.finish {
        body["outcome"] = serde_json::to_value(finish.outcome).unwrap_or(Value::Null);
        body["exitCode"] = json!(finish.exit_code);
    }
    Some(Note {
        kind: kind.to_owned(),
        body,
        ..Note::default()
    })
}

fn ring(id: &str) -> String {
    format!("workflow-input/{id}")
}

fn view(id: String, at: i64, kept: Head) -> RunView {
    let state = match kept.state {
        RunState::Running | RunState::Waiting if !kept.worker.is_there() => RunState::Interrupted,
        state => state,
    };
    RunView {
        id,
        workflow: kept.workflow,
        state,
        path: kept.path,
        cwd: kept.cwd,
        parent: kept.caller.map(|caller| caller.run),
        rerun_of: kept.earlier,
        started_at: kept.started_at,
        updated_at: at,
        mask: Mask::of_values(kept.secrets),
        finish: kept.finish,
    }
}

impl RunView {
    /// As it may be shown; `more` has what nobody may see today.
    #[must_use]
    pub fn masked(self, more: &Mask) -> Self {
        let mask = self.mask.and(more);
        Self {
            finish: self.finish.map(|finish| masked(finish, &mask)),
            ..self
        }
    }
}

pub(crate) fn masked(finish: Finish, mask: &Mask) -> Finish {
    let text = |text: &String| mask.text(text);
    Finish {
        message: text(&finish.message),
        failure: finish.failure.map(|failure| Failure {
            message: text(&failure.message),
            ..failure
        }),
        outputs: values(finish.outputs, mask),
        ..finish
    }
}

/// Values by names that are ours.
pub(crate) fn values(named: Map<String, Value>, mask: &Mask) -> Map<String, Value> {
    let masked = |(name, value)| (name, mask.json(&value));
    named.into_iter().map(masked).collect()
}

impl From<Outcome> for RunState {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Succeeded => Self::Succeeded,
            Outcome::Failed => Self::Failed,
            Outcome::Cancelled => Self::Cancelled,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        process::Command,
        time::{Duration, Instant},
    };

    use super::*;

    #[test]
    fn a_worker_that_ended_is_not_there_even_if_nobody_has_reaped_it() {
        assert!(Worker::ourselves().is_there());
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = ProcessRef::of(child.id()).unwrap();
        let worker = Worker {
            pid: process.pid,
            started: process.start_time,
        };
        assert!(worker.is_there());
        child.kill().unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while worker.is_there() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!worker.is_there());
        assert_eq!(ProcessRef::of(process.pid), Some(process), "a zombie");
        child.wait().unwrap();
    }
}
