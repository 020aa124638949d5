//! Two servers on one real Redis act as one: members meet across them, places are given once, nothing is lost unheard.
//!
//! Where there is no `redis-server`, the tests say so and end.

use std::{path::Path, process::Stdio, time::Duration};

use domain::office::Role::{self, Agent as AgentRole, Computer as ComputerRole};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use wire::smcp::{
    Change,
    Profile::{self, Seed, Shipped},
};

use super::{
    members::news,
    raw::Raw,
    support::{FakeTools, Office, SOON, computer_config, params},
};
use crate::{
    LinkError,
    agent::{Agent, Call, News},
    computer::Computer,
    server::OfficeConfig,
};

/// Six hundred messages pass through Redis, on a machine that may be busy.
const PATIENCE: Duration = Duration::from_secs(50);

/// A Redis of the test's own.
pub(super) struct Redis {
    folder: TempDir,
    child: Child,
}

impl Redis {
    pub(super) async fn start() -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let child = Self::run(folder.path()).await?;
        Some(Self { folder, child })
    }

    async fn run(folder: &Path) -> Option<Child> {
        let started = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no"])
            .args(["--unixsocket", "redis.sock"])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let Ok(mut child) = started else {
            println!("skipped: there is no redis-server, which ./test installs");
            return None;
        };
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if line.contains("eady to accept connections") {
                    return true;
                }
            }
            false
        };
        assert!(timeout(SOON, ready).await.expect("Redis starts"));
        // It goes on writing.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Some(child)
    }

    pub(super) fn url(&self) -> String {
        format!("redis+unix://{}/redis.sock", self.folder.path().display())
    }

    async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Lets it stand still, or go on.
    async fn signal(&self, signal: &str) {
        let process = self.child.id().unwrap().to_string();
        let sent = Command::new("kill").args([signal, &process]).status().await;
        assert!(sent.unwrap().success());
    }

    /// The same address, and nothing in it.
    async fn start_again(&mut self) {
        self.child = Self::run(self.folder.path()).await.unwrap();
    }
}

/// Two servers, and what they share.
struct Two {
    redis: Redis,
    here: Office,
    there: Office,
}

impl Two {
    async fn start() -> Option<Self> {
        Self::with(OfficeConfig::default()).await
    }

    async fn with(config: OfficeConfig) -> Option<Self> {
        let redis = Redis::start().await?;
        let here = Office::sharing(config.clone(), &redis.url()).await;
        let there = Office::sharing(config, &redis.url()).await;
        Some(Self { redis, here, there })
    }

    async fn stop(self) {
        self.here.stop().await;
        self.there.stop().await;
    }
}

fn call(req_id: &str) -> Value {
    json!(["client:tool_call", {
        "computer": "pc", "tool_name": "t", "params": {}, "req_id": req_id, "timeout": 20
    }])
}

async fn join(office: &Office, token: &str, role: Role, name: &str) -> (Raw, Value) {
    let mut raw = office.raw(Seed, token).await;
    let answer = raw.join(role.as_str(), name, "o").await.swap_remove(0);
    (raw, answer)
}

