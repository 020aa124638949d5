//! The project's own commands: their arguments, and which module answers them.
#![expect(
    clippy::print_stdout,
    reason = "xtask talks to the terminal of a developer, not to a protocol"
)]

mod bench;
mod ci;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Commands for those who work on AgentCraft.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check everything a change must pass, the cheap steps first
    Ci(ci::Options),
    /// Check the rules of the code that the compiler does not know
    Tidy(tidy::Options),
    /// Measure, and print the figures
    Bench(bench::Options),
}

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().command {
        Command::Ci(options) => ci::run(&options),
        Command::Tidy(options) => tidy::run(&options),
        Command::Bench(options) => bench::run(&options),
    }
}
