//! `agentcraft template …`.

use std::path::{Component, Path, PathBuf};

use catalog::{Checked, Template};
use serde_json::Value;
use wire::daemon::{Empty, FileParams, NameParams, Problem, TemplateProblems, ValidateResult};

use crate::{
    args::{Format, TemplateCommand},
    config::{Config, ConfigError},
    connection::Connection,
    error::CommandError,
    exit::Exit,
    render::{Screen, broken_file, template_detail, template_table, validation},
};

/// The largest file that is read as a template: what the daemon accepts too.
const FILE_SIZE_MAX: u64 = 1024 * 1024;

pub(super) fn run(
    command: TemplateCommand,
    config: impl FnOnce() -> Result<Config, ConfigError>,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    match command {
        TemplateCommand::List(output) => {
            list(&mut Connection::open(&config()?)?, output.format, screen)
        }
        TemplateCommand::Show(arguments) => {
            let params = NameParams {
                name: arguments.name.to_string(),
            };
            let template = Connection::open(&config()?)?.ask("template.get", &params)?;
            show(&template, arguments.output.format, screen)
        }
        TemplateCommand::Validate(arguments) => {
            validate(&arguments.file, arguments.output.format, screen)
        }
        TemplateCommand::Load(arguments) => {
            let path = absolute(&arguments.file)?;
            let params = FileParams {
                file_path: path.to_string_lossy().into_owned(),
            };
            let template = Connection::open(&config()?)?.ask("template.load", &params)?;
            match arguments.output.format {
                Format::Table => {
                    let name = template
                        .get("name")
                        .and_then(Value::as_str)
                        .unwrap_or_default();
                    screen.line(&format!("loaded template {name}"))?;
                    Ok(())
                }
                format @ (Format::Json | Format::Quiet) => show(&template, format, screen),
            }
        }
    }
}

fn list(
    connection: &mut Connection,
    format: Format,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let answer = connection.ask("template.list", &Empty {})?;
    let templates: Vec<Value> = connection.read("template.list", answer)?;
    super::list(screen, format, &templates, template_table)?;
    let broken: Vec<TemplateProblems> = connection.call("template.problems", &Empty {})?;
    for file in &broken {
        screen.warning(broken_file(file).trim_end())?;
    }
    Ok(())
}

fn show(template: &Value, format: Format, screen: &mut Screen) -> Result<(), CommandError> {
    match format {
        Format::Json => screen.json(template)?,
        Format::Quiet => screen.line(
            template
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default(),
        )?,
        Format::Table => screen.print(&template_detail(template, screen.style()))?,
    }
    Ok(())
}

/// Reads the file here rather than in the daemon: a template is written before there is one.
fn validate(file: &Path, format: Format, screen: &mut Screen) -> Result<(), CommandError> {
    let result = check(file)?;
    match format {
        Format::Json => screen.json(&result)?,
        Format::Quiet => {}
        Format::Table => screen.print(&validation(file, &result, screen.style()))?,
    }
    if result.valid {
        Ok(())
    } else {
        Err(CommandError::Shown(Exit::Invalid))
    }
}

fn check(file: &Path) -> Result<ValidateResult, CommandError> {
    let bytes = platform::files::read_bounded(file, FILE_SIZE_MAX).map_err(|error| match error
        .is_not_found()
    {
        true => CommandError::NoFile {
            path: file.to_owned(),
        },
        false => CommandError::machine("check the template", error),
    })?;
    let checked = match (
        catalog::Format::from_path(&file.to_string_lossy()),
        std::str::from_utf8(&bytes),
    ) {
        (None, _) => {
            return Ok(invalid(
                "the name of a template's file ends with .json, .yaml or .yml",
            ));
        }
        (_, Err(_)) => return Ok(invalid("the file is not UTF-8 text")),
        (Some(format), Ok(text)) => catalog::parse_template(text, format),
    };
    result(&checked)
}

fn invalid(message: &str) -> ValidateResult {
    let problem = Problem {
        path: String::new(),
        message: message.to_owned(),
        line: None,
        column: None,
    };
    ValidateResult {
        valid: false,
        template: None,
        errors: vec![problem],
        warnings: Vec::new(),
    }
}

fn result(checked: &Checked<Template>) -> Result<ValidateResult, CommandError> {
    let template = checked.value.as_ref().map(serde_json::to_value).transpose();
    Ok(ValidateResult {
        valid: checked.is_valid(),
        template: template
            .map_err(|error| CommandError::machine("write the template as JSON", error))?,
        errors: checked.errors().map(problem).collect(),
        warnings: checked.warnings().map(problem).collect(),
    })
}

fn problem(problem: &catalog::Problem) -> Problem {
    let number = |position: Option<u64>| position.and_then(|position| u32::try_from(position).ok());
    Problem {
        path: problem.path.clone(),
        message: problem.message.clone(),
        line: number(problem.line),
        column: number(problem.column),
    }
}

/// The daemon works elsewhere, so a relative path has to be made absolute here.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, CommandError> {
    let whole = std::path::absolute(path).map_err(|error| {
        CommandError::machine(format!("make {} absolute", path.display()), error)
    })?;
    // `..` is meant as it was typed, and what it is in may be a link.
    let has_parent = whole.components().any(|part| part == Component::ParentDir);
    Ok(match has_parent {
        true => resolved(&whole).unwrap_or(whole),
        false => whole,
    })
}

/// Without `..` and links; the last part need not be there yet.
fn resolved(path: &Path) -> Option<PathBuf> {
    if let Ok(whole) = path.canonicalize() {
        return Some(whole);
    }
    Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?))
}
