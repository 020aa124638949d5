//! What the office server refuses, and that each refusal is said, written down, and without consequence.

use domain::office::Role::{Agent, Computer};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use wire::smcp::Profile::{self, Seed, Shipped};

use super::{raw::Raw, support::Office};
use crate::server::OfficeConfig;

const BOTH: [Profile; 2] = [Seed, Shipped];

/// The code of an error, which must have the form of its profile.
fn code(answer: &Value, profile: Profile) -> i64 {
    let body = match profile {
        Seed => &answer["error"],
        Shipped => answer,
    };
    assert!(
        body["message"].is_string() && body["details"].is_object(),
        "{answer}"
    );
    body["code"].as_i64().unwrap()
}

#[expect(clippy::too_many_lines, reason = "It is a table.")]
#[tokio::test]
async fn whatever_cannot_be_served_is_acknowledged_with_an_error() {
    let call = |more: Value| {
        let mut body = json!({"agent": "ann", "req_id": "r", "computer": "pc", "tool_name": "t", "params": {}, "timeout": 5});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        body
    };
    for profile in BOTH {
        let office = Office::start().await;
        let agent = office.member(profile, Agent, "ann", "o").await;
        let computer = office.member(profile, Computer, "pc", "o").await;
        let stranger = office.raw(profile, "t-x").await;
        for (who, args, expected) in [
            (&agent, json!(["client:tool_call"]), 400),
            (&agent, json!(["client:tool_call", "text"]), 400),
            (&agent, json!(["client:tool_call", []]), 400),
            (&agent, json!(["client:tool_call", {}]), 400),
            (
                &agent,
                json!(["client:tool_call", call(json!({"tool_name": 1}))]),
                400,
            ),
            (
                &agent,
                json!(["client:tool_call", call(json!({"params": "x"}))]),
                400,
            ),
            (
                &agent,
                json!(["client:tool_call", call(json!({"timeout": "soon"}))]),
                400,
            ),
            (
                &agent,
                json!(["client:tool_call", call(json!({"timeout": -1}))]),
                400,
            ),
            (
                &agent,
                json!(["client:tool_call", call(json!({"req_id": ""}))]),
                400,
            ),
            (
                &agent,
                json!(["client:tool_call", call(json!({"computer": "nobody"}))]),
                404,
            ),
            (
                &agent,
                json!(["client:get_tools", {"computer": "nobody"}]),
                404,
            ),
            (&agent, json!(["client:made_up", {}]), 400),
            (&agent, json!(["server:made_up", {}]), 400),
            (&agent, json!(["anything", {}]), 400),
            (
                &agent,
                json!(["notify:enter_office", {"office_id": "o", "computer": "forged"}]),
                403,
            ),
            (
                &agent,
                json!(["server:list_room", {"office_id": "other"}]),
                403,
            ),
            (&agent, json!(["server:list_room", {}]), 400),
            (
                &agent,
                json!(["server:update_config", {"computer": "pc"}]),
                403,
            ),
            (&agent, json!(["server:tool_call_cancel", {}]), 400),
            (
                &agent,
                json!(["server:tool_call_progress", {"req_id": "r", "progress": 1}]),
                403,
            ),
            (
                &computer,
                json!(["server:tool_call_progress", {"req_id": "r"}]),
                400,
            ),
            (
                &computer,
                json!(["server:tool_call_progress", {"progress": 1}]),
                400,
            ),
            (&computer, json!(["client:tool_call", call(json!({}))]), 403),
            (
                &computer,
                json!(["server:tool_call_cancel", {"req_id": "r"}]),
                403,
            ),
            (
                &computer,
                json!(["server:update_config", {"computer": "another"}]),
                403,
            ),
            (
                &stranger,
                json!(["client:get_tools", {"computer": "pc"}]),
                403,
            ),
            (
                &stranger,
                json!(["server:list_room", {"office_id": "o"}]),
                403,
            ),
            (
                &stranger,
                json!(["server:update_config", {"computer": "pc"}]),
                403,
            ),
        ] {
            let answer = who.ask_args(&args).await;
            assert_eq!(answer.len(), 1, "{args}");
            assert_eq!(code(&answer[0], profile), expected, "{args}");
        }
        office.stop().await;
    }
}

