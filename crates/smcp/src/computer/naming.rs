//! Names of servers and tools: every tool is shown as `server__tool`, and the name leads back to both.

use std::collections::BTreeMap;

use serde_json::json;
use sha2::{Digest, Sha256};
use wire::{
    hex,
    smcp::{ServerConfig, Tool, ToolMeta, Transport},
};

use super::port::ServerTool;

/// Between the server's part of a tool's name and its own.
const SEPARATOR: &str = "__";

/// Bytes of the digest that stands for a server without a usable name.
const DIGEST_BYTES: usize = 8;

/// The identity of a server: as configured, or made of its name, or of how it is reached.
pub fn bundle_id(config: &ServerConfig) -> String {
    if let Some(id) = &config.bundle_id {
        return id.clone();
    }
    let mut id = String::new();
    for character in config.name.chars() {
        let is_allowed = character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
        let character = if is_allowed { character } else { '_' };
        if character != '_' || !id.ends_with('_') {
            id.push(character);
        }
    }
    let id = id.trim_matches(['_', '-']);
    if id.is_empty() {
        let digest = Sha256::digest(identity(&config.transport));
        return format!("bundle_{}", hex(&digest[..DIGEST_BYTES]));
    }
    id.to_owned()
}

/// How a server is reached, as bytes that every implementation makes alike. Placeholders stay as they are written, so
/// that a server keeps its identity whatever their values are.
fn identity(transport: &Transport) -> Vec<u8> {
    let mut bytes = Vec::new();
    match transport {
        Transport::Stdio {
            command, args, env, ..
        } => {
            put_text(&mut bytes, "stdio");
            put_text(&mut bytes, command);
            put_count(&mut bytes, args.len());
            args.iter()
                .for_each(|argument| put_text(&mut bytes, argument));
            put_map(&mut bytes, env);
        }
        Transport::Streamable { url, headers } => {
            put_text(&mut bytes, "streamable");
            put_text(&mut bytes, url);
            put_map(&mut bytes, headers);
        }
        Transport::Sse { url, headers } => {
            put_text(&mut bytes, "sse");
            put_text(&mut bytes, url);
            put_map(&mut bytes, headers);
        }
    }
    bytes
}

fn put_count(bytes: &mut Vec<u8>, count: usize) {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    bytes.extend(count.to_be_bytes());
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_count(bytes, text.len());
    bytes.extend(text.as_bytes());
}

fn put_map(bytes: &mut Vec<u8>, map: &BTreeMap<String, String>) {
    put_count(bytes, map.len());
    for (key, value) in map {
        put_text(bytes, key);
        put_text(bytes, value);
    }
}

/// Where a shown name leads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Found {
    Tool(Target),
    Disabled,
    Forbidden,
    Nothing,
}

/// One tool of one server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Target {
    /// The key of the server in the configuration.
    pub(crate) server: String,
    pub(crate) bundle: String,
    pub(crate) tool: String,
    pub(crate) meta: ToolMeta,
}

/// What a computer shows of its tools.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Shown {
    tools: BTreeMap<String, (Target, Tool)>,
    forbidden: Vec<String>,
    disabled: Vec<String>,
}

impl Shown {
    /// Merges the tools of all servers: disabled servers and forbidden tools are left out, aliases replace names, and
    /// of two tools with one name the first is shown.
    pub(crate) fn merge(servers: &BTreeMap<String, ServerConfig>, tools: &[ServerTool]) -> Self {
        let mut shown = Self::default();
        for (key, config) in servers {
            let bundle = bundle_id(config);
            if config.disabled {
                shown.disabled.push(bundle);
                continue;
            }
            for tool in tools.iter().filter(|tool| tool.server == *key) {
                let meta = effective_meta(config, tool);
                let part = meta.alias.as_deref().unwrap_or(&tool.name);
                let name = format!("{bundle}{SEPARATOR}{part}");
                if config.forbidden_tools.contains(&tool.name) {
                    shown.forbidden.push(name);
                    continue;
                }
                let described = describe(&name, &bundle, tool, &meta);
                let target = Target {
                    server: key.clone(),
                    bundle: bundle.clone(),
                    tool: tool.name.clone(),
                    meta,
                };
                shown.tools.entry(name).or_insert((target, described));
            }
        }
        shown
    }

    pub(crate) fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.tools.values().map(|(_, tool)| tool)
    }

    pub(crate) fn find(&self, name: &str) -> Found {
        if let Some((target, _)) = self.tools.get(name) {
            return Found::Tool(target.clone());
        }
        if self.forbidden.iter().any(|forbidden| forbidden == name) {
            return Found::Forbidden;
        }
        let is_of = |bundle: &String| {
            let rest = name.strip_prefix(bundle.as_str());
            rest.is_some_and(|rest| rest.starts_with(SEPARATOR))
        };
        if self.disabled.iter().any(is_of) {
            return Found::Disabled;
        }
        Found::Nothing
    }
}

/// What is configured for this tool, then for all tools of the server; tags of the server itself are always kept.
fn effective_meta(config: &ServerConfig, tool: &ServerTool) -> ToolMeta {
    let own = config
        .tool_meta
        .get(&tool.name)
        .cloned()
        .unwrap_or_default();
    let default = config.default_tool_meta.clone().unwrap_or_default();
    let mut tags = own.tags.or(default.tags).unwrap_or_default();
    for tag in &tool.tags {
        if !tags.contains(tag) {
            tags.push(tag.clone());
        }
    }
    ToolMeta {
        auto_apply: own.auto_apply.or(default.auto_apply),
        // One alias for all tools of a server would name none of them.
        alias: own.alias,
        tags: (!tags.is_empty()).then_some(tags),
        ret_object_mapper: own.ret_object_mapper.or(default.ret_object_mapper),
    }
}

fn describe(name: &str, bundle: &str, tool: &ServerTool, meta: &ToolMeta) -> Tool {
    let mut notes = BTreeMap::new();
    // Readers of the released profile take scalars only, hence JSON in a string.
    notes.insert("a2c_tool_meta".to_owned(), json!(json!(meta).to_string()));
    if let Some(annotations) = &tool.annotations {
        notes.insert(
            "MCP_TOOL_ANNOTATION".to_owned(),
            json!(annotations.to_string()),
        );
    }
    Tool {
        name: name.to_owned(),
        bundle_id: bundle.to_owned(),
        description: tool.description.clone(),
        params_schema: tool.input_schema.clone(),
        return_schema: tool.output_schema.clone(),
        meta: Some(notes),
    }
}

#[cfg(test)]
#[path = "naming_tests.rs"]
mod tests;
