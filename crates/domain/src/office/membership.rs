//! Coming and going: places in an office, taking over a dead connection's place, and telling the others.

use super::{
    Change, Claim, Connection, ConnectionId, Effect, Ending, Member, Notice, Offices, Refusal, Role,
};
use crate::{Name, Timestamp};

/// Why somebody is no longer in an office.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Departure {
    Left,
    /// An agent that comes back may still ask for the answers to its calls, so those go on.
    Lost,
}

impl Offices {
    pub(super) fn on_connected(&mut self, connection: ConnectionId, caller: String) {
        self.connections.entry(connection).or_insert(Connection {
            caller,
            member: None,
            waiting: 0,
        });
    }

    /// Whether this connection may take such a place at all, whoever else holds it.
    pub fn may_join(&self, connection: &ConnectionId, member: &Member) -> Result<(), Refusal> {
        let current = self.connections.get(connection);
        let current = current.ok_or(Refusal::UnknownConnection)?;
        match &current.member {
            Some(present) if present == member => Ok(()),
            Some(present) if present.role != member.role => {
                Err(Refusal::RoleTaken { role: present.role })
            }
            Some(present) if present.role == Role::Agent => Err(Refusal::AgentElsewhere {
                office: present.office.clone(),
            }),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn on_join(
        &mut self,
        connection: ConnectionId,
        member: Member,
        claim: Claim,
        now: Timestamp,
    ) -> Result<Vec<Effect>, Refusal> {
        self.may_join(&connection, &member)?;
        if self.member(&connection) == Some(&member) {
            return Ok(Vec::new()); // Clients repeat a join whose answer they have not seen.
        }
        let holder = self.holder(&connection, &member)?;
        let evicted = match (holder, claim) {
            (None, Claim::Free | Claim::TakeOver { .. }) => None,
            (Some(by), Claim::TakeOver { from }) if by == from => Some(by),
            (Some(by), Claim::Free | Claim::TakeOver { .. }) => return Err(Refusal::Held { by }),
        };
        let mut effects = self.depart(&connection, Departure::Left, now);
        if let Some(evicted) = evicted {
            effects.extend(self.depart(&evicted, Departure::Lost, now));
            effects.push(Effect::Evict {
                connection: evicted,
            });
        }
        effects.extend(self.seat(connection, member));
        Ok(effects)
    }

    /// Who holds the place that is asked for, if it is the same caller; a refusal if it is somebody else.
    fn holder(
        &self,
        connection: &ConnectionId,
        member: &Member,
    ) -> Result<Option<ConnectionId>, Refusal> {
        let Some(office) = self.offices.get(&member.office) else {
            return Ok(None);
        };
        let holder = match member.role {
            Role::Agent => office.agent.as_ref(),
            Role::Computer => office.computers.get(&member.name),
        };
        let Some(holder) = holder.filter(|holder| *holder != connection) else {
            let limit = self.limits.members_max;
            if office.computers.len() + 1 >= limit && member.role == Role::Computer {
                return Err(Refusal::OfficeFull { limit });
            }
            return Ok(None);
        };
        let same_caller = self.caller(holder) == self.caller(connection);
        let same_member = self.member(holder) == Some(member);
        match (member.role, same_caller && same_member) {
            (_, true) => Ok(Some(holder.clone())),
            (Role::Agent, false) => Err(Refusal::AgentPresent),
            (Role::Computer, false) => Err(Refusal::NameTaken),
        }
    }

    pub(super) fn caller(&self, connection: &ConnectionId) -> Option<&str> {
        Some(self.connections.get(connection)?.caller.as_str())
    }

    fn seat(&mut self, connection: ConnectionId, member: Member) -> Vec<Effect> {
        let office = self.offices.entry(member.office.clone()).or_default();
        match member.role {
            Role::Agent => office.agent = Some(connection.clone()),
            Role::Computer => {
                office
                    .computers
                    .insert(member.name.clone(), connection.clone());
            }
        }
        let notice = Notice::Entered {
            office: member.office.clone(),
            role: member.role,
            name: member.name.clone(),
        };
        let role = member.role;
        let to = self.others(member.office.as_str(), &connection);
        if let Some(current) = self.connections.get_mut(&connection) {
            current.member = Some(member);
        }
        let mut effects = vec![Effect::Tell { to, notice }];
        match role {
            Role::Agent => {}
            Role::Computer => effects.push(Effect::Learn { connection }),
        }
        effects
    }

    pub(super) fn on_leave(
        &mut self,
        connection: &ConnectionId,
        office: &Name,
        now: Timestamp,
    ) -> Result<Vec<Effect>, Refusal> {
        if self.member_or_refusal(connection)?.office != *office {
            return Err(Refusal::OtherOffice);
        }
        Ok(self.depart(connection, Departure::Left, now))
    }

    pub(super) fn on_lost(&mut self, connection: &ConnectionId, now: Timestamp) -> Vec<Effect> {
        let effects = self.depart(connection, Departure::Lost, now);
        self.connections.remove(connection);
        for request in self.requests.values_mut() {
            request.askers.retain(|asker| asker != connection);
        }
        effects
    }

    /// Takes a connection out of its office, if it is in one.
    fn depart(
        &mut self,
        connection: &ConnectionId,
        departure: Departure,
        now: Timestamp,
    ) -> Vec<Effect> {
        let member = self
            .connections
            .get_mut(connection)
            .and_then(|current| current.member.take());
        let Some(member) = member else {
            return Vec::new();
        };
        if let Some(office) = self.offices.get_mut(&member.office) {
            match member.role {
                Role::Agent => office.agent = None,
                Role::Computer => {
                    office.computers.remove(&member.name);
                }
            }
            if office.agent.is_none() && office.computers.is_empty() {
                self.offices.remove(&member.office);
            }
        }
        let mut effects = match (member.role, departure) {
            (Role::Computer, Departure::Left | Departure::Lost) => self.settle(
                |request| request.computer == *connection,
                Ending::Vanished,
                now,
            ),
            (Role::Agent, Departure::Left) => self.abandon(connection, &member, now),
            (Role::Agent, Departure::Lost) => Vec::new(),
        };
        let to = self.others(member.office.as_str(), connection);
        let notice = Notice::Left {
            office: member.office,
            role: member.role,
            name: member.name,
        };
        effects.push(Effect::Tell { to, notice });
        effects
    }

    pub(super) fn on_announce(
        &mut self,
        connection: &ConnectionId,
        claimed: Option<&str>,
        change: Change,
    ) -> Result<Vec<Effect>, Refusal> {
        let member = self.member_or_refusal(connection)?;
        match member.role {
            Role::Computer => {}
            Role::Agent => {
                return Err(Refusal::WrongRole {
                    role: Role::Computer,
                });
            }
        }
        if claimed.is_some_and(|claimed| claimed != member.name.as_str()) {
            return Err(Refusal::NotYours);
        }
        let notice = Notice::Changed {
            office: member.office.clone(),
            computer: member.name.clone(),
            change,
        };
        let to = self.others(member.office.as_str(), connection);
        let mut effects = Vec::new();
        match change {
            Change::Config | Change::ToolList => effects.push(Effect::Learn {
                connection: connection.clone(),
            }),
            Change::Desktop | Change::Skills => {}
        }
        effects.push(Effect::Tell { to, notice });
        Ok(effects)
    }
}
