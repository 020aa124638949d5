//! What the agent asks: permissions and questions that the editor may answer, and what it is to do or to know.

use std::{future::poll_fn, sync::Arc, task::Poll};

use domain::turn::{Ask, Raw};
use engine::{NativeAnswer, NativeRequest};
use jsonrpc::{CallError, ErrorObject};
use serde_json::value::{RawValue, to_raw_value};
use tokio_util::sync::CancellationToken;

use super::Task;
use crate::{
    lease::{asks, face::Asks},
    members::with_session,
};

/// An ask without an answer.
pub(super) struct Open {
    pub(super) ask: Ask,
    pub(super) raw: Option<Raw>,
    /// Cancelled when somebody else has answered; nothing before the editor was asked.
    pub(super) settled: Option<CancellationToken>,
}

impl Task {
    /// Asks the editor what is open and was not asked yet.
    pub(super) async fn ask_editor(&mut self) {
        if self.face.asks == Asks::Unheard || self.inbox.replaced.is_cancelled() {
            return;
        }
        let abilities = self.face.abilities();
        for open in self.asks.values_mut().filter(|open| open.settled.is_none()) {
            let settled = CancellationToken::new();
            open.settled = Some(settled.clone());
            let question = asks::question(&open.ask, open.raw.as_ref(), &self.shown);
            let asking = asks::EditorAsk {
                face: Arc::clone(&self.face),
                session: self.inbox.id.clone(),
                ask: open.ask.clone(),
            };
            if !question.is_for(&abilities) {
                self.face.tasks.spawn(|_| asking.give_up());
                continue;
            }
            let call = self
                .face
                .peer
                .call_with_cancel(question.method, &question.params);
            let mut call = Box::pin(call);
            // Sent now, at its place among the updates; the answer is waited for elsewhere.
            let first = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
            self.face.tasks.spawn(|_| async move {
                let answered = async {
                    match first {
                        Poll::Ready(answered) => answered,
                        Poll::Pending => call.await,
                    }
                };
                tokio::select! { biased;
                    () = settled.cancelled() => {}
                    answered = answered => asking.answer(answered).await,
                }
            });
        }
    }

    /// Has the editor carry out what the agent asks for, or tells it what concerns no session.
    pub(super) async fn relay(&self, request: NativeRequest) {
        let NativeRequest {
            method,
            params,
            answer,
            ..
        } = request;
        let params = params.and_then(|params| with_session(&params.frame, &self.shown));
        let Some(answer) = answer else {
            drop(self.face.peer.notify(&method, &params).await); // An editor that has left misses it.
            return;
        };
        let call = self.face.peer.call_with_cancel(&method, &params);
        let mut call = Box::pin(call);
        let first = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
        self.face.tasks.spawn(|_| async move {
            let mut answer = answer;
            let answered = async {
                match first {
                    Poll::Ready(answered) => answered,
                    Poll::Pending => call.await,
                }
            };
            let answered = tokio::select! { biased;
                () = answer.closed() => return, // The agent has withdrawn it.
                answered = answered => answered,
            };
            drop(answer.send(native(answered)));
        });
    }
}

fn native(answered: Result<Box<RawValue>, CallError>) -> NativeAnswer {
    let error = match answered {
        Ok(result) => return NativeAnswer::Result(result.get().into()),
        Err(CallError::Remote(error)) => error,
        Err(error) => ErrorObject::internal(error.to_string()),
    };
    let error = to_raw_value(&error).expect("an error has only text keys");
    NativeAnswer::Error(error.get().into())
}
