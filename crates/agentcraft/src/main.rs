//! The agentcraft command: parse, run, say what went wrong, exit with its code.

mod args;
mod commands;
mod completion;
mod config;
mod connection;
mod conversation;
mod daemon;
mod endpoints;
mod error;
mod exit;
mod interrupt;
mod log;
mod network;
mod node;
mod office;
mod render;
mod standalone;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    completion::answer();
    let arguments = args::Arguments::parse();
    let environment = config::environment();
    let format = arguments.format();
    let mut screen = render::Screen::of_process(config::colors(&arguments.global, &environment));
    match commands::run(arguments, environment, &mut screen) {
        Ok(()) => exit::Exit::Success.into(),
        Err(error) => {
            screen.failure(&error, format);
            error.exit().into()
        }
    }
}
