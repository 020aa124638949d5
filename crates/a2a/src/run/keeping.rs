//! What a task has become, on its way to the store; afterwards it is shown.

use engine::{Batch, EngineError, Keep, Note, chain};
use serde_json::json;
use tracing::warn;
use wire::a2a::{Message, StatusUpdate, Task, TaskState, TaskStatus};

use super::TaskRun;
use crate::{
    clock,
    record::{Entry, TASK_KIND},
};

impl TaskRun {
    /// Keeps the new state, and shows it.
    pub(super) async fn show(&mut self, state: TaskState, message: Option<Message>) {
        let update = self.enter(state, message);
        let keep = if state.is_terminal() {
            Keep::Finished
        } else {
            Keep::Live
        };
        let kept = match self.kept(keep, state) {
            Ok(batch) => self.face.records().write_all(batch).await,
            Err(error) => Err(error),
        };
        if let Err(error) = kept {
            let task = &self.record.task.id;
            warn!(task, error = %chain(&error), "could not keep what became of a task");
        }
        self.tell(update);
    }

    /// The task is in a new state, of which nobody has heard yet.
    pub(super) fn enter(&mut self, state: TaskState, message: Option<Message>) -> StatusUpdate {
        let status = TaskStatus {
            state,
            message,
            timestamp: Some(clock::text(clock::now())),
        };
        let mut task = Task::clone(&self.feed.task());
        task.status = status.clone();
        let update = StatusUpdate {
            task_id: task.id.clone(),
            context_id: task.context_id.clone(),
            status,
            metadata: None,
        };
        self.record.task = task;
        update
    }

    /// The state as it is kept.
    pub(super) fn kept(&self, keep: Keep, state: TaskState) -> Result<Batch, EngineError> {
        let record = &self.record;
        let id = &record.task.id;
        let mut batch = Batch::default();
        batch.put(TASK_KIND, id, keep, record)?;
        batch.note(Note {
            kind: format!("a2a.{}", state.as_v03()),
            agent: Some(record.agent.clone()),
            session: record.session.clone(),
            body: json!({
                "task": id,
                "context": record.task.context_id,
                "caller": record.caller,
                "trace": record.trace,
            }),
        });
        Ok(batch)
    }

    /// Everybody hears of the new state.
    pub(super) fn tell(&self, update: StatusUpdate) {
        let entry = Entry::of(&self.record);
        self.face.register.note(&self.record.task.id, entry);
        self.feed.status(update);
    }
}
