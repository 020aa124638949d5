//! Many tasks and slow readers.

use futures_util::future::join_all;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_tasks_at_once_come_to_their_end() {
    let scene = Scene::new().await;
    let tasks = join_all((0..1000).map(|number| {
        let scene = &scene;
        async move {
            let mut params = send(&format!("say {number}"));
            params["configuration"] = json!({ "returnImmediately": true });
            scene.call("SendMessage", params).await["result"]["task"].clone()
        }
    }))
    .await;
    let list = json!({ "status": "TASK_STATE_COMPLETED", "pageSize": 1 });
    while scene.call("ListTasks", list.clone()).await["result"]["totalSize"] != 1000 {
        tokio::task::yield_now().await;
    }
    for (number, task) in tasks.iter().enumerate().step_by(97) {
        assert_eq!(text(&scene.get(task).await), number.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_does_not_read_holds_up_nobody_and_still_learns_the_end() {
    let scene = Scene::new().await;
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": send("flood 5000"),
    });
    let request = scene.http.post(format!("{}/a2a/tck", scene.url));
    let mut slow = request
        .header("a2a-version", "1.0")
        .json(&body)
        .send()
        .await
        .unwrap();
    let first = slow.chunk().await.unwrap().unwrap();
    let first = String::from_utf8_lossy(&first).into_owned();
    let id = first
        .split("\"id\":\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let task = json!({ "id": id.unwrap() });
    // The task ends while nobody reads.
    let quick = loop {
        let now = scene.get(&task).await;
        if state(&now) == "TASK_STATE_COMPLETED" {
            break now;
        }
        tokio::task::yield_now().await;
    };
    assert!(text(&quick).len() > 4 * 1024 * 1024);
    let mut rest = first;
    while let Some(chunk) = slow.chunk().await.unwrap() {
        rest.push_str(&String::from_utf8_lossy(&chunk));
    }
    let last = rest.lines().rfind(|line| line.starts_with("data: "));
    assert!(last.unwrap().contains("TASK_STATE_COMPLETED"));
}
