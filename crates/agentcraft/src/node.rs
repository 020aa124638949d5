//! A command's way to the node over HTTP, for parts that live on the network: the address and the owner's token are files
//! of the home that only the owner reads.

use std::{path::Path, time::Duration};

use platform::files;
use reqwest::{Client, Method, StatusCode};
use serde_json::Value;

use crate::{
    config::Config, connection::Connection, error::CommandError, exit::Exit, network::Address,
};

/// How long an answer may take; long polls say themselves how long they wait.
const ANSWER_MAX: Duration = Duration::from_secs(300);

/// A refusal that is longer is no line for people.
const LINE_MAX: usize = 500;

/// What lies behind a path: what one of them is called, and which command shows all.
const KEPT: [(&str, &str, &str); 4] = [
    (
        "/tokens/",
        "token",
        "`agentcraft token list` shows those there are",
    ),
    (
        "/peers/",
        "peer",
        "`agentcraft peer list` shows those there are",
    ),
    (
        "/delegations/",
        "delegation",
        "`agentcraft delegation list` shows those there are",
    ),
    (
        "/intents/sessions/",
        "conversation",
        "`agentcraft session tree` shows those there are",
    ),
];

/// Advice for those who write requests themselves, which nobody at a command line does.
const FOR_PROGRAMS: [&str; 2] = ["correct the request", "look at the address"];

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
    config: Config,
    runtime: tokio::runtime::Runtime,
    client: Client,
    address: Address,
    token: String,
}

impl Node {
    pub(crate) fn open(config: &Config) -> Result<Self, CommandError> {
        let Some(address) = Address::read(&config.home) else {
            return Err(silent(config));
        };
        let token = read(&config.home, listener::OWNER_TOKEN_FILE)?;
        let builder = || Client::builder().timeout(ANSWER_MAX).no_proxy();
        let client = match &address.fingerprint {
            Some(fingerprint) => {
                // The node shows a certificate that nobody else may vouch for, whatever names it holds.
                let pinned = pinning::pinned(fingerprint)
                    .map_err(|error| CommandError::machine("know the node's certificate", error))?;
                builder().tls_backend_preconfigured(pinned).build()
            }
            None => pinning::believing(builder),
        };
        let client =
            client.map_err(|error| CommandError::machine("prepare a connection", error))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| CommandError::machine("start the runtime", error))?;
        Ok(Self {
            config: config.clone(),
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
            .map_err(|error| self.unreachable(&error))?;
        let value: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        if status.is_success() {
            return Ok(value);
        }
        Err(self.refusal(status, path, &value, &text))
    }

    /// Nobody answered: what a killed daemon leaves behind still says where it was.
    fn unreachable(&self, error: &reqwest::Error) -> CommandError {
        if let Err(error) = Connection::open(&self.config) {
            return error;
        }
        CommandError::Answered {
            exit: Exit::Unreachable,
            message: format!(
                "could not reach the node at {}: {}",
                self.address.url,
                engine::chain(error)
            ),
            hint: Some("`agentcraft doctor` looks at the node and its port".to_owned()),
        }
    }

    /// The node's own words, and what to do about them at a command line.
    fn refusal(&self, status: StatusCode, path: &str, value: &Value, text: &str) -> CommandError {
        let error = &value["error"];
        let said = error.as_str().or_else(|| error["message"].as_str());
        // What could not be read as a request is refused in a line of text.
        let line = Some(text.trim()).filter(|text| !text.is_empty() && text.len() < LINE_MAX);
        let said = said.or(line.filter(|_| value.is_null()));
        let message = said.map_or_else(|| format!("the node answered {status}"), str::to_owned);
        let message = match value["code"].as_str() {
            Some(code) if !value["error"].is_object() => format!("{code}: {message}"),
            Some(_) | None => message,
        };
        if status == StatusCode::NOT_FOUND {
            return not_found(path, message, hint(value));
        }
        let hint = hint(value).or_else(|| match status {
            StatusCode::UNAUTHORIZED => Some(
                "the node knows the token of this home no more; `agentcraft daemon restart` mends that"
                    .to_owned(),
            ),
            status if status.is_server_error() => Some(format!(
                "the log of the daemon says more: {}",
                self.config.log_file.display()
            )),
            _ => None,
        });
        CommandError::Answered {
            exit: Exit::Failed,
            message,
            hint,
        }
    }
}

/// Why there is no port to speak to: no daemon, or one that does not listen.
fn silent(config: &Config) -> CommandError {
    match Connection::open(config) {
        Err(error) => error,
        Ok(_) => CommandError::Refused {
            message: "the node does not listen".to_owned(),
            hint: format!(
                "`listen` in the [http] table of config.toml says where; {} says why it could not",
                config.log_file.display()
            ),
        },
    }
}

fn not_found(path: &str, message: String, hint: Option<String>) -> CommandError {
    let kept = KEPT.iter().find_map(|(below, word, list)| {
        let id = path.strip_prefix(below)?.split(['/', '?']).next()?;
        Some((
            format!("there is no {word} {}", decoded(id)),
            Some((*list).to_owned()),
        ))
    });
    let (message, hint) = kept.unwrap_or((message, hint));
    CommandError::Answered {
        exit: Exit::NotFound,
        message,
        hint,
    }
}

fn hint(value: &Value) -> Option<String> {
    let error = &value["error"];
    let hints = [&error["suggestion"], &error["hint"], &value["hint"]];
    let mut hints = hints.into_iter().filter_map(Value::as_str);
    let hint = hints.find(|hint| !FOR_PROGRAMS.contains(hint))?;
    Some(hint.to_owned())
}

/// Something that a person named, as one part of a path.
pub(crate) fn segment(said: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let escaped = said.bytes().map(|byte| match is_plain(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    escaped.collect()
}

/// What [`segment`] was made of.
fn decoded(segment: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = segment;
    while let Some(first) = rest.bytes().next() {
        let escaped = rest.get(1..3).filter(|_| first == b'%');
        let byte = escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(first));
        rest = rest
            .get(if byte.is_some() { 3 } else { 1 }..)
            .unwrap_or_default();
    }
    String::from_utf8_lossy(&bytes).into_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_names_is_one_part_of_a_path() {
        for said in ["t-0198", "a b", "../peers", "小柠檬", "100%", "%41"] {
            let part = segment(said);
            assert!(!part.contains(['/', '?', ' ', '.']), "{part}");
            assert_eq!(decoded(&part), said);
        }
    }
}
