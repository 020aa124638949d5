//! `agentcraft session …`.

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::{Format, FormatArgs, ReportFormat, TalkFormatArgs, TargetArg};

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List the sessions that are not over
    #[command(
        after_help = "Examples:\n  agentcraft session list\n  agentcraft session list --agent reviewer -f quiet"
    )]
    List(SessionListArgs),
    /// Show one session in detail
    #[command(
        after_help = "Examples:\n  agentcraft session show s-0199a\n  agentcraft session show s-0199a -f json"
    )]
    Show(SessionShowArgs),
    /// Chat in a session that exists: its last turns, then live
    #[command(after_help = "Examples:\n  agentcraft session attach s-0199a")]
    Attach(SessionIdArgs),
    /// Watch a session without taking part
    ///
    /// Prints what happens from now on, or from an event of the past on, until the session is over or Ctrl-C.
    #[command(after_help = "Examples:\n  \
        agentcraft session watch s-0199a\n  \
        agentcraft session watch s-0199a --from 1 -f json")]
    Watch(WatchArgs),
    /// End a session; its history stays
    #[command(after_help = "Examples:\n  agentcraft session close s-0199a")]
    Close(SessionShowArgs),
    /// End the turn that runs
    #[command(after_help = "Examples:\n  agentcraft session cancel s-0199a")]
    Cancel(SessionShowArgs),
    /// Answer what an agent asks
    #[command(after_help = "Examples:\n  \
        agentcraft session answer s-0199a ask-1-1 --option allow\n  \
        agentcraft session answer s-0199a ask-1-2 --text blue\n  \
        agentcraft session answer s-0199a ask-2-3 --decline")]
    Answer(AnswerArgs),
    /// Print everything that happened in a session
    #[command(after_help = "Examples:\n  \
        agentcraft session export s-0199a > session.jsonl\n  \
        agentcraft session export s-0199a -f markdown > session.md")]
    Export(ExportArgs),
    /// Show which sessions at other nodes belong to a conversation here
    #[command(after_help = "Examples:\n  \
        agentcraft session tree\n  \
        agentcraft session tree news -f json")]
    Tree(SessionTreeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SessionTreeArgs {
    /// The conversation, as `agentcraft intent --session` names it; all of them unless given
    pub(crate) session: Option<String>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: ReportFormat,
}

#[derive(Debug, Args)]
pub(crate) struct SessionListArgs {
    /// Only those of this agent
    #[arg(long, value_name = "TARGET")]
    pub(crate) agent: Option<TargetArg>,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SessionShowArgs {
    /// Id of the session
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SessionIdArgs {
    /// Id of the session
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Id of the session
    pub(crate) id: String,
    /// The first event to print, counted from 1; without it only what is new
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) from: Option<u64>,
    #[command(flatten)]
    pub(crate) output: TalkFormatArgs,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("answer").required(true).args(["option", "text", "decline"])))]
pub(crate) struct AnswerArgs {
    /// Id of the session
    pub(crate) id: String,
    /// Id of the ask, such as ask-1-1
    pub(crate) ask: String,
    /// Id of the option to choose
    #[arg(long, value_name = "ID")]
    pub(crate) option: Option<String>,
    /// The answer to a question
    #[arg(long)]
    pub(crate) text: Option<String>,
    /// Turn it down
    #[arg(long)]
    pub(crate) decline: bool,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Id of the session
    pub(crate) id: String,
    /// How to print
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: ExportFormat,
}

/// How a session is exported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One event per line
    #[default]
    Json,
    /// For people
    Markdown,
}

impl SessionCommand {
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::List(arguments) => arguments.output.format,
            Self::Watch(arguments) => arguments.output.format.into(),
            Self::Export(arguments) => match arguments.format {
                ExportFormat::Json => Format::Json,
                ExportFormat::Markdown => Format::Table,
            },
            Self::Tree(arguments) => arguments.format.into(),
            Self::Show(arguments) | Self::Close(arguments) | Self::Cancel(arguments) => {
                arguments.output.format
            }
            Self::Answer(arguments) => arguments.output.format,
            Self::Attach(_) => Format::Table,
        }
    }
}
