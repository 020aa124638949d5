//! `agentcraft workflow …`: what there is, whether it is right, and what it would do. Running is in `run`, runs that were
//! are in `past`.

mod live;
mod past;
mod run;

use std::path::{Path, PathBuf};

pub(crate) use past::past_runs;

use platform::files::{self, Durability, Mode};
use runner::{Found, Shelf, ShelfError, StartError};
use serde_json::{Value, json};
use wire::daemon::Empty;
use workflow::{Code, Mask, Plan, Problem};

use super::component;
use crate::{
    args::{
        ComponentCommand, Format, GraphArgs, NewArgs, ShowArgs, ShowWorkflowArgs, WorkflowCommand,
    },
    config::Config,
    connection::Connection,
    endpoints,
    error::CommandError,
    exit::Exit,
    network,
    render::{Screen, component_table, many_lines, one_line, problem_lines, workflow_detail},
};

/// A workflow to begin with.
const SKELETON: &str = include_str!("workflow/skeleton.yaml");

pub(super) fn run(
    command: WorkflowCommand,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    match command {
        WorkflowCommand::List(output) => list(output.format, config, screen),
        WorkflowCommand::Show(arguments) => show(arguments, config, screen),
        WorkflowCommand::Validate(arguments) => validate(&arguments, config, screen),
        WorkflowCommand::Run(arguments) => run::run(arguments, config, screen),
        WorkflowCommand::Resume(arguments) => run::resume(arguments, config, screen),
        WorkflowCommand::Rerun(arguments) => run::rerun(arguments, config, screen),
        WorkflowCommand::Status(arguments) => past::status(&arguments, config, screen),
        WorkflowCommand::History(arguments) => past::history(&arguments, config, screen),
        WorkflowCommand::Cancel(arguments) => past::cancel(&arguments, config, screen),
        WorkflowCommand::Graph(arguments) => graph(&arguments, config, screen),
        WorkflowCommand::New(arguments) => new(&arguments, screen),
    }
}

/// Where the files are, for commands of this home.
struct Place {
    shelf: Shelf,
    cwd: PathBuf,
}

impl Place {
    fn here(config: &Config) -> Result<Self, CommandError> {
        Ok(Self {
            shelf: endpoints::shelf(config),
            cwd: current_dir()?,
        })
    }

    fn find(&self, name: &str) -> Result<Found, ShelfError> {
        self.shelf.find(&self.cwd, name)
    }
}

/// What is never shown, whichever run it is from.
fn mask(config: &Config) -> Mask {
    runner::mask(&config.environment, &config.secret_names)
}

fn current_dir() -> Result<PathBuf, CommandError> {
    std::env::current_dir()
        .map_err(|error| CommandError::machine("find the folder to work in", error))
}

/// Those that are files here, and those that only the daemon knows, if there is one.
fn list(format: Format, config: &Config, screen: &mut Screen) -> Result<(), CommandError> {
    let place = Place::here(config)?;
    let mut rows: Vec<Value> = Vec::new();
    for found in place.shelf.list(&place.cwd) {
        // A text for people is a component, which the daemon tells of.
        if is_component(&found, config) {
            continue;
        }
        rows.push(row(&found, &place.cwd));
    }
    for component in components(config) {
        if !rows.iter().any(|row| row["name"] == component["name"]) {
            rows.push(component);
        }
    }
    rows.sort_by_key(|row| row["name"].as_str().unwrap_or_default().to_owned());
    super::list(screen, format, &rows, component_table)
}

/// The daemon's own; none if it does not run.
fn components(config: &Config) -> Vec<Value> {
    let Ok(mut connection) = Connection::open(config) else {
        return Vec::new();
    };
    let Ok(answer) = connection.ask("workflow.list", &Empty {}) else {
        return Vec::new();
    };
    connection.read("workflow.list", answer).unwrap_or_default()
}

