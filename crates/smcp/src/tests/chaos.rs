//! Losses, floods and readers that do not read: every request is answered, and everybody finds back.

use std::{sync::Arc, time::Duration};

use domain::office::Role::{Agent as AgentRole, Computer as ComputerRole};
use serde_json::json;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use wire::smcp::Profile::{Seed, Shipped};

use super::{
    members::news,
    support::{FakeTools, Office, SOON, computer_config, link, params, seats, until_seated},
};
use crate::{
    agent::{Agent, Call, News},
    computer::Computer,
    server::OfficeConfig,
};

#[tokio::test]
async fn a_burst_of_calls_is_answered_to_the_last() {
    for profile in [Seed, Shipped] {
        let office = Office::start().await;
        let agent = office.member(profile, AgentRole, "ann", "o").await;
        let computer = office.member(profile, ComputerRole, "pc", "o").await;
        computer.always(
            "client:tool_call",
            Some(json!({"content": [], "isError": false})),
        );
        let waiting: Vec<_> = (0..500)
            .map(|n| {
                agent.begin(&json!(["client:tool_call", {
                    "computer": "pc", "tool_name": "t", "params": {}, "req_id": format!("r{n}"), "timeout": 20
                }]))
            })
            .collect();
        for answered in waiting {
            let answer = timeout(SOON, answered).await.unwrap().unwrap();
            assert_eq!(answer, [json!({"content": [], "isError": false})]);
        }
        office.stop().await;
    }
}

#[tokio::test]
async fn two_hundred_comings_and_goings_leave_nothing_behind() {
    let office = Office::start().await;
    let mut agent = office.member(Shipped, AgentRole, "ann", "o").await;
    let mut computer = office.raw(Shipped, "t-pc").await;
    for _ in 0..100 {
        assert_eq!(computer.join("computer", "pc", "o").await[0], true);
        agent.hear("notify:enter_office").await;
        computer
            .ask("server:leave_office", json!({"office_id": "o"}))
            .await;
        agent.hear("notify:leave_office").await;
    }
    for _ in 0..100 {
        let computer = office.member(Shipped, ComputerRole, "pc", "o").await;
        agent.hear("notify:enter_office").await;
        drop(computer);
        agent.hear("notify:leave_office").await;
    }
    assert_eq!(agent.heard_so_far().await, [""; 0]);
    assert_eq!(seats(&office)["o"], ["agent ann"]);
    office.stop().await;
}

#[tokio::test]
async fn everybody_finds_back_after_a_restart_of_the_server() {
    let office = Office::start().await;
    let address = office.address.to_string();
    let members = platform::Tasks::new();
    let tools = FakeTools::new();
    let url = office.url();
    let config = computer_config(link(&url, Shipped, "pc", "o"));
    let computer = Computer::start(config, tools.clone(), &members);
    computer.joined().await.unwrap();
    let (agent, mut listening) = Agent::start(link(&url, Seed, "ann", "o"), &members);
    agent.joined().await.unwrap();
    let call = Call::new(
        "pc",
        "one__hang",
        params(json!({})),
        Duration::from_secs(20),
    );
    let never = CancellationToken::new();
    let (lost, ()) = tokio::join!(agent.call(&call, &never), async {
        tools.begun.notified().await;
        office.stop().await;
    });
    assert!(
        lost.is_err(),
        "a call under way is told of, not forgotten: {lost:?}"
    );
    news(&mut listening, &News::Away).await;
    let office = Office::with(OfficeConfig::default(), &address).await;
    news(&mut listening, &News::Joined).await;
    until_seated(&office, 2).await;
    let call = Call::new(
        "pc",
        "one__say",
        params(json!({"x": 1})),
        Duration::from_secs(20),
    );
    assert!(!agent.call(&call, &never).await.unwrap().is_error);
    assert_eq!(members.drain(SOON).await, platform::Drained::Clean);
    office.stop().await;
}

