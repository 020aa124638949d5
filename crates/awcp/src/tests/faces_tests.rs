//! The daemon's API, and lending as an agent.

use domain::{Name, delegation::Phase, turn::Stop};
use engine::{Caller, Create as CreateAgent, Overrides, Rights, RunAgent, TurnOptions};
use serde_json::{Value, json};

use super::scene::{HERE, Scene, create, load, names, read};

async fn call(method: reqwest::Method, url: String, body: Option<Value>) -> (u16, Value) {
    let mut request = reqwest::Client::new().request(method, url);
    if let Some(body) = body {
        request = request.json(&body);
    }
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    (status, response.json().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_makes_waits_audits_undoes_and_prunes() {
    let (host, remote) = (Scene::new(|_| {}).await, Scene::new(|_| {}).await);
    let dir = host.workspace(&[("a", "1")]);
    let (get, post) = (reqwest::Method::GET, reqwest::Method::POST);
    let at = |path: &str| format!("{}/delegations{path}", host.url);
    let body =
        json!({ "peerUrl": remote.url, "dir": dir, "prompt": "write a 2", "background": true });
    let (status, made) = call(post.clone(), at(""), Some(body)).await;
    assert_eq!(status, 200, "{made}");
    let id = made["id"].as_str().unwrap();
    let (_, view) = call(get.clone(), at(&format!("/{id}/wait?timeout=60")), None).await;
    assert_eq!(
        (&view["state"], view["ending"].is_object()),
        (&json!("completed"), true),
        "{view}"
    );
    let (_, audit) = call(get.clone(), at(&format!("/{id}/audit")), None).await;
    assert_eq!(
        audit["changes"],
        json!([{ "change": "changed", "path": "a" }])
    );
    let (status, _) = call(post.clone(), at(&format!("/{id}/undo")), None).await;
    assert_eq!((status, read(&dir, "a")), (200, "1".to_owned()));
    let (_, pruned) = call(post.clone(), at("/prune"), None).await;
    assert_eq!(pruned, json!({ "removed": 1 }));
    assert_eq!(
        names(&host.home.path().join("node/lending/audits")),
        [""; 0]
    );
    let (status, missing) = call(get.clone(), at("/dlg_none"), None).await;
    assert_eq!(status, 404, "{missing}");
    let (_, all) = call(get, at(""), None).await;
    assert_eq!(all["delegations"].as_array().unwrap().len(), 1);
    let body = json!({ "peerUrl": remote.url, "dir": "relative", "prompt": "x" });
    let (status, _) = call(post, at(""), Some(body)).await;
    assert_eq!(status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_does_the_next_round_is_told_what_was_said_in_those_before() {
    let (host, remote) = (Scene::new(|_| {}).await, Scene::new(|_| {}).await);
    let dir = host.workspace(&[("a", "1")]);
    let first = host.lend_on(create(&remote, &dir, "call it plum")).await;
    let go_on = async |id: &str, prompt: &str| {
        let next = host.delegations.go_on(id, prompt.to_owned()).await;
        host.ended(&next.unwrap().to_string()).await
    };
    let said = |view: &crate::DelegationView| match &view.ending {
        Some(domain::delegation::Ending::Completed(report)) => report.summary.clone(),
        _ => panic!("{view:?}"),
    };
    let second = go_on(&first.id, "what is it called").await;
    let text = said(&second);
    assert!(text.starts_with("what is it called"), "{text}");
    assert!(text.contains("> call it plum"), "{text}");
    assert_eq!(second.task, "what is it called");
    let third = go_on(&second.id, "and now").await;
    let text = said(&third);
    let at = |words: &str| {
        text.find(words)
            .unwrap_or_else(|| panic!("{words}: {text}"))
    };
    assert!(at("and now") < at("> call it plum"), "{text}");
    assert!(at("> call it plum") < at("> what is it called"), "{text}");
    // A command is nothing but itself.
    let command = go_on(&third.id, "/compact").await;
    assert_eq!(said(&command), "/compact");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_its_folder_is_taken_back_when_whoever_asked_for_it_leaves() {
    let (host, remote) = (Scene::new(|_| {}).await, Scene::new(|_| {}).await);
    let dir = host.workspace(&[("a", "1")]);
    let first = host.lend(create(&remote, &dir, "pause\nwrite a 2")).await;
    remote.saw("pausing").await;
    let at = format!("{}/delegations", host.url);
    let body = |background: bool| {
        json!({ "peerUrl": remote.url, "dir": dir, "prompt": "write a 3",
            "transports": ["archive"], "background": background })
    };
    let (_, kept) = call(reqwest::Method::POST, at.clone(), Some(body(true))).await;
    let waiting = tokio::spawn(call(reqwest::Method::POST, at, Some(body(false))));
    let asked = loop {
        let views = host.delegations.list().await.unwrap();
        let known = |id: &str| id == first || id == kept["id"];
        match views.into_iter().find(|view| !known(&view.id)) {
            Some(view) => break view.id,
            None => tokio::task::yield_now().await,
        }
    };
    waiting.abort();
    let view = host.ended(&asked).await;
    assert_eq!(view.state, Phase::Cancelled, "{view:?}");
    let words = &view.ending.as_ref().unwrap().failure().unwrap().message;
    assert!(words.contains("left"), "{words}");
    // What was to go on without anybody does.
    let queued = host.delegations.get(kept["id"].as_str().unwrap()).await;
    assert_eq!(queued.unwrap().state, Phase::Created);
    remote.seen.send_modify(|seen| seen.push("go".to_owned()));
    host.ended(&first).await;
    let view = host.ended(kept["id"].as_str().unwrap()).await;
    assert_eq!(
        (view.state, read(&dir, "a")),
        (Phase::Completed, "3".to_owned())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_without_the_right_are_turned_away() {
    let host = Scene::new(|_| {}).await;
    let peer = Caller {
        name: "peer".to_owned(),
        rights: Rights::Only(["runs".to_owned()].into()),
    };
    assert!(!crate::Delegations::permits(Some(&peer)));
    assert!(!crate::Delegations::permits(None));
    assert!(crate::Delegations::permits(Some(&Caller::owner())));
    let done =
        json!({ "awcp": { "type": "DONE", "delegation_id": "dlg_x", "final_summary": "s" } });
    let answer = host
        .delegations
        .handle_message(&done, &peer, HERE)
        .await
        .unwrap();
    assert_eq!(answer["awcp"]["code"], "AUTH_FAILED");
    let inviter = Caller {
        name: "inviter".to_owned(),
        rights: Rights::Only([crate::INVITE_RIGHT.to_owned()].into()),
    };
    assert!(
        !crate::Delegations::permits(Some(&inviter)),
        "it may not lend our folders"
    );
    let answer = host.delegations.handle_message(&done, &inviter, HERE).await;
    assert_eq!(
        answer.unwrap()["awcp"]["code"],
        "AUTH_FAILED",
        "nor end what is not its own"
    );
    let invite = json!({ "awcp": {
        "version": "1", "type": "INVITE", "delegation_id": "d-1",
        "task": { "description": "d", "prompt": "wait" },
        "lease": { "ttl_seconds": 60, "access_mode": "rw" },
        "workspace": { "export_name": "w" },
        "requirements": { "transport": "archive" },
    }});
    let answer = host
        .delegations
        .handle_message(&invite, &inviter, HERE)
        .await;
    assert_eq!(answer.unwrap()["awcp"]["type"], "ACCEPT");
    let other = host
        .delegations
        .handle_message(&json!({ "text": "hello" }), &peer, HERE)
        .await;
    assert_eq!(other, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_turns_are_delegations_works_in_its_own_folder() {
    let (host, remote) = (Scene::new(|_| {}).await, Scene::new(|_| {}).await);
    let config = json!({ "url": remote.url, "transport": "archive" });
    load(
        &host.engine,
        host.home.path(),
        "lender",
        "delegation",
        config,
    )
    .await;
    let name = Name::parse("lender-1").unwrap();
    let made = host.engine.create(CreateAgent {
        name: name.clone(),
        template: "lender".to_owned(),
        overrides: Overrides::default(),
    });
    let dir = made.await.unwrap().workspace_dir.clone();
    let run = RunAgent {
        name,
        prompt: "write result.txt from afar\nall done".to_owned(),
        options: TurnOptions::default(),
        session: None,
        by: None,
    };
    let result = host.engine.run(run).await.unwrap();
    assert_eq!(
        (result.stop, result.text.as_str()),
        (Stop::EndTurn, "all done")
    );
    assert_eq!(read(dir.as_ref(), "result.txt"), "from afar");
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_of_the_released_implementation_lend_through_its_daemons_api() {
    let (host, remote) = (Scene::new(|_| {}).await, Scene::new(|_| {}).await);
    let dir = host.workspace(&[("a", "1")]);
    let (get, post) = (reqwest::Method::GET, reqwest::Method::POST);
    let at = |path: &str| format!("{}/awcp/daemon/good{path}", host.url);
    let task = |prompt: &str| json!({ "description": "d", "prompt": prompt });
    let resource = json!({ "name": "app", "type": "fs", "source": dir, "mode": "rw" });
    let wish = |resources: Value| {
        json!({
            "executorUrl": remote.url, "environment": { "resources": resources },
            "task": task("write a 2"), "ttlSeconds": 60, "snapshotMode": "staged",
        })
    };
    let (_, health) = call(get.clone(), at("/health"), None).await;
    assert_eq!(health, json!({ "status": "ok" }));
    let (status, made) = call(post.clone(), at("/delegate"), Some(wish(json!([resource])))).await;
    assert_eq!(status, 200, "{made}");
    let id = made["delegationId"].as_str().unwrap().to_owned();
    let one = |path: &str| at(&format!("/delegation/{id}{path}"));
    host.ended(&id).await;
    let (_, record) = call(get.clone(), one(""), None).await;
    assert_eq!(record["state"], "completed", "{record}");
    assert_eq!(
        record["environment"]["resources"][0]["source"],
        json!(dir),
        "{record}"
    );
    let (_, waiting) = call(get.clone(), one("/snapshots"), None).await;
    let snapshot = &waiting["snapshots"][0];
    assert_eq!(snapshot["status"], "pending", "{waiting}");
    let snapshot = snapshot["id"].as_str().unwrap();
    let (status, _) = call(post.clone(), one("/snapshots/snap_0/apply"), None).await;
    assert_eq!((status, read(&dir, "a")), (404, "1".to_owned()));
    let apply = one(&format!("/snapshots/{snapshot}/apply"));
    let (status, applied) = call(post.clone(), apply, None).await;
    assert_eq!(
        (status, read(&dir, "a")),
        (200, "2".to_owned()),
        "{applied}"
    );
    // The next round is told under the same id.
    let next = json!({ "task": task("write a 3") });
    let (_, next) = call(post.clone(), one("/continue"), Some(next)).await;
    assert_eq!(next, json!({ "ok": true, "round": 2 }));
    let all = host.delegations.list().await.unwrap();
    let second = all.iter().find(|it| it.continues.as_ref() == Some(&id));
    host.ended(&second.unwrap().id).await;
    let (_, record) = call(get.clone(), one(""), None).await;
    assert_eq!(
        (
            &record["id"],
            &record["currentRound"],
            &record["rounds"][1]["number"]
        ),
        (&json!(id), &json!(2), &json!(2)),
        "{record}"
    );
    let (status, _) = call(post.clone(), one("/close"), None).await;
    assert_eq!((status, read(&dir, "a")), (200, "2".to_owned()));
    let (_, record) = call(get.clone(), one(""), None).await;
    assert_eq!(record["snapshots"][1]["status"], "discarded", "{record}");
    let (_, all) = call(get.clone(), at("/delegations"), None).await;
    assert_eq!(
        (
            &all["activeDelegations"],
            all["delegations"].as_array().unwrap().len()
        ),
        (&json!(0), 1),
        "{all}"
    );
    host.gave_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn its_daemons_api_is_for_callers_with_the_right_and_refuses_in_its_words() {
    let host = Scene::new(|_| {}).await;
    let dir = host.workspace(&[("a", "1"), (".env", "KEY=1")]);
    let (get, post) = (reqwest::Method::GET, reqwest::Method::POST);
    let delegate = |resources: Value| {
        let environment = json!({ "resources": resources });
        let task = json!({ "description": "d", "prompt": "p" });
        json!({ "executorUrl": host.url, "environment": environment, "task": task })
    };
    let resource = json!({ "name": "app", "type": "fs", "source": dir, "mode": "rw" });
    for place in ["/awcp/daemon", "/awcp/daemon/wrong"] {
        let url = format!("{}{place}", host.url);
        let (status, refused) = call(get.clone(), format!("{url}/delegations"), None).await;
        assert_eq!(
            (status, &refused["code"]),
            (401, &json!("AUTH_FAILED")),
            "{refused}"
        );
        let wish = delegate(json!([resource]));
        let (status, _) = call(post.clone(), format!("{url}/delegate"), Some(wish)).await;
        assert_eq!(status, 401, "{place}");
    }
    let at = |path: &str| format!("{}/awcp/daemon/good{path}", host.url);
    let relative = json!({ "name": "app", "type": "fs", "source": "app", "mode": "rw" });
    for (resources, code) in [
        (json!([resource]), "DECLINED"),
        (json!([resource, resource]), "WORKSPACE_INVALID"),
        (json!([relative]), "WORKSPACE_INVALID"),
    ] {
        let wish = Some(delegate(resources));
        let (status, refused) = call(post.clone(), at("/delegate"), wish).await;
        assert_eq!((status, &refused["code"]), (400, &json!(code)), "{refused}");
    }
    let (status, _) = call(get, at("/delegation/dlg_none"), None).await;
    assert_eq!(status, 404);
    assert_eq!(host.delegations.list().await.unwrap(), []);
}
