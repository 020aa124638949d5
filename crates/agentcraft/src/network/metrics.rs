//! `/metrics`: what the node does, for Prometheus. Most is read from what is in memory when it is asked for; what has no end
//! yet is counted in the store.

mod text;

use std::{path::PathBuf, sync::Arc};

use axum::{Extension, Router, http::header, response::IntoResponse, routing::get};
use engine::{AgentView, Caller, SessionView};
use listener::{Refusal, Traffic};
use platform::usage;

use super::census::{Census, Tally, tally};
use crate::connection::VERSION;
use text::Page;

/// The right that a token for a scraper needs.
const RIGHT: &str = "metrics";

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Where the numbers come from.
#[derive(Debug, Clone)]
pub(super) struct Sources {
    pub(super) census: Census,
    pub(super) traffic: Traffic,
    /// The file of state and journal.
    pub(super) store: PathBuf,
}

pub(super) fn router(sources: Sources) -> Router {
    let answer = async move |caller: Option<Extension<Caller>>| {
        if !caller.is_some_and(|Extension(caller)| caller.may(RIGHT)) {
            return Refusal::NoRight {
                right: RIGHT.to_owned(),
            }
            .into_response();
        }
        let text = sources.page().await;
        ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response()
    };
    Router::new().route("/metrics", get(answer))
}

impl Sources {
    async fn page(&self) -> String {
        let mut page = Page::default();
        page.gauge("agentcraft_build_info", "Which program this is.")
            .add(&[("version", VERSION)], 1);
        self.agents(&mut page);
        self.turns(&mut page);
        self.documents(&mut page).await;
        self.others(&mut page).await;
        self.port(&mut page);
        self.store(&mut page);
        process(&mut page);
        page.into_text()
    }

    fn agents(&self, page: &mut Page) {
        let (agents, sessions) = self.live();
        let statuses = tally(agents.iter().map(|agent| agent.status.to_string()));
        by(
            page,
            "agentcraft_agents",
            "Agents by status.",
            "status",
            &statuses,
        );
        let memory = agents.iter().filter_map(|agent| agent.pid);
        let memory = memory
            .filter_map(platform::pid::resident_bytes)
            .sum::<u64>();
        page.gauge(
            "agentcraft_agents_resident_memory_bytes",
            "Memory of the programs of all agents, without what these have started.",
        )
        .add(&[], memory);
        let states = tally(
            sessions
                .iter()
                .map(|session| session.state.as_str().to_owned()),
        );
        by(
            page,
            "agentcraft_sessions",
            "Sessions by state.",
            "state",
            &states,
        );
        let sum = |count: fn(&SessionView) -> u64| sessions.iter().map(count).sum::<u64>();
        for (name, help, value) in [
            (
                "agentcraft_turns_running",
                "Turns that run now.",
                sum(|session| u64::from(session.busy)),
            ),
            (
                "agentcraft_asks_waiting",
                "Questions that wait for an answer.",
                sum(|session| session.asks as u64),
            ),
            (
                "agentcraft_session_clients",
                "Clients that are attached to a session.",
                sum(|session| session.clients as u64),
            ),
        ] {
            page.gauge(name, help).add(&[], value);
        }
    }

    fn live(&self) -> (Vec<Arc<AgentView>>, Vec<SessionView>) {
        let engine = &self.census.engine;
        (engine.agents(), engine.sessions().list(None))
    }

    fn turns(&self, page: &mut Page) {
        let counts = self.census.engine.counts();
        let mut turns = page.counter(
            "agentcraft_turns_total",
            "Turns that ended, by stop reason.",
        );
        for (stop, count) in &counts.turns {
            turns.add(&[("stop", stop)], *count);
        }
        page.histogram(
            "agentcraft_turn_duration_seconds",
            "How long turns took, from the prompt to the stop reason.",
        )
        .durations(&[], &counts.turn_durations);
        page.counter("agentcraft_tool_calls_total", "Tool calls of agents.")
            .add(&[], counts.tool_calls);
        let mut asks = page.counter(
            "agentcraft_asks_total",
            "Settled questions, by who settled them.",
        );
        for (by, count) in &counts.asks {
            asks.add(&[("by", by)], *count);
        }
        let mut tokens = page.counter("agentcraft_tokens_total", "Tokens that agents told of.");
        tokens.add(&[("direction", "input")], counts.input_tokens);
        tokens.add(&[("direction", "output")], counts.output_tokens);
        let help =
            "What was written down about runs, tasks, delegations, peers and requests, by kind.";
        let mut notes = page.counter("agentcraft_notes_total", help);
        for (kind, count) in &counts.notes {
            notes.add(&[("kind", kind)], *count);
        }
    }

