//! For the tests: patience, owners nobody else has, and processes that sleep until they are ended.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    owner::{OWNER_VARIABLE, Owner, OwnerTag},
    pid::ProcessRef,
};

/// How long a test waits for what should happen at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// An owner that no other test and no real daemon has, so that sweeps meet only what the test has started.
pub(crate) fn fresh_owner() -> Owner {
    Owner::starting(&format!("test-{}", uuid::Uuid::new_v4().simple())).unwrap()
}

/// Looks again and again until the condition holds, and panics when the time is over.
pub(crate) fn eventually(what: &str, within: Duration, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {within:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The interpreter itself and not a shim, because tests run it with an empty environment.
pub(crate) fn python() -> PathBuf {
    static FOUND: std::sync::LazyLock<PathBuf> = std::sync::LazyLock::new(|| {
        let output = Command::new("python3")
            .args(["-c", "import sys; print(sys.executable)"])
            .output()
            .unwrap();
        PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
    });
    FOUND.clone()
}

/// A process that sleeps until it is ended, at the latest by the drop.
pub(crate) struct Sleeper(Child);

impl Sleeper {
    pub(crate) fn start() -> Sleeper {
        Sleeper::spawn(&mut Command::new("sleep"))
    }

    pub(crate) fn owned(tag: &OwnerTag) -> Sleeper {
        Sleeper::spawn(Command::new("sleep").env(OWNER_VARIABLE, tag.to_string()))
    }

    fn spawn(command: &mut Command) -> Sleeper {
        Sleeper(command.arg("600").stdin(Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn alive(&self) -> bool {
        ProcessRef::of(self.pid()).is_some_and(ProcessRef::alive)
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill(); // It may have ended.
        let _ = self.0.wait();
    }
}

/// Arguments with which this very test binary becomes a guardian: it runs one test, which sees the mark.
pub(crate) const GUARDIAN_ARGS: [&str; 3] = [
    "--exact",
    "guardian::tests::role_of_the_guardian",
    GUARDIAN_MARK,
];
pub(crate) const GUARDIAN_MARK: &str = "mark-of-the-guardian";

pub(crate) fn guardian(owner: &Owner) -> crate::Guardian {
    let exe = std::env::current_exe().unwrap();
    crate::Guardian::spawn(&exe, &GUARDIAN_ARGS, owner).unwrap()
}

/// Python: forks, leaves the group and the session, forks again and sleeps; the first process prints `ready` and sleeps too.
pub(crate) const DOUBLE_FORK: &str = "
import os, sys, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(write, b'x')
        os.closerange(0, 3)
        time.sleep(600)
    os._exit(0)
os.wait()
os.read(read, 1)
print('ready', flush=True)
time.sleep(600)
";
