//! The runs API: an agent's one word over HTTP, beside a bare responder and beside the reference server.

mod awaiting;
mod soak;

use std::time::Duration;

use serde_json::json;

use super::context::Context;
use super::daemon::{load, resident_kib};
use super::figure::{Figure, Goal};
use super::http::{Face, Http, Load, Node, Other, Reference, Responder, Target, one_word, post};
use super::samples::Samples;
use super::turn::TALKER;

/// The reference server of the protocol, with an agent that echoes.
const REFERENCE: &str = include_str!("runs/reference.py");
const REFERENCE_NAME: &str = "acp-sdk";
/// What a right answer contains.
const PROOF: &[u8] = br#""status":"completed""#;
/// The program that is the face with an agent in its own process, and how many times the reference's rate it should reach.
const FACE_PACKAGE: &str = "runs";
const FACE_EXAMPLE: &str = "echo_server";
const REFERENCE_GOAL: f64 = 100.0;
/// A lone client, a small team, a busy machine's worth, and far more than it has cores.
const CONNECTIONS: [usize; 4] = [1, 8, 32, 128];
/// Streams that are timed one after the other.
const STREAMS: usize = 100;
const KIB_PER_MIB: f64 = 1024.0;

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Figure>> {
    let binary = context.release_binary()?;
    let mut figures: Vec<Figure> = load().into_iter().collect();
    let mut node = Node::start(binary)?;
    let idle = node.stage.daemon.resident_kib()? / KIB_PER_MIB;
    let body = body("sync");
    let request = node.request("/runs", "", &body)?;
    let length = Http::connect(node.address)?.exchange(&request)?.len();
    let responder = Responder::start(length)?;
    let mut reference = Reference::start("acp_rest", "acp_sdk.server", REFERENCE)?;
    if let Err(why) = &reference {
        figures.push(Figure::left_out(format!("beside {REFERENCE_NAME}"), why));
    }
    let mut theirs = Vec::new();
    for connections in CONNECTIONS {
        if connections > 1 && reference.is_ok() {
            // It slows down with every run it has served; a fresh one is the stronger peer.
            reference = Reference::start("acp_rest", "acp_sdk.server", REFERENCE)?;
        }
        let peer = reference.as_ref().ok();
        let (told, peers) = loads(&mut node, &responder, peer, &body, connections)?;
        figures.extend(told);
        theirs.push((connections, peers));
    }
    figures.extend(streams(&mut node, &responder, reference.as_ref().ok())?);
    figures.extend(face(context, reference.as_ref().ok(), &theirs)?);
    let length = Duration::from_secs(60) * context.minutes();
    figures.extend(soak::soak(&mut node, length, &body, PROOF)?);
    let after = node.stage.daemon.resident_kib()? / KIB_PER_MIB;
    figures.push(Figure::new("memory of the daemon after it", after, "MiB").beside("idle", idle));
    figures.extend(awaiting::awaiting(&mut node)?);
    if let Ok(reference) = &reference {
        let theirs = resident_kib(reference.pid())? / KIB_PER_MIB;
        figures
            .push(Figure::new("memory of the daemon", after, "MiB").beside(REFERENCE_NAME, theirs));
    }
    Ok(figures)
}

fn body(mode: &str) -> String {
    let part = json!({"content_type": "text/plain", "content": one_word()});
    let input = json!([{"role": "user", "parts": [part]}]);
    json!({"agent_name": TALKER, "input": input, "mode": mode}).to_string()
}

fn loads(
    node: &mut Node,
    responder: &Responder,
    reference: Option<&Reference>,
    body: &str,
    connections: usize,
) -> anyhow::Result<(Vec<Figure>, Option<Load>)> {
    let bare = post("/runs", "", body);
    let mut targets = vec![
        Target {
            address: node.address,
            request: Box::new(|| node.request("/runs", "", body)),
            proof: PROOF,
        },
        Target {
            address: responder.address(),
            request: Box::new(|| Ok(bare.clone())),
            proof: b"",
        },
    ];
    targets.extend(reference.map(|reference| Target {
        address: reference.address(),
        request: Box::new(|| Ok(bare.clone())),
        proof: PROOF,
    }));
    let loads = Load::of(&mut targets, connections)?;
    let figures = Load::figures("runs", connections, &loads, REFERENCE_NAME);
    Ok((figures, loads.into_iter().nth(2)))
}

/// The face without a node around it, with an agent that says everything back in the same process: the reference's does so
/// in its own.
fn face(
    context: &Context,
    reference: Option<&Reference>,
    theirs: &[(usize, Option<Load>)],
) -> anyhow::Result<Vec<Figure>> {
    let program = match context.release_example(FACE_PACKAGE, FACE_EXAMPLE)? {
        Ok(program) => program,
        Err(why) => return Ok(vec![Figure::left_out("echo in the face's process", why)]),
    };
    let other = Other {
        name: REFERENCE_NAME,
        goal: REFERENCE_GOAL,
    };
    let server = Face::start(&program, ("/runs", ""), PROOF, other)?;
    let mut figures = Vec::new();
    for (connections, theirs) in theirs {
        figures.extend(server.loads(&body("sync"), *connections, theirs.as_ref())?);
    }
    let body = body("stream");
    let request = post("/runs", "", &body);
    let reference = reference.map(|reference| (reference, request.as_slice()));
    figures.extend(server.streams(&body, reference)?);
    Ok(figures)
}

/// From the request to the first event of its stream, and to the last.
fn streams(
    node: &mut Node,
    responder: &Responder,
    reference: Option<&Reference>,
) -> anyhow::Result<Vec<Figure>> {
    let body = body("stream");
    let (bare, ours) = (post("/runs", "", &body), node.request("/runs", "", &body)?);
    let mut http = Http::connect(node.address)?;
    let mut floor = Http::connect(responder.address())?;
    let mut peer = reference
        .map(|peer| Http::connect(peer.address()))
        .transpose()?;
    let (mut firsts, mut wholes, mut floors) = (Vec::new(), Vec::new(), Vec::new());
    let (mut their_firsts, mut their_wholes) = (Vec::new(), Vec::new());
    for _ in 0..STREAMS {
        let (first, whole) = http.stream(&ours)?;
        firsts.push(first);
        wholes.push(whole);
        let start = std::time::Instant::now();
        floor.exchange(&bare)?;
        floors.push(start.elapsed());
        if let Some(peer) = &mut peer {
            let (first, whole) = peer.stream(&bare)?;
            their_firsts.push(first);
            their_wholes.push(whole);
        }
    }
    let median = |times: &[_]| Samples::microseconds(times).map(|samples| samples.median());
    let mut figures = vec![
        Figure::new("first event of a stream", median(&firsts)?, "us")
            .beside("bare responder", median(&floors)?),
        Figure::new("whole stream", median(&wholes)?, "us")
            .beside("bare responder", median(&floors)?),
    ];
    if peer.is_some() {
        let goal = Goal::RatioAtMost(1.0);
        figures.push(
            Figure::new("first event of a stream", median(&firsts)?, "us")
                .beside(REFERENCE_NAME, median(&their_firsts)?)
                .goal(goal),
        );
        figures.push(
            Figure::new("whole stream", median(&wholes)?, "us")
                .beside(REFERENCE_NAME, median(&their_wholes)?)
                .goal(goal),
        );
    }
    Ok(figures)
}
