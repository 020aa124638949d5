//! The tools that every model has: read, write, edit, list, search and run, all of them in the workspace.

mod files;
mod run;
mod search;

use std::path::{Path, PathBuf};

use domain::turn::{Location, ToolContent, ToolKind};
use engine::DriverSurroundings;
use platform::ConfinedDir;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

pub(crate) use files::Edit;

/// What a model is told of a tool's output at most.
pub(crate) const OUTPUT_MAX: usize = 64 * 1024;

/// A tool of our own, with its arguments checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    Read {
        path: String,
        offset: usize,
        limit: usize,
    },
    Write {
        path: String,
        content: String,
    },
    Edit(Edit),
    List {
        path: String,
    },
    Search {
        pattern: String,
        path: String,
    },
    Run {
        command: String,
        timeout_ms: u64,
    },
}

/// Lines that are read when the model does not say.
const LINES: usize = 2_000;

const RUN_TIMEOUT_MS: u64 = 120_000;

/// An hour.
const RUN_TIMEOUT_MS_MAX: u64 = 3_600_000;

impl Act {
    /// What the model wants, or what is wrong with how it says so.
    pub(crate) fn parse(name: &str, arguments: &Map<String, Value>) -> Result<Self, String> {
        let text = |key: &str| {
            let value = arguments.get(key).and_then(Value::as_str);
            value
                .map(str::to_owned)
                .ok_or_else(|| format!("needs {key:?}, a text"))
        };
        let number = |key: &str, default: u64| {
            arguments
                .get(key)
                .and_then(Value::as_u64)
                .unwrap_or(default)
        };
        let size = |key: &str, default: usize| {
            usize::try_from(number(key, default as u64)).unwrap_or(default)
        };
        Ok(match name {
            "read" => Self::Read {
                path: text("path")?,
                offset: size("offset", 1).max(1),
                limit: size("limit", LINES),
            },
            "write" => Self::Write {
                path: text("path")?,
                content: text("content")?,
            },
            "edit" => Self::Edit(Edit {
                path: text("path")?,
                old: text("old")?,
                new: text("new")?,
            }),
            "list" => Self::List {
                path: text("path").unwrap_or_else(|_| ".".to_owned()),
            },
            "search" => Self::Search {
                pattern: text("pattern")?,
                path: text("path").unwrap_or_else(|_| ".".to_owned()),
            },
            "run" => Self::Run {
                command: text("command")?,
                timeout_ms: number("timeout_ms", RUN_TIMEOUT_MS).min(RUN_TIMEOUT_MS_MAX),
            },
            other => return Err(format!("there is no tool called {other:?}")),
        })
    }

    pub(crate) fn kind(&self) -> ToolKind {
        match self {
            Self::Read { .. } => ToolKind::Read,
            Self::Write { .. } | Self::Edit(_) => ToolKind::Edit,
            Self::List { .. } | Self::Search { .. } => ToolKind::Search,
            Self::Run { .. } => ToolKind::Execute,
        }
    }

    pub(crate) fn title(&self) -> String {
        match self {
            Self::Read { path, .. } => format!("Read {path}"),
            Self::Write { path, .. } => format!("Write {path}"),
            Self::Edit(edit) => format!("Edit {}", edit.path),
            Self::List { path } => format!("List {path}"),
            Self::Search { pattern, .. } => format!("Search for {pattern}"),
            Self::Run { command, .. } => command.clone(),
        }
    }

    pub(crate) fn locations(&self, workspace: &Path) -> Vec<Location> {
        let path = match self {
            Self::Read { path, .. } | Self::Write { path, .. } => path,
            Self::Edit(edit) => &edit.path,
            Self::List { .. } | Self::Search { .. } | Self::Run { .. } => return Vec::new(),
        };
        vec![Location {
            path: workspace.join(path).to_string_lossy().into_owned(),
            line: None,
        }]
    }

