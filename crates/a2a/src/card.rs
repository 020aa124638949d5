//! Cards: of each public agent and of the node; strict ones of 1.0, and ones that clients of both versions read.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{
        HeaderMap, HeaderValue, StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HOST, IF_NONE_MATCH, LAST_MODIFIED, VARY},
    },
    response::{IntoResponse, Response},
};
use engine::{AgentView, Caller, Engine};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use wire::a2a::{
    AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Binding, Object, VERSION_HEADER,
    Version, v03,
};

use crate::{
    config::BaseUrl,
    convert,
    error::Refusal,
    face::Face,
    request::{NODE, Target},
};

/// How long a card may be believed, and by whom. Agents come and go, so not for long.
const CACHE_FOR_ALL: &str = "public, max-age=60";
const CACHE_FOR_ONE: &str = "private, max-age=60";

/// What of a request a card depends on.
const VARIES: &str = "A2A-Version, Host, Authorization, Cookie, X-AgentCraft-Token";

/// Which clients a card is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Of 1.0 and nothing else.
    Strict,
    /// Clients of both versions find what they look for.
    Both,
}

/// Who reads, and how much they are told.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reader<'a> {
    /// Somebody who has not shown who they are: how to reach what they can name, and what to bring.
    Anybody,
    /// Which agents there are for them, as well.
    Caller(&'a Caller),
    /// What they run on and how they are, as well.
    Extended(&'a Caller),
}

impl Face {
    /// Public agents that the caller may speak to.
    pub(crate) fn agents_for(&self, caller: &Caller) -> Vec<Arc<AgentView>> {
        let mut agents = self.public_agents();
        agents.retain(|agent| self.lacking(caller, &agent.name).is_none());
        agents
    }

    fn public_agents(&self) -> Vec<Arc<AgentView>> {
        let mut agents = self.engine.public_agents();
        agents.retain(|agent| self.config.public.has(&agent.name));
        agents
    }

    /// The card at an address, as an answer that may be cached.
    pub(crate) fn card_response(
        &self,
        headers: &HeaderMap,
        target: &Target,
        shape: Shape,
        caller: Option<&Caller>,
    ) -> Response {
        // Whoever asks for 1.0 by name gets it without what only 0.3 knows.
        let wants = headers.get(VERSION_HEADER).and_then(|it| it.to_str().ok());
        let strict = wants.is_some_and(|said| Version::parse(said) == Some(Version::V1));
        let shape = if strict { Shape::Strict } else { shape };
        let reader = caller.map_or(Reader::Anybody, Reader::Caller);
        match self.card(headers, target, shape, reader) {
            Ok(card) => cached(headers, &card, reader, self),
            Err(refusal) => {
                let status = StatusCode::from_u16(refusal.status()).unwrap_or_default();
                (status, axum::Json(refusal.http_body())).into_response()
            }
        }
    }

    pub(crate) fn card(
        &self,
        headers: &HeaderMap,
        target: &Target,
        shape: Shape,
        reader: Reader<'_>,
    ) -> Result<Value, Refusal> {
        let base = self.base_url(headers)?;
        let segment = target.agent().unwrap_or(NODE);
        let both = format!("{base}/a2a/{segment}");
        let url = match shape {
            Shape::Strict => format!("{base}/a2a/1.0/{segment}"),
            Shape::Both => both.clone(),
        };
        let mut card = self.card_of(target, reader)?;
        card.supported_interfaces = vec![
            AgentInterface::new(url.clone(), Binding::JsonRpc, Version::V1),
            AgentInterface::new(url.clone(), Binding::HttpJson, Version::V1),
        ];
        Ok(match shape {
            Shape::Strict => json!(card),
            Shape::Both => {
                let old = AgentInterface::new(both.clone(), Binding::JsonRpc, Version::V03);
                card.supported_interfaces.push(old);
                v03::hybrid_card(&card, &both)
            }
        })
    }

    fn card_of(&self, target: &Target, reader: Reader<'_>) -> Result<AgentCard, Refusal> {
        let mut card = AgentCard {
            version: self.config.version.clone(),
            capabilities: self.capabilities(),
            default_input_modes: convert::INPUT_MODES.map(str::to_owned).into(),
            default_output_modes: convert::OUTPUT_MODES.map(str::to_owned).into(),
            ..AgentCard::default()
        };
        match target {
            Target::Node => {
                card.name.clone_from(&self.config.node_name);
                card.description =
                    "A node with agents. A message names the one it is for in `metadata.agent`."
                        .to_owned();
                // Which agents there are is for those who may use them.
                let agents = match reader {
                    Reader::Anybody => Vec::new(),
                    Reader::Caller(caller) | Reader::Extended(caller) => self.agents_for(caller),
                };
                card.skills = agents
                    .iter()
                    .map(|agent| skill(&self.engine, agent, reader))
                    .collect();
                if card.skills.is_empty() {
                    card.skills.push(passing_on());
                }
            }
            Target::Agent(name) => {
                let agents = match reader {
                    Reader::Anybody | Reader::Caller(_) => self.public_agents(),
                    Reader::Extended(caller) => self.agents_for(caller),
                };
                let found = agents.iter().find(|agent| agent.name == *name);
                let agent = found.ok_or_else(|| Refusal::no_agent(name))?;
                card.name.clone_from(&agent.name);
                card.description = description(&self.engine, agent);
                card.skills = vec![skill(&self.engine, agent, reader)];
            }
        }
        if self.config.needs_token {
            let scheme = json!({ "httpAuthSecurityScheme": {
                "scheme": "Bearer",
                "description": "as this node hands out",
            }});
            card.security_schemes = Object::from_iter([("bearer".to_owned(), scheme)]);
            card.security_requirements = vec![json!({ "schemes": { "bearer": { "list": [] } } })];
        }
        Ok(card)
    }

    fn capabilities(&self) -> AgentCapabilities {
        AgentCapabilities {
            streaming: Some(true),
            push_notifications: Some(self.push.is_on()),
            extensions: self.extensions.iter().filter_map(|it| it.card()).collect(),
            extended_agent_card: Some(self.config.needs_token),
        }
    }

    fn base_url(&self, headers: &HeaderMap) -> Result<String, Refusal> {
        match &self.config.base {
            BaseUrl::Fixed(url) => Ok(url.trim_end_matches('/').to_owned()),
            BaseUrl::FromHost { scheme } => {
                let host = headers.get(HOST).and_then(|host| host.to_str().ok());
                let host = host.filter(|host| is_host(host));
                let host = host.ok_or_else(|| Refusal::invalid("Host", "it names no host"))?;
                Ok(format!("{scheme}://{host}"))
            }
        }
    }
}

/// Letters of a host and a port: a card must not carry what else somebody puts into the header.
fn is_host(host: &str) -> bool {
    !host.is_empty()
        && host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']' | '_'))
}

