//! A lent workspace at the remote: unpacked, cloned or mounted, and everything written brought home.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use archive::{ArchiveError, Checksum, Delta, Folder, Limits, Manifest, everything};
use domain::delegation::{Access, Code, DelegationId, Failure};
use platform::{crash, files};
use sftp::mount::{Connection, HostTrust, Mount, MountError, MountKey, MountPlan};
use tokio_util::sync::CancellationToken;
use wire::awcp::{Secret, seed};

use super::{clone::Clone, work::Place};
use crate::{
    blocking::not_done,
    convert,
    error::chain,
    node::Node,
    peer::{Home, PeerError},
    record::{Dialect, WayHome},
    released::ZIPPED,
    spool::{self, Stoppable},
};

/// The option of START that names the host's certificate.
pub(crate) const CERTIFICATE: &str = "certificate";

/// For how long a host that was there at START is looked for when it is gone before its workspace is here.
const FETCH_AGAIN_MAX: Duration = Duration::from_secs(60);

const FETCHED: &str = "workspace.tar.zst";
const BUNDLE: &str = "workspace.bundle";
const DELTA: &str = "delta.tar.zst";

/// For how long listings of a mount are believed: builds ask for the same file many times.
const CACHE: Duration = Duration::from_secs(1);

/// A workspace that is here.
#[derive(Debug)]
pub(super) enum Plane {
    Unpacked {
        node: Node,
        point: PathBuf,
        stage: PathBuf,
        /// How it came.
        before: Manifest,
        /// Where changes go.
        home: WayHome,
    },
    /// Unpacked, one folder for each resource; what it becomes is fetched by the delegator.
    Zipped {
        node: Node,
        point: PathBuf,
        resources: Vec<String>,
        result: PathBuf,
    },
    Cloned {
        node: Node,
        clone: Clone,
        point: PathBuf,
        stage: PathBuf,
        /// Where changes go.
        home: WayHome,
    },
    Mounted {
        mount: Box<Mount>,
        cwd: PathBuf,
        /// Where it is mounted: a folder of ours, whatever the host shows in it.
        root: PathBuf,
    },
}

/// What is needed to bring a workspace here.
pub(super) struct Bringing {
    pub(super) node: Node,
    pub(super) id: DelegationId,
    pub(super) point: PathBuf,
    pub(super) access: Access,
    pub(super) mount: seed::Mount,
    pub(super) dialect: Dialect,
}

/// Where the host wants to hear how it went, if it is one that says so.
pub(super) fn way_home(mount: &seed::Mount) -> Option<WayHome> {
    Some(WayHome {
        url: option(mount, "reply_url")?,
        secret: option(mount, "reply_token")
            .or_else(|| convert::token(mount.credential.as_ref()))?,
        certificate: option(mount, CERTIFICATE),
    })
}

/// Where START wants to hear how it went, and to be sent changes.
pub(crate) fn way_home_urls(mount: &seed::Mount) -> Vec<String> {
    ["reply_url", "delta_url"]
        .iter()
        .filter_map(|name| option(mount, name))
        .collect()
}

fn option(mount: &seed::Mount, name: &str) -> Option<String> {
    let value = mount.mount_options.as_ref()?.get(name)?;
    value.as_str().map(str::to_owned)
}

