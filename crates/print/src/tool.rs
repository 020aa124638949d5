//! Tool calls as programs print them: what sort of act a tool's name means, and what a call is titled.

use domain::turn::{Location, ToolCall, ToolContent, ToolKind, ToolStatus, ToolUpdate};
use serde_json::Value;

use crate::reading::{items, text};

/// A title is one line for a human; commands may be whole scripts.
const TITLE_CHARS_MAX: usize = 200;

/// Names of tools, in lower case and without `_` and `-`, as the programs call them.
const KINDS: [(ToolKind, &[&str]); 8] = [
    (
        ToolKind::Execute,
        &[
            "bash",
            "shell",
            "runshellcommand",
            "commandexecution",
            "powershell",
            "exec",
            "bashoutput",
            "killshell",
            "readbash",
            "writebash",
            "stopbash",
        ],
    ),
    (
        ToolKind::Read,
        &[
            "read",
            "readfile",
            "readmanyfiles",
            "notebookread",
            "view",
            "ls",
            "list",
            "listdirectory",
        ],
    ),
    (
        ToolKind::Edit,
        &[
            "edit",
            "multiedit",
            "write",
            "writefile",
            "notebookedit",
            "replace",
            "patch",
            "applypatch",
            "create",
            "strreplace",
            "strreplaceeditor",
            "filechange",
        ],
    ),
    (ToolKind::Delete, &["delete", "deletefile"]),
    (ToolKind::Move, &["move", "movefile", "rename"]),
    (
        ToolKind::Search,
        &[
            "grep",
            "glob",
            "grepsearch",
            "searchfilecontent",
            "codesearch",
            "rg",
            "toolsearch",
        ],
    ),
    (
        ToolKind::Fetch,
        &["webfetch", "fetch", "websearch", "googlewebsearch"],
    ),
    (
        ToolKind::Think,
        &["task", "agent", "think", "todowrite", "savememory"],
    ),
];

/// Where tools keep what they are about, the most telling first.
const SUBJECTS: [&str; 10] = [
    "command",
    "file_path",
    "filePath",
    "absolute_path",
    "notebook_path",
    "pattern",
    "query",
    "url",
    "path",
    "description",
];

/// Where tools keep the file they touch.
const PATHS: [&str; 5] = [
    "file_path",
    "filePath",
    "absolute_path",
    "notebook_path",
    "path",
];

/// Where tools keep what is replaced and what it is replaced with.
const REPLACED: [(&str, &str); 3] = [
    ("old_string", "new_string"),
    ("oldString", "newString"),
    ("old_str", "new_str"),
];

/// Where tools keep the text of a whole file.
const WHOLE: [&str; 2] = ["content", "file_text"];

/// What sort of act the tool of this name carries out.
pub(crate) fn kind(name: &str) -> ToolKind {
    let plain: String = plain(name);
    KINDS
        .iter()
        .find(|(_, names)| names.contains(&plain.as_str()))
        .map_or(ToolKind::Other, |(kind, _)| *kind)
}

/// Whether the tool of this name writes the agent's plan.
pub(crate) fn is_plan(name: &str) -> bool {
    plain(name) == "todowrite"
}

/// A call at its first sighting.
pub(crate) fn call(id: &str, name: &str, input: &Value, status: ToolStatus) -> ToolCall {
    let kind = kind(name);
    ToolCall {
        id: id.to_owned(),
        title: title(name, input),
        name: Some(name.to_owned()),
        kind,
        status,
        locations: locations(kind, input),
        content: changes(kind, input),
        input: json(input),
        output: None,
    }
}

/// The end of a call, or its output so far.
pub(crate) fn update(id: &str, status: ToolStatus, output: &Value) -> ToolUpdate {
    ToolUpdate {
        id: id.to_owned(),
        status: Some(status),
        content: content(output),
        output: json(output),
        ..ToolUpdate::default()
    }
}

/// One line: the given words, bounded.
pub(crate) fn one_line(words: &str) -> String {
    let line = words.trim().lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(TITLE_CHARS_MAX).collect();
    if short.len() < words.trim().len() {
        short.push('…');
    }
    short
}

/// JSON text, unless there is nothing.
pub(crate) fn json(value: &Value) -> Option<String> {
    (!value.is_null()).then(|| value.to_string())
}

/// The words of an output: a text, or the texts in a list of blocks.
pub(crate) fn content(output: &Value) -> Option<Vec<ToolContent>> {
    let words = match output {
        Value::String(words) => words.clone(),
        Value::Array(_) => {
            let texts: Vec<&str> = items(output)
                .iter()
                .filter_map(|block| text(block, &["text"]))
                .collect();
            texts.join("\n")
        }
        _ => return None,
    };
    (!words.is_empty()).then(|| vec![ToolContent::Text { text: words }])
}

