//! The MCP servers that a computer lends: read from the configs folder or from a file, checked, with every placeholder filled.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    path::{Path, PathBuf},
};

use catalog::{ComponentKind, Format, McpServer, parse_mcp_server};
use domain::Name;
use engine::ToolServer;
use platform::{ConfinedDir, confined::Kind, files, system::find_program};
use serde_json::{Value, json};
use smcp::computer::{Unusable, Values, bundle_id, inputs_of, read_config, render_transport};
use wire::smcp::{ConfigAnswer, Input, ServerConfig, ToolMeta, Transport};

use super::inputs::VARIABLE;
use crate::{config::Config, error::CommandError};

/// The largest file that is read; the daemon has the same limit.
const FILE_MAX: u64 = 4 * 1024 * 1024;

/// What a computer lends.
#[derive(Debug)]
pub(crate) struct Offer {
    /// As it was written, with its placeholders.
    pub(crate) config: ConfigAnswer,
    /// What is started for each server, by its key, and the folder it runs in if it names one.
    pub(crate) servers: BTreeMap<String, (ToolServer, Option<String>)>,
    pub(crate) unusable: Vec<Unusable>,
}

/// Whether calls of tools that say nothing about it are carried out without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consent {
    Given,
    Asked,
}

/// What is written, before its placeholders are filled.
#[derive(Debug)]
pub(crate) struct Listing {
    config: ConfigAnswer,
    unusable: Vec<Unusable>,
}

/// What the servers are read from: the file, or the folder of components where there is none.
pub(crate) fn origin(file: Option<&Path>, config: &Config) -> PathBuf {
    match file {
        Some(file) => file.to_owned(),
        None => config.configs_dir.join(ComponentKind::McpServer.folder()),
    }
}

/// Reads the file, or the configs folder where there is none.
pub(crate) fn read_listing(
    file: Option<&Path>,
    consent: Consent,
    config: &Config,
) -> Result<Listing, CommandError> {
    let (value, mut unusable) = match file {
        Some(file) => (read_file(file)?, Vec::new()),
        None => components(config),
    };
    let path = config.environment.get(OsStr::new("PATH"));
    let is_executable = |command: &str| {
        find_program(
            command,
            path.map_or(OsStr::new(""), |path| path.as_os_str()),
        )
        .is_some()
    };
    let (mut answer, left_out) = read_config(&value, &is_executable);
    unusable.extend(left_out);
    if consent == Consent::Given {
        answer.servers.values_mut().for_each(agree);
    }
    Ok(Listing {
        config: answer,
        unusable,
    })
}

impl Listing {
    /// The inputs that the servers which are started ask for.
    pub(crate) fn wanted(&self) -> Vec<Input> {
        let servers = self.config.servers.values();
        let named: BTreeSet<String> = servers
            .filter(|server| !server.disabled)
            .flat_map(inputs_of)
            .collect();
        let inputs = self.config.inputs.iter();
        inputs
            .filter(|input| named.contains(input.id()))
            .cloned()
            .collect()
    }

    /// Fills the placeholders; a server that misses a value is left out.
    pub(crate) fn fill(self, values: &BTreeMap<String, String>, config: &Config) -> Offer {
        let Self {
            config: mut answer,
            mut unusable,
        } = self;
        let mut servers = BTreeMap::new();
        answer.servers.retain(|key, server| {
            if server.disabled {
                return true; // It is shown, and not started.
            }
            match startable(server, values, config) {
                Ok(startable) => {
                    servers.insert(key.clone(), startable);
                    true
                }
                Err(reason) => {
                    let server = key.clone();
                    unusable.push(Unusable { server, reason });
                    false
                }
            }
        });
        Offer {
            config: answer,
            servers,
            unusable,
        }
    }
}

impl Offer {
    /// The address of a server over HTTP, by its key or by the name that the office shows.
    pub(crate) fn address(&self, server: &str) -> Result<String, CommandError> {
        let found = self
            .servers
            .iter()
            .find(|(key, (lent, _))| *key == server || lent.name() == server);
        match found {
            Some((_, (ToolServer::Http { url, .. }, _))) => Ok(url.clone()),
            Some((_, (ToolServer::Stdio(_) | ToolServer::Sse { .. }, _))) => {
                Err(CommandError::Refused {
                    message: format!("{server:?} is not a server that one logs in at"),
                    hint: "logins are for servers of type http".to_owned(),
                })
            }
            None => {
                let why = self.unusable.iter().find(|it| it.server == server);
                let why = why.map_or(String::new(), |it| format!(" ({})", it.reason));
                Err(CommandError::not_found(
                    format!("there is no server {server:?} that can be used{why}"),
                    "name a server of the file, and the file with --config",
                ))
            }
        }
    }
}

