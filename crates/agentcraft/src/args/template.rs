//! `agentcraft template …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Format, FormatArgs, TargetArg};

#[derive(Debug, Subcommand)]
pub(crate) enum TemplateCommand {
    /// List the templates the daemon has loaded
    ///
    /// Files of the configs folder that could not be used are named on stderr.
    #[command(after_help = "Examples:\n  agentcraft template list\n  agentcraft tpl list -f json")]
    List(FormatArgs),
    /// Show one template
    #[command(
        after_help = "Examples:\n  agentcraft template show code-review\n  agentcraft tpl show code-review -f json"
    )]
    Show(ShowArgs),
    /// Check a template file; needs no daemon
    ///
    /// Prints every problem with the place it is at, and exits with 5 when the file cannot be used.
    #[command(after_help = "Examples:\n  agentcraft template validate ./review.yaml")]
    Validate(FileArgs),
    /// Load a template file into the running daemon
    #[command(after_help = "Examples:\n  agentcraft template load ./review.json")]
    Load(FileArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Name of the template, or a target of which an agent would be made, such as workflow:NAME
    #[arg(value_name = "TEMPLATE")]
    pub(crate) name: TargetArg,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// A template in JSON or YAML
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

impl TemplateCommand {
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::List(output) => output.format,
            Self::Show(arguments) => arguments.output.format,
            Self::Validate(arguments) | Self::Load(arguments) => arguments.output.format,
        }
    }
}
