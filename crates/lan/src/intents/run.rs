//! A run at a peer, as far as an intent needs it: asked for, looked at until it waits or is over, answered.

use std::{collections::VecDeque, time::Duration};

use domain::chain::CHAIN_HEADER;
use reqwest::{Method, RequestBuilder, Response, header::CONTENT_TYPE};
use serde::Deserialize;
use serde_json::{Value, json};
use wire::runs::{Await, AwaitRequest, Message, Mode, Part, RunCreate, RunMetadata};
use wire::sse::Decoder;

use crate::{
    answers::Question,
    client::{ANSWER_WITHIN, Client, ClientError, cut, forget_nulls},
    peer::Peer,
};

/// How long the events of a run may take at most; whoever follows it sets a shorter time.
const STREAM_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);

/// How often a run without events is looked at: soon at first, for most are short.
const LOOK_FIRST: Duration = Duration::from_millis(2);
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

    /// What it asks; one that does not say it is for the human to judge.
    pub(super) fn question(&self, peer: &str) -> Question {
        let from_dialect = self
            .awaits
            .as_ref()
            .map(|awaits| (&awaits.message, awaits.metadata.as_ref()));
        let from_standard = self
            .await_request
            .as_ref()
            .map(|request| (&request.message, request.metadata.as_ref()));
        match from_dialect.or(from_standard) {
            Some((message, metadata)) => Question::of(message, metadata, peer),
            None => Question {
                text: "the peer waits, and does not say for what".to_owned(),
                ask: None,
                peer: peer.to_owned(),
                is_final: true,
                is_reversible: false,
                wants_words: false,
                is_permission: false,
                options: Vec::new(),
            },
        }
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

/// A run on its way: where it stands, and the rest of the answer that tells what happens to it.
pub(super) struct Begun {
    pub(super) run: RemoteRun,
    events: Option<Events>,
}

impl From<RemoteRun> for Begun {
    fn from(run: RemoteRun) -> Self {
        Self { run, events: None }
    }
}

/// The events of a run as they come.
struct Events {
    response: Response,
    decoder: Decoder,
    waiting: VecDeque<String>,
}

impl Events {
    /// The next that tells where the run stands; nothing when no more come, for whatever reason: then it is looked at.
    async fn next(&mut self) -> Option<RemoteRun> {
        #[derive(Deserialize)]
        struct Told {
            run: RemoteRun,
        }
        loop {
            while let Some(data) = self.waiting.pop_front() {
                // Most events tell of words on their way; where the run stands is told at its beginning and end.
                if !data.contains("\"run\"") {
                    continue;
                }
                let mut value: Value = serde_json::from_str(&data).unwrap_or_default();
                forget_nulls(&mut value);
                if let Ok(told) = serde_json::from_value::<Told>(value) {
                    return Some(told.run);
                }
            }
            let chunk = self.response.chunk().await.ok()??;
            let events = self.decoder.push(&chunk).ok()?;
            self.waiting
                .extend(events.into_iter().map(|event| event.data));
        }
    }
}

pub(super) async fn begin(
    client: &Client,
    peer: &Peer,
    wanted: &Wanted<'_>,
) -> Result<Begun, ClientError> {
    let is_agent = |name: &&str| peer.agents.iter().any(|agent| agent == name);
    let agent_name = wanted.capability.filter(is_agent).map(str::to_owned);
    let create = RunCreate {
        agent_name,
        agent_id: Some(peer.agent_id.clone()),
        input: vec![Message::new("user", vec![Part::text(wanted.text)])],
        session_id: wanted.session_id.clone(),
        session: None,
        mode: Some(Mode::Stream),
        metadata: Some(wanted.metadata.clone()),
    };
    let send = || {
        let request = client.request(Method::POST, "/runs").json(&create);
        let chain = wanted.metadata.call_chain.join(",");
        let request = request
            .header(CHAIN_HEADER, chain)
            .header("idempotency-key", wanted.key);
        told(client, request)
    };
    match send().await {
        // The same key again: a peer that knows it begins no second run.
        Err(ClientError::Lost { .. }) => send().await,
        answer => answer,
    }
}

/// Sends a request that is answered with a run, or with the events of one.
async fn told(client: &Client, request: RequestBuilder) -> Result<Begun, ClientError> {
    // How long the work may take is decided by whoever asked for it; that it began is told soon.
    let request = request.timeout(STREAM_WITHIN);
    let begun = tokio::time::timeout(ANSWER_WITHIN, answered(client, request)).await;
    begun.unwrap_or_else(|_| Err(client.silent()))
}

async fn answered(client: &Client, request: RequestBuilder) -> Result<Begun, ClientError> {
    let response = client.send(request).await?;
    let kind = response.headers().get(CONTENT_TYPE);
    let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    if !is_stream {
        return Ok(client.read::<RemoteRun>(response).await?.into());
    }
    let mut events = Events {
        response,
        decoder: Decoder::default(),
        waiting: VecDeque::new(),
    };
    let first = events.next().await.ok_or_else(|| ClientError::Protocol {
        what: "a stream of events tells of no run".to_owned(),
    })?;
    Ok(Begun {
        run: first,
        events: Some(events),
    })
}

/// Follows a run until it waits for somebody or is over: by its events, and where there are none by looking.
pub(super) async fn follow(client: &Client, begun: Begun) -> Result<RemoteRun, ClientError> {
    let Begun { mut run, events } = begun;
    if let Some(mut events) = events {
        while run.stage() == Stage::Working
            && let Some(seen) = events.next().await
        {
            run = seen;
        }
    }
    let (mut pause, mut lost) = (LOOK_FIRST, 0);
    while run.stage() == Stage::Working {
        let id = id_of(&run)?;
        match client.get::<RemoteRun>(&format!("/runs/{id}")).await {
            Ok(seen) => (run, lost) = (seen, 0),
            Err(error) if error.is_away() && lost < LOOKS_LOST_MAX => lost += 1,
            Err(error) => return Err(error),
        }
        if run.stage() == Stage::Working {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOOK_SLOWEST);
        }
    }
    Ok(run)
}

/// Answers the question of a run. The dialect has a path of its own for it, the standard has not.
pub(super) async fn resume(
    client: &Client,
    run: &RemoteRun,
    question: &Question,
    answer: &str,
) -> Result<Begun, ClientError> {
    let id = id_of(run)?;
    let message = Message::new("user", vec![Part::text(answer)]);
    let mut dialect = json!({ "input": [message], "mode": "stream" });
    let mut standard = json!({
        "run_id": id,
        "await_resume": { "type": "message", "message": message },
        "mode": "stream",
    });
    if let Some(ask) = &question.ask {
        // Others may answer too, and the run may ask something else by now.
        (dialect["ask"], standard["ask"]) = (json!(ask), json!(ask));
    }
    let post =
        |path: String, body: &Value| told(client, client.request(Method::POST, &path).json(body));
    match post(format!("/runs/{id}/resume"), &dialect).await {
        Err(ClientError::Refused {
            status: 404 | 405, ..
        }) => post(format!("/runs/{id}"), &standard).await,
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
        assert!(dialect.question("p").is_final);
        let standard = run(json!({ "run_id": "r", "status": "awaiting", "await": null,
            "await_request": { "type": "message", "message": { "role": "agent", "parts": [{ "content": "size?" }] } } }));
        let question = standard.question("p");
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
