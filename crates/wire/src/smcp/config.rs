//! The configuration of a computer in both profiles. Placeholders stay as they were written: no secret is ever in here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Profile, ToolMeta};

/// How an MCP server is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum Transport {
    Stdio {
        command: String,
        args: Vec<String>,
        env: BTreeMap<String, String>,
        cwd: Option<String>,
    },
    Streamable {
        url: String,
        headers: BTreeMap<String, String>,
    },
    Sse {
        url: String,
        headers: BTreeMap<String, String>,
    },
}

/// One MCP server of a computer.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    pub name: String,
    /// The identity of the server within its computer, and the first part of its tools' names.
    pub bundle_id: Option<String>,
    pub disabled: bool,
    pub forbidden_tools: Vec<String>,
    pub tool_meta: BTreeMap<String, ToolMeta>,
    pub default_tool_meta: Option<ToolMeta>,
    pub vrl: Option<String>,
    pub transport: Transport,
}

/// A value that a configuration asks its user for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Input {
    #[serde(rename = "promptString")]
    PromptString {
        id: String,
        #[serde(default)]
        description: String,
        #[serde(default)]
        default: Option<String>,
        #[serde(default)]
        password: Option<bool>,
    },
    #[serde(rename = "pickString")]
    PickString {
        id: String,
        #[serde(default)]
        description: String,
        options: Vec<PickOption>,
        #[serde(default)]
        default: Option<String>,
    },
    #[serde(rename = "command")]
    Command {
        id: String,
        #[serde(default)]
        description: String,
        command: String,
        #[serde(default)]
        args: Option<BTreeMap<String, String>>,
    },
}

impl Input {
    pub fn id(&self) -> &str {
        match self {
            Self::PromptString { id, .. }
            | Self::PickString { id, .. }
            | Self::Command { id, .. } => id,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PickOption {
    pub label: String,
    pub value: String,
}

/// What a computer says of its servers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConfigAnswer {
    pub inputs: Vec<Input>,
    pub servers: BTreeMap<String, ServerConfig>,
}

/// Why a server cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigProblem {
    NotAnObject,
    UnknownType(String),
    NoCommand,
    NoUrl,
    BadUrl,
    BadBundleId,
}

impl std::fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotAnObject => f.write_str("a server's configuration is an object"),
            Self::UnknownType(kind) => {
                write!(f, "`type` is stdio, http, streamable or sse, not {kind:?}")
            }
            Self::NoCommand => f.write_str("a stdio server needs a `command`"),
            Self::NoUrl => f.write_str("an http or sse server needs a `url`"),
            Self::BadUrl => f.write_str("`url` is not an http or https address"),
            Self::BadBundleId => {
                f.write_str("`bundle_id` holds letters, digits, `_` and `-`, and no `__`")
            }
        }
    }
}

impl std::error::Error for ConfigProblem {}

impl ServerConfig {
    /// Reads a server in either profile.
    pub fn from_value(key: &str, value: &Value) -> Result<Self, ConfigProblem> {
        let object = value.as_object().ok_or(ConfigProblem::NotAnObject)?;
        let text = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
        let parameters = object
            .get("server_parameters")
            .and_then(Value::as_object)
            .unwrap_or(object);
        let transport = transport(object.get("type"), parameters)?;
        let bundle_id = text("bundle_id");
        if let Some(id) = &bundle_id
            && !is_bundle_id(id)
        {
            return Err(ConfigProblem::BadBundleId);
        }
        Ok(Self {
            name: text("name").unwrap_or_else(|| key.to_owned()),
            bundle_id,
            disabled: object.get("disabled").and_then(Value::as_bool) == Some(true),
            forbidden_tools: strings(object.get("forbidden_tools")),
            tool_meta: lenient(object.get("tool_meta")).unwrap_or_default(),
            default_tool_meta: lenient(object.get("default_tool_meta")),
            vrl: text("vrl"),
            transport,
        })
    }

    /// The server as a member of this profile expects it.
    pub fn to_value(&self, profile: Profile) -> Value {
        match profile {
            Profile::Seed => self.to_seed(),
            Profile::Shipped => self.to_shipped(),
        }
    }

    fn to_seed(&self) -> Value {
        let mut server = json!({ "disabled": self.disabled, "tool_meta": self.tool_meta });
        let (kind, key, place) = match &self.transport {
            Transport::Stdio { command, args, .. } => {
                server["args"] = json!(args);
                ("stdio", "command", command)
            }
            Transport::Streamable { url, .. } => ("http", "url", url),
            Transport::Sse { url, .. } => ("sse", "url", url),
        };
        server["type"] = json!(kind);
        server[key] = json!(place);
        if !self.forbidden_tools.is_empty() {
            server["forbidden_tools"] = json!(self.forbidden_tools);
        }
        server
    }

