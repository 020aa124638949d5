//! What the office server relays: members, notices, calls, cancels, in both profiles and between them.

use domain::office::Role::{Agent, Computer};
use serde_json::{Value, json};
use tokio::time::timeout;
use wire::smcp::Profile::{self, Seed, Shipped};

use super::support::{Office, SOON, seats, until_seated};

const BOTH: [Profile; 2] = [Seed, Shipped];

fn call(request: &str) -> Value {
    json!({"agent": "ann", "req_id": request, "computer": "pc", "tool_name": "t", "params": {"a": 1}, "timeout": 10})
}

#[tokio::test]
async fn members_hear_of_each_other_until_they_leave() {
    for profile in BOTH {
        let office = Office::start().await;
        let mut agent = office.member(profile, Agent, "ann", "o").await;
        let mut computer = office.member(profile, Computer, "pc", "o").await;
        assert_eq!(
            agent.hear("notify:enter_office").await.body,
            json!({"office_id": "o", "computer": "pc"})
        );
        let left = agent
            .ask_args(&json!(["server:leave_office", {"office_id": "o"}]))
            .await;
        assert_eq!(left, [json!(true), Value::Null]);
        assert_eq!(
            computer.hear("notify:leave_office").await.body,
            json!({"office_id": "o", "agent": "ann"})
        );
        agent.join("agent", "ann", "o").await;
        assert_eq!(
            computer.hear("notify:enter_office").await.body,
            json!({"office_id": "o", "agent": "ann"})
        );
        drop(computer);
        assert_eq!(
            agent.hear("notify:leave_office").await.body,
            json!({"office_id": "o", "computer": "pc"})
        );
        office.stop().await;
    }
}

#[tokio::test]
async fn requests_reach_the_named_computer_and_come_back() {
    for profile in BOTH {
        let office = Office::start().await;
        let agent = office.member(profile, Agent, "ann", "o").await;
        let mut computer = office.member(profile, Computer, "pc", "o").await;
        for event in [
            "client:tool_call",
            "client:get_tools",
            "client:get_desktop",
            "client:get_resources",
        ] {
            let mut body = call("r-1");
            body["made_up"] = json!({"kept": true});
            let answered = agent.begin(&json!([event, body]));
            let heard = computer.hear(event).await;
            assert_eq!(heard.body, body, "nothing is lost on the way");
            let answer = json!({"content": [], "isError": false, "req_id": "r-1", "unknown": "é"});
            computer.answer(&heard, &answer);
            assert_eq!(answered.await.unwrap(), [answer]);
        }
        office.stop().await;
    }
}

#[tokio::test]
async fn the_profiles_meet_in_one_office() {
    let office = Office::start().await;
    let mut agent = office.member(Seed, Agent, "ann", "o").await;
    let mut computer = office.member(Shipped, Computer, "pc", "o").await;
    let config = json!({"servers": {"time": {
        "name": "time", "bundle_id": "time", "disabled": false, "forbidden_tools": [], "tool_meta": {},
        "type": "streamable", "server_parameters": {"url": "https://h/mcp"}
    }}});
    computer.always("client:get_config", Some(config));
    let told = agent
        .ask(
            "client:get_mcp_config",
            json!({"computer": "pc", "req_id": "r"}),
        )
        .await;
    assert_eq!(
        told["servers"]["time"],
        json!({"type": "http", "url": "https://h/mcp", "disabled": false, "tool_meta": {}})
    );
    computer.emit("server:update_tool_list", &json!({"computer": "pc"}));
    assert_eq!(
        agent.hear("notify:update_mcp_config").await.body,
        json!({"computer": "pc"})
    );
    computer.emit("server:update_desktop", &json!({"computer": "pc"}));
    agent.hear("notify:desktop_refresh").await;
    computer.always(
        "client:get_tools",
        Some(json!({"code": 500, "message": "broken", "details": {}})),
    );
    let told = agent
        .ask("client:get_tools", json!({"computer": "pc"}))
        .await;
    assert_eq!(told["error"]["message"], "broken");
    assert_eq!(computer.heard_so_far().await, [""; 0]);
    office.stop().await;
}

