//! The office's relay alone: calls from an agent to a computer that answers at once, beside the released server and
//! beside the barest relay of the same library. Both ends are a Socket.IO client of our own, so that the relay is what
//! is measured. Then a tool of a real MCP server, very many calls, and members that do nothing.

mod idle;
mod member;
mod packet;
mod server;
mod soak;
mod tool;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use serde_json::json;

use super::context::Context;
use super::daemon::load;
use super::echo::Echo;
use super::figure::{Figure, Goal};
use super::http::{Node, Reference};
use super::samples::Samples;
use member::{Leash, Member};
use server::Server;

/// The SDK's server.
const REFERENCE: &str = include_str!("office/reference.py");
const REFERENCE_NAME: &str = "a2c-smcp";
/// What the reference takes as a token: it asks for none.
const ANY_TOKEN: &str = "any";
/// One after the other, and a busy agent's worth at once.
const IN_FLIGHT: [usize; 2] = [1, 32];
/// Rounds alternate between the relays, so that a busy moment of the machine hits all.
const ROUNDS: usize = 5;
/// With the warm-up fewer than the node lets one connection send at once, which is 2000.
const CALLS_PER_ROUND: usize = 1000;
const WARM_UP_CALLS: usize = 200;
/// What a right answer contains; the two relays write JSON with and without blanks, but pass on what the computer said.
const CALL_PROOF: &str = r#""done""#;
/// How many times as fast as the released server.
const REFERENCE_GOAL: f64 = 40.0;
/// What the rules, names and limits of an office may cost beside a relay without any.
const BARE_GOAL: f64 = 1.0 / 1.2;
const BARE_NAME: &str = "bare socketioxide relay";
/// The released server in Rust lets nobody in as it comes.
const RUST_LEFT_OUT: &str = "its program refuses every client, and has no option for a token";

/// A relay, and what was measured of it.
struct Relay<'a> {
    address: SocketAddr,
    token: &'a str,
    offices: u32,
    rates: Vec<f64>,
    times: Vec<f64>,
}

/// An agent, and the computer that answers it, in an office of their own.
struct Desk {
    agent: Member,
    agent_name: String,
    computer_name: String,
    _computer: Leash,
}

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Figure>> {
    let binary = context.release_binary()?;
    let mut figures: Vec<Figure> = load().into_iter().collect();
    let node = Node::start(binary)?;
    let mut ours = Relay::new(node.address, node.owner());
    let reference = Reference::start("smcp", "a2c_smcp.testing.server", REFERENCE)?;
    let mut theirs = match &reference {
        Ok(reference) => Some(Relay::new(reference.address(), ANY_TOKEN)),
        Err(why) => {
            figures.push(Figure::left_out(format!("beside {REFERENCE_NAME}"), why));
            None
        }
    };
    figures.push(Figure::left_out(
        "beside the released server in Rust",
        RUST_LEFT_OUT,
    ));
    let bare = match context.release_example("smcp", "bare_relay")? {
        Ok(program) => Some(Server::bare(&program)?),
        Err(why) => {
            figures.push(Figure::left_out(format!("beside a {BARE_NAME}"), why));
            None
        }
    };
    let mut barest = bare
        .as_ref()
        .map(|bare| Relay::new(bare.address, ANY_TOKEN));
    for in_flight in IN_FLIGHT {
        for relay in [Some(&mut ours), theirs.as_mut(), barest.as_mut()] {
            relay.into_iter().for_each(Relay::forget);
        }
        for _ in 0..ROUNDS {
            for (name, relay) in [
                ("the node", Some(&mut ours)),
                (REFERENCE_NAME, theirs.as_mut()),
                (BARE_NAME, barest.as_mut()),
            ] {
                if let Some(relay) = relay {
                    let round = relay.round(in_flight);
                    round.with_context(|| format!("could not call through {name}"))?;
                }
            }
        }
        figures.extend(figures_of(in_flight, &ours, theirs.as_ref())?);
        if let Some(barest) = &barest {
            figures.push(beside_bare(in_flight, &ours, barest)?);
        }
    }
    figures.extend(alone(binary, context.minutes())?);
    Ok(figures)
}

/// What needs more connections, calls or time than a node gives.
fn alone(binary: &Path, minutes: u32) -> anyhow::Result<Vec<Figure>> {
    let allowed = idle::allow_connections();
    let server = Server::ours(binary)?;
    let mut figures = tool::run(binary, &server)?;
    figures.extend(soak::run(&server, minutes)?);
    drop(server);
    match allowed {
        Ok(()) => figures.extend(idle::run(&Server::ours(binary)?)?),
        Err(why) => figures.push(Figure::left_out("idle members", why)),
    }
    Ok(figures)
}

fn beside_bare(in_flight: usize, ours: &Relay<'_>, barest: &Relay<'_>) -> anyhow::Result<Figure> {
    let rate =
        |relay: &Relay<'_>| Samples::new(relay.rates.clone()).map(|samples| samples.median());
    let name = format!("calls, {in_flight} in flight, beside the barest");
    Ok(Figure::new(name, rate(ours)?, "/s")
        .beside(BARE_NAME, rate(barest)?)
        .goal(Goal::RatioAtLeast(BARE_GOAL)))
}

