//! The API of lending: create, watch, cancel, look at what was changed, take it back; and what peers say.

use std::{path::PathBuf, time::Duration};

use domain::{
    Name,
    delegation::{
        Access, Code, DelegationId, Failure, Host, HostInput, LockDecision, Offer, Phase,
        RemoteInput, Size, Transport,
    },
    lifecycle::Force,
};
use engine::{Caller, Engine, Stored, Which};
use platform::{Guardian, Owner, Tasks, files};
use sftp::{HostKey, Server};

use crate::{
    AwcpConfig, DelegationError, clock, convert,
    host::{HostEvent, HostTask},
    node::Node,
    peer::Found,
    record::{
        DelegationView, HOST_KIND, HostRecord, Keeping, REMOTE_KIND, RemoteRecord, SnapshotStatus,
        Task, note,
    },
    remote::{RemoteEvent, RemoteTask},
    shadow::AuditReport,
    survey,
};

/// Delegations that are listed, and taken up after a restart, at once.
const LISTED_MAX: u32 = 10_000;

/// In the metadata of agents that are made for one delegation.
pub(crate) const MARK: &str = "delegation";

/// The right to lend folders of this node and to see and end every delegation: the owner's.
pub const RIGHT: &str = "delegations";

/// The right of a peer to invite this node. It is below the other, which would let a peer lend our folders to itself.
pub const INVITE_RIGHT: &str = "delegations:invite";

/// Both sides of lending in one node. Clones share.
#[derive(Debug, Clone)]
pub struct Delegations {
    pub(crate) node: Node,
}

/// What to lend, to whom, for what.
#[derive(Clone)]
pub struct Create {
    /// The peer's address, or that of its card.
    pub peer_url: String,
    /// For the peer.
    pub token: Option<String>,
    pub dir: PathBuf,
    /// A few words for people; the prompt's first line if absent.
    pub description: Option<String>,
    pub prompt: String,
    pub access: Access,
    pub ttl: Duration,
    /// The best first; none means what this node can serve.
    pub transports: Vec<Transport>,
    pub quota_bytes: Option<u64>,
    pub secrets: Secrets,
    pub keeping: Keeping,
    /// The round before this one, of which this is the next.
    pub continues: Option<String>,
}

/// What becomes of files that look like secrets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Secrets {
    #[default]
    Refuse,
    Lend,
}