#[tokio::test]
async fn a_call_that_is_repeated_after_a_loss_happens_once() {
    let office = Office::start().await;
    let tools = FakeTools::new();
    let config = computer_config(office.link(Seed, "pc", "o"));
    let computer = Computer::start(config, tools.clone(), &office.tasks);
    computer.joined().await.unwrap();
    let body = json!(["client:tool_call", {
        "agent": "ann", "computer": "pc", "tool_name": "one__say", "params": {}, "req_id": "once", "timeout": 20
    }]);
    for _ in 0..5 {
        let agent = office.member(Seed, AgentRole, "ann", "o").await;
        drop(agent.begin(&body));
        drop(agent);
        until_seated(&office, 1).await;
    }
    let agent = office.member(Seed, AgentRole, "ann", "o").await;
    assert_eq!(agent.ask_args(&body).await[0]["isError"], false);
    assert_eq!(tools.calls(), 1);
    office.stop().await;
}

#[tokio::test]
async fn a_reader_that_does_not_read_stops_nobody_else() {
    use futures_util::{SinkExt, StreamExt};
    use tokio_tungstenite::{connect_async, tungstenite::Message};

    let office = Office::start().await;
    let agent = office.member(Seed, AgentRole, "ann", "o").await;
    let computer = office.member(Seed, ComputerRole, "pc", "o").await;
    computer.always("client:get_tools", Some(json!({"tools": []})));
    let url = format!(
        "ws://{}/socket.io/?EIO=4&transport=websocket",
        office.address
    );
    let (mut silent, _) = connect_async(url).await.unwrap();
    silent.next().await.unwrap().unwrap();
    silent
        .send(Message::text("40/smcp,{\"token\":\"t-silent\"}"))
        .await
        .unwrap();
    silent.next().await.unwrap().unwrap();
    let join =
        r#"42/smcp,1["server:join_office",{"role":"computer","name":"silent","office_id":"o"}]"#;
    silent.send(Message::text(join)).await.unwrap();
    until_seated(&office, 3).await;
    // Far more than the network and the server keep for it: requests of it that it never reads the answers of.
    let large = "x".repeat(256 * 1024);
    let mut answered = 0;
    for n in 0..200 {
        let body = json!({"computer": "silent", "window": large, "req_id": n.to_string()});
        drop(agent.begin(&json!(["client:get_desktop", body])));
        if n % 10 == 0 {
            let told = agent
                .ask("client:get_tools", json!({"computer": "pc"}))
                .await;
            answered += usize::from(told["tools"].is_array());
        }
    }
    assert_eq!(answered, 20);
    drop(silent);
    until_seated(&office, 2).await;
    office.stop().await;
}

#[tokio::test]
#[ignore = "slow: sixty thousand calls"]
async fn soak_of_sixty_thousand_calls_loses_none() {
    let config = OfficeConfig {
        events_per_second: 1_000_000,
        events_burst: 1_000_000,
        ..OfficeConfig::default()
    };
    let office = Office::with(config, "127.0.0.1:0").await;
    let agent = office.member(Shipped, AgentRole, "ann", "o").await;
    let computer = office.member(Shipped, ComputerRole, "pc", "o").await;
    let answer = json!({"content": [], "isError": false});
    computer.always("client:tool_call", Some(answer.clone()));
    for round in 0..300 {
        let waiting: Vec<_> = (0..200)
            .map(|n| {
                agent.begin(&json!(["client:tool_call", {
                    "computer": "pc", "tool_name": "t", "params": {}, "timeout": 20,
                    "req_id": format!("{round}-{n}")
                }]))
            })
            .collect();
        for answered in waiting {
            let answered = timeout(SOON, answered).await.unwrap().unwrap();
            assert_eq!(answered[..], *std::slice::from_ref(&answer));
        }
    }
    office.stop().await;
}

