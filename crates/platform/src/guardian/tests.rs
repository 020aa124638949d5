//! The guardian as a real process: this test binary plays it, and also the daemon that is killed.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
};

use super::*;
use crate::{
    owner::{OwnerScope, find},
    pid::Signal,
    process::{Exit, Spawn, SpawnError, Stream},
    test_support::{
        DOUBLE_FORK, GUARDIAN_MARK, PATIENCE, eventually, fresh_owner, guardian, python,
    },
};

/// What the design promises for the time after our death.
const PROMISED: Duration = Duration::from_secs(2);

/// The variable that makes this binary play the daemon: `{home}:{boot}:{what to start}`.
const HOLDER_VARIABLE: &str = "PLATFORM_TEST_HOLDER";

/// Does nothing in an ordinary run; `test_support::guardian` starts it with the mark.
#[test]
fn role_of_the_guardian() {
    if std::env::args().any(|arg| arg == GUARDIAN_MARK) {
        run(std::io::stdin().lock());
    }
}

/// Does nothing in an ordinary run; `Holder` starts it with the variable.
#[test]
fn role_of_the_holder() {
    let Ok(plan) = std::env::var(HOLDER_VARIABLE) else {
        return;
    };
    let mut parts = plan.splitn(3, ':');
    let mut next = || parts.next().unwrap();
    let owner = Owner::new(next(), next()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(hold(owner, next()));
}

async fn hold(owner: Owner, what: &str) {
    let guardian = guardian(&owner);
    say(&format!("guardian {}", guardian.pid().unwrap()));
    let mut kept = Vec::new();
    let mut start = |name: &str, program: PathBuf, args: &[&str]| {
        let mut spawn = Spawn::new(program, "/", owner.tag(name).unwrap());
        spawn.args = args.iter().map(Into::into).collect();
        spawn.env = [("PATH".into(), "/usr/bin:/bin".into())].into();
        spawn.stdout = Stream::Piped;
        kept.push(spawn.spawn(&guardian).unwrap());
        kept.len() - 1
    };
    match what {
        "forks" => {
            let index = start("forks", python(), &["-c", DOUBLE_FORK]);
            let deaf = "trap '' TERM; sleep 600 & wait; sleep 600";
            start("deaf", "sh".into(), &["-c", deaf]);
            let stdout = kept[index].1.stdout.take().unwrap();
            let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(stdout));
            lines.next_line().await.unwrap().unwrap();
            say("ready");
            std::future::pending().await
        }
        _ => {
            // The leader drops its token, so that only its registration leads to it.
            let script = "setsid sleep 600 & exec env -i sh -c 'sleep 600; :' $0";
            loop {
                say("starting");
                start("busy", "sh".into(), &["-c", script, owner.home()]);
            }
        }
    }
}

fn say(word: &str) {
    let mut stdout = std::io::stdout();
    stdout.write_all(format!("{word}\n").as_bytes()).unwrap();
    stdout.flush().unwrap();
}

/// A daemon in a process of its own, to be killed.
struct Holder {
    child: std::process::Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    guardian: ProcessRef,
}

impl Holder {
    fn start(owner: &Owner, what: &str) -> Holder {
        let plan = format!("{}:{}:{what}", owner.home(), owner.boot());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "guardian::tests::role_of_the_holder"])
            .arg("--nocapture")
            .env(HOLDER_VARIABLE, plan)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The test harness writes to the same stream, sometimes on the same line.
        let pid = lines
            .find_map(|line| Some(line.unwrap().split_once("guardian ")?.1.parse().unwrap()))
            .unwrap();
        Holder {
            child,
            lines,
            guardian: ProcessRef::of(pid).unwrap(),
        }
    }

    fn await_line(&mut self, word: &str) {
        let found = self.lines.any(|line| line.unwrap().ends_with(word));
        assert!(found, "the holder ended without saying {word:?}");
    }

    /// Kills the daemon and returns when its guardian has done its work.
    fn kill(mut self, within: Duration) {
        self.child.kill().unwrap();
        assert_eq!(self.child.wait().unwrap().signal(), Some(9));
        let done = wait_exited(&[self.guardian], Instant::now() + within);
        assert!(done, "the guardian is not done within {within:?}");
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill(); // Only a failed test has not killed it yet.
        let _ = self.child.wait();
    }
}

/// Processes with this text among their arguments, whatever their environment says.
fn marked(text: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| std::fs::read(process.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(text))
        .collect()
}

