//! The parts templates are made of: skills, prompts, MCP servers and workflows, read from one file each.

use std::collections::{BTreeMap, BTreeSet};

use domain::Name;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::document::{self, Format};
use crate::placeholder;
use crate::problem::{Checked, Invalid, Problems, quoted};
use crate::reader::{Mapping, Node};

/// Rules or knowledge an agent is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct Skill {
    pub name: Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub content: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// Text an agent is told, with `{{variable}}` to be filled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct Prompt {
    pub name: Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub content: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
}

impl Prompt {
    /// The content with every variable filled that `values` has; the others stay as they are.
    pub fn render(&self, values: &BTreeMap<String, String>) -> String {
        placeholder::render(&self.content, values)
    }

    /// The variables the content really uses, each once, in order.
    pub fn placeholders(&self) -> Vec<&str> {
        placeholder::placeholders(&self.content)
    }
}

/// A program that offers tools over MCP on its standard input and output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct McpServer {
    pub name: Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub command: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// How work is done, step by step. The content is Markdown, or the whole text of a file of states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct Workflow {
    pub name: Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub content: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ComponentKind {
    Skill,
    Prompt,
    McpServer,
    Workflow,
}

impl ComponentKind {
    pub const ALL: [Self; 4] = [Self::Skill, Self::Prompt, Self::McpServer, Self::Workflow];

    /// The word people read.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Skill => "skill",
            Self::Prompt => "prompt",
            Self::McpServer => "MCP server",
            Self::Workflow => "workflow",
        }
    }

    /// The folder of this kind below the configs folder.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Skill => "skills",
            Self::Prompt => "prompts",
            Self::McpServer => "mcp",
            Self::Workflow => "workflows",
        }
    }
}

/// Every component that is loaded, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Components {
    pub skills: BTreeMap<Name, Skill>,
    pub prompts: BTreeMap<Name, Prompt>,
    pub mcp_servers: BTreeMap<Name, McpServer>,
    pub workflows: BTreeMap<Name, Workflow>,
    /// What an office of a template is reached with.
    pub own: OwnProgram,
}

/// This program, for servers that are part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnProgram {
    pub program: String,
    /// What it must be told to find its home.
    pub env: BTreeMap<String, String>,
}

impl Default for OwnProgram {
    fn default() -> Self {
        Self {
            program: "agentcraft".to_owned(),
            env: BTreeMap::new(),
        }
    }
}

pub fn parse_skill(text: &str, format: Format) -> Checked<Skill> {
    parse(text, format, read_skill)
}

pub fn parse_prompt(text: &str, format: Format) -> Checked<Prompt> {
    parse(text, format, read_prompt)
}

pub fn parse_mcp_server(text: &str, format: Format) -> Checked<McpServer> {
    parse(text, format, read_mcp_server)
}

/// A mapping with `content` is a component. A mapping with `states` is a workflow of another format, taken whole: its
/// name is its `name` if that is one of ours, else `file_stem`.
pub fn parse_workflow(text: &str, format: Format, file_stem: &str) -> Checked<Workflow> {
    parse(text, format, |node| {
        let mapping = node.mapping()?;
        let has = |key| mapping.entries.contains_key(key);
        if has("states") && !has("content") {
            read_states(&mapping, text, file_stem)
        } else {
            read_workflow(node)
        }
    })
}

