//! The node itself: daemon, doctor, and what describes the command to shells and editors.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{Format, FormatArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum DaemonCommand {
    /// Start the daemon; returns when it is ready
    #[command(
        after_help = "Examples:\n  agentcraft daemon start\n  agentcraft daemon start --foreground"
    )]
    Start(StartArgs),
    /// Stop the daemon and the agents it runs; returns when it is gone
    #[command(after_help = "Examples:\n  agentcraft daemon stop")]
    Stop(FormatArgs),
    /// Say whether the daemon runs; exits with 3 when it does not
    #[command(
        after_help = "Examples:\n  agentcraft daemon status\n  agentcraft daemon status -f json"
    )]
    Status(FormatArgs),
    /// Stop the daemon if it runs, and start it again
    #[command(
        after_help = "Examples:\n  agentcraft daemon restart\n  agentcraft daemon restart --force"
    )]
    Restart(RestartArgs),
}

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// Run in this terminal instead of the background
    #[arg(long)]
    pub(crate) foreground: bool,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RestartArgs {
    /// Kill a daemon that does not end by itself
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

impl DaemonCommand {
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Status(output) | Self::Stop(output) => output.format,
            Self::Start(arguments) => arguments.output.format,
            Self::Restart(arguments) => arguments.output.format,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  agentcraft doctor\n  agentcraft doctor -f json")]
pub(crate) struct DoctorArgs {
    /// How to print
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: ReportFormat,
}

/// How a report is printed; it has no names to be quiet about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
}

impl From<ReportFormat> for Format {
    fn from(format: ReportFormat) -> Self {
        match format {
            ReportFormat::Table => Self::Table,
            ReportFormat::Json => Self::Json,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  agentcraft schema template > template.schema.json")]
pub(crate) struct SchemaArgs {
    /// Which kind of file
    #[arg(value_enum)]
    pub(crate) kind: SchemaKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaKind {
    Template,
    Skill,
    Prompt,
    Mcp,
    Workflow,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    agentcraft completions bash > ~/.local/share/bash-completion/completions/agentcraft\n  \
    agentcraft completions fish > ~/.config/fish/completions/agentcraft.fish")]
pub(crate) struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  agentcraft man | man -l -\n  agentcraft man --dir ~/.local/share/man/man1"
)]
pub(crate) struct ManArgs {
    /// Write one page per command into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
