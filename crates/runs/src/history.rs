//! The history of a session that a caller brings from elsewhere. Only servers that the configuration names are asked,
//! or anybody could make this node ask anything of anyone.

use std::time::Duration;

use futures_util::StreamExt;
use reqwest::Url;
use wire::runs::Message;

use crate::{error::RunsError, node::Runs};

/// Messages of a history that are read; the newest count.
const MESSAGES_MAX: usize = 64;

/// The longest address that is remembered.
const URL_MAX: usize = 2048;

/// What was said elsewhere in a session, and not here.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere {
    pub(crate) urls: Vec<String>,
    pub(crate) messages: Vec<Message>,
}

/// Fetches what a caller's history has and ours has not. `known` is ours: ids of messages that lie here, and addresses of
/// those that do not.
pub(crate) async fn elsewhere(
    runs: &Runs,
    told: &[String],
    known: &[String],
) -> Result<Elsewhere, RunsError> {
    let newest = &told[told.len().saturating_sub(MESSAGES_MAX)..];
    let is_known = |url: &str| {
        let own = own_id(url);
        let mut known = known.iter();
        known.any(|known| place(known) == place(url) || Some(known) == own.as_ref())
    };
    let is_new = |url: &&String| !is_known(url);
    let urls: Vec<String> = newest.iter().filter(is_new).cloned().collect();
    if let Some(long) = urls.iter().find(|url| url.len() > URL_MAX) {
        return Err(failed(long, "it is longer than an address may be"));
    }
    let messages = fetch(runs, &urls).await?;
    Ok(Elsewhere { urls, messages })
}

/// An address without what is signed anew each time it is told.
fn place(url: &str) -> &str {
    url.split('?').next().unwrap_or(url)
}

/// The id in an address of ours. A node may be reached under several names.
fn own_id(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let (_, id) = url.path().rsplit_once("/resources/")?;
    Some(id.to_owned())
}

/// One message of a history.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// How long one message may take to come.
const WITHIN: Duration = Duration::from_secs(10);

/// A message that was said elsewhere, read again.
pub(crate) async fn one(runs: &Runs, url: &str) -> Result<Message, RunsError> {
    let mut read = fetch(runs, &[url.to_owned()]).await?;
    read.pop().ok_or_else(|| failed(url, "it is not there"))
}

async fn fetch(runs: &Runs, urls: &[String]) -> Result<Vec<Message>, RunsError> {
    if urls.is_empty() {
        return Ok(Vec::new());
    }
    let newest = &urls[urls.len().saturating_sub(MESSAGES_MAX)..];
    let mut addresses = Vec::new();
    for url in newest {
        let address = allowed(&runs.config().history_from, url);
        let why = "its server is not one that this node may ask";
        addresses.push(address.ok_or_else(|| failed(url, why))?);
    }
    let builder = || {
        reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(WITHIN)
    };
    let client =
        pinning::believing(builder).map_err(|error| failed(&newest[0], &error.to_string()))?;
    let mut messages = Vec::new();
    for url in addresses {
        let read = read(&client, url.clone()).await;
        messages.push(read.map_err(|why| failed(url.as_str(), &why))?);
    }
    Ok(messages)
}

async fn read(client: &reqwest::Client, url: Url) -> Result<Message, String> {
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

/// An address below one of the named ones, as it will be asked for: whatever leads elsewhere has done so by then.
fn allowed(prefixes: &[String], url: &str) -> Option<Url> {
    let url = Url::parse(url).ok()?;
    let path = url.path().to_ascii_lowercase();
    // What a server may take for a way up, or for the end of a name, when it has decoded it.
    let is_plain = ["%2f", "%5c", "%2e", "%00"]
        .iter()
        .all(|hidden| !path.contains(hidden))
        && url.username().is_empty()
        && url.password().is_none();
    let is_below = |prefix: &String| {
        Url::parse(prefix).is_ok_and(|prefix| {
            let below = prefix.path().trim_end_matches('/');
            let rest = url.path().strip_prefix(below);
            url.origin() == prefix.origin() && rest.is_some_and(|rest| rest.starts_with('/'))
        })
    };
    let is_known = url.origin().is_tuple() && prefixes.iter().any(is_below);
    (is_plain && is_known).then_some(url)
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
        for (url, expected) in [
            ("http://nas.local:9000/resources/a", true),
            ("http://nas.local:9000/resources", false),
            ("http://nas.local:9000/admin", false),
            ("http://nas.local:9000/resources/../admin", false),
            ("http://nas.local:9000/resources/%2e%2e/admin", false),
            ("http://nas.local:9000/resources/%2E./admin", false),
            ("http://nas.local:9000/resources/.\t./admin", false),
            ("http://nas.local:9000/resources/..\\admin", false),
            ("http://nas.local:9000/resources/..%2fadmin", false),
            ("http://nas.local:9000/resources/a/../b?x=1", true),
            ("HTTP://NAS.local:9000/resources/a", true),
            ("http://a@nas.local:9000/resources/a", false),
            ("http://nas.local:9001/resources/a", false),
            ("http://nas.local:9000@evil.example/resources/a", false),
            ("http://169.254.169.254/latest/meta-data", false),
            ("file:///etc/passwd", false),
        ] {
            assert_eq!(allowed(&prefixes, url).is_some(), expected, "{url}");
        }
    }
}
