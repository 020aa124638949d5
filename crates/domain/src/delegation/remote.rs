//! The remote's side: it works in what it was lent, leaves nothing behind, and says how it went.

mod moves;

use serde::{Deserialize, Serialize};

use super::{
    Acceptance, Access, Agreement, Cleanup, DelegationId, Ending, Failure, Grant, Offer, Phase,
    Report, Transport, Waits,
};
use crate::Timestamp;

/// One delegation as its remote sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remote {
    id: DelegationId,
    offer: Offer,
    waits: Waits,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// Policy and machine are being looked at.
    Invited {
        until: Timestamp,
    },
    /// The mount point is reserved, and START is awaited.
    Accepted {
        acceptance: Acceptance,
        agreement: Agreement,
        until: Timestamp,
    },
    /// The workspace is being brought here.
    Started {
        lease: Lease,
    },
    Running {
        lease: Lease,
    },
    /// The work is done and must reach the host before anybody hears of it.
    Finishing {
        lease: Lease,
        report: Report,
    },
    Ended {
        ending: Ending,
        cleanup: Cleanup,
        telling: Telling,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Lease {
    agreement: Agreement,
    access: Access,
    until: Timestamp,
}

/// Whether the host knows how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Telling {
    /// It is told again and again until then.
    Until(Timestamp),
    Done,
}

/// What can happen to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteInput {
    /// The same INVITE again.
    InvitedAgain,
    /// Policy and machine allow it.
    Admitted(Acceptance),
    Declined(Failure),
    /// START came.
    Start(Grant),
    Mounted,
    MountFailed(Failure),
    TaskDone(Report),
    TaskFailed(Failure),
    /// Everything written has reached the host.
    Flushed,
    FlushFailed(Failure),
    /// The workspace does not answer any more.
    AccessLost {
        reason: String,
    },
    /// ERROR came.
    HostFailed(Failure),
    /// The host cancelled the task, or somebody here did.
    Cancel {
        reason: String,
    },
    /// The host has heard how it ended.
    Told,
    Tick,
    /// The daemon has come up and found this state.
    Recover,
    /// Everything has been given back.
    Released,
}

/// What must be done, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteEffect {
    /// Comes back as `Admitted`, with a mount point of this machine's choice, or `Declined`.
    Check,
    SendAccept(Acceptance),
    /// Bring the workspace to the mount point, which must be empty still. Comes back as `Mounted` or `MountFailed`.
    Mount {
        access: Access,
        until: Timestamp,
        transport: Transport,
    },
    StopMounting,
    /// Begin the task, and say that it runs. Comes back as `TaskDone` or `TaskFailed`.
    BeginTask,
    StopTask,
    /// Bring everything written to the host. Comes back as `Flushed` or `FlushFailed`.
    Flush {
        transport: Transport,
    },
    StopFlushing,
    Unmount,
    RemoveMountPoint,
    /// Comes back as `Told`, or not at all.
    SendDone(Report),
    /// Comes back as `Told`, or not at all.
    SendError(Failure),
    Announce(Ending),
    TickAt(Timestamp),
}

impl Remote {
    /// An invitation that has just come.
    pub fn new(
        id: DelegationId,
        offer: Offer,
        waits: Waits,
        now: Timestamp,
    ) -> (Self, Vec<RemoteEffect>) {
        let until = now + waits.accept;
        let remote = Self {
            id,
            offer,
            waits,
            state: State::Invited { until },
        };
        (
            remote,
            vec![RemoteEffect::Check, RemoteEffect::TickAt(until)],
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
            State::Invited { .. } => Phase::Invited,
            State::Accepted { .. } => Phase::Accepted,
            State::Started { .. } => Phase::Started,
            State::Running { .. } | State::Finishing { .. } => Phase::Running,
            State::Ended { ending, .. } => ending.phase(),
        }
    }

    /// What holds, with the sandbox that was promised.
    pub fn agreement(&self) -> Option<&Agreement> {
        match &self.state {
            State::Accepted { agreement, .. } => Some(agreement),
            State::Started { lease }
            | State::Running { lease }
            | State::Finishing { lease, .. } => Some(&lease.agreement),
            State::Invited { .. } | State::Ended { .. } => None,
        }
    }

    /// What this side may do and until when, from START until the end.
    pub fn lease(&self) -> Option<Grant> {
        match &self.state {
            State::Started { lease }
            | State::Running { lease }
            | State::Finishing { lease, .. } => Some(Grant {
                access: lease.access,
                until: lease.until,
            }),
            State::Invited { .. } | State::Accepted { .. } | State::Ended { .. } => None,
        }
    }

    pub fn ending(&self) -> Option<&Ending> {
        match &self.state {
            State::Ended { ending, .. } => Some(ending),
            State::Invited { .. }
            | State::Accepted { .. }
            | State::Started { .. }
            | State::Running { .. }
            | State::Finishing { .. } => None,
        }
    }

    /// It ended, and something of it is still there.
    pub fn is_cleanup_due(&self) -> bool {
        matches!(&self.state, State::Ended { cleanup, .. } if *cleanup == Cleanup::Due)
    }
}
