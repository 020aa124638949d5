//! One agent somewhere else: its card, the way to it, and the operations over that way.

use std::time::Duration;

use bytes::Bytes;
use cards::Way;
use domain::{TRACEPARENT, Trace, chain::CHAIN_HEADER};
use reqwest::{
    Client as Http, Method, Request, Response, Url,
    header::{ACCEPT, CONTENT_TYPE},
};
use serde::Serialize;
use serde_json::{Value, json};
use wire::{
    a2a::{
        AgentCard, Binding, EXTENSION_HEADERS, ErrorCode, MEDIA_TYPE, SendMessage, SendResponse,
        Task, VERSION_HEADER, Version, v03,
    },
    shape,
};

use super::{ClientError, events::Updates};

/// How long a connection may take to come about.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The largest answer that is read.
const BODY_MAX: usize = 32 * 1024 * 1024;

/// How much of an answer that is an error is told.
const WORDS_MAX: usize = 500;

/// How a client speaks.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Sent as a bearer token to the host that was named, and to no other that a card leads to.
    pub token: Option<String>,
    /// Of the certificate that the host must show; without one whoever the machine trusts has signed it.
    pub fingerprint: Option<String>,
    /// Extensions that are named in every request.
    pub extensions: Vec<String>,
    /// How long an answer may take; streams may last longer, as long as something comes within it.
    pub patience: Duration,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            token: None,
            fingerprint: None,
            extensions: Vec::new(),
            patience: Duration::from_secs(10 * 60),
        }
    }
}

/// An agent somewhere else. Clones share the connection.
#[derive(Debug, Clone)]
pub struct Client {
    http: Http,
    card: AgentCard,
    way: Way,
    options: ClientOptions,
    token: Option<String>,
    trace: Option<Trace>,
    chain: Vec<String>,
}

impl Client {
    /// Reads the card of the agent at `url` and chooses a way to it.
    pub async fn connect(url: &str, options: ClientOptions) -> Result<Self, ClientError> {
        let builder = || {
            Http::builder()
                .connect_timeout(CONNECT_MAX)
                .read_timeout(options.patience)
        };
        let http = match &options.fingerprint {
            Some(fingerprint) => {
                let pinned = pinning::pinned(fingerprint).map_err(|error| ClientError::BadUrl {
                    url: url.to_owned(),
                    why: error.to_string(),
                })?;
                builder().tls_backend_preconfigured(pinned).build()
            }
            None => pinning::believing(builder),
        };
        let http = http.map_err(|error| ClientError::Unreachable {
            url: url.to_owned(),
            why: cards::words(&error),
        })?;
        let token = options.token.as_deref();
        let card = cards::read(&http, url, token, options.patience).await?;
        let way = cards::ways(&card).into_iter().next();
        let way = way.ok_or_else(|| ClientError::NoWay {
            url: url.to_owned(),
        })?;
        let same = cards::parse(url)?.origin() == way.url.origin();
        let token = options.token.clone().filter(|_| same);
        Ok(Self {
            http,
            card,
            way,
            options,
            token,
            trace: None,
            chain: Vec::new(),
        })
    }

    /// The same agent, asked for what belongs to a trace.
    pub(crate) fn traced(mut self, trace: Option<Trace>) -> Self {
        self.trace = trace;
        self
    }

    /// The same agent, asked by the last of these nodes, each of which has called the next.
    pub(crate) fn called_by(mut self, chain: Vec<String>) -> Self {
        self.chain = chain;
        self
    }

    pub(crate) fn chain(&self) -> &[String] {
        &self.chain
    }

    pub fn card(&self) -> &AgentCard {
        &self.card
    }

    pub fn version(&self) -> Version {
        self.way.version
    }

    pub fn binding(&self) -> Binding {
        self.way.binding
    }

    /// Whether the agent tells of its work as it goes.
    pub fn streams(&self) -> bool {
        self.card.capabilities.streaming == Some(true)
    }

    /// Sends a message and waits for what comes of it.
    pub async fn send(&self, send: &SendMessage) -> Result<SendResponse, ClientError> {
        let request = self.send_request(send, "SendMessage", "message/send", "message:send")?;
        let result = self.call(request).await?;
        match self.way.version {
            Version::V1 => serde_json::from_value(result).map_err(|error| self.unreadable(&error)),
            Version::V03 => {
                v03::read_send_response(&result).map_err(|error| self.unreadable(&error))
            }
        }
    }

    /// Sends a message and follows what comes of it.
    pub async fn stream(&self, send: &SendMessage) -> Result<Updates, ClientError> {
        let request = self.send_request(
            send,
            "SendStreamingMessage",
            "message/stream",
            "message:stream",
        )?;
        self.open(request).await
    }

