//! Many agents at once.

use serde_json::json;

use crate::node;

#[test]
fn a_hundred_agents_start_and_stop_in_parallel() {
    let daemon = node().start();
    daemon.script_template("sleeper", "exec sleep 1000");
    let threads = 10;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let daemon = &daemon;
            scope.spawn(move || {
                let mut client = daemon.client();
                let names: Vec<String> = (0..10).map(|n| format!("a{thread}-{n}")).collect();
                for name in &names {
                    client.ok("agent.create", json!({"name": name, "template": "sleeper"}));
                }
                // All ten requests are under way at once on one connection.
                for method in ["agent.start", "agent.stop"] {
                    for name in &names {
                        client.send_line(
                            &json!({"jsonrpc": "2.0", "id": name, "method": method, "params": {"name": name}}).to_string(),
                        );
                    }
                    let expected = if method == "agent.start" { "running" } else { "stopped" };
                    for _ in &names {
                        assert_eq!(client.receive()["result"]["status"], expected);
                    }
                }
            });
        }
    });
    assert_eq!(daemon.client().ok("daemon.ping", json!({}))["agents"], 100);
    assert_eq!(daemon.agent_processes(), Vec::<u32>::new());
}

#[test]
fn a_thousand_agents_are_created_listed_recovered_and_destroyed() {
    let mut daemon = node().start();
    daemon.template("plain", json!({"backend": {"type": "builtin"}}));
    let mut client = daemon.client();
    for n in 0..1000 {
        client.ok(
            "agent.create",
            json!({"name": format!("a{n}"), "template": "plain"}),
        );
    }
    assert_eq!(
        client.ok("agent.list", json!({})).as_array().unwrap().len(),
        1000
    );
    daemon.kill();
    daemon.start();
    let mut client = daemon.client();
    assert_eq!(
        client.ok("agent.list", json!({})).as_array().unwrap().len(),
        1000
    );
    for n in 0..1000 {
        client.ok("agent.destroy", json!({"name": format!("a{n}")}));
    }
    assert_eq!(client.ok("agent.list", json!({})), json!([]));
    assert_eq!(
        std::fs::read_dir(daemon.home().join("instances"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn two_clients_that_create_the_same_name_do_not_meet() {
    let daemon = node().start();
    daemon.template("plain", json!({"backend": {"type": "builtin"}}));
    for round in 0..10 {
        let name = format!("twin{round}");
        let wins: usize = std::thread::scope(|scope| {
            let tries: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let created = daemon
                            .client()
                            .call("agent.create", json!({"name": name, "template": "plain"}));
                        usize::from(created.is_ok())
                    })
                })
                .collect();
            tries.into_iter().map(|one| one.join().unwrap()).sum()
        });
        assert_eq!(wins, 1, "{name}");
    }
}
