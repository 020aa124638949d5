//! The office's relay alone: calls from an agent to a computer that answers at once, beside the released server.
//! Both ends are a Socket.IO client of our own, so that the relay is what is measured.

mod member;
mod packet;

use std::collections::BTreeMap;
use std::net::SocketAddr;
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
/// At least as fast as the released server.
const REFERENCE_GOAL: f64 = 1.0;

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
    for in_flight in IN_FLIGHT {
        ours.forget();
        theirs.iter_mut().for_each(Relay::forget);
        for _ in 0..ROUNDS {
            ours.round(in_flight)
                .context("could not call through the node")?;
            if let Some(theirs) = &mut theirs {
                theirs
                    .round(in_flight)
                    .with_context(|| format!("could not call through {REFERENCE_NAME}"))?;
            }
        }
        figures.extend(figures_of(in_flight, &ours, theirs.as_ref())?);
    }
    Ok(figures)
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
