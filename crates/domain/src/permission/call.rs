//! What rules are asked about: a tool call reduced to its kind, name, paths and command.

use serde_json::Value;

use super::{CallPath, path, words};
use crate::turn::{ToolCall, ToolContent, ToolKind};

/// How many paths of one call are read; a call with more is opaque. Rules look at each of them.
const PATHS_MAX: usize = 256;

/// How deep the input of a tool is searched; well-known keys lie at the top or in a list of edits.
const DEPTH_MAX: usize = 6;

/// Keys of an input under which tools take paths.
const PATH_KEYS: [&str; 28] = [
    "path",
    "paths",
    "file",
    "files",
    "file_path",
    "filePath",
    "filepath",
    "file_paths",
    "filePaths",
    "filename",
    "fileName",
    "notebook_path",
    "notebookPath",
    "target_file",
    "targetFile",
    "absolute_path",
    "relative_path",
    "source",
    "destination",
    "old_path",
    "new_path",
    "dir",
    "directory",
    "dir_path",
    "cwd",
    "workdir",
    "working_directory",
    "workingDirectory",
];

/// Keys of an input under which tools take commands.
const COMMAND_KEYS: [&str; 6] = [
    "command",
    "cmd",
    "script",
    "shell_command",
    "commandLine",
    "command_line",
];

/// A tool call as rules see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub kind: ToolKind,
    /// What the tool is called, where the driver knows it.
    pub name: Option<String>,
    /// What the agent shows for the call. Agents put commands and file names there, so it allows only what looks
    /// like a name.
    pub title: String,
    pub paths: Vec<CallPath>,
    pub command: Option<String>,
    /// The absolute path that `paths` were resolved against; empty if it is not known.
    pub workspace: String,
    /// Not all of the input could be read, so there may be more paths and commands than these.
    pub opaque: bool,
}

impl Call {
    /// Reads a tool call. `workspace` is the absolute path that relative paths begin at.
    pub fn of(tool: &ToolCall, workspace: &str) -> Self {
        let mut found = Found::default();
        for location in &tool.locations {
            found.path(&location.path);
        }
        for content in &tool.content {
            match content {
                ToolContent::Diff { path, .. } => found.path(path),
                ToolContent::Text { .. } | ToolContent::Terminal { .. } => {}
            }
        }
        match tool.input.as_deref().map(serde_json::from_str::<Value>) {
            Some(Ok(Value::String(text))) if tool.kind == ToolKind::Execute => {
                found.commands.push(text);
            }
            Some(Ok(input)) => found.search(&input, 0),
            Some(Err(_)) => found.opaque = true,
            None => {}
        }
        // Editors of text take a verb as their command, such as `view`; that is no command of a shell.
        if !matches!(tool.kind, ToolKind::Execute | ToolKind::Other) {
            found.commands.retain(|command| {
                command.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            });
        }
        let mut paths: Vec<CallPath> = Vec::new();
        for text in &found.paths {
            let path = CallPath::resolve(text, workspace);
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        Self {
            kind: tool.kind,
            name: tool.name.clone(),
            title: tool.title.clone(),
            paths,
            // Several commands are read as the lines of one.
            command: (!found.commands.is_empty()).then(|| found.commands.join("\n")),
            workspace: match workspace.starts_with('/') {
                true => path::join(workspace, ""),
                false => String::new(),
            },
            opaque: found.opaque,
        }
    }

    /// The kinds that the call is of: what runs a command executes, whatever else the agent calls it.
    pub(super) fn kinds(&self) -> impl Iterator<Item = ToolKind> {
        let executes = self.command.is_some() && self.kind != ToolKind::Execute;
        std::iter::once(self.kind).chain(executes.then_some(ToolKind::Execute))
    }

    /// The command, or what may be one: some agents show a command as the title and send no input.
    pub(super) fn suspected_command(&self) -> Option<&str> {
        let title = || (self.kind == ToolKind::Execute).then(|| self.title.trim_matches('`'));
        self.command.as_deref().or_else(title)
    }

    /// The name to trust: the driver's, or a title that can be nothing else.
    pub(super) fn trusted_name(&self) -> Option<&str> {
        let looks_like_one = self
            .title
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/'));
        let title = || (looks_like_one && self.command.is_none()).then_some(self.title.as_str());
        self.name.as_deref().or_else(title)
    }
}

#[derive(Default)]
struct Found {
    paths: Vec<String>,
    commands: Vec<String>,
    opaque: bool,
}

impl Found {
    fn path(&mut self, path: &str) {
        if self.paths.len() < PATHS_MAX {
            self.paths.push(path.to_owned());
        } else {
            self.opaque = true;
        }
    }

