//! `agentcraft skill|prompt|mcp|workflow list|show`.

use serde_json::Value;
use wire::daemon::{Empty, NameParams};

use crate::{
    args::{ComponentCommand, Format},
    config::Config,
    connection::Connection,
    error::CommandError,
    render::{Screen, component_detail, component_table},
};

/// The kinds of components, by the word that names them on the command line and on the socket.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Skill,
    Prompt,
    Mcp,
    Workflow,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Skill => "skill",
            Self::Prompt => "prompt",
            Self::Mcp => "mcp",
            Self::Workflow => "workflow",
        }
    }
}

pub(super) fn run(
    kind: Kind,
    command: ComponentCommand,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let mut connection = Connection::open(config)?;
    match command {
        ComponentCommand::List(output) => {
            let method = format!("{}.list", kind.word());
            let answer = connection.ask(&method, &Empty {})?;
            let components: Vec<Value> = connection.read(&method, answer)?;
            super::list(screen, output.format, &components, component_table)
        }
        ComponentCommand::Show(arguments) => {
            let params = NameParams {
                name: arguments.name.to_string(),
            };
            let component = connection.ask(&format!("{}.get", kind.word()), &params)?;
            match arguments.output.format {
                Format::Json => screen.json(&component)?,
                Format::Quiet => screen.line(arguments.name.as_str())?,
                Format::Table => screen.print(&component_detail(&component, screen.style()))?,
            }
            Ok(())
        }
    }
}