    /// Follows a task that there is; the first thing told is the whole task.
    pub async fn subscribe(&self, task: &str) -> Result<Updates, ClientError> {
        let request = match (self.way.binding, self.way.version) {
            (Binding::JsonRpc, Version::V1) => self.rpc("SubscribeToTask", json!({ "id": task })),
            (Binding::JsonRpc, Version::V03) => {
                self.rpc("tasks/resubscribe", json!({ "id": task }))
            }
            (Binding::HttpJson, _) => {
                self.rest(Method::POST, &format!("tasks/{task}:subscribe"), &json!({}))
            }
        }?;
        self.open(request).await
    }

    pub async fn get(&self, task: &str) -> Result<Task, ClientError> {
        let params = json!({ "id": task });
        let request = match (self.way.binding, self.way.version) {
            (Binding::JsonRpc, Version::V1) => self.rpc("GetTask", params),
            (Binding::JsonRpc, Version::V03) => self.rpc("tasks/get", params),
            (Binding::HttpJson, _) => self.rest(Method::GET, &format!("tasks/{task}"), &json!({})),
        }?;
        self.read_task(&self.call(request).await?)
    }

    pub async fn cancel(&self, task: &str) -> Result<Task, ClientError> {
        let params = json!({ "id": task });
        let request = match (self.way.binding, self.way.version) {
            (Binding::JsonRpc, Version::V1) => self.rpc("CancelTask", params),
            (Binding::JsonRpc, Version::V03) => self.rpc("tasks/cancel", params),
            (Binding::HttpJson, _) => {
                self.rest(Method::POST, &format!("tasks/{task}:cancel"), &json!({}))
            }
        }?;
        self.read_task(&self.call(request).await?)
    }

    fn read_task(&self, result: &Value) -> Result<Task, ClientError> {
        match self.way.version {
            Version::V1 => {
                serde_json::from_value(result.clone()).map_err(|error| self.unreadable(&error))
            }
            Version::V03 => v03::read_task(result).map_err(|error| self.unreadable(&error)),
        }
    }

    fn send_request(
        &self,
        send: &SendMessage,
        method: &str,
        old_method: &str,
        path: &str,
    ) -> Result<Request, ClientError> {
        let mut send = send.clone();
        send.tenant = send.tenant.or_else(|| self.way.tenant.clone());
        let (method, params) = match self.way.version {
            Version::V1 => (method, json!(send)),
            Version::V03 => (old_method, v03::send_message(&send)),
        };
        match self.way.binding {
            Binding::JsonRpc => self.rpc(method, params),
            Binding::HttpJson => self.rest(Method::POST, path, &params),
        }
    }

    fn rpc(&self, method: &str, params: Value) -> Result<Request, ClientError> {
        let id = uuid::Uuid::new_v4().to_string();
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.request(
            Method::POST,
            self.way.url.clone(),
            "application/json",
            Some(&body),
        )
    }

