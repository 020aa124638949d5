//! One agent: its record, what others see of it, and the task that owns it.

mod handle;
mod instance_file;
mod launch;
mod log;
mod process;
mod record;
mod steps;
mod task;
mod waiting;
mod workspace;

pub(crate) use handle::{AgentHandle, Command};
pub(crate) use instance_file::InstanceFile;
pub(crate) use launch::{Launcher, launch_environment};
pub use process::chain;
pub(crate) use record::{AgentRecord, Place};
pub use record::{AgentView, Confinement, Walls, WorkDir, WorkDirConflict};
pub(crate) use steps::{run_steps, written_paths};
pub(crate) use task::{Begin, STOP_MARGIN, Surroundings, spawn};
pub(crate) use workspace::{Workspace, WorkspaceError};
