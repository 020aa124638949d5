//! Who may do what: without a name nothing but cards, without a right no agent, and nobody sees the tasks of others.

use std::collections::BTreeSet;

use engine::Rights;

use super::*;
use crate::PublicAgents;

fn caller(name: &str, rights: &[&str]) -> Caller {
    Caller {
        name: name.to_owned(),
        rights: Rights::Only(
            rights
                .iter()
                .map(|it| (*it).to_owned())
                .collect::<BTreeSet<_>>(),
        ),
    }
}

/// The same node for somebody else.
async fn as_caller(scene: &Scene, config: A2aConfig, caller: Option<Caller>) -> (Scene, TempDir) {
    let other = tempfile::tempdir().unwrap();
    let (tasks, engine) = (scene.tasks.clone(), scene.engine.clone());
    let home = tempfile::tempdir().unwrap();
    (
        Scene::serve(home, tasks, engine, config, Vec::new(), caller).await,
        other,
    )
}

#[tokio::test]
async fn a_task_of_somebody_else_is_as_good_as_not_there() {
    let scene = Scene::new().await;
    let task = scene.send("say secret").await;
    let id = json!({ "id": task["id"] });
    let (mine, _home) = as_caller(&scene, config(), Some(caller("me", &["a2a"]))).await;
    assert_eq!(
        mine.call("GetTask", id.clone()).await["error"]["code"],
        -32001
    );
    assert_eq!(mine.call("CancelTask", id).await["error"]["code"], -32001);
    assert_eq!(
        mine.call("ListTasks", json!({})).await["result"]["totalSize"],
        0
    );
    let own = mine.send("say mine").await;
    assert_eq!(text(&mine.get(&own).await), "mine");
    let (owner, _home) = as_caller(&scene, config(), Some(Caller::owner())).await;
    assert_eq!(text(&owner.get(&own).await), "mine", "the owner sees all");
}

#[tokio::test]
async fn without_a_token_there_are_cards_and_without_a_right_no_agent() {
    let scene = Scene::new().await;
    for (who, status) in [
        (None, 401),
        (Some(caller("me", &["a2a:other"])), 403),
        (Some(caller("me", &["a2a:tck"])), 200),
    ] {
        let (there, _home) = as_caller(&scene, config(), who).await;
        let post = |path: &str| {
            let request = there.http.post(format!("{}/a2a/{path}", there.url));
            request
                .header("a2a-version", "1.0")
                .json(&send("say x"))
                .send()
        };
        assert_eq!(post("tck/message:send").await.unwrap().status(), status);
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks" });
        let rpc = there.http.post(format!("{}/a2a/tck", there.url));
        let rpc = rpc
            .header("a2a-version", "1.0")
            .json(&body)
            .send()
            .await
            .unwrap();
        assert_eq!(rpc.status(), status);
        let card = there
            .http
            .get(format!("{}/.well-known/agent-card.json", there.url));
        assert_eq!(card.send().await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn a_stranger_learns_how_to_reach_what_it_names_and_a_caller_which_agents_there_are() {
    let scene = Scene::new().await;
    let home = scene.home.path().to_owned();
    scripted::add_agent(&scene.engine, &home, "two", json!({ "url": "script:" })).await;
    let read = async |who: Option<Caller>, path: &str| {
        let (there, _home) = as_caller(&scene, config(), who).await;
        let answer = there.http.get(format!("{}{path}", there.url)).send().await;
        let answer = answer.unwrap();
        let cache = answer.headers()["cache-control"].to_str().unwrap();
        (cache.to_owned(), answer.json::<Value>().await.unwrap())
    };
    let skills = |card: &Value| -> Vec<String> {
        let skills = card["skills"].as_array().unwrap().iter();
        skills
            .map(|skill| skill["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let node = "/.well-known/agent-card.json";
    let (cache, card) = read(None, node).await;
    assert_eq!(skills(&card), ["agents"]);
    assert!(cache.starts_with("public"), "{cache}");
    assert!(!card.to_string().contains("tck"), "{card}");
    assert!(card["securitySchemes"].is_object(), "{card}");
    let (cache, card) = read(Some(caller("me", &["a2a:two"])), node).await;
    assert_eq!(skills(&card), ["two"]);
    assert!(cache.starts_with("private"), "{cache}");
    assert_eq!(
        skills(&read(Some(caller("me", &[])), node).await.1),
        ["agents"]
    );
    let agent = "/a2a/two/.well-known/agent-card.json";
    for who in [None, Some(caller("me", &[])), Some(Caller::owner())] {
        let (_, card) = read(who, agent).await;
        assert_eq!(
            (&card["name"], skills(&card)),
            (&json!("two"), vec!["two".to_owned()])
        );
        assert!(!card.to_string().contains("backend:"), "{card}");
    }
}

#[tokio::test]
async fn an_agent_that_is_not_public_is_not_there() {
    let scene = Scene::new().await;
    let hidden = A2aConfig {
        public: PublicAgents::Only(BTreeSet::from(["other".to_owned()])),
        ..config()
    };
    let (there, _home) = as_caller(&scene, hidden, Some(Caller::owner())).await;
    let request = there
        .http
        .post(format!("{}/a2a/tck/message:send", there.url));
    let answer = request
        .header("a2a-version", "1.0")
        .json(&send("say x"))
        .send()
        .await;
    assert_eq!(answer.unwrap().status(), 404);
    let card = there
        .http
        .get(format!("{}/a2a/tck/.well-known/agent-card.json", there.url));
    assert_eq!(card.send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn the_node_passes_a_message_to_the_agent_it_names() {
    let scene = Scene::new().await;
    let home = scene.home.path().to_owned();
    scripted::add_agent(&scene.engine, &home, "two", json!({ "url": "script:" })).await;
    let url = format!("{}/a2a/-/message:send", scene.url);
    let post = async |body: Value| -> Value {
        let request = scene.http.post(&url).header("a2a-version", "1.0");
        request
            .json(&body)
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap()
    };
    let unclear = post(send("say x")).await;
    assert!(
        unclear["error"]["message"]
            .as_str()
            .unwrap()
            .contains("tck, two"),
        "{unclear}"
    );
    let mut named = send("say x");
    named["message"]["metadata"] = json!({ "agent": "two" });
    assert_eq!(text(&post(named).await["task"]), "x");
    let mut tenant = send("say y");
    tenant["tenant"] = json!("tck");
    assert_eq!(text(&post(tenant).await["task"]), "y");
}
