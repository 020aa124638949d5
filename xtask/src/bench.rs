//! `cargo xtask bench NAME`: the registry of benchmarks, and their figures as a table or as JSON lines.
//! A benchmark is a function from a `Context` to figures, in a file of its own below this one.

mod context;
mod daemon;
mod echo;
mod figure;
mod samples;
mod spawn;
mod turn;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;

use context::Context;
use figure::Figure;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Which benchmark; without a name they are listed
    name: Option<String>,
    /// Print one JSON object per figure instead of a table
    #[arg(long)]
    json: bool,
    /// Measure this program instead of building one
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Be the server that answers every line with a line; benchmarks start it beside what they measure
    #[arg(long, value_name = "SOCKET", hide = true)]
    echo_server: Option<PathBuf>,
    /// The length of its answers, with the line end
    #[arg(long, value_name = "BYTES", hide = true, default_value_t = 1)]
    echo_length: usize,
    /// Be the agent that says as many words as it is told to; benchmarks have the daemon start it
    #[arg(long, hide = true)]
    turn_agent: bool,
}

#[derive(Debug)]
struct Bench {
    name: &'static str,
    about: &'static str,
    run: fn(&Context) -> anyhow::Result<Vec<Figure>>,
}

const BENCHES: [Bench; 3] = [
    Bench {
        name: "spawn",
        about: "start of the command, from exec to exit, beside /bin/true",
        run: spawn::run,
    },
    Bench {
        name: "daemon",
        about: "the daemon's answers, start, memory, agents and processes, each beside its floor",
        run: daemon::run,
    },
    Bench {
        name: "turn",
        about: "an agent's words on their way to a client: delay, rate, order, memory, each beside a bare pipe",
        run: turn::run,
    },
];

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if let Some(socket) = &options.echo_server {
        echo::serve(socket, options.echo_length)?;
        return Ok(ExitCode::SUCCESS);
    }
    if options.turn_agent {
        turn::serve_agent()?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(name) = &options.name else {
        for bench in &BENCHES {
            println!("{:<12} {}", bench.name, bench.about);
        }
        return Ok(ExitCode::SUCCESS);
    };
    let Some(bench) = BENCHES.iter().find(|bench| bench.name == name) else {
        let names: Vec<&str> = BENCHES.iter().map(|bench| bench.name).collect();
        bail!(
            "there is no benchmark {name}; there are: {}",
            names.join(", ")
        );
    };
    let context = Context::new(options.binary.clone());
    let figures = (bench.run)(&context).with_context(|| format!("could not measure {name}"))?;
    if options.json {
        for figure in &figures {
            println!("{}", figure.json());
        }
    } else {
        print!("{}", figure::table(&figures));
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_benchmarks_are_unique() {
        for bench in &BENCHES {
            assert_eq!(
                BENCHES
                    .iter()
                    .filter(|other| other.name == bench.name)
                    .count(),
                1,
                "{}",
                bench.name
            );
        }
    }
}