/// A workflow, or why it is none.
fn row(found: &Found, cwd: &Path) -> Value {
    let path = found.path.to_string_lossy();
    let invalid = |words: String, problems: Value| {
        json!({
            "name": found.name, "description": format!("invalid: {words}"), "path": path,
            "valid": false, "problems": problems,
        })
    };
    match found.load(cwd) {
        Err(error) => invalid(engine::chain(&error), json!([])),
        Ok(loaded) => match loaded.plan {
            Some(plan) => json!({
                "name": found.name, "description": plan.description, "tags": plan.tags,
                "path": path, "steps": plan.written_steps().count(),
            }),
            None => {
                let words = workflow::gravest(&loaded.problems).map(ToString::to_string);
                invalid(words.unwrap_or_default(), json!(loaded.problems))
            }
        },
    }
}

/// A file of the node without `states` is text for people, not steps. What cannot be read as YAML is neither.
fn is_component(found: &Found, config: &Config) -> bool {
    let is_of_node = found.path.parent() == Some(&config.configs_dir.join("workflows"));
    let text = found.text().unwrap_or_default();
    let is_yaml = || {
        let loaded = workflow::load(&text, &|_| Err(String::new()));
        let is_syntax = |problem: &Problem| problem.code == Code::YamlSyntax;
        !loaded.problems.iter().any(is_syntax)
    };
    is_of_node && !text.lines().any(|line| line.starts_with("states:")) && is_yaml()
}

fn show(
    arguments: ShowWorkflowArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let place = Place::here(config)?;
    let found = place.find(&arguments.workflow);
    let plan = match &found {
        Ok(found) if !is_component(found, config) => {
            runner::shown(load(found, &place.cwd, screen)?, &config.secret_names)
        }
        Ok(_) | Err(ShelfError::Missing { .. }) => {
            let Ok(name) = arguments.workflow.parse() else {
                return Err(missing(&arguments.workflow, &place));
            };
            let output = arguments.output;
            let show = ComponentCommand::Show(ShowArgs { name, output });
            return component::run(component::Kind::Workflow, show, config, screen);
        }
        Err(error) => return Err(CommandError::machine("read the workflow", words(error))),
    };
    match arguments.output.format {
        Format::Json => screen.json(&plan)?,
        Format::Quiet => screen.line(&arguments.workflow)?,
        Format::Table => {
            let mut text = workflow_detail(&plan, screen.style());
            text.push('\n');
            text.push_str(&many_lines(&workflow::graph_text(&plan)));
            screen.print(&text)?;
        }
    }
    Ok(())
}

fn validate(
    arguments: &ShowWorkflowArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let place = Place::here(config)?;
    let found = find(&place, &arguments.workflow)?;
    let mut loaded = found.load(&place.cwd).map_err(|error| failed(&error))?;
    let home = platform::system::home_dir(&config.environment);
    let missing = runner::missing(
        &loaded.mentions,
        &place.cwd,
        &config.environment,
        home.as_deref(),
    );
    loaded.problems.extend(missing);
    loaded
        .problems
        .sort_by_key(|problem| (problem.line, problem.column));
    let file = found.path.display().to_string();
    let is_valid = loaded.plan.is_some();
    match arguments.output.format {
        Format::Json => screen.json(&json!({
            "file": file, "valid": is_valid, "problems": loaded.problems,
        }))?,
        Format::Quiet => {}
        Format::Table => {
            screen.print(&problem_lines(&file, &loaded.problems, screen.style()))?;
            if is_valid {
                let verdict = match loaded.problems.is_empty() {
                    true => "valid",
                    false => "valid, with warnings",
                };
                screen.line(&format!("{file}: {verdict}"))?;
            }
        }
    }
    match is_valid {
        true => Ok(()),
        false => {
            let code = workflow::exit_code(&loaded.problems).max(1);
            Err(CommandError::Shown(Exit::of_run(code)))
        }
    }
}

