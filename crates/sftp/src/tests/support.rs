//! A lent folder in a temporary one, a server on loopback, and mounts that do not outlive their test.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::Read,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use platform::{ConfinedDir, Guardian, Owner, Tasks};

use crate::{
    Access, Credential, Export, Grant, HostKey, Server,
    export::Lent,
    mount::{Connection, HostTrust, Mount, MountKey, MountPlan},
};

/// How long a test waits for what should happen at once.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

const GUARDIAN_MARK: &str = "play-the-guardian";

/// Does nothing in an ordinary run; `guardian` starts it with the mark.
#[test]
fn role_of_the_guardian() {
    if std::env::args().any(|arg| arg == GUARDIAN_MARK) {
        platform::guardian::run(std::io::stdin().lock());
    }
}

/// `workspace` and `meta` are lent, `outside` holds the secret.
pub(crate) struct Folders {
    pub(super) temp: tempfile::TempDir,
}

impl Folders {
    pub(crate) fn new() -> Folders {
        let temp = tempfile::tempdir().unwrap();
        for folder in [
            "workspace/sub/deep",
            "meta",
            "outside/folder",
            "private",
            "point",
        ] {
            std::fs::create_dir_all(temp.path().join(folder)).unwrap();
        }
        let folders = Folders { temp };
        folders.put("workspace/file", "inside");
        folders.put("workspace/sub/deep/file", "deep");
        folders.put("meta/task.json", "{}");
        folders.put("outside/secret", "secret");
        folders
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.temp.path().join(path)
    }

    pub(super) fn workspace(&self, path: &str) -> PathBuf {
        self.path("workspace").join(path)
    }

    pub(super) fn put(&self, path: &str, text: &str) {
        std::fs::write(self.path(path), text).unwrap();
    }

    pub(super) fn link(&self, target: &str, path: &str) {
        symlink(target, self.workspace(path)).unwrap();
    }

    pub(super) fn export(&self, access: Access, quota_bytes: Option<u64>) -> Export {
        Export {
            id: "test".into(),
            workspace: ConfinedDir::open(&self.path("workspace")).unwrap(),
            meta: Some(ConfinedDir::open(&self.path("meta")).unwrap()),
            access,
            quota_bytes,
            repositories: vec![".git".into()],
            reserved: vec!["kept-name".into()],
            until: Instant::now() + Duration::from_secs(3600),
        }
    }

    /// Without a server: for conversations held in memory.
    pub(crate) fn lent(&self, access: Access, quota_bytes: Option<u64>) -> Arc<Lent> {
        let (credential, key) = Credential::generate(String::new()).unwrap();
        let export = self.export(access, quota_bytes);
        Arc::new(Lent::new(export, credential.user, key, Tasks::new()))
    }
}

/// The folders with a server before them.
pub(super) struct Host {
    pub(super) folders: Folders,
    pub(super) server: Server,
    pub(super) tasks: Tasks,
}

impl Host {
    pub(super) async fn new() -> Host {
        let tasks = Tasks::new();
        let key = HostKey::generate().unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        Host {
            folders: Folders::new(),
            server: Server::bind(address, &key, &tasks).await.unwrap(),
            tasks,
        }
    }

    pub(super) fn lend(&self, access: Access, quota_bytes: Option<u64>) -> Grant {
        let export = self.folders.export(access, quota_bytes);
        self.server.export(export).unwrap()
    }

    pub(super) fn plan(&self, grant: &Grant, remote: &Remote) -> MountPlan {
        let credential = grant.credential();
        MountPlan {
            host: "127.0.0.1".into(),
            port: self.server.local_addr().port(),
            path: "/workspace".into(),
            user: credential.user.clone(),
            key: MountKey {
                private_key: credential.private_key.clone(),
                certificate: None,
            },
            trust: HostTrust::Pinned(credential.host_key.clone()),
            mount_point: self.folders.path("point"),
            private_folder: self.folders.path("private"),
            access: Access::ReadWrite,
            connection: Connection::Once,
            cache: Duration::ZERO,
            environment: environment(),
            owner: remote.owner.clone(),
        }
    }

