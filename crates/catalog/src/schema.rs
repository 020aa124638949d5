//! JSON Schemas (draft 2020-12) of our files, for editors that complete and check while one types.
//!
//! They are written by hand, next to the readers' own tables, because the readers accept things a derived schema
//! cannot say: a name or a mapping for an MCP server, settings that depend on the backend.

use domain::lifecycle::{LaunchMode, WorkspacePolicy};
use serde_json::{Value, json};

use crate::backend::{BackendType, ProviderType};
use crate::component::ComponentKind;
use crate::template::{
    PROTOCOLS, START_TIMEOUT_MS_MAX, STEP_TIMEOUT_MS_DEFAULT, STEP_TIMEOUT_MS_MAX,
    STOP_GRACE_MS_MAX, WorkingDirectory,
};

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DocumentKind {
    Template,
    Component(ComponentKind),
}

impl DocumentKind {
    pub const ALL: [Self; 5] = [
        Self::Template,
        Self::Component(ComponentKind::Skill),
        Self::Component(ComponentKind::Prompt),
        Self::Component(ComponentKind::McpServer),
        Self::Component(ComponentKind::Workflow),
    ];
}

/// The schema of one kind of file. Unknown keys stay allowed; the readers only warn about them.
pub fn schema(kind: DocumentKind) -> Value {
    let mut schema = match kind {
        DocumentKind::Template => template(),
        DocumentKind::Component(ComponentKind::Skill) => skill(),
        DocumentKind::Component(ComponentKind::Prompt) => prompt(),
        DocumentKind::Component(ComponentKind::McpServer) => mcp_server(),
        DocumentKind::Component(ComponentKind::Workflow) => workflow(),
    };
    schema["$schema"] = json!(DRAFT);
    schema
}

fn template() -> Value {
    json!({
        "title": "AgentCraft template",
        "description": "A reusable description of an agent.",
        "type": "object",
        "required": ["name", "version", "backend", "domainContext"],
        "properties": {
            "name": name("What the template is called."),
            "version": {"type": "string", "pattern": "^[0-9]+\\.[0-9]+\\.[0-9]+$", "description": "Three numbers, such as 1.2.3."},
            "description": text("What the template is for."),
            "backend": backend(),
            "provider": provider(),
            "domainContext": domain_context(),
            "initializer": initializer(),
            "metadata": text_map("Free pairs of text; prompts use them as variables."),
            "launchMode": choice(&LaunchMode::ALL, "direct", "How agents are launched unless told otherwise when created."),
            "workspacePolicy": choice_without_default(&WorkspacePolicy::ALL, "Whether the workspace outlives its use; ephemeral by default for one-shot agents only."),
            "permissions": {"type": "object", "description": "Rules of the permission policy for agents of this template."},
            "env": text_map("Variables set for the agent's process."),
            "passEnv": {
                "type": "array",
                "items": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*\\*?$"},
                "default": [],
                "description": "Variables of the daemon passed on to the process: NAME or PREFIX_*.",
            },
            "cwd": choice(&WorkingDirectory::ALL, "workspace", "Whether the proxy may let a client's folder through instead of the workspace."),
            "startTimeoutMs": milliseconds(1, START_TIMEOUT_MS_MAX, "How long a start may take."),
            "stopGraceMs": milliseconds(0, STOP_GRACE_MS_MAX, "How long the process may take to end before it is killed."),
        },
        // Only the built-in agent works without a provider.
        "if": {"properties": {"backend": {"properties": {"type": {"const": "builtin"}}}}},
        "else": {"required": ["provider"]},
    })
}

fn backend() -> Value {
    json!({
        "type": "object",
        "required": ["type"],
        "description": "The program the agent runs on.",
        "properties": {
            "type": choice_without_default(&BackendType::ALL, "Which program."),
            "config": {
                "type": "object",
                "description": "Settings of the backend; those not listed here are passed through.",
                "properties": {
                    "executablePath": some_text("The program to run instead of the usual one; required for custom and command."),
                    "args": texts("Arguments of a custom program or command; a custom program gets the workspace by default."),
                    "extraArgs": texts("Arguments added to those of a known backend."),
                    "protocol": choice(&PROTOCOLS, "none", "What a custom program speaks on its standard input and output."),
                    "model": text("The model to use, where the backend takes one."),
                },
            },
        },
        "if": {"properties": {"type": {"const": "command"}}},
        "then": {"required": ["config"], "properties": {"config": {"required": ["executablePath"]}}},
    })
}

fn provider() -> Value {
    json!({
        "type": "object",
        "required": ["type"],
        "description": "Whose model the backend uses; the built-in agent needs none.",
        "properties": {
            "type": choice_without_default(&ProviderType::ALL, "Which provider."),
            "config": {"type": "object", "description": "Settings of the provider, passed through."},
        },
    })
}

