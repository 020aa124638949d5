//! Small facts about the machine and the user, and the start of a daemon that outlives its starter.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs::{File, OpenOptions},
    io,
    os::unix::{
        fs::{OpenOptionsExt, PermissionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use crate::pid::ProcessRef;

#[derive(Debug, thiserror::Error)]
pub enum DetachError {
    #[error("could not open the log {path}")]
    Log { path: PathBuf, source: io::Error },
    #[error("could not start {exe} in the background")]
    Start { exe: PathBuf, source: io::Error },
}

/// A process started to outlive us. Dropping this leaves it running.
#[derive(Debug)]
pub struct Detached {
    child: Child,
}

impl Detached {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// To await an early death with [`ProcessRef::exited`].
    pub fn process(&self) -> Option<ProcessRef> {
        ProcessRef::of(self.child.id())
    }

    /// How it ended, if it already has.
    pub fn exit(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }
}

/// Starts `exe` in a session of its own: no input, output appended to the log, exactly this environment, folder `/`.
#[expect(unsafe_code, reason = "A session must be made between fork and exec.")]
pub fn spawn_detached(
    exe: &Path,
    args: &[OsString],
    env: &BTreeMap<OsString, OsString>,
    log_file: &Path,
) -> Result<Detached, DetachError> {
    let log_error = |source| DetachError::Log {
        path: log_file.to_owned(),
        source,
    };
    let log: File = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(log_file)
        .map_err(log_error)?;
    let second = log.try_clone().map_err(log_error)?;
    let mut command = Command::new(exe);
    command
        .args(args)
        .env_clear()
        .envs(env)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::from(log))
        .stderr(Stdio::from(second));
    // SAFETY: setsid is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            Ok(())
        })
    };
    let child = command.spawn().map_err(|source| DetachError::Start {
        exe: exe.to_owned(),
        source,
    })?;
    Ok(Detached { child })
}

/// Runs a program of the system in our environment and waits for it; its words are an error's.
pub fn run_to_end(program: &Path, args: &[&str]) -> io::Result<()> {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!(
        "{} ended with {}: {}",
        program.display(),
        output.status,
        words.trim()
    )))
}

pub fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The user's home: HOME of the environment that is passed, else what the password file says.
pub fn home_dir(env: &BTreeMap<OsString, OsString>) -> Option<PathBuf> {
    let named = env
        .get(OsStr::new("HOME"))
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    named.or_else(|| {
        let passwd = std::fs::read_to_string("/etc/passwd").ok()?;
        home_in_passwd(&passwd, effective_uid())
    })
}

fn home_in_passwd(passwd: &str, uid: u32) -> Option<PathBuf> {
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let found = fields.get(2)?.parse() == Ok(uid);
        let home = PathBuf::from(fields.get(5)?);
        (found && home.is_absolute()).then_some(home)
    })
}

/// The machine's name in its network.
pub fn hostname() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// The first executable file of this name in the folders of a PATH; a name with a slash is only checked.
/// Empty and relative folders are skipped: what runs must not depend on where we stand.
pub fn find_program(name: impl AsRef<OsStr>, path_var: &OsStr) -> Option<PathBuf> {
    let name = Path::new(name.as_ref());
    if name.components().count() > 1 || name.is_absolute() {
        return is_executable(name).then(|| name.to_owned());
    }
    std::env::split_paths(path_var)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    let executable = |metadata: std::fs::Metadata| {
        metadata.is_file() && metadata.permissions().mode() & 0o111 != 0
    };
    path.metadata().is_ok_and(executable)
        && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Sets the mask of permissions new files do not get, for the whole process, and returns the earlier one.
pub fn umask(mask: u32) -> u32 {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(mask as _)).as_raw_mode() as u32
}

/// Which user is at the other end of a socket.
pub fn peer_uid(stream: &tokio::net::UnixStream) -> io::Result<u32> {
    stream.peer_cred().map(|credentials| credentials.uid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{PATIENCE, python};

    #[test]
    fn a_program_is_found_only_in_absolute_folders_and_only_if_executable() {
        let folder = tempfile::tempdir().unwrap();
        let (tool, text) = (folder.path().join("tool"), folder.path().join("text"));
        std::fs::write(&tool, "").unwrap();
        std::fs::write(&text, "").unwrap();
        std::fs::set_permissions(&tool, PermissionsExt::from_mode(0o755)).unwrap();
        let path_var =
            std::env::join_paths([Path::new("."), Path::new(""), folder.path()]).unwrap();
        assert_eq!(find_program("tool", &path_var), Some(tool.clone()));
        assert_eq!(find_program(&tool, OsStr::new("")), Some(tool));
        for missing in ["text", "nowhere", "src", ""] {
            assert_eq!(find_program(missing, &path_var), None, "{missing:?}");
        }
    }

    #[test]
    fn home_is_the_variable_or_the_password_files() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbad line\nann:x:1000:1000::/home/ann:/bin/sh";
        assert_eq!(home_in_passwd(passwd, 1000), Some("/home/ann".into()));
        assert_eq!(home_in_passwd(passwd, 7), None);
        let env = BTreeMap::from([("HOME".into(), "/x".into())]);
        assert_eq!(home_dir(&env), Some("/x".into()));
        let relative = BTreeMap::from([("HOME".into(), "x".into())]);
        assert_ne!(home_dir(&relative), Some("x".into()));
    }

    #[tokio::test]
    async fn the_other_end_of_a_socket_is_us() {
        let (left, _right) = tokio::net::UnixStream::pair().unwrap();
        assert_eq!(peer_uid(&left).unwrap(), effective_uid());
        assert!(!hostname().is_empty());
    }

    #[tokio::test]
    async fn a_detached_process_leads_its_session_and_writes_to_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let code = "import os; print(os.getsid(0) == os.getpid(), os.getcwd(), sorted(k for k in os.environ if k != 'LC_CTYPE'))";
        let env = BTreeMap::from([("ONLY".into(), "this".into())]);
        let args = ["-c".into(), code.into()];
        let mut detached = spawn_detached(&python(), &args, &env, &log).unwrap();
        let process = detached.process().unwrap();
        tokio::time::timeout(PATIENCE, process.exited())
            .await
            .unwrap();
        assert!(detached.exit().unwrap().unwrap().success());
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "True / ['ONLY']\n");
        assert_eq!(log.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
