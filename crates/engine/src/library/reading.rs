//! Reading the configs folder: which file is what, and what is wrong with it.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    path::Path,
};

use catalog::{
    Checked, ComponentKind, Format, Problem, Severity, Template, parse_mcp_server, parse_prompt,
    parse_skill, parse_template, parse_workflow,
};
use domain::Name;
use platform::files;

use super::{FileProblems, Shelf};
use crate::EngineError;

/// The folder of templates below the configs folder.
const TEMPLATES: &str = "templates";

/// The longest file: a skill is prose, and even a long one is far below this.
const FILE_MAX: u64 = 4 * 1024 * 1024;

pub(super) fn read_shelf(configs_dir: &Path) -> Shelf {
    let mut shelf = Shelf::default();
    let mut problems = Vec::new();
    let templates = read_folder(
        &configs_dir.join(TEMPLATES),
        &mut problems,
        |text, format, _| {
            name_of(parse_template(text, format), |template| {
                template.name.clone()
            })
        },
    );
    shelf.templates = templates
        .into_iter()
        .map(|(name, template)| (name, template.into()))
        .collect();
    for kind in ComponentKind::ALL {
        let folder = configs_dir.join(kind.folder());
        let found = &mut problems;
        match kind {
            ComponentKind::Skill => {
                shelf.components.skills = read_folder(&folder, found, |text, format, _| {
                    name_of(parse_skill(text, format), |it| it.name.clone())
                });
            }
            ComponentKind::Prompt => {
                shelf.components.prompts = read_folder(&folder, found, |text, format, _| {
                    name_of(parse_prompt(text, format), |it| it.name.clone())
                });
            }
            ComponentKind::McpServer => {
                shelf.components.mcp_servers = read_folder(&folder, found, |text, format, _| {
                    name_of(parse_mcp_server(text, format), |it| it.name.clone())
                });
            }
            ComponentKind::Workflow => {
                shelf.components.workflows = read_folder(&folder, found, |text, format, stem| {
                    name_of(parse_workflow(text, format, stem), |it| it.name.clone())
                });
            }
        }
    }
    shelf.problems = problems;
    shelf
}

/// A template file anywhere on this machine.
pub(super) fn read_template(path: &Path) -> Result<Checked<Template>, EngineError> {
    if !files::is_there(path) {
        return Err(EngineError::FileNotFound {
            path: path.to_owned(),
        });
    }
    Ok(match read_text(path) {
        Ok((text, format)) => parse_template(&text, format),
        Err(problem) => Checked {
            value: None,
            problems: vec![problem],
        },
    })
}

fn name_of<T>(
    checked: Checked<T>,
    name: impl FnOnce(&T) -> Name,
) -> (Option<(Name, T)>, Vec<Problem>) {
    (
        checked.value.map(|value| (name(&value), value)),
        checked.problems,
    )
}

/// Every usable file of one folder by the name inside it. Files are taken in order, so of two with the same name the
/// first one holds, whatever the disk says.
fn read_folder<T>(
    folder: &Path,
    found: &mut Vec<FileProblems>,
    parse: impl Fn(&str, Format, &str) -> (Option<(Name, T)>, Vec<Problem>),
) -> BTreeMap<Name, T> {
    let mut values = BTreeMap::new();
    let Ok(mut paths) = files::list(folder) else {
        return values; // A folder that is not there holds nothing.
    };
    paths.sort();
    for path in paths
        .into_iter()
        .filter(|path| Format::from_path(&path.to_string_lossy()).is_some())
    {
        let stem = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let (value, mut problems) = match read_text(&path) {
            Ok((text, format)) => parse(&text, format, &stem),
            Err(problem) => (None, vec![problem]),
        };
        if let Some((name, value)) = value {
            match values.entry(name) {
                Entry::Vacant(place) => {
                    place.insert(value);
                }
                Entry::Occupied(first) => {
                    let name = first.key();
                    let message = format!("another file of this folder is called {name} already");
                    problems.push(whole_file(message));
                }
            }
        }
        if !problems.is_empty() {
            found.push(FileProblems {
                file: path,
                problems,
            });
        }
    }
    values
}

fn read_text(path: &Path) -> Result<(String, Format), Problem> {
    let format = Format::from_path(&path.to_string_lossy())
        .ok_or_else(|| whole_file("a file ends in .json, .yaml or .yml".to_owned()))?;
    let bytes =
        files::read_bounded(path, FILE_MAX).map_err(|error| whole_file(error.to_string()))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| whole_file("the file is not UTF-8 text".to_owned()))?;
    Ok((text, format))
}

fn whole_file(message: String) -> Problem {
    Problem {
        path: String::new(),
        message,
        severity: Severity::Error,
        line: None,
        column: None,
    }
}