impl Bringing {
    pub(super) async fn unpack(self, stop: &CancellationToken) -> Result<Plane, Failure> {
        if let Dialect::Released { resources } = self.dialect.clone() {
            return self.unpack_zip(resources, stop).await;
        }
        let (stage, home) = self.fetch(FETCHED, stop).await?;
        let checksum = option(&self.mount, "checksum");
        let tasks = self.node.tasks().clone();
        let limits = limits(&self.node);
        let (point, folder, stop) = (self.point.clone(), stage.clone(), stop.clone());
        let unpacking = tasks.spawn_blocking(move |_| {
            let expected = match checksum {
                None => None,
                Some(text) => Some(Checksum::parse(&text).ok_or_else(|| {
                    Failure::new(Code::MountFailed, "START has a checksum that is none")
                })?),
            };
            let file = spool::open(&folder, FETCHED).map_err(|error| failed(&error))?;
            let file = Stoppable { inner: file, stop };
            let into = Folder::open(&point).map_err(|error| failed(&error))?;
            let unpacked = archive::unpack(file, expected, &into, &limits);
            unpacked.map_err(|error| not_unpacked(&error))
        });
        let unpacked = unpacking
            .await
            .unwrap_or_else(|error| Err(not_done(&error)))?;
        Ok(Plane::Unpacked {
            point: self.point,
            stage,
            before: unpacked.manifest,
            home,
            node: self.node,
        })
    }

    /// A clone of what was lent, to work in.
    pub(super) async fn clone_repository(self, stop: &CancellationToken) -> Result<Plane, Failure> {
        let (stage, home) = self.fetch(BUNDLE, stop).await?;
        let checksum = option(&self.mount, "checksum");
        let cloning = Clone::of(&self.node, &self.point, (&stage, BUNDLE), checksum);
        let clone = tokio::select! { biased;
            () = stop.cancelled() => return Err(Failure::new(Code::Cancelled, "it was stopped")),
            clone = cloning => clone?,
        };
        Ok(Plane::Cloned {
            clone,
            point: self.point,
            stage,
            home,
            node: self.node,
        })
    }

    /// Fetches what is lent into the stage; gives the stage and where changes go.
    async fn fetch(
        &self,
        name: &str,
        stop: &CancellationToken,
    ) -> Result<(PathBuf, WayHome), Failure> {
        let denied = || Failure::new(Code::AuthFailed, "START of an archive carries no token");
        let token = convert::token(self.mount.credential.as_ref()).ok_or_else(denied)?;
        let stage = self.node.stage_folder(&self.id);
        files::create_private_dir(&stage).map_err(|error| failed(&error))?;
        let certificate = option(&self.mount, CERTIFICATE);
        let home = Home {
            url: &self.mount.export_locator,
            secret: &token,
            certificate: certificate.as_deref(),
        };
        let (peers, max) = (self.node.peers(), limits(&self.node).bytes);
        let into = (stage.as_path(), name);
        let fetching = persist_for(&self.node, FETCH_AGAIN_MAX, || {
            peers.fetch(home, into, max, self.node.tasks())
        });
        tokio::select! { biased;
            () = stop.cancelled() => Err(Failure::new(Code::Cancelled, "it was stopped")),
            fetched = fetching => match fetched {
                Ok(_) => Ok((stage.clone(), WayHome {
                    // Where changes go; a host that says nothing of it lends for reading.
                    url: option(&self.mount, "delta_url").unwrap_or_default(),
                    secret: token.clone(),
                    certificate: certificate.clone(),
                })),
                Err(error) => Err(not_fetched(&error)),
            },
        }
    }

    /// The archive came with START and lies in the stage.
    async fn unpack_zip(
        self,
        resources: Vec<String>,
        stop: &CancellationToken,
    ) -> Result<Plane, Failure> {
        let limits = limits(&self.node);
        let (stage, point) = (self.node.stage_folder(&self.id), self.point.clone());
        let (names, stop) = (resources.clone(), stop.clone());
        let unpacking = self.node.tasks().spawn_blocking(move |_| {
            let file = spool::open_seekable(&stage, ZIPPED).map_err(|error| failed(&error))?;
            let into = Folder::open(&point).map_err(|error| failed(&error))?;
            archive::unpack_zip(file, &into, &limits).map_err(|error| not_unpacked(&error))?;
            if stop.is_cancelled() {
                return Err(Failure::new(Code::Cancelled, "it was stopped"));
            }
            // An empty resource may not be in the archive at all.
            for name in names {
                files::create_dir_all(&point.join(name)).map_err(|error| failed(&error))?;
            }
            Ok(())
        });
        unpacking
            .await
            .unwrap_or_else(|error| Err(not_done(&error)))?;
        Ok(Plane::Zipped {
            point: self.point,
            result: self.node.results_root().join(format!("{}.zip", self.id)),
            node: self.node,
            resources,
        })
    }

