//! `cargo xtask bench NAME`: the registry of benchmarks, and their figures as a table or as JSON lines.
//! A benchmark is a function from a `Context` to figures, in a file of its own below this one.

mod a2a;
mod acp;
mod acp_serve;
mod context;
mod daemon;
mod dashboard;
mod delegation;
mod echo;
mod editor;
mod figure;
mod http;
mod network;
mod office;
mod runs;
mod samples;
mod spawn;
mod turn;
mod workflow;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;

use context::Context;
use figure::Figure;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Which benchmark, or `all`; without a name they are listed
    name: Option<String>,
    /// Print one JSON object per figure instead of a table
    #[arg(long)]
    json: bool,
    /// Measure this program instead of building one
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// How long the benchmarks that go on for a while do so
    #[arg(long, value_name = "MINUTES", default_value_t = 1)]
    minutes: u32,
    /// Be the server that answers every line with a line; benchmarks start it beside what they measure
    #[arg(long, value_name = "SOCKET", hide = true)]
    echo_server: Option<PathBuf>,
    /// The length of its answers, with the line end
    #[arg(long, value_name = "BYTES", hide = true, default_value_t = 1)]
    echo_length: usize,
    /// Be the agent that says as many words as it is told to; benchmarks have the daemon start it
    #[arg(long, hide = true)]
    turn_agent: bool,
    /// Be the agent that takes bytes and says a line after so many of them
    #[arg(long, value_name = "BYTES", hide = true)]
    sink_agent: Option<usize>,
    /// Be the server that answers every request with a body of this length
    #[arg(long, value_name = "BYTES", hide = true)]
    http_responder: Option<usize>,
}

#[derive(Debug)]
struct Bench {
    name: &'static str,
    about: &'static str,
    run: fn(&Context) -> anyhow::Result<Vec<Figure>>,
}

/// The name that stands for every benchmark.
const ALL: &str = "all";

static BENCHES: [Bench; 12] = [
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
    Bench {
        name: "acp",
        about: "an editor's agent through the bridge and the lease: delay, bytes, start, many editors",
        run: acp::run,
    },
    Bench {
        name: "workflow",
        about: "runs of workflows beside bare spawns, make and just; many files, many steps",
        run: workflow::run,
    },
    Bench {
        name: "acp-serve",
        about: "workflows as an agent: start, the list of commands, the smallest turn",
        run: acp_serve::run,
    },
    Bench {
        name: "runs",
        about: "the runs API over 1, 8 and 32 connections beside a bare responder and the reference server; streams, memory",
        run: runs::run,
    },
    Bench {
        name: "a2a",
        about: "messages of A2A through a node and by the face alone, beside bare handlers and the SDK's server; streams, memory",
        run: a2a::run,
    },
    Bench {
        name: "network",
        about: "nodes that use one another: start until use, choosing among skills, routed runs, idle with a hundred peers",
        run: network::run,
    },
    Bench {
        name: "office",
        about: "calls through the relay of an office beside the released server and a bare relay; a real tool, losses, memory, idle members",
        run: office::run,
    },
    Bench {
        name: "delegation",
        about: "lending a folder: small and many files by each plane, SFTP beside OpenSSH's, a huge folder refused",
        run: delegation::run,
    },
    Bench {
        name: "dashboard",
        about: "the page in a browser while 100 sessions stream: updates lost, processor time, memory, time to use",
        run: dashboard::run,
    },
];

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if serve(options)? {
        return Ok(ExitCode::SUCCESS);
    }
    let context = Context::new(options.binary.clone(), options.minutes);
    let figures = match options.name.as_deref() {
        None => {
            for bench in &BENCHES {
                println!("{:<12} {}", bench.name, bench.about);
            }
            println!("{ALL:<12} every one of them, in one table");
            return Ok(ExitCode::SUCCESS);
        }
        Some(ALL) => all(&context)?,
        Some(name) => {
            let bench = find(name)?;
            (bench.run)(&context).with_context(|| format!("could not measure {name}"))?
        }
    };
    if options.json {
        for figure in &figures {
            println!("{}", figure.json());
        }
    } else {
        print!("{}", figure::table(&figures));
    }
    Ok(ExitCode::SUCCESS)
}

/// Is one of the programs that benchmarks start, if the options say so.
fn serve(options: &Options) -> anyhow::Result<bool> {
    if let Some(socket) = &options.echo_server {
        echo::serve(socket, options.echo_length)?;
    } else if options.turn_agent {
        turn::serve_agent()?;
    } else if let Some(length) = options.sink_agent {
        acp::serve_sink(length)?;
    } else if let Some(length) = options.http_responder {
        http::serve_responder(length)?;
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn find(name: &str) -> anyhow::Result<&'static Bench> {
    let Some(bench) = BENCHES.iter().find(|bench| bench.name == name) else {
        let names: Vec<&str> = BENCHES.iter().map(|bench| bench.name).collect();
        bail!(
            "there is no benchmark {name}; there are: {}, {ALL}",
            names.join(", ")
        );
    };
    Ok(bench)
}

/// Every benchmark; one that fails leaves a line and not the others without theirs.
fn all(context: &Context) -> anyhow::Result<Vec<Figure>> {
    context.release_binary()?;
    let mut figures = Vec::new();
    for bench in &BENCHES {
        match (bench.run)(context) {
            Ok(measured) => {
                figures.extend(measured.into_iter().map(|figure| figure.of(bench.name)))
            }
            Err(error) => figures.push(Figure::left_out(bench.name, format!("{error:#}"))),
        }
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_benchmarks_are_unique() {
        for bench in &BENCHES {
            assert_ne!(bench.name, ALL);
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
