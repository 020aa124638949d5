//! What the events of a session mean for a task: text becomes an artifact in chunks, asks become states, the end becomes one.

use std::{collections::VecDeque, path::PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::turn::{Ask, Event, EventKind, FileChange, ToolCall, TurnId};
use platform::ConfinedDir;
use serde_json::json;
use tokio::time::Instant;
use wire::a2a::{
    Artifact, ArtifactUpdate, Content, Message, Part, StatusUpdate, StreamResponse, TaskState,
    TaskStatus,
};

use super::{ANSWER_MAX, Next, TaskRun};
use crate::{
    clock, convert,
    feed::{ARTIFACTS_MAX, Feed, Taken},
    record::{Entry, OpenAsk},
};

/// A file that a turn has left behind is given whole up to this size.
const FILE_MAX: u64 = 1024 * 1024;

/// The name of a driver's own event whose raw frame is a stream response of version 1.0, which goes on as it is.
pub const PASSED_ON: &str = "a2a.stream";

/// Where the reading of a turn is.
#[derive(Debug, Default)]
pub(super) struct Folding {
    /// Whether the event that began the turn was seen.
    begun: bool,
    /// Asks of which nobody has heard yet: the policy may have settled them, or another one is open.
    fresh_asks: VecDeque<Ask>,
    /// The artifact that the agent's words go to.
    answer: Option<ArtifactUpdate>,
    /// Something was left out because the task is full.
    full: bool,
}

impl Folding {
    /// What the client should know of an answer that is not whole.
    pub(super) fn left_out(&self) -> Option<String> {
        let most = ARTIFACTS_MAX / (1024 * 1024);
        let words = || format!("a task gives back at most {most} MiB; what came after is left out");
        self.full.then(words)
    }

    /// The agent will say no more.
    pub(super) fn close_answer(&mut self, feed: &Feed) {
        if let Some(mut last) = self.answer.take() {
            last.artifact.parts = vec![Part::text("")];
            last.append = true;
            last.last_chunk = true;
            let _ = feed.artifact(last); // A full task has its words about that.
        }
        if self.full {
            feed.amend(|task| {
                let metadata = task.metadata.get_or_insert_default();
                metadata.insert("truncated".to_owned(), json!(true));
            });
        }
    }
}

impl TaskRun {
    /// Takes in one event; says what comes next once the turn is over.
    pub(super) async fn fold(&mut self, event: &Event) -> Option<Next> {
        if !self.folding.begun {
            self.wait_for_begin(event);
        }
        match &event.kind {
            EventKind::TurnEnded { turn, stop } if self.is_ours(*turn) => {
                let (state, words) = convert::ending(stop);
                self.finish(state, words).await;
                return Some(Next::Over);
            }
            _ if !self.folding.begun => {}
            EventKind::Text { text } => self.speak(text),
            EventKind::Ask(ask) => self.folding.fresh_asks.push_back(ask.clone()),
            EventKind::AskSettled { ask, .. } => {
                self.folding.fresh_asks.retain(|fresh| fresh.id != *ask);
                if self.record.ask.as_ref().is_some_and(|open| open.id == *ask) {
                    // Somebody else has answered.
                    self.record.ask = None;
                    self.deadline = None;
                    self.show(TaskState::Working, None).await;
                }
            }
            EventKind::ToolCall(call) => {
                self.report(vec![Part::text(call.title.clone()), tool(call)])
            }
            EventKind::Plan { entries } => {
                self.report(vec![Part::data(json!({ "plan": entries }))]);
            }
            EventKind::Notice { text } => self.report(vec![Part::text(text.clone())]),
            EventKind::Artifact { path, change } => self.offer_file(path, *change).await,
            EventKind::Usage(usage) => {
                let usage = json!(usage);
                self.feed.amend(|task| {
                    let metadata = task.metadata.get_or_insert_default();
                    metadata.insert("usage".to_owned(), usage);
                });
            }
            EventKind::Other { name } if name == PASSED_ON => self.pass_on(event),
            EventKind::Other { .. }
            | EventKind::Thought { .. }
            | EventKind::ToolUpdate(_)
            | EventKind::TurnStarted { .. }
            | EventKind::TurnEnded { .. } => {}
        }
        None
    }

    /// After a restart the number of the turn may not be known: it is the first that began after the task was kept.
    fn wait_for_begin(&mut self, event: &Event) {
        let begun: Option<TurnId> = match &event.kind {
            EventKind::TurnStarted { turn, .. } | EventKind::TurnEnded { turn, .. } => Some(*turn),
            _ => None,
        };
        if let Some(turn) = begun {
            let ours = *self.record.turn.get_or_insert(turn);
            self.folding.begun = ours == turn;
        }
    }

    /// An ask that nobody has settled becomes a state of the task.
    pub(super) async fn show_ask(&mut self) {
        if self.record.ask.is_some() || self.cancelling {
            return;
        }
        let Some(Ask { id, kind }) = self.folding.fresh_asks.pop_front() else {
            return;
        };
        let standing = self.record.standing.take();
        if let Some(answer) = standing.and_then(|standing| standing.answer(&kind))
            && let Some(session) = self.record.session.clone()
        {
            let sessions = self.face.engine.sessions();
            // Somebody may have been quicker; the events tell.
            let _ = sessions
                .answer(&session, id, answer, self.client.clone())
                .await;
            return;
        }
        let (state, parts) = convert::asked(&kind);
        self.record.ask = Some(OpenAsk { id, kind });
        self.deadline = Some(Instant::now() + ANSWER_MAX);
        let question = self.say(parts);
        self.show(state, Some(question)).await;
    }

    /// A part of the agent's answer.
    fn speak(&mut self, text: &str) {
        let turn = self.record.turn.map_or(0, |turn| turn.0);
        let append = self.folding.answer.is_some();
        let mut artifact = Artifact::new(format!("answer-{turn}"), vec![Part::text(text)]);
        artifact.name = Some("answer".to_owned());
        let update = self.artifact_update(artifact, append, false);
        if self.folding.answer.is_none() {
            self.folding.answer = Some(update.clone());
        }
        self.give(update);
    }

    fn artifact_update(
        &self,
        artifact: Artifact,
        append: bool,
        last_chunk: bool,
    ) -> ArtifactUpdate {
        ArtifactUpdate {
            task_id: self.record.task.id.clone(),
            context_id: self.record.task.context_id.clone(),
            artifact,
            append,
            last_chunk,
            metadata: None,
        }
    }

    fn give(&mut self, update: ArtifactUpdate) {
        if self.feed.artifact(update) == Taken::Not {
            self.folding.full = true;
        }
    }

    /// Something that happens while the agent works; it is shown to whoever follows, and not kept.
    fn report(&self, parts: Vec<Part>) {
        let message = self.say(parts);
        self.work_on(Some(message));
    }

    fn work_on(&self, message: Option<Message>) {
        if self.record.ask.is_some() {
            return; // The question must not be overwritten.
        }
        let now = clock::now();
        // Lists are in the order of what the tasks in them say.
        let mut entry = Entry::of(&self.record);
        entry.at = now.0;
        self.face.register.note(&self.record.task.id, entry);
        self.feed.status(StatusUpdate {
            task_id: self.record.task.id.clone(),
            context_id: self.record.task.context_id.clone(),
            status: TaskStatus {
                state: TaskState::Working,
                message,
                timestamp: Some(clock::text(now)),
            },
            metadata: None,
        });
    }

    /// What another A2A agent has sent goes on as it came, under this task's ids.
    fn pass_on(&mut self, event: &Event) {
        let frame = event.raw.as_ref().map(|raw| raw.frame.as_ref());
        let Some(Ok(response)) = frame.map(serde_json::from_str::<StreamResponse>) else {
            return;
        };
        match response {
            StreamResponse::ArtifactUpdate(update) => {
                let ArtifactUpdate {
                    artifact,
                    append,
                    last_chunk,
                    ..
                } = update;
                let update = self.artifact_update(artifact, append, last_chunk);
                self.give(update);
            }
            StreamResponse::StatusUpdate(update) => {
                let said = update.status.message.map(|said| self.say(said.parts));
                self.work_on(said);
            }
            StreamResponse::Task(_) | StreamResponse::Message(_) => {}
        }
    }

    /// A file that the turn has left changed: whole where it is small, by name where it is not.
    async fn offer_file(&mut self, path: &str, change: FileChange) {
        let bytes = match change {
            FileChange::Created | FileChange::Modified => self.read_file(path).await,
            FileChange::Deleted => None,
        };
        let mut part = match bytes {
            Some(bytes) => Part::of(Content::Raw(STANDARD.encode(bytes))),
            None => Part::data(json!({ "path": path, "change": change })),
        };
        part.filename = Some(path.to_owned());
        let mut artifact = Artifact::new(format!("file-{path}"), vec![part]);
        artifact.name = Some(path.to_owned());
        let update = self.artifact_update(artifact, false, true);
        self.give(update);
    }

    async fn read_file(&self, path: &str) -> Option<Vec<u8>> {
        let agent = self.face.engine.agent(self.agent.as_str()).ok()?;
        let workspace = PathBuf::from(&agent.workspace_dir);
        let path = path.to_owned();
        let reading = self.face.tasks.spawn_blocking(move |_| {
            let dir = ConfinedDir::open(&workspace).ok()?;
            dir.read(&path, FILE_MAX).ok()
        });
        reading.await.ok().flatten()
    }
}

fn tool(call: &ToolCall) -> Part {
    Part::data(json!({ "toolCall": {
        "id": call.id,
        "title": call.title,
        "kind": call.kind.as_str(),
        "status": call.status,
        "locations": call.locations,
    }}))
}
