//! The node's own HTTP API as the server sees it, for what the socket does not serve: its address and its owner's token are
//! files of the home that only the owner reads.

use std::{path::PathBuf, time::Duration};

use platform::files;
use reqwest::{Certificate, Client, Method};
use serde::Deserialize;
use serde_json::Value;

use crate::failure::Failure;

/// Written by the node when it listens.
const ADDRESS_FILE: &str = "listener.json";
const TOKEN_FILE: &str = "listener.token";
const CERTIFICATE_FILE: &str = "listener.pem";

/// A token is a line, a certificate a few kilobytes.
const FILE_MAX: u64 = 256 * 1024;

/// Longer than any single wait that is asked for.
const ANSWER_MAX: Duration = Duration::from_secs(120);

/// No node answers there.
const NOT_LISTENING: &str = "NODE_NOT_LISTENING";

/// The node of one home.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    home: PathBuf,
}

#[derive(Deserialize)]
struct Address {
    url: String,
    #[serde(default)]
    fingerprint: Option<String>,
}

impl Node {
    pub(crate) fn new(home: PathBuf) -> Self {
        Self { home }
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.call(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.call(Method::POST, path, Some(body)).await
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let silent = |why: String| {
            Failure::new(
                NOT_LISTENING,
                format!("the node does not listen, and this needs it: {why}"),
            )
        };
        let read = |name: &str| {
            let bytes = files::read_bounded(&self.home.join(name), FILE_MAX);
            bytes.map_err(|error| silent(error.to_string()))
        };
        let address: Address = serde_json::from_slice(&read(ADDRESS_FILE)?)
            .map_err(|error| silent(error.to_string()))?;
        let token = String::from_utf8_lossy(&read(TOKEN_FILE)?)
            .trim()
            .to_owned();
        let certificate = match &address.fingerprint {
            Some(_) => {
                let certificate = Certificate::from_pem(&read(CERTIFICATE_FILE)?);
                Some(certificate.map_err(|error| silent(error.to_string()))?)
            }
            None => None,
        };
        let builder = || {
            let builder = Client::builder().timeout(ANSWER_MAX).no_proxy();
            match &certificate {
                Some(certificate) => builder.add_root_certificate(certificate.clone()),
                None => builder,
            }
        };
        let client = pinning::believing(builder).map_err(|error| silent(error.to_string()))?;
        let url = format!("{}{path}", address.url);
        let mut request = client.request(method, url).bearer_auth(token);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request
            .send()
            .await
            .map_err(|error| silent(error.to_string()))?;
        let is_done = answer.status().is_success();
        let value: Value = answer
            .json()
            .await
            .map_err(|error| silent(error.to_string()))?;
        if is_done {
            return Ok(value);
        }
        let error = &value["error"];
        let message = error.as_str().or_else(|| error["message"].as_str());
        let code = value["code"].as_str().unwrap_or("REFUSED");
        let mut words = message.unwrap_or("the node refused").to_owned();
        if let Some(hint) = value["hint"].as_str() {
            words = format!("{words} ({hint})");
        }
        Err(Failure::new(code, words))
    }
}
