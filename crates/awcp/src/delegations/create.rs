//! How a delegation begins at its host: what is lent is looked at, the peer is asked what it speaks, and nothing has been made
//! if either is not as it must be.

use std::{
    net::IpAddr,
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
    DelegationError, Reach, clock,
    host::Beginning,
    lent_repository::LentRepository,
    peer::{self, Found},
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
    /// A few words for people; the beginning of the prompt's first line if absent.
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

/// How much of a prompt's first line describes it to people. A peer takes no description of any length.
const DESCRIPTION_CHARS_MAX: usize = 500;

fn check_task(prompt: &str) -> Result<(), DelegationError> {
    match prompt.trim().is_empty() {
        false => Ok(()),
        true => Err(DelegationError::Refused(Failure::with_hint(
            Code::Declined,
            "the task is empty",
            "say what is to be done",
        ))),
    }
}

fn first_words(prompt: &str) -> String {
    let line = prompt.lines().next().unwrap_or_default();
    match line.char_indices().nth(DESCRIPTION_CHARS_MAX) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

/// The only transport of the released dialect that works everywhere.
fn offer_archive(offer: &mut Offer) -> Result<(), DelegationError> {
    offer.transports.retain(|it| *it == Transport::Archive);
    if offer.transports.is_empty() {
        return Err(DelegationError::Refused(Failure::with_hint(
            Code::DepMissing,
            "the peer speaks the released dialect, which takes archives alone",
            "lend an archive",
        )));
    }
    Ok(())
}

impl Delegations {
    /// Looks at the workspace and at the peer, and begins. Nothing has been made if this fails. It is carried through also where
    /// whoever asked leaves meanwhile: one that was kept and never begun would hold its folder.
    pub async fn create(&self, create: Create) -> Result<DelegationId, DelegationError> {
        let delegations = self.clone();
        let made = self
            .node
            .tasks()
            .spawn(|_| async move { delegations.make(create).await });
        made.await.unwrap_or(Err(DelegationError::ShuttingDown))
    }

    async fn make(&self, create: Create) -> Result<DelegationId, DelegationError> {
        check_task(&create.prompt)?;
        let dir = files::resolve(&create.dir);
        self.check_ours(&dir)?;
        let offer = self.offer(&create)?;
        let (survey, mut offer) = self.survey(&create, dir.clone(), offer).await?;
        let found = self
            .node
            .peers()
            .find(&create.peer_url, create.token.as_deref());
        let found = found.await?;
        match &found {
            Found::Executor(_) => offer_archive(&mut offer)?,
            Found::Peer(peer) => {
                let wanted = create.transports.is_empty() && peer.takes(Transport::Git);
                self.offer_repository(&mut offer, &dir, &survey, wanted)
                    .await?;
            }
        }
        let facing = match &found {
            Found::Executor(_) => None, // It is sent everything.
            Found::Peer(_) => self.facing(&create.peer_url).await?,
        };
        let size = survey.size;
        let id = format!("dlg_{}", uuid::Uuid::new_v4().simple());
        let id = DelegationId(Name::parse(&id).expect("letters and digits are a name"));
        let now = clock::now();
        let waits = self.node.config().waits;
        let (machine, effects) = Host::new(id.clone(), offer, waits, now);
        let description = create
            .description
            .unwrap_or_else(|| first_words(&create.prompt));
        let mut record = HostRecord {
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
            conversation: Vec::new(),
            trace: Some(create.trace.unwrap_or_else(new_trace)),
            chain: create.chain,
            lends_secrets: create.secrets == Secrets::Lend,
            facing,
        };
        if let Some(before) = &record.continues {
            record.conversation = self.host_record(before).await?.conversation();
        }
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
            let mounts = offer.transports.contains(&Transport::Sshfs);
            let shown = match mounts {
                true => self.sensitive_on_a_mount(dir, survey.clone()).await?,
                false => survey.sensitive_ignored.clone(),
            };
            if !shown.is_empty() {
                // A mount shows what everything else leaves at home.
                offer
                    .transports
                    .retain(|transport| *transport != Transport::Sshfs);
            }
            if offer.transports.is_empty() {
                let failure = survey::refuse_sensitive(&shown);
                return Err(DelegationError::Refused(failure));
            }
        }
        Ok((survey, offer))
    }

    /// Our address as the peer sees it, where we have many; and whether it can come to us at all.
    async fn facing(&self, url: &str) -> Result<Option<IpAddr>, DelegationError> {
        let Some(facing) = peer::facing(url).await else {
            return Ok(None);
        };
        let reach = &self.node.config().public_url;
        let ours = cards::parse(reach).ok();
        let ours = ours.as_ref().and_then(|url| url.host_str());
        let ours: Option<IpAddr> = ours.and_then(|host| host.trim_matches(['[', ']']).parse().ok());
        let stays_here = ours.is_some_and(|ip| ip.is_loopback()) && !facing.is_loopback();
        if stays_here && self.node.config().reach == Reach::Fixed {
            return Err(DelegationError::Refused(Failure::with_hint(
                Code::Declined,
                format!("the peer is on another machine, and cannot come back to {reach}"),
                "set `listen` or `url` in the table [http], so that others reach this node",
            )));
        }
        Ok(Some(facing))
    }

    async fn sensitive_on_a_mount(
        &self,
        dir: PathBuf,
        survey: Survey,
    ) -> Result<Vec<PathBuf>, DelegationError> {
        let tasks = self.node.tasks();
        let looking = tasks.spawn_blocking(move |_| survey::sensitive_on_a_mount(&dir, &survey));
        looking.await.map_err(|_| DelegationError::ShuttingDown)
    }

    /// A node lends nothing of its own: keys, tokens, what it knows and what others have lent it.
    fn check_ours(&self, dir: &Path) -> Result<(), DelegationError> {
        let config = self.node.config();
        let Some(home) = &config.node_home else {
            return Ok(());
        };
        let is_agents = config
            .lendable
            .iter()
            .any(|it| dir.starts_with(it) && dir != it);
        if is_agents || !(dir.starts_with(home) || home.starts_with(dir)) {
            return Ok(());
        }
        Err(DelegationError::Refused(Failure::with_hint(
            Code::Declined,
            format!("{} holds what belongs to this node itself", dir.display()),
            "lend a folder that is neither in the node's home nor above it",
        )))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_without_words_is_refused() {
        assert!(check_task("fix it").is_ok());
        for empty in ["", " \n\t"] {
            let refused = check_task(empty).unwrap_err().to_string();
            assert!(refused.contains("the task is empty"), "{refused}");
        }
    }

    #[test]
    fn a_task_is_described_by_the_beginning_of_its_first_line() {
        assert_eq!(first_words("fix it\nand test it"), "fix it");
        assert_eq!(first_words(""), "");
        let long = first_words(&"ä".repeat(100_000));
        assert_eq!(long, format!("{}…", "ä".repeat(DESCRIPTION_CHARS_MAX)));
        let whole = "x".repeat(DESCRIPTION_CHARS_MAX);
        assert_eq!(first_words(&whole), whole);
    }
}
