//! `SendMessage` of A2A: an agent's one word through a node, beside a bare responder and beside the Python SDK's server; then
//! an echo by the face alone.

mod echo;

use serde_json::json;

use super::context::Context;
use super::daemon::{load, resident_kib};
use super::figure::Figure;
use super::http::{
    CONNECTIONS, Effort, Http, Load, Node, Reference, Responder, Target, one_word, post,
};
use super::turn::TALKER;

/// The SDK's server with an agent that echoes.
const REFERENCE: &str = include_str!("a2a/reference.py");
const REFERENCE_NAME: &str = "a2a-sdk";
/// Where it answers.
const REFERENCE_PATH: &str = "/agent";
/// What a right answer contains.
const PROOF: &[u8] = b"TASK_STATE_COMPLETED";
const VERSION: &str = "A2A-Version: 1.0\r\n";
/// The program that is the face with an agent in its own process.
const FACE_PACKAGE: &str = "a2a";
const FACE_EXAMPLE: &str = "tck_server";
const KIB_PER_MIB: f64 = 1024.0;
/// Each message is a conversation of its own, here and at the reference, which is slow: with this much the whole bench is done
/// within a minute, and the ratios are those of a longer one.
const EFFORT: Effort = Effort {
    rounds: 3,
    requests: 128,
};

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Figure>> {
    let binary = context.release_binary()?;
    let mut figures: Vec<Figure> = load().into_iter().collect();
    let mut node = Node::start(binary)?;
    let path = format!("/a2a/1.0/{TALKER}");
    let body = body();
    let request = node.request(&path, VERSION, &body)?;
    let length = Http::connect(node.address)?.exchange(&request)?.len();
    let responder = Responder::start(length)?;
    let reference = Reference::start("a2a", "a2a.server.routes", REFERENCE)?;
    if let Err(why) = &reference {
        figures.push(Figure::left_out(format!("beside {REFERENCE_NAME}"), why));
    }
    let bare = post(REFERENCE_PATH, VERSION, &body);
    let mut theirs = Vec::new();
    for connections in CONNECTIONS {
        let mut targets = vec![
            Target {
                address: node.address,
                request: Box::new(|| node.request(&path, VERSION, &body)),
                proof: PROOF,
            },
            Target {
                address: responder.address(),
                request: Box::new(|| Ok(bare.clone())),
                proof: b"",
            },
        ];
        targets.extend(reference.as_ref().ok().map(|reference| Target {
            address: reference.address(),
            request: Box::new(|| Ok(bare.clone())),
            proof: PROOF,
        }));
        let loads = Load::by(EFFORT, &mut targets, connections)?;
        drop(targets);
        figures.extend(Load::figures(
            "messages",
            connections,
            &loads,
            REFERENCE_NAME,
        ));
        theirs.push((connections, loads.into_iter().nth(2)));
    }
    if let Ok(reference) = &reference {
        let ours = node.stage.daemon.resident_kib()? / KIB_PER_MIB;
        let other = resident_kib(reference.pid())? / KIB_PER_MIB;
        figures
            .push(Figure::new("memory of the daemon", ours, "MiB").beside(REFERENCE_NAME, other));
    }
    drop(node);
    figures.extend(face(context, reference.as_ref().ok(), &theirs)?);
    Ok(figures)
}

/// The face without a node around it.
fn face(
    context: &Context,
    reference: Option<&Reference>,
    theirs: &[(usize, Option<Load>)],
) -> anyhow::Result<Vec<Figure>> {
    let program = match context.release_example(FACE_PACKAGE, FACE_EXAMPLE)? {
        Ok(program) => program,
        Err(why) => return Ok(vec![Figure::left_out("echo in the face's process", why)]),
    };
    let server = echo::Server::start(&program)?;
    let mut figures = Vec::new();
    for (connections, theirs) in theirs {
        figures.extend(server.loads(*connections, theirs.as_ref())?);
    }
    figures.extend(server.streams(reference)?);
    figures.push(server.idle()?);
    Ok(figures)
}

/// Without a context, so that every message begins a conversation of its own.
fn body() -> String {
    let message = json!({
        "messageId": "bench",
        "role": "ROLE_USER",
        "parts": [{"text": one_word()}],
    });
    let params = json!({"message": message});
    json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}).to_string()
}
