//! The files a template asks for, laid out where the agents of each backend really look.
//!
//! `AGENTS.md` is the one text; `CLAUDE.md` and `GEMINI.md` import it for agents that read only their own name. The
//! plan holds no permission for any tool: that is the permission policy's to give, never a file's.

mod files;
mod markdown;

use std::collections::BTreeMap;
use std::fmt;

use domain::Name;

use crate::component::{ComponentKind, Components, McpServer, OwnProgram, Prompt, Skill, Workflow};
use crate::path::RelativePath;
use crate::problem::nearest;
use crate::template::{McpServerRef, OfficeRef, Template};

/// The address of the node whose home our program is told.
const OWN_NODE: &str = "node";

/// A file of a new workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedFile {
    pub path: RelativePath,
    pub content: String,
}

/// The files of a new workspace, sorted by path. The same template and components give the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspacePlan {
    pub files: Vec<PlannedFile>,
}

/// A component a template names that is not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingComponent {
    pub kind: ComponentKind,
    pub name: Name,
    /// Where the template names it.
    pub path: String,
    /// A loaded one with nearly the same name.
    pub nearest: Option<Name>,
}

impl fmt::Display for MissingComponent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name, path) = (self.kind.noun(), &self.name, &self.path);
        write!(formatter, "{path}: no {kind} {name:?} is loaded")?;
        match &self.nearest {
            Some(near) => write!(formatter, "; did you mean {near:?}?"),
            None => Ok(()),
        }
    }
}

/// What the names in a template stand for.
struct Resolved<'a> {
    skills: Vec<&'a Skill>,
    prompts: Vec<&'a Prompt>,
    mcp_servers: Vec<McpServer>,
    workflow: Option<&'a Workflow>,
}

/// The workspace of an agent of this template. Prompts are filled from the template's metadata, and from `agent` and
/// `template`, the two names, where the metadata does not say otherwise.
pub fn plan(
    template: &Template,
    components: &Components,
    agent: &Name,
) -> Result<WorkspacePlan, Vec<MissingComponent>> {
    let resolved = resolve(template, components)?;
    let mut values = BTreeMap::from([
        ("agent".to_owned(), agent.to_string()),
        ("template".to_owned(), template.name.to_string()),
    ]);
    values.extend(template.metadata.clone());

    let mut files = files::instructions(template.backend.backend_type(), &resolved, &values);
    files.extend(files::skills(&resolved.skills));
    files.extend(files::mcp(
        template.backend.backend_type(),
        &resolved.mcp_servers,
    ));
    files.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(WorkspacePlan { files })
}

/// The MCP servers of a template in its order, for a session that is about to open.
pub fn mcp_servers(
    template: &Template,
    components: &Components,
) -> Result<Vec<McpServer>, Vec<MissingComponent>> {
    let mut missing = Vec::new();
    let servers = resolve_mcp_servers(template, components, &mut missing);
    if missing.is_empty() {
        Ok(servers)
    } else {
        Err(missing)
    }
}

fn resolve<'a>(
    template: &Template,
    components: &'a Components,
) -> Result<Resolved<'a>, Vec<MissingComponent>> {
    let context = &template.domain_context;
    let mut missing = Vec::new();
    let skills = find_all(
        &context.skills,
        &components.skills,
        ComponentKind::Skill,
        "skills",
        &mut missing,
    );
    let prompts = find_all(
        &context.prompts,
        &components.prompts,
        ComponentKind::Prompt,
        "prompts",
        &mut missing,
    );
    let mcp_servers = resolve_mcp_servers(template, components, &mut missing);
    let workflow = context.workflow.as_ref().and_then(|name| {
        let path = "domainContext.workflow".to_owned();
        find(
            name,
            &components.workflows,
            ComponentKind::Workflow,
            path,
            &mut missing,
        )
    });
    if !missing.is_empty() {
        return Err(missing);
    }
    Ok(Resolved {
        skills,
        prompts,
        mcp_servers,
        workflow,
    })
}

fn resolve_mcp_servers(
    template: &Template,
    components: &Components,
    missing: &mut Vec<MissingComponent>,
) -> Vec<McpServer> {
    let mut servers = Vec::new();
    for (index, reference) in template.domain_context.mcp_servers.iter().enumerate() {
        match reference {
            McpServerRef::Inline(server) => servers.push(McpServer {
                name: server.name.clone(),
                description: None,
                command: server.command.clone(),
                args: server.args.clone(),
                env: server.env.clone(),
            }),
            McpServerRef::Office(office) => servers.push(office_server(office, &components.own)),
            McpServerRef::Named(name) => {
                let path = format!("domainContext.mcpServers[{index}]");
                let kind = ComponentKind::McpServer;
                servers.extend(find(name, &components.mcp_servers, kind, path, missing).cloned());
            }
        }
    }
    servers
}

/// Our own program as the server that offers an office's tools.
fn office_server(office: &OfficeRef, own: &OwnProgram) -> McpServer {
    let url = office.url.as_deref().unwrap_or(OWN_NODE);
    let mut args = ["mcp", "office", url, office.office.as_str()]
        .map(str::to_owned)
        .to_vec();
    // An office has one agent at a time: those of this node are it together, through the daemon.
    args.push("--shared".to_owned());
    if let Some(file) = &office.token_file {
        args.extend(["--token-file".to_owned(), file.clone()]);
    }
    McpServer {
        name: office.office.clone(),
        description: None,
        command: own.program.clone(),
        args,
        env: own.env.clone(),
    }
}

fn find_all<'a, T>(
    names: &[Name],
    loaded: &'a BTreeMap<Name, T>,
    kind: ComponentKind,
    key: &str,
    missing: &mut Vec<MissingComponent>,
) -> Vec<&'a T> {
    let mut found = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let path = format!("domainContext.{key}[{index}]");
        found.extend(find(name, loaded, kind, path, missing));
    }
    found
}

fn find<'a, T>(
    name: &Name,
    loaded: &'a BTreeMap<Name, T>,
    kind: ComponentKind,
    path: String,
    missing: &mut Vec<MissingComponent>,
) -> Option<&'a T> {
    let found = loaded.get(name);
    if found.is_none() {
        let near = nearest(name.as_str(), loaded.keys().map(Name::as_str));
        missing.push(MissingComponent {
            kind,
            name: name.clone(),
            path,
            nearest: near.and_then(|near| Name::parse(near).ok()),
        });
    }
    found
}

#[cfg(test)]
#[path = "workspace/plan_tests.rs"]
mod tests;
