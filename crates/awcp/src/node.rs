//! What all delegations of a node share: folders, locks, the register of those that have not ended, the ways out.

use std::{
    collections::{BTreeMap, VecDeque},
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use domain::delegation::{
    Admission, Admitted, Code, DelegationId, Failure, Hold, HostInput, LockDecision, LockError,
    Locks, Offer, Phase, Sandbox, Transport,
};
use engine::{Engine, Records};
use platform::{Guardian, Owner, Tasks, files, system::find_program};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::{
    AwcpConfig, Reach,
    asker::Askers,
    error::chain,
    host::{ARCHIVE, BUNDLE, HostEvent, HostHandle},
    peer::Peers,
    remote::RemoteHandle,
    shadow::Shadow,
};

/// Large messages of strangers that are read at once: each may be in memory as a whole.
const LARGE_BODIES_MAX: usize = 2;

/// Ends that came before their beginning; such a beginning is milliseconds behind.
const TAKEN_BACK_MAX: usize = 256;

/// Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: AwcpConfig,
    engine: Engine,
    tasks: Tasks,
    guardian: Guardian,
    owner: Owner,
    peers: Peers,
    sftp: Option<sftp::Server>,
    has_git: bool,
    merging: Arc<Semaphore>,
    locks: Mutex<Locks>,
    hosts: Mutex<BTreeMap<DelegationId, HostHandle>>,
    remotes: Mutex<BTreeMap<DelegationId, RemoteHandle>>,
    /// What hosts have taken back before it was offered here, the newest last: an INVITE may be overtaken by its end.
    taken_back: Mutex<VecDeque<(DelegationId, String)>>,
    /// Held while a delegation is taken.
    taking: tokio::sync::Mutex<()>,
    /// Held while changes that waited are applied or discarded.
    settling: tokio::sync::Mutex<()>,
    large_bodies: Semaphore,
    askers: Askers,
}

/// What this machine has for lending.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) sftp: Option<sftp::Server>,
    pub(crate) has_git: bool,
}

