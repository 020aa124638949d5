//! What the headers of a request say: who asks, which version, which extensions, which media type.

use std::net::{IpAddr, SocketAddr};

use axum::{
    body::{Body, Bytes, to_bytes},
    extract::ConnectInfo,
    http::{HeaderMap, header::CONTENT_TYPE, request::Parts},
};
use domain::{
    TRACEPARENT, Trace,
    chain::{self, CHAIN_HEADER},
};
use engine::Caller;
use serde_json::Value;
use tokio::sync::SemaphorePermit;
use wire::{
    a2a::{EXTENSION_HEADERS, ErrorCode, VERSION_HEADER, Version},
    shape,
};

use crate::{error::Refusal, face::Face};

/// The largest body of a request.
pub(crate) const BODY_MAX: usize = 16 * 1024 * 1024;

/// Bodies that are read at once, each of which takes several times its size while it becomes values.
pub(crate) const READING_MAX: usize = 4;

/// The right to speak to agents here; one for a single agent has its name after a colon.
const RIGHT: &str = "a2a";

/// The segment that stands for the node where an agent's name could be; no agent can be called that.
pub(crate) const NODE: &str = "-";

/// Which agent a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Node,
    Agent(String),
}

impl Target {
    pub(crate) fn of(segment: Option<&str>) -> Self {
        match segment {
            None | Some(NODE) => Self::Node,
            Some(agent) => Self::Agent(agent.to_owned()),
        }
    }

    pub(crate) fn agent(&self) -> Option<&str> {
        match self {
            Self::Node => None,
            Self::Agent(agent) => Some(agent),
        }
    }
}

/// A request whose headers were looked at.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) caller: Caller,
    pub(crate) target: Target,
    pub(crate) version: Version,
    /// Extensions that the client wants to use.
    pub(crate) declared: Vec<String>,
    /// What the request belongs to.
    pub(crate) trace: Option<Trace>,
    /// Which nodes have called one another until here, as far as the header tells.
    pub(crate) chain: Vec<String>,
    /// The address at the other end of the connection, where there is one.
    pub(crate) from: Option<IpAddr>,
}

impl Face {
    /// Looks at the headers, in the order in which a client wants to hear of its mistakes.
    pub(crate) fn call(&self, parts: &Parts, target: Target) -> Result<Call, Refusal> {
        let caller = parts.extensions.get::<Caller>().cloned();
        let caller = caller.ok_or_else(Refusal::unauthenticated)?;
        if let Some(agent) = target.agent() {
            self.check_agent(&caller, agent)?;
        }
        let call = Call {
            caller,
            target,
            version: version(&parts.headers)?,
            declared: declared(&parts.headers),
            trace: trace(&parts.headers),
            chain: chain_of(&parts.headers)?,
            from: parts
                .extensions
                .get::<ConnectInfo<SocketAddr>>()
                .map(|info| info.0.ip()),
        };
        self.check_extensions(&call)?;
        Ok(call)
    }

    /// Reads a body. It is there whole before it takes one of the few places, so that nobody is kept waiting by a slow client.
    pub(crate) async fn read_body(&self, body: Body) -> Result<Reading<'_>, Refusal> {
        let bytes = to_bytes(body, BODY_MAX).await.map_err(|_| {
            let words = format!("a request has at most {BODY_MAX} bytes");
            Refusal::new(ErrorCode::InvalidRequest, words).with_http(413)
        })?;
        let place = self.reading.acquire().await;
        Ok(Reading {
            bytes,
            _place: place.expect("the semaphore is never closed"),
        })
    }

    /// What the agent is called that somebody names; as it was said, if that means none that is there or may be made.
    pub(crate) async fn called(&self, said: String, caller: &Caller) -> Result<String, Refusal> {
        let offered = self.config.public.named();
        let called = self.engine.called(&said, caller, RIGHT, offered).await;
        let called = called.map_err(|error| Refusal::nobody(&error))?;
        Ok(called.map_or(said, |name| name.to_string()))
    }

    /// Refuses an agent that is not public, not there, or not for this caller.
    pub(crate) fn check_agent(&self, caller: &Caller, agent: &str) -> Result<(), Refusal> {
        if !self.config.public.has(agent) || self.engine.public_agent(agent).is_err() {
            return Err(Refusal::no_agent(agent));
        }
        match self.lacking(caller, agent) {
            None => Ok(()),
            Some(right) => Err(Refusal::forbidden(&right)),
        }
    }

    /// The right that a caller lacks to speak to an agent; nothing if it may.
    pub(crate) fn lacking(&self, caller: &Caller, agent: &str) -> Option<String> {
        let offered = self.config.public.named();
        self.engine.lacking(caller, RIGHT, agent, offered)
    }

    fn check_extensions(&self, call: &Call) -> Result<(), Refusal> {
        for extension in &self.extensions {
            let required = extension.card().is_some_and(|card| card.required);
            if required && !call.declared.iter().any(|uri| uri == extension.uri()) {
                let uri = extension.uri();
                let words = format!("the extension {uri} is required; name it in A2A-Extensions");
                let refusal = Refusal::new(ErrorCode::ExtensionSupportRequired, words);
                return Err(refusal.with("extension", uri));
            }
        }
        Ok(())
    }

    /// Of the extensions that the client wants, those that it gets.
    pub(crate) fn granted(&self, headers: &HeaderMap) -> Option<String> {
        let wanted = declared(headers);
        let ours = self.extensions.iter().filter(|ours| ours.card().is_some());
        let granted: Vec<&str> = ours
            .map(|ours| ours.uri())
            .filter(|uri| wanted.iter().any(|wanted| wanted == uri))
            .collect();
        (!granted.is_empty()).then(|| granted.join(", "))
    }
}

