//! What a client may say to a task that lives: an answer, or stop.

use domain::turn::{Standing, go_on};
use tokio::{sync::oneshot, time::Instant};
use wire::a2a::{Message, TaskState};

use super::{CANCEL_GRACE, Next, TaskRun, due};
use crate::{
    convert,
    error::Refusal,
    record::{Letter, OpenAsk},
};

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
        loop {
            let letter = tokio::select! { biased;
                letter = self.letters.recv() => letter,
                () = due(deadline) => {
                    let words = "nobody answered in time".to_owned();
                    self.finish(TaskState::Failed, Some(words)).await;
                    return Next::Over;
                }
            };
            match letter {
                None => return Next::Over, // The face is gone.
                Some(Letter::Cancel) => {
                    self.finish(TaskState::Canceled, None).await;
                    return Next::Over;
                }
                Some(Letter::Message { message, reply }) => {
                    let prompt = match self.prompt_after(&message) {
                        Ok(prompt) => prompt,
                        Err(refusal) => {
                            let _ = reply.send(Err(refusal)); // The asker may have left.
                            continue;
                        }
                    };
                    self.go_on_with(*message).await;
                    let _ = reply.send(Ok(())); // As above.
                    return Next::Prompt(prompt);
                }
            }
        }
    }

    /// What the agent is told of what its last process asked, and of the answer. A permission holds for the same act only when
    /// the agent asks for it again: nobody is left who waits for it.
    fn prompt_after(&mut self, message: &Message) -> Result<String, Refusal> {
        let said = (self.face.config.prompt)(message);
        let Some(OpenAsk { kind, .. }) = &self.record.ask else {
            return Ok(said);
        };
        let answer = convert::answer(kind, message, said)?;
        self.record.standing = Standing::of(kind, &answer);
        Ok(go_on(kind, &answer))
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
