//! What a plan needs of the world while it is decided: variables and the text of files, passed in by whoever runs it.

use std::fmt;

/// Which file is meant, so that the runner can look in the places of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// `prompt_file` of an agent step.
    Prompt,
    /// `script_file` of a command step.
    Script,
    /// `readFile` in a template.
    Any,
}

/// Answers from outside. Calls are made inside `Machine::apply` and block it, so answers should be quick.
pub trait World: Send + Sync + fmt::Debug {
    /// A variable of the environment.
    fn variable(&self, name: &str) -> Option<String>;

    /// The text of a file; the error is in words and names the path. `path` is as the workflow has it.
    fn read(&self, kind: FileKind, path: &str) -> Result<String, String>;

    /// Whether a file is there, for inputs that ask for it.
    fn exists(&self, path: &str) -> bool;
}

/// A world without variables and files.
#[derive(Debug, Clone, Copy, Default)]
pub struct EmptyWorld;

impl World for EmptyWorld {
    fn variable(&self, _name: &str) -> Option<String> {
        None
    }

    fn read(&self, _kind: FileKind, path: &str) -> Result<String, String> {
        Err(format!("{path}: there are no files here"))
    }

    fn exists(&self, _path: &str) -> bool {
        false
    }
}

/// Bytes of a file that a template, a prompt or a script may hold; more than that belongs into the agent's hands
/// as a path.
pub const FILE_MAX: usize = 1024 * 1024;
