//! Requests and their answers: one answer for each asker, one execution for each request id.

use super::{
    ANSWER_TTL, ANSWERS_MAX, Call, CallKey, CallState, ConnectionId, Effect, Ending, Keep, Member,
    Notice, Offices, Question, Refusal, Request, RequestId, Role, Ticket, Whom,
};
use crate::Timestamp;

impl Offices {
    pub(super) fn on_ask(
        &mut self,
        connection: ConnectionId,
        whom: Whom<'_>,
        question: Question,
        now: Timestamp,
    ) -> Result<Vec<Effect>, Refusal> {
        let member = self.agent_or_refusal(&connection)?.clone();
        let call = match question {
            Question::Read => None,
            Question::Call {
                request,
                fingerprint,
            } => Some((self.call_key(&connection, &member, request), fingerprint)),
        };
        let known = match &call {
            Some((key, fingerprint)) => self.known_call(key, *fingerprint)?,
            None => None,
        };
        if let Some((ticket, CallState::Answered)) = known {
            return Ok(vec![Effect::Replay { ticket }]);
        }
        self.check_waiting(&connection)?;
        if let Some((ticket, CallState::UnderWay)) = known {
            self.wait(ticket, connection);
            return Ok(vec![Effect::Join { ticket }]);
        }
        let to = match whom {
            Whom::Here(computer) => self
                .offices
                .get(&member.office)
                .and_then(|office| office.computers.get(computer))
                .cloned()
                .ok_or(Refusal::NoSuchComputer)?,
            Whom::Elsewhere(to) => to,
        };
        let mut effects = self.forget_old(now);
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        let call = call.map(|(key, fingerprint)| {
            let state = CallState::UnderWay;
            self.calls.insert(
                key.clone(),
                Call {
                    ticket,
                    fingerprint,
                    computer: to.clone(),
                    state,
                },
            );
            key
        });
        self.requests.insert(
            ticket,
            Request {
                office: member.office,
                computer: to.clone(),
                askers: Vec::new(),
                call,
            },
        );
        self.wait(ticket, connection);
        effects.push(Effect::Forward { ticket, to });
        Ok(effects)
    }

    fn agent_or_refusal(&self, connection: &ConnectionId) -> Result<&Member, Refusal> {
        let member = self.member_or_refusal(connection)?;
        match member.role {
            Role::Agent => Ok(member),
            Role::Computer => Err(Refusal::WrongRole { role: Role::Agent }),
        }
    }

    fn call_key(&self, connection: &ConnectionId, member: &Member, request: RequestId) -> CallKey {
        CallKey {
            office: member.office.clone(),
            caller: self.caller(connection).unwrap_or_default().to_owned(),
            agent: member.name.clone(),
            request,
        }
    }

    fn known_call(
        &self,
        key: &CallKey,
        fingerprint: u64,
    ) -> Result<Option<(Ticket, CallState)>, Refusal> {
        match self.calls.get(key) {
            None => Ok(None),
            Some(call) if call.fingerprint != fingerprint => Err(Refusal::RequestIdReused),
            Some(call) => Ok(Some((call.ticket, call.state))),
        }
    }

    fn check_waiting(&self, connection: &ConnectionId) -> Result<(), Refusal> {
        let limit = self.limits.requests_max;
        match self.connections.get(connection) {
            Some(current) if current.waiting >= limit => Err(Refusal::TooManyRequests { limit }),
            Some(_) => Ok(()),
            None => Err(Refusal::UnknownConnection),
        }
    }

    fn wait(&mut self, ticket: Ticket, connection: ConnectionId) {
        if let Some(current) = self.connections.get_mut(&connection) {
            current.waiting += 1;
        }
        if let Some(request) = self.requests.get_mut(&ticket) {
            request.askers.push(connection);
        }
    }

    pub(super) fn on_answered(&mut self, ticket: Ticket, now: Timestamp) -> Vec<Effect> {
        match self.end(ticket, now) {
            Some((_, keep)) => vec![Effect::Deliver { ticket, keep }],
            None => Vec::new(), // It came too late: everybody has been answered.
        }
    }

    pub(super) fn on_undelivered(&mut self, ticket: Ticket) -> Vec<Effect> {
        let Some(request) = self.take(ticket) else {
            return Vec::new();
        };
        if let Some(key) = &request.call {
            self.calls.remove(key);
        }
        let keep = Keep::No;
        vec![Effect::Deliver { ticket, keep }]
    }

    pub(super) fn on_timed_out(&mut self, ticket: Ticket, now: Timestamp) -> Vec<Effect> {
        let Some((request, keep)) = self.end(ticket, now) else {
            return Vec::new();
        };
        let mut effects = vec![Effect::Deliver { ticket, keep }];
        effects.extend(request.call.map(|key| Effect::Tell {
            to: vec![request.computer],
            notice: cancelled(key),
        }));
        effects
    }

