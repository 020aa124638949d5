//! What other servers must learn of this one's members, written down and told in the order in which it happened.
//!
//! One task takes one parcel after the other. What it cannot deliver while Redis is away is not kept: when Redis is
//! back, the record is compared with who is really here (`Parcel::Restore`), and the difference is told.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use domain::office::{CallKey, ConnectionId, Member, Notice, Role};
use tokio::sync::{mpsc, oneshot};
use wire::smcp::CallProgress;

use super::{Audience, Entry, Shared, Unreachable, record::Claimed, whereabouts};
use crate::server::relay::Relay;

/// Parcels that wait: a few for each member of a full server that comes and goes at once.
const PARCELS_MAX: usize = 16 * 1024;

/// How long after its claim a member may not yet be known to the machine: it has its place before it sits down.
const SITTING_DOWN_MAX: Duration = Duration::from_secs(10);

/// How long the others have to learn that this server ends.
const FAREWELL_MAX: Duration = Duration::from_secs(1);

/// Something that concerns the other servers.
pub(in super::super) enum Parcel {
    /// A connection of this server asks for a place; `from` is to lose it.
    Claim {
        office: domain::Name,
        entry: Entry,
        from: Option<String>,
        reply: oneshot::Sender<Result<Claimed, Unreachable>>,
    },
    /// A connection of this server has lost or left its place.
    Departed {
        connection: ConnectionId,
        member: Member,
    },
    /// The members here have been told this.
    Notice(Notice),
    /// What a computer of this server offers has changed.
    Revised { connection: ConnectionId },
    /// A computer elsewhere shall hear this.
    Forward { to: ConnectionId, notice: Notice },
    /// An agent here cancels a call that began at another server.
    Cancel(CallKey),
    /// A computer here works on a call of somebody elsewhere, and says how far it is.
    Progress {
        office: domain::Name,
        said: CallProgress,
    },
    /// Says when everything before it has been done.
    Flush(oneshot::Sender<()>),
    /// Compares the record with who is here.
    Restore,
}

/// Where parcels are handed in; it never waits.
#[derive(Clone)]
pub(in super::super) struct Post {
    parcels: mpsc::Sender<Parcel>,
    /// Whether something was not delivered, so that the record must be compared.
    is_behind: Arc<AtomicBool>,
}

impl Post {
    pub(super) fn new() -> (Self, mpsc::Receiver<Parcel>) {
        let (parcels, waiting) = mpsc::channel(PARCELS_MAX);
        let is_behind = Arc::default();
        (Self { parcels, is_behind }, waiting)
    }

    pub(in super::super) fn put(&self, parcel: Parcel) {
        if self.parcels.try_send(parcel).is_err() {
            self.set_behind();
        }
    }

    pub(super) fn set_behind(&self) {
        self.is_behind.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::SeqCst)
    }
}

impl Shared {
    /// Asks for a place, in turn with everything that happened before.
    pub(super) async fn claim(
        &self,
        office: &domain::Name,
        entry: Entry,
        from: Option<String>,
    ) -> Result<Claimed, Unreachable> {
        let (reply, replied) = oneshot::channel();
        self.post.put(Parcel::Claim {
            office: office.clone(),
            entry,
            from,
            reply,
        });
        replied.await.unwrap_or(Err(Unreachable))
    }

    /// Waits until the others know everything that has happened so far, or cannot be reached.
    pub(in super::super) async fn flush(&self) {
        let (done, all_done) = oneshot::channel();
        self.post.put(Parcel::Flush(done));
        let _ = all_done.await; // This server is ending.
    }
}

/// Takes parcels until the server ends, and tells the others that it does.
pub(super) fn start(relay: &Arc<Relay>, shared: Arc<Shared>, mut parcels: mpsc::Receiver<Parcel>) {
    let mut postman = Postman {
        relay: Arc::clone(relay),
        shared,
        claimed: HashMap::new(),
    };
    relay.tasks.spawn(|stop| async move {
        loop {
            let parcel = tokio::select! { biased;
                () = stop.cancelled() => break,
                parcel = parcels.recv() => parcel,
            };
            let Some(parcel) = parcel else {
                break;
            };
            tokio::select! { biased;
                () = stop.cancelled() => break,
                () = postman.deliver(parcel) => {}
            }
        }
        // Should they not hear it, they notice by themselves.
        let _ = tokio::time::timeout(FAREWELL_MAX, postman.shared.record.end()).await;
    });
}

struct Postman {
    relay: Arc<Relay>,
    shared: Arc<Shared>,
    /// When connections that may not sit yet got their places.
    claimed: HashMap<String, Instant>,
}