/// Parses a document and reads it, with every problem of both.
pub(crate) fn parse<T>(
    text: &str,
    format: Format,
    read: impl FnOnce(&Node<'_>) -> Option<T>,
) -> Checked<T> {
    match document::parse(text, format) {
        Ok(value) => check(&value, read),
        Err(problem) => {
            let problems = Problems::default();
            problems.add(problem);
            problems.finish(None)
        }
    }
}

pub(crate) fn check<T>(value: &Value, read: impl FnOnce(&Node<'_>) -> Option<T>) -> Checked<T> {
    let problems = Problems::default();
    let read = read(&Node::root(value, &problems));
    problems.finish(read)
}

fn read_skill(node: &Node<'_>) -> Option<Skill> {
    let mapping = node.mapping()?;
    mapping.optional("$schema");
    let name = mapping.required("name").and_then(|node| node.name());
    let description = mapping.description();
    let content = mapping
        .required("content")
        .and_then(|node| node.some_text());
    let tags = mapping.optional("tags").map(|node| node.texts());
    mapping.report_unknown_keys();
    Some(Skill {
        name: name?,
        description,
        content: content?.to_owned(),
        tags: tags.unwrap_or_default(),
    })
}

fn read_prompt(node: &Node<'_>) -> Option<Prompt> {
    let mapping = node.mapping()?;
    mapping.optional("$schema");
    let name = mapping.required("name").and_then(|node| node.name());
    let description = mapping.description();
    let content = mapping
        .required("content")
        .and_then(|node| node.some_text());
    let variables = mapping.optional("variables").map(|node| node.texts());
    if let (Some(content), Some(variables)) = (content, &variables) {
        let used: BTreeSet<&str> = placeholder::placeholders(content).into_iter().collect();
        for variable in variables {
            if !used.contains(variable.as_str()) {
                mapping.warning(
                    "variables",
                    &format!("{} is not in the content", quoted(variable)),
                );
            }
        }
    }
    mapping.report_unknown_keys();
    Some(Prompt {
        name: name?,
        description,
        content: content?.to_owned(),
        variables: variables.unwrap_or_default(),
    })
}

fn read_mcp_server(node: &Node<'_>) -> Option<McpServer> {
    let mapping = node.mapping()?;
    mapping.optional("$schema");
    let name = mapping.required("name").and_then(|node| node.name());
    let description = mapping.description();
    let command = mapping.required("command").and_then(|node| node.program());
    let args = mapping.optional("args").map(|node| node.arguments());
    let env = mapping.optional("env").map(|node| node.environment());
    mapping.report_unknown_keys();
    Some(McpServer {
        name: name?,
        description,
        command: command?.to_owned(),
        args: args.unwrap_or_default(),
        env: env.unwrap_or_default(),
    })
}

fn read_workflow(node: &Node<'_>) -> Option<Workflow> {
    let mapping = node.mapping()?;
    mapping.optional("$schema");
    let name = mapping.required("name").and_then(|node| node.name());
    let description = mapping.description();
    let content = mapping
        .required("content")
        .and_then(|node| node.some_text());
    mapping.report_unknown_keys();
    Some(Workflow {
        name: name?,
        description,
        content: content?.to_owned(),
    })
}

/// Looks at no other key: what a file of states may hold is not this crate's to judge.
fn read_states(mapping: &Mapping<'_>, text: &str, file_stem: &str) -> Option<Workflow> {
    let written = mapping.entries.get("name").and_then(Value::as_str);
    let name = written.and_then(|written| Name::parse(written).ok());
    let name = match name {
        Some(name) => name,
        None => {
            if written.is_some() {
                let message =
                    format!("is not a name of ours; the file's name {file_stem:?} is used");
                mapping.warning("name", &message);
            }
            Name::parse(file_stem)
                .map_err(|error| {
                    mapping.missing(
                        "name",
                        &format!("is missing, and the file's name does not serve: {error}"),
                    )
                })
                .ok()?
        }
    };
    let description = mapping.entries.get("description").and_then(Value::as_str);
    Some(Workflow {
        name,
        description: description.map(str::to_owned),
        content: text.to_owned(),
    })
}

impl TryFrom<Value> for Skill {
    type Error = Invalid;

    fn try_from(value: Value) -> Result<Self, Invalid> {
        Ok(check(&value, read_skill).into_result()?.0)
    }
}

impl TryFrom<Value> for Prompt {
    type Error = Invalid;

    fn try_from(value: Value) -> Result<Self, Invalid> {
        Ok(check(&value, read_prompt).into_result()?.0)
    }
}

impl TryFrom<Value> for McpServer {
    type Error = Invalid;

    fn try_from(value: Value) -> Result<Self, Invalid> {
        Ok(check(&value, read_mcp_server).into_result()?.0)
    }
}

impl TryFrom<Value> for Workflow {
    type Error = Invalid;

    fn try_from(value: Value) -> Result<Self, Invalid> {
        Ok(check(&value, read_workflow).into_result()?.0)
    }
}

#[cfg(test)]
#[path = "component_tests.rs"]
mod tests;