    pub(super) async fn mount(self, stop: &CancellationToken) -> Result<Plane, Failure> {
        let missing = |what: &str| {
            Failure::new(
                Code::MountFailed,
                format!("START of a mount carries no {what}"),
            )
        };
        let endpoint = self
            .mount
            .endpoint
            .clone()
            .ok_or_else(|| missing("endpoint"))?;
        let key = match self.mount.credential.clone() {
            Some(seed::Credential::Key {
                private_key: Secret(private_key),
                certificate,
            }) => MountKey {
                private_key,
                certificate,
            },
            Some(seed::Credential::Text(Secret(private_key))) => MountKey {
                private_key,
                certificate: None,
            },
            Some(seed::Credential::Token { .. }) | None => return Err(missing("key")),
        };
        let trust = match endpoint.host_key {
            Some(line) => HostTrust::Pinned(line),
            None => HostTrust::FirstUse,
        };
        // A host with a view shows what the task is beside the workspace.
        let (path, cwd) = match option(&self.mount, "view") {
            Some(view) => (view, self.point.join(sftp::WORKSPACE)),
            None => (self.mount.export_locator.clone(), self.point.clone()),
        };
        let root = self.point.clone();
        let plan = MountPlan {
            host: endpoint.host,
            port: endpoint.port,
            path,
            user: endpoint.user,
            key,
            trust,
            mount_point: self.point,
            private_folder: self.node.stage_root(),
            access: match self.access {
                Access::Ro => sftp::Access::ReadOnly,
                Access::Rw => sftp::Access::ReadWrite,
            },
            connection: Connection::Once,
            cache: CACHE,
            environment: self.node.config().environment.clone(),
            owner: self.node.owner().clone(),
        };
        let node = &self.node;
        let opened = Mount::open(plan, node.guardian(), node.tasks(), stop).await;
        let mount = opened.map_err(|error| not_mounted(&error))?;
        if !mount.has_folder(&cwd).await {
            let _ = mount.unmount().await; // What the host shows there is the better story.
            let words = "what the host shows as the workspace is no folder of its own";
            return Err(Failure::new(Code::MountFailed, words));
        }
        let mount = Box::new(mount);
        Ok(Plane::Mounted { mount, cwd, root })
    }
}

impl Plane {
    /// Where the agent works, and what of it is ours.
    pub(super) fn place(&self) -> Place {
        let ours = |cwd: PathBuf| Place {
            root: cwd.clone(),
            cwd,
        };
        match self {
            Self::Unpacked { point, .. } | Self::Cloned { point, .. } => ours(point.clone()),
            Self::Zipped {
                point, resources, ..
            } => match resources.as_slice() {
                [only] => ours(point.join(only)),
                _ => ours(point.clone()),
            },
            Self::Mounted { cwd, root, .. } => Place {
                cwd: cwd.clone(),
                root: root.clone(),
            },
        }
    }

    /// Resolves when a mount has ended by itself; what lies here does not.
    pub(super) async fn lost(&self) {
        match self {
            Self::Mounted { mount, .. } => mount.ended().await,
            Self::Unpacked { .. } | Self::Zipped { .. } | Self::Cloned { .. } => {
                std::future::pending().await
            }
        }
    }

