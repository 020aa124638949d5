//! `agentcraft proxy`, and `agentcraft editor`, which tells editors of it.

use clap::{Args, ValueEnum};
use domain::Name;

use super::TargetArg;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    agentcraft proxy reviewer\n  \
    agentcraft proxy reviewer -t code-review\n  \
    agentcraft proxy reviewer --lease\n  \
    agentcraft proxy workflow:triage\n  \
    agentcraft proxy reviewer --cwd client")]
pub(crate) struct ProxyArgs {
    /// The agent: its name, or a target such as workflow:NAME or peer:NODE/AGENT, which is always leased
    #[arg(value_name = "TARGET")]
    pub(crate) name: TargetArg,
    /// Template to create it from if there is no such agent
    #[arg(short, long)]
    pub(crate) template: Option<Name>,
    /// Use the agent that the daemon runs, which other clients may use too, instead of starting one
    #[arg(long)]
    pub(crate) lease: bool,
    /// Where sessions work: in the agent's workspace, or in the editor's folder if the template allows it
    #[arg(long, value_name = "WHERE", value_enum, default_value_t)]
    pub(crate) cwd: SessionFolder,
    /// Refused: the agent is a child of this command and is given what it needs of its environment
    #[arg(long)]
    pub(crate) env_passthrough: bool,
}

/// `agentcraft editor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    agentcraft editor zed reviewer\n  \
    agentcraft editor neovim reviewer --lease\n  \
    agentcraft editor jetbrains reviewer -t code-review")]
pub(crate) struct EditorArgs {
    /// Whose settings it is for
    #[arg(value_enum)]
    pub(crate) editor: EditorKind,
    /// The agent: its name, or a target such as workflow:NAME
    #[arg(value_name = "TARGET")]
    pub(crate) name: TargetArg,
    /// Template to create it from if there is no such agent
    #[arg(short, long)]
    pub(crate) template: Option<Name>,
    /// Use the agent that the daemon runs
    #[arg(long)]
    pub(crate) lease: bool,
    /// Where sessions work: in the agent's workspace, or in the editor's folder if the template allows it
    #[arg(long, value_name = "WHERE", value_enum, default_value_t)]
    pub(crate) cwd: SessionFolder,
}

/// Editors whose settings we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EditorKind {
    Zed,
    Neovim,
    Jetbrains,
}

/// Whose folder sessions work in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SessionFolder {
    #[default]
    Workspace,
    Client,
}
