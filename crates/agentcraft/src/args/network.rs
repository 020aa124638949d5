//! `agentcraft dashboard|token|peer|intent|delegate|delegation …`: the node on the network.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

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
    /// Its name or id, as the list shows it
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
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
    /// Exchange tokens and certificates with a node, after both owners have seen the same code
    ///
    /// On one node `peer pair NODE` shows a code and waits; on the other `peer pair --accept CODE` agrees to it. Without
    /// anything it lists who wants to pair.
    #[command(after_help = "Examples:\n  \
        agentcraft peer pair nova9\n  \
        agentcraft peer pair\n  \
        agentcraft peer pair --accept 170831\n  \
        agentcraft peer pair nova9 --right runs:radio --per-minute 10 --hours 08:00-22:00 --lifetime 86400")]
    Pair(PairArgs),
    /// End what a node may do here, and what this one may do there
    #[command(after_help = "Examples:\n  agentcraft peer unpair nova9")]
    Unpair(IdArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PairArgs {
    /// The node: its name, or its address
    #[arg(conflicts_with_all = ["accept", "refuse"])]
    pub(crate) node: Option<String>,
    /// Agree to the pairing with this code
    #[arg(long, value_name = "CODE", conflicts_with = "refuse")]
    pub(crate) accept: Option<String>,
    /// Refuse the pairing with this code
    #[arg(long, value_name = "CODE")]
    pub(crate) refuse: Option<String>,
    /// What the other node may do here, such as runs:AGENT; to run every public agent and hand over files unless given
    #[arg(long, value_name = "RIGHT")]
    pub(crate) right: Vec<String>,
    /// How many runs it may begin here in a minute
    #[arg(long, value_name = "N")]
    pub(crate) per_minute: Option<u32>,
    /// At which hours of the day it may use this node
    #[arg(long, value_name = "HH:MM-HH:MM")]
    pub(crate) hours: Option<String>,
    /// For how many seconds; until it is unpaired unless given
    #[arg(long, value_name = "SECONDS")]
    pub(crate) lifetime: Option<u64>,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PeerAddArgs {
    /// Its address
    pub(crate) url: String,
    /// A file that holds a token of that node
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// sha256: and the hash of the certificate that the node made itself
    #[arg(long, value_name = "HASH")]
    pub(crate) fingerprint: Option<String>,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    agentcraft intent \"play some light music\"\n  \
    agentcraft intent \"summarise the news\" --fan-out 3\n  \
    agentcraft intent \"the first three\" --answer 0198…")]
pub(crate) struct IntentArgs {
    /// What you want; with --answer, the answer
    pub(crate) text: String,
    /// Answer what this intent waits for
    #[arg(long, value_name = "ID")]
    pub(crate) answer: Option<String>,
    /// The conversation it belongs to; what was said in it goes on at the same nodes
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// Only say who could do it, and why
    #[arg(long, conflicts_with_all = ["answer", "fan_out"])]
    pub(crate) explain: bool,
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
    agentcraft delegate build-box --dir ./app \"fix the failing tests\"\n  \
    agentcraft delegate https://build-box:7420 --token-file FILE --dir ./app \"fix the failing tests\"\n  \
    agentcraft delegate https://build-box:7420 --read-only \"review this\" --background\n  \
    agentcraft delegate http://127.0.0.1:10200/awcp --transport archive --keep staged \"tidy up\"")]
pub(crate) struct DelegateArgs {
    /// The node that does the work: what `peer list` calls it, or its address
    #[arg(value_name = "NODE")]
    pub(crate) peer: String,
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
    /// How the folder gets there; what both sides can do best unless given
    #[arg(long, value_enum, value_name = "TRANSPORT")]
    pub(crate) transport: Option<WayThere>,
    /// A file that holds a token of that node
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// What becomes of the changes: applied, kept until `delegation apply`, or only shown
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub(crate) keep: KeepChanges,
    /// By how many bytes the folder may grow
    #[arg(long, value_name = "BYTES")]
    pub(crate) quota: Option<u64>,
    /// Lend files that look like secrets too
    #[arg(long)]
    pub(crate) lend_secrets: bool,
    /// Do not wait for the end
    #[arg(long)]
    pub(crate) background: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: ReportFormat,
}

