//! A run at a peer, as far as an intent needs it: asked for, looked at until it waits or is over, answered.

use std::time::Duration;

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use wire::runs::{Await, AwaitRequest, Message, Mode, Part, RunCreate, RunMetadata};

use crate::{
    answers::Question,
    client::{Client, ClientError, cut},
    peer::Peer,
};

/// The chain of calls, for hops that drop what they do not know in a body.
const CHAIN_HEADER: &str = "x-agentcraft-call-chain";

/// How often a run is looked at: soon at first, for most are short.
const LOOK_FIRST: Duration = Duration::from_millis(50);
const LOOK_SLOWEST: Duration = Duration::from_secs(2);

/// Looks that may fail in a row before the peer is taken to be gone; a peer that restarts takes its runs up again.
const LOOKS_LOST_MAX: u32 = 5;

/// What every dialect tells of a run.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct RemoteRun {
    #[serde(default)]
    pub(super) run_id: Option<String>,
    #[serde(default)]
    pub(super) session_id: Option<String>,
    pub(super) status: String,
    #[serde(default, rename = "await")]
    awaits: Option<Await>,
    #[serde(default)]
    await_request: Option<AwaitRequest>,
    #[serde(default)]
    pub(super) output: Vec<Message>,
    #[serde(default)]
    pub(super) error: Option<Value>,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Working,
    Awaiting,
    Completed,
    Failed,
    Cancelled,
}

impl RemoteRun {
    pub(super) fn stage(&self) -> Stage {
        match self.status.as_str() {
            "awaiting" => Stage::Awaiting,
            // The dialect's drawing ends in `done`.
            "completed" | "done" => Stage::Completed,
            "failed" => Stage::Failed,
            "cancelled" => Stage::Cancelled,
            _ => Stage::Working,
        }
    }

    pub(super) fn question(&self, peer: &str) -> Option<Question> {
        let from_dialect = self
            .awaits
            .as_ref()
            .map(|awaits| (&awaits.message, awaits.metadata.as_ref()));
        let from_standard = self
            .await_request
            .as_ref()
            .map(|request| (&request.message, request.metadata.as_ref()));
        let (message, metadata) = from_dialect.or(from_standard)?;
        Some(Question::of(message, metadata, peer))
    }

    /// The words of its output.
    pub(super) fn text(&self) -> String {
        let parts = self.output.iter().flat_map(|message| &message.parts);
        let words = parts
            .filter(|part| part.name.is_none())
            .filter_map(Part::as_text);
        words.collect::<Vec<_>>().join("")
    }
}

/// What is asked of a peer.
#[derive(Debug, Clone)]
pub(super) struct Wanted<'a> {
    pub(super) text: &'a str,
    pub(super) capability: Option<&'a str>,
    pub(super) session_id: Option<String>,
    pub(super) metadata: RunMetadata,
    pub(super) key: &'a str,
}

pub(super) async fn begin(
    client: &Client,
    peer: &Peer,
    wanted: &Wanted<'_>,
) -> Result<RemoteRun, ClientError> {
    let is_agent = |name: &&str| peer.agents.iter().any(|agent| agent == name);
    let agent_name = wanted.capability.filter(is_agent).map(str::to_owned);
    let create = RunCreate {
        agent_name,
        agent_id: Some(peer.agent_id.clone()),
        input: vec![Message::new("user", vec![Part::text(wanted.text)])],
        session_id: wanted.session_id.clone(),
        session: None,
        mode: Some(Mode::Async),
        metadata: Some(wanted.metadata.clone()),
    };
    let send = || {
        let request = client.request(Method::POST, "/runs").json(&create);
        let chain = wanted.metadata.call_chain.join(",");
        let request = request
            .header(CHAIN_HEADER, chain)
            .header("idempotency-key", wanted.key);
        client.answer::<RemoteRun>(request)
    };
    match send().await {
        // The same key again: a peer that knows it begins no second run.
        Err(ClientError::Lost { .. }) => send().await,
        answer => answer,
    }
}