    /// Brings everything written to the host. What was written into a workspace lent for reading stays behind.
    pub(super) async fn flush(&self, access: Access) -> Result<(), Failure> {
        match (self, access) {
            (Self::Mounted { mount, .. }, _) => match mount.is_alive().await {
                true => Ok(()),
                false => Err(Failure::new(
                    Code::MountFailed,
                    "the workspace does not answer any more",
                )),
            },
            (Self::Zipped { .. }, Access::Rw) => self.pack_result().await,
            (Self::Unpacked { .. } | Self::Zipped { .. } | Self::Cloned { .. }, Access::Ro) => {
                Ok(())
            }
            (Self::Cloned { .. }, Access::Rw) => self.send_branch().await,
            (Self::Unpacked { .. }, Access::Rw) => self.send_delta().await,
        }
    }

    /// Everything as it became: that dialect knows no delta.
    async fn pack_result(&self) -> Result<(), Failure> {
        let Self::Zipped {
            node,
            point,
            resources,
            result,
        } = self
        else {
            return Ok(());
        };
        let (point, names, result) = (point.clone(), resources.clone(), result.clone());
        let limits = limits(node);
        let packing = node.tasks().spawn_blocking(move |_| {
            let opened = names.iter().map(|name| {
                let folder = Folder::open(&point.join(name)).map_err(|error| failed(&error))?;
                Ok((name.as_str(), folder))
            });
            let opened: Vec<(&str, Folder)> = opened.collect::<Result<_, Failure>>()?;
            let folders: Vec<(&str, &Folder)> = opened
                .iter()
                .map(|(name, folder)| (*name, folder))
                .collect();
            let (Some(root), Some(name)) = (result.parent(), result.file_name()) else {
                return Err(Failure::new(Code::TaskFailed, "a result has no place"));
            };
            let name = name.to_string_lossy();
            // Somebody may still fetch that of the round before.
            let packing = format!("{name}.new");
            let file = spool::create(root, &packing).map_err(|error| failed(&error))?;
            let packed = archive::pack_zip(&folders, &everything, &limits, file);
            packed.map(drop).map_err(|error| failed(&error))?;
            spool::replace(root, &packing, &name).map_err(|error| failed(&error))
        });
        packing.await.unwrap_or_else(|error| Err(not_done(&error)))
    }

    async fn send_delta(&self) -> Result<(), Failure> {
        let Self::Unpacked {
            node,
            point,
            stage,
            before,
            home,
        } = self
        else {
            return Ok(());
        };
        let (point, folder, before) = (point.clone(), stage.clone(), before.clone());
        let limits = limits(node);
        let packing = node.tasks().spawn_blocking(move |_| {
            let tree = Folder::open(&point).map_err(|error| failed(&error))?;
            let (after, _) =
                Manifest::of(&tree, &everything, &limits).map_err(|error| failed(&error))?;
            let delta = Delta::between(&before, &after);
            if delta.is_empty() {
                return Ok(None);
            }
            let file = spool::create(&folder, DELTA).map_err(|error| failed(&error))?;
            archive::pack_delta(&tree, &delta, &limits, file).map_err(|error| failed(&error))?;
            Ok(Some(()))
        });
        let Some(()) = packing
            .await
            .unwrap_or_else(|error| Err(not_done(&error)))?
        else {
            return Ok(());
        };
        deliver(node, stage, home).await
    }

    async fn send_branch(&self) -> Result<(), Failure> {
        let Self::Cloned {
            node,
            clone,
            stage,
            home,
            ..
        } = self
        else {
            return Ok(());
        };
        if !clone.pack(&stage.join(DELTA)).await? {
            return Ok(());
        }
        deliver(node, stage, home).await
    }

    pub(super) async fn take_down(self) {
        match self {
            Self::Unpacked { .. } | Self::Zipped { .. } | Self::Cloned { .. } => {} // It goes with its folder.
            Self::Mounted { mount, .. } => {
                if let Err(error) = mount.unmount().await {
                    tracing::warn!(%error, "a lent workspace could not be unmounted");
                }
            }
        }
    }
}