async fn everything(agents: Profile, computers: Profile) {
    let Some(two) = Two::start().await else {
        return;
    };
    let tools = FakeTools::new();
    let config = computer_config(two.there.link(computers, "pc", "o"));
    let (agent, mut listening) = Agent::start(two.here.link(agents, "ann", "o"), &two.here.tasks);
    agent.joined().await.unwrap();
    let members = platform::Tasks::new();
    let computer = Computer::start(config, tools.clone(), &members);
    computer.joined().await.unwrap();
    let pc = || "pc".to_owned();
    news(&mut listening, &News::Entered { computer: pc() }).await;
    let names: Vec<String> = agent
        .tools("pc")
        .await
        .unwrap()
        .into_iter()
        .map(|tool| tool.name)
        .collect();
    assert_eq!(names.len(), 6, "{names:?}");
    assert_eq!(agent.desktop("pc", None, None).await.unwrap().len(), 2);
    assert_eq!(agent.members().await.unwrap().len(), 2);
    let never = CancellationToken::new();
    let ask = |tool: &str, body| Call::new("pc", tool, params(body), Duration::from_secs(20));
    let said = agent
        .call(&ask("one__say", json!({"x": 1})), &never)
        .await
        .unwrap();
    assert_eq!(said.content[0]["text"], "{\"x\":1}");
    let large = agent
        .call(&ask("one__image", json!({})), &never)
        .await
        .unwrap();
    assert!(!large.is_error);
    let refused = agent.call(&ask("one__burn", json!({})), &never).await;
    assert!(refused.unwrap_err().to_string().contains("forbidden"));
    tools.begun.notified().await; // Of the calls before.
    let (cancel, hanging) = (CancellationToken::new(), ask("one__hang", json!({})));
    let (cancelled, ()) = tokio::join!(agent.call(&hanging, &cancel), async {
        tools.begun.notified().await;
        cancel.cancel();
        tools.cancelled.notified().await;
    });
    assert!(cancelled.unwrap().is_error);
    computer.announce(Change::ToolList).await.unwrap();
    news(&mut listening, &News::ToolsChanged { computer: pc() }).await;
    assert_eq!(members.drain(SOON).await, platform::Drained::Clean);
    news(&mut listening, &News::Left { computer: pc() }).await;
    let gone = agent.call(&ask("one__say", json!({})), &never).await;
    assert!(matches!(gone, Err(LinkError::Refused(body)) if body.code == 404));
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_uses_a_computer_of_another_server() {
    everything(Shipped, Shipped).await;
    everything(Seed, Shipped).await;
    everything(Shipped, Seed).await;
}

#[tokio::test]
async fn a_place_is_given_once_on_all_servers() {
    let Some(two) = Two::start().await else {
        return;
    };
    let mut agent = two.here.member(Seed, AgentRole, "ann", "o").await;
    let (_, second) = join(&two.there, "t-bob", AgentRole, "bob").await;
    assert_eq!(second["error"]["code"], 403, "{second}");
    let computer = two.here.member(Seed, ComputerRole, "pc", "o").await;
    let (other, taken) = join(&two.there, "t-mallory", ComputerRole, "pc").await;
    assert_eq!(taken["error"]["code"], 403, "{taken}");
    // The same caller again, while its first connection answers.
    let (_, held) = join(&two.there, "t-pc", ComputerRole, "pc").await;
    assert_eq!(held["error"]["code"], 403, "{held}");
    // Nobody who was refused hears anything.
    agent.hear("notify:enter_office").await;
    computer
        .ask("server:update_mcp_config", json!({"computer": "pc"}))
        .await;
    agent.hear("notify:update_mcp_config").await;
    let leave = json!({"office_id": "o"});
    assert_eq!(
        computer.ask("server:leave_office", leave.clone()).await,
        true
    );
    agent.hear("notify:leave_office").await;
    let mut other = other;
    assert_eq!(other.heard_so_far().await, [""; 0]);
    // A place that was left is free at once, everywhere.
    assert_eq!(other.join("computer", "pc", "o").await[0], true);
    agent.hear("notify:enter_office").await;
    assert_eq!(agent.ask("server:leave_office", leave).await, true);
    let (_bob, joined) = join(&two.there, "t-bob", AgentRole, "bob").await;
    assert_eq!(joined, true);
    two.stop().await;
}

#[tokio::test]
async fn a_silent_member_loses_its_place_to_its_caller_at_another_server() {
    let config = OfficeConfig {
        probe_timeout: Duration::from_millis(200),
        ..OfficeConfig::default()
    };
    let Some(two) = Two::with(config).await else {
        return;
    };
    let mut agent = two.there.member(Seed, AgentRole, "ann", "o").await;
    let silent = two.here.member(Seed, ComputerRole, "pc", "o").await;
    silent.always("notify:still_there", None);
    agent.hear("notify:enter_office").await;
    let back = two.there.member(Seed, ComputerRole, "pc", "o").await;
    back.always("client:tool_call", Some(json!({"content": []})));
    // In this order, or the agent would think that it has gone.
    agent.hear("notify:leave_office").await;
    agent.hear("notify:enter_office").await;
    silent.closed().await;
    let answer = agent.ask_args(&call("r")).await;
    assert_eq!(answer, [json!({"content": []})]);
    assert_eq!(agent.heard_so_far().await, [""; 0]);
    two.stop().await;
}

#[tokio::test]
async fn a_burst_of_calls_between_servers_is_answered_to_the_last() {
    let Some(two) = Two::start().await else {
        return;
    };
    let agent = two.here.member(Shipped, AgentRole, "ann", "o").await;
    let computer = two.there.member(Shipped, ComputerRole, "pc", "o").await;
    let result = json!({"content": [], "isError": false});
    computer.always("client:tool_call", Some(result.clone()));
    let waiting: Vec<_> = (0..500)
        .map(|n| agent.begin(&call(&format!("r{n}"))))
        .collect();
    for answered in waiting {
        let answer = timeout(PATIENCE, answered).await.unwrap().unwrap();
        assert_eq!(answer, std::slice::from_ref(&result));
    }
    two.stop().await;
}

#[tokio::test]
async fn a_computer_that_is_lost_ends_its_calls_at_the_other_server() {
    let Some(two) = Two::start().await else {
        return;
    };
    let agent = two.here.member(Seed, AgentRole, "ann", "o").await;
    let mut computer = two.there.member(Seed, ComputerRole, "pc", "o").await;
    let lost = agent.begin(&call("lost"));
    computer.hear("client:tool_call").await;
    drop(computer);
    let answer = timeout(SOON, lost).await.unwrap().unwrap();
    assert_eq!(answer[0]["error"]["code"], 404, "{answer:?}");
    assert_eq!(answer[0]["error"]["details"]["reason"], "vanished");
    // The one that comes next under this name hears nothing of it.
    let mut next = two.there.member(Seed, ComputerRole, "pc", "o").await;
    assert_eq!(next.heard_so_far().await, [""; 0]);
    two.stop().await;
}

#[tokio::test]
async fn a_call_that_reached_no_computer_is_a_new_one_when_it_is_repeated() {
    let Some(two) = Two::start().await else {
        return;
    };
    let agent = two.here.member(Seed, AgentRole, "ann", "o").await;
    let nobody = agent.ask_args(&call("r")).await;
    assert_eq!(nobody[0]["error"]["code"], 404, "{nobody:?}");
    let mut computer = two.there.member(Seed, ComputerRole, "pc", "o").await;
    let again = agent.begin(&call("r"));
    let called = computer.hear("client:tool_call").await;
    computer.answer(&called, &json!({"content": [], "isError": false}));
    let answer = timeout(SOON, again).await.unwrap().unwrap();
    assert_eq!(answer[0]["isError"], false, "{answer:?}");
    two.stop().await;
}

#[tokio::test]
async fn an_agent_whose_other_name_is_refused_keeps_its_place() {
    let Some(two) = Two::start().await else {
        return;
    };
    let (mut ann, joined) = join(&two.here, "t-ann", AgentRole, "ann").await;
    assert_eq!(joined, true);
    let renamed = ann.join("agent", "anna", "o").await;
    assert_eq!(renamed[0]["error"]["code"], 403, "{renamed:?}");
    let (_bob, refused) = join(&two.there, "t-bob", AgentRole, "bob").await;
    assert_eq!(refused["error"]["code"], 403, "{refused}");
    two.stop().await;
}

#[tokio::test]
async fn a_cancel_never_overtakes_its_call() {
    let Some(two) = Two::start().await else {
        return;
    };
    let mut agent = two.here.member(Shipped, AgentRole, "ann", "o").await;
    let mut computer = two.there.member(Shipped, ComputerRole, "pc", "o").await;
    for n in 0..50 {
        let id = format!("r{n}");
        let answered = agent.begin(&call(&id));
        agent.emit(
            "server:tool_call_cancel",
            &json!({"agent": "ann", "req_id": id}),
        );
        let called = computer.hear("client:tool_call").await;
        assert_eq!(called.body["req_id"], id);
        assert_eq!(
            computer.hear("notify:tool_call_cancel").await.body["req_id"],
            id
        );
        agent.hear("notify:tool_call_cancel").await;
        computer.answer(&called, &json!({"content": [], "isError": true}));
        assert_eq!(
            timeout(SOON, answered).await.unwrap().unwrap()[0]["isError"],
            true
        );
    }
    two.stop().await;
}

/// An agent calls at one server, is cut off, and cancels at the other; the computer's tool ends, wherever it is.
async fn cancelled_after_a_move(two: &Two, computers: &Office) {
    let tools = FakeTools::new();
    let config = computer_config(computers.link(Shipped, "pc", "o"));
    let members = platform::Tasks::new();
    let computer = Computer::start(config, tools.clone(), &members);
    computer.joined().await.unwrap();
    let agent = two.here.member(Shipped, AgentRole, "ann", "o").await;
    let hanging = json!(["client:tool_call", {
        "computer": "pc", "tool_name": "one__hang", "params": {}, "req_id": "r", "timeout": 600
    }]);
    let _unheard = agent.begin(&hanging);
    tools.begun.notified().await;
    drop(agent);
    let back = two.there.member(Shipped, AgentRole, "ann", "o").await;
    let cancel = json!({"agent": "ann", "req_id": "r"});
    back.ask("server:tool_call_cancel", cancel).await;
    let ended = timeout(SOON, tools.cancelled.notified()).await;
    assert!(ended.is_ok(), "the call goes on");
    assert_eq!(members.drain(SOON).await, platform::Drained::Clean);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_comes_back_at_another_server_cancels_its_call() {
    for computers_are_here in [true, false] {
        let Some(two) = Two::start().await else {
            return;
        };
        let computers = if computers_are_here {
            &two.here
        } else {
            &two.there
        };
        cancelled_after_a_move(&two, computers).await;
        two.stop().await;
    }
}

#[tokio::test]
async fn comings_and_goings_at_one_server_are_heard_in_order_at_the_other() {
    let Some(two) = Two::start().await else {
        return;
    };
    let mut agent = two.here.member(Shipped, AgentRole, "ann", "o").await;
    let mut computer = two.there.raw(Shipped, "t-pc").await;
    for _ in 0..100 {
        assert_eq!(computer.join("computer", "pc", "o").await[0], true);
        assert_eq!(agent.hear_any().await, "notify:enter_office");
        computer
            .ask("server:leave_office", json!({"office_id": "o"}))
            .await;
        assert_eq!(agent.hear_any().await, "notify:leave_office");
    }
    for _ in 0..20 {
        let computer = two.there.member(Shipped, ComputerRole, "pc", "o").await;
        assert_eq!(agent.hear_any().await, "notify:enter_office");
        drop(computer);
        assert_eq!(agent.hear_any().await, "notify:leave_office");
    }
    let listed = json!({"agent": "ann", "req_id": "l", "office_id": "o"});
    let room = agent.ask("server:list_room", listed).await;
    assert_eq!(room["sessions"].as_array().unwrap().len(), 1, "{room}");
    two.stop().await;
}

#[tokio::test]
async fn members_of_a_server_that_ends_leave_and_find_their_places_at_the_other() {
    let Some(two) = Two::start().await else {
        return;
    };
    let mut agent = two.here.member(Seed, AgentRole, "ann", "o").await;
    let _computer = two.there.member(Seed, ComputerRole, "pc", "o").await;
    agent.hear("notify:enter_office").await;
    let lost = agent.begin(&call("lost"));
    two.there.stop().await;
    agent.hear("notify:leave_office").await;
    let answer = timeout(SOON, lost).await.unwrap().unwrap();
    assert_eq!(answer[0]["error"]["code"], 404, "{answer:?}");
    let back = two.here.member(Seed, ComputerRole, "pc", "o").await;
    back.always("client:tool_call", Some(json!({"content": []})));
    assert_eq!(agent.ask_args(&call("r")).await, [json!({"content": []})]);
    two.here.stop().await;
}

/// Waits until the agent's calls reach the computer of the other server.
async fn until_reached(agent: &Raw) {
    let mut tries = 0;
    let reached = async {
        loop {
            tries += 1;
            let answer = agent.ask_args(&call(&format!("try{tries}"))).await;
            if answer[0].get("content").is_some() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(SOON, reached)
        .await
        .expect("the servers find each other");
}

#[tokio::test]
async fn without_redis_local_calls_go_on_and_with_it_everything_is_as_before() {
    let Some(mut two) = Two::start().await else {
        return;
    };
    let mut agent = two.here.member(Seed, AgentRole, "ann", "o").await;
    let near = two.here.member(Seed, ComputerRole, "near", "o").await;
    let far = two.there.member(Seed, ComputerRole, "pc", "o").await;
    let result = json!({"content": []});
    near.always("client:tool_call", Some(result.clone()));
    far.always("client:tool_call", Some(result.clone()));
    until_reached(&agent).await;
    two.redis.kill().await;
    for n in 0..20 {
        let body =
            json!({"computer": "near", "tool_name": "t", "params": {}, "req_id": format!("n{n}")});
        assert_eq!(agent.ask("client:tool_call", body).await, result);
    }
    let answer = agent.ask_args(&call("far")).await;
    assert_eq!(
        answer[0]["error"]["details"]["reason"], "unreachable",
        "{answer:?}"
    );
    let (_late, refused) = join(&two.there, "t-late", ComputerRole, "late").await;
    assert_eq!(
        refused["error"]["details"]["reason"], "unreachable",
        "{refused}"
    );
    let gone = two.there.raw(Seed, "t-gone").await;
    drop(gone);
    two.redis.start_again().await;
    until_reached(&agent).await;
    agent.heard_so_far().await;
    loop {
        // The other server may notice a little later.
        let (_, second) = join(&two.there, "t-bob", AgentRole, "bob").await;
        if second["error"]["details"]["reason"] != "unreachable" {
            assert_eq!(second["error"]["code"], 403, "{second}");
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let _late = two.there.member(Seed, ComputerRole, "late", "o").await;
    let entered = agent.hear("notify:enter_office").await;
    assert!(["late", "pc"].contains(&entered.body["computer"].as_str().unwrap()));
    let listed = json!({"agent": "ann", "req_id": "l", "office_id": "o"});
    let room = agent.ask("server:list_room", listed).await;
    assert_eq!(room["sessions"].as_array().unwrap().len(), 4, "{room}");
    two.stop().await;
}

#[tokio::test]
async fn what_a_computer_forbids_later_is_refused_at_the_other_server_too() {
    let Some(two) = Two::start().await else {
        return;
    };
    let mut agent = two.here.member(Seed, AgentRole, "ann", "o").await;
    let computer = two.there.member(Seed, ComputerRole, "pc", "o").await;
    computer.always("client:tool_call", Some(json!({"content": []})));
    let ask =
        |id: &str| json!({"computer": "pc", "tool_name": "one__t", "params": {}, "req_id": id});
    assert_eq!(
        agent.ask("client:tool_call", ask("1")).await,
        json!({"content": []})
    );
    let config =
        json!({"servers": {"one": {"type": "stdio", "command": "x", "forbidden_tools": ["t"]}}});
    computer.always("client:get_mcp_config", Some(config));
    computer
        .ask("server:update_mcp_config", json!({"computer": "pc"}))
        .await;
    agent.hear("notify:update_mcp_config").await;
    let refused = agent.ask("client:tool_call", ask("2")).await;
    assert_eq!(
        refused["error"]["details"]["reason"], "forbidden",
        "{refused}"
    );
    two.stop().await;
}

#[tokio::test]
async fn a_client_need_not_wait_for_the_answer_to_its_join() {
    let Some(two) = Two::start().await else {
        return;
    };
    let computer = two.there.member(Shipped, ComputerRole, "pc", "o").await;
    let result = json!({"content": [], "isError": false});
    computer.always("client:tool_call", Some(result.clone()));
    for n in 0..20 {
        let agent = two.here.raw(Shipped, "t-ann").await;
        let body = json!({"role": "agent", "name": "ann", "office_id": "o"});
        let joined = agent.begin(&json!(["server:join_office", body]));
        let called = agent.begin(&call(&format!("r{n}")));
        let left = agent.begin(&json!(["server:leave_office", {"office_id": "o"}]));
        for (answer, expected) in [
            (joined, json!(true)),
            (called, result.clone()),
            (left, json!(true)),
        ] {
            let answer = timeout(SOON, answer).await.unwrap().unwrap();
            if answer[0] != expected {
                // An agent that leaves takes its calls with it.
                assert_eq!((&answer[0]["code"], &expected), (&json!(403), &result));
            }
        }
    }
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_sent_behind_a_join_that_takes_long_is_answered() {
    let Some(two) = Two::start().await else {
        return;
    };
    let computer = two.there.member(Shipped, ComputerRole, "pc", "o").await;
    let result = json!({"content": [], "isError": false});
    computer.always("client:tool_call", Some(result.clone()));
    let agent = two.here.raw(Shipped, "t-ann").await;
    two.redis.signal("-STOP").await;
    let body = json!({"role": "agent", "name": "ann", "office_id": "o"});
    let joined = agent.begin(&json!(["server:join_office", body]));
    let mut calls: Vec<_> = (0..2600)
        .map(|n| agent.begin(&call(&format!("r{n}"))))
        .collect();
    // What cannot wait is refused at once, and in words.
    let last = timeout(SOON, calls.pop().unwrap()).await.unwrap().unwrap();
    assert_eq!(last[0]["details"]["reason"], "rate", "{last:?}");
    two.redis.signal("-CONT").await;
    assert_eq!(timeout(SOON, joined).await.unwrap().unwrap()[0], true);
    let mut carried_out = 0;
    for (n, answered) in calls.into_iter().enumerate() {
        let answer = timeout(PATIENCE, answered).await;
        let answer = answer.unwrap_or_else(|_| panic!("call {n} is never answered"));
        match &answer.unwrap()[0] {
            answer if *answer == result => carried_out += 1,
            refused => assert_eq!(refused["code"], 403, "{refused}"),
        }
    }
    assert!(carried_out >= 512, "{carried_out}");
    two.stop().await;
}

#[tokio::test]
async fn progress_of_a_call_is_heard_at_the_other_server() {
    let Some(two) = Two::start().await else {
        return;
    };
    let mut agent = two.here.member(Shipped, AgentRole, "ann", "o").await;
    let mut computer = two.there.member(Shipped, ComputerRole, "pc", "o").await;
    let answered = agent.begin(&call("r1"));
    let called = computer.hear("client:tool_call").await;
    let said = json!({"req_id": "r1", "progress": 1, "message": "half way"});
    computer.ask("server:tool_call_progress", said).await;
    let heard = agent.hear("notify:tool_call_progress").await.body;
    assert_eq!(
        (&heard["computer"], &heard["message"]),
        (&json!("pc"), &json!("half way"))
    );
    computer.answer(&called, &json!({"content": [], "isError": false}));
    timeout(SOON, answered).await.unwrap().unwrap();
    two.stop().await;
}
