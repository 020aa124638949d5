//! Requests to a peer: what it says of itself, runs, pairing. Everything is bounded in bytes and time.

use std::{fmt, time::Duration};

use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;
use wire::runs::{Capability, ErrorBody, Manifest};

pub(crate) use pinning::{Seen, normal};

/// How long a peer on the local network may take to be reached: whoever asks is told within three seconds that it is away.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// How long a connection that nobody uses stays open.
const IDLE_MAX: Duration = Duration::from_secs(90);

/// How long an answer may take; runs are asked for asynchronously, so no answer waits for work.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// A manifest with a thousand capabilities is far below it, and so is the output of a run that hands files on by address.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Capabilities that are kept of one peer.
const CAPABILITIES_MAX: usize = 256;

/// Characters that are kept of a text a peer says of itself.
const TEXT_MAX: usize = 2000;

/// Where a peer is, and what we know it by.
#[derive(Clone, PartialEq)]
pub(crate) struct Address {
    pub(crate) url: String,
    pub(crate) token: Option<String>,
    pub(crate) certificate: Certificate,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Certificate {
    /// Signed by somebody the machine trusts.
    Roots,
    Pinned(String),
    /// Any: no secret is sent.
    Learn(Seen),
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

/// Why a peer did not do what it was asked.
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
    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            Self::Address { .. }
            | Self::Unreachable { .. }
            | Self::Lost { .. }
            | Self::Protocol { .. } => None,
        }
    }

    /// Nobody is there.
    pub(crate) fn is_away(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Lost { .. })
    }
}

/// A client of one peer.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<String>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
    }
}

impl Client {
    pub(crate) fn new(address: Address) -> Result<Self, ClientError> {
        let base = base_of(&address.url)?;
        let wrong = |why: String| ClientError::Address {
            url: base.clone(),
            why,
        };
        let mut builder = builder();
        match &address.certificate {
            Certificate::Roots => {}
            Certificate::Pinned(fingerprint) => {
                if base.starts_with("http://") {
                    let why = "it is known by a certificate, so it is spoken to through https";
                    return Err(wrong(why.to_owned()));
                }
                let config =
                    pinning::pinned(fingerprint).map_err(|error| wrong(error.to_string()))?;
                builder = builder.tls_backend_preconfigured(config);
            }
            Certificate::Learn(seen) => {
                let config =
                    pinning::learning(seen.clone()).map_err(|error| wrong(error.to_string()))?;
                builder = builder.tls_backend_preconfigured(config);
            }
        }
        let http = builder.build().map_err(|error| wrong(error.to_string()))?;
        Self::over(http, address)
    }

    /// A client over connections that others use too; what they trust must be what the address says.
    pub(crate) fn over(http: reqwest::Client, address: Address) -> Result<Self, ClientError> {
        let base = base_of(&address.url)?;
        let token = match address.certificate {
            Certificate::Learn(_) => None,
            Certificate::Roots | Certificate::Pinned(_) => address.token,
        };
        Ok(Self { http, base, token })
    }

