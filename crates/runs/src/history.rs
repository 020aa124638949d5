//! The history of a session that a caller brings from elsewhere. Only servers that the configuration names are asked,
//! or anybody could make this node ask anything of anyone.

use std::time::Duration;

use futures_util::StreamExt;
use wire::runs::Message;

use crate::{error::RunsError, node::Runs};

/// Messages of a history that are read; the newest count.
const MESSAGES_MAX: usize = 64;

/// One message of a history.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// How long one message may take to come.
const WITHIN: Duration = Duration::from_secs(10);

pub(crate) async fn fetch(runs: &Runs, urls: &[String]) -> Result<Vec<Message>, RunsError> {
    if urls.is_empty() {
        return Ok(Vec::new());
    }
    let newest = &urls[urls.len().saturating_sub(MESSAGES_MAX)..];
    for url in newest {
        if !is_allowed(&runs.config().history_from, url) {
            return Err(failed(url, "its server is not one that this node may ask"));
        }
    }
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(WITHIN)
        .build()
        .map_err(|error| failed(&newest[0], &error.to_string()))?;
    let mut messages = Vec::new();
    for url in newest {
        let read = read(&client, url).await;
        messages.push(read.map_err(|why| failed(url, &why))?);
    }
    Ok(messages)
}

async fn read(client: &reqwest::Client, url: &str) -> Result<Message, String> {
    let answer = client.get(url).send().await;
    let answer = answer.and_then(reqwest::Response::error_for_status);
    let mut stream = answer
        .map_err(|error| error.without_url().to_string())?
        .bytes_stream();
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| error.without_url().to_string())?;
        if bytes.len() + chunk.len() > MESSAGE_BYTES_MAX {
            return Err(format!("it is longer than {MESSAGE_BYTES_MAX} bytes"));
        }
        bytes.extend_from_slice(&chunk);
    }
    serde_json::from_slice(&bytes).map_err(|_| "it is not a message".to_owned())
}

/// Below one of the named addresses, written plainly: nothing in it may lead elsewhere.
fn is_allowed(prefixes: &[String], url: &str) -> bool {
    let is_plain = !url.contains("..") && !url.contains('@') && !url.contains('\\');
    is_plain
        && prefixes.iter().any(|prefix| {
            let prefix = prefix.trim_end_matches('/');
            url.strip_prefix(prefix)
                .is_some_and(|rest| rest.starts_with('/'))
        })
}

fn failed(url: &str, why: &str) -> RunsError {
    RunsError::History {
        url: url.chars().take(200).collect(),
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_servers_are_asked() {
        let prefixes = ["http://nas.local:9000/resources/".to_owned()];
        for (url, allowed) in [
            ("http://nas.local:9000/resources/a", true),
            ("http://nas.local:9000/resources", false),
            ("http://nas.local:9000/admin", false),
            ("http://nas.local:9000/resources/../admin", false),
            ("http://nas.local:90001/resources/a", false),
            ("http://nas.local:9000@evil.example/resources/a", false),
            ("http://169.254.169.254/latest/meta-data", false),
            ("file:///etc/passwd", false),
        ] {
            assert_eq!(is_allowed(&prefixes, url), allowed, "{url}");
        }
    }
}