/// Looks at a run until it waits for somebody or is over.
pub(super) async fn follow(client: &Client, mut run: RemoteRun) -> Result<RemoteRun, ClientError> {
    let (mut pause, mut lost) = (LOOK_FIRST, 0);
    while run.stage() == Stage::Working {
        let id = id_of(&run)?;
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LOOK_SLOWEST);
        match client.get::<RemoteRun>(&format!("/runs/{id}")).await {
            Ok(seen) => (run, lost) = (seen, 0),
            Err(error) if error.is_away() && lost < LOOKS_LOST_MAX => lost += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(run)
}

/// Answers what a run awaits. The dialect has a path of its own for it, the standard has not.
pub(super) async fn resume(
    client: &Client,
    run: &RemoteRun,
    answer: &str,
) -> Result<RemoteRun, ClientError> {
    let id = id_of(run)?;
    let message = Message::new("user", vec![Part::text(answer)]);
    let body = json!({
        "run_id": id,
        "input": [message],
        "await_resume": { "type": "message", "message": message },
        "mode": "async",
    });
    match client.post(&format!("/runs/{id}/resume"), &body).await {
        Err(ClientError::Refused {
            status: 404 | 405, ..
        }) => client.post(&format!("/runs/{id}"), &body).await,
        answer => answer,
    }
}

pub(super) async fn read(client: &Client, id: &str) -> Result<RemoteRun, ClientError> {
    let id = plain_id(id)?;
    client.get(&format!("/runs/{id}")).await
}

/// Asks for its end; whether it ends is the peer's business.
pub(super) async fn cancel(client: &Client, run_id: &str) {
    if let Ok(id) = plain_id(run_id) {
        let _ = client
            .post::<Value>(&format!("/runs/{id}/cancel"), &json!({}))
            .await; // It may be over.
    }
}

fn id_of(run: &RemoteRun) -> Result<&str, ClientError> {
    let id = run.run_id.as_deref().ok_or_else(|| ClientError::Protocol {
        what: "a run that goes on has no id".to_owned(),
    })?;
    plain_id(id)
}

/// An id becomes a part of an address, so it must not reach beyond its place in it.
fn plain_id(id: &str) -> Result<&str, ClientError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~:".contains(&byte);
    if (1..=128).contains(&id.len())
        && id.bytes().all(is_plain)
        && id.bytes().any(|byte| byte != b'.')
    {
        return Ok(id);
    }
    Err(ClientError::Protocol {
        what: format!("{:?} is no id of a run", cut(id, 50)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(value: Value) -> RemoteRun {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn runs_of_every_dialect_are_read() {
        let short = run(
            json!({ "status": "completed", "output": [{ "parts": [{ "content": "正在播放" }] }] }),
        );
        assert_eq!(
            (short.stage(), short.text().as_str()),
            (Stage::Completed, "正在播放")
        );
        let dialect = run(json!({ "run_id": "run-1", "status": "awaiting",
            "await": { "message": { "parts": [{ "content": "删除？" }] },
                       "metadata": { "severity": "destructive", "reversible": false } } }));
        assert!(dialect.question("p").unwrap().is_final);
        let standard = run(json!({ "run_id": "r", "status": "awaiting", "await": null,
            "await_request": { "type": "message", "message": { "role": "agent", "parts": [{ "content": "size?" }] } } }));
        let question = standard.question("p").unwrap();
        assert_eq!(
            (question.text.as_str(), question.is_final),
            ("size?", false)
        );
        assert_eq!(
            run(json!({ "status": "cancelling" })).stage(),
            Stage::Working
        );
    }

    #[test]
    fn an_id_of_a_peer_does_not_reach_another_path() {
        for bad in ["", "..", "../tokens", "a/b", "a?b", "a#b", "a%2fb"] {
            plain_id(bad).unwrap_err();
        }
        plain_id("run-20260227-001").unwrap();
    }
}