/// How a folder gets to the node that works in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WayThere {
    Archive,
    Git,
    Sshfs,
}

impl WayThere {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Archive => "archive",
            Self::Git => "git",
            Self::Sshfs => "sshfs",
        }
    }
}

/// What becomes of the changes of a delegation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeepChanges {
    #[default]
    Auto,
    Staged,
    Discard,
}

impl KeepChanges {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Staged => "staged",
            Self::Discard => "discard",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct AdmitArgs {
    /// Who will lend folders to this node
    pub(crate) name: String,
    /// For how many seconds; for ever unless given
    #[arg(long, value_name = "SECONDS")]
    pub(crate) lifetime: Option<u64>,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ContinueArgs {
    /// The delegation before, which has ended
    pub(crate) id: String,
    /// What is to be done next
    pub(crate) task: String,
    /// Do not wait for the end
    #[arg(long)]
    pub(crate) background: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: ReportFormat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DelegationCommand {
    /// Let somebody lend folders to this node: makes a token for it, shown once
    #[command(
        after_help = "Examples:\n  agentcraft delegation admit laptop -f quiet > laptop.token"
    )]
    Admit(AdmitArgs),
    /// List what is and was lent
    #[command(
        after_help = "Examples:\n  agentcraft delegation list\n  agentcraft delegation list -f json"
    )]
    List(FormatArgs),
    /// Show one of them
    #[command(after_help = "Examples:\n  agentcraft delegation show dlg_0198…")]
    Show(IdArgs),
    /// Wait for its end
    #[command(after_help = "Examples:\n  agentcraft delegation watch dlg_0198…")]
    Watch(IdArgs),
    /// Show what was changed
    #[command(after_help = "Examples:\n  agentcraft delegation diff dlg_0198… | less")]
    Diff(IdArgs),
    /// Take the folder back now
    #[command(after_help = "Examples:\n  agentcraft delegation cancel dlg_0198…")]
    Cancel(IdArgs),
    /// Lend the same folder to the same node once more, on the same terms, with the next task
    #[command(
        after_help = "Examples:\n  agentcraft delegation continue dlg_0198… \"now the documents\""
    )]
    Continue(ContinueArgs),
    /// End it for good: what runs is cancelled, changes that wait are thrown away
    #[command(after_help = "Examples:\n  agentcraft delegation close dlg_0198…")]
    Close(IdArgs),
    /// Apply the changes that were kept with `--keep staged`
    #[command(after_help = "Examples:\n  agentcraft delegation apply dlg_0198…")]
    Apply(IdArgs),
    /// Throw the changes away that were kept with `--keep staged`
    #[command(after_help = "Examples:\n  agentcraft delegation discard dlg_0198…")]
    Discard(IdArgs),
    /// Put the folder back as it was
    #[command(after_help = "Examples:\n  agentcraft delegation undo dlg_0198…")]
    Undo(IdArgs),
    /// Remove what ended delegations may have left behind
    #[command(after_help = "Examples:\n  agentcraft delegation prune")]
    Prune(FormatArgs),
}

impl TokenCommand {
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Create(arguments) => arguments.output.format,
            Self::List(output) => output.format,
            Self::Revoke(arguments) => arguments.output.format,
        }
    }
}

impl PeerCommand {
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::List(output) => output.format,
            Self::Pair(arguments) => arguments.output.format,
            Self::Add(arguments) => arguments.output.format,
            Self::Show(arguments)
            | Self::Ping(arguments)
            | Self::Remove(arguments)
            | Self::Unpair(arguments) => arguments.output.format,
        }
    }
}

impl DelegationCommand {
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::List(output) | Self::Prune(output) => output.format,
            Self::Admit(arguments) => arguments.output.format,
            Self::Continue(arguments) => arguments.format.into(),
            Self::Show(arguments)
            | Self::Watch(arguments)
            | Self::Diff(arguments)
            | Self::Apply(arguments)
            | Self::Discard(arguments)
            | Self::Cancel(arguments)
            | Self::Close(arguments)
            | Self::Undo(arguments) => arguments.output.format,
        }
    }
}
