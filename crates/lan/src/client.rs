//! Requests to a peer: what it says of itself, runs, pairing. Everything is bounded in bytes and time.

use std::{fmt, time::Duration};

use neighbour::Neighbour;
use reqwest::{Method, RequestBuilder, Response, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;
use wire::runs::{Capability, Manifest};

pub use neighbour::{ClientError, base_of};
pub(crate) use neighbour::{cut, forget_nulls};
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

/// A client of one peer.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    node: Neighbour,
}

impl Client {
    pub(crate) fn new(address: Address) -> Result<Self, ClientError> {
        let base = base_of(&address.url)?;
        let wrong = |why: String| ClientError::Address {
            url: base.clone(),
            why,
        };
        let built = match &address.certificate {
            Certificate::Roots => pinning::believing(builder),
            Certificate::Pinned(fingerprint) => {
                if base.starts_with("http://") {
                    let why = "it is known by a certificate, so it is spoken to through https";
                    return Err(wrong(why.to_owned()));
                }
                let config =
                    pinning::pinned(fingerprint).map_err(|error| wrong(error.to_string()))?;
                builder().tls_backend_preconfigured(config).build()
            }
            Certificate::Learn(seen) => {
                let config =
                    pinning::learning(seen.clone()).map_err(|error| wrong(error.to_string()))?;
                builder().tls_backend_preconfigured(config).build()
            }
        };
        let http = built.map_err(|error| wrong(error.to_string()))?;
        Self::over(http, address)
    }

    /// A client over connections that others use too; what they trust must be what the address says.
    pub(crate) fn over(http: reqwest::Client, address: Address) -> Result<Self, ClientError> {
        let base = base_of(&address.url)?;
        let token = match address.certificate {
            Certificate::Learn(_) => None,
            Certificate::Roots | Certificate::Pinned(_) => address.token,
        };
        let node = Neighbour::new(http, base, token, ANSWER_BYTES_MAX);
        Ok(Self { node })
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
                standard_manifest(self.node.base(), &agents)
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
        self.node.request(method, path)
    }

    pub(crate) async fn answer<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<T, ClientError> {
        self.node.answer(request).await
    }

    /// The answer as it begins; a refusal is read whole.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        self.node.send(request).await
    }

    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        response: Response,
    ) -> Result<T, ClientError> {
        self.node.read(response).await
    }

    /// Nothing came back in time.
    pub(crate) fn silent(&self) -> ClientError {
        ClientError::Lost {
            url: self.node.base().to_owned(),
            why: format!("it said nothing for {} s", ANSWER_WITHIN.as_secs()),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_is_not_sent_to_a_certificate_that_is_only_being_learnt() {
        let address = |certificate| Address {
            url: "https://h".to_owned(),
            token: Some("secret".to_owned()),
            certificate,
        };
        let sends_it = |certificate| {
            let client = Client::new(address(certificate)).unwrap();
            let request = client.request(Method::GET, "/ping").build().unwrap();
            request.headers().contains_key("authorization")
        };
        assert!(!sends_it(Certificate::Learn(Seen::default())));
        let pin = Certificate::Pinned("ab".repeat(32));
        assert!(sends_it(pin.clone()));
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
