//! Commands on files of the workspace: list, read, write, append.

use agent_client_protocol_schema::v1::{
    Diff, StopReason, ToolCallContent, ToolCallLocation, ToolCallUpdateFields, ToolKind,
};
use platform::confined::{ConfinedError, Kind};
use serde_json::json;

use super::usage;
use crate::{
    session::Mode,
    tool::{Tool, Verdict},
    turn::{Outcome, Turn},
    words,
    workspace::{Place, Workspace},
};

/// The largest file that is read or appended to: source files are far below, and the answer stays below a line's bound.
pub(super) const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// What is shown of a file or a list in a message; the tool call holds all of it.
const SHOWN_BYTES_MAX: usize = 16 * 1024;

/// Entries of a folder in an answer.
const ENTRIES_MAX: usize = 1000;

/// What a write does to the text that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Replace,
    Append,
}

/// A place in words, or the refusal in words.
pub(super) fn place(turn: &Turn, path: &str) -> Result<Place, String> {
    let folder = turn.session.state().folder.clone();
    turn.surroundings.workspace.place(&folder, path)
}

pub(super) async fn list(turn: &Turn, rest: &str) -> Outcome {
    let path = words::unquoted(rest);
    let path = if path.is_empty() {
        ".".to_owned()
    } else {
        path
    };
    let place = place(turn, &path);
    let tool = turn.open_tool("list", |mut call| {
        call.title = format!("List {path}");
        let call = call.kind(ToolKind::Read).raw_input(json!({ "path": path }));
        match &place {
            Ok(place) => call.locations(vec![ToolCallLocation::new(&place.absolute)]),
            Err(_) => call,
        }
    });
    let tool = tool.await?;
    tool.start().await?;
    let listed = match place {
        Ok(place) => {
            turn.on_files(move |workspace| names_in(workspace, &place))
                .await?
        }
        Err(refusal) => Err(refusal),
    };
    match listed {
        Ok(names) => {
            let text = if names.is_empty() {
                "(empty)".to_owned()
            } else {
                names.join("\n")
            };
            let fields = ToolCallUpdateFields::new().content(vec![text.as_str().into()]);
            tool.complete(fields.raw_output(json!({ "entries": names })))
                .await?;
            turn.say(format!(
                "{path}:\n{}\n",
                words::shortened(&text, SHOWN_BYTES_MAX)
            ))
            .await?;
        }
        Err(reason) => tool.fail(&reason).await?,
    }
    Ok(StopReason::EndTurn)
}

fn names_in(workspace: &Workspace, place: &Place) -> Result<Vec<String>, String> {
    let entries = workspace
        .dir
        .list(&place.relative)
        .map_err(|error| workspace.words(&error))?;
    let surplus = entries.len().saturating_sub(ENTRIES_MAX);
    let mut names: Vec<String> = entries
        .iter()
        .take(ENTRIES_MAX)
        .map(|entry| {
            let name = entry.name.to_string_lossy();
            match entry.kind {
                Kind::Dir => format!("{name}/"),
                Kind::Link => format!("{name}@"),
                Kind::File | Kind::Other => name.into_owned(),
            }
        })
        .collect();
    if surplus > 0 {
        names.push(format!("… and {surplus} more"));
    }
    Ok(names)
}

pub(super) async fn read(turn: &Turn, rest: &str) -> Outcome {
    let arguments = words::all(rest);
    let Some(path) = arguments.first().cloned() else {
        return usage(turn, "/read path [line [limit]]").await;
    };
    let line = super::number(arguments.get(1), 1, u64::from(u32::MAX));
    let limit = super::number(arguments.get(2), u64::MAX, u64::MAX);
    let (line, limit) = match (line, limit) {
        (Ok(line), Ok(limit)) => (line.max(1), limit),
        (Err(_), _) | (_, Err(_)) => return usage(turn, "/read path [line [limit]]").await,
    };
    let place = place(turn, &path);
    let tool = turn.open_tool("read", |mut call| {
        call.title = format!("Read {path}");
        let call = call
            .kind(ToolKind::Read)
            .raw_input(json!({ "path": path, "line": line }));
        match &place {
            Ok(place) => {
                let location = ToolCallLocation::new(&place.absolute);
                call.locations(vec![location.line(u32::try_from(line).ok())])
            }
            Err(_) => call,
        }
    });
    let tool = tool.await?;
    tool.start().await?;
    let text = match place {
        Ok(place) => {
            turn.on_files(move |workspace| text_of(workspace, &place))
                .await?
        }
        Err(refusal) => Err(refusal),
    };
    match text {
        Ok(text) => {
            let lines = text.split_inclusive('\n');
            let skipped = usize::try_from(line - 1).unwrap_or(usize::MAX);
            let taken = usize::try_from(limit).unwrap_or(usize::MAX);
            let shown: String = lines.skip(skipped).take(taken).collect();
            let count = shown.lines().count();
            let fields = ToolCallUpdateFields::new().content(vec![shown.as_str().into()]);
            tool.complete(fields.raw_output(json!({ "lines": count, "bytes": shown.len() })))
                .await?;
            let plural = if count == 1 { "" } else { "s" };
            let quoted = words::shortened(&shown, SHOWN_BYTES_MAX);
            turn.say(format!("{path}, {count} line{plural}:\n{quoted}"))
                .await?;
        }
        Err(reason) => tool.fail(&reason).await?,
    }
    Ok(StopReason::EndTurn)
}

