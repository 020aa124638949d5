//! Being installed: the service of the user, the check before an upgrade, and what a report of trouble holds.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Format, FormatArgs, ReportFormat};

#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// Start the node at login: a systemd user unit, completions and manual pages
    ///
    /// Writes into the folders of the user alone and says what it wrote. The unit is enabled and started where systemd
    /// serves the user; elsewhere the commands for that are printed.
    #[command(
        after_help = "Examples:\n  agentcraft service install\n  agentcraft --home ~/node service install"
    )]
    Install(FormatArgs),
    /// Take back everything that install wrote
    #[command(after_help = "Examples:\n  agentcraft service uninstall")]
    Uninstall(FormatArgs),
    /// Print the unit and write nothing
    #[command(
        after_help = "Examples:\n  agentcraft service show > ~/.config/systemd/user/agentcraft.service"
    )]
    Show(FormatArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  agentcraft upgrade-check\n  agentcraft upgrade-check -f json || echo 'not with this version'"
)]
pub(crate) struct UpgradeCheckArgs {
    /// How to print
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: ReportFormat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DebugCommand {
    /// Write one file with what a report of trouble needs; secrets and conversations are left out
    #[command(
        after_help = "Examples:\n  agentcraft debug bundle\n  agentcraft debug bundle --output trouble.md"
    )]
    Bundle(BundleArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BundleArgs {
    /// The file to write; it must not be there yet
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "agentcraft-debug.md"
    )]
    pub(crate) output: PathBuf,
    /// How to print
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: Format,
}

impl ServiceCommand {
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Install(output) | Self::Uninstall(output) | Self::Show(output) => output.format,
        }
    }
}

impl DebugCommand {
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Bundle(arguments) => arguments.format,
        }
    }
}
