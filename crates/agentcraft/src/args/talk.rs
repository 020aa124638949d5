//! `agentcraft agent run|prompt|chat`: talking to agents.

use std::path::PathBuf;

use super::{Format, TargetArg};
use clap::{ArgGroup, Args, ValueEnum};

/// How an answer is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TalkFormat {
    /// What the agent says
    #[default]
    Text,
    /// For programs: one event per line, as they happen
    Json,
}

impl From<TalkFormat> for Format {
    fn from(format: TalkFormat) -> Self {
        match format {
            TalkFormat::Text => Self::Table,
            TalkFormat::Json => Self::Json,
        }
    }
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct TalkFormatArgs {
    /// How to print
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: TalkFormat,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("whom").required(true).args(["name", "template"])))]
pub(crate) struct RunArgs {
    /// The agent: its name, or workflow:NAME, template:NAME, peer:NODE/AGENT, peer:NODE?workspace=DIR
    #[arg(value_name = "TARGET")]
    pub(crate) name: Option<TargetArg>,
    /// Make an agent of this template just for the prompt
    #[arg(short, long)]
    pub(crate) template: Option<TargetArg>,
    /// What to tell it; `-` reads it from stdin
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) prompt: String,
    /// Model to use, where the agent lets us choose
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// The most steps the agent may take, where it lets us choose
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,
    /// How long it may take, in milliseconds [default: 300000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,
    /// Go on with this session
    #[arg(long, value_name = "ID", conflicts_with = "template")]
    pub(crate) session_id: Option<String>,
    /// File whose text replaces the system prompt
    #[arg(long, value_name = "FILE")]
    pub(crate) system_prompt_file: Option<PathBuf>,
    /// Text to add to the system prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) append_system_prompt: Option<String>,
    /// With --template: keep the agent and its workspace
    #[arg(long, conflicts_with = "name")]
    pub(crate) keep: bool,
    #[command(flatten)]
    pub(crate) output: TalkFormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PromptArgs {
    /// The agent, which must be started; targets as of `agent run` are
    #[arg(value_name = "TARGET")]
    pub(crate) name: TargetArg,
    /// What to tell it; `-` reads it from stdin
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) message: String,
    /// Go on with this session
    #[arg(long, value_name = "ID")]
    pub(crate) session_id: Option<String>,
    #[command(flatten)]
    pub(crate) output: TalkFormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The agent: its name, or workflow:NAME, template:NAME, peer:NODE/AGENT, peer:NODE?workspace=DIR
    #[arg(value_name = "TARGET")]
    pub(crate) name: TargetArg,
    /// Go on with this session
    #[arg(long, value_name = "ID")]
    pub(crate) session_id: Option<String>,
    /// Model to use, where the agent lets us choose
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// The most steps the agent may take for one prompt, where it lets us choose
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,
}
