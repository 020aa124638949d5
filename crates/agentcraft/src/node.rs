//! A command's way to the node over HTTP, for parts that live on the network: the address and the owner's token are files
//! of the home that only the owner reads.

use std::{path::Path, time::Duration};

use platform::files;
use reqwest::{Client, Method, StatusCode};
use serde_json::Value;

use crate::{config::Config, error::CommandError, network::Address};

/// How long an answer may take; long polls say themselves how long they wait.
const ANSWER_MAX: Duration = Duration::from_secs(300);

/// A refusal that is longer is no line for people.
const LINE_MAX: usize = 500;

/// A token is a line.
const FILE_MAX: u64 = 4 * 1024;

/// What the owner shows the node; nothing before it has listened once.
pub(crate) fn own_token(config: &Config) -> Option<String> {
    let token = read(&config.home, listener::OWNER_TOKEN_FILE).ok()?;
    Some(token.trim().to_owned())
}

/// The node of this home.
#[derive(Debug)]
pub(crate) struct Node {
    runtime: tokio::runtime::Runtime,
    client: Client,
    address: Address,
    token: String,
}

impl Node {
    pub(crate) fn open(config: &Config) -> Result<Self, CommandError> {
        let address = Address::read(&config.home).ok_or_else(|| CommandError::Refused {
            message: "the node does not listen".to_owned(),
            hint: "start it with `agentcraft up` or `agentcraft daemon start`; `listen` in the [http] table of config.toml says where".to_owned(),
        })?;
        let token = read(&config.home, listener::OWNER_TOKEN_FILE)?;
        let mut client = Client::builder().timeout(ANSWER_MAX).no_proxy();
        if let Some(fingerprint) = &address.fingerprint {
            // The node shows a certificate that nobody else may vouch for, whatever names it holds.
            let pinned = pinning::pinned(fingerprint)
                .map_err(|error| CommandError::machine("know the node's certificate", error))?;
            client = client.tls_backend_preconfigured(pinned);
        }
        let client = client
            .build()
            .map_err(|error| CommandError::machine("prepare a connection", error))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| CommandError::machine("start the runtime", error))?;
        Ok(Self {
            runtime,
            client,
            address,
            token: token.trim().to_owned(),
        })
    }

    pub(crate) fn url(&self) -> &str {
        &self.address.url
    }

    pub(crate) fn get(&self, path: &str) -> Result<Value, CommandError> {
        self.call(Method::GET, path, None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Value, CommandError> {
        self.call(Method::POST, path, Some(body))
    }

    pub(crate) fn delete(&self, path: &str) -> Result<Value, CommandError> {
        self.call(Method::DELETE, path, None)
    }

    fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, CommandError> {
        let attempt = || format!("reach the node at {}", self.address.url);
        let url = format!("{}{path}", self.address.url);
        let mut request = self.client.request(method, url).bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.json(body);
        }
        let (status, text) = self
            .runtime
            .block_on(async {
                let answer = request.send().await?;
                let status = answer.status();
                answer.text().await.map(|text| (status, text))
            })
            .map_err(|error| CommandError::machine(attempt(), error))?;
        let value: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        if status.is_success() {
            return Ok(value);
        }
        Err(refusal(status, &value, &text))
    }
}

fn read(home: &Path, name: &str) -> Result<String, CommandError> {
    let bytes = files::read_bounded(&home.join(name), FILE_MAX)
        .map_err(|error| CommandError::machine(format!("read {name}"), error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A token that somebody put into a file, since arguments are seen by everybody on the machine.
pub(crate) fn token_of(file: Option<&Path>) -> Result<Option<String>, CommandError> {
    let Some(file) = file else {
        return Ok(None);
    };
    let bytes = files::read_bounded(file, FILE_MAX)
        .map_err(|error| CommandError::machine(format!("read {}", file.display()), error))?;
    Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned()))
}

/// The node's own words.
fn refusal(status: StatusCode, value: &Value, text: &str) -> CommandError {
    let error = &value["error"];
    let message = error.as_str().or_else(|| error["message"].as_str());
    // What could not be read as a request is refused in a line of text.
    let line = Some(text.trim()).filter(|text| !text.is_empty() && text.len() < LINE_MAX);
    let message = message.or(line.filter(|_| value.is_null()));
    let message = message.map_or_else(|| format!("the node answered {status}"), str::to_owned);
    let message = match value["code"].as_str() {
        Some(code) => format!("{code}: {message}"),
        None => message,
    };
    let hint = error["suggestion"]
        .as_str()
        .or_else(|| error["hint"].as_str())
        .or_else(|| value["hint"].as_str());
    let hint = hint.map(str::to_owned);
    match status {
        StatusCode::NOT_FOUND => CommandError::Missing { message, hint },
        _ => CommandError::Refused {
            message,
            hint: hint.unwrap_or_else(|| "see `agentcraft journal --kind audit.`".to_owned()),
        },
    }
}