fn domain_context() -> Value {
    json!({
        "type": "object",
        "description": "What the agent knows and may use.",
        "properties": {
            "skills": names("Skills, by name."),
            "prompts": names("Prompts, by name."),
            "mcpServers": {
                "type": "array",
                "default": [],
                "description": "MCP servers: the name of a component, an office, or a server described here.",
                "items": {"anyOf": [name("The name of an MCP server component."), office(), server_on_the_spot()]},
            },
            "workflow": name("The workflow the agent follows, by name."),
            "subAgents": names("Templates the agent may hand work to, by name."),
        },
    })
}

fn office() -> Value {
    json!({
        "type": "object",
        "required": ["office"],
        "description": "The tools of an office's computers.",
        "properties": {
            "office": name("The office."),
            "url": some_text("The office server; without it, this node."),
            "tokenFile": some_text("A file that holds the token; this node needs none."),
        },
    })
}

fn server_on_the_spot() -> Value {
    let mut schema = mcp_server();
    schema["description"] = json!("An MCP server of this template alone.");
    schema
}

fn initializer() -> Value {
    let step = |word: &str, description: &str, required: Value, properties: Value| {
        json!({
            "type": "object",
            "description": description,
            "required": ["type", "config"],
            "properties": {
                "type": {"const": word},
                "config": {"type": "object", "required": required, "properties": properties},
            },
        })
    };
    let path = || some_text("A path below the workspace, without `..`.");
    json!({
        "type": "object",
        "required": ["steps"],
        "description": "What is done to a new workspace before the agent first starts.",
        "properties": {"steps": {"type": "array", "minItems": 1, "items": {"anyOf": [
            step("mkdir", "Makes a folder.", json!(["path"]), json!({"path": path()})),
            step("write-file", "Writes a file.", json!(["path", "content"]), json!({"path": path(), "content": text("The whole file.")})),
            step("file-copy", "Copies a file into the workspace.", json!(["from", "to"]), json!({
                "from": some_text("A path below the configs folder, without `..`."),
                "to": path(),
            })),
            step("exec", "Runs a program in the workspace, without a shell.", json!(["command"]), json!({
                "command": some_text("The program."),
                "args": texts("Its arguments."),
                "timeoutMs": {
                    "type": "integer", "minimum": 1, "maximum": STEP_TIMEOUT_MS_MAX, "default": STEP_TIMEOUT_MS_DEFAULT,
                    "description": "How long it may take.",
                },
            })),
        ]}}},
    })
}

fn skill() -> Value {
    json!({
        "title": "AgentCraft skill",
        "description": "Rules or knowledge an agent is given.",
        "type": "object",
        "required": ["name", "content"],
        "properties": {
            "name": name("What the skill is called."),
            "description": text("When to use it; agents choose skills by this."),
            "content": some_text("The skill itself, in Markdown."),
            "tags": texts("Words to find it by."),
        },
    })
}

fn prompt() -> Value {
    json!({
        "title": "AgentCraft prompt",
        "description": "Text an agent is told.",
        "type": "object",
        "required": ["name", "content"],
        "properties": {
            "name": name("What the prompt is called."),
            "description": text("What it is for."),
            "content": some_text("The text; {{variable}} is filled from the template's metadata, {{agent}} and {{template}} from the names."),
            "variables": texts("The variables the content expects."),
        },
    })
}

fn mcp_server() -> Value {
    json!({
        "title": "AgentCraft MCP server",
        "description": "A program that offers tools over MCP.",
        "type": "object",
        "required": ["name", "command"],
        "properties": {
            "name": name("What the server is called."),
            "description": text("What its tools do."),
            "command": some_text("The program to run."),
            "args": texts("Its arguments."),
            "env": text_map("Variables set for it."),
        },
    })
}

fn workflow() -> Value {
    json!({
        "title": "AgentCraft workflow",
        "description": "How work is done: a text, or a file of states.",
        "type": "object",
        "properties": {
            "name": text("What the workflow is called."),
            "description": text("What it is for."),
            "content": some_text("The steps, in Markdown."),
            "states": {"description": "The states of a workflow that is run step by step."},
        },
        "anyOf": [
            {"required": ["name", "content"], "properties": {"name": name("What the workflow is called.")}},
            {"required": ["states"]},
        ],
    })
}

fn name(description: &str) -> Value {
    json!({"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$", "description": description})
}

fn names(description: &str) -> Value {
    json!({"type": "array", "items": name("A name."), "default": [], "description": description})
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn some_text(description: &str) -> Value {
    json!({"type": "string", "minLength": 1, "description": description})
}

fn texts(description: &str) -> Value {
    json!({"type": "array", "items": {"type": "string"}, "default": [], "description": description})
}

fn text_map(description: &str) -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}, "default": {}, "description": description})
}

fn milliseconds(least: u64, most: u64, description: &str) -> Value {
    json!({"type": "integer", "minimum": least, "maximum": most, "description": description})
}

fn choice<T>(choices: &[(&str, T)], default: &str, description: &str) -> Value {
    let mut schema = choice_without_default(choices, description);
    schema["default"] = json!(default);
    schema
}

fn choice_without_default<T>(choices: &[(&str, T)], description: &str) -> Value {
    let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
    json!({"type": "string", "enum": words, "description": description})
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