pub(crate) fn location(path: &str) -> Location {
    Location {
        path: path.to_owned(),
        line: None,
    }
}

fn title(name: &str, input: &Value) -> String {
    let subject = SUBJECTS.iter().find_map(|key| text(input, &[key]));
    match subject {
        Some(subject) => one_line(&format!("{name}: {}", subject.trim())),
        None => one_line(name),
    }
}

fn locations(kind: ToolKind, input: &Value) -> Vec<Location> {
    match kind {
        ToolKind::Read | ToolKind::Edit | ToolKind::Delete | ToolKind::Move => PATHS
            .iter()
            .find_map(|key| text(input, &[key]))
            .map(location)
            .into_iter()
            .collect(),
        ToolKind::Search
        | ToolKind::Execute
        | ToolKind::Think
        | ToolKind::Fetch
        | ToolKind::Other => Vec::new(),
    }
}

/// What a call changes, as far as its input says it.
fn changes(kind: ToolKind, input: &Value) -> Vec<ToolContent> {
    let path = PATHS.iter().find_map(|key| text(input, &[key]));
    let (ToolKind::Edit, Some(path)) = (kind, path) else {
        return Vec::new();
    };
    let change = |old: Option<&str>, new: &str| ToolContent::Diff {
        path: path.to_owned(),
        old: old.map(str::to_owned),
        new: new.to_owned(),
    };
    let replaced = |edit: &Value| {
        REPLACED.iter().find_map(|(old, new)| {
            let new = text(edit, &[new])?;
            Some(change(text(edit, &[old]), new))
        })
    };
    let several = items(&input["edits"]).iter().filter_map(replaced);
    let one = replaced(input).or_else(|| {
        let whole = WHOLE.iter().find_map(|key| text(input, &[key]));
        whole.map(|new| change(None, new))
    });
    several.chain(one).collect()
}

fn plain(name: &str) -> String {
    name.chars()
        .filter(|letter| !matches!(letter, '_' | '-'))
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_of_every_program_have_their_kind() {
        let cases = [
            ("Bash", ToolKind::Execute),
            ("run_shell_command", ToolKind::Execute),
            ("read_file", ToolKind::Read),
            ("MultiEdit", ToolKind::Edit),
            ("apply_patch", ToolKind::Edit),
            ("Grep", ToolKind::Search),
            ("web-fetch", ToolKind::Fetch),
            ("Task", ToolKind::Think),
            ("mcp__files__read", ToolKind::Other),
        ];
        for (name, wanted) in cases {
            assert_eq!(kind(name), wanted, "{name}");
        }
    }

    #[test]
    fn a_title_is_one_bounded_line() {
        let call = |input| call("1", "Bash", &input, ToolStatus::Pending).title;
        assert_eq!(call(json!({"command": "ls\nrm x"})), "Bash: ls…");
        let long = call(json!({"command": "é".repeat(1000)}));
        assert_eq!(long.chars().count(), TITLE_CHARS_MAX + 1);
        assert_eq!(call(json!({})), "Bash");
        assert_eq!(call(Value::Null), "Bash");
    }

    #[test]
    fn a_call_on_a_file_says_where() {
        let input = json!({"file_path": "/a/b", "content": "x"});
        let call = call("1", "Write", &input, ToolStatus::Pending);
        assert_eq!(call.locations, [location("/a/b")]);
        assert_eq!(call.title, "Write: /a/b");
        let change = ToolContent::Diff {
            path: "/a/b".to_owned(),
            old: None,
            new: "x".to_owned(),
        };
        assert_eq!(call.content, [change]);
    }

    #[test]
    fn what_an_edit_changes_is_read_in_the_words_of_every_program() {
        for (name, input) in [
            (
                "Edit",
                json!({"file_path": "f", "old_string": "a", "new_string": "b"}),
            ),
            (
                "MultiEdit",
                json!({"file_path": "f", "edits": [{"old_string": "a", "new_string": "b"}]}),
            ),
            (
                "edit",
                json!({"filePath": "f", "oldString": "a", "newString": "b"}),
            ),
            (
                "str_replace",
                json!({"path": "f", "old_str": "a", "new_str": "b"}),
            ),
        ] {
            let call = call("1", name, &input, ToolStatus::Pending);
            let change = ToolContent::Diff {
                path: "f".to_owned(),
                old: Some("a".to_owned()),
                new: "b".to_owned(),
            };
            assert_eq!(call.content, [change], "{name}");
        }
        let read = json!({"file_path": "f", "content": "x"});
        assert!(
            call("1", "Read", &read, ToolStatus::Pending)
                .content
                .is_empty()
        );
    }
}
