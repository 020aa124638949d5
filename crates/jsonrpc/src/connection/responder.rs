//! The duty to answer one request, exactly once.

use std::sync::Arc;

use serde::Serialize;

use super::{
    open::Shared,
    outbox::{Claim, Refused},
};
use crate::{
    ErrorObject, Id, SendError,
    encode::{error_line, result_line},
};

/// Answers one request. Dropped without an answer, it answers with an internal error, so every
/// request gets exactly one. It works until `Incoming` is dropped, even after the input has
/// ended: a peer may close its sending side and still read its answers.
#[derive(Debug)]
pub struct Responder {
    shared: Arc<Shared>,
    id: Id,
    /// Whether the answer is still owed.
    owed: bool,
}

impl Responder {
    pub(super) fn new(shared: Arc<Shared>, id: Id) -> Responder {
        Responder {
            shared,
            id,
            owed: true,
        }
    }

    pub fn id(&self) -> &Id {
        &self.id
    }

    /// Answers with a result, waiting for room in the outbox. A result that has no JSON form or is
    /// over the line ceiling is answered with an internal error, and returned as one.
    pub fn reply<T: Serialize + ?Sized>(
        self,
        result: &T,
    ) -> impl Future<Output = Result<(), SendError>> + Send + 'static + use<T> {
        let line = result_line(&self.id, result)
            .map_err(|source| SendError::Encode { source })
            .and_then(|line| self.shared.check_length(&line).map(|()| line));
        async move {
            match line {
                Ok(line) => self.send(line).await,
                Err(error) => {
                    self.fail(ErrorObject::internal(error.to_string())).await?;
                    Err(error)
                }
            }
        }
    }

    /// Answers with an error, waiting for room in the outbox. An error over the line ceiling goes
    /// without its data and message.
    pub async fn fail(self, error: ErrorObject) -> Result<(), SendError> {
        let mut line = error_line(Some(&self.id), &error);
        if self.shared.check_length(&line).is_err() {
            line = error_line(
                Some(&self.id),
                &ErrorObject::new(error.code, "error too long"),
            );
        }
        self.send(line).await
    }

    /// Gives up the duty to answer; whoever takes the id sends the answer as a raw line.
    pub fn into_id(mut self) -> Id {
        self.owed = false;
        std::mem::replace(&mut self.id, Id::from(0))
    }

    async fn send(mut self, line: Vec<u8>) -> Result<(), SendError> {
        let sent = self.shared.outbox.send(line, Claim::Answer).await;
        self.owed = false; // Sent, or there is no connection to owe it to.
        sent
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if !self.owed {
            return;
        }
        let error = ErrorObject::internal("the request was dropped without an answer");
        match self
            .shared
            .outbox
            .try_send(error_line(Some(&self.id), &error), Claim::Owed)
        {
            Ok(()) | Err(Refused::Closed) => {}
            // One answer per request is a promise; where it cannot be kept the connection ends.
            Err(Refused::Full(_)) => self.shared.outbox.abandon(),
        }
    }
}
