//! `agentcraft office …`: the agent's side of an office, one question at a time.

use std::time::Duration;

use platform::Tasks;
use serde_json::{Map, Value, json};
use smcp::{
    LinkError, Standing,
    agent::{Agent, Call},
};
use tokio_util::sync::CancellationToken;
use wire::smcp::{CallResult, Profile};

use super::{mcp_serve::stop_on_signals, office_serve, print_values};
use crate::{
    args::{
        Format, OfficeCallArgs, OfficeCommand, OfficeConfigArgs, OfficeDesktopArgs,
        OfficeSkillsArgs, OfficeToolsArgs, OfficeUploadArgs, PlaceArgs, ReportFormat,
    },
    config::Config,
    error::CommandError,
    exit::Exit,
    office,
    render::{Screen, many_lines},
};

/// How long the office has to let us in: a command that waits longer is taken for dead.
const JOIN_MAX: Duration = Duration::from_secs(20);

/// How long leaving may take; the office notices in any case.
const LEAVE_MAX: Duration = Duration::from_secs(2);

/// The largest file that computers take.
const UPLOAD_MAX: u64 = 100 * 1024 * 1024;

/// What is said of a list in which nothing is.
const NOBODY: &str =
    "nobody is there; `agentcraft computer join URL OFFICE` lends tools of a machine";
const NO_TOOLS: &str =
    "there are no tools; `agentcraft computer join URL OFFICE` lends those of MCP servers";
const NO_SKILLS: &str = "it has no skills; `agentcraft computer join --skills FOLDER` lends some";
const NO_SERVERS: &str =
    "it has no MCP servers; `agentcraft computer join --config FILE` names some";

pub(super) fn run(
    command: OfficeCommand,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    match command {
        OfficeCommand::Serve(arguments) => office_serve::run(&arguments, config, screen),
        OfficeCommand::Tools(arguments) => tools(&arguments, config, screen),
        OfficeCommand::Call(arguments) => call(&arguments, config, screen),
        OfficeCommand::Desktop(arguments) => desktop(&arguments, config, screen),
        OfficeCommand::Config(arguments) => show_config(&arguments, config, screen),
        OfficeCommand::Skills(arguments) => skills(&arguments, config, screen),
        OfficeCommand::Upload(arguments) => upload(&arguments, config, screen),
        OfficeCommand::Rooms(arguments) => {
            let members = ask(&arguments.place, config, async |agent, _| {
                agent.members().await
            })?;
            let rows: Vec<Value> = members.iter().map(|member| json!(member)).collect();
            let fields = [
                ("NAME", "/name"),
                ("ROLE", "/role"),
                ("VERSION", "/a2c_version"),
            ];
            print_values(&rows, fields, NOBODY, arguments.output.format, screen)
        }
    }
}

/// Joins, asks, leaves. The token is cancelled by Ctrl-C.
fn ask<T>(
    place: &PlaceArgs,
    config: &Config,
    question: impl AsyncFnOnce(&Agent, &CancellationToken) -> Result<T, LinkError>,
) -> Result<T, CommandError> {
    let link = office::link(place, office::AGENT, config)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::machine("start the runtime", error))?;
    runtime.block_on(async {
        let stop = stop_on_signals()?;
        let tasks = Tasks::new();
        // The news are of no use to one question, but whoever drops them ends the connection.
        let (agent, _news) = Agent::start(link, &tasks);
        let asked = async {
            let joined = tokio::select! { biased;
                () = stop.cancelled() => Err(LinkError::Lost),
                joined = tokio::time::timeout(JOIN_MAX, reached(&agent)) => {
                    joined.unwrap_or(Err(LinkError::TimedOut))
                }
            };
            joined.map_err(|error| office::not_let_in(&error, place))?;
            let answer = question(&agent, &stop).await;
            answer.map_err(|error| office::refusal(&error, place))
        };
        let answer = asked.await;
        let _ = tasks.drain(LEAVE_MAX).await; // The process ends now, and the connection with it.
        answer
    })
}

/// Waits until we are in, refused, or do not reach the server: a command does not go on trying.
async fn reached(agent: &Agent) -> Result<(), LinkError> {
    let mut standing = agent.standing();
    let unreachable =
        standing.wait_for(|standing| matches!(standing, Standing::Away { because: Some(_) }));
    tokio::select! { biased;
        joined = agent.joined() => joined,
        away = unreachable => match away.as_deref() {
            Ok(Standing::Away { because: Some(because) }) => Err(because.clone()),
            Ok(_) | Err(_) => Err(LinkError::Lost),
        },
    }
}

fn tools(
    arguments: &OfficeToolsArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let found = ask(&arguments.place, config, async |agent, _| {
        let computers = match &arguments.computer {
            Some(computer) => vec![computer.clone()],
            None => {
                let members = agent.members().await?;
                let computers = members
                    .into_iter()
                    .filter(|member| member.role == "computer");
                computers.map(|member| member.name).collect()
            }
        };
        let mut found = Vec::new();
        for computer in computers {
            found.push((agent.tools(&computer).await, computer));
        }
        Ok(found)
    })?;
    let mut rows = Vec::new();
    let mut failed = None;
    for (tools, computer) in found {
        match tools {
            Ok(tools) => rows.extend(tools.iter().map(|tool| row(&computer, &json!(tool)))),
            Err(error) if arguments.computer.is_some() => {
                return Err(office::refusal(&error, &arguments.place));
            }
            Err(error) => {
                screen.warning(&format!("{computer}: {error}"))?;
                failed = Some(CommandError::Shown(Exit::Failed));
            }
        }
    }
    let fields = [
        ("TOOL", "/name"),
        ("COMPUTER", "/computer"),
        ("DESCRIPTION", "/summary"),
    ];
    if arguments.output.format == Format::Json {
        for row in &mut rows {
            row.as_object_mut().and_then(|row| row.remove("summary"));
        }
    }
    print_values(&rows, fields, NO_TOOLS, arguments.output.format, screen)?;
    failed.map_or(Ok(()), Err)
}