#[tokio::test]
async fn a_refused_join_says_why_and_leaves_nothing_behind() {
    for profile in BOTH {
        let office = Office::start().await;
        let mut agent = office.member(profile, Agent, "ann", "o").await;
        let _computer = office.member(profile, Computer, "pc", "o").await;
        agent.hear("notify:enter_office").await;
        let mut refused = office.raw(profile, "t-mallory").await;
        for (body, expected) in [
            (
                json!({"role": "agent", "name": "mallory", "office_id": "o"}),
                403,
            ),
            (
                json!({"role": "agent", "name": "ann", "office_id": "o"}),
                403,
            ),
            (
                json!({"role": "computer", "name": "pc", "office_id": "o"}),
                403,
            ),
            (json!({"role": "boss", "name": "m", "office_id": "o"}), 400),
            (
                json!({"role": "computer", "name": "", "office_id": "o"}),
                400,
            ),
            (
                json!({"role": "computer", "name": "m", "office_id": "../o"}),
                400,
            ),
            (json!({"role": "computer", "name": "m"}), 400),
            (
                json!({"role": "computer", "name": "m", "office_id": "o", "version": "9.0"}),
                400,
            ),
        ] {
            let answer = refused.ask_args(&json!(["server:join_office", body])).await;
            match profile {
                Seed => assert_eq!(code(&answer[0], profile), expected, "{body}"),
                Shipped => assert!(answer[0] == false && answer[1].is_string(), "{body}"),
            }
        }
        assert_eq!(office.server.seats().len(), 2);
        let newcomer = office.member(profile, Computer, "new", "o").await;
        agent.hear("notify:enter_office").await;
        newcomer.emit("server:update_config", &json!({"computer": "new"}));
        drop(newcomer);
        agent.hear("notify:leave_office").await;
        assert_eq!(
            refused.heard_so_far().await,
            [""; 0],
            "a refused socket hears nothing"
        );
        office.stop().await;
    }
}

#[tokio::test]
async fn nothing_is_forged_and_nothing_crosses_offices() {
    for profile in BOTH {
        let office = Office::start().await;
        let mut ann = office.member(profile, Agent, "ann", "one").await;
        let mut pc = office.member(profile, Computer, "pc", "one").await;
        let mallory = office.member(profile, Agent, "mallory", "two").await;
        let evil = office.member(profile, Computer, "evil", "two").await;
        ann.hear("notify:enter_office").await;
        let answered = ann.begin(&json!(["client:tool_call", {
            "agent": "somebody else", "req_id": "r", "computer": "pc", "tool_name": "t", "params": {}, "timeout": 5
        }]));
        let heard = pc.hear("client:tool_call").await;
        assert_eq!(
            heard.body["agent"], "ann",
            "a name is not what its bearer says"
        );
        for (who, event, body) in [
            (&mallory, "server:leave_office", json!({"office_id": "one"})),
            (&evil, "server:leave_office", json!({"office_id": "one"})),
            (&evil, "server:update_config", json!({"computer": "pc"})),
            (
                &mallory,
                "server:tool_call_cancel",
                json!({"agent": "ann", "req_id": "r"}),
            ),
            (
                &mallory,
                "client:get_tools",
                json!({"agent": "ann", "computer": "pc", "office_id": "one"}),
            ),
        ] {
            who.ask_args(&json!([event, body])).await;
        }
        assert_eq!(ann.heard_so_far().await, [""; 0]);
        assert_eq!(pc.heard_so_far().await, [""; 0]);
        pc.answer(&heard, &json!({"content": [], "isError": false}));
        assert_eq!(answered.await.unwrap()[0]["isError"], false);
        office.stop().await;
    }
}

