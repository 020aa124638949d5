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
    let sessions = scene.engine.sessions().list(None);
    assert!(
        sessions.iter().any(|session| session.turns == 2),
        "{sessions:?}"
    );
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
