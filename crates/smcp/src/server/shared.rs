//! Several servers that act as one: what this server knows of the others, and how it reaches their members.
//!
//! Each server decides alone about its own connections, with its own machine. What lies between servers is a record in
//! Redis of who sits where (`record`), a queue that keeps it up to date and tells the others in order (`post`), a sign
//! of life (`pulse`), and requests that travel to a computer elsewhere (`elsewhere`). Messages go through the Socket.IO
//! library's adapter (`bus`). Without a Redis none of this exists.

mod cancels;
mod elsewhere;
mod places;
mod post;
mod pulse;
mod record;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use domain::{
    Name,
    office::{ConnectionId, Member, MemberName, Notice, Role},
};
use redis::{Client, IntoConnectionInfo, ProtocolVersion, RedisError, RedisResult};
use tokio::{
    sync::{Semaphore, mpsc, watch},
    time::Instant,
};
use wire::smcp::{CallProgress, ErrorBody, NAMESPACE, Profile, progress_notice};

use self::record::{Entry, Record};
pub(super) use self::{
    elsewhere::Passage,
    post::{Parcel, Post},
};
use super::{
    bus::{Redis, SocketIo, SocketRef, Wire},
    floor::Peer,
    knowledge::Knowledge,
    relay::Relay,
};
use crate::convert::{self, code};

/// How often a server says that it lives.
const BEAT_EVERY: Duration = Duration::from_secs(1);

/// How long a server may be silent before its members are taken to have left: a few signs of life may be late.
const LEASE: Duration = Duration::from_secs(10);

/// How long no new place is given after Redis has forgotten this server: the others write theirs down again meanwhile.
const SETTLING: Duration = Duration::from_secs(3);

/// Requests that are being sent to other servers at once, so that none waits long for Redis behind the others.
const SENDING_MAX: usize = 64;

/// What the servers of one address share.
#[derive(Clone)]
pub struct Sharing {
    client: Client,
}

impl fmt::Debug for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may hold a password.
        f.debug_struct("Sharing").finish_non_exhaustive()
    }
}

/// Why servers cannot share their offices.
#[derive(Debug, thiserror::Error)]
pub enum SharingError {
    #[error("the address of the Redis is not right: it looks like redis://HOST:PORT/NUMBER")]
    Address { source: RedisError },
    #[error("the Redis at {place} cannot be reached")]
    Reach { place: String, source: RedisError },
    #[error("the other servers cannot be listened to through the Redis at {place}")]
    Listen { place: String, reason: String },
}

impl Sharing {
    /// Reads `redis://HOST:PORT/NUMBER`; servers share their offices if they name the same database.
    pub fn parse(url: &str) -> Result<Self, SharingError> {
        let wrong = |source| SharingError::Address { source };
        let mut info = url.into_connection_info().map_err(wrong)?;
        let settings = info.redis_settings().clone();
        // Messages of other servers arrive between answers, which the older protocol cannot tell apart.
        info = info.set_redis_settings(settings.set_protocol(ProtocolVersion::RESP3));
        let client = Client::open(info).map_err(wrong)?;
        Ok(Self { client })
    }

    /// Where it is, without its password.
    pub(super) fn place(&self) -> String {
        self.client.get_connection_info().addr().to_string()
    }

    pub(super) fn prefix(&self) -> String {
        // Channels of Redis do not know databases.
        let database = self.client.get_connection_info().redis_settings().db();
        format!("agentcraft:{database}")
    }

    pub(super) async fn connect(&self) -> Result<Redis, SharingError> {
        Redis::connect(self.client.clone())
            .await
            .map_err(|source| SharingError::Reach {
                place: self.place(),
                source,
            })
    }
}

/// The other servers cannot be reached; the reason is in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unreachable;

impl Unreachable {
    pub(super) fn error(self) -> ErrorBody {
        let words = "The servers of this office cannot reach each other at the moment.";
        ErrorBody::new(code::INTERNAL, words).with("reason", "unreachable")
    }
}

/// Who hears a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Audience {
    Everywhere,
    /// The members here have heard it.
    Elsewhere,
}