/// A tool with the computer that has it, and the first line of what it says of itself.
fn row(computer: &str, tool: &Value) -> Value {
    let mut row = tool.clone();
    row["computer"] = json!(computer);
    let description = tool["description"].as_str().unwrap_or_default();
    row["summary"] = json!(description.lines().next().unwrap_or_default());
    row
}

fn call(
    arguments: &OfficeCallArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let params: Map<String, Value> =
        serde_json::from_str(&arguments.arguments).map_err(|error| CommandError::Refused {
            message: format!("the arguments are not a JSON object: {error}"),
            hint: "write them as '{\"name\": \"value\"}'".to_owned(),
        })?;
    let timeout = Duration::from_secs(arguments.timeout);
    let call = Call::new(&arguments.computer, &arguments.tool, params, timeout);
    let result = ask(&arguments.place, config, async |agent, stop| {
        agent.call(&call, stop).await
    })?;
    match arguments.format {
        ReportFormat::Json => screen.json(&result)?,
        ReportFormat::Table => show(&result, screen)?,
    }
    match result.is_error {
        true => Err(CommandError::Shown(Exit::Failed)),
        false => Ok(()),
    }
}

/// Text as it is; anything else by what it is.
fn show(result: &CallResult, screen: &mut Screen) -> Result<(), CommandError> {
    for item in &result.content {
        match (item["type"].as_str(), item["text"].as_str()) {
            // A tool of somebody else's shall not command the terminal; a program gets what was said.
            (Some("text"), Some(text)) if screen.width().is_some() => {
                screen.line(&many_lines(text))?
            }
            (Some("text"), Some(text)) => screen.line(text)?,
            (Some(kind), _) => {
                let mime = item["mimeType"].as_str().unwrap_or("of no type");
                screen.line(&format!("[{kind}, {mime}; -f json prints it]"))?;
            }
            (None, _) => screen.json(item)?,
        }
    }
    if let (true, Some(structured)) = (result.content.is_empty(), &result.structured_content) {
        screen.json(structured)?;
    }
    Ok(())
}

fn desktop(
    arguments: &OfficeDesktopArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let windows = ask(&arguments.place, config, async |agent, _| {
        let window = arguments.window.as_deref();
        agent
            .desktop(&arguments.computer, arguments.size, window)
            .await
    })?;
    match arguments.format {
        ReportFormat::Json => screen.json(&windows)?,
        ReportFormat::Table => {
            for window in windows {
                match screen.width() {
                    Some(_) => screen.line(&many_lines(&window))?,
                    None => screen.line(&window)?,
                }
            }
        }
    }
    Ok(())
}

fn skills(
    arguments: &OfficeSkillsArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let computer = &arguments.computer;
    if let Some(skill) = &arguments.skill {
        let file = ask(&arguments.place, config, async |agent, _| {
            let path = arguments.path.as_deref();
            agent.skill(computer, skill, path).await
        })?;
        return Ok(screen.bytes(&file.bytes)?);
    }
    let skills = ask(&arguments.place, config, async |agent, _| {
        agent.skills(computer).await
    })?;
    let fields = [
        ("SKILL", "/name"),
        ("SOURCE", "/source"),
        ("DESCRIPTION", "/description"),
    ];
    print_values(&skills, fields, NO_SKILLS, arguments.output.format, screen)
}

fn upload(
    arguments: &OfficeUploadArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let file = &arguments.file;
    let bytes = platform::files::read_bounded(file, UPLOAD_MAX)
        .map_err(|error| CommandError::machine(format!("read {}", file.display()), error))?;
    if bytes.is_empty() {
        return Err(CommandError::Refused {
            message: format!("{} is empty", file.display()),
            hint: "offices carry files of one byte or more".to_owned(),
        });
    }
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let path = ask(&arguments.place, config, async |agent, _| {
        agent.upload(&arguments.computer, &bytes, &name).await
    })?;
    Ok(screen.line(&path)?)
}

fn show_config(
    arguments: &OfficeConfigArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let answer = ask(&arguments.place, config, async |agent, _| {
        agent.config(&arguments.computer).await
    })?;
    let answer = answer.to_value(Profile::Shipped);
    if arguments.output.format == Format::Json {
        return Ok(screen.json(&answer)?);
    }
    let servers = answer["servers"].as_object().into_iter().flatten();
    let rows: Vec<Value> = servers
        .map(|(key, server)| {
            let reached = &server["server_parameters"];
            let place = reached["command"].as_str().or(reached["url"].as_str());
            let state = if server["disabled"] == true {
                "disabled"
            } else {
                ""
            };
            json!({ "name": key, "type": server["type"], "place": place, "state": state })
        })
        .collect();
    let fields = [
        ("SERVER", "/name"),
        ("TYPE", "/type"),
        ("COMMAND OR ADDRESS", "/place"),
        ("STATE", "/state"),
    ];
    print_values(&rows, fields, NO_SERVERS, arguments.output.format, screen)
}
