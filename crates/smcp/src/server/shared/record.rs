//! Who sits where on all servers: a record in Redis that every server reads and each writes its own members into.
//!
//! A place is given by one script, so that two servers cannot give it twice. A server says every second that it is
//! there; the places of one that has fallen silent are cleared by whoever notices first.

use std::time::Duration;

use domain::{
    Name,
    office::{Member, MemberName, Role},
};
use redis::{RedisError, RedisResult, Script, aio::ConnectionManager};
use serde::{Deserialize, Serialize};
use wire::smcp::Profile;

use crate::convert;

/// Takes a place that is free, one's own, that of `from`, or that of a server which is gone.
const CLAIM: &str = r"
local held = redis.call('HGET', KEYS[1], ARGV[1])
local said = 'seated'
if held then
  local entry = cjson.decode(held)
  if entry.connection == ARGV[3] then
    said = 'kept'
  elseif entry.connection ~= ARGV[4] and redis.call('EXISTS', ARGV[5] .. entry.server) == 1 then
    return {'held', held}
  else
    said = 'replaced'
  end
elseif redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[6]) then
  return {'full', ''}
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('SADD', KEYS[2], ARGV[7])
return {said, held or ''}
";

/// Gives up a place, if this connection still has it.
const VACATE: &str = r"
local held = redis.call('HGET', KEYS[1], ARGV[1])
local entry = held and cjson.decode(held)
if entry and entry.connection == ARGV[2] then
  redis.call('HDEL', KEYS[1], ARGV[1])
end
if not entry or entry.connection == ARGV[2] or entry.server ~= ARGV[3] then
  redis.call('SREM', KEYS[2], ARGV[4])
end
return 0
";

/// Says that this server lives, and clears the places of those that do not. Returns whether it was known to live.
const BEAT: &str = r"
local known = redis.call('EXISTS', ARGV[2] .. ARGV[1])
redis.call('SET', ARGV[2] .. ARGV[1], '1', 'PX', ARGV[5])
redis.call('SADD', KEYS[1], ARGV[1])
local gone = {}
for _, server in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  if redis.call('EXISTS', ARGV[2] .. server) == 0 then
    redis.call('SREM', KEYS[1], server)
    for _, place in ipairs(redis.call('SMEMBERS', ARGV[3] .. server)) do
      local office, field = place:match('^([^:]+):(.+)$')
      local held = office and redis.call('HGET', ARGV[4] .. office, field)
      if held and cjson.decode(held).server == server then
        redis.call('HDEL', ARGV[4] .. office, field)
        gone[#gone + 1] = office
        gone[#gone + 1] = held
      end
    end
    redis.call('DEL', ARGV[3] .. server)
  end
end
return {known, gone}
";

/// One member, as every server sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Entry {
    pub(in super::super) server: String,
    pub(in super::super) connection: String,
    pub(in super::super) role: String,
    pub(in super::super) name: String,
    pub(in super::super) caller: String,
    pub(in super::super) version: Option<String>,
    /// Changes with what the computer offers.
    pub(in super::super) revision: u64,
    /// It is told whose agent a call comes from.
    #[serde(default)]
    pub(in super::super) knows_scopes: bool,
    /// When it does not acknowledge a probe, it is not there any more.
    #[serde(default)]
    pub(in super::super) answers_probes: bool,
}

/// What has become of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Claimed {
    Seated,
    /// It had been this connection's place before.
    Kept,
    /// It was somebody's whose server is gone, or who was to lose it.
    Replaced(Entry),
    Held(Entry),
    Full,
}

/// What a sign of life has shown.
#[derive(Debug)]
pub(super) struct Beat {
    /// Whether the others had not given this server up in the meantime.
    pub(super) was_known: bool,
    /// Members of servers that are gone.
    pub(super) gone: Vec<(Name, Entry)>,
}

#[derive(Clone)]
pub(super) struct Record {
    connection: ConnectionManager,
    prefix: String,
    server: String,
}

impl Entry {
    /// Whoever names a version speaks the shipped profile.
    pub(in super::super) fn profile(&self) -> Profile {
        match self.version {
            Some(_) => Profile::Shipped,
            None => Profile::Seed,
        }
    }

    /// Nothing if another version of this program has written what this one cannot read.
    pub(super) fn member(&self, office: &Name) -> Option<Member> {
        Some(Member {
            office: office.clone(),
            role: convert::role(&self.role)?,
            name: MemberName::parse(&self.name).ok()?,
        })
    }
}

impl Record {
    pub(super) fn new(connection: ConnectionManager, prefix: String, server: String) -> Self {
        Self {
            connection,
            prefix,
            server,
        }
    }

    fn office(&self, office: &str) -> String {
        format!("{}:office:{office}", self.prefix)
    }

    fn seats(&self, server: &str) -> String {
        format!("{}:seats:{server}", self.prefix)
    }

    fn alive(&self, server: &str) -> String {
        format!("{}:alive:{server}", self.prefix)
    }

