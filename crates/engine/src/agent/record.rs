//! What is kept of an agent, and what is shown of it.

use std::{collections::BTreeMap, path::PathBuf};

use catalog::Template;
use domain::{
    Name, Timestamp,
    lifecycle::{Lifecycle, Ownership, State, WorkspacePolicy},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::workspace::Undo;
use crate::clock;

/// An agent as the store keeps it: enough to go on after any crash, with the template as it was at the creation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentRecord {
    pub(crate) id: String,
    pub(crate) name: Name,
    pub(crate) template: Template,
    pub(crate) policy: WorkspacePolicy,
    pub(crate) place: Place,
    #[serde(default)]
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) lifecycle: Lifecycle,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) confinement: Option<Confinement>,
    /// Made for one piece of work; nobody takes it up in the next daemon.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) passing: bool,
    /// Made for one use of somebody's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) private: bool,
}

/// A folder beside its own that an agent's programs work in, and what holds them there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    pub cwd: PathBuf,
    /// What the sandbox opens in the place of `cwd`: a folder above it that nobody else can put a link in the place of.
    #[serde(default)]
    pub root: Option<PathBuf>,
    /// Variables for what is run there.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Without one nothing but the agent's own policy holds it.
    #[serde(default)]
    pub sandbox: Option<Walls>,
}

/// What the kernel lets a process of the agent touch beside its own folder, the one it works in, and the system's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walls {
    #[serde(default)]
    pub read: Vec<PathBuf>,
    #[serde(default)]
    pub write: Vec<PathBuf>,
    pub network: bool,
    /// Whether it may run other programs.
    #[serde(default = "yes")]
    pub exec: bool,
}

fn yes() -> bool {
    true
}

/// Where an agent works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Place {
    /// A folder of ours, removed with the agent.
    Own { dir: PathBuf },
    /// A folder of the user's; ours is only a link to it. `undo` is there until the creation is complete.
    Users {
        dir: PathBuf,
        link: PathBuf,
        undo: Option<Undo>,
    },
}

impl Place {
    pub(crate) fn dir(&self) -> &PathBuf {
        match self {
            Self::Own { dir } | Self::Users { dir, .. } => dir,
        }
    }

    /// Whether a file of that name may be written: in a folder of the user's only what the survey found to be ours.
    pub(crate) fn may_write(&self, path: &str) -> bool {
        match self {
            Self::Own { .. } => true,
            Self::Users { undo, .. } => undo.as_ref().is_some_and(|undo| undo.covers(path)),
        }
    }

    /// The creation is complete; there is nothing to take back any more.
    pub(crate) fn settle(&mut self) {
        match self {
            Self::Own { .. } => {}
            Self::Users { undo, .. } => *undo = None,
        }
    }
}

/// A folder of the user's to work in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkDir {
    pub dir: PathBuf,
    pub conflict: WorkDirConflict,
}

/// What to do with files that are there already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WorkDirConflict {
    /// Refuse a folder that is not empty.
    #[default]
    Error,
    /// Replace files of the same name.
    Overwrite,
    /// Keep files of the same name.
    Append,
}

/// An agent as everybody sees it. Serialised, it is the contract's `AgentInstanceMeta`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentView {
    pub id: String,
    pub name: String,
    pub template_name: String,
    pub template_version: String,
    pub backend_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_config: Option<Map<String, Value>>,
    pub status: String,
    pub launch_mode: String,
    pub workspace_policy: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_ownership: Option<String>,
    #[serde(default)]
    pub workspace_dir: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_at: Option<String>,
    pub created_at: String,
    pub updated_at: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// It is for whoever made it, and no one else on the network is told of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
}

impl AgentRecord {
    /// Whether it goes with the work it was made for. One that works in a folder beside its own does: that folder is lent.
    pub(crate) fn is_passing(&self) -> bool {
        self.passing || self.confinement.is_some()
    }

    /// As the store keeps it.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a record has only text keys")
    }

    /// What everybody sees; nothing while the agent is being created or destroyed.
    pub(crate) fn view(&self) -> Option<AgentView> {
        let status = self.lifecycle.status()?;
        let process = self.lifecycle.process();
        let (reason, restart_at) = match self.lifecycle.state() {
            State::Failed { reason } => (Some(reason.clone()), None),
            State::Crashed { exit, restart, .. } => (
                Some(format!("the process ended: {exit}")),
                restart.map(|restart| clock::text(restart.at)),
            ),
            State::Creating
            | State::Created
            | State::Starting { .. }
            | State::Running { .. }
            | State::Stopping { .. }
            | State::Stopped { .. }
            | State::Destroying => (None, None),
        };
        let backend = &self.template.backend;
        Some(AgentView {
            id: self.id.clone(),
            name: self.name.to_string(),
            template_name: self.template.name.to_string(),
            template_version: self.template.version.clone(),
            backend_type: backend.backend_type().as_str().to_owned(),
            backend_config: backend.config().cloned(),
            status: status.as_str().to_owned(),
            launch_mode: word(self.lifecycle.mode()),
            workspace_policy: word(self.policy),
            process_ownership: self.ownership().map(word),
            workspace_dir: self.place.dir().to_string_lossy().into_owned(),
            pid: process.map(|(process, _)| process.pid),
            reason,
            restart_at,
            created_at: clock::text(self.created_at),
            updated_at: clock::text(self.updated_at),
            metadata: self.metadata.clone(),
            private: self.private || self.is_passing(),
        })
    }

    /// Whose the process is, or was when it crashed.
    fn ownership(&self) -> Option<Ownership> {
        match self.lifecycle.state() {
            State::Running { ownership, .. } | State::Crashed { ownership, .. } => Some(*ownership),
            State::Created
            | State::Starting { .. }
            | State::Stopping { .. }
            | State::Failed { .. } => Some(Ownership::Managed),
            State::Creating | State::Stopped { .. } | State::Destroying => None,
        }
    }
}

/// The word a plain enum is written as.
fn word(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        other => unreachable!("a plain enum is a word in JSON, not {other:?}"),
    }
}
