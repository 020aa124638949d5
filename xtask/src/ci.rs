//! `cargo xtask ci`: the steps every change passes, in order, stopping at the first that fails.

use std::env;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};

use crate::{tidy, workspace};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Leave a step out; may be given more than once
    #[arg(long, value_enum, value_name = "STEP")]
    skip: Vec<Step>,
    /// Run the slow tests too, as AGENTCRAFT_TEST_ALL=1 does
    #[arg(long)]
    all: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    Fmt,
    Tidy,
    Deny,
    Clippy,
    Doc,
    Test,
}

/// Cheap steps come first, and the tests last so that the runner's summary closes the output.
const STEPS: [Step; 6] = [
    Step::Fmt,
    Step::Tidy,
    Step::Deny,
    Step::Clippy,
    Step::Doc,
    Step::Test,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suite {
    Quick,
    All,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let all = options.all || env::var_os("AGENTCRAFT_TEST_ALL").is_some_and(|value| value == "1");
    let suite = if all { Suite::All } else { Suite::Quick };
    let start = Instant::now();
    for step in STEPS {
        let name = step.name();
        if options.skip.contains(&step) {
            println!("ci: {name} skipped");
            continue;
        }
        println!("ci: {name} …");
        let step_start = Instant::now();
        let passed = step
            .perform(suite)
            .with_context(|| format!("could not run the step {name}"))?;
        let seconds = step_start.elapsed().as_secs_f64();
        if !passed {
            println!("ci: {name} FAILED after {seconds:.1} s");
            return Ok(ExitCode::FAILURE);
        }
        println!("ci: {name} passed in {seconds:.1} s");
    }
    println!(
        "ci: all steps passed in {:.1} s",
        start.elapsed().as_secs_f64()
    );
    Ok(ExitCode::SUCCESS)
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Tidy => "tidy",
            Self::Deny => "deny",
            Self::Clippy => "clippy",
            Self::Doc => "doc",
            Self::Test => "test",
        }
    }

    fn perform(self, suite: Suite) -> anyhow::Result<bool> {
        match self {
            Self::Fmt => succeeds(&["fmt", "--all", "--check"]),
            Self::Tidy => tidy::is_clean(),
            Self::Deny => deny(),
            Self::Clippy => succeeds(&[
                "clippy",
                "--workspace",
                "--all-targets",
                "--locked",
                "--",
                "-D",
                "warnings",
            ]),
            Self::Doc => succeeds(&[
                "test",
                "--locked",
                "--doc",
                "--package",
                "jsonrpc",
                "--all-features",
            ]),
            Self::Test => succeeds(test_arguments(has_subcommand("nextest"), suite)),
        }
    }
}

fn deny() -> anyhow::Result<bool> {
    if !has_subcommand("deny") {
        bail!("cargo-deny is missing: run ./test, which installs it, or give --skip deny");
    }
    // Advisories are left out: their database comes from a host that not every machine of ours reaches.
    succeeds(&[
        "deny",
        "--locked",
        "check",
        "--hide-inclusion-graph",
        "licenses",
        "bans",
        "sources",
    ])
}

fn test_arguments(nextest: bool, suite: Suite) -> &'static [&'static str] {
    match (nextest, suite) {
        (true, Suite::Quick) => &["nextest", "run", "--workspace", "--locked"],
        (true, Suite::All) => &[
            "nextest",
            "run",
            "--workspace",
            "--locked",
            "--run-ignored",
            "all",
        ],
        (false, Suite::Quick) => &[
            "test",
            "--workspace",
            "--locked",
            "--lib",
            "--bins",
            "--tests",
        ],
        (false, Suite::All) => &[
            "test",
            "--workspace",
            "--locked",
            "--lib",
            "--bins",
            "--tests",
            "--",
            "--include-ignored",
        ],
    }
}

fn succeeds(arguments: &[&str]) -> anyhow::Result<bool> {
    let mut command = workspace::cargo();
    let status = command
        .args(arguments)
        .status()
        .with_context(|| format!("could not start {command:?}"))?;
    Ok(status.success())
}

fn has_subcommand(name: &str) -> bool {
    Command::new(format!("cargo-{name}"))
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_runs_once() {
        for step in Step::value_variants() {
            assert_eq!(
                STEPS.iter().filter(|listed| *listed == step).count(),
                1,
                "{}",
                step.name()
            );
        }
    }

    #[test]
    fn slow_tests_run_only_when_all_is_asked() {
        assert!(!test_arguments(true, Suite::Quick).contains(&"--run-ignored"));
        assert!(test_arguments(true, Suite::All).ends_with(&["--run-ignored", "all"]));
        assert!(test_arguments(false, Suite::All).ends_with(&["--", "--include-ignored"]));
    }
}
