//! The host's side: it lends, and whatever happens it takes everything back.

mod moves;

use serde::{Deserialize, Serialize};

use super::{
    Acceptance, Agreement, Cleanup, DelegationId, Ending, Failure, Grant, Offer, Phase, Report,
    Transport, Waits,
};
use crate::Timestamp;

/// One delegation as its host sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    id: DelegationId,
    offer: Offer,
    waits: Waits,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// Waits for its folder.
    Created {
        until: Timestamp,
    },
    Invited {
        until: Timestamp,
    },
    /// Export and credential are being made.
    Accepted {
        agreement: Agreement,
        until: Timestamp,
    },
    /// START is on its way.
    Started {
        agreement: Agreement,
        until: Timestamp,
    },
    Running {
        agreement: Agreement,
        until: Timestamp,
    },
    /// The remote is done, its access has ended, and the result is being taken home.
    Collecting {
        agreement: Agreement,
        report: Report,
        until: Timestamp,
    },
    Ended {
        ending: Ending,
        cleanup: Cleanup,
    },
}

/// What can happen to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostInput {
    LockGranted,
    /// The folder cannot even be waited for.
    NoLock(Failure),
    /// ACCEPT came.
    Accept(Acceptance),
    Prepared,
    PrepareFailed(Failure),
    /// The remote has begun: START was taken, the workspace is in use, or it says so.
    Began,
    /// DONE came.
    Done(Report),
    /// ERROR came.
    RemoteFailed(Failure),
    Collected,
    CollectFailed(Failure),
    /// INVITE or START could not be delivered, however often it was tried.
    Unreachable {
        reason: String,
    },
    /// Something of the host makes it end: the quota is used up, the credential was misused.
    Fail(Failure),
    Cancel {
        reason: String,
    },
    Tick,
    /// The daemon has come up and found this state.
    Recover,
    /// Everything has been given back.
    Released,
}

/// What must be done, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostEffect {
    /// Ask for the folder. Comes back as `LockGranted` or `NoLock`.
    AcquireLock,
    /// Take the folder that was held before the restart, before anybody else may ask.
    ReacquireLock,
    /// Comes back as `Accept`, `RemoteFailed` or `Unreachable`.
    SendInvite,
    /// Make export and credential anew, whatever is there already. Comes back as `Prepared` or `PrepareFailed`.
    Prepare {
        grant: Grant,
        transport: Transport,
    },
    StopPreparing,
    /// Open the export again with the credential that the remote has.
    Restore {
        grant: Grant,
        transport: Transport,
    },
    /// Comes back as `Began`, `RemoteFailed` or `Unreachable`.
    SendStart {
        grant: Grant,
        transport: Transport,
    },
    RevokeCredential,
    CloseExport,
    /// Take the result home and write the audit. Comes back as `Collected` or `CollectFailed`; may be asked for again.
    Collect {
        transport: Transport,
    },
    StopCollecting,
    ReleaseLock,
    /// Tell the remote that it is over.
    SendError(Failure),
    /// Tell everybody who waits how it ended.
    Announce(Ending),
    TickAt(Timestamp),
}

impl Host {
    /// A new delegation, which waits for its folder. Preflight has passed by then.
    pub fn new(
        id: DelegationId,
        offer: Offer,
        waits: Waits,
        now: Timestamp,
    ) -> (Self, Vec<HostEffect>) {
        let until = now + waits.lock;
        let host = Self {
            id,
            offer,
            waits,
            state: State::Created { until },
        };
        (
            host,
            vec![HostEffect::AcquireLock, HostEffect::TickAt(until)],
        )
    }

    pub fn id(&self) -> &DelegationId {
        &self.id
    }

    pub fn offer(&self) -> &Offer {
        &self.offer
    }

    pub fn phase(&self) -> Phase {
        match &self.state {
            State::Created { .. } => Phase::Created,
            State::Invited { .. } => Phase::Invited,
            State::Accepted { .. } => Phase::Accepted,
            State::Started { .. } => Phase::Started,
            State::Running { .. } | State::Collecting { .. } => Phase::Running,
            State::Ended { ending, .. } => ending.phase(),
        }
    }

    /// What holds, from ACCEPT until the end.
    pub fn agreement(&self) -> Option<&Agreement> {
        match &self.state {
            State::Accepted { agreement, .. }
            | State::Started { agreement, .. }
            | State::Running { agreement, .. }
            | State::Collecting { agreement, .. } => Some(agreement),
            State::Created { .. } | State::Invited { .. } | State::Ended { .. } => None,
        }
    }

    /// What the remote may do and until when, from ACCEPT until the result is being taken home.
    pub fn lease(&self) -> Option<Grant> {
        match &self.state {
            State::Accepted { agreement, until }
            | State::Started { agreement, until }
            | State::Running { agreement, until } => Some(Grant {
                access: agreement.access,
                until: *until,
            }),
            State::Created { .. }
            | State::Invited { .. }
            | State::Collecting { .. }
            | State::Ended { .. } => None,
        }
    }

    pub fn ending(&self) -> Option<&Ending> {
        match &self.state {
            State::Ended { ending, .. } => Some(ending),
            State::Created { .. }
            | State::Invited { .. }
            | State::Accepted { .. }
            | State::Started { .. }
            | State::Running { .. }
            | State::Collecting { .. } => None,
        }
    }

    /// It ended, and something of it is still there.
    pub fn is_cleanup_due(&self) -> bool {
        matches!(&self.state, State::Ended { cleanup, .. } if *cleanup == Cleanup::Due)
    }

    /// It holds its folder. After a restart these recover before the others.
    pub fn holds_lock(&self) -> bool {
        match &self.state {
            State::Created { .. } | State::Ended { .. } => false,
            State::Invited { .. }
            | State::Accepted { .. }
            | State::Started { .. }
            | State::Running { .. }
            | State::Collecting { .. } => true,
        }
    }
}