    pub(super) async fn claim(
        &self,
        office: &Name,
        entry: &Entry,
        from: Option<&str>,
        members_max: usize,
    ) -> RedisResult<Claimed> {
        let field = field(&entry.role, &entry.name);
        let script = Script::new(CLAIM);
        let mut claim = script.prepare_invoke();
        claim
            .key(self.office(office.as_str()))
            .key(self.seats(&self.server))
            .arg(&field)
            .arg(written(entry))
            .arg(&entry.connection)
            .arg(from.unwrap_or_default())
            .arg(self.alive(""))
            .arg(members_max)
            .arg(format!("{office}:{field}"));
        let (said, held): (String, String) =
            claim.invoke_async(&mut self.connection.clone()).await?;
        Ok(match (said.as_str(), read(&held)) {
            ("full", _) => Claimed::Full,
            ("kept", _) => Claimed::Kept,
            ("held", Ok(held)) => Claimed::Held(held),
            ("replaced", Ok(held)) => Claimed::Replaced(held),
            ("held", Err(error)) => return Err(error),
            (_, _) => Claimed::Seated,
        })
    }

    pub(super) async fn vacate(&self, member: &Member, connection: &str) -> RedisResult<()> {
        let field = field(member.role.as_str(), member.name.as_str());
        let script = Script::new(VACATE);
        let mut vacate = script.prepare_invoke();
        vacate
            .key(self.office(member.office.as_str()))
            .key(self.seats(&self.server))
            .arg(&field)
            .arg(connection)
            .arg(&self.server)
            .arg(format!("{}:{field}", member.office));
        let _: i64 = vacate.invoke_async(&mut self.connection.clone()).await?;
        Ok(())
    }

    pub(super) async fn find(
        &self,
        office: &str,
        role: Role,
        name: &str,
    ) -> RedisResult<Option<Entry>> {
        let mut find = redis::cmd("HGET");
        find.arg(self.office(office))
            .arg(field(role.as_str(), name));
        let held: Option<String> = find.query_async(&mut self.connection.clone()).await?;
        held.map(|held| read(&held)).transpose()
    }

    /// Everybody in an office, the agent first.
    pub(super) async fn list(&self, office: &Name) -> RedisResult<Vec<Entry>> {
        let mut list = redis::cmd("HVALS");
        list.arg(self.office(office.as_str()));
        let held: Vec<String> = list.query_async(&mut self.connection.clone()).await?;
        let mut entries: Vec<Entry> = held.iter().filter_map(|held| read(held).ok()).collect();
        entries.sort_by(|a, b| (&a.role, &a.name).cmp(&(&b.role, &b.name)));
        Ok(entries)
    }

    /// The places that this server has written down, as office, role and name.
    pub(super) async fn own(&self) -> RedisResult<Vec<Member>> {
        let mut own = redis::cmd("SMEMBERS");
        own.arg(self.seats(&self.server));
        let places: Vec<String> = own.query_async(&mut self.connection.clone()).await?;
        Ok(places.iter().filter_map(|place| member(place)).collect())
    }

    pub(super) async fn beat(&self, lease: Duration) -> RedisResult<Beat> {
        let script = Script::new(BEAT);
        let mut beat = script.prepare_invoke();
        beat.key(format!("{}:servers", self.prefix))
            .arg(&self.server)
            .arg(self.alive(""))
            .arg(self.seats(""))
            .arg(self.office(""))
            .arg(u64::try_from(lease.as_millis()).unwrap_or(u64::MAX));
        let (known, gone): (i64, Vec<String>) =
            beat.invoke_async(&mut self.connection.clone()).await?;
        let gone = gone
            .chunks_exact(2)
            .filter_map(|pair| Some((Name::parse(&pair[0]).ok()?, read(&pair[1]).ok()?)))
            .collect();
        Ok(Beat {
            was_known: known == 1,
            gone,
        })
    }

    /// Says that this server has ended; the next sign of life of another clears its places.
    pub(super) async fn end(&self) -> RedisResult<()> {
        let mut end = redis::cmd("DEL");
        end.arg(self.alive(&self.server));
        let _: i64 = end.query_async(&mut self.connection.clone()).await?;
        Ok(())
    }
}

fn field(role: &str, name: &str) -> String {
    match role {
        "agent" => role.to_owned(),
        role => format!("{role}:{name}"),
    }
}

/// The opposite of how a place is written down; an agent's name is not part of its place.
fn member(place: &str) -> Option<Member> {
    let (office, field) = place.split_once(':')?;
    let (role, name) = field.split_once(':').unwrap_or((field, "agent"));
    Some(Member {
        office: Name::parse(office).ok()?,
        role: convert::role(role)?,
        name: MemberName::parse(name).ok()?,
    })
}

fn written(entry: &Entry) -> String {
    serde_json::to_string(entry).expect("an entry is texts and numbers")
}

fn read(held: &str) -> RedisResult<Entry> {
    serde_json::from_str(held).map_err(|_| {
        let words = "the record of offices holds what this version cannot read";
        RedisError::from((redis::ErrorKind::Client, words))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        for (role, name) in [(Role::Agent, "agent"), (Role::Computer, "Ana's: pc")] {
            let field = field(role.as_str(), name);
            let read = member(&format!("studio:{field}")).unwrap();
            assert_eq!((read.role, read.name.as_str()), (role, name));
            assert_eq!(read.office.as_str(), "studio");
        }
    }
}
