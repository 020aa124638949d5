//! The remote side: an export mounted with the system's sshfs, so that any tool can work on it.
//!
//! sshfs stays in the foreground as a guarded child. Its key is in a private folder and, unless the mount shall come
//! back by itself after a lost connection, only until the mount is up. With `reconnect` a mount that has lost its host
//! answers every access with an error; without it the mount would vanish, and an agent would write into the empty
//! folder beneath unnoticed.

mod arguments;
mod complaints;
mod error;
mod plan;
mod secrets;
mod table;
mod tools;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use platform::{Group, Guardian, Tasks, files};
use rustix::fs::{Mode as Permissions, OFlags, chmod, fstat, open, stat, statvfs};
use tokio_util::sync::CancellationToken;

pub use error::{Missing, MountError, UnmountError};
pub use plan::{Connection, HostTrust, MountKey, MountPlan};
pub use secrets::SECRETS_PREFIX;

use complaints::Complaints;
use secrets::Secrets;
use table::MountTable;
use tools::{Child, Tools};

/// How long it may take until the mount is there: name lookup, connection and login, with room for a slow network.
const MOUNT_MAX: Duration = Duration::from_secs(30);

/// How often it is looked whether the mount is there; the kernel's table is read for it and no file system touched.
const LOOK_PERIOD: Duration = Duration::from_millis(2);

/// How long sshfs may take to end after its mount is gone.
const END_GRACE: Duration = Duration::from_secs(2);

/// How long a living mount takes to answer at most; sshfs itself gives up on a silent host earlier.
const ALIVE_MAX: Duration = Duration::from_secs(20);

/// Nobody can write into the folder while nothing is mounted on it (root can, hence `is_alive`).
const BENEATH: Permissions = Permissions::RUSR.union(Permissions::XUSR);

/// A mounted export. Dropping it unmounts in the background.
#[derive(Debug)]
pub struct Mount {
    /// Absent once it is being unmounted.
    mounted: Option<Mounted>,
    tasks: Tasks,
}

#[derive(Debug)]
struct Mounted {
    point: PathBuf,
    /// Which file system is beneath the mount.
    beneath: u64,
    sshfs: Group,
    secrets: Secrets,
    tools: Tools,
    guardian: Guardian,
}

/// How an unmount ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unmounted {
    Clean,
    /// Somebody still had files open; they lose them.
    Forced,
}

impl Mount {
    /// Mounts and returns when the mount is there, or, once it shall stop, when nothing of it is left.
    pub async fn open(
        plan: MountPlan,
        guardian: &Guardian,
        tasks: &Tasks,
        stop: &CancellationToken,
    ) -> Result<Mount, MountError> {
        plan.check()?;
        let tools = Tools::find(&plan)?;
        let knows_containment = tools.knows_containment(guardian).await?;
        let beneath = prepare(&plan.mount_point)?;
        let secrets = Secrets::write(&plan)?;
        let args = arguments::of(&plan, &secrets, knows_containment);
        let started = guardian
            .add_mount(&plan.mount_point)
            .map_err(|source| MountError::Guardian { source })
            .and_then(|()| tools.start(Child::Sshfs, args, guardian));
        let (sshfs, pipes) = match started {
            Ok(started) => started,
            Err(error) => {
                secrets.remove();
                guardian.forget_mount(&plan.mount_point);
                return Err(error);
            }
        };
        let complaints = Complaints::collect(pipes.stderr, tasks);
        let mounted = Mounted {
            point: plan.mount_point,
            beneath,
            sshfs,
            secrets,
            tools,
            guardian: guardian.clone(),
        };
        let came_up = tokio::select! { biased;
            () = stop.cancelled() => Err(MountError::Stopped),
            came_up = mounted.come_up(&complaints, tasks) => came_up,
        };
        match came_up {
            Ok(()) => {
                if plan.connection == Connection::Once {
                    mounted.secrets.forget_key();
                }
                Ok(Mount {
                    mounted: Some(mounted),
                    tasks: tasks.clone(),
                })
            }
            Err(error) => {
                let _ = mounted.take_down().await; // Why it did not come up is the better story.
                Err(error)
            }
        }
    }

    pub fn point(&self) -> Option<&Path> {
        self.mounted.as_ref().map(|mounted| mounted.point.as_path())
    }