#[tokio::test]
async fn tools_that_may_not_be_used_are_refused_before_they_travel() {
    for (profile, event) in [
        (Seed, "client:get_mcp_config"),
        (Shipped, "client:get_config"),
    ] {
        let office = Office::start().await;
        let agent = office.member(profile, Agent, "ann", "o").await;
        let mut computer = office.raw(profile, "t-pc").await;
        let server = |more: Value| {
            let mut server =
                json!({"type": "stdio", "command": "x", "disabled": false, "tool_meta": {}});
            server
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            server
        };
        let config = json!({"servers": {
            "good": server(json!({"forbidden_tools": ["burn"]})),
            "off": server(json!({"disabled": true})),
            "web": {"type": "http", "disabled": false, "tool_meta": {}},
        }});
        computer.always(event, Some(config));
        computer.always(
            "client:tool_call",
            Some(json!({"content": [], "isError": false})),
        );
        computer.join("computer", "pc", "o").await;
        for (tool, expected) in [("off__x", 403), ("good__burn", 403), ("web__x", 404)] {
            let body = json!({"computer": "pc", "tool_name": tool, "params": {}, "timeout": 5});
            let answer = agent.ask("client:tool_call", body).await;
            assert_eq!(code(&answer, profile), expected, "{tool}");
        }
        let body = json!({"computer": "pc", "tool_name": "good__x", "params": {}, "timeout": 5});
        assert_eq!(
            agent.ask("client:tool_call", body.clone()).await["isError"],
            false
        );
        computer.always(
            event,
            Some(json!({"servers": {"good": server(json!({"disabled": true}))}})),
        );
        let update = match profile {
            Seed => "server:update_mcp_config",
            Shipped => "server:update_config",
        };
        computer.ask(update, json!({"computer": "pc"})).await;
        assert_eq!(
            code(&agent.ask("client:tool_call", body).await, profile),
            403
        );
        office.stop().await;
    }
}

#[tokio::test]
async fn joining_needs_a_token_that_covers_the_office() {
    let office = Office::start().await;
    for auth in [
        json!({}),
        json!({"token": ""}),
        json!({"token": "wrong"}),
        json!({"token": 7}),
    ] {
        let refused = Raw::connect(office.address, Seed, auth)
            .await
            .err()
            .unwrap();
        assert!(
            refused["message"].as_str().unwrap().contains("token"),
            "{refused}"
        );
    }
    let mut scoped = office.raw(Seed, "only-o").await;
    for (role, into, expected) in [("computer", "other", 403), ("agent", "o", 403)] {
        let answer = scoped.join(role, "pc", into).await;
        assert_eq!(code(&answer[0], Seed), expected);
    }
    assert_eq!(scoped.join("computer", "pc", "o").await[0], true);
    let written: Vec<(Option<String>, String, i64)> = office
        .refused()
        .into_iter()
        .map(|record| (record.caller, record.event, record.code))
        .collect();
    let scoped = |event: &str| (Some("scoped".to_owned()), event.to_owned(), 403);
    let nobody = (None, "connect".to_owned(), 403);
    assert_eq!(
        written,
        [
            nobody.clone(),
            nobody.clone(),
            nobody.clone(),
            nobody,
            scoped("server:join_office"),
            scoped("server:join_office"),
        ]
    );
    office.stop().await;
}

#[tokio::test]
async fn a_handshake_of_another_protocol_is_refused_in_words() {
    let office = Office::start().await;
    for (auth, words) in [
        (
            json!({"token": "t-x", "protocol": "other", "version": "0.1.0"}),
            "a2c-smcp",
        ),
        (
            json!({"token": "t-x", "protocol": "a2c-smcp", "version": "2.0.0"}),
            "2.0.0",
        ),
        (json!({"token": "t-x", "version": "new"}), "Invalid version"),
    ] {
        let refused = Raw::connect(office.address, Seed, auth)
            .await
            .err()
            .unwrap();
        assert!(
            refused["message"].as_str().unwrap().contains(words),
            "{refused}"
        );
    }
    let fine = json!({"token": "t-x", "protocol": "a2c-smcp", "version": "0.1.2-rc1"});
    assert!(Raw::connect(office.address, Seed, fine).await.is_ok());
    office.stop().await;
}

