//! What goes on to the agent in its order: what we have no word for, and what an editor says without asking.

use std::{future::poll_fn, sync::Arc, task::Poll};

use engine::{DriverError, Expects, NativeAnswer, NativeMessage};
use jsonrpc::{ErrorObject, Id};
use serde_json::value::RawValue;

use super::{Face, HEARD_MAX_KIB};
use crate::{
    convert,
    lease::{
        error,
        line::{Line, Place},
        opening::{self, For},
        room::Room,
    },
    requests::parsed,
    sessions::named_session,
};

impl Face {
    /// Begins to pass a notification on, once there is room for it.
    pub(super) async fn hear(self: &Arc<Self>, method: &str, params: Option<&RawValue>) {
        let face = Arc::clone(self);
        let bytes = params.map_or(0, |params| params.get().len());
        let kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.heard).acquire_many_owned(kib.clamp(1, HEARD_MAX_KIB));
        let place = room.await.expect("the semaphore is never closed");
        match method {
            "session/cancel" => {
                let room = named_session(params).and_then(|shown| self.room(&shown).ok());
                if let Some(room) = room {
                    room.cancels.add();
                    self.tasks.spawn(|_| async move {
                        face.cancel(&room).await;
                        drop(place);
                    });
                }
            }
            jsonrpc::CANCEL_METHOD => {
                let id = Id::from_json(&parsed(params)["requestId"].to_string());
                let withdrawn = id.and_then(|id| self.running().get(&id).cloned());
                if let Some(withdrawn) = withdrawn {
                    withdrawn.cancel();
                }
            }
            method => {
                let room = named_session(params).and_then(|shown| self.room(&shown).ok());
                let in_line = self.line_of(room.as_ref()).join();
                let (method, params) = (method.to_owned(), params.map(ToOwned::to_owned));
                self.tasks.spawn(|stop| async move {
                    let passing = face.pass(&method, params.as_deref(), Expects::Nothing, in_line);
                    tokio::select! { biased;
                        () = stop.cancelled() => {}
                        passed = passing => if let Err(error) = passed {
                            tracing::debug!(%method, %error, "could not pass on a notification");
                        },
                    }
                    drop(place);
                });
            }
        }
    }

    /// Passes what we have no word for on to the agent.
    pub(in crate::lease) async fn pass(
        &self,
        method: &str,
        params: Option<&RawValue>,
        expects: Expects,
        in_line: Place,
    ) -> Result<Box<RawValue>, ErrorObject> {
        let turn_in_line = in_line.reached().await;
        let sessions = self.engine.sessions();
        let (driver, conversation) = match named_session(params) {
            Some(shown) => {
                let room = self.room(&shown)?;
                let open = opening::open(self, &room, For::Looking).await?;
                (open.driver, Some(open.conversation))
            }
            None => {
                let driver = sessions.driver(&self.agent);
                (driver.map_err(|error| error::of_engine(&error))?, None)
            }
        };
        let message = NativeMessage {
            conversation,
            method: method.to_owned(),
            params: params.map(convert::raw),
            expects,
        };
        let mut passing = driver.pass(message);
        // A request is on its way once this was asked for the first time; its answer holds up nobody.
        let first = poll_fn(|context| Poll::Ready(passing.as_mut().poll(context))).await;
        if expects == Expects::Answer {
            drop(turn_in_line);
        }
        said_by(match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => passing.await,
        })
    }

    pub(super) fn line_of(&self, room: Option<&Room>) -> Line {
        room.map_or_else(|| self.line.clone(), |room| room.line.clone())
    }

    async fn cancel(&self, room: &Room) {
        let cancelled = self.engine.sessions().cancel_as(&room.id, self.client());
        if let Err(error) = cancelled.await {
            tracing::debug!(%error, session = room.id, "could not cancel");
        }
    }
}

/// What the agent answered, for the editor.
pub(super) fn said_by(
    answer: Result<NativeAnswer, DriverError>,
) -> Result<Box<RawValue>, ErrorObject> {
    match answer.map_err(|error| error::of_agent(&error))? {
        NativeAnswer::Result(text) => RawValue::from_string(text.to_string())
            .map_err(|_| ErrorObject::internal("the agent's answer cannot be read")),
        NativeAnswer::Error(text) => Err(serde_json::from_str(&text)
            .unwrap_or_else(|_| ErrorObject::internal("the agent's error cannot be read"))),
    }
}
