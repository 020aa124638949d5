//! The search for a text in the files of the workspace.

use std::path::{Path, PathBuf};

use agent_client_protocol_schema::v1::{
    StopReason, ToolCallLocation, ToolCallUpdateFields, ToolKind,
};
use jsonrpc::ErrorObject;
use platform::confined::Kind;
use serde_json::json;

use super::{
    files::{FILE_BYTES_MAX, place},
    usage,
};
use crate::{
    turn::{Interrupted, Outcome, Turn},
    words,
    workspace::Workspace,
};

/// Lines in an answer; whoever has more hits needs a better text.
const HITS_MAX: usize = 200;

/// Files that are looked at, so that a search in a huge tree ends.
const FILES_MAX: usize = 20_000;

/// What is shown of a line.
const LINE_BYTES_MAX: usize = 200;

/// Folders that are not the user's own text.
const SKIPPED: [&str; 2] = [".git", ".agentcraft"];

/// What was found.
#[derive(Debug, Default)]
struct Found {
    hits: Vec<Hit>,
    files: usize,
    /// A bound was reached before the end.
    incomplete: bool,
}

#[derive(Debug)]
struct Hit {
    path: PathBuf,
    line: usize,
    text: String,
}

pub(super) async fn search(turn: &Turn, rest: &str) -> Outcome {
    let arguments = words::all(rest);
    let Some(needle) = arguments
        .first()
        .filter(|needle| !needle.is_empty())
        .cloned()
    else {
        return usage(turn, "/search text [path]").await;
    };
    let start = arguments.get(1).map_or(".", String::as_str);
    let place = place(turn, start);
    let tool = turn.open_tool("search", |mut call| {
        call.title = format!("Search {needle:?} in {start}");
        let input = json!({ "text": needle, "path": start });
        call.kind(ToolKind::Search).raw_input(input)
    });
    let tool = tool.await?;
    tool.start().await?;
    let place = match place {
        Ok(place) => place,
        Err(refusal) => {
            tool.fail(&refusal).await?;
            return Ok(StopReason::EndTurn);
        }
    };
    let workspace = std::sync::Arc::clone(&turn.surroundings.workspace);
    let searched = turn.tasks.spawn_blocking(move |stop| {
        find_in(&workspace, &place.relative, &needle, || stop.is_cancelled())
    });
    let lost = |_| Interrupted::Failed(ErrorObject::internal("the search was lost"));
    let found = match searched.await.map_err(lost)? {
        Ok(found) => found,
        Err(reason) => {
            tool.fail(&reason).await?;
            return Ok(StopReason::EndTurn);
        }
    };
    let lines: Vec<String> = found
        .hits
        .iter()
        .map(|hit| format!("{}:{}: {}", hit.path.display(), hit.line, hit.text))
        .collect();
    let note = if found.incomplete {
        ", and there may be more"
    } else {
        ""
    };
    let summary = format!("{} hits in {} files{note}.", found.hits.len(), found.files);
    let locations = found.hits.iter().map(|hit| {
        let location = ToolCallLocation::new(turn.root().join(&hit.path));
        location.line(u32::try_from(hit.line).ok())
    });
    let text = format!("{}\n{summary}", lines.join("\n"));
    let fields = ToolCallUpdateFields::new()
        .content(vec![text.trim_start().into()])
        .locations(locations.collect::<Vec<_>>())
        .raw_output(json!({ "hits": found.hits.len(), "files": found.files }));
    tool.complete(fields).await?;
    turn.say(text.trim_start()).await?;
    Ok(StopReason::EndTurn)
}

/// Looks through the tree in the order of names. Links are not followed, so it ends.
fn find_in(
    workspace: &Workspace,
    start: &Path,
    needle: &str,
    stopped: impl Fn() -> bool,
) -> Result<Found, String> {
    let mut found = Found::default();
    let metadata = workspace
        .dir
        .metadata(start)
        .map_err(|error| workspace.words(&error))?;
    // The next one is at the end.
    let mut waiting = vec![(
        start.to_owned(),
        if metadata.is_dir() {
            Kind::Dir
        } else {
            Kind::File
        },
    )];
    while let Some((path, kind)) = waiting.pop() {
        if stopped() || found.files >= FILES_MAX || found.hits.len() >= HITS_MAX {
            found.incomplete = true;
            break;
        }
        match kind {
            Kind::Dir => match workspace.dir.list(&path) {
                Ok(entries) => {
                    let wanted = entries
                        .into_iter()
                        .rev()
                        .filter(|entry| !SKIPPED.iter().any(|skipped| entry.name == *skipped));
                    let folder = if path == Path::new(".") {
                        Path::new("")
                    } else {
                        &path
                    };
                    waiting.extend(wanted.map(|entry| (folder.join(entry.name), entry.kind)));
                }
                // A folder that may not be read has nothing for us.
                Err(_) => found.incomplete = true,
            },
            Kind::File => {
                found.files += 1;
                match workspace.dir.read(&path, FILE_BYTES_MAX) {
                    Ok(bytes) => found.search_file(&path, &bytes, needle),
                    Err(_) => found.incomplete = true,
                }
            }
            Kind::Link | Kind::Other => {}
        }
    }
    Ok(found)
}

impl Found {
    fn search_file(&mut self, path: &Path, bytes: &[u8], needle: &str) {
        // A file with a NUL is no text, as everybody's search has it.
        if bytes.contains(&0) {
            return;
        }
        let text = String::from_utf8_lossy(bytes);
        let hits = text
            .lines()
            .enumerate()
            .filter(|(_, line)| line.contains(needle));
        for (index, line) in hits.take(HITS_MAX - self.hits.len()) {
            self.hits.push(Hit {
                path: path.to_owned(),
                line: index + 1,
                text: words::shortened(line.trim(), LINE_BYTES_MAX),
            });
        }
    }
}