    /// Whether anybody answers; a refusal is an answer.
    pub(crate) async fn ping(&self) -> Result<(), ClientError> {
        let request = self.request(Method::GET, "/ping").timeout(CONNECT_WITHIN);
        match self.answer::<Value>(request).await {
            Ok(_) | Err(ClientError::Refused { .. } | ClientError::Protocol { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What the node says of itself, cut to what is worth keeping, and the names of its agents. A server of the standard
    /// alone has no manifest; its agents are what it can do.
    pub(crate) async fn manifest(&self) -> Result<(Manifest, Vec<String>), ClientError> {
        let agents = self.agents().await;
        let manifest = match self.get::<Manifest>("/manifest").await {
            Err(ClientError::Refused {
                status: 404 | 405, ..
            }) => {
                let agents = agents.clone()?;
                standard_manifest(&self.base, &agents)
            }
            manifest => manifest?,
        };
        let names = agents
            .unwrap_or_default()
            .into_iter()
            .map(|agent| agent.name);
        let names = names.take(CAPABILITIES_MAX).collect();
        Ok((bounded(manifest), names))
    }

    async fn agents(&self) -> Result<Vec<Manifest>, ClientError> {
        #[derive(serde::Deserialize)]
        struct Page {
            agents: Vec<Manifest>,
        }
        let page: Page = self.get("/agents?limit=1000").await?;
        Ok(page.agents)
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.answer(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl serde::Serialize,
    ) -> Result<T, ClientError> {
        self.answer(self.request(Method::POST, path).json(body))
            .await
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    pub(crate) async fn answer<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<T, ClientError> {
        let response = self.send(request).await?;
        self.read(response).await
    }

    /// The answer as it begins; a refusal is read whole.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|error| self.failed(error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = self.body(response).await;
        Err(refusal(status, &body.unwrap_or_default()))
    }

    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        response: Response,
    ) -> Result<T, ClientError> {
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
            if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(ClientError::Protocol {
                    what: format!("an answer is longer than {ANSWER_BYTES_MAX} bytes"),
                });
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// Nothing came back in time.
    pub(crate) fn silent(&self) -> ClientError {
        ClientError::Lost {
            url: self.base.clone(),
            why: format!("it said nothing for {} s", ANSWER_WITHIN.as_secs()),
        }
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

/// How every peer is spoken to, apart from its certificate.
pub(crate) fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .connect_timeout(CONNECT_WITHIN)
        .timeout(ANSWER_WITHIN)
        // A connection that was kept open may lead to a machine that is gone.
        .tcp_user_timeout(CONNECT_WITHIN)
        // Longer than the time between two looks at a peer, so that these need no new connection.
        .pool_idle_timeout(IDLE_MAX)
        // Peers are near; what the environment says of proxies is about the world outside.
        .no_proxy()
        // A token must not follow a redirect to somebody else.
        .redirect(reqwest::redirect::Policy::none())
}

/// Servers of the standard write null where they have nothing to say.
pub(crate) fn forget_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(forget_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The address of a node without what may follow it.
pub(crate) fn base_of(url: &str) -> Result<String, ClientError> {
    let wrong = |why: &str| ClientError::Address {
        url: url.chars().take(200).collect(),
        why: why.to_owned(),
    };
    let parsed = Url::parse(url).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(wrong("it begins with neither http:// nor https://"));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(wrong("it holds a name or a password"));
    }
    let path = parsed.path().trim_end_matches('/');
    let path = path.strip_suffix("/manifest").unwrap_or(path);
    Ok(format!("{}{path}", parsed.origin().ascii_serialization()))
}

fn refusal(status: StatusCode, bytes: &[u8]) -> ClientError {
    let body: Option<ErrorBody> = serde_json::from_slice(bytes).ok();
    let (code, message, suggestion, details) = match body {
        Some(ErrorBody {
            error: Some(error),
            message,
            ..
        }) => (error.code, message, error.suggestion, error.details),
        Some(body) => (body.code, body.message, None, body.data),
        None => dialect_error(bytes).unwrap_or_else(|| {
            (
                "refused".to_owned(),
                format!("it answered {status}"),
                None,
                None,
            )
        }),
    };
    ClientError::Refused {
        status: status.as_u16(),
        code: cut(&code, 100),
        message: cut(&message, TEXT_MAX),
        suggestion: suggestion.map(|text| cut(&text, TEXT_MAX)),
        details: details.map(Box::new),
    }
}

type Told = (String, String, Option<String>, Option<Value>);

/// Peers of the network's dialect alone write `{"error": "word"}` or `{"error": {code, message, …}}`.
fn dialect_error(bytes: &[u8]) -> Option<Told> {
    let body: Value = serde_json::from_slice(bytes).ok()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match body.get("error")? {
        Value::String(word) => Some((word.clone(), word.clone(), None, None)),
        error => {
            let code = error.get("code").and_then(text)?;
            let message = error
                .get("message")
                .and_then(text)
                .unwrap_or_else(|| code.clone());
            let suggestion = error.get("suggestion").and_then(text);
            Some((code, message, suggestion, error.get("details").cloned()))
        }
    }
}

fn standard_manifest(base: &str, agents: &[Manifest]) -> Manifest {
    let host = Url::parse(base)
        .ok()
        .and_then(|url| url.host_str().map(str::to_owned));
    let capabilities = agents.iter().map(|agent| Capability {
        id: agent.name.clone(),
        description: agent.description.clone(),
        output_content_types: agent.output_content_types.clone(),
    });
    Manifest {
        name: host.unwrap_or_else(|| "server".to_owned()),
        capabilities: capabilities.collect(),
        ..Manifest::default()
    }
}

fn bounded(mut manifest: Manifest) -> Manifest {
    if manifest.capabilities.is_empty() {
        let named = std::mem::take(&mut manifest.metadata.capabilities);
        let capabilities = named.into_iter().map(|capability| Capability {
            id: capability.name,
            description: capability.description,
            output_content_types: Vec::new(),
        });
        manifest.capabilities = capabilities.collect();
    }
    manifest.name = cut(&manifest.name, 128);
    manifest.description = cut(&manifest.description, TEXT_MAX);
    manifest.version = manifest.version.map(|version| cut(&version, 128));
    manifest.capabilities.truncate(CAPABILITIES_MAX);
    for capability in &mut manifest.capabilities {
        capability.id = cut(&capability.id, 128);
        capability.description = cut(&capability.description, TEXT_MAX);
        capability.output_content_types.truncate(32);
    }
    // What we do not use is not kept: it may be megabytes.
    manifest.extra.clear();
    manifest.metadata = wire::runs::ManifestMetadata::default();
    manifest
}

/// At most so many characters, without those that a terminal would obey.
pub(crate) fn cut(text: &str, max: usize) -> String {
    let plain = text.chars().filter(|c| !c.is_control() || *c == '\n');
    plain.take(max).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_address_of_a_node_is_found_in_what_people_and_announcements_write() {
        for (url, base) in [
            ("http://10.0.0.1:7420", "http://10.0.0.1:7420"),
            ("http://10.0.0.1:7420/", "http://10.0.0.1:7420"),
            ("https://node:7420/manifest?x=1#y", "https://node:7420"),
            ("http://h/acp/manifest", "http://h/acp"),
        ] {
            assert_eq!(base_of(url).unwrap(), base);
        }
        for wrong in ["ftp://h", "node:7420", "", "http://me:secret@h"] {
            base_of(wrong).unwrap_err();
        }
    }

    #[test]
    fn refusals_of_every_dialect_are_understood() {
        let code = |body: Value| match refusal(StatusCode::BAD_REQUEST, body.to_string().as_bytes())
        {
            ClientError::Refused {
                code, suggestion, ..
            } => (code, suggestion),
            other => panic!("{other}"),
        };
        assert_eq!(
            code(json!({ "code": "invalid_input", "message": "m" })).0,
            "invalid_input"
        );
        assert_eq!(
            code(json!({ "error": "self_loop_rejected" })).0,
            "self_loop_rejected"
        );
        let full = json!({ "run_id": "r", "status": "failed", "error": {
            "code": "execution_timeout", "message": "m", "details": {}, "suggestion": "later" } });
        assert_eq!(
            code(full),
            ("execution_timeout".to_owned(), Some("later".to_owned()))
        );
        assert_eq!(code(json!("what")).0, "refused");
    }

    #[test]
    fn a_token_is_not_sent_to_a_certificate_that_is_only_being_learnt() {
        let address = |certificate| Address {
            url: "https://h".to_owned(),
            token: Some("secret".to_owned()),
            certificate,
        };
        assert_eq!(
            Client::new(address(Certificate::Learn(Seen::default())))
                .unwrap()
                .token,
            None
        );
        let pin = Certificate::Pinned("ab".repeat(32));
        assert!(Client::new(address(pin.clone())).unwrap().token.is_some());
        let plain = Address {
            url: "http://h".to_owned(),
            ..address(pin)
        };
        Client::new(plain).unwrap_err();
    }

    #[test]
    fn nulls_of_a_standard_server_say_nothing() {
        let mut value =
            json!({ "name": "echo", "metadata": null, "list": [{ "a": null, "b": 1 }] });
        forget_nulls(&mut value);
        assert_eq!(value, json!({ "name": "echo", "list": [{ "b": 1 }] }));
    }

    #[test]
    fn what_a_peer_says_of_itself_is_bounded() {
        let many = (0..1000)
            .map(|number| json!({ "id": format!("c{number}"), "description": "x".repeat(9000) }));
        let manifest =
            json!({ "name": "a\u{1b}[2J", "capabilities": many.collect::<Vec<_>>(), "more": "x" });
        let kept = bounded(serde_json::from_value(manifest).unwrap());
        assert_eq!(
            (kept.name.as_str(), kept.capabilities.len()),
            ("a[2J", CAPABILITIES_MAX)
        );
        assert_eq!(kept.capabilities[0].description.len(), TEXT_MAX);
        assert!(kept.extra.is_empty());
    }
}
