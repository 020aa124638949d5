//! What belongs to whom: answers to their agents, places to valid tokens, a failure to the call that caused it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use domain::office::Role::{Agent as AnAgent, Computer as AComputer};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wire::smcp::Profile::{self, Seed, Shipped};

use super::{
    raw::Raw,
    support::{FakeTools, Office, SOON, computer_config, params, until_seated},
};
use crate::{
    LinkError,
    agent::{Agent, Call},
    computer::Computer,
    server::OfficeConfig,
};

const BOTH: [Profile; 2] = [Seed, Shipped];

async fn computer(office: &Office, profile: Profile, tools: &Arc<FakeTools>) -> Computer {
    let config = computer_config(office.link(profile, "pc", "o"));
    let computer = Computer::start(config, tools.clone(), &office.tasks);
    computer.joined().await.unwrap();
    computer
}

fn echo(request: &str, said: &str) -> Value {
    json!({
        "agent": "ann", "req_id": request, "computer": "pc", "tool_name": "one__say",
        "params": {"k": said}, "timeout": 10
    })
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn an_agent_never_gets_another_agents_answer() {
    for profile in BOTH {
        let office = Office::start().await;
        let tools = FakeTools::new();
        let _computer = computer(&office, profile, &tools).await;
        let ann = office.member(profile, AnAgent, "ann", "o").await;
        let own = ann.ask("client:tool_call", echo("1", "of ann")).await;
        assert_eq!(text(&own), r#"{"k":"of ann"}"#);
        drop(ann);
        until_seated(&office, 1).await;
        // The same id, for another call and for the very same one.
        let bob = office.member(profile, AnAgent, "bob", "o").await;
        let other = bob.ask("client:tool_call", echo("1", "of bob")).await;
        assert_eq!(text(&other), r#"{"k":"of bob"}"#);
        drop(bob);
        until_seated(&office, 1).await;
        let mut eve = office.raw(profile, "t-eve").await;
        let joined = eve.join("agent", "ann", "o").await;
        assert_eq!(joined[0], true, "she calls herself as ann did");
        eve.ask("client:tool_call", echo("1", "of ann")).await;
        assert_eq!(tools.calls(), 3, "each of them is a call of its own");
        office.stop().await;
    }
}

#[tokio::test]
async fn an_id_that_begins_anew_after_a_restart_is_a_new_call() {
    let tools = FakeTools::new();
    let first = Office::start().await;
    let address = first.address.to_string();
    let members = platform::Tasks::new();
    let config = computer_config(first.link(Shipped, "pc", "o"));
    let computer = Computer::start(config, tools.clone(), &members);
    computer.joined().await.unwrap();
    let ann = first.member(Shipped, AnAgent, "ann", "o").await;
    let said = ann.ask("client:tool_call", echo("1", "before")).await;
    assert_eq!(text(&said), r#"{"k":"before"}"#);
    drop(ann);
    first.stop().await;
    let second = Office::with(OfficeConfig::default(), &address).await;
    until_seated(&second, 1).await;
    let ann = second.member(Shipped, AnAgent, "ann", "o").await;
    let said = ann.ask("client:tool_call", echo("1", "after")).await;
    assert_eq!(text(&said), r#"{"k":"after"}"#);
    // The same call under the same id is a repetition, also across the restart.
    let again = ann.ask("client:tool_call", echo("1", "after")).await;
    assert_eq!((said, tools.calls()), (again, 2));
    assert_eq!(members.drain(SOON).await, platform::Drained::Clean);
    second.stop().await;
}

#[tokio::test]
async fn a_token_that_ends_opens_nothing_from_the_next_event_on() {
    for profile in BOTH {
        let is_valid = Arc::new(AtomicBool::new(true));
        // Nothing is swept meanwhile: the event itself is refused.
        let config = OfficeConfig {
            sweep_every: Duration::from_secs(3600),
            ..OfficeConfig::default()
        };
        let office = Office::revocable(config, &is_valid).await;
        let tools = FakeTools::new();
        let lasting = computer_config(office.link(profile, "lasting", "o"));
        let lasting = Computer::start(lasting, tools.clone(), &office.tasks);
        lasting.joined().await.unwrap();
        let ann = office.member(profile, AnAgent, "ann", "o").await;
        let idle = office.raw(profile, "t-idle").await;
        is_valid.store(false, Ordering::SeqCst);
        let mut call = echo("1", "x");
        call["computer"] = json!("lasting");
        let refused = ann.ask("client:tool_call", call).await;
        assert!(
            refused.to_string().contains("not valid any more"),
            "{refused}"
        );
        assert_eq!(tools.calls(), 0);
        ann.closed().await;
        let body = json!({"role": "agent", "name": "idle", "office_id": "o"});
        let refused = idle.ask_args(&json!(["server:join_office", body])).await;
        assert!(json!(refused).to_string().contains("not valid any more"));
        assert_eq!(office.server.seats().len(), 1);
        assert!(
            office
                .refused()
                .iter()
                .any(|refused| refused.event == "client:tool_call")
        );
        office.stop().await;
    }
}

#[tokio::test]
async fn a_computer_whose_token_ends_gets_no_call() {
    let is_valid = Arc::new(AtomicBool::new(true));
    let config = OfficeConfig {
        sweep_every: Duration::from_secs(3600),
        ..OfficeConfig::default()
    };
    let office = Office::revocable(config, &is_valid).await;
    let tools = FakeTools::new();
    let _computer = computer(&office, Shipped, &tools).await;
    let agent = office.member(Shipped, AnAgent, "lasting", "o").await;
    is_valid.store(false, Ordering::SeqCst);
    let answer = agent.ask("client:tool_call", echo("1", "x")).await;
    assert_eq!((&answer["code"], tools.calls()), (&json!(404), 0));
    office.stop().await;
}

#[tokio::test]
async fn connections_of_a_token_that_ends_are_closed() {
    let is_valid = Arc::new(AtomicBool::new(true));
    let config = OfficeConfig {
        sweep_every: Duration::from_millis(20),
        ..OfficeConfig::default()
    };
    let office = Office::revocable(config, &is_valid).await;
    let computer = office.member(Shipped, AComputer, "pc", "o").await;
    let idle = office.raw(Seed, "t-idle").await;
    let lasting = office.member(Seed, AnAgent, "lasting", "o").await;
    is_valid.store(false, Ordering::SeqCst);
    computer.closed().await;
    idle.closed().await;
    until_seated(&office, 1).await;
    let room = json!({"office_id": "o", "req_id": "r"});
    let room = lasting.ask("server:list_room", room).await;
    assert_eq!(room["sessions"].as_array().unwrap().len(), 1);
    office.stop().await;
}

#[tokio::test]
async fn a_result_or_a_request_that_is_too_large_fails_alone() {
    for profile in BOTH {
        let office = Office::start().await;
        let tools = FakeTools::new();
        let _computer = computer(&office, profile, &tools).await;
        let (agent, _news) = Agent::start(office.link(profile, "ann", "o"), &office.tasks);
        agent.joined().await.unwrap();
        let cancel = CancellationToken::new();
        // Megabytes take a while on a busy machine.
        let long = 12 * SOON;
        let hanging = Call::new("pc", "one__hang", params(json!({})), long);
        let call = |said: Value| Call::new("pc", "one__say", params(said), long);
        let (hung, ()) = tokio::join!(agent.call(&hanging, &cancel), async {
            tools.begun.notified().await;
            let never = CancellationToken::new();
            let large = agent.call(&call(json!({"megabytes": 12})), &never).await;
            let large = large.unwrap();
            assert!(
                large.is_error && text(&json!(large)).contains("too large"),
                "{large:?}"
            );
            let fits = agent.call(&call(json!({"megabytes": 3})), &never).await;
            assert_eq!(fits.unwrap().content.len(), 4);
            let sent = agent
                .call(&call(json!({"k": "x".repeat(9 << 20)})), &never)
                .await;
            let error = sent.unwrap_err();
            assert!(
                matches!(&error, LinkError::Refused(body) if body.code == 400),
                "{error}"
            );
            assert!(
                error.to_string().contains("request is too large"),
                "{error}"
            );
            cancel.cancel();
        });
        assert_eq!(
            hung.unwrap().meta.unwrap()["a2c_cancelled"],
            true,
            "it was not disturbed"
        );
        office.stop().await;
    }
}

#[tokio::test]
async fn a_burst_waits_for_its_turn_at_the_computer() {
    let office = Office::start().await;
    let tools = FakeTools::new();
    let _computer = computer(&office, Shipped, &tools).await;
    let (agent, _news) = Agent::start(office.link(Shipped, "ann", "o"), &office.tasks);
    agent.joined().await.unwrap();
    let cancel = CancellationToken::new();
    // As many as the computer works on at once hang, and the others come behind them.
    let hanging: Vec<Call> = (0..256)
        .map(|_| Call::new("pc", "one__hang", params(json!({})), 12 * SOON))
        .collect();
    let hung = futures_util::future::join_all(hanging.iter().map(|call| agent.call(call, &cancel)));
    let echoes: Vec<Call> = (0..200)
        .map(|n| Call::new("pc", "one__say", params(json!({"n": n})), 12 * SOON))
        .collect();
    let never = CancellationToken::new();
    let behind = async {
        while tools.calls() < 256 {
            tools.begun.notified().await;
        }
        let said = echoes.iter().map(|call| agent.call(call, &never));
        let (said, ()) = tokio::join!(futures_util::future::join_all(said), async {
            cancel.cancel();
        });
        said
    };
    let (hung, said) = tokio::join!(hung, behind);
    assert!(hung.into_iter().all(|result| result.unwrap().is_error));
    for result in said {
        let result = result.unwrap();
        assert!(!result.is_error, "{result:?}");
    }
    office.stop().await;
}

#[tokio::test]
async fn a_client_that_ignores_notices_keeps_its_place_while_it_lives() {
    let config = OfficeConfig {
        probe_timeout: Duration::from_millis(50),
        ..OfficeConfig::default()
    };
    let office = Office::with(config, "127.0.0.1:0").await;
    for role in ["agent", "computer"] {
        let auth = json!({ "token": "t-ann" });
        let living = Raw::connect_as("node-XMLHttpRequest", office.address, Shipped, auth).await;
        let mut living = living.unwrap();
        living.always("notify:still_there", None);
        assert_eq!(living.join(role, "ann", "o").await[0], true);
        let mut second = office.raw(Shipped, "t-ann").await;
        assert_eq!(second.join(role, "ann", "o").await[0], false, "{role}");
        let room = json!({"office_id": "o", "req_id": "r"});
        let room = living.ask("server:list_room", room).await;
        assert_eq!(
            room["sessions"].as_array().unwrap().len(),
            1,
            "it is where it was"
        );
        drop(living);
        until_seated(&office, 0).await;
    }
    office.stop().await;
}
