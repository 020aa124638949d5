//! `agentcraft policy …`: the permission rules, and what they would do.

use std::path::Path;

use domain::{
    permission::{Call, Policy, decide, is_destructive},
    turn::{Location, ToolCall, ToolKind, ToolStatus},
};
use serde_json::{Map, Value, json};
use wire::daemon::NameParams;

use crate::{
    args::{PolicyCommand, PolicyShowArgs, PolicyTestArgs, ReportFormat, TargetArg},
    config::{Config, ConfigError},
    connection::Connection,
    error::CommandError,
    render::{Screen, policy_rules, policy_verdict},
};

/// The largest file of rules: many times what the most rules take.
const FILE_SIZE_MAX: u64 = 1024 * 1024;

/// Stands for the workspace, so that relative paths lie in it.
const WORKSPACE: &str = "/workspace";

pub(super) fn run(
    command: PolicyCommand,
    config: impl FnOnce() -> Result<Config, ConfigError>,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    match command {
        PolicyCommand::Test(arguments) => {
            let policy = match &arguments.policy {
                Some(file) => read(file)?,
                None => layered(&config()?, arguments.template.as_ref())?,
            };
            test(&arguments, &policy, screen)
        }
        PolicyCommand::Show(arguments) => show(&arguments, &config()?, screen),
    }
}

fn test(
    arguments: &PolicyTestArgs,
    policy: &Policy,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let call = call(arguments);
    let verdict = decide(policy, &call);
    let (value, text) = policy_verdict(&verdict, is_destructive(&call));
    match arguments.format {
        ReportFormat::Json => screen.json(&value)?,
        ReportFormat::Table => screen.print(&text(screen.style()))?,
    }
    Ok(())
}

fn show(
    arguments: &PolicyShowArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let policy = layered(config, arguments.template.as_ref())?;
    match arguments.format {
        ReportFormat::Json => screen.json(&policy)?,
        ReportFormat::Table => screen.print(&policy_rules(&policy, screen.style()))?,
    }
    Ok(())
}

/// The call that an agent would make, as far as it was described.
fn call(arguments: &PolicyTestArgs) -> Call {
    let kind = match (&arguments.kind, &arguments.command) {
        (Some(word), _) => ToolKind::ALL
            .into_iter()
            .find(|(known, _)| known == word)
            .map_or(ToolKind::Other, |(_, kind)| kind),
        (None, Some(_)) => ToolKind::Execute,
        (None, None) => ToolKind::Other,
    };
    let locations = arguments.path.iter().map(|path| Location {
        path: path.clone(),
        line: None,
    });
    let input = arguments
        .command
        .as_ref()
        .map(|command| json!({ "command": command }).to_string());
    let tool = ToolCall {
        id: "test".to_owned(),
        title: arguments.tool.clone().unwrap_or_default(),
        name: arguments.tool.clone(),
        kind,
        status: ToolStatus::Pending,
        locations: locations.collect(),
        content: Vec::new(),
        input,
        output: None,
    };
    Call::of(&tool, WORKSPACE)
}

/// The node's rules, then the template's, as the daemon layers them.
fn layered(config: &Config, template: Option<&TargetArg>) -> Result<Policy, CommandError> {
    let home = platform::system::home_dir(&config.environment).unwrap_or_default();
    let node = config.policy.at_home(&home.to_string_lossy());
    let Some(name) = template else {
        return Ok(Policy::layered(&node, &Policy::default()));
    };
    let params = NameParams {
        name: name.to_string(),
    };
    let template = Connection::open(config)?.ask("template.get", &params)?;
    let rules = match template.get("permissions").and_then(Value::as_object) {
        Some(rules) => of_object(rules, "the template")?,
        None => Policy::default(),
    };
    Ok(Policy::layered(&node, &rules))
}

/// The rules in a file: a `permissions` object, or something that holds one, such as a template.
fn read(file: &Path) -> Result<Policy, CommandError> {
    let bytes = platform::files::read_bounded(file, FILE_SIZE_MAX).map_err(|error| match error
        .is_not_found()
    {
        true => CommandError::NoFile {
            path: file.to_owned(),
        },
        false => CommandError::machine("read the rules", error),
    })?;
    let attempt = || format!("read {} as JSON", file.display());
    let object: Map<String, Value> =
        serde_json::from_slice(&bytes).map_err(|error| CommandError::machine(attempt(), error))?;
    let inner = object.get("permissions").and_then(Value::as_object);
    of_object(inner.unwrap_or(&object), &file.display().to_string())
}

fn of_object(rules: &Map<String, Value>, whose: &str) -> Result<Policy, CommandError> {
    Policy::from_object(rules).map_err(|error| CommandError::Rules {
        whose: whose.to_owned(),
        problems: error
            .problems
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n"),
    })
}