    fn search(&mut self, value: &Value, depth: usize) {
        if depth > DEPTH_MAX {
            self.opaque |= value.is_object() || value.is_array();
            return;
        }
        match value {
            Value::Object(object) => {
                for (key, value) in object {
                    if COMMAND_KEYS.contains(&key.as_str()) {
                        self.command(value, object.get("args"));
                    }
                    if PATH_KEYS.contains(&key.as_str()) {
                        self.texts(value);
                    }
                    // A patch names its files as keys.
                    if let ("changes" | "fileChanges", Value::Object(changes)) =
                        (key.as_str(), value)
                    {
                        changes.keys().for_each(|path| self.path(path));
                    }
                    self.search(value, depth + 1);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.search(item, depth + 1)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn texts(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.path(text),
            Value::Array(items) => items
                .iter()
                .filter_map(Value::as_str)
                .for_each(|text| self.path(text)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
        }
    }

    fn command(&mut self, value: &Value, arguments: Option<&Value>) {
        let arguments = arguments.map(texts_of).unwrap_or_default();
        match value {
            Value::String(text) if arguments.is_empty() => self.commands.push(text.clone()),
            Value::String(program) => {
                let words: Vec<&str> = [program.as_str()].into_iter().chain(arguments).collect();
                self.commands.push(words::join(&words));
            }
            Value::Array(_) => match texts_of(value).as_slice() {
                // A shell that is given a script comes to the script.
                [
                    "sh" | "bash" | "zsh" | "/bin/sh" | "/bin/bash" | "/bin/zsh",
                    "-c" | "-lc",
                    script,
                ] => {
                    self.commands.push((*script).to_owned());
                }
                words => self.commands.push(words::join(words)),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
        }
    }
}

fn texts_of(value: &Value) -> Vec<&str> {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::{Location, ToolStatus};

    fn tool(kind: ToolKind, input: &str) -> ToolCall {
        ToolCall {
            id: "t".into(),
            title: "tool".into(),
            name: None,
            kind,
            status: ToolStatus::Pending,
            locations: Vec::new(),
            content: Vec::new(),
            input: Some(input.into()),
            output: None,
        }
    }

    #[test]
    fn paths_come_from_locations_diffs_and_input() {
        let mut edit = tool(
            ToolKind::Edit,
            r#"{"file_path":"/ws/a","edits":[{"path":"b"}],"changes":{"/ws/c":{}},"files":["../d"],"content":"path"}"#,
        );
        edit.locations.push(Location {
            path: "/ws/e".into(),
            line: None,
        });
        edit.content.push(ToolContent::Diff {
            path: "/ws/a".into(),
            old: None,
            new: String::new(),
        });
        let mut paths: Vec<String> = Call::of(&edit, "/ws")
            .paths
            .iter()
            .map(CallPath::to_string)
            .collect();
        paths.sort();
        assert_eq!(paths, ["/d", "a", "b", "c", "e"]);
    }

    #[test]
    fn the_name_that_the_agent_told_is_the_one_that_rules_see() {
        let mut call = tool(ToolKind::Other, "{}");
        assert_eq!(Call::of(&call, "/ws").trusted_name(), Some("tool"));
        call.name = Some("mcp__files__read".into());
        assert_eq!(
            Call::of(&call, "/ws").trusted_name(),
            Some("mcp__files__read")
        );
    }

    #[test]
    fn commands_come_from_texts_lists_and_arguments() {
        let cases = [
            (
                ToolKind::Execute,
                r#"{"command":"git status"}"#,
                Some("git status"),
            ),
            (ToolKind::Execute, r#""ls""#, Some("ls")),
            (
                ToolKind::Execute,
                r#"{"cmd":["rm","a b; c"]}"#,
                Some("rm 'a b; c'"),
            ),
            (
                ToolKind::Execute,
                r#"{"command":["bash","-lc","git status | cat"]}"#,
                Some("git status | cat"),
            ),
            (
                ToolKind::Execute,
                r#"{"command":"git","args":["log","a;b"]}"#,
                Some("git log 'a;b'"),
            ),
            (
                ToolKind::Other,
                r#"{"command":"a","script":"b"}"#,
                Some("a\nb"),
            ),
            (
                ToolKind::Edit,
                r#"{"command":"str_replace","path":"a"}"#,
                None,
            ),
            (ToolKind::Read, r#"{"command":["cat","a"]}"#, Some("cat a")),
            (ToolKind::Execute, r#"{"command":7}"#, None),
        ];
        for (kind, input, expected) in cases {
            let call = Call::of(&tool(kind, input), "/ws");
            assert_eq!(call.command.as_deref(), expected, "{input}");
            assert!(!call.opaque);
        }
    }

    #[test]
    fn input_that_cannot_be_read_makes_the_call_opaque() {
        let deep = format!("{}{}", "[".repeat(20), "]".repeat(20));
        let many = format!("{{\"paths\":[{}\"a\"]}}", "\"a\",".repeat(PATHS_MAX));
        for input in ["{", deep.as_str(), many.as_str()] {
            assert!(Call::of(&tool(ToolKind::Edit, input), "/ws").opaque);
        }
    }
}
