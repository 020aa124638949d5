//! How a delegation begins at its host: what is lent is looked at, the peer is asked what it speaks, and nothing has been made
//! if either is not as it must be.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use domain::{
    Name, Trace,
    delegation::{Access, Code, DelegationId, Failure, Host, Offer, Transport},
};
use platform::files;

use super::{Delegations, new_trace};
use crate::{
    DelegationError, clock,
    host::Beginning,
    lent_repository::LentRepository,
    peer::Found,
    record::{HOST_KIND, HostRecord, Keeping, Task},
    survey::{self, Survey},
};

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
    /// What it belongs to; a new one if absent.
    pub trace: Option<Trace>,
    /// Who has called whom until here; it begins here if nobody has.
    pub chain: Vec<String>,
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
    /// Looks at the workspace and at the peer, and begins. Nothing has been made if this fails.
    pub async fn create(&self, create: Create) -> Result<DelegationId, DelegationError> {
        let dir = files::resolve(&create.dir);
        let offer = self.offer(&create)?;
        let (survey, mut offer) = self.survey(&create, dir.clone(), offer).await?;
        let found = self
            .node
            .peers()
            .find(&create.peer_url, create.token.as_deref());
        let found = found.await?;
        match &found {
            Found::Executor(_) => {
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
            Found::Peer(peer) => {
                let wanted = create.transports.is_empty() && peer.takes(Transport::Git);
                self.offer_repository(&mut offer, &dir, &survey, wanted)
                    .await?;
            }
        }
        let size = survey.size;
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
            trace: Some(create.trace.unwrap_or_else(new_trace)),
            chain: create.chain,
        };
        let records = self.node.records();
        let keep = engine::Keep::Live;
        records
            .put(HOST_KIND, &id.to_string(), keep, &record, None)
            .await?;
        self.begin_host(record, effects, Beginning::New(found));
        Ok(id)
    }

    fn offer(&self, create: &Create) -> Result<Offer, DelegationError> {
        let mut transports = create.transports.clone();
        if create.keeping != Keeping::Auto {
            // A mount changes the folder itself, so nothing could wait.
            transports.retain(|it| *it != Transport::Sshfs);
            if !create.transports.is_empty() && transports.is_empty() {
                return Err(DelegationError::Refused(Failure::with_hint(
                    Code::DepMissing,
                    "changes of a mount are there at once and cannot be staged",
                    "lend an archive or a repository, or let the changes be applied",
                )));
            }
        }
        if transports.is_empty() {
            transports.push(Transport::Archive);
            if self.node.sftp().is_some() && create.keeping == Keeping::Auto {
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
    ) -> Result<(Survey, Offer), DelegationError> {
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
                // A mount shows what everything else leaves at home.
                offer
                    .transports
                    .retain(|transport| *transport != Transport::Sshfs);
            }
            if offer.transports.is_empty() {
                let failure = survey::refuse_sensitive(&survey.sensitive_ignored);
                return Err(DelegationError::Refused(failure));
            }
        }
        Ok((survey, offer))
    }

    /// A repository is lent as one where the peer takes it and nobody wants it otherwise. It is offered alone then, unless a
    /// mount is better, so that others may be lent the same one meanwhile.
    async fn offer_repository(
        &self,
        offer: &mut Offer,
        dir: &Path,
        survey: &Survey,
        wanted: bool,
    ) -> Result<(), DelegationError> {
        let is_asked_for = offer.transports.contains(&Transport::Git);
        if !wanted && !is_asked_for {
            return Ok(());
        }
        let repository = match survey.ignored.nested_repository() {
            Some(path) => Err(format!("{} is a repository in it", path.display())),
            None => LentRepository::of(dir, &self.node).await.map(drop),
        };
        match repository {
            Ok(()) if is_asked_for => {}
            Ok(()) => {
                let mounts = offer.transports.contains(&Transport::Sshfs);
                match mounts {
                    true => offer.transports.insert(1, Transport::Git),
                    false => offer.transports = vec![Transport::Git],
                }
            }
            Err(why) => {
                offer.transports.retain(|it| *it != Transport::Git);
                if offer.transports.is_empty() {
                    return Err(DelegationError::Refused(Failure::with_hint(
                        Code::DepMissing,
                        format!("the folder cannot be lent as a repository: {why}"),
                        "lend an archive",
                    )));
                }
            }
        }
        Ok(())
    }
}
