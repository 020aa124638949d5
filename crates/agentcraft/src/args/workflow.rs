//! `agentcraft workflow …`: files of steps, and runs of them.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use domain::Name;

use super::{Format, FormatArgs, Pair, TalkFormatArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowCommand {
    /// List the workflows that can be run in this folder, and those the daemon has loaded
    #[command(
        after_help = "Examples:\n  agentcraft workflow list\n  agentcraft workflow list -f quiet"
    )]
    List(FormatArgs),
    /// Show one of them: its inputs and its steps
    #[command(
        after_help = "Examples:\n  agentcraft workflow show review\n  agentcraft workflow show review -f json"
    )]
    Show(ShowWorkflowArgs),
    /// Check a file and say everything that is wrong with it
    ///
    /// Exits with 1 for a file that cannot be read as a workflow and with 2 for one that says something impossible.
    #[command(
        after_help = "Examples:\n  agentcraft workflow validate review\n  agentcraft workflow validate ./release.yaml -f json"
    )]
    Validate(ShowWorkflowArgs),
    /// Run a workflow here, without a daemon
    ///
    /// The answers of agents and the output of commands go to stdout, the progress to stderr. Inputs that are missing
    /// are asked for on a terminal. Ctrl-C cancels the run and ends everything it has started. Exits with 1 for wrong
    /// inputs, 2 for a wrong file, 3 for a step that failed, 4 for a failure of the machine, 130 after a cancel, and
    /// otherwise with what the step says in which the run ends.
    #[command(after_help = "Examples:\n  \
        agentcraft workflow run review --input file=src/main.rs\n  \
        agentcraft workflow run ./release.yaml --dry-run\n  \
        agentcraft workflow run review --format json")]
    Run(RunWorkflowArgs),
    /// Go on with a run that was interrupted, or run again from a step
    ///
    /// Steps that had ended are not done again. One that was interrupted in the middle is repeated by itself if its step
    /// says that it may be (`retry`, `idempotent: true`); otherwise you are asked.
    #[command(after_help = "Examples:\n  \
        agentcraft workflow resume 0197\n  \
        agentcraft workflow resume 0197 --from build --input version=2\n  \
        agentcraft workflow resume 0197 --from previous")]
    Resume(ResumeArgs),
    /// Run a workflow again as a new run, with the inputs of an earlier one
    ///
    /// From its beginning, or from a step (`--from`), or one step alone (`--step`, without the hooks of the workflow). The steps
    /// before it are not done again: what they had come to in the earlier run counts. The file is taken as it is now,
    /// and the earlier run stays as it is.
    #[command(after_help = "Examples:\n  \
        agentcraft workflow rerun 0197\n  \
        agentcraft workflow rerun 0197 --input version=2\n  \
        agentcraft workflow rerun 0197 --step build\n  \
        agentcraft workflow rerun 0197 --from build")]
    Rerun(RerunArgs),
    /// Show a run and its steps
    #[command(
        after_help = "Examples:\n  agentcraft workflow status 0197\n  agentcraft workflow status 0197 -f json"
    )]
    Status(StatusArgs),
    /// List runs, the newest first, and how many came out well
    #[command(
        after_help = "Examples:\n  agentcraft workflow history\n  agentcraft workflow history --workflow review --limit 5 -f json"
    )]
    History(HistoryArgs),
    /// Cancel a run of any process of this home
    #[command(after_help = "Examples:\n  agentcraft workflow cancel 0197")]
    Cancel(StatusArgs),
    /// Draw the steps and what leads to what
    #[command(
        after_help = "Examples:\n  agentcraft workflow graph review\n  agentcraft workflow graph review --mermaid"
    )]
    Graph(GraphArgs),
    /// Write a workflow to begin with into .agentcraft/workflows
    #[command(after_help = "Examples:\n  agentcraft workflow new release")]
    New(NewArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ShowWorkflowArgs {
    /// Its name, or the path of a file
    pub(crate) workflow: String,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RunWorkflowArgs {
    /// Its name, or the path of a file
    pub(crate) workflow: String,
    /// An input of the workflow; can be given several times
    #[arg(short, long, value_name = "KEY=VALUE")]
    pub(crate) input: Vec<Pair>,
    /// Print what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Folder to work in [default: this one]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: TalkFormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The run; the beginning of its id is enough
    pub(crate) run: String,
    /// Run again from this step, from the `current` one or from the `previous` one
    #[arg(long, value_name = "STEP")]
    pub(crate) from: Option<String>,
    /// With --from: an input that replaces the one of the run
    #[arg(short, long, value_name = "KEY=VALUE", requires = "from")]
    pub(crate) input: Vec<Pair>,
    #[command(flatten)]
    pub(crate) output: TalkFormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RerunArgs {
    /// The run; the beginning of its id is enough
    pub(crate) run: String,
    /// Run this step alone
    #[arg(long, value_name = "STEP", conflicts_with = "from")]
    pub(crate) step: Option<String>,
    /// Run from this step on
    #[arg(long, value_name = "STEP")]
    pub(crate) from: Option<String>,
    /// An input that replaces the one of the run
    #[arg(short, long, value_name = "KEY=VALUE")]
    pub(crate) input: Vec<Pair>,
    #[command(flatten)]
    pub(crate) output: TalkFormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The run; the beginning of its id is enough
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Only runs of this workflow
    #[arg(long, value_name = "NAME")]
    pub(crate) workflow: Option<String>,
    /// The most runs to show
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// Its name, or the path of a file
    pub(crate) workflow: String,
    /// As a Mermaid diagram
    #[arg(long)]
    pub(crate) mermaid: bool,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// Its name
    pub(crate) name: Name,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

impl WorkflowCommand {
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::List(output) => output.format,
            Self::Show(arguments) | Self::Validate(arguments) => arguments.output.format,
            Self::Run(arguments) => arguments.output.format.into(),
            Self::Resume(arguments) => arguments.output.format.into(),
            Self::Rerun(arguments) => arguments.output.format.into(),
            Self::Status(arguments) | Self::Cancel(arguments) => arguments.output.format,
            Self::History(arguments) => arguments.output.format,
            Self::Graph(arguments) => arguments.output.format,
            Self::New(arguments) => arguments.output.format,
        }
    }
}
