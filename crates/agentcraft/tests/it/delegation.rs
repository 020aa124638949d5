//! Lending between two nodes: two real daemons, the command line on one of them, an agent that works on the other.

mod apart;
mod crashes;
mod ends;
mod faces;
mod kills;
mod methods;
mod planes;
mod private;
mod sandbox;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Instant,
};

use serde_json::{Value, json};
use testkit::{Builder, Output, TestDaemon, eventually};

use crate::node;

/// How lent folders travel.
const ARCHIVE: &str = "archive";
const SSHFS: &str = "sshfs";
const GIT: &str = "git";

/// A host that lends and a remote whose built-in agent may do everything in what it is lent.
struct Pair {
    host: TestDaemon,
    remote: TestDaemon,
    token: PathBuf,
    /// Where the host finds the remote, if that is not where the remote finds itself.
    url: Option<String>,
}

impl Pair {
    fn new() -> Self {
        Self::with("")
    }

    /// The remote has these settings in addition.
    fn with(settings: &str) -> Self {
        let host = listening().file("config.toml", "[lending]\nsftp = \"127.0.0.1:0\"\n");
        let remote = format!("[lending]\nexecutor = \"worker\"\n{settings}");
        let remote = listening().file("config.toml", remote);
        Self::of(host.start(), remote.start())
    }

    fn of(host: TestDaemon, remote: TestDaemon) -> Self {
        let kinds = [
            "read", "edit", "delete", "move", "search", "execute", "other",
        ];
        let rule = json!({"kind": kinds, "decision": "allow", "destructive": true});
        let worker = json!({"backend": {"type": "builtin"}, "permissions": {"rules": [rule]}});
        remote.template("worker", worker);
        let admitted = remote.cli(&["delegation", "admit", "host", "-f", "quiet"]);
        assert_eq!(admitted.code, 0, "{admitted:?}");
        let token = host.scratch("remote.token");
        fs::create_dir_all(token.parent().unwrap()).unwrap();
        fs::write(&token, admitted.stdout).unwrap();
        Self {
            host,
            remote,
            token,
            url: None,
        }
    }

    /// A folder of the host's with these files.
    fn folder(&self, files: &[(&str, &str)]) -> PathBuf {
        let folder = self.host.scratch("app");
        fs::create_dir_all(&folder).unwrap();
        for (path, text) in files {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    /// The same as a folder of the plane's kind: one that travels as a repository is one.
    fn folder_for(&self, plane: &str, files: &[(&str, &str)]) -> PathBuf {
        let folder = self.folder(files);
        if plane == GIT && !folder.join(".git").exists() {
            let script = "git init -qb main; git add -A; \
                          git -c user.name=u -c user.email=u@x -c commit.gpgSign=false commit -qm first";
            let made = Command::new("sh")
                .args(["-ec", script])
                .current_dir(&folder)
                .status();
            assert!(made.unwrap().success());
        }
        folder
    }

    /// `agentcraft delegate`, as a person would type it.
    fn delegate(&self, folder: &Path, task: &str, more: &[&str]) -> Output {
        let url = self.url.clone().unwrap_or_else(|| self.remote.url());
        let folder = folder.to_str().unwrap();
        let token = self.token.to_str().unwrap();
        let fixed = [
            "delegate",
            &url,
            task,
            "--dir",
            folder,
            "--token-file",
            token,
        ];
        self.host.cli(&[&fixed, more].concat())
    }

    /// The same in the background; its id.
    fn begin(&self, folder: &Path, task: &str, more: &[&str]) -> String {
        let begun = self.delegate(folder, task, &[more, &["--background"]].concat());
        assert_eq!(begun.code, 0, "{begun:?}");
        begun.stdout.trim().to_owned()
    }

    fn show(&self, id: &str) -> Value {
        let shown = self.host.cli(&["delegation", "show", id, "-f", "json"]);
        serde_json::from_str(&shown.stdout).unwrap_or_else(|_| panic!("{shown:?}"))
    }

    /// Waits for the end, whatever it is.
    fn ended(&self, id: &str) -> Value {
        self.host.cli(&["delegation", "watch", id]);
        self.show(id)
    }

    /// Where the agent works, once it does.
    fn mount_point(&self, id: &str) -> PathBuf {
        self.remote.home().join("lent").join(id)
    }

    /// On neither side anything of it is there: mounts, folders, keys, archives, processes, locks.
    fn left_nothing(&self) {
        let began = Instant::now();
        for (daemon, folders) in [
            (&self.host, ["lending/exports", "lending/snapshots"]),
            (&self.remote, ["lending/taken", "lent"]),
        ] {
            for folder in folders {
                let folder = daemon.home().join(folder);
                eventually(&format!("{} is empty", folder.display()), || {
                    entries(&folder).is_empty()
                });
            }
        }
        let (home, daemon) = (self.remote.home(), self.remote.pid());
        eventually("no mount is left", || {
            mounts_below(&home, daemon).is_empty()
        });
        eventually("no sshfs is left", || {
            processes_about(&home, "sshfs").is_empty()
        });
        eventually("no agent is left", || {
            let agents = self.remote.cli(&["agent", "list", "-f", "quiet"]);
            agents.code == 0 && agents.stdout.trim().is_empty()
        });
        println!(
            "both are clean {:?} later; the goal is 10 s",
            began.elapsed()
        );
        for daemon in [&self.host, &self.remote] {
            // The first takes the audits away, which are kept on purpose; then nothing more is found.
            assert_eq!(daemon.cli(&["delegation", "prune"]).code, 0);
            assert_eq!(daemon.cli(&["delegation", "prune"]).stdout, "removed 0\n");
        }
    }
}

/// A node with an address that nobody else has, so that it comes back where it was after it was killed.
fn listening() -> Builder {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let address = format!("127.{}.{low}.{number}:7420", high.max(1));
    node().listening().env("AGENTCRAFT_LISTEN", address)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// As the daemon sees them: on a machine of its own it has mounts of its own.
fn mounts_below(folder: &Path, daemon: u32) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let mounts = fs::read_to_string(format!("/proc/{daemon}/mounts")).unwrap();
    let below = mounts.lines().filter(|line| line.contains(folder));
    below.map(str::to_owned).collect()
}

/// Processes that run this program and name this folder in their arguments.
fn processes_about(folder: &Path, program: &str) -> Vec<u32> {
    let folder = folder.to_str().unwrap();
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).into_owned();
        (line.starts_with(program) || line.contains(&format!("/{program}\0")))
            .then_some(())
            .filter(|()| line.contains(folder))
            .map(|()| pid)
    });
    pids.collect()
}

/// Whether folders can be mounted here; says so where they cannot.
fn can_mount() -> bool {
    let runs = |program: &str| {
        let found = Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        found.is_ok()
    };
    let can = runs("sshfs") && runs("fusermount3") && Path::new("/dev/fuse").exists();
    if !can {
        println!("skipped: sshfs, fusermount3 and /dev/fuse are needed");
    }
    can
}

/// The planes that work on this machine.
fn planes() -> Vec<&'static str> {
    match can_mount() {
        true => vec![ARCHIVE, SSHFS],
        false => vec![ARCHIVE],
    }
}

/// The same, and that of repositories.
fn planes_and_git() -> Vec<&'static str> {
    [planes(), vec![GIT]].concat()
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