#[tokio::test]
async fn a_computer_that_reads_nothing_cannot_fill_the_memory() {
    let config = OfficeConfig {
        unread_bytes_max: 64 * 1024,
        ..OfficeConfig::default()
    };
    let office = Office::with(config, "127.0.0.1:0").await;
    let agent = office.member(Seed, AgentRole, "ann", "o").await;
    let silent = office.member(Seed, ComputerRole, "silent", "o").await;
    silent.always("client:get_desktop", None);
    let large = "x".repeat(8 * 1024);
    let mut waiting = Vec::new();
    for n in 0..30 {
        let body = json!({"computer": "silent", "window": large, "req_id": n.to_string()});
        waiting.push(agent.begin(&json!(["client:get_desktop", body])));
    }
    let last = timeout(SOON, waiting.pop().unwrap())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(last[0]["error"]["details"]["reason"], "busy");
    office.stop().await;
}

/// A join that is sent the moment the server says "connected" is answered, however busy the server is.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_join_is_too_early() {
    let office = Arc::new(Office::start().await);
    let joining = (0..16).map(|caller| {
        let office = Arc::clone(&office);
        tokio::spawn(async move {
            for time in 0..60 {
                let name = format!("pc-{caller}-{time}");
                drop(office.member(Seed, ComputerRole, &name, "o").await);
            }
        })
    });
    for joined in joining.collect::<Vec<_>>() {
        joined.await.unwrap();
    }
    until_seated(&office, 0).await;
}

/// A way to a server that can be cut: what is sent then goes nowhere, and nobody is told.
struct Cable {
    address: std::net::SocketAddr,
    is_cut: tokio::sync::watch::Sender<bool>,
}

impl Cable {
    async fn to(server: std::net::SocketAddr) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let is_cut = tokio::sync::watch::Sender::new(false);
        let cable = is_cut.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, server, cable.subscribe()));
            }
        });
        Self { address, is_cut }
    }
}

/// Carries until the cable is cut, and then nothing more until it is mended.
async fn carry(
    mut near: tokio::net::TcpStream,
    server: std::net::SocketAddr,
    mut is_cut: tokio::sync::watch::Receiver<bool>,
) {
    let mended = |is_cut: &bool| !*is_cut;
    if is_cut.wait_for(mended).await.is_err() {
        return;
    }
    let Ok(mut far) = tokio::net::TcpStream::connect(server).await else {
        return;
    };
    tokio::select! { biased;
        _ = is_cut.wait_for(|is_cut| *is_cut) => {}
        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => return,
    }
    let _ = is_cut.wait_for(mended).await; // The test has ended.
}

#[tokio::test]
async fn a_computer_whose_network_is_cut_is_given_up_and_comes_back() {
    let config = OfficeConfig {
        ping_interval: Duration::from_secs(1),
        ping_timeout: Duration::from_secs(3),
        ..OfficeConfig::default()
    };
    let office = Office::with(config, "127.0.0.1:0").await;
    let cable = Cable::to(office.address).await;
    let (members, tools) = (platform::Tasks::new(), FakeTools::new());
    let url = format!("http://{}", cable.address);
    let config = computer_config(link(&url, Shipped, "pc", "o"));
    let computer = Computer::start(config, tools.clone(), &members);
    computer.joined().await.unwrap();
    let (agent, mut listening) = Agent::start(office.link(Shipped, "ann", "o"), &members);
    agent.joined().await.unwrap();
    let never = CancellationToken::new();
    let call = |tool: &str| Call::new("pc", tool, params(json!({})), Duration::from_secs(60));
    let hanging = call("one__hang");
    let (lost, ()) = tokio::join!(agent.call(&hanging, &never), async {
        tools.begun.notified().await;
        cable.is_cut.send_replace(true);
    });
    assert!(
        lost.unwrap_err().to_string().contains("has left"),
        "the call ends long before its time"
    );
    let pc = || "pc".to_owned();
    news(&mut listening, &News::Left { computer: pc() }).await;
    cable.is_cut.send_replace(false);
    news(&mut listening, &News::Entered { computer: pc() }).await;
    assert!(
        !agent
            .call(&call("one__say"), &never)
            .await
            .unwrap()
            .is_error
    );
    assert_eq!(members.drain(SOON).await, platform::Drained::Clean);
    office.stop().await;
}