    /// Writes the key and the known host for the command-line clients.
    pub(super) fn ssh_options(&self, credential: &Credential) -> Vec<String> {
        use std::os::unix::fs::PermissionsExt;
        let (key, known) = (self.folders.path("key"), self.folders.path("known"));
        std::fs::write(&key, &credential.private_key).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        let port = self.server.local_addr().port();
        let line = format!("[127.0.0.1]:{port} {}\n", credential.host_key);
        std::fs::write(&known, line).unwrap();
        let options = [
            format!("Port={port}"),
            format!("User={}", credential.user),
            format!("IdentityFile={}", key.display()),
            format!("UserKnownHostsFile={}", known.display()),
            "IdentitiesOnly=yes".into(),
            "StrictHostKeyChecking=yes".into(),
            "BatchMode=yes".into(),
            "LogLevel=ERROR".into(),
        ];
        let mut args = vec!["-F".to_owned(), "/dev/null".to_owned()];
        for option in options {
            args.extend(["-o".to_owned(), option]);
        }
        args
    }
}

/// The side that mounts.
pub(super) struct Remote {
    pub(super) owner: Owner,
    pub(super) guardian: Guardian,
    pub(super) tasks: Tasks,
}

impl Remote {
    pub(super) fn new() -> Remote {
        let home = format!("test-{}", platform::owner::fresh_id());
        let owner = Owner::starting(&home).unwrap();
        let exe = std::env::current_exe().unwrap();
        let role = "tests::support::role_of_the_guardian";
        Remote {
            guardian: Guardian::spawn(&exe, &["--exact", role, GUARDIAN_MARK], &owner).unwrap(),
            owner,
            tasks: Tasks::new(),
        }
    }

    pub(super) async fn mount(&self, plan: MountPlan) -> Mount {
        Mount::open(plan, &self.guardian, &self.tasks, &self.tasks.stop())
            .await
            .unwrap()
    }

    /// Everything that a test leaves behind is a failure of it.
    pub(super) async fn leave(self, mount: Mount) {
        let point = mount.point().unwrap().to_owned();
        mount.unmount().await.unwrap();
        self.close().await;
        assert!(!is_mounted(&point));
    }

    pub(super) async fn close(self) {
        self.guardian.close().await;
        let drained = self.tasks.drain(PATIENCE).await;
        assert_eq!(drained, platform::Drained::Clean);
    }
}

pub(super) fn is_mounted(point: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let point = point.canonicalize().unwrap_or(point.to_owned());
    table.contains(&format!(" {} ", point.display()))
}

pub(super) fn environment() -> BTreeMap<OsString, OsString> {
    platform::base_environment(std::env::vars_os())
}

/// Runs a program to its end, off the runtime's threads: what it waits for may be served by them.
pub(super) async fn run(command: Command) -> Output {
    tokio::task::spawn_blocking(move || run_blocking(command))
        .await
        .unwrap()
}

fn run_blocking(mut command: Command) -> Output {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = child.stderr.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        errors.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let mut stdout = Vec::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_end(&mut stdout)
        .unwrap();
    Output {
        status: child.wait().unwrap(),
        stdout,
        stderr: reader.join().unwrap(),
    }
}

/// A shell script in a folder that must succeed; what it printed.
pub(super) async fn shell(folder: &Path, script: &str) -> String {
    let output = try_shell(folder, script).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{script}\n{text}\n{errors}");
    text
}

pub(super) async fn try_shell(folder: &Path, script: &str) -> Output {
    let mut command = Command::new("/bin/sh");
    command.args(["-euc", script]).current_dir(folder);
    run(command).await
}

/// Looks again and again until it holds, and panics when the time is over.
pub(super) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    if tokio::time::timeout(PATIENCE, looking).await.is_err() {
        panic!("not within {PATIENCE:?}: {what}");
    }
}
