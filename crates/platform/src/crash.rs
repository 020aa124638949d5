//! Named points at which a test lets the process die as by kill -9. Without debug assertions they are nothing.
//!
//! The names are the business of the crates that place the points; `trace` lets a test list those a run reaches.

#[cfg(debug_assertions)]
mod armed {
    use std::{
        fs::File,
        io::Write,
        path::{Path, PathBuf},
        sync::{Mutex, MutexGuard, PoisonError},
    };

    struct Plan {
        death: Option<Death>,
        trace: Option<File>,
    }

    /// Where to die.
    #[derive(Debug, PartialEq, Eq)]
    pub(super) struct Death {
        pub(super) point: String,
        /// Dies when the point has been reached this many more times.
        pub(super) times: u32,
        /// Only while this file is there does it count.
        pub(super) while_there: Option<PathBuf>,
    }

    static PLAN: Mutex<Plan> = Mutex::new(Plan {
        death: None,
        trace: None,
    });

    fn plan() -> MutexGuard<'static, Plan> {
        PLAN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn arm(spec: Option<&str>) {
        plan().death = spec.map(super::parse);
    }

    pub(super) fn trace(path: &Path) -> std::io::Result<()> {
        let file = File::options().append(true).create(true).open(path)?;
        plan().trace = Some(file);
        Ok(())
    }

    pub(super) fn point(name: &str) {
        let mut plan = plan();
        if let Some(file) = &mut plan.trace {
            // A test that misses a line fails by itself.
            let _ = file.write_all(format!("{name}\n").as_bytes());
        }
        let Some(death) = &mut plan.death else {
            return;
        };
        let counts = |file: &PathBuf| file.exists();
        if death.point == name && death.while_there.as_ref().is_none_or(counts) {
            death.times -= 1;
            if death.times == 0 {
                let _ = rustix::process::kill_process(
                    rustix::process::getpid(),
                    rustix::process::Signal::KILL,
                );
                // Nothing after the point may happen, whenever the signal is delivered.
                loop {
                    std::thread::park();
                }
            }
        }
    }
}

/// Chooses where to die: `name` the first time it is reached, `name:3` the third time, `None` nowhere. `name:3@/a/file` counts
/// only while that file is there, so that a test may prepare what it likes before.
#[cfg_attr(
    not(debug_assertions),
    expect(unused_variables, reason = "Crash points are for tests.")
)]
pub fn arm(spec: Option<&str>) {
    #[cfg(debug_assertions)]
    armed::arm(spec);
}

/// Appends the name of every point that is reached to this file, a line each.
#[cfg_attr(
    not(debug_assertions),
    expect(unused_variables, reason = "Crash points are for tests.")
)]
pub fn trace(path: &std::path::Path) -> std::io::Result<()> {
    #[cfg(debug_assertions)]
    armed::trace(path)?;
    Ok(())
}

/// A place where a crash would be interesting.
#[inline]
#[cfg_attr(
    not(debug_assertions),
    expect(unused_variables, reason = "Crash points are for tests.")
)]
pub fn point(name: &str) {
    #[cfg(debug_assertions)]
    armed::point(name);
}

/// A number that is none belongs to the name.
#[cfg(debug_assertions)]
fn parse(spec: &str) -> armed::Death {
    let (rest, file) = match spec.split_once('@') {
        Some((rest, file)) => (rest, Some(file.into())),
        None => (spec, None),
    };
    let (point, times) = rest
        .rsplit_once(':')
        .and_then(|(name, times)| Some((name, times.parse().ok()?)))
        .filter(|(_, times)| *times > 0)
        .unwrap_or((rest, 1));
    armed::Death {
        point: point.to_owned(),
        times,
        while_there: file,
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_specification_names_a_point_and_perhaps_the_time() {
        let check = |spec, point: &str, times, file: Option<&str>| {
            let death = armed::Death {
                point: point.to_owned(),
                times,
                while_there: file.map(Into::into),
            };
            assert_eq!(parse(spec), death, "{spec}");
        };
        check("commit", "commit", 1, None);
        check("commit:3", "commit", 3, None);
        check("store:commit", "store:commit", 1, None);
        check("commit:0", "commit:0", 1, None);
        check("commit:3@/a/file", "commit", 3, Some("/a/file"));
        check("commit@/a/file", "commit", 1, Some("/a/file"));
    }

    /// Does nothing in an ordinary run; the test below starts it in a process of its own.
    #[test]
    fn role_of_the_crashing_process() {
        let Some(path) = std::env::var_os("PLATFORM_TEST_CRASH_TRACE") else {
            return;
        };
        trace(path.as_ref()).unwrap();
        let file = std::path::Path::new(&path).with_file_name("armed");
        arm(Some(&format!("second:2@{}", file.display())));
        point("second");
        std::fs::write(&file, "").unwrap();
        for name in ["first", "second", "third", "second", "never"] {
            point(name);
        }
    }

    #[test]
    fn the_process_dies_at_the_armed_point_and_the_trace_lists_the_way_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::tests::role_of_the_crashing_process"])
            .env("PLATFORM_TEST_CRASH_TRACE", &path)
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.signal(), Some(9));
        let reached = std::fs::read_to_string(path).unwrap();
        assert_eq!(reached, "second\nfirst\nsecond\nthird\nsecond\n");
    }
}