impl Node {
    pub(crate) fn new(
        config: AwcpConfig,
        engine: Engine,
        tasks: Tasks,
        guardian: Guardian,
        owner: Owner,
        services: Services,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                peers: Peers::new(config.known_peers.clone()),
                config,
                engine,
                tasks,
                guardian,
                owner,
                sftp: services.sftp,
                has_git: services.has_git,
                merging: Arc::new(Semaphore::new(1)),
                locks: Mutex::default(),
                hosts: Mutex::default(),
                remotes: Mutex::default(),
                taken_back: Mutex::default(),
                taking: tokio::sync::Mutex::default(),
                settling: tokio::sync::Mutex::default(),
                large_bodies: Semaphore::new(LARGE_BODIES_MAX),
                askers: Askers::default(),
            }),
        }
    }

    pub(crate) fn config(&self) -> &AwcpConfig {
        &self.inner.config
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    pub(crate) fn records(&self) -> Records {
        self.inner.engine.records()
    }

    pub(crate) fn askers(&self) -> &Askers {
        &self.inner.askers
    }

    pub(crate) fn tasks(&self) -> &Tasks {
        &self.inner.tasks
    }

    pub(crate) fn guardian(&self) -> &Guardian {
        &self.inner.guardian
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.inner.owner
    }

    pub(crate) fn peers(&self) -> &Peers {
        &self.inner.peers
    }

    pub(crate) fn sftp(&self) -> Option<&sftp::Server> {
        self.inner.sftp.as_ref()
    }

    /// Where a peer mounts what is lent, if this address of ours faces it.
    pub(crate) fn sftp_address(&self, facing: Option<IpAddr>) -> Option<(String, u16)> {
        let server = self.sftp()?;
        let host = self.config().sftp.as_ref()?.public_host.clone();
        let is_any = host.parse().is_ok_and(|ip: IpAddr| ip.is_unspecified());
        let host = match facing {
            Some(facing) if is_any => facing.to_string(),
            _ => host,
        };
        Some((host, server.local_addr().port()))
    }

    /// Where a peer finds this node, if this address of ours faces it.
    pub(crate) fn url_for(&self, facing: Option<IpAddr>) -> String {
        let fixed = &self.config().public_url;
        let (Reach::Anywhere, Some(facing), Ok(mut url)) =
            (self.config().reach, facing, cards::parse(fixed))
        else {
            return fixed.clone();
        };
        match url.set_ip_host(facing) {
            Ok(()) => url.as_str().trim_end_matches('/').to_owned(),
            Err(()) => fixed.clone(),
        }
    }

    pub(crate) fn exports_root(&self) -> PathBuf {
        self.config().home.join("exports")
    }

    pub(crate) fn export_folder(&self, id: &DelegationId) -> PathBuf {
        self.exports_root().join(id.to_string())
    }

    pub(crate) fn audits_root(&self) -> PathBuf {
        self.config().home.join("audits")
    }

    /// Changes that wait to be applied.
    pub(crate) fn snapshots_root(&self) -> PathBuf {
        self.config().home.join("snapshots")
    }

    pub(crate) fn snapshot_folder(&self, id: &DelegationId) -> PathBuf {
        self.snapshots_root().join(id.to_string())
    }

    /// Where changes of folders are written down while they are made.
    pub(crate) fn journals_root(&self) -> PathBuf {
        self.config().home.join("journals")
    }

    /// The journal of the folder at `dir`. Blocks.
    pub(crate) fn journal(&self, dir: &Path) -> std::io::Result<archive::Journal> {
        let folder = archive::Folder::open(&self.journals_root())?;
        Ok(archive::Journal::of(folder, dir))
    }

    /// Changed workspaces that their delegators fetch.
    pub(crate) fn results_root(&self) -> PathBuf {
        self.config().home.join("results")
    }

    pub(crate) fn stage_root(&self) -> PathBuf {
        self.config().home.join("taken")
    }

    /// Where archives of a workspace that was taken are kept on their way.
    pub(crate) fn stage_folder(&self, id: &DelegationId) -> PathBuf {
        self.stage_root().join(id.to_string())
    }

    /// The only place where this delegation may appear: nobody else chooses it.
    pub(crate) fn mount_point(&self, id: &DelegationId) -> PathBuf {
        self.config().mount_root.join(id.to_string())
    }

    pub(crate) fn shadow(&self, id: &DelegationId, workspace: &Path) -> Shadow {
        Shadow {
            repository: self.audits_root().join(format!("{id}.git")),
            workspace: workspace.to_owned(),
            environment: self.config().environment.clone(),
        }
    }

    /// Nothing more can be fetched; what was sent back stays until it is taken home.
    pub(crate) async fn close_export(&self, id: &DelegationId) {
        let folder = self.export_folder(id);
        let removed = self.tasks().spawn_blocking(move |_| {
            files::remove_file_if_there(&folder.join(ARCHIVE))?;
            files::remove_file_if_there(&folder.join(BUNDLE))
        });
        if let Ok(Err(error)) = removed.await {
            tracing::warn!(%id, error = %chain(&error), "could not remove a packed workspace");
        }
    }

    pub(crate) async fn remove_export(&self, id: &DelegationId) -> Result<(), String> {
        let folder = self.export_folder(id);
        let removed = self
            .tasks()
            .spawn_blocking(move |_| files::remove_tree(&folder));
        match removed.await {
            Ok(removed) => removed.map_err(|error| chain(&error)),
            Err(_) => Err("the node is shutting down".to_owned()),
        }
    }

    pub(crate) async fn is_there(&self, path: &Path) -> bool {
        let path = path.to_owned();
        let looked = self.tasks().spawn_blocking(move |_| files::is_there(&path));
        looked.await.unwrap_or(true)
    }

    /// Whether this invitation is taken, by what the owner allows and what works here.
    pub(crate) fn admit(&self, offer: &Offer, id: &DelegationId) -> Result<Admitted, Failure> {
        let config = self.config();
        if config.executor.is_none() {
            return Err(Failure::with_hint(
                Code::Declined,
                "this node takes no workspaces",
                "ask its owner to turn delegation on, or choose another node",
            ));
        }
        if config.sandbox.is_some() && !platform::sandbox::is_available() {
            return Err(Failure::with_hint(
                Code::DepMissing,
                "this node works in a sandbox alone, and its kernel has none",
                "landlock of Linux 6.2 or newer is needed; choose another node",
            ));
        }
        let admission = Admission {
            delegations_max: config.taken_max,
            ttl_max: config.ttl_max,
            access_max: config.access_max,
            transports: self.works(),
        };
        let remotes = self.remotes();
        let others = remotes.iter().filter(|(other, _)| *other != id);
        let live = others
            .filter(|(_, handle)| !handle.view.borrow().state.is_end())
            .count();
        drop(remotes);
        admission.admit(offer, live)
    }

    /// What the executor is held to, if anything holds it.
    pub(crate) fn sandbox_profile(&self) -> Option<Sandbox> {
        self.config().sandbox.as_ref().map(|sandbox| Sandbox {
            cwd_only: true,
            allow_network: sandbox.network,
            allow_exec: sandbox.exec,
        })
    }

    /// Transports that work on this machine.
    pub(crate) fn works(&self) -> Vec<Transport> {
        let path = self.config().environment.get(std::ffi::OsStr::new("PATH"));
        let path = path.cloned().unwrap_or_default();
        let mounts = ["sshfs", "ssh", "fusermount3"]
            .iter()
            .all(|program| find_program(program, &path).is_some())
            && files::is_there(Path::new("/dev/fuse"));
        let mut works = Vec::new();
        if mounts {
            works.push(Transport::Sshfs);
        }
        if self.has_git() {
            works.push(Transport::Git);
        }
        works.push(Transport::Archive);
        works
    }

    /// Whether repositories can be lent and taken as such.
    pub(crate) fn has_git(&self) -> bool {
        self.inner.has_git
    }

    /// Nobody else merges into a folder of this node until this is dropped.
    pub(crate) async fn merging(&self) -> Option<OwnedSemaphorePermit> {
        let turns = self.inner.merging.clone();
        turns.acquire_owned().await.ok() // It is never closed.
    }

    pub(crate) fn request_lock(
        &self,
        id: &DelegationId,
        dir: &Path,
        hold: Hold,
    ) -> Result<LockDecision, LockError> {
        self.locks().request(id.clone(), dir, hold)
    }

    pub(crate) fn restore_lock(
        &self,
        id: &DelegationId,
        dir: &Path,
        hold: Hold,
    ) -> Result<(), LockError> {
        self.locks().restore(id.clone(), dir, hold)
    }

    /// Gives the folder up and tells those who have theirs now.
    pub(crate) fn release_lock(&self, id: &DelegationId) {
        let granted = self.locks().release(id);
        for id in granted {
            let Some(handle) = self.host(&id) else {
                continue;
            };
            self.tasks().spawn(|_| async move {
                let granted = HostEvent::Input(HostInput::LockGranted);
                let _ = handle.inputs.send(granted).await; // It has ended meanwhile.
            });
        }
    }

    pub(crate) fn host(&self, id: &DelegationId) -> Option<HostHandle> {
        self.hosts().get(id).cloned()
    }

    pub(crate) fn remember_host(&self, id: DelegationId, handle: HostHandle) {
        self.hosts().insert(id, handle);
    }

    pub(crate) fn forget_host(&self, id: &DelegationId) {
        self.hosts().remove(id);
    }

    pub(crate) fn remote(&self, id: &DelegationId) -> Option<RemoteHandle> {
        self.remotes().get(id).cloned()
    }

    /// The host of that name will not want what it may yet offer.
    pub(crate) fn take_back(&self, id: DelegationId, caller: String) {
        let mut all = self.taken_back();
        if all.len() >= TAKEN_BACK_MAX {
            all.pop_front();
        }
        all.push_back((id, caller));
    }

    pub(crate) fn is_taken_back(&self, id: &DelegationId, caller: &str) -> bool {
        let all = self.taken_back();
        all.iter().any(|(known, by)| known == id && by == caller)
    }

    fn taken_back(&self) -> MutexGuard<'_, VecDeque<(DelegationId, String)>> {
        let taken_back = self.inner.taken_back.lock();
        taken_back.unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a workspace was accepted that comes in one message and has not come yet.
    pub(crate) fn awaits_start(&self) -> bool {
        let remotes = self.remotes();
        let mut handles = remotes.values().filter(|handle| handle.is_released);
        handles.any(|handle| handle.view.borrow().state == Phase::Accepted)
    }

    /// Nobody else takes a delegation until this is dropped, so that an id and a place are given once.
    pub(crate) async fn taking(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.inner.taking.lock().await
    }

    /// Nobody else applies or discards changes that wait until this is dropped.
    pub(crate) async fn settling(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.inner.settling.lock().await
    }

    /// Room for a large message of somebody who shows no token; nothing while others have it.
    pub(crate) fn large_body(&self) -> Option<SemaphorePermit<'_>> {
        self.inner.large_bodies.try_acquire().ok()
    }

    /// Whether anything is taken now.
    pub(crate) fn has_remotes(&self) -> bool {
        !self.remotes().is_empty()
    }

    pub(crate) fn remember_remote(&self, id: DelegationId, handle: RemoteHandle) {
        self.remotes().insert(id, handle);
    }

    pub(crate) fn forget_remote(&self, id: &DelegationId) {
        self.remotes().remove(id);
    }

    pub(crate) fn locks(&self) -> MutexGuard<'_, Locks> {
        self.inner
            .locks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn hosts(&self) -> MutexGuard<'_, BTreeMap<DelegationId, HostHandle>> {
        self.inner
            .hosts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn remotes(&self) -> MutexGuard<'_, BTreeMap<DelegationId, RemoteHandle>> {
        self.inner
            .remotes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