/// Tries until a host that is away for a while is there again. It is the lease that ends this, by stopping the step.
async fn persist<T, F>(node: &Node, attempt: impl FnMut() -> F) -> Result<T, PeerError>
where
    F: Future<Output = Result<T, PeerError>>,
{
    persist_for(node, Duration::MAX, attempt).await
}

/// The same, until it has been away for so long.
async fn persist_for<T, F>(
    node: &Node,
    limit: Duration,
    mut attempt: impl FnMut() -> F,
) -> Result<T, PeerError>
where
    F: Future<Output = Result<T, PeerError>>,
{
    let mut away_since = None;
    loop {
        match attempt().await {
            Err(error @ PeerError::Unreachable { .. }) => {
                if away_since.get_or_insert_with(Instant::now).elapsed() >= limit {
                    return Err(error);
                }
                tracing::debug!(%error, "a host is asked again");
                tokio::time::sleep(node.config().waits.tell_again).await;
            }
            other => return other,
        }
    }
}

/// Sends the changes in `stage` to where the host wants them.
async fn deliver(node: &Node, stage: &Path, home: &WayHome) -> Result<(), Failure> {
    if home.url.is_empty() {
        let words = "the host has not said where changes go";
        return Err(Failure::new(Code::MountFailed, words));
    }
    crash::point("lending.remote.before-delivery");
    let sent = persist(node, || async {
        let file = spool::open(stage, DELTA).map_err(|error| PeerError::NotKept {
            url: home.url.clone(),
            why: chain(&error),
        })?;
        let pieces = spool::pieces(file, node.tasks().clone());
        node.peers().deliver(home.as_home(), pieces).await
    });
    let sent = sent.await;
    crash::point("lending.remote.after-delivery");
    sent.map_err(|error| {
        Failure::new(
            Code::TaskFailed,
            format!("the changes were not taken: {error}"),
        )
    })
}

pub(super) fn limits(node: &Node) -> Limits {
    let max = node.config().size_max;
    Limits {
        bytes: max.bytes.saturating_add(node.config().quota_bytes),
        entries: max.files.saturating_mul(2),
        file_bytes: max.file_bytes.max(node.config().quota_bytes),
        ..Limits::default()
    }
}

pub(super) fn failed(error: &dyn std::error::Error) -> Failure {
    Failure::new(Code::MountFailed, chain(error))
}

fn not_fetched(error: &PeerError) -> Failure {
    match error {
        PeerError::Refused { .. } | PeerError::Denied { .. } => {
            Failure::new(Code::AuthFailed, error.to_string())
        }
        PeerError::BadUrl { .. }
        | PeerError::NoCard { .. }
        | PeerError::NoExtension { .. }
        | PeerError::NoWay { .. }
        | PeerError::NotKept { .. }
        | PeerError::Unreachable { .. } => Failure::new(Code::MountFailed, error.to_string()),
    }
}

fn not_unpacked(error: &ArchiveError) -> Failure {
    let code = match error {
        ArchiveError::NotEmpty => Code::MountpointDenied,
        ArchiveError::ForeignStage { .. }
        | ArchiveError::Refused(_)
        | ArchiveError::Failed { .. }
        | ArchiveError::Stream { .. }
        | ArchiveError::Changed { .. } => Code::MountFailed,
    };
    Failure::new(code, chain(error))
}

fn not_mounted(error: &MountError) -> Failure {
    let code = match error {
        MountError::DepMissing { .. } => Code::DepMissing,
        MountError::AuthFailed { .. } => Code::AuthFailed,
        MountError::NotEmpty { .. } => Code::MountpointDenied,
        MountError::Stopped => Code::Cancelled,
        MountError::MountFailed { .. }
        | MountError::BadPlan { .. }
        | MountError::List { .. }
        | MountError::Folder { .. }
        | MountError::Secrets { .. }
        | MountError::Guardian { .. }
        | MountError::Start { .. } => Code::MountFailed,
    };
    Failure::new(code, chain(error))
}