/// A body on its way to be values, one of a few.
pub(crate) struct Reading<'a> {
    bytes: Bytes,
    _place: SemaphorePermit<'a>,
}

impl Reading<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What the body says; one that would take the memory of many is refused as it is.
    pub(crate) fn value(&self) -> Result<Value, Refusal> {
        shape::check(&self.bytes)
            .map_err(|bad| Refusal::new(ErrorCode::InvalidRequest, format!("the body: {bad}")))?;
        let value = serde_json::from_slice(&self.bytes);
        value.map_err(|_| Refusal::new(ErrorCode::Parse, "the body is not JSON"))
    }
}

pub(crate) fn version(headers: &HeaderMap) -> Result<Version, Refusal> {
    let said = headers.get(VERSION_HEADER).map(|value| value.to_str());
    let said = said.unwrap_or(Ok("")).unwrap_or("?");
    Version::parse(said).ok_or_else(|| {
        let known = Version::ALL.map(Version::as_str).join(" and ");
        let words = format!("version {said} is not spoken here; {known} are");
        Refusal::new(ErrorCode::VersionNotSupported, words)
            .with("requestedVersion", said)
            .with("supportedVersions", &known)
    })
}

fn declared(headers: &HeaderMap) -> Vec<String> {
    EXTENSION_HEADERS
        .iter()
        .flat_map(|name| headers.get_all(*name))
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|uri| uri.trim().to_owned())
        .filter(|uri| !uri.is_empty())
        .collect()
}

/// Refuses a body that is no JSON, before anybody reads it.
pub(crate) fn check_media_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let media = headers.get(CONTENT_TYPE).map(|value| value.to_str());
    let media = media.unwrap_or(Ok("")).unwrap_or("?");
    let plain = media.split(';').next().unwrap_or("").trim();
    let plain = plain.to_ascii_lowercase();
    if plain == "application/json" || plain.ends_with("+json") {
        return Ok(());
    }
    let words = format!("the body must be application/json, not {media:?}");
    Err(Refusal::new(ErrorCode::ContentTypeNotSupported, words).with("mediaType", media))
}

fn trace(headers: &HeaderMap) -> Option<Trace> {
    let told = headers.get(TRACEPARENT)?.to_str().ok()?;
    Trace::of_traceparent(told)
}

/// What cannot be read is refused: to leave it out would open a circle.
fn chain_of(headers: &HeaderMap) -> Result<Vec<String>, Refusal> {
    let lines = headers.get_all(CHAIN_HEADER).iter();
    Ok(chain::of_header(lines.map(|line| line.as_bytes()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (
                    axum::http::HeaderName::from_static(name),
                    axum::http::HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    #[test]
    fn both_headers_name_extensions() {
        let headers = headers(&[("a2a-extensions", "a, b"), ("x-a2a-extensions", "c,")]);
        assert_eq!(declared(&headers), ["a", "b", "c"]);
    }

    #[test]
    fn a_chain_is_read_whole_or_refused() {
        let mut lines = headers(&[("x-agentcraft-call-chain", "desk, nova")]);
        lines.append(CHAIN_HEADER, "柠檬".parse().unwrap());
        assert_eq!(chain_of(&lines).unwrap(), ["desk", "nova", "柠檬"]);
        let unreadable = axum::http::HeaderValue::from_bytes(b"desk,\xe9").unwrap();
        lines.append(CHAIN_HEADER, unreadable);
        assert!(chain_of(&lines).is_err());
    }

    #[test]
    fn a_body_must_be_json_and_a_version_known() {
        for (media, ok) in [
            ("application/json", true),
            ("application/a2a+json; charset=utf-8", true),
            ("Application/JSON", true),
            ("text/plain", false),
            ("", false),
        ] {
            let headers = headers(&[("content-type", media)]);
            assert_eq!(check_media_type(&headers).is_ok(), ok, "{media}");
        }
        assert!(check_media_type(&HeaderMap::new()).is_err());
        assert_eq!(version(&HeaderMap::new()), Ok(Version::V03));
        let refused = version(&headers(&[("a2a-version", "99.0")])).unwrap_err();
        assert_eq!(refused.code, ErrorCode::VersionNotSupported);
    }
}
