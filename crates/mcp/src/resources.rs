//! Agents, sessions and templates as resources: `agentcraft://agent/NAME`, `…/session/ID`, `…/template/NAME`.

use rmcp::{
    ErrorData,
    model::{
        ListResourcesResult, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
    },
};
use serde_json::Value;
use wire::daemon::{
    Empty, ErrorCode, NameParams, SessionEventsParams, SessionIdParams, SessionListParams,
};

use crate::{
    daemon::{Daemon, DaemonError, Link, in_time},
    event::{Event, SessionView},
    failure::chain,
    sight::Sight,
    transcript::Transcript,
};

const SCHEME: &str = "agentcraft://";
const JSON: &str = "application/json";
const MARKDOWN: &str = "text/markdown";

/// Resources in one page of the list.
const PAGE: usize = 200;

/// The kinds of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Agent,
    Session,
    Template,
}

impl Kind {
    const ALL: [(&'static str, Self); 3] = [
        ("agent", Self::Agent),
        ("session", Self::Session),
        ("template", Self::Template),
    ];

    fn uri(self, name: &str) -> String {
        let word = Self::ALL
            .iter()
            .find(|(_, kind)| *kind == self)
            .map_or("", |(word, _)| word);
        format!("{SCHEME}{word}/{name}")
    }
}

/// The shapes of the addresses.
pub(crate) fn templates() -> Vec<ResourceTemplate> {
    let template = |kind: Kind, variable, name, description, mime| {
        ResourceTemplate::new(kind.uri(variable), name)
            .with_description(description)
            .with_mime_type(mime)
    };
    vec![
        template(
            Kind::Agent,
            "{name}",
            "agent",
            "An agent: its status, template, backend and workspace",
            JSON,
        ),
        template(
            Kind::Session,
            "{id}",
            "session",
            "A conversation with an agent, as it was said",
            MARKDOWN,
        ),
        template(
            Kind::Template,
            "{name}",
            "template",
            "A template that agents are made of",
            JSON,
        ),
    ]
}

/// A page of everything there is; the cursor is where it begins.
pub(crate) async fn list(
    daemon: &Daemon,
    sight: Sight,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, ErrorData> {
    let from = match cursor {
        None => 0,
        Some(cursor) => cursor.parse().map_err(|_| {
            ErrorData::invalid_params(format!("{cursor:?} is no cursor of ours"), None)
        })?,
    };
    let all = in_time(everything(daemon, sight))
        .await
        .map_err(|error| failed(&error))?;
    let end = all.len().min(usize::saturating_add(from, PAGE));
    let next = (end < all.len()).then(|| end.to_string());
    let page = all.into_iter().skip(from).take(PAGE).collect();
    let mut result = ListResourcesResult::with_all_items(page);
    result.next_cursor = next;
    Ok(result)
}

async fn everything(daemon: &Daemon, sight: Sight) -> Result<Vec<Resource>, DaemonError> {
    let mut link = daemon.connect().await?;
    let agents = sight.agents(&mut link).await?;
    let templates: Vec<Value> = link.call("template.list", &Empty {}).await?;
    let mut sessions: Vec<SessionView> = link
        .call("session.list", &SessionListParams::default())
        .await?;
    if sight == Sight::Public {
        sessions.retain(|session| {
            agents
                .iter()
                .any(|agent| agent["name"] == session.agent_name)
        });
    }
    let agents = agents.iter().filter_map(agent);
    let templates = templates.iter().filter_map(template);
    let sessions = sessions.into_iter().map(session);
    Ok(agents.chain(templates).chain(sessions).collect())
}

fn agent(agent: &Value) -> Option<Resource> {
    let word = |key: &str| agent.get(key).and_then(Value::as_str);
    let (name, status, template) = (word("name")?, word("status")?, word("templateName")?);
    let resource = Resource::new(Kind::Agent.uri(name), name)
        .with_description(format!("Agent, {status}, made of {template}"))
        .with_mime_type(JSON);
    Some(resource)
}

fn template(template: &Value) -> Option<Resource> {
    let name = template.get("name")?.as_str()?;
    let description = match template.get("description").and_then(Value::as_str) {
        Some(description) => format!("Template: {description}"),
        None => "Template".to_owned(),
    };
    let resource = Resource::new(Kind::Template.uri(name), name)
        .with_description(description)
        .with_mime_type(JSON);
    Some(resource)
}

fn session(session: SessionView) -> Resource {
    let description = format!(
        "Session with {}, {}, turns: {}",
        session.agent_name, session.state, session.turns
    );
    Resource::new(Kind::Session.uri(&session.session_id), &session.session_id)
        .with_description(description)
        .with_mime_type(MARKDOWN)
}

/// What an address names.
pub(crate) async fn read(
    daemon: &Daemon,
    sight: Sight,
    uri: &str,
) -> Result<ReadResourceResult, ErrorData> {
    let (kind, name) = parse(uri).ok_or_else(|| not_found(uri, "it names nothing of ours"))?;
    let params = NameParams {
        name: name.to_owned(),
    };
    let content = in_time(async {
        let mut link = daemon.connect().await?;
        match kind {
            Kind::Agent => {
                sight.check(&mut link, name).await?;
                link.call("agent.status", &params).await.map(json)
            }
            Kind::Template => link.call("template.get", &params).await.map(json),
            Kind::Session => page(&mut link, sight, name)
                .await
                .map(|page| (page, MARKDOWN)),
        }
    });
    let (text, mime) = content.await.map_err(|error| {
        let is_missing = match kind {
            Kind::Agent => error.is(ErrorCode::AgentNotFound),
            Kind::Template => error.is(ErrorCode::TemplateNotFound),
            Kind::Session => error.is(ErrorCode::GenericBusiness),
        };
        if is_missing || error.is(ErrorCode::InvalidParams) {
            not_found(uri, &error.to_string())
        } else {
            failed(&error)
        }
    })?;
    let contents = ResourceContents::text(text, uri).with_mime_type(mime);
    Ok(ReadResourceResult::new(vec![contents]))
}

fn json(value: Value) -> (String, &'static str) {
    (
        serde_json::to_string_pretty(&value).unwrap_or_default(),
        JSON,
    )
}

async fn page(link: &mut Link, sight: Sight, session: &str) -> Result<String, DaemonError> {
    sight.check_session(link, session).await?;
    let params = SessionIdParams {
        session_id: session.to_owned(),
    };
    let view: SessionView = link.call("session.get", &params).await?;
    let mut transcript = Transcript::of(&view);
    let mut from_seq = 1;
    while !transcript.is_full() {
        let params = SessionEventsParams {
            session_id: session.to_owned(),
            from_seq,
            limit: None,
        };
        let events: Vec<Value> = link.call("session.events", &params).await?;
        if events.is_empty() {
            break;
        }
        for event in events {
            from_seq = event
                .get("seq")
                .and_then(Value::as_u64)
                .map_or(from_seq, |seq| seq + 1);
            transcript.add(serde_json::from_value(event).unwrap_or(Event::Other));
        }
    }
    Ok(transcript.into_page())
}

fn parse(uri: &str) -> Option<(Kind, &str)> {
    let (word, name) = uri.strip_prefix(SCHEME)?.split_once('/')?;
    let (_, kind) = Kind::ALL.into_iter().find(|(kind, _)| *kind == word)?;
    let is_name = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    is_name.then_some((kind, name))
}

fn not_found(uri: &str, why: &str) -> ErrorData {
    let data = serde_json::json!({ "uri": uri });
    ErrorData::resource_not_found(format!("there is no resource {uri}: {why}"), Some(data))
}

fn failed(error: &DaemonError) -> ErrorData {
    ErrorData::internal_error(chain(error), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_back_as_they_are_written() {
        for (_, kind) in Kind::ALL {
            let uri = kind.uri("a-Name_1");
            assert_eq!(parse(&uri), Some((kind, "a-Name_1")), "{uri}");
        }
    }

    #[test]
    fn other_addresses_name_nothing() {
        let cases = [
            "",
            "agentcraft://",
            "agentcraft://agent",
            "agentcraft://agent/",
            "agentcraft://agent/a/b",
            "agentcraft://agent/../x",
            "agentcraft://skill/x",
            "file:///etc/passwd",
            "AGENTCRAFT://agent/x",
        ];
        for uri in cases {
            assert_eq!(parse(uri), None, "{uri}");
        }
    }
}