impl std::fmt::Debug for Create {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Create")
            .field("peer_url", &self.peer_url)
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
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
        let node = Node::new(config, engine, tasks, guardian, owner, sftp);
        for folder in [
            node.exports_root(),
            node.audits_root(),
            node.stage_root(),
            node.snapshots_root(),
            node.results_root(),
        ] {
            files::create_private_dir(&folder)?;
        }
        let delegations = Self { node };
        delegations.sweep()?;
        delegations.take_up().await?;
        Ok(delegations)
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
                let access = record.machine.offer().access;
                let id = record.machine.id();
                if let Err(error) = self.node.restore_lock(id, &record.dir, access) {
                    tracing::warn!(%id, %error, "a lent folder could not be held again");
                }
            }
            note(&mut record.log, "the host was restarted".to_owned());
            let effects = record.machine.apply(HostInput::Recover, clock::now());
            self.begin_host(record, effects.unwrap_or_default());
        }
        self.end_agents().await;
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

    /// Agents that worked in lent workspaces when the last daemon ended have nothing to work in any more.
    async fn end_agents(&self) {
        let engine = self.node.engine();
        let agents = engine.agents();
        let left = agents
            .iter()
            .filter(|agent| agent.metadata.contains_key(MARK));
        for agent in left {
            if let Err(error) = engine.destroy(&agent.name, Force::Yes).await {
                let error = crate::error::chain(&error);
                tracing::warn!(agent = agent.name, %error, "an agent of a lent workspace is left");
            }
        }
    }

    /// Looks at the workspace and at the peer, and begins. Nothing has been made if this fails.
    pub async fn create(&self, create: Create) -> Result<DelegationId, DelegationError> {
        let dir = files::resolve(&create.dir);
        let offer = self.offer(&create)?;
        let (size, mut offer) = self.survey(&create, dir.clone(), offer).await?;
        let found = self
            .node
            .peers()
            .find(&create.peer_url, create.token.as_deref());
        if let Found::Executor(_) = found.await? {
            // The only transport of that dialect that works everywhere.
            offer.transports.retain(|it| *it == Transport::Archive);
            if offer.transports.is_empty() {
                return Err(DelegationError::Refused(Failure::with_hint(
                    Code::DepMissing,
                    "the peer speaks the released dialect, which takes archives alone",
                    "lend an archive",
                )));
            }
        }
        let id = format!("dlg_{}", uuid::Uuid::new_v4().simple());
        let id = DelegationId(Name::parse(&id).expect("letters and digits are a name"));
        let now = clock::now();
        let waits = self.node.config().waits;
        let (machine, effects) = Host::new(id.clone(), offer, waits, now);
        let description = create
            .description
            .unwrap_or_else(|| create.prompt.lines().next().unwrap_or_default().to_owned());
        let record = HostRecord {
            machine,
            peer_url: create.peer_url,
            token: create.token,
            dir,
            task: Task {
                description,
                prompt: create.prompt,
            },
            quota_bytes: create.quota_bytes.unwrap_or(self.node.config().quota_bytes),
            size,
            secret: None,
            checksum: None,
            agreement: None,
            created_at: now,
            log: Vec::new(),
            keeping: create.keeping,
            snapshot: None,
            continues: create.continues,
        };
        let records = self.node.records();
        let keep = engine::Keep::Live;
        records
            .put(HOST_KIND, &id.to_string(), keep, &record, None)
            .await?;
        self.begin_host(record, effects);
        Ok(id)
    }

    fn offer(&self, create: &Create) -> Result<Offer, DelegationError> {
        let mut transports = create.transports.clone();
        if create.keeping != Keeping::Auto {
            // A mount changes the folder itself, so nothing could wait.
            if !transports.is_empty() && !transports.contains(&Transport::Archive) {
                return Err(DelegationError::Refused(Failure::with_hint(
                    Code::DepMissing,
                    "changes of a mount are there at once and cannot be staged",
                    "lend an archive, or let the changes be applied",
                )));
            }
            transports = vec![Transport::Archive];
        }
        if transports.is_empty() {
            transports.push(Transport::Archive);
            if self.node.sftp().is_some() {
                transports.insert(0, Transport::Sshfs);
            }
        }
        if self.node.sftp().is_none() {
            transports.retain(|transport| *transport != Transport::Sshfs);
        }
        if transports.is_empty() {
            return Err(DelegationError::Refused(Failure::with_hint(
                Code::DepMissing,
                "this host serves no workspaces for mounting",
                "give it an address to serve them on, or lend an archive",
            )));
        }
        Ok(Offer {
            access: create.access,
            ttl: create.ttl,
            transports,
        })
    }

    async fn survey(
        &self,
        create: &Create,
        dir: PathBuf,
        mut offer: Offer,
    ) -> Result<(Size, Offer), DelegationError> {
        let max = self.node.config().size_max;
        let folder = dir.clone();
        let looking = self.node.tasks().spawn_blocking(move |_| {
            files::list(&folder).map_err(|_| DelegationError::Folder {
                dir: folder.clone(),
            })?;
            survey::survey(&folder, max).map_err(DelegationError::Refused)
        });
        let survey = looking.await.map_err(|_| DelegationError::ShuttingDown)??;
        if create.secrets == Secrets::Refuse {
            if !survey.sensitive.is_empty() {
                return Err(DelegationError::Refused(survey::refuse_sensitive(
                    &survey.sensitive,
                )));
            }
            if !survey.sensitive_ignored.is_empty() {
                // A mount shows what an archive leaves at home.
                offer
                    .transports
                    .retain(|transport| *transport == Transport::Archive);
            }
            if offer.transports.is_empty() {
                let failure = survey::refuse_sensitive(&survey.sensitive_ignored);
                return Err(DelegationError::Refused(failure));
            }
        }
        Ok((survey.size, offer))
    }

    fn begin_host(&self, record: HostRecord, effects: Vec<domain::delegation::HostEffect>) {
        let id = record.machine.id().clone();
        let (task, handle) = HostTask::new(self.node.clone(), record);
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

    /// Waits until it has ended, at most so long; gives how it stands then.
    pub async fn wait(&self, id: &str, limit: Duration) -> Result<DelegationView, DelegationError> {
        let known = convert::id(id);
        if let Some(mut handle) = known.and_then(|id| self.node.host(&id)) {
            let ended = handle.view.wait_for(|view| view.state.is_end());
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
        let known = convert::id(id);
        if let Some(mut handle) = known.and_then(|id| self.node.host(&id)) {
            let news = handle
                .view
                .wait_for(|view| view.state.is_end() || view.log.len() > lines);
            let _ = tokio::time::timeout(limit, news).await; // Whatever came of it is read below.
        }
        self.get(id).await
    }

    /// What was changed, once the result has been taken home.
    pub async fn audit(&self, id: &str) -> Result<AuditReport, DelegationError> {
        let record = self.host_record(id).await?;
        if record.machine.phase() != Phase::Completed {
            let why = format!(
                "it is {}, and only a completed one has a result",
                record.machine.phase()
            );
            return Err(DelegationError::Audit {
                id: id.to_owned(),
                why,
            });
        }
        let shadow = self.node.shadow(record.machine.id(), &record.dir);
        let report = shadow.report().await;
        report.map_err(|why| DelegationError::Audit {
            id: id.to_owned(),
            why,
        })
    }

    /// Takes the result back, unless its files have changed since or the folder is lent.
    pub async fn undo(&self, id: &str) -> Result<(), DelegationError> {
        let record = self.host_record(id).await?;
        let nothing = |why: String| DelegationError::NothingToUndo {
            id: id.to_owned(),
            why,
        };
        if record.machine.phase() != Phase::Completed {
            return Err(nothing(format!("it is {}", record.machine.phase())));
        }
        if record
            .snapshot
            .as_ref()
            .is_some_and(|it| it.status != SnapshotStatus::Applied)
        {
            return Err(nothing("its changes were not applied".to_owned()));
        }
        let guard = format!("undo-{}", uuid::Uuid::new_v4().simple());
        let guard = DelegationId(Name::parse(&guard).expect("letters and digits are a name"));
        let decision = self.node.request_lock(&guard, &record.dir, Access::Rw);
        let undone = match decision {
            Ok(LockDecision::Granted) => {
                self.node
                    .shadow(record.machine.id(), &record.dir)
                    .undo()
                    .await
            }
            Ok(LockDecision::Queued { .. }) => Err("its folder is lent now".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        self.node.release_lock(&guard);
        undone.map_err(nothing)
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

    /// Removes what is left of delegations that have ended: exports, archives on their way, and the shadow repositories,
    /// after which there is nothing to audit or to undo. Says how many things went.
    pub async fn prune(&self) -> Result<usize, DelegationError> {
        self.clean_up_again().await;
        let mut removed = 0;
        for root in [
            self.node.exports_root(),
            self.node.audits_root(),
            self.node.stage_root(),
            self.node.results_root(),
        ] {
            for path in files::list(&root)? {
                let name = path.file_stem().and_then(|name| name.to_str());
                let id = name.and_then(convert::id);
                let lives = id.is_some_and(|id| {
                    self.node.host(&id).is_some() || self.node.remote(&id).is_some()
                });
                if !lives {
                    let removing = self
                        .node
                        .tasks()
                        .spawn_blocking(move |_| files::remove_tree(&path));
                    removing
                        .await
                        .map_err(|_| DelegationError::ShuttingDown)??;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }

    /// What could not be given back at the end is tried once more.
    async fn clean_up_again(&self) {
        let is_due = |view: &DelegationView| view.state.is_end() && view.cleanup_due;
        let hosts: Vec<_> = self.node.hosts().values().cloned().collect();
        for handle in hosts.iter().filter(|it| is_due(&it.view.borrow())) {
            let again = HostEvent::Input(HostInput::Recover);
            let _ = handle.inputs.send(again).await; // It has ended meanwhile.
        }
        let remotes: Vec<_> = self.node.remotes().values().cloned().collect();
        for handle in remotes.iter().filter(|it| is_due(&it.view.borrow())) {
            let again = RemoteEvent::Input(RemoteInput::Recover);
            let _ = handle.events.send(again).await; // As above.
        }
    }

    /// Whether this caller may say something about lending.
    pub(crate) fn permits(caller: Option<&Caller>) -> bool {
        caller.is_some_and(|caller| caller.may(RIGHT))
    }
}
