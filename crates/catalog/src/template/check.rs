//! From a JSON value to a `Template`, with everything that is wrong with it.

use std::collections::{BTreeMap, BTreeSet};

use domain::Name;
use domain::lifecycle::{LaunchMode, WorkspacePolicy};
use serde_json::{Map, Value};

use super::steps::read_initializer;
use super::{
    Backend, DomainContext, InlineMcpServer, McpServerRef, OfficeRef, Provider, Template,
    WorkingDirectory,
};
use crate::backend::{BackendType, ProviderType};
use crate::component;
use crate::document::Format;
use crate::environment::EnvironmentPattern;
use crate::problem::{Checked, quoted};
use crate::reader::{Mapping, Node};

/// The slowest agent measured answered after half a minute; ten minutes is a hang on any machine.
pub(crate) const START_TIMEOUT_MS_MAX: u64 = 600_000;

/// Whoever stops an agent waits for the grace; more than ten minutes is not a grace.
pub(crate) const STOP_GRACE_MS_MAX: u64 = 600_000;

/// What `backend.config.protocol` may say of a custom program, and whether that is ACP.
pub(crate) const PROTOCOLS: [(&str, bool); 2] = [("acp", true), ("none", false)];

/// Reads the text of a template's file. The size of `text` is the caller's to bound.
pub fn parse_template(text: &str, format: Format) -> Checked<Template> {
    component::parse(text, format, read_template)
}

/// Checks a template that is already a JSON value.
pub fn check_template(value: &Value) -> Checked<Template> {
    component::check(value, read_template)
}

fn read_template(node: &Node<'_>) -> Option<Template> {
    let mapping = node.mapping()?;
    mapping.optional("$schema");
    let name = mapping.required("name").and_then(|node| read_name(&node));
    let version = mapping
        .required("version")
        .and_then(|node| read_version(&node));
    let description = mapping.description();
    let backend = mapping
        .required("backend")
        .and_then(|node| read_backend(&node));
    let provider = read_provider(&mapping);
    let domain_context = mapping
        .required("domainContext")
        .and_then(|node| read_domain_context(&node));
    let initializer = mapping
        .optional("initializer")
        .and_then(|node| read_initializer(&node));
    let metadata = mapping.optional("metadata").map(|node| node.text_map());
    let settings = read_settings(&mapping);
    mapping.report_unknown_keys();
    Some(Template {
        name: name?,
        version: version?,
        description,
        backend: backend?,
        provider: provider?,
        domain_context: domain_context?,
        initializer: initializer.unwrap_or_default(),
        metadata: metadata.unwrap_or_default(),
        launch_mode: settings.launch_mode,
        workspace_policy: settings.workspace_policy,
        permissions: settings.permissions,
        env: settings.env,
        pass_env: settings.pass_env,
        cwd: settings.cwd,
        start_timeout_ms: settings.start_timeout_ms,
        stop_grace_ms: settings.stop_grace_ms,
    })
}

/// What we add to the contract's template; all of it may be absent.
struct Settings {
    launch_mode: Option<LaunchMode>,
    workspace_policy: Option<WorkspacePolicy>,
    permissions: Option<Map<String, Value>>,
    env: BTreeMap<String, String>,
    pass_env: Vec<EnvironmentPattern>,
    cwd: WorkingDirectory,
    start_timeout_ms: Option<u64>,
    stop_grace_ms: Option<u64>,
}

fn read_settings(mapping: &Mapping<'_>) -> Settings {
    Settings {
        launch_mode: mapping
            .optional("launchMode")
            .and_then(|node| node.choice(&LaunchMode::ALL)),
        workspace_policy: mapping
            .optional("workspacePolicy")
            .and_then(|node| node.choice(&WorkspacePolicy::ALL)),
        permissions: mapping
            .optional("permissions")
            .and_then(|node| opaque(&node)),
        env: mapping
            .optional("env")
            .map(|node| node.environment())
            .unwrap_or_default(),
        pass_env: mapping
            .optional("passEnv")
            .map(|node| node.list_of(read_pattern))
            .unwrap_or_default(),
        cwd: mapping
            .optional("cwd")
            .and_then(|node| node.choice(&WorkingDirectory::ALL))
            .unwrap_or_default(),
        start_timeout_ms: mapping
            .optional("startTimeoutMs")
            .and_then(|node| node.integer(1, START_TIMEOUT_MS_MAX)),
        stop_grace_ms: mapping
            .optional("stopGraceMs")
            .and_then(|node| node.integer(0, STOP_GRACE_MS_MAX)),
    }
}

/// The contract allows a hundred characters of any kind; a name of ours is also a folder and part of a URL.
fn read_name(node: &Node<'_>) -> Option<Name> {
    let text = node.text()?;
    Name::parse(text)
        .map_err(|error| {
            node.error(format!(
                "{} is not a name: {error} (templates are called 1 to 63 letters, digits, `_` or `-`)",
                quoted(text)
            ));
        })
        .ok()
}

fn read_version(node: &Node<'_>) -> Option<String> {
    let text = node.text()?;
    let parts: Vec<&str> = text.split('.').collect();
    let is_number =
        |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if parts.len() != 3 || !parts.iter().all(is_number) {
        let shown = quoted(text);
        node.error(format!("must be three numbers like 1.2.3, but is {shown}"));
        return None;
    }
    Some(text.to_owned())
}