impl Postman {
    async fn deliver(&mut self, parcel: Parcel) {
        let delivered = match parcel {
            Parcel::Claim {
                office,
                entry,
                from,
                reply,
            } => {
                let claimed = self.claim(&office, &entry, from.as_deref()).await;
                let _ = reply.send(claimed); // The asker has gone.
                Ok(())
            }
            Parcel::Departed { connection, member } => self.departed(&connection, member).await,
            Parcel::Notice(notice) => self.shared.tell(&notice, Audience::Elsewhere).await,
            Parcel::Revised { connection } => self.revised(&connection).await,
            Parcel::Forward { to, notice } => self.forward(&to, &notice).await,
            Parcel::Cancel(call) => {
                // A server that cannot be reached now ends the call when its time is over.
                let _ = self.shared.seek_call(call).await;
                Ok(())
            }
            // What is lost of it is stale when the others are back.
            Parcel::Progress { office, said } => {
                let _ = self.shared.tell_agent(&office, &said).await;
                Ok(())
            }
            Parcel::Flush(done) => {
                let _ = done.send(()); // The asker has gone.
                Ok(())
            }
            Parcel::Restore => self.restore().await,
        };
        if delivered.is_err() {
            self.shared.post.set_behind();
        }
    }

    async fn claim(
        &mut self,
        office: &domain::Name,
        entry: &Entry,
        from: Option<&str>,
    ) -> Result<Claimed, Unreachable> {
        let shared = &self.shared;
        shared.check_reachable()?;
        let claim = shared
            .record
            .claim(office, entry, from, shared.members_max)
            .await;
        let claimed = shared.noted(claim, "claim a place")?;
        if let Claimed::Replaced(old) = &claimed
            && let Some(member) = old.member(office)
        {
            shared.tell(&left(member), Audience::Everywhere).await?;
        }
        if !matches!(claimed, Claimed::Held(_) | Claimed::Full) {
            let now = Instant::now();
            self.claimed
                .retain(|_, at| now.duration_since(*at) < SITTING_DOWN_MAX);
            self.claimed.insert(entry.connection.clone(), now);
        }
        Ok(claimed)
    }

    /// The others hear of it before the place is free, and so before they hear who has it next.
    async fn departed(
        &mut self,
        connection: &ConnectionId,
        member: Member,
    ) -> Result<(), Unreachable> {
        let shared = &self.shared;
        shared.check_reachable()?;
        let found = shared
            .record
            .find(member.office.as_str(), member.role, member.name.as_str())
            .await;
        let held = shared.noted(found, "look for a member")?;
        let is_ours = held.is_some_and(|held| held.connection == connection.0);
        if is_ours {
            let notice = left(member.clone());
            shared.tell(&notice, Audience::Elsewhere).await?;
        }
        let vacated = shared.record.vacate(&member, &connection.0).await;
        shared.noted(vacated, "give up a place")
    }

    async fn revised(&mut self, connection: &ConnectionId) -> Result<(), Unreachable> {
        let Some((member, entry)) = self.relay.seated(&self.shared, connection) else {
            return Ok(()); // It has left meanwhile.
        };
        self.shared.check_reachable()?;
        let shared = &self.shared;
        let claim = shared
            .record
            .claim(&member.office, &entry, None, shared.members_max);
        shared.noted(claim.await, "tell what a computer offers")?;
        Ok(())
    }

    async fn forward(&mut self, to: &ConnectionId, notice: &Notice) -> Result<(), Unreachable> {
        let Some((office, computer)) = whereabouts(to) else {
            return Ok(()); // It is being closed.
        };
        self.shared.check_reachable()?;
        let found = self
            .shared
            .record
            .find(office, Role::Computer, computer)
            .await;
        match self.shared.noted(found, "look for a computer")? {
            Some(entry) => self.shared.tell_one(&entry, notice).await,
            None => Ok(()), // Its calls have ended with it.
        }
    }

    /// Makes the record and the others agree with who is here.
    async fn restore(&mut self) -> Result<(), Unreachable> {
        let shared = Arc::clone(&self.shared);
        shared.check_reachable()?;
        shared.post.is_behind.store(false, Ordering::SeqCst);
        let recorded = shared.noted(shared.record.own().await, "read the own places")?;
        let here = self.relay.everybody_here(&shared);
        for place in recorded {
            let found = shared
                .record
                .find(place.office.as_str(), place.role, place.name.as_str())
                .await;
            let Some(held) = shared.noted(found, "look for a member")? else {
                continue;
            };
            let sits = here
                .iter()
                .any(|(_, entry)| entry.connection == held.connection);
            if sits || held.server != shared.server {
                continue;
            }
            if self.claimed.contains_key(&held.connection) {
                shared.post.set_behind(); // It may be about to sit down.
                continue;
            }
            if let Some(member) = held.member(&place.office) {
                let connection = ConnectionId(held.connection);
                self.departed(&connection, member).await?;
            }
        }
        for (member, entry) in here {
            let connection = ConnectionId(entry.connection.clone());
            match self.claim(&member.office, &entry, None).await? {
                Claimed::Seated | Claimed::Kept | Claimed::Replaced(_) => {
                    // Whoever has heard of it hears it again, which makes agents look at its tools again.
                    let notice = Notice::Entered {
                        office: member.office,
                        role: member.role,
                        name: member.name,
                    };
                    shared.tell(&notice, Audience::Elsewhere).await?;
                }
                Claimed::Held(_) | Claimed::Full => {
                    tracing::warn!(office = %member.office, name = %member.name, "another server has given this place away");
                    self.relay.evict(&connection);
                }
            }
        }
        Ok(())
    }
}

pub(super) fn left(member: Member) -> Notice {
    Notice::Left {
        office: member.office,
        role: member.role,
        name: member.name,
    }
}
