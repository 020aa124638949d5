//! Tasks outlive the daemon.

use super::*;

#[tokio::test]
async fn tasks_survive_a_restart_each_in_its_own_way() {
    let scene = Scene::new().await;
    let done = scene.send("say kept").await;
    let asking = scene.send("ask still there?").await;
    let mut params = send("wait for ever");
    params["configuration"] = json!({ "returnImmediately": true });
    let running = scene.call("SendMessage", params).await["result"]["task"].clone();
    while state(&scene.get(&running).await) != "TASK_STATE_WORKING" {
        tokio::task::yield_now().await;
    }

    let scene = scene.restart().await;
    assert_eq!(text(&scene.get(&done).await), "kept");
    let waits = scene.get(&asking).await;
    assert_eq!(state(&waits), "TASK_STATE_INPUT_REQUIRED");
    let listed = scene.call("ListTasks", json!({})).await;
    assert_eq!(listed["result"]["totalSize"], 3);

    let interrupted = loop {
        let now = scene.get(&running).await;
        if state(&now) != "TASK_STATE_WORKING" {
            break now;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(state(&interrupted), "TASK_STATE_FAILED");
    let words = interrupted["status"]["message"]["parts"][0]["text"]
        .as_str()
        .unwrap();
    assert!(words.contains("daemon ended"), "{words}");

    // The turn that asked is gone; the answer begins another in the same conversation.
    let answered = scene.answer(&asking, "yes").await;
    assert_eq!(state(&answered), "TASK_STATE_COMPLETED");
    assert_eq!(answered["history"].as_array().map(Vec::len), Some(3));
    assert_eq!(turns_in_the_session_of(&scene, &asking).await, 2);
}

/// How many turns were taken in the conversation that a task belongs to.
async fn turns_in_the_session_of(scene: &Scene, task: &Value) -> u64 {
    let id = task["id"].as_str().unwrap();
    let kept = scene.engine.records().get::<Value>("a2a-task", id).await;
    let session = kept.unwrap().unwrap().value["session"].clone();
    let view = scene.engine.sessions().get(session.as_str().unwrap()).await;
    view.unwrap().turns
}

#[tokio::test]
async fn a_permission_that_is_given_after_a_restart_holds_for_what_was_asked() {
    let scene = Scene::new().await;
    let asking = scene.send("permission write a").await;
    assert_eq!(state(&asking), "TASK_STATE_AUTH_REQUIRED");
    let scene = scene.restart().await;

    // What is no answer is none after a restart either.
    let mut params = send("perhaps");
    params["message"]["taskId"] = asking["id"].clone();
    let refused = scene.call("SendMessage", params).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");

    let done = scene.answer(&asking, "yes").await;
    assert_eq!(state(&done), "TASK_STATE_COMPLETED");
    assert!(text(&done).starts_with("chosen at last: "), "{done}");
}

/// Of every kind so many.
const EACH: usize = 50;

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_in_the_middle_of_many_tasks_loses_none_and_keeps_their_order() {
    let scene = Scene::new().await;
    let begin = async |words: String, context: String| {
        let mut params = send(&words);
        params["message"]["contextId"] = json!(context);
        params["configuration"] = json!({ "returnImmediately": true });
        scene.call("SendMessage", params).await["result"]["task"].clone()
    };
    let (mut done, mut asking, mut halted, mut queued) = (vec![], vec![], vec![], vec![]);
    for number in 0..EACH {
        done.push(begin(format!("say a b {number}"), format!("done-{number}")).await);
        asking.push(begin(format!("ask {number}?"), format!("asking-{number}")).await);
        halted.push(begin(format!("halt c d {number}"), format!("halted-{number}")).await);
        // Two that wait for the one that asks.
        for place in 1..=2 {
            let words = format!("say {number} is {place}");
            queued.push(begin(words, format!("asking-{number}")).await);
        }
    }
    let until = async |scene: &Scene, state: &str, count: usize| {
        let list = json!({ "status": state, "pageSize": 1 });
        while scene.call("ListTasks", list.clone()).await["result"]["totalSize"] != count {
            tokio::task::yield_now().await;
        }
    };
    until(&scene, "TASK_STATE_COMPLETED", EACH).await;
    until(&scene, "TASK_STATE_INPUT_REQUIRED", EACH).await;
    for (number, task) in halted.iter().enumerate() {
        while text(&scene.get(task).await) != format!("c d {number}") {
            tokio::task::yield_now().await;
        }
    }

    let scene = scene.restart().await;
    until(&scene, "TASK_STATE_FAILED", EACH).await;
    let listed = scene.call("ListTasks", json!({ "pageSize": 1 })).await;
    assert_eq!(listed["result"]["totalSize"], 5 * EACH);
    for (number, task) in done.iter().enumerate() {
        assert_eq!(text(&scene.get(task).await), format!("a b {number}"));
    }
    for (number, task) in halted.iter().enumerate() {
        let task = scene.get(task).await;
        assert_eq!(text(&task), format!("c d {number}"), "{task}");
        assert!(task["status"]["message"].is_object(), "{task}");
    }
    for task in &queued {
        assert_eq!(state(&scene.get(task).await), "TASK_STATE_SUBMITTED");
    }
    for (number, task) in asking.iter().enumerate() {
        let task = scene.answer(task, "yes").await;
        assert_eq!(state(&task), "TASK_STATE_COMPLETED", "{number}: {task}");
    }
    until(&scene, "TASK_STATE_COMPLETED", 4 * EACH).await;
    for (index, task) in queued.chunks(2).enumerate() {
        let (first, second) = (scene.get(&task[0]).await, scene.get(&task[1]).await);
        assert_eq!(text(&first), format!("{index} is 1"));
        assert_eq!(text(&second), format!("{index} is 2"));
        let at = |task: &Value| task["status"]["timestamp"].as_str().unwrap().to_owned();
        assert!(at(&first) <= at(&second), "{first} {second}");
    }
}

#[tokio::test]
async fn a_webhook_hears_of_the_end_although_the_daemon_was_restarted() {
    let scene = Scene::new().await;
    let hook = push_tests::Hook::new(&Tasks::new()).await;
    let mut params = send("wait for ever");
    params["configuration"] = json!({
        "returnImmediately": true,
        "taskPushNotificationConfig": { "url": hook.url, "token": "t" },
    });
    let task = scene.call("SendMessage", params).await["result"]["task"].clone();
    hook.wait_for("TASK_STATE_WORKING").await;
    let scene = scene.restart().await;
    hook.wait_for("TASK_STATE_FAILED").await;
    assert_eq!(state(&scene.get(&task).await), "TASK_STATE_FAILED");
}