fn text_of(workspace: &Workspace, place: &Place) -> Result<String, String> {
    let bytes = workspace.dir.read(&place.relative, FILE_BYTES_MAX);
    let bytes = bytes.map_err(|error| workspace.words(&error))?;
    String::from_utf8(bytes).map_err(|_| format!("{} is not text", place.relative.display()))
}

pub(super) async fn write(turn: &Turn, rest: &str, change: Change) -> Outcome {
    let (name, how) = match change {
        Change::Replace => ("write", "/write path text"),
        Change::Append => ("append", "/append path text"),
    };
    let Some((path, text)) = words::first(rest) else {
        return usage(turn, how).await;
    };
    let text = words::unquoted(text);
    let prepared = match place(turn, &path) {
        Ok(place) => {
            turn.on_files(move |workspace| prepare(workspace, place, &text, change))
                .await?
        }
        Err(refusal) => Err(refusal),
    };
    if turn.session.state().mode == Mode::Plan {
        let said = match &prepared {
            Ok(edit) => format!(
                "Plan mode: I would {name} {} bytes to {path}. Nothing was changed.",
                edit.new.len()
            ),
            Err(reason) => {
                format!("Plan mode: I would {name} {path}, but it would not work: {reason}.")
            }
        };
        turn.say(said).await?;
        return Ok(StopReason::EndTurn);
    }
    let tool = turn.open_tool(name, |mut call| {
        let verb = if change == Change::Replace {
            "Write"
        } else {
            "Append to"
        };
        call.title = format!("{verb} {path}");
        let call = call.kind(ToolKind::Edit).raw_input(json!({ "path": path }));
        match &prepared {
            Ok(edit) => call
                .content(vec![edit.diff()])
                .locations(vec![ToolCallLocation::new(&edit.place.absolute)]),
            Err(_) => call,
        }
    });
    let tool = tool.await?;
    let edit = match prepared {
        Ok(edit) => edit,
        Err(reason) => {
            tool.fail(&reason).await?;
            return Ok(StopReason::EndTurn);
        }
    };
    carry_out(turn, tool, &path, edit).await
}

/// Asks, and makes the change if it may be made.
async fn carry_out(turn: &Turn, tool: Tool<'_>, path: &str, edit: Edit) -> Outcome {
    if let Verdict::Denied(reason) = tool.permission().await? {
        tool.fail(&format!("{path} was not changed, because {reason}"))
            .await?;
        return Ok(StopReason::EndTurn);
    }
    tool.start().await?;
    let diff = edit.diff();
    let bytes = edit.new.len();
    match turn
        .on_files(move |workspace| edit.apply(workspace))
        .await?
    {
        Ok(()) => {
            let fields = ToolCallUpdateFields::new().content(vec![diff]);
            tool.complete(fields.raw_output(json!({ "bytes": bytes })))
                .await?;
            turn.say(format!("Done: {path} now has {bytes} bytes."))
                .await?;
        }
        Err(reason) => tool.fail(&reason).await?,
    }
    Ok(StopReason::EndTurn)
}

/// A change of one file that can be shown before it is made.
#[derive(Debug)]
struct Edit {
    place: Place,
    /// None for a file that does not exist, or is not text that could be shown.
    old: Option<String>,
    new: String,
}

impl Edit {
    fn diff(&self) -> ToolCallContent {
        let diff = Diff::new(&self.place.absolute, self.new.as_str());
        diff.old_text(self.old.clone()).into()
    }

    fn apply(&self, workspace: &Workspace) -> Result<(), String> {
        let words = |error: ConfinedError| workspace.words(&error);
        if let Some(parent) = self.place.relative.parent()
            && !parent.as_os_str().is_empty()
            && !workspace.dir.exists(parent).map_err(words)?
        {
            workspace.dir.create_dir_all(parent).map_err(words)?;
        }
        let written = workspace
            .dir
            .write_atomic(&self.place.relative, self.new.as_bytes());
        written.map_err(words)
    }
}

fn prepare(
    workspace: &Workspace,
    place: Place,
    text: &str,
    change: Change,
) -> Result<Edit, String> {
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("the text is longer than {FILE_BYTES_MAX} bytes"));
    }
    let old = match workspace.dir.read(&place.relative, FILE_BYTES_MAX) {
        Ok(bytes) => Some(String::from_utf8(bytes)),
        Err(error) if error.is_not_found() => None,
        Err(ConfinedError::TooLarge { .. }) if change == Change::Replace => None,
        Err(error) => return Err(workspace.words(&error)),
    };
    let (old, new) = match (old, change) {
        (Some(Ok(old)), Change::Append) => {
            let between = if old.is_empty() || old.ends_with('\n') {
                ""
            } else {
                "\n"
            };
            let new = format!("{old}{between}{text}\n");
            (Some(old), new)
        }
        (Some(Err(_)), Change::Append) => {
            return Err(format!("{} is not text", place.relative.display()));
        }
        (None, Change::Append) => (None, format!("{text}\n")),
        (old, Change::Replace) => (old.and_then(Result::ok), text.to_owned()),
    };
    Ok(Edit { place, old, new })
}