/// What people say of an agent, else what its template says.
fn description(engine: &Engine, agent: &AgentView) -> String {
    let of_template = || {
        let template = engine.library().template(&agent.template_name).ok()?;
        template.description.clone()
    };
    let said = agent.metadata.get("description").cloned();
    said.or_else(of_template)
        .unwrap_or_else(|| format!("The agent {}", agent.name))
}

/// What the node itself does, for a reader to whom it does not tell more.
fn passing_on() -> AgentSkill {
    AgentSkill {
        id: "agents".to_owned(),
        name: "agents".to_owned(),
        description: "Passes messages to its agents, which the extended card names.".to_owned(),
        tags: vec!["agent".to_owned()],
        examples: Vec::new(),
    }
}

fn skill(engine: &Engine, agent: &AgentView, reader: Reader<'_>) -> AgentSkill {
    let mut tags = vec!["agent".to_owned()];
    match reader {
        Reader::Anybody => {}
        Reader::Caller(_) => tags.push(agent.template_name.clone()),
        Reader::Extended(_) => tags.extend([
            agent.template_name.clone(),
            format!("backend:{}", agent.backend_type),
            format!("status:{}", agent.status),
        ]),
    }
    AgentSkill {
        id: agent.name.clone(),
        name: agent.name.clone(),
        description: description(engine, agent),
        tags,
        examples: Vec::new(),
    }
}

fn cached(headers: &HeaderMap, card: &Value, reader: Reader<'_>, face: &Face) -> Response {
    let body = card.to_string();
    let digest = Sha256::digest(body.as_bytes());
    let tag = format!("\"{}\"", wire::hex(&digest[..16]));
    let known = headers.get(IF_NONE_MATCH).and_then(|it| it.to_str().ok());
    let known = known.unwrap_or_default();
    let unchanged = known.trim() == "*"
        || known
            .split(',')
            .any(|one| one.trim().trim_start_matches("W/") == tag);
    let mut response = if unchanged {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        Body::from(body).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let cache = match reader {
        Reader::Anybody => CACHE_FOR_ALL,
        Reader::Caller(_) | Reader::Extended(_) => CACHE_FOR_ONE,
    };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(VARY, HeaderValue::from_static(VARIES));
    for (name, value) in [
        (ETAG, tag),
        (LAST_MODIFIED, crate::clock::http_date(face.since)),
    ] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    response
}