    async fn documents(&self, page: &mut Page) {
        let census = &self.census;
        let (runs, tasks, flows) =
            tokio::join!(census.runs(), census.tasks(), census.workflow_runs());
        for (name, help, counts) in [
            ("agentcraft_runs", "Runs that are not over, by state.", runs),
            (
                "agentcraft_a2a_tasks",
                "Tasks of A2A that are not over, by state.",
                tasks,
            ),
            (
                "agentcraft_workflow_runs",
                "Runs of workflows that are not over, by state.",
                flows,
            ),
        ] {
            by(page, name, help, "state", &counts);
        }
    }

    async fn others(&self, page: &mut Page) {
        let help = "Lent workspaces that are remembered, by side and state.";
        let delegations = self.census.delegations().await;
        let mut lent = page.gauge("agentcraft_delegations", help);
        for ((side, state), count) in delegations {
            lent.add(&[("side", side), ("state", state)], count);
        }
        let (offices, members) = self.census.offices();
        page.gauge("agentcraft_offices", "Offices with somebody in them.")
            .add(&[], offices);
        let help = "Who is in an office, by role.";
        by(page, "agentcraft_office_members", help, "role", &members);
        let help = "Other nodes that are known, by status.";
        by(
            page,
            "agentcraft_peers",
            help,
            "status",
            &self.census.peers(),
        );
    }

    fn port(&self, page: &mut Page) {
        let answered = self.traffic.answered();
        let help = "Answered requests, by the face that answered and the status.";
        let mut requests = page.counter("agentcraft_http_requests_total", help);
        for ((face, status), count) in &answered.requests {
            requests.add(&[("face", face), ("code", &status.to_string())], *count);
        }
        let help = "How long requests took until their answer began, by face.";
        let mut took = page.histogram("agentcraft_http_request_duration_seconds", help);
        for (face, durations) in &answered.durations {
            took.durations(&[("face", face)], durations);
        }
        let help = "Requests that were turned away before a face did anything, by reason.";
        let mut refusals = page.counter("agentcraft_http_refusals_total", help);
        for (reason, count) in &answered.refusals {
            refusals.add(&[("reason", reason)], *count);
        }
    }

    fn store(&self, page: &mut Page) {
        let lines = *self.census.engine.journal_growth().borrow();
        page.counter(
            "agentcraft_journal_lines_total",
            "Lines written into the journal.",
        )
        .add(&[], lines);
        let help =
            "Size of the file with state and journal, and of what waits to be merged into it.";
        page.gauge("agentcraft_store_size_bytes", help)
            .add(&[], store::size(&self.store));
    }
}

fn by(page: &mut Page, name: &'static str, help: &str, label: &'static str, counts: &Tally) {
    let mut family = page.gauge(name, help);
    for (word, count) in counts {
        family.add(&[(label, word)], *count);
    }
}

/// What every program tells by the names that Prometheus' own libraries use.
fn process(page: &mut Page) {
    let Some(usage) = usage::own() else {
        return;
    };
    page.counter("process_cpu_seconds_total", "Processor time of the daemon.")
        .add_real(&[], usage.cpu_seconds);
    if let Some(started) = usage.started {
        let help = "When the daemon began, since the Unix epoch.";
        page.gauge("process_start_time_seconds", help)
            .add_real(&[], started);
    }
    for (name, help, value) in [
        (
            "process_resident_memory_bytes",
            "Memory of the daemon that is in RAM.",
            usage.resident_bytes,
        ),
        (
            "process_virtual_memory_bytes",
            "Addresses that the daemon has taken.",
            Some(usage.virtual_bytes),
        ),
        (
            "process_open_fds",
            "Files and sockets that are open.",
            usage.open_files,
        ),
        (
            "process_max_fds",
            "How many may be open.",
            usage.open_files_max,
        ),
        (
            "process_threads",
            "Threads of the daemon.",
            Some(usage.threads),
        ),
    ] {
        if let Some(value) = value {
            page.gauge(name, help).add(&[], value);
        }
    }
}
