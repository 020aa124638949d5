//! `agentcraft acp-serve`: workflows as an agent for an editor.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    agentcraft acp-serve\n  \
    agentcraft acp-serve --workflows ./flows\n  \
    awf acp-serve --config acp.yaml")]
pub(crate) struct AcpServeArgs {
    /// File with `workflows_dir`, in YAML or JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Folder of workflows, looked into before all others
    #[arg(long, value_name = "DIR")]
    pub(crate) workflows: Option<PathBuf>,
}
