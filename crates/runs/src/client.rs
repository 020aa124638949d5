//! The client of the runs API: for the driver of a peer's agent, for the command line, for whoever routes intents.

mod stream;

use std::{fmt, time::Duration};

use domain::{TRACEPARENT, Trace, chain::CHAIN_HEADER};
use neighbour::Neighbour;
use reqwest::{Method, RequestBuilder, Response};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use wire::runs::{Manifest, Message, Mode, Part, Run, RunCreate};

pub use neighbour::ClientError;
pub use stream::RunStream;

/// How long a peer may take to be reached.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// How long an answer that is no stream may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// A stream that says nothing for so long is dead: servers of ours speak every fifteen seconds, others may not.
const SILENCE_MAX: Duration = Duration::from_secs(10 * 60);

/// An answer that is no stream.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Where a node is, and how it is known.
#[derive(Clone)]
pub struct PeerAddress {
    /// Such as `https://node.example:7420`.
    pub url: String,
    pub token: Option<String>,
    /// `sha256:` and the hash of its certificate; without it, the machine's own roots decide.
    pub fingerprint: Option<String>,
}

impl fmt::Debug for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerAddress")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// A client of one node. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Client {
    node: Neighbour,
}

impl Client {
    pub fn new(address: PeerAddress) -> Result<Self, ClientError> {
        let base = neighbour::base_of(&address.url)?;
        let wrong = |why: &str| ClientError::Address {
            url: base.clone(),
            why: why.to_owned(),
        };
        let builder = || {
            reqwest::Client::builder()
                .connect_timeout(CONNECT_WITHIN)
                .read_timeout(SILENCE_MAX)
                // A token must not follow a redirect to somebody else.
                .redirect(reqwest::redirect::Policy::none())
        };
        let http = match &address.fingerprint {
            Some(fingerprint) => {
                let config =
                    pinning::pinned(fingerprint).map_err(|error| wrong(&error.to_string()))?;
                builder().tls_backend_preconfigured(config).build()
            }
            None => pinning::believing(builder),
        };
        let http = http.map_err(|error| wrong(&error.to_string()))?;
        Ok(Self {
            node: Neighbour::new(http, base, address.token, ANSWER_BYTES_MAX),
        })
    }

    pub fn url(&self) -> &str {
        self.node.base()
    }

    /// Whether anybody answers.
    pub async fn ping(&self) -> Result<(), ClientError> {
        let _: Value = self.get_json("/ping").await?;
        Ok(())
    }

    /// What the node says of itself.
    pub async fn manifest(&self) -> Result<Manifest, ClientError> {
        self.get_json("/manifest").await
    }

    /// Its agents, as far as we may see them.
    pub async fn agents(&self) -> Result<Vec<Manifest>, ClientError> {
        #[derive(serde::Deserialize)]
        struct Page {
            agents: Vec<Manifest>,
        }
        let page: Page = self.get_json("/agents?limit=1000").await?;
        Ok(page.agents)
    }

    /// One agent, by a name that needs no escapes.
    pub async fn agent(&self, name: &str) -> Result<Manifest, ClientError> {
        self.get_json(&format!("/agents/{name}")).await
    }

    /// How a run stands.
    pub async fn read(&self, run: &str) -> Result<Run, ClientError> {
        self.get_json(&format!("/runs/{run}")).await
    }

    /// Whether the node still knows a session.
    pub async fn knows_session(&self, id: &str) -> Result<bool, ClientError> {
        match self.get_json::<Value>(&format!("/sessions/{id}")).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() || error.is_expired_session() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The run of a session that is not over, as far as the node tells it.
    pub async fn active_run(&self, session: &str) -> Result<Option<String>, ClientError> {
        #[derive(serde::Deserialize)]
        struct Descriptor {
            #[serde(default)]
            active_run: Option<String>,
        }
        let path = format!("/sessions/{session}");
        let descriptor: Descriptor = self.get_json(&path).await?;
        Ok(descriptor.active_run)
    }

    /// Follows a run that there is, from its beginning.
    pub fn follow(&self, run: &str) -> RunStream {
        RunStream::of(self.clone(), run)
    }

    /// Begins a run and follows it; `chain` is who has called whom until here, `trace` what all of it belongs to.
    pub async fn run(
        &self,
        create: &RunCreate,
        chain: &[String],
        trace: Option<Trace>,
    ) -> Result<RunStream, ClientError> {
        let mut request = self.request(Method::POST, "/runs");
        if let Some(trace) = trace {
            let span = uuid::Uuid::new_v4().as_u64_pair().0;
            request = request.header(TRACEPARENT, trace.traceparent(span));
        }
        if !chain.is_empty() {
            request = request.header(CHAIN_HEADER, chain.join(","));
        }
        let response = self.send(request.json(create)).await?;
        let id = response
            .headers()
            .get("run-id")
            .and_then(|id| id.to_str().ok())
            .map(str::to_owned);
        Ok(RunStream::new(self.clone(), response, id, 0))
    }

    /// Answers what a run awaits, and follows it on; `ask` is the question that is meant, where the run has told it,
    /// and `seen` is how many events were seen of it.
    pub async fn resume(
        &self,
        run: &str,
        ask: Option<&str>,
        message: Message,
        seen: u64,
    ) -> Result<RunStream, ClientError> {
        let mut body = json!({
            "run_id": run,
            "await_resume": { "type": "message", "message": message },
            "mode": "stream",
        });
        if let Some(ask) = ask {
            body["ask"] = Value::from(ask);
        }
        let request = self.request(Method::POST, &format!("/runs/{run}"));
        let response = self.send(request.json(&body)).await?;
        let id = Some(run.to_owned());
        Ok(RunStream::new(self.clone(), response, id, seen))
    }

    /// Asks for the end of a run; one that is over is no error.
    pub async fn cancel(&self, run: &str) -> Result<(), ClientError> {
        let request = self.request(Method::POST, &format!("/runs/{run}/cancel"));
        match self.send(request.timeout(ANSWER_WITHIN)).await {
            Ok(_) => Ok(()),
            Err(ClientError::Refused {
                status: 403 | 404 | 409,
                ..
            }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Ends a session; one that is not there is no error.
    pub async fn close_session(&self, id: &str) -> Result<(), ClientError> {
        let request = self.request(Method::DELETE, &format!("/sessions/{id}"));
        match self.send(request.timeout(ANSWER_WITHIN)).await {
            Ok(_) => Ok(()),
            // Standard servers have no such method.
            Err(ClientError::Refused {
                status: 404 | 405 | 410,
                ..
            }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.node.request(method, path)
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        self.node.send(request).await
    }

    async fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let request = self.request(Method::GET, path).timeout(ANSWER_WITHIN);
        self.node.answer(request).await
    }
}

/// A request for a run in the words of one prompt.
pub fn prompt(agent: Option<String>, text: impl Into<String>) -> RunCreate {
    RunCreate {
        agent_name: agent,
        input: vec![Message::new("user", vec![Part::text(text)])],
        mode: Some(Mode::Stream),
        ..RunCreate::default()
    }
}
