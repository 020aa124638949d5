//! Ten thousand members that do nothing: what each costs the server, and how much it works for all of them.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::member::Member;
use super::server::Server;
use crate::bench::daemon::resident_kib;
use crate::bench::figure::{Figure, Goal};
use crate::bench::turn::cpu_seconds;

const MEMBERS: u32 = 10_000;
/// Small offices, so that coming in is not told to thousands.
const OFFICE_SIZE: u32 = 20;
/// A connection on either side, and what a process has open besides.
const FILES_MIN: u64 = 10_200;
const GOAL_KIB: f64 = 20.0;
/// Of a core: a ping for each member every 25 seconds.
const GOAL_CPU_PERCENT: f64 = 5.0;
/// Longer than the pause between two pings, so that everybody's is in it.
const WATCHED: Duration = Duration::from_secs(30);
/// How often the members look whether they were pinged.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

pub(super) fn run(server: &Server) -> anyhow::Result<Vec<Figure>> {
    let what = format!("{MEMBERS} idle members");
    let before = resident_kib(server.pid())?;
    let mut members = Vec::new();
    for number in 0..MEMBERS {
        let mut member = Member::connect(server.address, &server.token)?;
        let office = format!("idle-{}", number / OFFICE_SIZE);
        member.join("computer", &format!("pc-{number}"), &office)?;
        member.rest()?;
        members.push(member);
        if number % 500 == 0 {
            look(&mut members)?;
        }
    }
    look(&mut members)?;
    let held = (resident_kib(server.pid())? - before) / f64::from(MEMBERS);
    let (start, spent_before) = (Instant::now(), cpu_seconds(&[server.pid()])?);
    while start.elapsed() < WATCHED {
        thread::sleep(LOOK_AGAIN);
        look(&mut members)?;
    }
    let spent = cpu_seconds(&[server.pid()])? - spent_before;
    let percent = spent / start.elapsed().as_secs_f64() * 100.0;
    Ok(vec![
        Figure::new(format!("{what}, memory each"), held, "KiB").goal(Goal::AtMost(GOAL_KIB)),
        Figure::new(
            format!("{what}, work of the server"),
            percent,
            "% of a core",
        )
        .goal(Goal::AtMost(GOAL_CPU_PERCENT)),
    ])
}

/// Everybody answers pings and passes over notices.
fn look(members: &mut [Member]) -> anyhow::Result<()> {
    members.iter_mut().try_for_each(Member::look)
}

/// Lets this process and its children open enough connections; or says why it cannot.
pub(super) fn allow_connections() -> Result<(), String> {
    let limits = getrlimit(Resource::Nofile);
    if limits.maximum.is_some_and(|most| most < FILES_MIN) {
        return Err(format!("a process may not open {FILES_MIN} files here"));
    }
    let wanted = Rlimit {
        current: limits.maximum,
        maximum: limits.maximum,
    };
    setrlimit(Resource::Nofile, wanted).map_err(|error| error.to_string())
}