fn read_backend(node: &Node<'_>) -> Option<Backend> {
    let mapping = node.mapping()?;
    let backend_type = mapping
        .required("type")
        .and_then(|node| node.choice(&BackendType::ALL));
    let config = mapping.optional("config");
    mapping.report_unknown_keys();
    let backend_type = backend_type?;
    let settings = config.as_ref().and_then(|node| node.mapping());
    let has_program = settings
        .as_ref()
        .is_some_and(|settings| read_backend_config(settings, backend_type));
    if let Some((key, meaning)) = backend_type.needed_setting() {
        let has_text = |key| {
            let settings = settings.as_ref();
            let setting = settings.and_then(|settings| settings.optional(key));
            setting.as_ref().and_then(Node::text).is_some()
        };
        let is_named = has_text(key) || (backend_type.has_node() && has_text("node"));
        if !is_named && (config.is_none() || settings.is_some()) {
            node.error(format!("needs config.{key}: {meaning}"));
        }
    }
    // A mapping of the wrong kind has been reported already.
    if !has_program && (config.is_none() || settings.is_some()) {
        if backend_type == BackendType::Command {
            node.error("needs config.executablePath: the program to run");
        } else if backend_type == BackendType::Custom {
            // The contract lets such a template load; only a start fails.
            node.warning("has no config.executablePath and cannot start");
        }
    }
    Some(Backend {
        backend_type,
        config: settings.map(|settings| settings.entries.clone()),
    })
}

/// Checks the keys we give a meaning; the others belong to the backend. Answers whether a program is named.
fn read_backend_config(config: &Mapping<'_>, backend_type: BackendType) -> bool {
    let program = config.optional("executablePath");
    if let Some(program) = &program {
        program.program();
    }
    if let Some(args) = config.optional("args") {
        args.arguments();
        if !backend_type.takes_args() {
            args.warning("is read for custom and command only; use extraArgs");
        }
    }
    if let Some(extra) = config.optional("extraArgs") {
        extra.arguments();
        if backend_type.takes_args() {
            extra.warning("is not read for custom and command; use args");
        }
    }
    if let Some(protocol) = config.optional("protocol")
        && backend_type == BackendType::Custom
    {
        protocol.choice(&PROTOCOLS);
    }
    program.is_some()
}

/// The built-in agent and those without a program need no provider, so their templates need not name one.
fn read_provider(template: &Mapping<'_>) -> Option<Provider> {
    let word = template
        .entries
        .get("backend")
        .and_then(|backend| backend.get("type"));
    let needs_none = BackendType::ALL.iter().any(|(name, backend)| {
        word.is_some_and(|word| word == *name)
            && (*backend == BackendType::Builtin || backend.is_endpoint())
    });
    let node = if needs_none {
        template.optional("provider")
    } else {
        template.required("provider")
    };
    let Some(node) = node else {
        return needs_none.then_some(Provider {
            provider_type: ProviderType::None,
            config: None,
        });
    };
    let mapping = node.mapping()?;
    let provider_type = mapping
        .required("type")
        .and_then(|node| node.choice(&ProviderType::ALL));
    let config = mapping.optional("config").and_then(|node| opaque(&node));
    mapping.report_unknown_keys();
    Some(Provider {
        provider_type: provider_type?,
        config,
    })
}

fn read_domain_context(node: &Node<'_>) -> Option<DomainContext> {
    let mapping = node.mapping()?;
    let names = |key| mapping.optional(key).map(|node| node.names());
    let context = DomainContext {
        skills: names("skills").unwrap_or_default(),
        prompts: names("prompts").unwrap_or_default(),
        mcp_servers: mapping
            .optional("mcpServers")
            .map(|node| read_mcp_servers(&node))
            .unwrap_or_default(),
        workflow: mapping.optional("workflow").and_then(|node| node.name()),
        sub_agents: names("subAgents").unwrap_or_default(),
    };
    mapping.report_unknown_keys();
    Some(context)
}

fn read_mcp_servers(node: &Node<'_>) -> Vec<McpServerRef> {
    let mut servers: Vec<McpServerRef> = Vec::new();
    let mut seen = BTreeSet::new();
    for item in node.list().unwrap_or_default() {
        let Some(server) = read_mcp_server(&item) else {
            continue;
        };
        // Agents keep servers by name; of two the second would silently replace the first.
        if !seen.insert(server.name().clone()) {
            item.error(format!("a second MCP server is called {:?}", server.name()));
        }
        servers.push(server);
    }
    servers
}

fn read_mcp_server(node: &Node<'_>) -> Option<McpServerRef> {
    if node.value.is_string() {
        return node.name().map(McpServerRef::Named);
    }
    let mapping = node.mapping()?;
    if let Some(office) = mapping.optional("office") {
        let text = |key| {
            mapping
                .optional(key)
                .and_then(|node| node.text().map(str::to_owned))
        };
        let (url, token_file) = (text("url"), text("tokenFile"));
        mapping.report_unknown_keys();
        return Some(McpServerRef::Office(OfficeRef {
            office: office.name()?,
            url,
            token_file,
        }));
    }
    let name = mapping.required("name").and_then(|node| node.name());
    let command = mapping.required("command").and_then(|node| node.program());
    let args = mapping.optional("args").map(|node| node.arguments());
    let env = mapping.optional("env").map(|node| node.environment());
    mapping.report_unknown_keys();
    Some(McpServerRef::Inline(InlineMcpServer {
        name: name?,
        command: command?.to_owned(),
        args: args.unwrap_or_default(),
        env: env.unwrap_or_default(),
    }))
}

fn read_pattern(node: &Node<'_>) -> Option<EnvironmentPattern> {
    let text = node.text()?;
    let pattern = EnvironmentPattern::parse(text);
    if pattern.is_none() {
        let shown = quoted(text);
        node.error(format!("{shown} is neither a variable NAME nor PREFIX_*"));
    }
    pattern
}

fn opaque(node: &Node<'_>) -> Option<Map<String, Value>> {
    Some(node.mapping()?.entries.clone())
}
