//! HTTP to another node: answers that are bounded in bytes, and refusals in the other's own words.
//!
//! How it is reached, and how long that may take, is for whoever makes the connections.

mod address;
mod refusal;

use std::fmt;

use reqwest::{Method, RequestBuilder, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use address::base_of;
pub use refusal::cut;

/// Why another node did not do what it was asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClientError {
    #[error("{url} is not an address of a node: {why}")]
    Address { url: String, why: String },
    /// Nothing was sent.
    #[error("{url} cannot be reached: {why}")]
    Unreachable { url: String, why: String },
    /// Something was sent; whether it was understood is not known.
    #[error("{url} did not answer: {why}")]
    Lost { url: String, why: String },
    #[error("the peer refused: {message}")]
    Refused {
        status: u16,
        code: String,
        message: String,
        suggestion: Option<String>,
        /// In a box, since it is rare and large.
        details: Option<Box<Value>>,
    },
    #[error("the peer does not follow the protocol: {what}")]
    Protocol { what: String },
}

impl ClientError {
    /// With which it refused, if it did.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            Self::Address { .. }
            | Self::Unreachable { .. }
            | Self::Lost { .. }
            | Self::Protocol { .. } => None,
        }
    }

    /// Nobody is there.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Lost { .. })
    }

    /// The session that was named is gone; a new one must begin.
    pub fn is_expired_session(&self) -> bool {
        self.status() == Some(410)
    }

    /// It is there, and showed a certificate that nobody we trust has signed: it was made by the node itself.
    pub fn is_about_certificate(&self) -> bool {
        match self {
            Self::Unreachable { why, .. } | Self::Lost { why, .. } => {
                why.contains("UnknownIssuer") || why.contains("invalid peer certificate")
            }
            Self::Address { .. } | Self::Refused { .. } | Self::Protocol { .. } => false,
        }
    }

    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }
}

/// Another node. Clones share its connections.
#[derive(Clone)]
pub struct Neighbour {
    http: reqwest::Client,
    base: String,
    token: Option<String>,
    answer_max: usize,
}

/// Its token is shown nowhere.
impl fmt::Debug for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
    }
}

impl Neighbour {
    /// At an address without what may follow it; answers that are no stream have at most so many bytes.
    pub fn new(
        http: reqwest::Client,
        base: String,
        token: Option<String>,
        answer_max: usize,
    ) -> Self {
        Self {
            http,
            base,
            token,
            answer_max,
        }
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    pub async fn answer<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<T, ClientError> {
        let response = self.send(request).await?;
        self.read(response).await
    }

    /// The answer as it begins; a refusal is read whole.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|error| self.failed(error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = self.body(response).await;
        Err(refusal::refusal(status, &body.unwrap_or_default()))
    }

    pub async fn read<T: DeserializeOwned>(&self, response: Response) -> Result<T, ClientError> {
        let wrong = |error: serde_json::Error| ClientError::Protocol {
            what: error.to_string(),
        };
        let mut value: Value =
            serde_json::from_slice(&self.body(response).await?).map_err(wrong)?;
        forget_nulls(&mut value);
        serde_json::from_value(value).map_err(wrong)
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, ClientError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failed(error))? {
            let max = self.answer_max;
            if bytes.len() + chunk.len() > max {
                return Err(ClientError::Protocol {
                    what: format!("an answer is longer than {max} bytes"),
                });
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    fn failed(&self, error: reqwest::Error) -> ClientError {
        let is_connect = error.is_connect();
        let (url, why) = (self.base.clone(), engine::chain(&error.without_url()));
        if is_connect {
            ClientError::Unreachable { url, why }
        } else {
            ClientError::Lost { url, why }
        }
    }
}

/// Servers of the standard write null where they have nothing to say.
pub fn forget_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(forget_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
