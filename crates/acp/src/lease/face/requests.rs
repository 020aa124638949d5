//! What an editor asks for: each request has its place among those under way, and is answered here, by its room, or by the
//! agent.

use std::sync::{Arc, OnceLock};

use engine::{About, Expects, NativeMessage};
use jsonrpc::{ErrorObject, Request, Responder};
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::{Face, REQUESTS_MAX, empty, passing::said_by, reply};
use crate::{
    convert,
    lease::{
        error, hello,
        line::{Line, Place},
        listing,
        opening::{self, For},
        room::{Prompted, Room},
    },
    sessions::named_session,
};

/// What is carried out here, whatever the agent is at: nothing waits behind it for a way to the agent.
const OURS: [&str; 7] = [
    "session/new",
    "session/load",
    "session/resume",
    "session/list",
    "session/close",
    "session/delete",
    "session/fork",
];

/// An answer that is owed.
struct Due {
    responder: Responder,
    withdrawn: CancellationToken,
    /// How often the editor had cancelled before the request came.
    cancels: u64,
    place: OwnedSemaphorePermit,
    /// Among what goes to the agent.
    in_line: Place,
}

impl Face {
    /// Begins to carry out a request. The first one is answered in its place, since all others depend on it.
    pub(super) async fn take(self: Arc<Self>, request: Request) {
        let Request {
            method,
            params,
            responder,
            ..
        } = request;
        if method == "initialize" {
            let answer = self.initialize(params.as_deref());
            return reply(responder, answer).await;
        }
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let words = format!("more than {REQUESTS_MAX} requests are in progress");
            return reply(responder, Err(ErrorObject::internal(words))).await;
        };
        // Counted now, in the order in which prompts and cancels come.
        let room = named_session(params.as_deref()).and_then(|shown| self.room(&shown).ok());
        let cancels = room.as_ref().map_or(0, |room| room.cancels.count());
        let line = match OURS.contains(&method.as_str()) {
            true => Line::default(),
            false => self.line_of(room.as_ref()),
        };
        let in_line = line.join();
        let id = responder.id().clone();
        let withdrawn = CancellationToken::new();
        self.running().insert(id.clone(), withdrawn.clone());
        let face = Arc::clone(&self);
        let due = Due {
            responder,
            withdrawn,
            cancels,
            place,
            in_line,
        };
        self.tasks.spawn(|stop| async move {
            tokio::select! { biased;
                () = stop.cancelled() => {}
                () = face.carry_out(&method, params, due) => {}
            }
            face.running().remove(&id);
        });
    }

    fn initialize(&self, params: Option<&RawValue>) -> Result<Box<RawValue>, ErrorObject> {
        let abilities = hello::read(params)?;
        let driver = self.engine.sessions().driver(&self.agent);
        let driver = driver.map_err(|error| error::of_engine(&error))?;
        let _ = self.abilities.set(abilities); // An editor that says it twice meant it the first time.
        Ok(hello::answer(
            &self.agent,
            driver.said(About::Agent).as_ref(),
        ))
    }

    async fn carry_out(self: &Arc<Self>, method: &str, params: Option<Box<RawValue>>, due: Due) {
        let params = params.as_deref();
        if method == "session/prompt" {
            return self.prompt(params, due).await;
        }
        let Due {
            responder,
            withdrawn,
            place: _place,
            in_line,
            ..
        } = due;
        match method {
            "session/new" => opening::begin(self, params, responder).await,
            "session/load" => opening::take_up(self, opening::Way::Load, params, responder).await,
            "session/resume" => {
                opening::take_up(self, opening::Way::Resume, params, responder).await
            }
            method => {
                let answering = async {
                    match method {
                        "session/list" => listing::list(self, params).await,
                        "session/close" => self.close(params).await,
                        "session/delete" => self.delete(params).await,
                        // The agent would open a conversation that nobody here knows, with servers nobody decided on.
                        "session/fork" => Err(ErrorObject::method_not_found(method)),
                        method => self.pass(method, params, Expects::Answer, in_line).await,
                    }
                };
                let answer = tokio::select! { biased;
                    () = withdrawn.cancelled() => Err(ErrorObject::cancelled()),
                    answer = answering => answer,
                };
                reply(responder, answer).await;
            }
        }
    }

    /// Hands a prompt to its room, once the conversation is open in the agent.
    async fn prompt(&self, params: Option<&RawValue>, due: Due) {
        let Due {
            responder,
            withdrawn,
            cancels,
            place,
            in_line,
        } = due;
        let turn_in_line = in_line.reached().await;
        let prompted = match self.prompted(params).await {
            Ok(prompted) => prompted,
            Err(error) => return reply(responder, Err(error)).await,
        };
        let (room, text, words) = prompted;
        let (over, is_over) = tokio::sync::oneshot::channel();
        let turn = Arc::new(OnceLock::new());
        let prompted = Prompted {
            text,
            words,
            responder,
            cancels,
            withdrawn: withdrawn.clone(),
            turn: Arc::clone(&turn),
            over,
        };
        // The room answers, also if it closes before it gets this far.
        if room.prompts.send(prompted).await.is_err() {
            return;
        }
        drop(turn_in_line);
        drop(place); // A turn may take hours; the room bounds how many wait.
        tokio::select! { biased;
            _ = is_over => {}
            () = withdrawn.cancelled() => {
                // The room looks at it as well, once there is a turn.
                if let Some(turn) = turn.get()
                    && let Err(error) = self.engine.sessions().cancel_turn(&room.id, *turn).await
                {
                    tracing::debug!(%error, session = room.id, "could not cancel");
                }
            }
        }
    }

    async fn prompted(
        &self,
        params: Option<&RawValue>,
    ) -> Result<(Room, String, domain::turn::Raw), ErrorObject> {
        let words = params.ok_or_else(|| ErrorObject::invalid_params("params are missing"))?;
        let value = opening::legible(words)?;
        let shown = opening::required_session(params)?;
        let room = self.room(&shown)?;
        let text = opening::prompt_text(&value["prompt"])?;
        opening::open(self, &room, For::Working).await?;
        Ok((room, text, convert::raw(words)))
    }

    async fn close(&self, params: Option<&RawValue>) -> Result<Box<RawValue>, ErrorObject> {
        let shown = opening::required_session(params)?;
        let room = self.room(&shown)?;
        self.leave_room(&shown);
        let closed = self.engine.sessions().close(&room.id).await;
        closed.map_err(|error| error::of_engine(&error))?;
        Ok(empty())
    }

    /// Whoever deletes a session wants it gone here and in the agent.
    async fn delete(&self, params: Option<&RawValue>) -> Result<Box<RawValue>, ErrorObject> {
        let shown = opening::required_session(params)?;
        let sessions = self.engine.sessions();
        let own = opening::find(self, &shown).await?;
        let driver = || {
            let driver = sessions.driver(&self.agent);
            driver.map_err(|error| error::of_engine(&error))
        };
        let (driver, conversation) = match &own {
            // It need not be open for that; one that is over stays so if the agent refuses.
            Some(id) => {
                let conversation = sessions.conversation(id).await;
                match conversation.map_err(|error| error::of_engine(&error))? {
                    Some(conversation) => (driver()?, Some(conversation)),
                    None => {
                        let opened = sessions.open(id).await;
                        let open = opened.map_err(|error| error::of_opening(&error))?;
                        (open.driver, Some(open.conversation))
                    }
                }
            }
            // One that only the agent knows.
            None => (driver()?, None),
        };
        let message = NativeMessage {
            conversation,
            method: "session/delete".to_owned(),
            params: params.map(convert::raw),
            expects: Expects::Answer,
        };
        let answer = said_by(driver.pass(message).await)?;
        self.leave_room(&shown);
        if let Some(id) = own {
            let closed = sessions.close_deleted(&id).await;
            closed.map_err(|error| error::of_engine(&error))?;
        }
        Ok(answer)
    }
}
