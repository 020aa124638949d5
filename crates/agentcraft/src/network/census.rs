//! What the parts of the node have under way, for whoever shows the whole: the page's overview and the metrics.

use std::collections::{BTreeMap, BTreeSet};

use awcp::{Delegations, Side, SnapshotStatus};
use dashboard::{Around, Lent, Surroundings};
use engine::{Engine, Records, Which};
use lan::Lan;
use serde_json::Value;
use smcp::server::OfficeServer;

/// Documents of a kind that are counted: those that are over are not among them.
const COUNTED_MAX: u32 = 10_000;

/// A number for each word.
pub(super) type Tally = BTreeMap<String, u64>;

/// Where the parts are asked. Clones ask the same ones.
#[derive(Debug, Clone)]
pub(super) struct Census {
    pub(super) engine: Engine,
    pub(super) workflow_runs: Records,
    pub(super) lan: Lan,
    pub(super) delegations: Delegations,
    pub(super) offices: OfficeServer,
}

impl Census {
    /// Runs that are not over, by their state.
    pub(super) async fn runs(&self) -> Tally {
        states(&self.engine.records(), "run").await
    }

    /// Tasks of A2A that are not over, by their state.
    pub(super) async fn tasks(&self) -> Tally {
        states(&self.engine.records(), "a2a-task").await
    }

    /// Runs of workflows that are not over, by their state.
    pub(super) async fn workflow_runs(&self) -> Tally {
        states(&self.workflow_runs, "workflow-run").await
    }

    /// Delegations that are remembered, by side and state.
    pub(super) async fn delegations(&self) -> BTreeMap<(&'static str, &'static str), u64> {
        let mut counts = BTreeMap::new();
        for view in self.delegations.list().await.unwrap_or_default() {
            let side = match view.side {
                Side::Host => "host",
                Side::Remote => "remote",
            };
            *counts.entry((side, view.state.as_str())).or_default() += 1;
        }
        counts
    }

    /// Other nodes, by whether they answer.
    pub(super) fn peers(&self) -> Tally {
        let peers = self.lan.peers().list();
        tally(peers.iter().map(|peer| peer.status.as_str().to_owned()))
    }

    /// How many offices have somebody in them, and how many of each role there are.
    pub(super) fn offices(&self) -> (u64, Tally) {
        let seats = self.offices.seats();
        let offices: BTreeSet<&str> = seats.iter().map(|seat| seat.office.as_str()).collect();
        let offices = offices.len() as u64;
        (
            offices,
            tally(seats.iter().map(|seat| seat.role.to_owned())),
        )
    }

    /// The same for the page, with what a person may have to look at.
    pub(super) fn around(&self) -> Around {
        let census = self.clone();
        Around::new(move || {
            let census = census.clone();
            async move { census.look().await }
        })
    }

    async fn look(&self) -> Surroundings {
        let (offices, members) = self.offices();
        let member = |role: &str| members.get(role).copied().unwrap_or(0);
        let delegations = self.delegations.list().await.unwrap_or_default();
        let lent = delegations.into_iter().map(|view| Lent {
            state: view.state.as_str(),
            is_ours: view.side == Side::Host,
            waits: view
                .snapshot
                .is_some_and(|kept| kept.status == SnapshotStatus::Pending),
            id: view.id,
            task: view.task,
            expires_at: view.expires_at,
        });
        Surroundings {
            peers: self.peers(),
            pairing: self
                .lan
                .pairing()
                .waiting()
                .into_iter()
                .map(|request| request.name)
                .collect(),
            offices,
            computers: member("computer"),
            office_agents: member("agent"),
            delegations: lent.collect(),
        }
    }
}

async fn states(records: &Records, kind: &str) -> Tally {
    let live = records.list::<Value>(kind, Which::Live, None, COUNTED_MAX);
    // What cannot be read now is counted the next time.
    let live = live.await.unwrap_or_default();
    let live = live.iter();
    tally(live.filter_map(|stored| dashboard::state_of(kind, &stored.value)))
}

pub(super) fn tally(words: impl Iterator<Item = String>) -> Tally {
    let mut counts = Tally::new();
    for word in words {
        *counts.entry(word).or_default() += 1;
    }
    counts
}
