//! One event that has arrived, until it is acknowledged.

use std::{sync::Arc, time::Duration};

use domain::office::ConnectionId;
use wire::smcp::ErrorBody;

use super::{
    ack::{self, Ack, Form},
    bus::AckSender,
    floor::{Asker, Peer},
    relay::Relay,
};
use crate::convert::code;

/// One event with everything that an answer to it needs.
pub(super) struct Incoming<'a> {
    relay: &'a Arc<Relay>,
    pub(super) connection: ConnectionId,
    pub(super) peer: Arc<Peer>,
    pub(super) name: &'a str,
    ack: AckSender,
    form: Form,
}

impl<'a> Incoming<'a> {
    pub(super) fn new(
        relay: &'a Arc<Relay>,
        connection: ConnectionId,
        peer: Arc<Peer>,
        name: &'a str,
        ack: AckSender,
        form: Form,
    ) -> Self {
        Self {
            relay,
            connection,
            peer,
            name,
            ack,
            form,
        }
    }

    /// A request whose answer took a while.
    pub(super) fn again(
        relay: &'a Arc<Relay>,
        connection: ConnectionId,
        peer: Arc<Peer>,
        name: &'a str,
        ack: AckSender,
    ) -> Self {
        Self::new(relay, connection, peer, name, ack, Form::Pair)
    }

    /// The same for one that is not answered with a pair.
    pub(super) fn plainly(
        relay: &'a Arc<Relay>,
        connection: ConnectionId,
        peer: Arc<Peer>,
        name: &'a str,
        ack: AckSender,
    ) -> Self {
        Self::new(relay, connection, peer, name, ack, Form::Plain)
    }

    pub(super) fn answer(self, said: &Ack) {
        if ack::send(self.ack, said).is_err() {
            self.relay.drop_reader(&self.connection);
        }
    }

    /// Refuses it, and writes that down.
    pub(super) fn refuse(self, error: &ErrorBody) {
        let office = {
            let floor = self.relay.floor();
            let member = floor.offices.member(&self.connection);
            member.map(|member| member.office.to_string())
        };
        let caller = Some(&self.peer.caller);
        self.relay
            .record(&self.connection, caller, self.name, office, error);
        self.refuse_quietly(error);
    }

    fn refuse_quietly(self, error: &ErrorBody) {
        if ack::send_error(self.ack, error, self.form, self.peer.profile).is_err() {
            self.relay.drop_reader(&self.connection);
        }
    }

    /// A flood is written down once, not with every event.
    pub(super) fn refuse_for_rate(self, (wait, is_first): (Duration, bool)) {
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let error = ErrorBody::new(code::FORBIDDEN, "Too many events: slow down.")
            .with("reason", "rate")
            .with("retry_after_ms", millis);
        if is_first {
            self.refuse(&error);
        } else {
            self.refuse_quietly(&error);
        }
    }

    /// The acknowledgement, for somebody who answers later.
    pub(super) fn into_asker(self) -> Asker {
        Asker {
            connection: self.connection,
            ack: self.ack,
            profile: self.peer.profile,
            is_ours: self.peer.knows_scopes,
        }
    }
}
