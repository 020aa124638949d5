//! The API of lending: create, watch, cancel, look at what was changed, take it back; and what peers say.

mod after;
mod create;

use std::{path::Path, time::Duration};

use archive::{Folder, Journal};
use domain::{
    Trace,
    delegation::{DelegationId, HostInput, Phase, RemoteInput},
};
use engine::{Caller, Engine, Stored, Which};
use platform::{Guardian, Owner, Tasks, files};
use sftp::{HostKey, Server};
use tokio::sync::watch;

pub use create::{Create, Secrets};

use crate::{
    AwcpConfig, DelegationError, clock, convert,
    error::chain,
    git,
    host::{Beginning, HostEvent, HostTask},
    node::{Node, Services},
    record::{DelegationView, HOST_KIND, HostRecord, REMOTE_KIND, RemoteRecord, note},
    remote::{RemoteEvent, RemoteTask},
};

/// Delegations that are listed, and taken up after a restart, at once.
const LISTED_MAX: u32 = 10_000;

/// How often it is looked whether audits are old.
const FORGET_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// The right to lend folders of this node and to see and end every delegation: the owner's.
pub const RIGHT: &str = "delegations";

/// The right of a peer to invite this node. It is below the other, which would let a peer lend our folders to itself.
pub const INVITE_RIGHT: &str = "delegations:invite";

/// Takes back what an interrupted change did to a folder. Blocks.
pub(crate) fn recover(node: &Node, dir: &Path) -> Result<(), String> {
    let home = match Folder::open(dir) {
        Ok(home) => home,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(chain(&error)),
    };
    let journal = node.journal(dir).map_err(|error| chain(&error))?;
    let recovered = archive::recover(&home, &journal);
    recovered.map(drop).map_err(|error| chain(&error))
}

/// For what belongs to nothing yet.
pub(crate) fn new_trace() -> Trace {
    Trace::new(uuid::Uuid::new_v4().as_u128())
}

/// Both sides of lending in one node. Clones share.
#[derive(Debug, Clone)]
pub struct Delegations {
    pub(crate) node: Node,
}

impl Delegations {
    /// Makes the folders, serves mounts if it is told to, and takes up what has not ended.
    pub async fn open(
        config: AwcpConfig,
        engine: Engine,
        tasks: Tasks,
        guardian: Guardian,
        owner: Owner,
    ) -> Result<Self, DelegationError> {
        files::create_private_dir(&config.home)?;
        files::create_private_dir(&config.mount_root)?;
        let sftp = match &config.sftp {
            None => None,
            Some(sftp) => {
                let key = HostKey::kept_at(&config.home.join("host_key"))?;
                Some(Server::bind(sftp.listen, &key, &tasks).await?)
            }
        };
        let has_git = git::is_here(&config.home, &config.environment).await;
        let services = Services { sftp, has_git };
        let node = Node::new(config, engine, tasks, guardian, owner, services);
        for folder in [
            node.exports_root(),
            node.audits_root(),
            node.stage_root(),
            node.snapshots_root(),
            node.results_root(),
            node.journals_root(),
        ] {
            files::create_private_dir(&folder)?;
        }
        let delegations = Self { node };
        delegations.sweep()?;
        delegations.take_back_interrupted().await;
        delegations.take_up().await?;
        delegations.forget_in_time();
        Ok(delegations)
    }

    /// Audits are kept for so long and no longer, as long as the node runs.
    fn forget_in_time(&self) {
        let delegations = self.clone();
        self.node.tasks().spawn(|stop| async move {
            let forgetting = async {
                loop {
                    if let Err(error) = delegations.forget_old_audits().await {
                        let error = crate::error::chain(&error);
                        tracing::warn!(%error, "old audits of delegations could not be removed");
                    }
                    tokio::time::sleep(FORGET_EVERY).await;
                }
            };
            stop.run_until_cancelled(forgetting).await;
        });
    }