    /// Whether somebody must allow it: everything but looking.
    pub(crate) fn needs_permission(&self) -> bool {
        match self {
            Self::Write { .. } | Self::Edit(_) | Self::Run { .. } => true,
            Self::Read { .. } | Self::List { .. } | Self::Search { .. } => false,
        }
    }

    /// The change it would make, for whoever decides.
    pub(crate) fn preview(&self, place: &Place) -> Vec<ToolContent> {
        files::preview(self, place).into_iter().collect()
    }

    /// Does it. The words are for the model, of a failure too.
    pub(crate) async fn perform(
        self,
        place: &Place,
        around: &DriverSurroundings,
        cancel: &CancellationToken,
    ) -> Result<String, String> {
        if let Self::Run {
            command,
            timeout_ms,
        } = self
        {
            return run::run(&command, timeout_ms, &place.root, around, cancel).await;
        }
        let place = place.clone();
        let done = around.tasks.spawn_blocking(move |stop| match self {
            Self::Read {
                path,
                offset,
                limit,
            } => files::read(&place, &path, offset, limit),
            Self::Write { path, content } => files::write(&place, &path, &content),
            Self::Edit(edit) => files::edit(&place, &edit),
            Self::List { path } => files::list(&place, &path),
            Self::Search { pattern, path } => search::search(&place, &pattern, &path, &stop),
            Self::Run { .. } => unreachable!("it was run above"),
        });
        done.await
            .unwrap_or_else(|_| Err("the node is shutting down".to_owned()))
    }
}

/// The folder that tools work in.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) root: PathBuf,
}

impl Place {
    fn open(&self) -> Result<ConfinedDir, String> {
        ConfinedDir::open(&self.root).map_err(|error| engine::chain(&error))
    }

    /// A path of the model's, relative to the workspace; absolute ones below it are accepted.
    fn relative(&self, path: &str) -> PathBuf {
        let path = Path::new(path);
        path.strip_prefix(&self.root).unwrap_or(path).to_owned()
    }
}

/// What the model is told of our tools.
pub(crate) fn definitions() -> Vec<Value> {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let number = |description: &str| json!({ "type": "integer", "description": description });
    let tool = |name: &str, description: &str, properties: Value, required: &[&str]| {
        json!({
            "type": "function",
            "function": {
                "name": name,
                "description": description,
                "parameters": { "type": "object", "properties": properties, "required": required },
            },
        })
    };
    let path = || text("Relative to the workspace.");
    vec![
        tool(
            "read",
            "Reads lines of a text file.",
            json!({ "path": path(), "offset": number("The first line, from 1."), "limit": number("How many lines.") }),
            &["path"],
        ),
        tool(
            "write",
            "Writes a whole file; folders are made as needed.",
            json!({ "path": path(), "content": text("The whole text.") }),
            &["path", "content"],
        ),
        tool(
            "edit",
            "Replaces a text that occurs exactly once in a file.",
            json!({ "path": path(), "old": text("What is there."), "new": text("What shall be there.") }),
            &["path", "old", "new"],
        ),
        tool("list", "Lists a folder.", json!({ "path": path() }), &[]),
        tool(
            "search",
            "Finds lines that match a regular expression, in all files below a folder.",
            json!({ "pattern": text("A regular expression."), "path": path() }),
            &["pattern"],
        ),
        tool(
            "run",
            "Runs a shell command in the workspace and tells what it printed.",
            json!({ "command": text("For sh -c."), "timeout_ms": number("Two minutes unless given.") }),
            &["command"],
        ),
    ]
}

/// The beginning of a long output, and how much is missing.
pub(crate) fn shortened(mut output: String) -> String {
    if output.len() > OUTPUT_MAX {
        let missing = output.len() - OUTPUT_MAX;
        output.truncate(output.floor_char_boundary(OUTPUT_MAX));
        output.push_str(&format!("\n… {missing} bytes more"));
    }
    output
}
