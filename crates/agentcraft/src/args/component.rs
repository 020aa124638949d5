//! `agentcraft skill|prompt|mcp|workflow …`: the same two commands for each kind of component.

use clap::{Args, Subcommand};
use domain::Name;

use super::{Format, FormatArgs};

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
