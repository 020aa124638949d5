//! `cargo xtask bench NAME`: the registry of benchmarks, and their figures as a table or as JSON lines.
//! A benchmark is a function from a `Context` to figures, in a file of its own below this one.

mod context;
mod figure;
mod samples;
mod spawn;

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
}

#[derive(Debug)]
struct Bench {
    name: &'static str,
    about: &'static str,
    run: fn(&Context) -> anyhow::Result<Vec<Figure>>,
}

const BENCHES: [Bench; 1] = [Bench {
    name: "spawn",
    about: "start of the command, from exec to exit, beside /bin/true",
    run: spawn::run,
}];

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
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
    let figures =
        (bench.run)(&Context::default()).with_context(|| format!("could not measure {name}"))?;
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