#[tokio::test]
async fn changes_are_announced_in_each_profiles_words() {
    for (profile, said, heard) in [
        (Seed, "server:update_mcp_config", "notify:update_mcp_config"),
        (Seed, "server:desktop_refresh", "notify:desktop_refresh"),
        (Shipped, "server:update_config", "notify:update_config"),
        (
            Shipped,
            "server:update_tool_list",
            "notify:update_tool_list",
        ),
        (Shipped, "server:update_desktop", "notify:update_desktop"),
        (Shipped, "server:update_skills", "notify:update_skills"),
    ] {
        let office = Office::start().await;
        let mut agent = office.member(profile, Agent, "ann", "o").await;
        let mut computer = office.member(profile, Computer, "pc", "o").await;
        let acknowledged = computer.ask_args(&json!([said, {"computer": "pc"}])).await;
        assert_eq!(acknowledged, [Value::Null; 0]);
        assert_eq!(agent.hear(heard).await.body, json!({"computer": "pc"}));
        assert_eq!(computer.heard_so_far().await, [""; 0], "not to its sender");
        office.stop().await;
    }
}

#[tokio::test]
async fn a_cancel_is_heard_by_the_computer_and_the_agent() {
    for profile in BOTH {
        let office = Office::start().await;
        let mut agent = office.member(profile, Agent, "ann", "o").await;
        let mut computer = office.member(profile, Computer, "pc", "o").await;
        let mut idle = office.member(profile, Computer, "idle", "o").await;
        let answered = agent.begin(&json!(["client:tool_call", call("r-1")]));
        let heard = computer.hear("client:tool_call").await;
        let cancel = json!({"agent": "ann", "req_id": "r-1"});
        assert_eq!(
            agent
                .ask_args(&json!(["server:tool_call_cancel", cancel]))
                .await,
            [Value::Null; 0]
        );
        assert_eq!(computer.hear("notify:tool_call_cancel").await.body, cancel);
        assert_eq!(agent.hear("notify:tool_call_cancel").await.body, cancel);
        computer.answer(
            &heard,
            &json!({"content": [], "isError": true, "meta": {"a2c_cancelled": true}}),
        );
        assert_eq!(answered.await.unwrap()[0]["meta"]["a2c_cancelled"], true);
        assert_eq!(idle.heard_so_far().await, [""; 0]);
        office.stop().await;
    }
}

#[tokio::test]
async fn a_cancel_of_an_answered_call_is_told_and_changes_nothing() {
    for profile in [Seed, Shipped] {
        let office = Office::start().await;
        let mut agent = office.member(profile, Agent, "ann", "o").await;
        let mut computer = office.member(profile, Computer, "pc", "o").await;
        agent.hear("notify:enter_office").await;
        computer.always("client:tool_call", Some(json!({"content": []})));
        let call = json!({"computer": "pc", "tool_name": "t", "params": {}, "req_id": "r"});
        let answer = agent.ask("client:tool_call", call.clone()).await;
        assert_eq!(answer, json!({"content": []}));
        let cancel = json!({"agent": "ann", "req_id": "r"});
        let heard = agent.ask("server:tool_call_cancel", cancel.clone()).await;
        assert_eq!(heard, Value::Null, "it is acknowledged");
        assert_eq!(computer.hear("notify:tool_call_cancel").await.body, cancel);
        assert_eq!(agent.hear("notify:tool_call_cancel").await.body, cancel);
        // The answer stays what it was.
        assert_eq!(agent.ask("client:tool_call", call).await, answer);
        assert_eq!(agent.heard_so_far().await, [""; 0]);
        office.stop().await;
    }
}

#[tokio::test]
async fn a_repeated_request_is_answered_and_executed_once() {
    for profile in BOTH {
        let office = Office::start().await;
        let agent = office.member(profile, Agent, "ann", "o").await;
        let mut computer = office.member(profile, Computer, "pc", "o").await;
        let first = agent.begin(&json!(["client:tool_call", call("r-1")]));
        let heard = computer.hear("client:tool_call").await;
        let second = agent.begin(&json!(["client:tool_call", call("r-1")]));
        let mut other = call("r-1");
        other["params"] = json!({"a": 2});
        let refused = agent.ask("client:tool_call", other).await;
        let code = match profile {
            Seed => &refused["error"]["code"],
            Shipped => &refused["code"],
        };
        assert_eq!(code, 400);
        let answer = json!({"content": [{"type": "text", "text": "once"}], "isError": false});
        computer.answer(&heard, &answer);
        let answers = std::slice::from_ref(&answer);
        assert_eq!(first.await.unwrap(), answers);
        assert_eq!(second.await.unwrap(), answers);
        assert_eq!(agent.ask("client:tool_call", call("r-1")).await, answer);
        assert_eq!(computer.heard_so_far().await, [""; 0]);
        office.stop().await;
    }
}

