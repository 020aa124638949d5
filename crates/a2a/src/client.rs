//! The other side of the protocol: finds an agent's card, speaks whichever version and binding it offers.

mod connection;
mod events;

use std::time::Duration;

pub use connection::{Client, ClientOptions};
pub use events::Updates;
use serde_json::Value;
use wire::a2a::{Content, Message, Part, Role, SendMessage, SendResponse};

/// Why an agent could not be asked, or what it answered instead.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    #[error("{url} is not an address: {why}")]
    BadUrl { url: String, why: String },
    #[error("no card was found for {url}: {why}")]
    NoCard { url: String, why: String },
    #[error("{url} speaks no version and binding that is spoken here")]
    NoWay { url: String },
    #[error("could not reach {url}: {why}")]
    Unreachable { url: String, why: String },
    #[error("{url} answered with status {status}: {words}")]
    Status {
        url: String,
        status: u16,
        words: String,
    },
    #[error("{message} ({code})")]
    Refused { code: i64, message: String },
    #[error("{url} does not follow the protocol: {what}")]
    Protocol { url: String, what: String },
    #[error("{url} did not answer within {} s", limit.as_secs())]
    Silent { url: String, limit: Duration },
}

impl From<cards::CardError> for ClientError {
    fn from(error: cards::CardError) -> Self {
        match error {
            cards::CardError::BadUrl { url, why } => Self::BadUrl { url, why },
            cards::CardError::NoCard { url, why } => Self::NoCard { url, why },
            cards::CardError::Unreachable { url, why } => Self::Unreachable { url, why },
        }
    }
}

/// Sends one data part to the agent at `url` and gives back the data of its answer.
pub async fn send_data(url: &str, data: Value) -> Result<Value, ClientError> {
    let client = Client::connect(url, ClientOptions::default()).await?;
    client.send_data(data).await
}

impl Client {
    /// As [`send_data`], over a connection that there is.
    pub async fn send_data(&self, data: Value) -> Result<Value, ClientError> {
        let message = Message::new(
            uuid::Uuid::new_v4().to_string(),
            Role::User,
            vec![Part::data(data)],
        );
        let send = SendMessage {
            tenant: None,
            message,
            configuration: None,
            metadata: None,
        };
        let parts = match self.send(&send).await? {
            SendResponse::Message(message) => message.parts,
            SendResponse::Task(task) => {
                let said = task.status.message.into_iter().flat_map(|said| said.parts);
                let made = task.artifacts.into_iter().flat_map(|made| made.parts);
                said.chain(made).collect()
            }
        };
        let data = parts.into_iter().find_map(|part| match part.content {
            Content::Data(data) => Some(data),
            Content::Text(_) | Content::Raw(_) | Content::Url(_) => None,
        });
        data.ok_or_else(|| self.strange("its answer has no data".to_owned()))
    }
}
