//! The daemon's API, and lending as an agent.

use domain::{Name, turn::Stop};
use engine::{Caller, Create as CreateAgent, Overrides, Rights, RunAgent, TurnOptions};
use serde_json::{Value, json};

use super::scene::{Scene, load, names, read};

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
    let answer = host.delegations.handle_message(&done, &peer).await.unwrap();
    assert_eq!(answer["awcp"]["code"], "AUTH_FAILED");
    let inviter = Caller {
        name: "inviter".to_owned(),
        rights: Rights::Only([crate::INVITE_RIGHT.to_owned()].into()),
    };
    assert!(
        !crate::Delegations::permits(Some(&inviter)),
        "it may not lend our folders"
    );
    let answer = host.delegations.handle_message(&done, &inviter).await;
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
    let answer = host.delegations.handle_message(&invite, &inviter).await;
    assert_eq!(answer.unwrap()["awcp"]["type"], "ACCEPT");
    let other = host
        .delegations
        .handle_message(&json!({ "text": "hello" }), &peer)
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
