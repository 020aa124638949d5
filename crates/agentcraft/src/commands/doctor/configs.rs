//! The configs folder: every file in it that cannot be used, found without a daemon.

use std::path::Path;

use catalog::{
    ComponentKind, Format, Problem, parse_mcp_server, parse_prompt, parse_skill, parse_template,
    parse_workflow,
};
use platform::{ConfinedDir, confined::Kind};

use super::{note, ok, warn};
use crate::{config::Config, render::Finding};

/// The largest file that is read; the daemon has the same limit.
const FILE_SIZE_MAX: u64 = 4 * 1024 * 1024;

const TEMPLATES: &str = "templates";

pub(super) fn check(config: &Config) -> Vec<Finding> {
    let shown = config.configs_dir.display();
    let Ok(configs) = ConfinedDir::open(&config.configs_dir) else {
        return vec![note(
            "configs",
            format!("{shown} is not there yet"),
            "agentcraft up writes samples",
        )];
    };
    let folders = ComponentKind::ALL.map(|kind| (kind.folder(), Some(kind)));
    let mut findings = Vec::new();
    let mut count = 0;
    for (folder, kind) in folders.into_iter().chain([(TEMPLATES, None)]) {
        for entry in configs.list(folder).unwrap_or_default() {
            let Some(name) = entry.name.to_str().filter(|_| entry.kind == Kind::File) else {
                continue;
            };
            let Some(format) = Format::from_path(name) else {
                continue;
            };
            count += 1;
            let path = format!("{folder}/{name}");
            findings.extend(look(&configs, &config.configs_dir, &path, kind, format));
        }
    }
    if findings.is_empty() {
        findings.push(ok("configs", format!("{count} files in {shown}")));
    }
    findings
}

fn look(
    configs: &ConfinedDir,
    folder: &Path,
    path: &str,
    kind: Option<ComponentKind>,
    format: Format,
) -> Option<Finding> {
    let remedy = match kind {
        None => format!(
            "agentcraft template validate {}",
            folder.join(path).display()
        ),
        Some(kind) => format!("agentcraft schema {} shows what belongs there", word(kind)),
    };
    let broken = |message: String| {
        Some(warn(
            "configs",
            format!("{path}: {message}"),
            remedy.as_str(),
        ))
    };
    let bytes = match configs.read(path, FILE_SIZE_MAX) {
        Ok(bytes) => bytes,
        Err(error) => return broken(error.to_string()),
    };
    let Ok(text) = std::str::from_utf8(&bytes) else {
        return broken("is not UTF-8 text".to_owned());
    };
    let problems = problems(text, kind, format, path);
    let first = problems.first()?;
    match problems.len() {
        1 => broken(first.to_string()),
        count => broken(format!("{first} (and {} more)", count - 1)),
    }
}

fn problems(text: &str, kind: Option<ComponentKind>, format: Format, path: &str) -> Vec<Problem> {
    let stem = Path::new(path)
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or_default();
    match kind {
        None => parse_template(text, format).problems,
        Some(ComponentKind::Skill) => parse_skill(text, format).problems,
        Some(ComponentKind::Prompt) => parse_prompt(text, format).problems,
        Some(ComponentKind::McpServer) => parse_mcp_server(text, format).problems,
        Some(ComponentKind::Workflow) => parse_workflow(text, format, stem).problems,
    }
}

/// How the command line calls a kind.
fn word(kind: ComponentKind) -> &'static str {
    match kind {
        ComponentKind::Skill => "skill",
        ComponentKind::Prompt => "prompt",
        ComponentKind::McpServer => "mcp",
        ComponentKind::Workflow => "workflow",
    }
}