pub(super) struct Shared {
    server: String,
    record: Record,
    prefix: String,
    wire: Wire,
    io: SocketIo,
    pub(super) post: Post,
    is_reachable: AtomicBool,
    /// From when on new places are given; nothing before the first sign of life.
    settled: Mutex<Option<Instant>>,
    sending: Semaphore,
    /// What computers elsewhere offer, by connection, as of a revision.
    known: Mutex<HashMap<String, (u64, watch::Sender<Knowledge>)>>,
    /// Bytes of requests that are on their way to other servers.
    unread: AtomicUsize,
    members_max: usize,
}

impl Shared {
    pub(super) fn new(
        redis: &Redis,
        prefix: String,
        io: SocketIo,
        members_max: usize,
    ) -> (Self, mpsc::Receiver<Parcel>) {
        let server = uuid::Uuid::new_v4().simple().to_string();
        let (post, parcels) = Post::new();
        let shared = Self {
            record: Record::new(redis.record.clone(), prefix.clone(), server.clone()),
            prefix,
            wire: Wire::Redis(redis.clone()),
            server,
            io,
            post,
            is_reachable: AtomicBool::new(true),
            settled: Mutex::default(),
            sending: Semaphore::new(SENDING_MAX),
            known: Mutex::default(),
            unread: AtomicUsize::new(0),
            members_max,
        };
        (shared, parcels)
    }

    /// Starts what keeps the record and this server's part of it.
    pub(super) async fn start(
        relay: &Arc<Relay>,
        shared: Arc<Self>,
        parcels: mpsc::Receiver<Parcel>,
        place: &str,
    ) -> Result<(), SharingError> {
        let cancels = shared.listen_for_cancels(place).await?;
        shared.beat().await; // Known to the others before the first member comes.
        cancels::start(relay, cancels);
        post::start(relay, Arc::clone(&shared), parcels);
        pulse::start(relay, shared);
        Ok(())
    }

    /// What the others see of a member of this server.
    fn entry(&self, peer: &Peer, member: &Member) -> Entry {
        Entry {
            server: self.server.clone(),
            connection: peer.socket.id.to_string(),
            role: member.role.as_str().to_owned(),
            name: member.name.to_string(),
            caller: peer.caller.name.clone(),
            version: peer.version.clone(),
            revision: peer.revision.load(Ordering::SeqCst),
            knows_scopes: peer.knows_scopes,
            answers_probes: peer.answers_probes,
        }
    }

    /// What Redis has said; one that does not answer is not asked again until the next sign of life has passed.
    fn noted<T>(&self, said: RedisResult<T>, what: &'static str) -> Result<T, Unreachable> {
        said.map_err(|error| {
            let was_reachable = self.is_reachable.swap(false, Ordering::SeqCst);
            if was_reachable {
                tracing::error!(%error, what, "the other office servers cannot be reached");
            }
            Unreachable
        })
    }

