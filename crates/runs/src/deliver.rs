//! Deliverables: files that a run has left in the workspace, and words that are too long to be sent inline.

use std::{collections::BTreeSet, path::Path};

use bytes::Bytes;
use domain::Name;
use platform::{
    ConfinedDir,
    files::{self, Fingerprint},
};
use tracing::warn;
use wire::runs::Part;

use crate::{
    exchange::{Label, readable_name},
    node::Runs,
    record::{self, RunRecord},
};

/// Text that is sent inline; longer text is handed over in the exchange.
const INLINE_MAX: usize = 256 * 1024;

/// Files handed over for one run: more is a checkout, not a deliverable.
const FILES_MAX: usize = 32;

/// Files that are looked at to tell what a run has changed.
const LOOKED_AT_MAX: usize = 50_000;

/// The largest file that is handed over; the exchange has its own bound beside it.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Folders that say nothing about the work.
const SKIPPED: [&str; 5] = [".git", ".agentcraft", "node_modules", "target", ".venv"];

/// What a run may hand over of what has changed since.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Changes<'a> {
    pub(crate) before: &'a Fingerprint,
    /// Only these, where others may have changed the rest.
    pub(crate) mine: Option<&'a BTreeSet<String>>,
}

impl Runs {
    /// What lies in the workspace before the work.
    pub(crate) async fn look_at(&self, workspace: &str) -> Option<Fingerprint> {
        let dir = workspace.to_owned();
        let looked = self
            .tasks()
            .spawn_blocking(move |_| files::fingerprint(Path::new(&dir), &SKIPPED, LOOKED_AT_MAX));
        looked.await.ok()
    }

    /// Hands over the files that are new or changed since, and gives a part for each.
    pub(crate) async fn deliver_files(
        &self,
        record: &RunRecord,
        workspace: &str,
        changes: Changes<'_>,
    ) -> Vec<Part> {
        let (agent, owner, base) = (&record.agent, &record.caller, &record.base);
        let Some(after) = self.look_at(workspace).await else {
            return Vec::new();
        };
        let changed = after
            .iter()
            .filter(|(path, print)| !is_hidden(path) && changes.before.get(*path) != Some(print))
            .map(|(path, _)| path.clone());
        let is_mine = |path: &String| changes.mine.is_none_or(|mine| mine.contains(path));
        let (changed, others): (Vec<String>, Vec<String>) = changed.partition(is_mine);
        let (mut parts, mut left) = (Vec::new(), Vec::new());
        if !others.is_empty() {
            // What they are called is nobody's business but their owner's.
            let count = others.len();
            left.push(format!(
                "{count} changed while the agent worked for somebody else too, and may be theirs"
            ));
        }
        if changed.len() > FILES_MAX {
            let more = changed.len() - FILES_MAX;
            left.push(format!("{more} files beyond the first {FILES_MAX}"));
        }
        for path in changed.into_iter().take(FILES_MAX) {
            let delivered = match self.read_file(workspace, &path).await {
                Ok(bytes) => self.deliver(agent, &path, bytes, owner, base).await,
                Err(why) => Err(why),
            };
            match delivered {
                Ok(part) => parts.push(part),
                Err(why) => left.push(format!("{path} ({why})")),
            }
        }
        if !left.is_empty() {
            let words = format!("not handed over: {}", left.join(", "));
            warn!(%agent, words, "the deliverables of a run are not all there");
            parts.push(Part::text(&words));
        }
        parts
    }

    /// A file of the workspace, never one that a link leads to outside of it.
    async fn read_file(&self, workspace: &str, path: &str) -> Result<Bytes, String> {
        let (dir, path) = (workspace.to_owned(), path.to_owned());
        let read = self.tasks().spawn_blocking(move |_| {
            let dir = ConfinedDir::open(Path::new(&dir))?;
            dir.read(&path, FILE_BYTES_MAX)
        });
        let read = read.await.map_err(|error| error.to_string())?;
        let read = read.map_err(|error| engine::chain(&error))?;
        Ok(Bytes::from(read))
    }

    async fn deliver(
        &self,
        agent: &Name,
        name: &str,
        bytes: Bytes,
        owner: &str,
        base: &str,
    ) -> Result<Part, String> {
        let content_type = content_type(name);
        let label = Label {
            name: Some(readable_name(name)),
            content_type: content_type.to_owned(),
            owner: owner.to_owned(),
        };
        let resource = match self.exchange().put(label, bytes.clone()).await {
            Ok(resource) => resource,
            Err(error) => {
                warn!(%agent, name, %error, "a deliverable could not be handed over");
                return Err(error.to_string());
            }
        };
        let (exchange, owner, file) = (self.exchange().clone(), agent.clone(), name.to_owned());
        let dropped = self
            .tasks()
            .spawn_blocking(move |_| exchange.drop_file(&owner, &file, &bytes));
        let _ = dropped.await; // It has said what went wrong.
        let url = format!(
            "{base}{}",
            self.exchange().path(&resource.id, resource.expires_at)
        );
        Ok(Part::link(name, content_type, url))
    }

    /// The same words, inline or behind an address.
    pub(crate) async fn shorten(&self, part: Part, agent: &Name, owner: &str, base: &str) -> Part {
        let too_long = part
            .as_text()
            .filter(|text| text.len() > INLINE_MAX)
            .map(|text| Bytes::from(text.to_owned()));
        let Some(bytes) = too_long else {
            return part;
        };
        let name = format!("answer-{}.txt", record::now().0);
        let delivered = self.deliver(agent, &name, bytes, owner, base).await;
        delivered.unwrap_or(part)
    }
}

/// Files of ours, of agents and of tools begin with a dot; they are nobody's deliverables.
fn is_hidden(path: &str) -> bool {
    path.split('/').any(|name| name.starts_with('.'))
}

/// What a file holds, by its name.
fn content_type(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    match ending.to_ascii_lowercase().as_str() {
        "txt" | "log" => "text/plain",
        "md" => "text/markdown",
        "json" => "application/json",
        "pdf" => "application/pdf",
        "html" | "htm" => "text/html",
        "csv" => "text/csv",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "svg" => "image/svg+xml",
        "mp3" => "audio/mpeg",
        "zip" => "application/zip",
        _ => "application/octet-stream",
    }
}
