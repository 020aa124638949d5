//! The node at a glance: how much there is of everything, what goes on, and what waits for a person.

use std::{collections::BTreeMap, fmt, sync::Arc};

use axum::{Extension, extract::State};
use engine::{Caller, Records, Which};
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    answer::{Answer, json_of},
    records,
    router::Config,
};

/// Things of a kind that are shown by themselves; of more the number is told.
const SHOWN: usize = 20;

/// Documents of a kind that are counted; all of them are not over.
const COUNTED: u32 = 1_000;

/// States of runs, tasks and workflows in which somebody has to answer.
const WAITING: [&str; 4] = ["awaiting", "waiting", "input-required", "auth-required"];

/// States of delegations that are over.
const ENDED: [&str; 4] = ["completed", "error", "cancelled", "expired"];

/// What the other parts of the node have.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Other nodes by status.
    pub peers: BTreeMap<String, u64>,
    /// Names of nodes that ask to be paired.
    pub pairing: Vec<String>,
    pub offices: u64,
    pub computers: u64,
    pub office_agents: u64,
    pub delegations: Vec<Lent>,
}

/// A workspace that is lent or taken.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lent {
    pub id: String,
    pub task: String,
    pub state: &'static str,
    pub is_ours: bool,
    /// Its changes came home, and somebody has to take or leave them.
    pub waits: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

type Look = dyn Fn() -> BoxFuture<'static, Surroundings> + Send + Sync;

/// Where the other parts are asked.
#[derive(Clone)]
pub struct Around(Arc<Look>);

impl Around {
    pub fn new<Looking>(look: impl Fn() -> Looking + Send + Sync + 'static) -> Self
    where
        Looking: Future<Output = Surroundings> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(look())))
    }
}

impl fmt::Debug for Around {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Around")
    }
}

/// Documents of a kind that are not over.
#[derive(Debug, Default, Serialize)]
struct Open {
    count: usize,
    waiting: usize,
    shown: Vec<Value>,
}

pub(crate) async fn look(
    State(config): State<Arc<Config>>,
    Extension(caller): Extension<Caller>,
) -> Answer {
    let records = config.engine.records();
    let (around, runs, tasks, flows) = tokio::join!(
        (config.around.0)(),
        open(&config, &records, "run"),
        open(&config, &records, "a2a-task"),
        open(&config, &config.runs, "workflow-run"),
    );
    let mut shown = json!({
        "runs": runs,
        "tasks": tasks,
        "workflows": flows,
        "offices": { "count": around.offices, "computers": around.computers, "agents": around.office_agents },
    });
    // Whoever sees the page alone is told nothing that has a right of its own.
    if caller.may("peers") {
        shown["peers"] = json!({ "byStatus": around.peers, "pairing": around.pairing });
    }
    if caller.may("delegations") {
        let (open, waiting): (Vec<Lent>, Vec<Lent>) = around
            .delegations
            .into_iter()
            .filter(|lent| lent.waits || !ENDED.contains(&lent.state))
            .partition(|lent| !lent.waits);
        shown["delegations"] = json!({
            "count": open.len(),
            "shown": open.iter().take(SHOWN).collect::<Vec<_>>(),
            "waiting": waiting.iter().take(SHOWN).collect::<Vec<_>>(),
        });
    }
    json_of(&shown)
}

async fn open(config: &Config, records: &Records, kind: &str) -> Open {
    let live = records.list::<Value>(kind, Which::Live, None, COUNTED);
    // What cannot be read now is told with the next look.
    let live = live.await.unwrap_or_default();
    let shown: Vec<Value> = live
        .into_iter()
        .filter_map(|row| records::view(config, kind, row))
        .collect();
    let waits = |view: &&Value| {
        let state = view["record"]["state"].as_str().unwrap_or_default();
        WAITING.contains(&records::plain(state).as_str())
    };
    Open {
        count: shown.len(),
        waiting: shown.iter().filter(waits).count(),
        shown: shown.into_iter().take(SHOWN).collect(),
    }
}