fn agree(server: &mut ServerConfig) {
    let default = server.default_tool_meta.get_or_insert(ToolMeta::default());
    default.auto_apply = default.auto_apply.or(Some(true));
}

fn startable(
    server: &ServerConfig,
    given: &BTreeMap<String, String>,
    config: &Config,
) -> Result<(ToolServer, Option<String>), String> {
    let variable = |name: &str| {
        let value = config.environment.get(OsStr::new(name))?;
        value.to_str().map(str::to_owned)
    };
    // One that is not declared can only be given in a variable.
    let input = |id: &str| {
        let value = given.get(id).cloned();
        value.or_else(|| variable(&format!("{VARIABLE}{id}")))
    };
    let values = Values {
        input: &input,
        variable: &variable,
    };
    let bundle = bundle_id(server);
    let transport = render_transport(server, &values).map_err(|error| {
        format!(
            "{error}; inputs are typed in a terminal, or given as {VARIABLE}ID in the environment"
        )
    })?;
    Ok(match transport {
        Transport::Stdio {
            command,
            args,
            env,
            cwd,
        } => {
            let server = McpServer {
                // A name that cannot tag a process is told by its place instead.
                name: Name::parse(&bundle)
                    .or_else(|_| Name::parse("server"))
                    .map_err(|error| error.to_string())?,
                description: None,
                command,
                args,
                env,
            };
            (ToolServer::Stdio(server), cwd)
        }
        Transport::Streamable { url, headers } => {
            let name = bundle;
            (ToolServer::Http { name, url, headers }, None)
        }
        Transport::Sse { url, headers } => {
            let name = bundle;
            (ToolServer::Sse { name, url, headers }, None)
        }
    })
}

/// The file's object. What other programs call `mcpServers` is taken too.
fn read_file(path: &Path) -> Result<Value, CommandError> {
    let wrong =
        |error: anyhow::Error| CommandError::machine(format!("read {}", path.display()), error);
    let bytes = files::read_bounded(path, FILE_MAX).map_err(|error| wrong(error.into()))?;
    let mut value: Value = serde_json::from_slice(&bytes).map_err(|error| wrong(error.into()))?;
    if value["servers"].is_null() && value["mcpServers"].is_object() {
        value["servers"] = value["mcpServers"].take();
        for server in value["servers"].as_object_mut().into_iter().flatten() {
            let has_address = server.1["url"].is_string();
            if let Some(server) = server.1.as_object_mut()
                && has_address
            {
                server.entry("type").or_insert(json!("http"));
            }
        }
    }
    if !value["servers"].is_object() {
        return Err(wrong(anyhow::anyhow!("it has no object called `servers`")));
    }
    Ok(value)
}

/// The MCP servers of the configs folder, in the same form.
fn components(config: &Config) -> (Value, Vec<Unusable>) {
    let mut servers = serde_json::Map::new();
    let mut unusable = Vec::new();
    let folder = ComponentKind::McpServer.folder();
    let Ok(configs) = ConfinedDir::open(&config.configs_dir) else {
        return (json!({ "servers": {} }), unusable);
    };
    for entry in configs.list(folder).unwrap_or_default() {
        let Some(name) = entry.name.to_str().filter(|_| entry.kind == Kind::File) else {
            continue;
        };
        let Some(format) = Format::from_path(name) else {
            continue;
        };
        match component(&configs, &format!("{folder}/{name}"), format) {
            Ok(server) => {
                let value = json!({
                    "type": "stdio", "command": server.command, "args": server.args,
                    "env": server.env,
                });
                servers.insert(server.name.to_string(), value);
            }
            Err(reason) => unusable.push(Unusable {
                server: name.to_owned(),
                reason,
            }),
        }
    }
    (json!({ "servers": servers }), unusable)
}

fn component(configs: &ConfinedDir, path: &str, format: Format) -> Result<McpServer, String> {
    let bytes = configs
        .read(path, FILE_MAX)
        .map_err(|error| error.to_string())?;
    let text = std::str::from_utf8(&bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    let checked = parse_mcp_server(text, format);
    checked.value.ok_or_else(|| {
        let problem = checked.problems.first().map(ToString::to_string);
        problem.unwrap_or_default()
    })
}