    fn check_reachable(&self) -> Result<(), Unreachable> {
        match self.is_reachable.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err(Unreachable),
        }
    }

    /// Everybody in an office, on all servers, the agent first.
    pub(super) async fn list(&self, office: &Name) -> Result<Vec<Entry>, Unreachable> {
        self.check_reachable()?;
        self.noted(self.record.list(office).await, "list an office")
    }

    /// Tells the members of an office, each in the words of its profile.
    async fn tell(&self, notice: &Notice, audience: Audience) -> Result<(), Unreachable> {
        self.check_reachable()?;
        for profile in [Profile::Seed, Profile::Shipped] {
            let (Some((event, body)), Some(io)) =
                (convert::notice(notice, profile), self.io.of(NAMESPACE))
            else {
                continue;
            };
            let to = io.to(room(notice.office(), profile));
            let to = match audience {
                Audience::Everywhere => to,
                Audience::Elsewhere => to.except(own_room(&self.server)),
            };
            self.sent(to.emit(event, &body).await)?;
        }
        Ok(())
    }

    /// Tells one connection, wherever it is.
    async fn tell_one(&self, to: &Entry, notice: &Notice) -> Result<(), Unreachable> {
        self.check_reachable()?;
        if let (Some((event, body)), Some(io)) =
            (convert::notice(notice, to.profile()), self.io.of(NAMESPACE))
        {
            let sent = io.to(connection_room(&to.connection)).emit(event, &body);
            self.sent(sent.await)?;
        }
        Ok(())
    }

    /// Tells the agent of an office, wherever it is, how far a call is. It knows which of its calls went to whom.
    async fn tell_agent(&self, office: &Name, said: &CallProgress) -> Result<(), Unreachable> {
        let members = self.list(office).await?;
        let agent = members
            .iter()
            .find(|member| member.role == Role::Agent.as_str());
        if let (Some(agent), Some(io)) = (agent, self.io.of(NAMESPACE)) {
            let to = io.to(connection_room(&agent.connection));
            self.sent(to.emit(progress_notice(), said).await)?;
        }
        Ok(())
    }

    /// Closes a connection, wherever it is.
    async fn close(&self, connection: &str) -> Result<(), Unreachable> {
        self.check_reachable()?;
        match self.io.of(NAMESPACE) {
            Some(io) => self.sent(io.to(connection_room(connection)).disconnect().await),
            None => Ok(()), // This server is ending.
        }
    }

    fn sent(&self, sent: Result<(), socketioxide::BroadcastError>) -> Result<(), Unreachable> {
        match sent {
            Ok(()) => Ok(()),
            // A member here that does not read is found by its own heartbeat.
            Err(socketioxide::BroadcastError::Socket(_)) => Ok(()),
            Err(error) => {
                if self.is_reachable.swap(false, Ordering::SeqCst) {
                    tracing::error!(%error, "the other office servers cannot be reached");
                }
                Err(Unreachable)
            }
        }
    }

    /// Notices for a member reach it from now on.
    pub(super) fn enter_rooms(&self, peer: &Peer, office: &Name) {
        let socket = &peer.socket;
        socket.join(vec![
            room(office, peer.profile),
            own_room(&self.server),
            connection_room(&socket.id.to_string()),
        ]);
        if !socket.connected() {
            self.leave_rooms(socket, peer.profile, office); // The library has cleaned up after it already.
            socket.leave(vec![
                own_room(&self.server),
                connection_room(&socket.id.to_string()),
            ]);
        }
    }

    pub(super) fn leave_rooms(&self, socket: &SocketRef, profile: Profile, office: &Name) {
        socket.leave(room(office, profile));
    }
}

/// Where the members of an office who speak a profile are told things.
fn room(office: &Name, profile: Profile) -> String {
    let profile = match profile {
        Profile::Seed => "seed",
        Profile::Shipped => "shipped",
    };
    format!("office/{office}/{profile}")
}

/// Where every member of a server is.
fn own_room(server: &str) -> String {
    format!("server/{server}")
}

/// Where one member is alone.
fn connection_room(connection: &str) -> String {
    format!("connection/{connection}")
}

/// Stands in the machine for a computer that is connected to another server.
pub(super) fn elsewhere(office: &Name, computer: &MemberName) -> ConnectionId {
    ConnectionId(format!("elsewhere:{office}:{computer}"))
}

/// The office and the computer that such an id stands for.
fn whereabouts(id: &ConnectionId) -> Option<(&str, &str)> {
    id.0.strip_prefix("elsewhere:")?.split_once(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_without_its_password() {
        let sharing = Sharing::parse("redis://:hunter2@127.0.0.1:6390/3").unwrap();
        assert_eq!(sharing.place(), "127.0.0.1:6390");
        assert_eq!(sharing.prefix(), "agentcraft:3");
        assert!(!format!("{sharing:?}").contains("hunter2"));
        let error = Sharing::parse("http://127.0.0.1").unwrap_err();
        assert!(error.to_string().contains("redis://HOST"), "{error}");
    }

    #[test]
    fn a_computer_elsewhere_is_found_by_what_stands_for_it() {
        let office = Name::parse("studio").unwrap();
        let computer = MemberName::parse("Ana's: pc").unwrap();
        let id = elsewhere(&office, &computer);
        assert_eq!(whereabouts(&id), Some(("studio", "Ana's: pc")));
        assert_eq!(whereabouts(&ConnectionId("AAAA".to_owned())), None);
    }
}
