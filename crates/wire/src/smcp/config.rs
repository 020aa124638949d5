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
    /// A setting is there and has another type than it must have; left out, it would open what it should close.
    BadField(&'static str),
    BadInput,
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
            Self::BadField(name) => write!(f, "`{name}` is not what it must be: {}", shape(name)),
            Self::BadInput => f.write_str(
                "an input has an `id` and a `type`: promptString, pickString with `options`, or command with `command`",
            ),
        }
    }
}

impl std::error::Error for ConfigProblem {}

impl ServerConfig {
    /// Reads a server in either profile.
    pub fn from_value(key: &str, value: &Value) -> Result<Self, ConfigProblem> {
        let object = value.as_object().ok_or(ConfigProblem::NotAnObject)?;
        let fields = Fields(object);
        let parameters = match fields.present("server_parameters") {
            None => Fields(object),
            Some(Value::Object(parameters)) => Fields(parameters),
            Some(_) => return Err(ConfigProblem::BadField("server_parameters")),
        };
        let transport = transport(fields.text("type")?, &parameters)?;
        let bundle_id = fields.text("bundle_id")?;
        if let Some(id) = &bundle_id
            && !is_bundle_id(id)
        {
            return Err(ConfigProblem::BadBundleId);
        }
        Ok(Self {
            name: fields.text("name")?.unwrap_or_else(|| key.to_owned()),
            bundle_id,
            disabled: fields.read("disabled")?.unwrap_or(false),
            forbidden_tools: fields.read("forbidden_tools")?.unwrap_or_default(),
            tool_meta: fields
                .read::<BTreeMap<String, Option<ToolMeta>>>("tool_meta")?
                .unwrap_or_default()
                .into_iter()
                .filter_map(|(tool, meta)| Some((tool, meta?)))
                .collect(),
            default_tool_meta: fields.read("default_tool_meta")?,
            vrl: fields.text("vrl")?,
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
    /// Reads an answer in either profile, and says which servers and inputs cannot be used and why.
    pub fn from_value(value: &Value) -> (Self, BTreeMap<String, ConfigProblem>) {
        let mut answer = Self::default();
        let mut problems = BTreeMap::new();
        match value.get("inputs") {
            None | Some(Value::Null) => {}
            Some(Value::Array(inputs)) => {
                for (at, input) in inputs.iter().enumerate() {
                    match Input::deserialize(input) {
                        Ok(input) => answer.inputs.push(input),
                        Err(_) => {
                            problems.insert(format!("inputs[{at}]"), ConfigProblem::BadInput);
                        }
                    }
                }
            }
            Some(_) => {
                let problem = ConfigProblem::BadField("inputs");
                problems.insert("inputs".to_owned(), problem);
            }
        }
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

/// The settings of one object: absent or null, or of the type they must have.
struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    fn present(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn read<T: serde::de::DeserializeOwned>(
        &self,
        name: &'static str,
    ) -> Result<Option<T>, ConfigProblem> {
        let value = self.present(name).map(T::deserialize);
        value.transpose().map_err(|_| ConfigProblem::BadField(name))
    }

    fn text(&self, name: &'static str) -> Result<Option<String>, ConfigProblem> {
        self.read(name)
    }

    /// A text that says something.
    fn filled(&self, name: &'static str) -> Result<Option<String>, ConfigProblem> {
        let text = self.text(name)?;
        Ok(text.filter(|text| !text.trim().is_empty()))
    }

    /// Numbers and booleans are taken for what they look like.
    fn values(&self, name: &'static str) -> Result<BTreeMap<String, String>, ConfigProblem> {
        let values: Map<String, Value> = self.read(name)?.unwrap_or_default();
        let values = values
            .into_iter()
            .map(|(key, value)| Some((key, plain(&value)?)));
        values
            .collect::<Option<_>>()
            .ok_or(ConfigProblem::BadField(name))
    }

    fn words(&self, name: &'static str) -> Result<Vec<String>, ConfigProblem> {
        let words: Vec<Value> = self.read(name)?.unwrap_or_default();
        let words = words.iter().map(plain).collect::<Option<_>>();
        words.ok_or(ConfigProblem::BadField(name))
    }
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// What a setting looks like.
fn shape(name: &str) -> &'static str {
    match name {
        "disabled" => "true or false",
        "args" | "forbidden_tools" => "a list of texts",
        "env" | "headers" => "an object of texts",
        "tool_meta" => "an object that says for each tool `auto_apply`, `alias`, `tags`",
        "default_tool_meta" => "an object with `auto_apply`, `alias`, `tags`",
        "server_parameters" => "an object",
        "inputs" => "a list of inputs",
        _ => "a text",
    }
}

fn transport(kind: Option<String>, parameters: &Fields<'_>) -> Result<Transport, ConfigProblem> {
    let url = || {
        let url = parameters.filled("url")?.ok_or(ConfigProblem::NoUrl)?;
        is_url(&url).then_some(url).ok_or(ConfigProblem::BadUrl)
    };
    let command = parameters.filled("command")?;
    let is_local = kind.is_none() && command.is_some();
    let kind = kind.unwrap_or_default();
    match kind.as_str() {
        "" if !is_local => Err(ConfigProblem::UnknownType(kind)),
        "" | "stdio" => Ok(Transport::Stdio {
            command: command.ok_or(ConfigProblem::NoCommand)?,
            args: parameters.words("args")?,
            env: parameters.values("env")?,
            cwd: parameters.filled("cwd")?,
        }),
        "http" | "streamable" | "streamable_http" | "streamable-http" => {
            Ok(Transport::Streamable {
                url: url()?,
                headers: parameters.values("headers")?,
            })
        }
        "sse" => Ok(Transport::Sse {
            url: url()?,
            headers: parameters.values("headers")?,
        }),
        _ => Err(ConfigProblem::UnknownType(kind)),
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

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