    /// Mounts end with their daemon, and what they needed goes before anybody mounts again.
    fn sweep(&self) -> Result<(), DelegationError> {
        for path in files::list(&self.node.stage_root())? {
            let name = path.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| name.starts_with(sftp::mount::SECRETS_PREFIX)) {
                files::remove_tree(&path)?;
            }
        }
        Ok(())
    }

    /// Changes of folders that the last daemon did not finish are taken back before anybody looks at them.
    async fn take_back_interrupted(&self) {
        let node = self.node.clone();
        let taking = self.node.tasks().spawn_blocking(move |_| {
            let journals = Folder::open(&node.journals_root()).map_err(|error| chain(&error))?;
            let trees = Journal::interrupted(&journals).map_err(|error| chain(&error))?;
            for tree in trees {
                let taken = recover(&node, &tree);
                tracing::info!(tree = %tree.display(), ?taken, "an interrupted change was found");
            }
            Ok::<_, String>(())
        });
        if let Ok(Err(error)) = taking.await {
            tracing::warn!(%error, "interrupted changes of lent folders could not be taken back");
        }
    }

    /// Those that hold their folders come first, so that nobody else gets them.
    async fn take_up(&self) -> Result<(), DelegationError> {
        let records = self.node.records();
        let mut hosts: Vec<Stored<HostRecord>> = records
            .list(HOST_KIND, Which::Live, None, LISTED_MAX)
            .await?;
        hosts.sort_by_key(|stored| (!stored.value.machine.holds_lock(), stored.at));
        for Stored {
            value: mut record, ..
        } in hosts
        {
            if record.machine.holds_lock() {
                let hold = record.machine.offer().hold();
                let id = record.machine.id();
                if let Err(error) = self.node.restore_lock(id, &record.dir, hold) {
                    tracing::warn!(%id, %error, "a lent folder could not be held again");
                }
            }
            note(&mut record.log, "the host was restarted".to_owned());
            let effects = record.machine.apply(HostInput::Recover, clock::now());
            self.begin_host(record, effects.unwrap_or_default(), Beginning::Again);
        }
        let remotes: Vec<Stored<RemoteRecord>> = records
            .list(REMOTE_KIND, Which::Live, None, LISTED_MAX)
            .await?;
        for Stored {
            value: mut record, ..
        } in remotes
        {
            note(&mut record.log, "the remote was restarted".to_owned());
            let effects = record.machine.apply(RemoteInput::Recover, clock::now());
            self.begin_remote(record, effects.unwrap_or_default());
        }
        Ok(())
    }

    fn begin_host(
        &self,
        record: HostRecord,
        effects: Vec<domain::delegation::HostEffect>,
        beginning: Beginning,
    ) {
        let id = record.machine.id().clone();
        let (task, handle) = HostTask::new(self.node.clone(), record, beginning);
        self.node.remember_host(id, handle);
        self.node.tasks().spawn(|stop| task.run(effects, stop));
    }

    pub(crate) fn begin_remote(
        &self,
        record: RemoteRecord,
        effects: Vec<domain::delegation::RemoteEffect>,
    ) {
        let id = record.machine.id().clone();
        let (task, handle) = RemoteTask::new(self.node.clone(), record);
        self.node.remember_remote(id, handle);
        self.node.tasks().spawn(|stop| task.run(effects, stop));
    }

    /// Every delegation, both sides, the newest first.
    pub async fn list(&self) -> Result<Vec<DelegationView>, DelegationError> {
        let records = self.node.records();
        let hosts: Vec<Stored<HostRecord>> = records
            .list(HOST_KIND, Which::All, None, LISTED_MAX)
            .await?;
        let remotes: Vec<Stored<RemoteRecord>> = records
            .list(REMOTE_KIND, Which::All, None, LISTED_MAX)
            .await?;
        let hosts = hosts.iter().map(|stored| stored.value.view());
        let remotes = remotes.iter().map(|stored| stored.value.view());
        let mut views: Vec<DelegationView> = hosts.chain(remotes).collect();
        views.sort_by(|left, right| right.created_at.cmp(&left.created_at));
        Ok(views)
    }

    /// How it stands. Of a delegation to ourselves the host's side is shown.
    pub async fn get(&self, id: &str) -> Result<DelegationView, DelegationError> {
        let not_found = || DelegationError::NotFound { id: id.to_owned() };
        let known = convert::id(id).ok_or_else(not_found)?;
        if let Some(handle) = self.node.host(&known) {
            return Ok(handle.view.borrow().clone());
        }
        if let Ok(record) = self.host_record(id).await {
            return Ok(record.view());
        }
        self.get_taken(&known).await
    }

    /// How the remote's side of it stands.
    pub(crate) async fn get_taken(
        &self,
        id: &DelegationId,
    ) -> Result<DelegationView, DelegationError> {
        if let Some(handle) = self.node.remote(id) {
            return Ok(handle.view.borrow().clone());
        }
        let id = id.to_string();
        let stored = self
            .node
            .records()
            .get::<RemoteRecord>(REMOTE_KIND, &id)
            .await?;
        let stored = stored.ok_or(DelegationError::NotFound { id })?;
        Ok(stored.value.view())
    }

    pub(crate) async fn host_record(&self, id: &str) -> Result<HostRecord, DelegationError> {
        let not_found = || DelegationError::NotFound { id: id.to_owned() };
        let stored = self.node.records().get::<HostRecord>(HOST_KIND, id).await?;
        Ok(stored.ok_or_else(not_found)?.value)
    }

    /// How one goes that has not ended, on whichever side this node is.
    fn living(&self, id: &str) -> Option<watch::Receiver<DelegationView>> {
        let id = convert::id(id)?;
        let host = self.node.host(&id).map(|handle| handle.view);
        host.or_else(|| self.node.remote(&id).map(|handle| handle.view))
    }

    /// Waits until it has ended, at most so long; gives how it stands then.
    pub async fn wait(&self, id: &str, limit: Duration) -> Result<DelegationView, DelegationError> {
        if let Some(mut view) = self.living(id) {
            let ended = view.wait_for(|view| view.state.is_end());
            let _ = tokio::time::timeout(limit, ended).await; // Whatever came of it is read below.
        }
        self.get(id).await
    }

    /// Waits until its log has more than so many lines or it has ended, at most so long.
    pub async fn wait_beyond(
        &self,
        id: &str,
        lines: usize,
        limit: Duration,
    ) -> Result<DelegationView, DelegationError> {
        if let Some(mut view) = self.living(id) {
            let news = view.wait_for(|view| view.state.is_end() || view.log.len() > lines);
            let _ = tokio::time::timeout(limit, news).await; // Whatever came of it is read below.
        }
        self.get(id).await
    }

    /// Ends it, on whichever side this node is; returns when it has ended here.
    pub async fn cancel(&self, id: &str, reason: &str) -> Result<DelegationView, DelegationError> {
        let view = self.get(id).await?;
        if view.state.is_end() {
            return Ok(view);
        }
        let known =
            convert::id(id).ok_or_else(|| DelegationError::NotFound { id: id.to_owned() })?;
        let reason = reason.to_owned();
        if let Some(mut handle) = self.node.host(&known) {
            let cancel = HostEvent::Input(HostInput::Cancel { reason });
            let _ = handle.inputs.send(cancel).await; // It has ended meanwhile.
            let _ = handle.view.wait_for(|view| view.state.is_end()).await; // As above.
        } else if let Some(mut handle) = self.node.remote(&known) {
            let cancel = RemoteEvent::Input(RemoteInput::Cancel { reason });
            let _ = handle.events.send(cancel).await; // As above.
            let _ = handle.view.wait_for(|view| view.state.is_end()).await; // As above.
        }
        self.get(id).await
    }

    /// Takes back what still waits for its folder, since whoever asked for it has left.
    pub(crate) async fn cancel_waiting(&self, id: &str) -> Result<(), DelegationError> {
        if self.get(id).await?.state == Phase::Created {
            let reason = "whoever asked for it left before the folder was free";
            self.cancel(id, reason).await?;
        }
        Ok(())
    }

    /// The words for how workspaces can come here, the best first: for the card, so that hosts know before they ask.
    pub fn transports(&self) -> Vec<String> {
        let works = self.node.works().into_iter();
        works
            .map(|it| convert::transport_word(it).as_str().to_owned())
            .collect()
    }

    /// Whether this caller may say something about lending.
    pub(crate) fn permits(caller: Option<&Caller>) -> bool {
        caller.is_some_and(|caller| caller.may(RIGHT))
    }
}
