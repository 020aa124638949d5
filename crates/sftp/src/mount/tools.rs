//! The programs of the system that mount and unmount.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use platform::{Group, Guardian, Owner, Pipes, Spawn, Stream, files, system::find_program};
use rustix::fs::stat;
use tokio::io::AsyncReadExt;

use super::{Missing, MountError, MountPlan};

/// How long a `fusermount3` or a page of help may take; neither waits for the network.
const TOOL_MAX: Duration = Duration::from_secs(5);

/// A page of help is shorter.
const HELP_BYTES_MAX: u64 = 64 * 1024;

/// What the help of the last program that was asked said; asked once for each, since it costs a process.
static ASKED: Mutex<Option<Asked>> = Mutex::new(None);

#[derive(Clone, Debug)]
struct Asked {
    program: PathBuf,
    version: Option<Version>,
    knows_containment: bool,
}

/// Number and change of a program's file: another version has others.
type Version = [i128; 2];

/// The programs that are needed.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    sshfs: PathBuf,
    fusermount: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    owner: Owner,
    /// Names the children of this mount.
    id: String,
}

/// Which of the programs is started, each with a token of its own: the end of one must not end the others.
#[derive(Clone, Copy, Debug)]
pub(super) enum Child {
    Help,
    Sshfs,
    Fusermount,
}

impl Tools {
    pub(super) fn find(plan: &MountPlan) -> Result<Tools, MountError> {
        let path = plan
            .environment
            .get(OsStr::new("PATH"))
            .map_or(OsStr::new(""), OsString::as_os_str);
        let find = |name: &str, missing: Missing| {
            find_program(name, path).ok_or(MountError::DepMissing { missing })
        };
        let sshfs = find("sshfs", Missing::Sshfs)?;
        find("ssh", Missing::Ssh)?;
        let fusermount = find("fusermount3", Missing::Fusermount)?;
        if !files::is_there(Path::new("/dev/fuse")) {
            return Err(MountError::DepMissing {
                missing: Missing::Device,
            });
        }
        Ok(Tools {
            sshfs,
            fusermount,
            environment: plan.environment.clone(),
            owner: plan.owner.clone(),
            id: platform::owner::fresh_id(),
        })
    }

    pub(super) fn start(
        &self,
        child: Child,
        args: Vec<OsString>,
        guardian: &Guardian,
    ) -> Result<(Group, Pipes), MountError> {
        let program = match child {
            Child::Help | Child::Sshfs => &self.sshfs,
            Child::Fusermount => &self.fusermount,
        };
        let tag = self
            .owner
            .tag(&format!("mount-{}-{child:?}", self.id))
            .expect("an id of letters and digits is a legal name");
        let mut spawn = Spawn::new(program, "/", tag);
        spawn.env = self.environment.clone();
        spawn.args = args;
        match child {
            Child::Help => spawn.stdout = Stream::Piped,
            Child::Sshfs => spawn.stderr = Stream::Piped,
            Child::Fusermount => {}
        }
        spawn
            .spawn(guardian)
            .map_err(|source| MountError::Start { source })
    }

    /// Newer releases of sshfs refuse links by themselves, and only those know the option.
    pub(super) async fn knows_containment(&self, guardian: &Guardian) -> Result<bool, MountError> {
        let file = stat(&self.sshfs).ok();
        let version = file.map(|it| [i128::from(it.st_ino), i128::from(it.st_mtime)]);
        let asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(asked) = asked
            && (&asked.program, asked.version) == (&self.sshfs, version)
        {
            return Ok(asked.knows_containment);
        }
        let (help, pipes) = self.start(Child::Help, vec!["--help".into()], guardian)?;
        let mut text = Vec::new();
        if let Some(stdout) = pipes.stdout {
            let mut stdout = stdout.take(HELP_BYTES_MAX);
            // Without its help the oldest release is assumed, which takes every option that we pass to it.
            let _ = tokio::time::timeout(TOOL_MAX, stdout.read_to_end(&mut text)).await;
        }
        help.end(Duration::ZERO).await;
        let knows_containment = String::from_utf8_lossy(&text).contains("contain_symlinks");
        let asked = Asked {
            program: self.sshfs.clone(),
            version,
            knows_containment,
        };
        *ASKED.lock().unwrap_or_else(PoisonError::into_inner) = Some(asked);
        Ok(knows_containment)
    }

    /// Whether it worked is seen in the kernel's table afterwards.
    pub(super) async fn fusermount(&self, how: &str, point: &Path, guardian: &Guardian) {
        let args = vec![how.into(), "--".into(), point.into()];
        match self.start(Child::Fusermount, args, guardian) {
            Ok((group, _)) => {
                let _ = tokio::time::timeout(TOOL_MAX, group.wait()).await;
                group.end(Duration::ZERO).await;
            }
            Err(error) => tracing::warn!(%error, "could not start fusermount3"),
        }
    }
}
