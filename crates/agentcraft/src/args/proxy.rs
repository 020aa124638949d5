//! `agentcraft proxy`.

use clap::{Args, ValueEnum};
use domain::Name;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    agentcraft proxy reviewer\n  \
    agentcraft proxy reviewer -t code-review\n  \
    agentcraft proxy reviewer --cwd client")]
pub(crate) struct ProxyArgs {
    /// Name of the agent
    pub(crate) name: Name,
    /// Template to create it from if there is no such agent
    #[arg(short, long)]
    pub(crate) template: Option<Name>,
    /// Where sessions work: in the agent's workspace, or in the editor's folder if the template allows it
    #[arg(long, value_name = "WHERE", value_enum, default_value_t)]
    pub(crate) cwd: SessionFolder,
    /// Refused: the agent is a child of this command and is given what it needs of its environment
    #[arg(long)]
    pub(crate) env_passthrough: bool,
}

/// Whose folder sessions work in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SessionFolder {
    #[default]
    Workspace,
    Client,
}
