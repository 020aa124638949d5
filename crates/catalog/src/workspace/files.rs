//! Which file goes where, and what is in it, for each backend.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::markdown::{self, Entry};
use super::{PlannedFile, Resolved};
use crate::backend::BackendType;
use crate::component::{McpServer, Skill};
use crate::path::RelativePath;

/// Claude reads `CLAUDE.md` alone; the import brings in the common text.
const CLAUDE_IMPORT: &str = "@AGENTS.md\n";

/// Gemini reads `GEMINI.md` alone, and its imports are written as paths.
const GEMINI_IMPORT: &str = "@./AGENTS.md\n";

/// The instructions: one common text, the files that import it, and the parts on their own.
pub(super) fn instructions(
    backend_type: BackendType,
    resolved: &Resolved<'_>,
    values: &BTreeMap<String, String>,
) -> Vec<PlannedFile> {
    let skills: Vec<Entry<'_>> = resolved
        .skills
        .iter()
        .map(|skill| Entry {
            name: skill.name.as_str(),
            description: skill.description.as_deref(),
            text: &skill.content,
        })
        .collect();
    let rendered: Vec<String> = resolved
        .prompts
        .iter()
        .map(|prompt| prompt.render(values))
        .collect();
    let prompts: Vec<Entry<'_>> = resolved
        .prompts
        .iter()
        .zip(&rendered)
        .map(|(prompt, text)| Entry {
            name: prompt.name.as_str(),
            description: prompt.description.as_deref(),
            text,
        })
        .collect();
    let prompts = markdown::section("System Prompts", &prompts);
    let workflow = resolved
        .workflow
        .map(|workflow| format!("{}\n", workflow.content.trim_end()))
        .unwrap_or_default();

    let mut sections = vec![markdown::section("Agent Skills", &skills), prompts.clone()];
    if !workflow.is_empty() {
        sections.push(format!("# Workflow\n\n{workflow}"));
    }
    sections.retain(|section| !section.is_empty());
    let common = sections.join("\n");

    let mut files = Vec::new();
    if !common.is_empty() {
        files.push(file("CLAUDE.md", CLAUDE_IMPORT.to_owned()));
        if backend_type == BackendType::Gemini {
            files.push(file("GEMINI.md", GEMINI_IMPORT.to_owned()));
        }
        files.push(file("AGENTS.md", common));
    }
    if !prompts.is_empty() {
        files.push(file("prompts/system.md", prompts));
    }
    if !workflow.is_empty() {
        files.push(file(".agentcraft/workflow.md", workflow));
    }
    files
}

/// Each skill in the two folders that between them every measured agent looks into.
pub(super) fn skills(skills: &[&Skill]) -> Vec<PlannedFile> {
    let mut files = Vec::new();
    for skill in skills {
        let content = markdown::skill_file(skill);
        for folder in [".agents", ".claude"] {
            let path = format!("{folder}/skills/{}/SKILL.md", skill.name);
            files.push(file(&path, content.clone()));
        }
    }
    files
}

/// The MCP servers in the common file and in the backend's own.
pub(super) fn mcp(backend_type: BackendType, servers: &[McpServer]) -> Vec<PlannedFile> {
    if servers.is_empty() {
        return match backend_type {
            BackendType::OpenCode => vec![opencode(servers)],
            _ => Vec::new(),
        };
    }
    let common = pretty(&json!({"mcpServers": by_name(servers, common_server)}));
    let mut files = vec![file(".mcp.json", common.clone())];
    match backend_type {
        BackendType::ClaudeCode => {
            // Without this Claude asks a person whether the servers of `.mcp.json` may start, and nobody sees it.
            let settings = pretty(&json!({"enableAllProjectMcpServers": true}));
            files.push(file(".claude/settings.local.json", settings));
        }
        BackendType::Cursor | BackendType::CursorAgent => {
            files.push(file(".cursor/mcp.json", common));
        }
        // For its print mode, which takes no servers in any other way.
        BackendType::Gemini => files.push(file(".gemini/settings.json", common)),
        BackendType::OpenCode => files.push(opencode(servers)),
        BackendType::Custom
        | BackendType::Builtin
        | BackendType::Codex
        | BackendType::Qwen
        | BackendType::Copilot
        | BackendType::Command
        | BackendType::OpenAiCompatible
        | BackendType::Workflow
        | BackendType::Peer
        | BackendType::A2a
        | BackendType::Delegation => {}
    }
    files
}

/// Keys go in sorted, so the bytes do not depend on whether the JSON map keeps its order.
fn by_name(servers: &[McpServer], shape: impl Fn(&McpServer) -> Value) -> Value {
    let sorted: BTreeMap<&str, Value> = servers
        .iter()
        .map(|server| (server.name.as_str(), shape(server)))
        .collect();
    Value::Object(
        sorted
            .into_iter()
            .map(|(name, server)| (name.to_owned(), server))
            .collect::<Map<_, _>>(),
    )
}

fn common_server(server: &McpServer) -> Value {
    let mut shape = json!({"args": server.args, "command": server.command});
    if !server.env.is_empty() {
        shape["env"] = json!(server.env);
    }
    shape
}

/// Its own default is to act without asking; what it may do is the policy's to say.
fn opencode(servers: &[McpServer]) -> PlannedFile {
    // Keys go in sorted, as in `by_name`.
    let schema = "https://opencode.ai/config.json";
    let permission = json!({"bash": "ask", "edit": "ask"});
    let config = if servers.is_empty() {
        json!({"$schema": schema, "permission": permission})
    } else {
        let mcp = by_name(servers, opencode_server);
        json!({"$schema": schema, "mcp": mcp, "permission": permission})
    };
    file("opencode.json", pretty(&config))
}

fn opencode_server(server: &McpServer) -> Value {
    let command: Vec<&String> = std::iter::once(&server.command)
        .chain(&server.args)
        .collect();
    let mut shape = json!({"command": command, "enabled": true});
    if !server.env.is_empty() {
        shape["environment"] = json!(server.env);
    }
    shape["type"] = json!("local");
    shape
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

fn file(path: &str, content: String) -> PlannedFile {
    let path = RelativePath::parse(path).expect("a fixed path around a checked name is relative");
    PlannedFile { path, content }
}
