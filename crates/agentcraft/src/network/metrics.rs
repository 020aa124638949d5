//! `/metrics`: what the node does, in the text format of Prometheus. Read from what is in memory; nothing is counted twice.

use std::{collections::BTreeMap, fmt::Write as _, time::Instant};

use axum::{Extension, Router, http::header, response::IntoResponse, routing::get};
use engine::{Caller, Engine};
use listener::{Refusal, Traffic};

use crate::connection::VERSION;

/// The right that a token for a scraper needs.
const RIGHT: &str = "metrics";

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn router(engine: Engine, traffic: Traffic) -> Router {
    let started = Instant::now();
    let answer = async move |caller: Option<Extension<Caller>>| {
        if !caller.is_some_and(|Extension(caller)| caller.may(RIGHT)) {
            return Refusal::NoRight {
                right: RIGHT.to_owned(),
            }
            .into_response();
        }
        let text = page(&engine, &traffic, started);
        ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response()
    };
    Router::new().route("/metrics", get(answer))
}

fn page(engine: &Engine, traffic: &Traffic, started: Instant) -> String {
    let mut page = Page::default();
    let (agents, sessions) = (engine.agents(), engine.sessions().list(None));
    page.labelled(
        "build_info",
        "gauge",
        "Which program this is.",
        "version",
        [(VERSION, 1)],
    );
    let uptime = started.elapsed().as_secs();
    page.single(
        "uptime_seconds",
        "gauge",
        "Since the node began to listen.",
        uptime,
    );
    let statuses = tally(agents.iter().map(|agent| agent.status.to_string()));
    page.labelled(
        "agents",
        "gauge",
        "Agents by status.",
        "status",
        ordered(&statuses),
    );
    let states = tally(
        sessions
            .iter()
            .map(|session| session.state.as_str().to_owned()),
    );
    page.labelled(
        "sessions",
        "gauge",
        "Sessions by state.",
        "state",
        ordered(&states),
    );
    let sum = |count: fn(&engine::SessionView) -> u64| sessions.iter().map(count).sum();
    let busy = sum(|session| u64::from(session.busy));
    page.single("turns_running", "gauge", "Turns that run now.", busy);
    let asks = sum(|session| session.asks as u64);
    page.single(
        "asks_waiting",
        "gauge",
        "Questions that wait for an answer.",
        asks,
    );
    let clients = sum(|session| session.clients as u64);
    page.single(
        "clients",
        "gauge",
        "Clients that are attached to a session.",
        clients,
    );
    let lines = *engine.journal_growth().borrow();
    page.single(
        "journal_lines_total",
        "counter",
        "Lines written into the journal.",
        lines,
    );
    let answers = traffic.answered();
    let help = "Answers of the port by kind of status.";
    page.labelled("http_answers_total", "counter", help, "status", answers);
    page.text
}

fn tally(words: impl Iterator<Item = String>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for word in words {
        *counts.entry(word).or_default() += 1;
    }
    counts
}

fn ordered(counts: &BTreeMap<String, u64>) -> impl Iterator<Item = (&str, u64)> {
    counts.iter().map(|(word, count)| (word.as_str(), *count))
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP agentcraft_{name} {help}"); // Writing to a text cannot fail.
        let _ = writeln!(self.text, "# TYPE agentcraft_{name} {kind}"); // As above.
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.head(name, kind, help);
        let _ = writeln!(self.text, "agentcraft_{name} {value}"); // As above.
    }

    fn labelled<'a>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'a str, u64)>,
    ) {
        self.head(name, kind, help);
        for (word, value) in values {
            let _ = writeln!(self.text, "agentcraft_{name}{{{label}=\"{word}\"}} {value}"); // As above.
        }
    }
}