/// One HTTP request, answered whole.
async fn http(office: &Office, query: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(office.address).await.unwrap();
    let request = format!("GET /socket.io/?EIO=4&{query} HTTP/1.1\r\nHost: h\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(&answer).contains('}') {
        let read = stream.read(&mut piece).await.unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&answer));
        answer.extend(&piece[..read]);
    }
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_version_that_we_do_not_speak_is_refused_before_the_handshake() {
    let office = Office::start().await;
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (transport, headers) in [("polling", ""), ("websocket", upgrade)] {
        let mismatch = http(
            &office,
            &format!("transport={transport}&a2c_version=0.3.1"),
            headers,
        )
        .await;
        assert!(mismatch.starts_with("HTTP/1.1 400"), "{mismatch}");
        assert!(mismatch.contains("x-a2c-error-code: 4008") && mismatch.contains("content-length"));
        let body: Value = serde_json::from_str(mismatch.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        assert_eq!(
            body,
            json!({"code": 4008, "message": "Protocol version mismatch", "server_version": "0.4.0",
                   "client_version": "0.3.1", "min_supported": "0.4.0", "max_supported": "0.4.999"})
        );
        let broken = http(
            &office,
            &format!("transport={transport}&a2c_version=abc"),
            headers,
        )
        .await;
        assert!(
            broken.contains("Invalid a2c_version: Invalid version: abc"),
            "{broken}"
        );
    }
    for query in ["transport=polling", "transport=polling&a2c_version=0.4.2"] {
        let opened = http(&office, query, "").await;
        assert!(
            opened.starts_with("HTTP/1.1 200") && opened.contains("\"sid\""),
            "{opened}"
        );
    }
    office.stop().await;
}

#[tokio::test]
async fn a_flood_is_slowed_down_and_written_once() {
    let config = OfficeConfig {
        events_per_second: 1,
        events_burst: 5,
        ..OfficeConfig::default()
    };
    let office = Office::with(config, "127.0.0.1:0").await;
    let flooder = office.raw(Shipped, "t-x").await;
    let mut slowed = 0;
    for _ in 0..50 {
        let answer = flooder
            .ask("server:list_room", json!({"office_id": "o"}))
            .await;
        slowed += usize::from(answer["details"]["reason"] == "rate");
    }
    assert!((40..=45).contains(&slowed), "{slowed}");
    let written = office.refused();
    let floods = written
        .iter()
        .filter(|record| record.reason.contains("slow down"));
    assert!(floods.count() <= 3, "{written:?}");
    office.stop().await;
}

#[tokio::test]
async fn requests_that_wait_are_bounded() {
    let mut config = OfficeConfig::default();
    config.limits.requests_max = 3;
    let office = Office::with(config, "127.0.0.1:0").await;
    let agent = office.member(Seed, Agent, "ann", "o").await;
    let mut computer = office.member(Seed, Computer, "pc", "o").await;
    let waiting: Vec<_> = (0..3)
        .map(|_| agent.begin(&json!(["client:get_tools", {"computer": "pc"}])))
        .collect();
    let refused = agent
        .ask("client:get_tools", json!({"computer": "pc"}))
        .await;
    assert_eq!(code(&refused, Seed), 403);
    for answered in waiting {
        let heard = computer.hear("client:get_tools").await;
        computer.answer(&heard, &json!({"tools": []}));
        answered.await.unwrap();
    }
    office.stop().await;
}

#[tokio::test]
async fn what_is_not_json_or_too_large_harms_nobody_else() {
    let config = OfficeConfig {
        payload_max: 64 * 1024,
        ..OfficeConfig::default()
    };
    let office = Office::with(config, "127.0.0.1:0").await;
    let agent = office.member(Seed, Agent, "ann", "o").await;
    for text in [
        "42/smcp,[",
        "4",
        "",
        "9",
        "42/smcp,1",
        "42/smcp,{}",
        "451-/smcp,[\"e\"]",
        "43/smcp,99[1]",
        &format!("42/smcp,[\"e\",\"{}\"]", "x".repeat(100_000)),
    ] {
        let bad = office.raw(Seed, "t-bad").await;
        bad.send_text(text);
    }
    let told = agent
        .ask("server:list_room", json!({"office_id": "o"}))
        .await;
    assert_eq!(told["sessions"].as_array().unwrap().len(), 1);
    office.stop().await;
}
