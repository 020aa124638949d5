//! Ten thousand runs that await an answer at once: what each of them holds of the daemon's memory.

use anyhow::ensure;
use serde_json::{Value, json};

use crate::bench::figure::{Figure, Goal};
use crate::bench::http::{Http, Load, Node, Target, post};
use crate::bench::samples::Samples;
use crate::bench::turn::BUILTIN;

/// So many wait at least.
const RUNS_MIN: usize = 10_000;
/// A small team asks for them.
const CONNECTIONS: usize = 8;
/// What one may hold.
const KIB_MAX: f64 = 4.0;
const PROOF: &[u8] = br#""status":"awaiting""#;

pub(super) fn awaiting(node: &mut Node) -> anyhow::Result<Vec<Figure>> {
    node.stage.start_agent(BUILTIN, BUILTIN)?;
    let part = json!({"content_type": "text/plain", "content": "/ask which of them?"});
    let input = json!([{"role": "user", "parts": [part]}]);
    let body = json!({"agent_name": BUILTIN, "input": input, "mode": "sync"}).to_string();
    // The first ones hold their turns, which the others do not; what these take is no matter of how many there are.
    begin(node, &body)?;
    let before = node.stage.daemon.resident_kib()?;
    let (mut runs, mut rates) = (0, Vec::new());
    while runs < RUNS_MIN {
        let round = begin(node, &body)?;
        runs += round.len() * Load::RUNS_PER_ROUND;
        rates.extend(round);
    }
    let after = node.stage.daemon.resident_kib()?;
    // They are still there, and still answered.
    let answer =
        json!({"await_resume": {"type": "message", "message": {"parts": [{"content": "all"}]}}});
    let request = node.request("/runs", "", &body)?;
    let mut http = Http::connect(node.address)?;
    let run: Value = serde_json::from_slice(http.exchange(&request)?)?;
    let path = format!("/runs/{}", run["run_id"].as_str().unwrap_or_default());
    let headers = format!("Authorization: Bearer {}\r\n", node.owner());
    let request = post(&path, &headers, &answer.to_string());
    let done = String::from_utf8_lossy(http.exchange(&request)?).into_owned();
    ensure!(
        done.contains(r#""status":"completed""#),
        "it was not answered: {done}"
    );
    let each = (after - before).max(0.0) / f64::from(u32::try_from(runs)?);
    let rate = Samples::new(rates)?.median();
    Ok(vec![
        Figure::new(format!("each of {runs} runs that await"), each, "KiB")
            .goal(Goal::AtMost(KIB_MAX)),
        Figure::new("runs that come to await", rate, "/s"),
    ])
}

fn begin(node: &mut Node, body: &str) -> anyhow::Result<Vec<f64>> {
    let target = Target {
        address: node.address,
        request: Box::new(|| node.request("/runs", "", body)),
        proof: PROOF,
    };
    Load::rounds(target, CONNECTIONS)
}