    pub(super) fn on_cancel(
        &mut self,
        connection: &ConnectionId,
        request: RequestId,
    ) -> Result<Vec<Effect>, Refusal> {
        let member = self.agent_or_refusal(connection)?;
        let key = self.call_key(connection, member, request);
        let Some(call) = self.calls.get(&key) else {
            return Ok(vec![Effect::SeekCall { call: key }]);
        };
        // A cancel that crosses its answer is not an error: both hear of it, and the answer stays what it is.
        let is_heard = match call.state {
            CallState::UnderWay => true,
            CallState::Answered => self
                .member(&call.computer)
                .is_some_and(|computer| computer.office == member.office),
        };
        if !is_heard {
            return Ok(Vec::new());
        }
        Ok(vec![Effect::Tell {
            to: vec![call.computer.clone(), connection.clone()],
            notice: cancelled(key),
        }])
    }

    pub(super) fn on_cancel_call(&self, key: CallKey) -> Vec<Effect> {
        match self.calls.get(&key) {
            Some(call) if call.state == CallState::UnderWay => vec![Effect::Tell {
                to: vec![call.computer.clone()],
                notice: cancelled(key),
            }],
            Some(_) | None => Vec::new(), // It is another relay's, or has been answered.
        }
    }

    /// Who waits for this call of the office's agent, if it is this computer that works on it.
    pub fn hearers(
        &self,
        computer: &ConnectionId,
        request: RequestId,
    ) -> Result<&[ConnectionId], Refusal> {
        let member = self.member_or_refusal(computer)?;
        match member.role {
            Role::Computer => {}
            Role::Agent => {
                return Err(Refusal::WrongRole {
                    role: Role::Computer,
                });
            }
        }
        let office = self.offices.get(&member.office);
        let agent = office.and_then(|office| office.agent.as_ref());
        let waiting = agent.and_then(|agent| {
            let key = self.call_key(agent, self.member(agent)?, request);
            let call = self.calls.get(&key)?;
            self.requests.get(&call.ticket)
        });
        // A word that crosses the answer is not an error, and nobody needs to hear it.
        Ok(waiting
            .filter(|waiting| waiting.computer == *computer)
            .map_or(&[], |waiting| &waiting.askers))
    }

    /// Ends the calls of an agent that leaves, and tells the computers that work on them.
    pub(super) fn abandon(
        &mut self,
        connection: &ConnectionId,
        member: &Member,
        now: Timestamp,
    ) -> Vec<Effect> {
        // A call may have been asked for through an earlier connection of the same agent.
        let is_own = |key: &CallKey| key.agent == member.name;
        let asked = |request: &Request| {
            request.office == member.office
                && (request.askers.contains(connection)
                    || request.call.as_ref().is_some_and(is_own))
        };
        let mut effects: Vec<Effect> = self
            .requests
            .values()
            .filter(|request| asked(request))
            .filter_map(|request| {
                Some(Effect::Tell {
                    to: vec![request.computer.clone()],
                    notice: cancelled(request.call.clone()?),
                })
            })
            .collect();
        effects.extend(self.settle(asked, Ending::Left, now));
        effects
    }

    pub(super) fn settle(
        &mut self,
        concerned: impl Fn(&Request) -> bool,
        ending: Ending,
        now: Timestamp,
    ) -> Vec<Effect> {
        let tickets: Vec<Ticket> = self
            .requests
            .iter()
            .filter(|(_, request)| concerned(request))
            .map(|(ticket, _)| *ticket)
            .collect();
        tickets
            .into_iter()
            .filter_map(|ticket| {
                let (_, keep) = self.end(ticket, now)?;
                Some(Effect::Settle {
                    ticket,
                    ending,
                    keep,
                })
            })
            .collect()
    }

    /// Takes a request off the list of those that wait; nothing if it has been answered.
    fn take(&mut self, ticket: Ticket) -> Option<Request> {
        let request = self.requests.remove(&ticket)?;
        for asker in &request.askers {
            if let Some(current) = self.connections.get_mut(asker) {
                current.waiting = current.waiting.saturating_sub(1);
            }
        }
        Some(request)
    }

    /// The same, and a call is remembered as answered.
    fn end(&mut self, ticket: Ticket, now: Timestamp) -> Option<(Request, Keep)> {
        let request = self.take(ticket)?;
        let call = request.call.as_ref().and_then(|key| {
            let call = self.calls.get_mut(key)?;
            call.state = CallState::Answered;
            Some(key.clone())
        });
        let keep = match call {
            Some(key) => {
                self.answered.push_back((now, key));
                Keep::Yes
            }
            None => Keep::No,
        };
        Some((request, keep))
    }

    pub(super) fn forget_old(&mut self, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some((answered, _)) = self.answered.front() {
            if self.answered.len() <= ANSWERS_MAX && now.since(*answered) < ANSWER_TTL {
                break;
            }
            let call = self
                .answered
                .pop_front()
                .and_then(|(_, key)| self.calls.remove(&key));
            effects.extend(call.map(|call| Effect::Forget {
                ticket: call.ticket,
            }));
        }
        effects
    }
}

fn cancelled(key: CallKey) -> Notice {
    Notice::Cancelled {
        office: key.office,
        agent: key.agent,
        request: key.request,
    }
}
