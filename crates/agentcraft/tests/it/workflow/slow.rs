//! What takes minutes. The module's name is in the tests' names, by which the runner gives them that time.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
};

use super::{
    Project,
    commands::{all_hundred_succeed, hundred},
    crash::{counts, goes_on, project},
};

#[test]
#[ignore = "slow: twenty runs are killed and taken up"]
fn a_run_that_is_killed_at_twenty_moments_spread_over_it_is_taken_up() {
    const MOMENTS: usize = 20;
    let whole = project().run(&["ten", "-f", "json"], 0);
    let whole = whole.stdout.lines().count();
    let mut in_the_middle = 0;
    for moment in 1..=MOMENTS {
        let project = project();
        let mut command = project.command(&["workflow", "run", "ten", "-f", "json"]);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Whatever it does after that line, it does until the signal reaches it.
        let lines = (whole * moment / (MOMENTS + 1)).max(1);
        let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
        for _ in 0..lines {
            told.next().unwrap().unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if counts(&project)["four"] == 0 {
            in_the_middle += 1;
            goes_on(&project, &format!("after {lines} of {whole} events"));
        }
        project.nothing_is_left();
    }
    assert!(
        in_the_middle > MOMENTS / 2,
        "only {in_the_middle} were killed in time"
    );
}

#[test]
#[ignore = "slow: four thousand processes on a busy machine"]
fn a_hundred_branches_at_once_all_succeed_forty_times_under_load() {
    let project = Project::new();
    project.workflow("many", &hundred());
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let busy = || {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "while :; do :; done"]).spawn().unwrap()
    };
    let mut load: Vec<Child> = (0..cores * 2).map(|_| busy()).collect();
    let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for _ in 0..40 {
            all_hundred_succeed(&project);
        }
    }));
    for child in &mut load {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    if let Err(failure) = tried {
        std::panic::resume_unwind(failure);
    }
    project.nothing_is_left();
}
