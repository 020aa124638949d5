//! `agentcraft dashboard|token|peer|intent|delegate|delegation …`: the node on the network.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Format, FormatArgs, ReportFormat};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  agentcraft dashboard\n  xdg-open \"$(agentcraft dashboard)\"")]
pub(crate) struct DashboardArgs {
    /// How to print
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: ReportFormat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token; it is shown once
    #[command(after_help = "Examples:\n  \
        agentcraft token create laptop\n  \
        agentcraft token create news-bot --right runs:news --right a2a:news --lifetime 86400")]
    Create(TokenCreateArgs),
    /// List the tokens that work
    #[command(after_help = "Examples:\n  agentcraft token list\n  agentcraft token list -f json")]
    List(FormatArgs),
    /// End a token
    #[command(after_help = "Examples:\n  agentcraft token revoke t-0198…")]
    Revoke(IdArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TokenCreateArgs {
    /// Who will use it
    pub(crate) name: String,
    /// What it may do, such as runs, runs:AGENT, a2a, mcp, dashboard, office:computer:NAME; everything unless given
    #[arg(long, value_name = "RIGHT")]
    pub(crate) right: Vec<String>,
    /// For how many seconds; for ever unless given
    #[arg(long, value_name = "SECONDS")]
    pub(crate) lifetime: Option<u64>,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct IdArgs {
    /// Its id, as the list shows it
    pub(crate) id: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PeerCommand {
    /// List the nodes that are known
    #[command(after_help = "Examples:\n  agentcraft peer list\n  agentcraft peer list -f json")]
    List(FormatArgs),
    /// Make a node known by its address
    #[command(after_help = "Examples:\n  agentcraft peer add http://nova9.local:7420")]
    Add(PeerAddArgs),
    /// Show a node and what it can do
    #[command(after_help = "Examples:\n  agentcraft peer show nova9")]
    Show(IdArgs),
    /// Ask a node whether it is there
    #[command(after_help = "Examples:\n  agentcraft peer ping nova9")]
    Ping(IdArgs),
    /// Forget a node
    #[command(after_help = "Examples:\n  agentcraft peer remove nova9")]
    Remove(IdArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PeerAddArgs {
    /// Its address
    pub(crate) url: String,
    /// A file that holds a token of that node
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    agentcraft intent \"play some light music\"\n  \
    agentcraft intent \"summarise the news\" --fan-out 3")]
pub(crate) struct IntentArgs {
    /// What you want
    pub(crate) text: String,
    /// The node to ask, instead of the one that fits best
    #[arg(long, value_name = "PEER")]
    pub(crate) peer: Option<String>,
    /// How many nodes to ask at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=32))]
    pub(crate) fan_out: Option<u32>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: ReportFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    agentcraft delegate http://build-box:7420 --dir ./app \"fix the failing tests\"\n  \
    agentcraft delegate http://build-box:7420 --read-only \"review this\" --background")]
pub(crate) struct DelegateArgs {
    /// The address of the node that does the work
    pub(crate) url: String,
    /// What is to be done
    pub(crate) task: String,
    /// The folder that is lent
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Nothing may be changed
    #[arg(long)]
    pub(crate) read_only: bool,
    /// For how many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub(crate) ttl: u64,
    /// How the folder gets there: archive or sshfs
    #[arg(long, value_name = "TRANSPORT")]
    pub(crate) transport: Option<String>,
    /// A file that holds a token of that node
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Do not wait for the end
    #[arg(long)]
    pub(crate) background: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: ReportFormat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DelegationCommand {
    /// List what is and was lent
    #[command(
        after_help = "Examples:\n  agentcraft delegation list\n  agentcraft delegation list -f json"
    )]
    List(FormatArgs),
    /// Show one of them
    #[command(after_help = "Examples:\n  agentcraft delegation show d-0198…")]
    Show(IdArgs),
    /// Wait for its end
    #[command(after_help = "Examples:\n  agentcraft delegation watch d-0198…")]
    Watch(IdArgs),
    /// Show what was changed
    #[command(after_help = "Examples:\n  agentcraft delegation diff d-0198… | less")]
    Diff(IdArgs),
    /// Take the folder back now
    #[command(after_help = "Examples:\n  agentcraft delegation cancel d-0198…")]
    Cancel(IdArgs),
    /// Put the folder back as it was
    #[command(after_help = "Examples:\n  agentcraft delegation undo d-0198…")]
    Undo(IdArgs),
    /// Remove what ended delegations may have left behind
    #[command(after_help = "Examples:\n  agentcraft delegation prune")]
    Prune,
}

impl TokenCommand {
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Create(arguments) => arguments.output.format,
            Self::List(output) => output.format,
            Self::Revoke(_) => Format::Table,
        }
    }
}

impl PeerCommand {
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::List(output) => output.format,
            Self::Add(_) | Self::Show(_) | Self::Ping(_) | Self::Remove(_) => Format::Table,
        }
    }
}

impl DelegationCommand {
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::List(output) => output.format,
            Self::Show(_)
            | Self::Watch(_)
            | Self::Diff(_)
            | Self::Cancel(_)
            | Self::Undo(_)
            | Self::Prune => Format::Table,
        }
    }
}