impl<'a> Relay<'a> {
    fn new(address: SocketAddr, token: &'a str) -> Self {
        Self {
            address,
            token,
            offices: 0,
            rates: Vec::new(),
            times: Vec::new(),
        }
    }

    fn forget(&mut self) {
        self.rates.clear();
        self.times.clear();
    }

    /// Measures calls in a new office: the node limits how many events one connection may send.
    fn round(&mut self, in_flight: usize) -> anyhow::Result<()> {
        self.offices += 1;
        let mut desk = Desk::open(self.address, self.token, self.offices)?;
        desk.calls(in_flight, WARM_UP_CALLS)?;
        let start = Instant::now();
        self.times.extend(desk.calls(in_flight, CALLS_PER_ROUND)?);
        let calls = f64::from(u32::try_from(CALLS_PER_ROUND)?);
        self.rates.push(calls / start.elapsed().as_secs_f64());
        Ok(())
    }
}

impl Desk {
    /// The computer answers in a thread until its connection ends.
    fn open(address: SocketAddr, token: &str, number: u32) -> anyhow::Result<Self> {
        let office = format!("office-{number}");
        let (agent_name, computer_name) = (format!("ann-{number}"), format!("pc-{number}"));
        let mut computer = Member::connect(address, token)?;
        let mut agent = Member::connect(address, token)?;
        computer.join("computer", &computer_name, &office)?;
        agent.join("agent", &agent_name, &office)?;
        let leash = computer.leash()?;
        thread::spawn(move || computer.answer_calls());
        Ok(Self {
            agent,
            agent_name,
            computer_name,
            _computer: leash,
        })
    }

    /// So many calls, with as many under way as wanted; gives how many microseconds each took.
    fn calls(&mut self, in_flight: usize, calls: usize) -> anyhow::Result<Vec<f64>> {
        let mut under_way: BTreeMap<u64, Instant> = BTreeMap::new();
        let mut times = Vec::with_capacity(calls);
        let mut sent = 0;
        while times.len() < calls {
            while sent < calls && under_way.len() < in_flight {
                let now = Instant::now();
                under_way.insert(self.call(sent)?, now);
                sent += 1;
            }
            let (id, answer) = self.agent.answer()?;
            let asked = under_way.remove(&id);
            let asked = asked.with_context(|| format!("nobody asked {id}"))?;
            times.push(asked.elapsed().as_secs_f64() * 1e6);
            ensure!(answer.contains(CALL_PROOF), "a call failed: {answer}");
        }
        Ok(times)
    }

    fn call(&mut self, number: usize) -> anyhow::Result<u64> {
        let body = json!({
            "agent": self.agent_name,
            "req_id": format!("r{number}"),
            "computer": self.computer_name,
            "tool_name": "t",
            "params": {},
            "timeout": 20,
        });
        self.agent.ask("client:tool_call", &body)
    }
}

fn figures_of(
    in_flight: usize,
    ours: &Relay<'_>,
    theirs: Option<&Relay<'_>>,
) -> anyhow::Result<Vec<Figure>> {
    let rate =
        |relay: &Relay<'_>| Samples::new(relay.rates.clone()).map(|samples| samples.median());
    let times = Samples::new(ours.times.clone())?;
    let what = format!("calls, {in_flight} in flight");
    let mut figures = Vec::new();
    if in_flight == 1 {
        let name = format!("{what}, median");
        figures.push(Figure::new(name, times.median(), "us").beside("two echoes", two_echoes()?));
    }
    let Some(theirs) = theirs else {
        figures.push(Figure::new(&what, rate(ours)?, "/s"));
        figures.push(Figure::new(format!("{what}, p99"), times.p99(), "us"));
        return Ok(figures);
    };
    let their_times = Samples::new(theirs.times.clone())?;
    figures.push(
        Figure::new(&what, rate(ours)?, "/s")
            .beside(REFERENCE_NAME, rate(theirs)?)
            .goal(Goal::RatioAtLeast(REFERENCE_GOAL)),
    );
    figures.push(
        Figure::new(format!("{what}, p99"), times.p99(), "us")
            .beside(REFERENCE_NAME, their_times.p99()),
    );
    Ok(figures)
}

/// The floor of a call, in microseconds: it goes from the agent to the relay and back, and from there to the computer
/// and back.
fn two_echoes() -> anyhow::Result<f64> {
    let echo = Echo::start(256)?;
    let mut connection = echo.connect()?;
    let line = [b"x".repeat(255), b"\n".to_vec()].concat();
    connection.exchanges(&line, WARM_UP_CALLS)?;
    let times = connection.exchanges(&line, CALLS_PER_ROUND)?;
    Ok(Samples::microseconds(&times)?.median() * 2.0)
}