#[test]
fn killing_the_daemon_ends_groups_and_runaways_in_time() {
    let owner = fresh_owner();
    let scope = OwnerScope::home(&owner);
    let mut holder = Holder::start(&owner, "forks");
    holder.await_line("ready");
    eventually("all have started", PATIENCE, || find(&scope).len() >= 4);
    holder.kill(PROMISED);
    assert_eq!(find(&scope), []);
}

#[test]
fn killing_the_daemon_while_it_starts_children_leaves_nothing() {
    for starts in 1..=12 {
        let owner = fresh_owner();
        let mut holder = Holder::start(&owner, "busy");
        for _ in 0..starts {
            holder.await_line("starting");
        }
        holder.kill(PATIENCE);
        assert_eq!(find(&OwnerScope::home(&owner)), []);
        assert_eq!(marked(owner.home()), [""; 0]);
    }
}

#[tokio::test]
async fn a_dead_guardian_is_noticed_and_its_successor_knows_the_groups() {
    let owner = fresh_owner();
    let scope = OwnerScope::home(&owner);
    let guardian = guardian(&owner);
    let sleeper = |name: &str| {
        let mut spawn = Spawn::new("/bin/sleep", "/", owner.tag(name).unwrap());
        spawn.args = vec!["600".into()];
        spawn.spawn(&guardian)
    };
    let (group, _) = sleeper("first").unwrap();
    let first = ProcessRef::of(guardian.pid().unwrap()).unwrap();
    first.signal(Signal::KILL).unwrap();
    tokio::time::timeout(PATIENCE, guardian.died())
        .await
        .unwrap();
    let refusal = sleeper("unwatched").unwrap_err();
    assert!(
        matches!(refusal, SpawnError::GuardianGone { .. }),
        "{refusal:?}"
    );
    guardian.respawn().unwrap();
    assert_ne!(guardian.pid(), Some(first.pid));
    let (second, _) = sleeper("second").unwrap();
    // A program that was started a moment ago may not have its environment yet.
    eventually("both are found", PATIENCE, || find(&scope).len() == 2);
    guardian.close().await;
    assert_eq!(find(&scope), []);
    assert_eq!(group.wait().await, Exit::Signal(15));
    assert_eq!(second.wait().await, Exit::Signal(15));
    assert!(matches!(
        sleeper("late"),
        Err(SpawnError::GuardianGone { .. })
    ));
}

#[tokio::test]
async fn a_living_guardian_can_be_replaced_without_harm() {
    let owner = fresh_owner();
    let guardian = guardian(&owner);
    let mut spawn = Spawn::new("/bin/sleep", "/", owner.tag("kept").unwrap());
    spawn.args = vec!["600".into()];
    let (group, _) = spawn.spawn(&guardian).unwrap();
    guardian.respawn().unwrap();
    assert!(group.process().alive());
    assert_eq!(group.end(PATIENCE).await, Exit::Signal(15));
}

#[tokio::test]
async fn polite_signals_do_not_end_the_guardian() {
    let owner = fresh_owner();
    let guardian = guardian(&owner);
    let process = ProcessRef::of(guardian.pid().unwrap()).unwrap();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        process.signal(signal).unwrap();
    }
    // Signals that end a process are acted upon before it can answer anything, such as a closed pipe.
    guardian.add_mount(Path::new("/no/such/mount")).unwrap();
    guardian.forget_mount(Path::new("/no/such/mount"));
    assert!(process.alive());
    let bad = guardian.add_mount(Path::new("/a\nb"));
    assert!(matches!(bad, Err(GuardianError::MountPath { .. })));
    guardian.close().await;
    assert!(!process.alive());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_number_of_a_child_that_found_no_program_is_forgotten_before_it_can_be_a_strangers() {
    let owner = fresh_owner();
    let folder = tempfile::tempdir().unwrap();
    let heard = folder.path().join("heard");
    // A guardian that only writes down what it is told.
    let script = format!("cat > {}", heard.display());
    let guardian = Guardian::spawn(Path::new("/bin/sh"), &["-c", &script], &owner).unwrap();
    let refused = Spawn::new("/no/such/program", "/", owner.tag("none").unwrap()).spawn(&guardian);
    assert!(matches!(refused, Err(SpawnError::NotFound { .. })));
    guardian.close().await;
    let heard = std::fs::read_to_string(heard).unwrap();
    let lines: Vec<_> = heard.lines().skip(1).collect(); // The owner comes first.
    let [came, went] = lines[..] else {
        panic!("{heard}");
    };
    let number = came.strip_prefix("+g ").unwrap();
    assert_eq!(went, format!("-g {number}"));
}
