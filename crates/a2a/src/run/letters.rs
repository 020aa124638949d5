//! What a client may say to a task that lives: an answer, or stop.

use domain::turn::AskKind;
use tokio::{sync::oneshot, time::Instant};
use wire::a2a::{Message, TaskState};

use super::{CANCEL_GRACE, Next, TaskRun, due};
use crate::{convert, error::Refusal, record::Letter};

/// Messages a task remembers: a conversation of questions and answers is short, and one that is not must not fill the store.
const HISTORY_MAX: usize = 256;

/// Refuses a message to a task that works.
pub(super) fn not_now(reply: oneshot::Sender<Result<(), Refusal>>) {
    let words = "the task is at work; wait until it asks, cancel it, or send a message of its context without a task";
    let _ = reply.send(Err(Refusal::unsupported(words))); // The asker may have left.
}

impl TaskRun {
    pub(super) async fn on_letter(&mut self, letter: Letter, session: &str) {
        match letter {
            Letter::Cancel => {
                if !self.cancelling {
                    self.cancelling = true;
                    self.deadline = Some(Instant::now() + CANCEL_GRACE);
                    let _ = self.face.engine.sessions().cancel(session).await; // A session that is over tells so by its events.
                }
            }
            Letter::Message { message, reply } => match self.record.ask.clone() {
                None => not_now(reply),
                Some(_) if self.cancelling => not_now(reply),
                Some(ask) => {
                    let text = (self.face.config.prompt)(&message);
                    let answered = match convert::answer(&ask.kind, &message, text) {
                        Ok(answer) => {
                            let sessions = self.face.engine.sessions();
                            let client = self.client.clone();
                            let given = sessions.answer(session, ask.id, answer, client).await;
                            given.map_err(Refusal::from)
                        }
                        Err(refusal) => Err(refusal),
                    };
                    if answered.is_ok() {
                        self.go_on_with(*message).await;
                    }
                    let _ = reply.send(answered); // The asker may have left.
                }
            },
        }
    }

    /// The task waits for its client, and the turn that asked is gone: the answer becomes a prompt.
    pub(super) async fn parked(&mut self) -> Next {
        self.deadline = Some(Instant::now() + super::ANSWER_MAX);
        let deadline = self.deadline;
        let letter = tokio::select! { biased;
            letter = self.letters.recv() => letter,
            () = due(deadline) => {
                let words = "nobody answered in time".to_owned();
                self.finish(TaskState::Failed, Some(words)).await;
                return Next::Over;
            }
        };
        match letter {
            None => Next::Over, // The face is gone.
            Some(Letter::Cancel) => {
                self.finish(TaskState::Canceled, None).await;
                Next::Over
            }
            Some(Letter::Message { message, reply }) => {
                let answer = (self.face.config.prompt)(&message);
                let prompt = match self.record.ask.take().map(|ask| ask.kind) {
                    Some(AskKind::Question { text, .. }) => {
                        format!("You asked: {text}\nThe answer: {answer}")
                    }
                    Some(AskKind::Permission { tool, .. }) => {
                        format!(
                            "You asked whether you may: {}\nThe answer: {answer}",
                            tool.title
                        )
                    }
                    None => answer,
                };
                self.go_on_with(*message).await;
                let _ = reply.send(Ok(())); // The asker may have left.
                Next::Prompt(prompt)
            }
        }
    }

    /// The question and its answer become history, and the task works again.
    async fn go_on_with(&mut self, mut message: Message) {
        self.record.ask = None;
        self.deadline = None;
        message.task_id = Some(self.record.task.id.clone());
        message.context_id = Some(self.record.task.context_id.clone());
        self.feed.amend(|task| {
            task.history.extend(task.status.message.take());
            task.history.push(message);
            let surplus = task.history.len().saturating_sub(HISTORY_MAX);
            task.history.drain(..surplus);
        });
        self.show(TaskState::Working, None).await;
    }
}
