//! The engine: one task per live thing, and the API every face calls.
//!
//! Decisions come from the pure crates; here they are written down first and then performed. Faces hold an [`Engine`]
//! and translate; they never touch files, processes or the store by themselves.

mod agent;
mod clock;
mod config;
mod engine;
mod error;
mod library;
mod recovery;

pub use agent::{AgentView, WorkDir, WorkDirConflict, chain};
pub use config::{EngineConfig, LauncherMode};
pub use engine::{Create, Engine, Overrides, Resolved};
pub use error::{EngineError, ErrorKind};
pub use library::{FileProblems, Library, Validation};
