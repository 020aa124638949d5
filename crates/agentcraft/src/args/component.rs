//! `agentcraft skill|prompt|mcp|workflow …`: the same two commands for each kind of component.

use clap::{Args, Subcommand};
use domain::Name;

use super::{Format, FormatArgs, McpOfficeArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum ComponentCommand {
    /// List those the daemon has loaded
    #[command(
        after_help = "Examples:\n  agentcraft skill list\n  agentcraft workflow list -f quiet"
    )]
    List(FormatArgs),
    /// Show one of them
    #[command(
        after_help = "Examples:\n  agentcraft skill show review\n  agentcraft prompt show system -f json"
    )]
    Show(ShowArgs),
}

/// MCP servers are components, and we are one ourselves.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    #[command(flatten)]
    Component(ComponentCommand),
    /// Be an MCP server on stdio, through which other agents use the daemon's
    ///
    /// For the settings of Claude Code, Codex, Cursor, Zed and other clients. Tools create, prompt, run and show agents;
    /// agents, sessions and templates are resources. It ends when its client closes its input.
    #[command(
        after_help = "Examples:\n  agentcraft mcp serve\n  claude mcp add agentcraft -- agentcraft mcp serve"
    )]
    Serve,
    /// Be an MCP server on stdio, which offers the tools of an office
    ///
    /// Joins the office as its agent. Tools of computers that enter or change are offered by themselves, and those of
    /// computers that leave are dropped. It ends when its client closes its input.
    Office(Box<McpOfficeArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Its name
    pub(crate) name: Name,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

impl ComponentCommand {
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::List(output) => output.format,
            Self::Show(arguments) => arguments.output.format,
        }
    }
}

impl McpCommand {
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Component(command) => command.format(),
            Self::Serve | Self::Office(_) => Format::Table,
        }
    }
}