#[tokio::test]
async fn an_agent_that_comes_back_finds_its_answer() {
    let office = Office::start().await;
    let agent = office.member(Seed, Agent, "ann", "o").await;
    let mut computer = office.member(Seed, Computer, "pc", "o").await;
    drop(agent.begin(&json!(["client:tool_call", call("r-1")])));
    let heard = computer.hear("client:tool_call").await;
    drop(agent);
    computer.hear("notify:leave_office").await;
    let answer = json!({"content": [], "isError": false});
    computer.answer(&heard, &answer);
    let agent = office.member(Seed, Agent, "ann", "o").await;
    assert_eq!(agent.ask("client:tool_call", call("r-1")).await, answer);
    office.stop().await;
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_answered_and_cancelled() {
    for profile in BOTH {
        let office = Office::start().await;
        let agent = office.member(profile, Agent, "ann", "o").await;
        let mut computer = office.member(profile, Computer, "pc", "o").await;
        let mut body = call("r-1");
        body["timeout"] = json!(0.05);
        let told = agent.ask("client:tool_call", body).await;
        match profile {
            Seed => assert_eq!(told["error"]["code"], 408),
            Shipped => assert_eq!(
                (&told["isError"], &told["meta"]["a2c_timeout"]),
                (&json!(true), &json!(true))
            ),
        }
        computer.hear("notify:tool_call_cancel").await;
        office.stop().await;
    }
}

#[tokio::test]
async fn a_computer_that_vanishes_ends_its_calls() {
    for profile in BOTH {
        let office = Office::start().await;
        let agent = office.member(profile, Agent, "ann", "o").await;
        let mut computer = office.member(profile, Computer, "pc", "o").await;
        let answered = agent.begin(&json!(["client:tool_call", call("r-1")]));
        computer.hear("client:tool_call").await;
        drop(computer);
        let told = answered.await.unwrap().remove(0);
        let body = match profile {
            Seed => &told["error"],
            Shipped => &told,
        };
        assert_eq!(
            (&body["code"], &body["details"]["reason"]),
            (&json!(404), &json!("vanished"))
        );
        assert_eq!(body["details"]["computer_name"], "pc");
        office.stop().await;
    }
}

#[tokio::test]
async fn a_computer_that_moves_is_in_one_office() {
    let office = Office::start().await;
    let mut agent = office.member(Seed, Agent, "ann", "one").await;
    let mut computer = office.member(Seed, Computer, "pc", "one").await;
    agent.hear("notify:enter_office").await;
    computer.join("computer", "pc", "two").await;
    assert_eq!(
        agent.hear("notify:leave_office").await.body,
        json!({"office_id": "one", "computer": "pc"})
    );
    assert_eq!(
        seats(&office),
        [
            ("one".to_owned(), vec!["agent ann".to_owned()]),
            ("two".to_owned(), vec!["computer pc".to_owned()]),
        ]
        .into()
    );
    office.stop().await;
}

#[tokio::test]
async fn a_silent_connection_gives_its_place_to_the_same_caller() {
    let office = Office::start().await;
    let mut agent = office.member(Shipped, Agent, "ann", "o").await;
    let old = office.member(Shipped, Computer, "pc", "o").await;
    agent.hear("notify:enter_office").await;
    let mut new = office.raw(Shipped, "t-pc").await;
    let refused = new.join("computer", "pc", "o").await;
    assert_eq!(refused[0], false, "the old connection lives");
    old.always("notify:still_there", None);
    assert_eq!(new.join("computer", "pc", "o").await[0], true);
    agent.hear("notify:leave_office").await;
    agent.hear("notify:enter_office").await;
    old.closed().await;
    until_seated(&office, 2).await;
    office.stop().await;
}

#[tokio::test]
async fn released_agents_can_list_their_office() {
    let office = Office::start().await;
    let agent = office.member(Shipped, Agent, "ann", "o").await;
    let _computer = office.member(Seed, Computer, "pc", "o").await;
    let _stranger = office.member(Seed, Computer, "pc", "other").await;
    let body = json!({"agent": "ann", "req_id": "r", "office_id": "o"});
    let told = agent.ask("server:list_room", body).await;
    let mut sessions: Vec<Value> = told["sessions"].as_array().unwrap().clone();
    for session in &mut sessions {
        assert!(session["sid"].is_string());
        session.as_object_mut().unwrap().remove("sid");
    }
    assert_eq!(told["req_id"], "r");
    assert_eq!(
        sessions,
        [
            json!({"name": "ann", "role": "agent", "office_id": "o", "a2c_version": "0.4.1"}),
            json!({"name": "pc", "role": "computer", "office_id": "o", "a2c_version": null}),
        ]
    );
    office.stop().await;
}

#[tokio::test]
#[ignore = "slow: a call of seven seconds"]
async fn a_slow_call_is_waited_for() {
    let office = Office::start().await;
    let agent = office.member(Shipped, Agent, "ann", "o").await;
    let mut computer = office.member(Shipped, Computer, "pc", "o").await;
    let mut body = call("r-1");
    body["timeout"] = json!(30);
    let answered = agent.begin(&json!(["client:tool_call", body]));
    let heard = computer.hear("client:tool_call").await;
    tokio::time::sleep(std::time::Duration::from_secs(7)).await;
    computer.answer(&heard, &json!({"content": [], "isError": false}));
    assert_eq!(answered.await.unwrap()[0]["isError"], false);
    office.stop().await;
}

#[tokio::test]
async fn progress_is_heard_by_whoever_waits_for_that_call_and_by_nobody_else() {
    let office = Office::start().await;
    let mut agent = office.member(Shipped, Agent, "ann", "o").await;
    let mut computer = office.member(Shipped, Computer, "pc", "o").await;
    let mut beside = office.member(Shipped, Computer, "other", "o").await;
    let answered = agent.begin(&json!(["client:tool_call", {
        "agent": "ann", "req_id": "r1", "computer": "pc", "tool_name": "t", "params": {}, "timeout": 20,
        "call_progress": true,
    }]));
    let called = computer.hear("client:tool_call").await;
    assert_eq!(called.body["call_progress"], true);
    let event = "server:tool_call_progress";
    let said = json!({"req_id": "r1", "progress": 1, "total": 4, "message": "é".repeat(800)});
    // One that does not work on the call, and one that names another call, are not heard.
    beside.ask(event, said.clone()).await;
    computer
        .ask(event, json!({"req_id": "r2", "progress": 9}))
        .await;
    computer.ask(event, said).await;
    let heard = agent.hear("notify:tool_call_progress").await.body;
    assert_eq!(heard["computer"], "pc");
    assert_eq!(
        (&heard["progress"], &heard["total"]),
        (&json!(1.0), &json!(4.0))
    );
    assert_eq!(heard["message"], "é".repeat(512));
    computer.answer(&called, &json!({"content": [], "isError": false}));
    timeout(SOON, answered).await.unwrap().unwrap();
    computer
        .ask(event, json!({"req_id": "r1", "progress": 2}))
        .await;
    for member in [&mut agent, &mut beside] {
        let heard = member.heard_so_far().await;
        assert!(
            !heard.contains(&"notify:tool_call_progress".to_owned()),
            "{heard:?}"
        );
    }
    office.stop().await;
}

#[tokio::test]
async fn a_cancel_does_not_overtake_its_call_at_one_server() {
    let office = Office::start().await;
    let agent = office.member(Shipped, Agent, "ann", "o").await;
    let mut computer = office.member(Shipped, Computer, "pc", "o").await;
    for n in 0..50 {
        let id = format!("r{n}");
        let answered = agent.begin(&json!(["client:tool_call", call(&id)]));
        let cancel = json!({"agent": "ann", "req_id": id});
        agent.emit("server:tool_call_cancel", &cancel);
        let cancelled = computer.hear("notify:tool_call_cancel").await;
        assert_eq!(cancelled.body["req_id"], id);
        assert!(computer.has_kept("client:tool_call"), "{id}");
        let called = computer.hear("client:tool_call").await;
        computer.answer(&called, &json!({"content": [], "isError": true}));
        timeout(SOON, answered).await.unwrap().unwrap();
    }
    office.stop().await;
}
