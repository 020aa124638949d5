//! The initializer: what is done to a new workspace before the agent first starts.

use serde::Serialize;

use crate::path::RelativePath;
use crate::reader::{Mapping, Node};

/// A step that says nothing about time gets this long: enough for a package manager, not for a hang.
pub const STEP_TIMEOUT_MS_DEFAULT: u64 = 60_000;

/// Creating an agent waits for its steps, so no step may take longer than an hour.
pub(crate) const STEP_TIMEOUT_MS_MAX: u64 = 3_600_000;

/// One step. Serialises as the contract writes it: a `type` and its `config`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", content = "config", rename_all = "kebab-case")]
pub enum InitializerStep {
    Mkdir {
        path: RelativePath,
    },
    WriteFile {
        path: RelativePath,
        content: String,
    },
    /// `from` lies below the configs folder, `to` below the workspace.
    FileCopy {
        from: RelativePath,
        to: RelativePath,
    },
    /// A program, run in the workspace without a shell.
    #[serde(rename_all = "camelCase")]
    Exec {
        command: String,
        args: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepWord {
    Mkdir,
    WriteFile,
    FileCopy,
    Exec,
}

pub(crate) const STEP_WORDS: [(&str, StepWord); 4] = [
    ("mkdir", StepWord::Mkdir),
    ("write-file", StepWord::WriteFile),
    ("file-copy", StepWord::FileCopy),
    ("exec", StepWord::Exec),
];

pub(super) fn read_initializer(node: &Node<'_>) -> Option<Vec<InitializerStep>> {
    let mapping = node.mapping()?;
    let steps = mapping.required("steps");
    mapping.report_unknown_keys();
    let steps = steps?;
    if steps.value.as_array().is_some_and(Vec::is_empty) {
        steps.error("must have at least one step");
    }
    Some(steps.list_of(read_step))
}

fn read_step(node: &Node<'_>) -> Option<InitializerStep> {
    let mapping = node.mapping()?;
    let word = mapping
        .required("type")
        .and_then(|node| node.choice(&STEP_WORDS));
    let config = mapping.required("config");
    mapping.report_unknown_keys();
    let (word, config) = (word?, config?.mapping()?);
    let step = read_config(word, &config);
    config.report_unknown_keys();
    step
}

fn read_config(word: StepWord, config: &Mapping<'_>) -> Option<InitializerStep> {
    let path = |key| config.required(key).and_then(|node| node.relative_path());
    Some(match word {
        StepWord::Mkdir => InitializerStep::Mkdir {
            path: path("path")?,
        },
        StepWord::WriteFile => {
            let path = path("path");
            let content = config.required("content").and_then(|node| node.text());
            InitializerStep::WriteFile {
                path: path?,
                content: content?.to_owned(),
            }
        }
        StepWord::FileCopy => {
            let (from, to) = (path("from"), path("to"));
            InitializerStep::FileCopy {
                from: from?,
                to: to?,
            }
        }
        StepWord::Exec => {
            let command = config
                .required("command")
                .and_then(|node| read_command(&node));
            let args = config.optional("args").map(|node| node.arguments());
            let timeout_ms = config
                .optional("timeoutMs")
                .and_then(|node| node.integer(1, STEP_TIMEOUT_MS_MAX));
            InitializerStep::Exec {
                command: command?,
                args: args.unwrap_or_default(),
                timeout_ms,
            }
        }
    })
}

fn read_command(node: &Node<'_>) -> Option<String> {
    let command = node.program()?;
    if command.split(['/', '\\']).any(|segment| segment == "..") {
        node.error("must not climb with `..`");
        return None;
    }
    Some(command.to_owned())
}