    fn rest(&self, method: Method, path: &str, body: &Value) -> Result<Request, ClientError> {
        let mut url = self.way.url.clone();
        let prefix = match self.way.version {
            Version::V1 => "",
            Version::V03 => "/v1",
        };
        let tenant = self.way.tenant.as_ref().map(|it| format!("/{it}"));
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!(
            "{base}{prefix}{}/{path}",
            tenant.unwrap_or_default()
        ));
        let media = match self.way.version {
            Version::V1 => MEDIA_TYPE,
            Version::V03 => "application/json",
        };
        let body = (method != Method::GET).then_some(body);
        self.request(method, url, media, body)
    }

    fn request(
        &self,
        method: Method,
        url: Url,
        media: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Request, ClientError> {
        let mut request = self
            .http
            .request(method, url)
            .header(
                ACCEPT,
                format!("application/json, {MEDIA_TYPE}, text/event-stream"),
            )
            .header(VERSION_HEADER, self.way.version.as_str());
        if let Some(body) = body {
            // The header is set after the body, or it would be set by it.
            request = request.json(body).header(CONTENT_TYPE, media);
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(trace) = self.trace {
            let span = uuid::Uuid::new_v4().as_u64_pair().0;
            request = request.header(TRACEPARENT, trace.traceparent(span));
        }
        if !self.chain.is_empty() {
            request = request.header(CHAIN_HEADER, self.chain.join(","));
        }
        if !self.options.extensions.is_empty() {
            let named = self.options.extensions.join(", ");
            for name in EXTENSION_HEADERS {
                request = request.header(name, &named);
            }
        }
        let mut request = request.build().map_err(|error| self.unreachable(&error))?;
        // A later value replaces what `json` has put there.
        if let (Some(_), Ok(media)) = (body, media.parse()) {
            request.headers_mut().insert(CONTENT_TYPE, media);
        }
        Ok(request)
    }

    /// Asks, and gives the bare result.
    async fn call(&self, request: Request) -> Result<Value, ClientError> {
        let response = self.execute(request).await?;
        let status = response.status();
        let body = read_body(response, BODY_MAX, self.url()).await?;
        self.check_shape(&body)?;
        let value = serde_json::from_slice::<Value>(&body);
        if let Ok(value) = &value
            && let Some(refused) = refusal(value)
        {
            return Err(refused);
        }
        if !status.is_success() {
            return Err(self.bad_status(status.as_u16(), &body));
        }
        let value = value.map_err(|error| self.unreadable(&error))?;
        match self.way.binding {
            Binding::HttpJson => Ok(value),
            Binding::JsonRpc => value
                .get("result")
                .cloned()
                .ok_or_else(|| self.strange("its answer has neither result nor error".to_owned())),
        }
    }

    /// Asks, and gives the stream that answers. An answer that is no stream is an error in words.
    async fn open(&self, request: Request) -> Result<Updates, ClientError> {
        let response = self.execute(request).await?;
        let status = response.status();
        let media = response.headers().get(CONTENT_TYPE);
        let is_stream = media
            .and_then(|media| media.to_str().ok())
            .is_some_and(|media| media.starts_with("text/event-stream"));
        if status.is_success() && is_stream {
            return Ok(Updates::new(response, self.clone()));
        }
        let body = read_body(response, BODY_MAX, self.url()).await?;
        let value = serde_json::from_slice::<Value>(&body);
        Err(value
            .ok()
            .and_then(|value| refusal(&value))
            .unwrap_or_else(|| self.bad_status(status.as_u16(), &body)))
    }

    async fn execute(&self, request: Request) -> Result<Response, ClientError> {
        let sent = self.http.execute(request).await;
        sent.map_err(|error| self.unreachable(&error))
    }

    pub(super) fn url(&self) -> &str {
        self.way.url.as_str()
    }

    pub(super) fn unreachable(&self, error: &reqwest::Error) -> ClientError {
        let url = self.url().to_owned();
        if error.is_timeout() {
            let limit = self.options.patience;
            return ClientError::Silent { url, limit };
        }
        let why = cards::words(error);
        ClientError::Unreachable { url, why }
    }

    pub(super) fn unreadable(&self, error: &dyn std::error::Error) -> ClientError {
        self.strange(error.to_string())
    }

    /// What another party says is kept here, and must not be more than can be read again.
    pub(super) fn check_shape(&self, text: &[u8]) -> Result<(), ClientError> {
        shape::check(text).map_err(|bad| self.unreadable(&bad))
    }

    pub(crate) fn strange(&self, what: String) -> ClientError {
        let url = self.url().to_owned();
        ClientError::Protocol { url, what }
    }

    fn bad_status(&self, status: u16, body: &[u8]) -> ClientError {
        let text = String::from_utf8_lossy(body);
        ClientError::Status {
            url: self.url().to_owned(),
            status,
            words: text.chars().take(WORDS_MAX).collect(),
        }
    }
}

/// The error in an answer of either binding.
pub(super) fn refusal(value: &Value) -> Option<ClientError> {
    let error = value.get("error")?.as_object()?;
    let message = error.get("message").and_then(Value::as_str);
    let message = message.unwrap_or("without words").to_owned();
    let said = error.get("code").and_then(Value::as_i64).unwrap_or(0);
    // Over plain HTTP the code is a status, and the reason tells more.
    let details = error.get("details").or_else(|| error.get("data"));
    let reason = details
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .find_map(|detail| detail.get("reason").and_then(Value::as_str));
    let code = reason
        .and_then(ErrorCode::from_reason)
        .map_or(said, ErrorCode::code);
    Some(ClientError::Refused { code, message })
}

/// Reads an answer whole, if it is not too large.
pub(super) async fn read_body(
    mut response: Response,
    max: usize,
    url: &str,
) -> Result<Bytes, ClientError> {
    let mut body = Vec::new();
    loop {
        let chunk = response
            .chunk()
            .await
            .map_err(|error| ClientError::Unreachable {
                url: url.to_owned(),
                why: cards::words(&error),
            })?;
        let Some(chunk) = chunk else {
            return Ok(body.into());
        };
        if body.len() + chunk.len() > max {
            return Err(ClientError::Protocol {
                url: url.to_owned(),
                what: format!("its answer is longer than {max} bytes"),
            });
        }
        body.extend_from_slice(&chunk);
    }
}
