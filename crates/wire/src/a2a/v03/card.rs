//! Cards: one that clients of both versions read, and reading a card of either.

use serde_json::{Map, Value, json};

use super::{
    Malformed,
    read::{Read, as_object, flag, list, optional, words},
};
use crate::a2a::{AgentCard, AgentInterface, Binding, Version};

/// A card of 1.0 with everything that a client of 0.3 looks for beside it. `url` is where such clients send JSON-RPC.
///
/// It fails a strict check of 1.0, which allows no further fields; serve it beside the strict one, not instead.
pub fn hybrid_card(card: &AgentCard, url: &str) -> Value {
    let mut value = serde_json::to_value(card).unwrap_or_default();
    let Some(object) = value.as_object_mut() else {
        return value;
    };
    object.insert("url".to_owned(), json!(url));
    object.insert("protocolVersion".to_owned(), json!("0.3.0"));
    object.insert(
        "preferredTransport".to_owned(),
        json!(Binding::JsonRpc.as_str()),
    );
    object.insert(
        "additionalInterfaces".to_owned(),
        json!([{ "url": url, "transport": Binding::JsonRpc.as_str() }]),
    );
    let extended = card.capabilities.extended_agent_card == Some(true);
    object.insert(
        "supportsAuthenticatedExtendedCard".to_owned(),
        json!(extended),
    );
    if let Some(schemes) = object
        .get_mut("securitySchemes")
        .and_then(Value::as_object_mut)
    {
        schemes.values_mut().for_each(flatten_scheme);
    }
    let security: Vec<Value> = card.security_requirements.iter().map(requirement).collect();
    if !security.is_empty() {
        object.insert("security".to_owned(), json!(security));
    }
    value
}

/// What 0.3 says of a scheme beside what 1.0 says; each version finds its own.
fn flatten_scheme(scheme: &mut Value) {
    let http = scheme.get("httpAuthSecurityScheme").cloned();
    if let (Some(Value::Object(http)), Some(scheme)) = (http, scheme.as_object_mut()) {
        scheme.insert("type".to_owned(), json!("http"));
        scheme.extend(http);
    }
}

fn requirement(requirement: &Value) -> Value {
    let schemes = requirement.get("schemes").and_then(Value::as_object);
    let named: Map<String, Value> = schemes
        .into_iter()
        .flatten()
        .map(|(name, scopes)| {
            let scopes = scopes.get("list").cloned();
            (name.clone(), scopes.unwrap_or_else(|| json!([])))
        })
        .collect();
    named.into()
}

/// A card of either version. The ways of 0.3 come after those of 1.0, the preferred one first.
pub fn read_card(value: &Value) -> Read<AgentCard> {
    let object = as_object(value, "a card")?;
    let mut plain = object.clone();
    // Where both versions use a name for different things, neither matters to a client of ours.
    plain.remove("security");
    let mut card: AgentCard = serde_json::from_value(plain.into())
        .map_err(|error| Malformed(format!("the card cannot be read: {error}")))?;
    let version = optional(object, "protocolVersion")?.unwrap_or_else(|| "0.3".to_owned());
    if let Some(url) = optional(object, "url")? {
        let binding = optional(object, "preferredTransport")?;
        let binding = binding.unwrap_or_else(|| Binding::JsonRpc.as_str().to_owned());
        add(&mut card, url, binding, &version);
    }
    for other in list(object.get("additionalInterfaces"), "additionalInterfaces")? {
        let other = as_object(other, "an interface")?;
        if let (Some(url), Some(binding)) = (optional(other, "url")?, optional(other, "transport")?)
        {
            add(&mut card, url, binding, &version);
        }
    }
    for mode in ["defaultInputModes", "defaultOutputModes"] {
        words(object, mode)?;
    }
    if flag(object, "supportsAuthenticatedExtendedCard") {
        card.capabilities.extended_agent_card = Some(true);
    }
    Ok(card)
}

fn add(card: &mut AgentCard, url: String, protocol_binding: String, version: &str) {
    let version = Version::parse(version).unwrap_or(Version::V03);
    let known = card.supported_interfaces.iter().any(|interface| {
        interface.url == url
            && interface.protocol_binding == protocol_binding
            && Version::parse(&interface.protocol_version) == Some(version)
    });
    if !known {
        card.supported_interfaces.push(AgentInterface {
            url,
            protocol_binding,
            tenant: None,
            protocol_version: version.as_str().to_owned(),
        });
    }
}