    fn to_shipped(&self) -> Value {
        let (kind, parameters) = match &self.transport {
            Transport::Stdio {
                command,
                args,
                env,
                cwd,
            } => {
                let parameters = json!({
                    "command": command, "args": args, "env": env, "cwd": cwd,
                    "encoding": "utf-8", "encoding_error_handler": "strict"
                });
                ("stdio", parameters)
            }
            // The released readers want ISO 8601 durations here and seconds there.
            Transport::Streamable { url, headers } => {
                let parameters = json!({
                    "url": url, "headers": headers, "timeout": "PT30S",
                    "sse_read_timeout": "PT5M", "terminate_on_close": true
                });
                ("streamable", parameters)
            }
            Transport::Sse { url, headers } => {
                let parameters = json!({
                    "url": url, "headers": headers, "timeout": 5.0, "sse_read_timeout": 300.0
                });
                ("sse", parameters)
            }
        };
        json!({
            "name": self.name, "bundle_id": self.bundle_id, "disabled": self.disabled,
            "forbidden_tools": self.forbidden_tools, "tool_meta": self.tool_meta,
            "default_tool_meta": self.default_tool_meta, "vrl": self.vrl,
            "type": kind, "server_parameters": parameters
        })
    }
}

impl ConfigAnswer {
    /// Reads an answer in either profile, and says which servers cannot be used and why.
    pub fn from_value(value: &Value) -> (Self, BTreeMap<String, ConfigProblem>) {
        let mut answer = Self {
            inputs: lenient(value.get("inputs")).unwrap_or_default(),
            servers: BTreeMap::new(),
        };
        let mut problems = BTreeMap::new();
        let servers = value.get("servers").and_then(Value::as_object);
        for (key, server) in servers.into_iter().flatten() {
            match ServerConfig::from_value(key, server) {
                Ok(server) => {
                    answer.servers.insert(key.clone(), server);
                }
                Err(problem) => {
                    problems.insert(key.clone(), problem);
                }
            }
        }
        (answer, problems)
    }

    pub fn to_value(&self, profile: Profile) -> Value {
        let servers: Map<String, Value> = self
            .servers
            .iter()
            .map(|(key, server)| (key.clone(), server.to_value(profile)))
            .collect();
        json!({ "inputs": self.inputs, "servers": servers })
    }
}

/// A computer's answer as a member of another profile expects it; servers that cannot be read stay as they are.
pub fn config_in(profile: Profile, answer: &Value) -> Value {
    let mut answer = answer.clone();
    let servers = answer.get_mut("servers").and_then(Value::as_object_mut);
    for (key, server) in servers.into_iter().flatten() {
        if let Ok(read) = ServerConfig::from_value(key, server) {
            *server = read.to_value(profile);
        }
    }
    answer
}

/// Whether a text asks for a value: `${input:…}` or `${env:…}`.
pub fn has_placeholder(text: &str) -> bool {
    ["${input:", "${env:"]
        .iter()
        .any(|start| text.find(start).is_some_and(|at| text[at..].contains('}')))
}

fn transport(
    kind: Option<&Value>,
    parameters: &Map<String, Value>,
) -> Result<Transport, ConfigProblem> {
    let text = |key: &str| {
        let text = parameters.get(key).and_then(Value::as_str);
        text.map(str::to_owned)
            .filter(|text| !text.trim().is_empty())
    };
    let url = || {
        let url = text("url").ok_or(ConfigProblem::NoUrl)?;
        is_url(&url).then_some(url).ok_or(ConfigProblem::BadUrl)
    };
    let headers = || lenient(parameters.get("headers")).unwrap_or_default();
    let kind = kind.and_then(Value::as_str);
    match kind.or_else(|| text("command").is_some().then_some("stdio")) {
        Some("stdio") => Ok(Transport::Stdio {
            command: text("command").ok_or(ConfigProblem::NoCommand)?,
            args: strings(parameters.get("args")),
            env: lenient(parameters.get("env")).unwrap_or_default(),
            cwd: text("cwd"),
        }),
        Some("http" | "streamable" | "streamable_http" | "streamable-http") => {
            Ok(Transport::Streamable {
                url: url()?,
                headers: headers(),
            })
        }
        Some("sse") => Ok(Transport::Sse {
            url: url()?,
            headers: headers(),
        }),
        other => Err(ConfigProblem::UnknownType(
            other.unwrap_or_default().to_owned(),
        )),
    }
}

fn is_url(url: &str) -> bool {
    if url.starts_with("${") {
        return has_placeholder(url);
    }
    let rest = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"));
    rest.is_some_and(|rest| {
        !rest.is_empty()
            && !rest.starts_with(['/', ':', '?', '#'])
            && !rest.contains(|c: char| c.is_whitespace() || c.is_control())
    })
}

fn is_bundle_id(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    !text.is_empty() && text.chars().all(allowed) && !text.contains("__")
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn lenient<T: serde::de::DeserializeOwned>(value: Option<&Value>) -> Option<T> {
    let value = value.filter(|value| !value.is_null())?;
    serde_json::from_value(value.clone()).ok()
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
