//! `agentcraft run`: one prompt to an agent of any node.

use std::path::PathBuf;

use clap::Args;

use super::TalkFormatArgs;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    agentcraft run http://nova9.local:7420 \"what is on today?\" --agent calendar\n  \
    agentcraft run https://build-box:7420 - --token-file ~/.build-box.token < task.md")]
pub(crate) struct RemoteRunArgs {
    /// Address of the node
    pub(crate) url: String,
    /// What to tell the agent; `-` reads it from stdin
    #[arg(value_name = "TEXT")]
    pub(crate) prompt: String,
    /// Which of its agents; the node decides unless given
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// A file that holds a token of that node
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// `sha256:` and the hash of the certificate that the node must show
    #[arg(long, value_name = "HASH")]
    pub(crate) fingerprint: Option<String>,
    #[command(flatten)]
    pub(crate) output: TalkFormatArgs,
}
