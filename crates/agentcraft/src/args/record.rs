//! `agentcraft journal` and `agentcraft policy …`: what happened, and what may happen.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use domain::{NoTrace, Trace, turn::ToolKind};

use super::{Format, ReportFormat, Since, TargetArg};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    agentcraft journal --agent reviewer --since 2h\n  \
    agentcraft journal --kind turn. --grep timeout\n  \
    agentcraft journal --trace 4bf92f3577b34da6a3ce929d0e0e4736\n  \
    agentcraft journal --since 2026-11-01 -f json > journal.jsonl")]
pub(crate) struct JournalArgs {
    /// Only lines about this agent
    #[arg(long, value_name = "TARGET")]
    pub(crate) agent: Option<TargetArg>,
    /// Only lines about this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Not before: `90s`, `30m`, `2h`, `7d` ago, a day, or a moment
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<Since>,
    /// Only kinds that begin so, such as `turn.`
    #[arg(long, value_name = "PREFIX")]
    pub(crate) kind: Option<String>,
    /// Only lines with this text in them
    #[arg(long, value_name = "TEXT")]
    pub(crate) grep: Option<String>,
    /// Only what belongs to this trace: 32 hex digits, as a turn tells them and `traceparent` carries them
    #[arg(long, value_name = "ID", value_parser = trace)]
    pub(crate) trace: Option<Trace>,
    /// The newest lines, at most so many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// How to print; json is one line of JSON for each
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: ReportFormat,
}

fn trace(text: &str) -> Result<Trace, NoTrace> {
    text.to_owned().try_into()
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Say what the rules would do with a tool call, and why
    ///
    /// The rules of the node (config.toml) are looked at first, then those of the template. With --policy the rules
    /// of that file alone are asked, and neither the node nor a daemon is needed.
    #[command(after_help = "Examples:\n  \
        agentcraft policy test --template code-review --kind edit --path src/main.rs\n  \
        agentcraft policy test --policy rules.json --command 'git push --force'")]
    Test(PolicyTestArgs),
    /// Show the rules in the order they are looked at
    #[command(
        after_help = "Examples:\n  agentcraft policy show\n  agentcraft policy show --template code-review -f json"
    )]
    Show(PolicyShowArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PolicyTestArgs {
    /// Template whose rules come after the node's, or a target such as workflow:NAME
    #[arg(short, long)]
    pub(crate) template: Option<TargetArg>,
    /// File with a `permissions` object, as JSON, to be asked alone
    #[arg(long, value_name = "FILE", conflicts_with = "template")]
    pub(crate) policy: Option<PathBuf>,
    /// Kind of the call [default: execute with --command, else other]
    #[arg(long, value_parser = kinds())]
    pub(crate) kind: Option<String>,
    /// Name of the tool
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// A file the call is about; may be given several times
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Vec<String>,
    /// The command it runs
    #[arg(long)]
    pub(crate) command: Option<String>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: ReportFormat,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyShowArgs {
    /// Template whose rules come after the node's, or a target such as workflow:NAME
    #[arg(short, long)]
    pub(crate) template: Option<TargetArg>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: ReportFormat,
}

impl PolicyCommand {
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Test(arguments) => arguments.format.into(),
            Self::Show(arguments) => arguments.format.into(),
        }
    }
}

fn kinds() -> clap::builder::PossibleValuesParser {
    ToolKind::ALL.map(|(word, _)| word).into()
}