    /// Whether the export is really there and answers: ask before each step of a task. A folder that has lost its mount
    /// looks like any other.
    pub async fn is_alive(&self) -> bool {
        let Some(mounted) = &self.mounted else {
            return false;
        };
        let answers = mounted.answers(&self.tasks);
        matches!(tokio::time::timeout(ALIVE_MAX, answers).await, Ok(true))
    }

    /// Whether `path` is a folder of the export itself: the host decides what its names are, and a link would lead into
    /// this machine.
    pub async fn has_folder(&self, path: &Path) -> bool {
        let Some(mounted) = &self.mounted else {
            return false;
        };
        let (point, path) = (mounted.point.clone(), path.to_owned());
        let looking = self.tasks.spawn_blocking(move |_| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let open = open(&path, flags, Permissions::empty());
            let found = open.and_then(fstat).map(|found| found.st_dev);
            found.is_ok() && found == stat(&point).map(|point| point.st_dev)
        });
        matches!(tokio::time::timeout(ALIVE_MAX, looking).await, Ok(Ok(true)))
    }

    /// Resolves when sshfs has ended, by itself or not.
    pub async fn ended(&self) {
        if let Some(mounted) = &self.mounted {
            mounted.sshfs.wait().await;
        }
    }

    pub async fn unmount(mut self) -> Result<Unmounted, UnmountError> {
        match self.mounted.take() {
            Some(mounted) => mounted.take_down().await,
            None => Ok(Unmounted::Clean),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Some(mounted) = self.mounted.take() {
            self.tasks.spawn(|_| async move {
                if let Err(error) = mounted.take_down().await {
                    tracing::warn!(%error, "a dropped mount could not be taken down");
                }
            });
        }
    }
}

impl Mounted {
    /// sshfs mounts before it connects, so only an answer shows that all of it works.
    async fn come_up(&self, complaints: &Complaints, tasks: &Tasks) -> Result<(), MountError> {
        let answers = async {
            while !(MountTable::read().holds(&self.point) && self.answers(tasks).await) {
                tokio::time::sleep(LOOK_PERIOD).await;
            }
        };
        let up = async {
            tokio::select! { biased;
                exit = self.sshfs.wait() => {
                    complaints.ended().await;
                    Err(error::explain(complaints.text(), Some(exit)))
                }
                () = answers => Ok(()),
            }
        };
        tokio::time::timeout(MOUNT_MAX, up)
            .await
            .unwrap_or_else(|_| Err(error::explain(complaints.text(), None)))
    }

    /// The look may hang with the host, so it has a thread of its own.
    async fn answers(&self, tasks: &Tasks) -> bool {
        let (point, beneath) = (self.point.clone(), self.beneath);
        let look = tasks.spawn_blocking(move |_| {
            let is_mounted = stat(&point).is_ok_and(|stat| stat.st_dev != beneath);
            // Attributes may be remembered from better times; the room on the disk is asked for anew.
            is_mounted && statvfs(&point).is_ok()
        });
        look.await.unwrap_or(false)
    }

    async fn take_down(self) -> Result<Unmounted, UnmountError> {
        let mut how = Unmounted::Clean;
        if MountTable::read().holds(&self.point) {
            self.tools
                .fusermount("-u", &self.point, &self.guardian)
                .await;
        }
        if MountTable::read().holds(&self.point) {
            how = Unmounted::Forced;
            self.tools
                .fusermount("-uz", &self.point, &self.guardian)
                .await;
        }
        self.sshfs.end(END_GRACE).await;
        let is_left = MountTable::read().holds(&self.point);
        self.secrets.remove();
        if is_left {
            return Err(UnmountError { point: self.point });
        }
        self.guardian.forget_mount(&self.point);
        let _ = chmod(&self.point, Permissions::RWXU); // The folder's owner may have removed it already.
        Ok(how)
    }
}

/// Makes the empty folder unwritable and says which file system it is on.
fn prepare(point: &Path) -> Result<u64, MountError> {
    let failed = |source| MountError::Folder {
        path: point.to_owned(),
        source,
    };
    let entries = files::list(point).map_err(|source| MountError::List { source })?;
    if !entries.is_empty() {
        return Err(MountError::NotEmpty {
            path: point.to_owned(),
        });
    }
    let beneath = stat(point).map_err(|error| failed(error.into()))?;
    chmod(point, BENEATH).map_err(|error| failed(error.into()))?;
    Ok(beneath.st_dev)
}