fn graph(arguments: &GraphArgs, config: &Config, screen: &mut Screen) -> Result<(), CommandError> {
    let place = Place::here(config)?;
    let found = find(&place, &arguments.workflow)?;
    let plan = load(&found, &place.cwd, screen)?;
    match (arguments.output.format, arguments.mermaid) {
        (Format::Json, _) => screen.json(&network::described(
            &found.name,
            &runner::offered(plan, &config.secret_names),
        ))?,
        (Format::Quiet, _) => plan
            .written_steps()
            .try_for_each(|step| screen.line(&one_line(&step.name)))?,
        (Format::Table, true) => screen.print(&many_lines(&workflow::graph_mermaid(&plan)))?,
        (Format::Table, false) => screen.print(&many_lines(&workflow::graph_text(&plan)))?,
    }
    Ok(())
}

fn new(arguments: &NewArgs, screen: &mut Screen) -> Result<(), CommandError> {
    let folder = current_dir()?.join(".agentcraft/workflows");
    let path = folder.join(format!("{}.yaml", arguments.name));
    if files::is_there(&path) {
        return Err(CommandError::Refused {
            message: format!("there is a workflow {} already", arguments.name),
            hint: format!("it is in {}", path.display()),
        });
    }
    let attempt = |error| CommandError::machine(format!("write {}", path.display()), error);
    files::create_dir_all(&folder).map_err(attempt)?;
    let text = SKELETON.replace("NAME", arguments.name.as_str());
    files::write_atomic(
        &path,
        text.as_bytes(),
        Mode::SHARED,
        Durability::ProcessDeath,
    )
    .map_err(attempt)?;
    let written = path.display().to_string();
    let answer = json!({ "name": arguments.name, "path": written });
    let format = arguments.output.format;
    super::done(&answer, arguments.name.as_str(), &written, format, screen)?;
    if format == Format::Table {
        screen.note(&format!(
            "run it with `agentcraft workflow run {}`",
            arguments.name
        ))?;
    }
    Ok(())
}

fn find(place: &Place, name: &str) -> Result<Found, CommandError> {
    place.find(name).map_err(|error| match error {
        ShelfError::Missing { .. } => missing(name, place),
        other => failed(&other),
    })
}

/// The plan; what is wrong with the file stands on the screen otherwise.
fn load(found: &Found, cwd: &Path, screen: &mut Screen) -> Result<Plan, CommandError> {
    let plan = found.plan(cwd).map_err(StartError::Shelf);
    plan.map_err(|error| refuse(&error, Some(found), screen))
}

/// Says why nothing was run.
fn refuse(error: &StartError, found: Option<&Found>, screen: &mut Screen) -> CommandError {
    if let StartError::NoRun { .. } = error {
        let hint = "`agentcraft workflow history` shows those there are";
        return CommandError::not_found(error.to_string(), hint);
    }
    let problems = error.problems();
    if problems.is_empty() {
        let code = error.exit_code();
        if let Err(error) = screen.note(&format!("error: {}", engine::chain(error))) {
            return error.into();
        }
        return CommandError::Shown(Exit::of_run(code));
    }
    let file = match (error, found) {
        (StartError::Shelf(_), Some(found)) => found.path.display().to_string(),
        _ => String::new(),
    };
    let lines = problem_lines(&file, problems, screen.err_style());
    match screen.aside(&lines) {
        Ok(()) => CommandError::Shown(Exit::of_run(error.exit_code())),
        Err(error) => error.into(),
    }
}

fn missing(name: &str, place: &Place) -> CommandError {
    let known = place.shelf.list(&place.cwd).into_iter();
    let known: Vec<String> = known.map(|found| found.name).collect();
    let hint = match known.is_empty() {
        true => "`agentcraft workflow new NAME` writes one to begin with".to_owned(),
        false => format!("there are {}", known.join(", ")),
    };
    CommandError::Refused {
        message: format!("there is no workflow called {name}"),
        hint,
    }
}

fn failed(error: &ShelfError) -> CommandError {
    CommandError::machine("read the workflow", words(error))
}

fn words(error: &ShelfError) -> anyhow::Error {
    anyhow::anyhow!("{}", engine::chain(error))
}
