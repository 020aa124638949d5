//! Many tasks at once, subscribers that come and go, and readers that are slow: order is kept and nothing is lost.

use std::collections::VecDeque;

use futures_util::{
    StreamExt,
    future::{join, join_all},
    stream,
};

use super::*;

/// Requests under way at once: each takes two sockets of this process.
const AT_ONCE: usize = 64;

/// Somebody who follows a task, with what they have heard of it.
pub(super) struct Subscriber {
    response: reqwest::Response,
    /// What has come and is not taken in.
    lines: VecDeque<String>,
    /// The begin of a line whose end has not come.
    rest: Vec<u8>,
    pub(super) text: String,
    pub(super) state: String,
}

impl Subscriber {
    pub(super) async fn new(scene: &Scene, method: &str, params: Value) -> Self {
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let request = scene
            .http
            .post(format!("{}/a2a/tck", scene.url))
            .header("a2a-version", "1.0")
            .timeout(10 * PATIENCE);
        Self {
            response: request.json(&body).send().await.unwrap(),
            lines: VecDeque::new(),
            rest: Vec::new(),
            text: String::new(),
            state: String::new(),
        }
    }

    async fn of(scene: &Scene, task: &Value) -> Self {
        let mut subscriber = Self::new(scene, "SubscribeToTask", json!({ "id": task["id"] })).await;
        let first = subscriber.next().await.unwrap();
        assert!(first["task"].is_object(), "{first}");
        subscriber
    }

    /// The next event, taken in; nothing once the stream is over.
    pub(super) async fn next(&mut self) -> Option<Value> {
        let event = loop {
            if let Some(line) = self.lines.pop_front() {
                match line.strip_prefix("data: ") {
                    Some(event) => break event.to_owned(),
                    None => continue, // The end of an event, or a sign of life.
                }
            }
            let chunk = self.response.chunk().await.unwrap()?;
            let mut pieces = chunk.split(|byte| *byte == b'\n');
            self.rest.extend(pieces.next().unwrap_or_default());
            for piece in pieces {
                let line = std::mem::replace(&mut self.rest, piece.to_vec());
                self.lines.push_back(String::from_utf8(line).unwrap());
            }
        };
        let event: Value = serde_json::from_str(&event).unwrap();
        let event = event["result"].clone();
        if event["task"].is_object() {
            self.text = text(&event["task"]);
            self.state = state(&event["task"]).to_owned();
        } else if event["statusUpdate"].is_object() {
            self.state = state(&event["statusUpdate"]).to_owned();
        } else {
            let update = &event["artifactUpdate"];
            if update["append"] != true {
                self.text.clear();
            }
            let part = update["artifact"]["parts"][0]["text"].as_str();
            self.text.push_str(part.unwrap());
        }
        Some(event)
    }

    /// Listens until the stream is over.
    pub(super) async fn listen_to_the_end(mut self) -> (String, String) {
        while self.next().await.is_some() {}
        (self.text, self.state)
    }
}

/// The numbers that are said in the first steps.
fn counted(to: usize) -> String {
    (0..to).map(|number| format!("{number} ")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_tasks_at_once_wait_and_come_to_their_end() {
    let scene = Scene::new().await;
    let ask = |number: u32| {
        let scene = &scene;
        async move { scene.send(&format!("ask {number}?")).await }
    };
    let tasks: Vec<Value> = stream::iter(0..1000)
        .map(ask)
        .buffered(AT_ONCE)
        .collect()
        .await;
    let total = async |state: &str| {
        let list = json!({ "status": state, "pageSize": 1 });
        scene.call("ListTasks", list).await["result"]["totalSize"].clone()
    };
    assert_eq!(total("TASK_STATE_INPUT_REQUIRED").await, 1000);
    let answer = |(number, task): (usize, &Value)| {
        let (scene, task) = (&scene, task.clone());
        async move { scene.answer(&task, &format!("{number}!")).await }
    };
    let answers: Vec<Value> = stream::iter(tasks.iter().enumerate())
        .map(answer)
        .buffered(AT_ONCE)
        .collect()
        .await;
    for (number, answered) in answers.iter().enumerate() {
        assert_eq!(state(answered), "TASK_STATE_COMPLETED", "{answered}");
        assert!(
            text(answered).ends_with(&format!("{number}!")),
            "{answered}"
        );
        let question = &answered["history"][1]["parts"][0]["text"];
        assert_eq!(*question, format!("{number}?"), "{answered}");
    }
    assert_eq!(total("TASK_STATE_COMPLETED").await, 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_that_come_and_go_hear_every_word_once_and_in_order() {
    const STEPS: usize = 5;
    const WORDS: usize = 200;
    let scene = Scene::new().await;
    let task = scene.send(&format!("steps {STEPS} {WORDS}")).await;
    assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED");
    let mut faithful = Vec::new();
    for step in 1..STEPS {
        let subscriber = Subscriber::of(&scene, &task).await;
        assert_eq!(subscriber.text, counted(step * WORDS));
        faithful.push(subscriber);
        let fleeting = join_all((0..4).map(|_| Subscriber::of(&scene, &task))).await;
        let leaving = fleeting
            .into_iter()
            .enumerate()
            .map(|(index, mut who)| async move {
                let before = who.text.len();
                for _ in 0..(index + 1) * 20 {
                    who.next().await.unwrap();
                }
                (before, who.text)
            });
        let leaving = join_all(leaving);
        let (answered, heard) = join(scene.answer(&task, "on"), leaving).await;
        let all = counted((step + 1) * WORDS);
        assert_eq!(text(&answered), all);
        for (before, heard) in heard {
            assert!(heard.len() > before, "they were there to listen");
            assert!(all.starts_with(&heard), "{heard}");
        }
        if step + 1 < STEPS {
            // Whoever comes back has missed nothing.
            assert_eq!(Subscriber::of(&scene, &task).await.text, all);
        }
    }
    let heard = join_all(faithful.into_iter().map(Subscriber::listen_to_the_end)).await;
    for (text, state) in heard {
        assert_eq!(text, counted(STEPS * WORDS));
        assert_eq!(state, "TASK_STATE_COMPLETED");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_does_not_read_holds_up_nobody_and_still_learns_everything() {
    let scene = Scene::new().await;
    let mut slow = Subscriber::new(&scene, "SendStreamingMessage", send("flood 5000")).await;
    let first = slow.next().await.unwrap();
    let task = first["task"].clone();
    // The task ends while nobody reads.
    let over = json!({ "status": "TASK_STATE_COMPLETED", "pageSize": 1 });
    while scene.call("ListTasks", over.clone()).await["result"]["totalSize"] != 1 {
        tokio::task::yield_now().await;
    }
    let quick = scene.get(&task).await;
    assert!(text(&quick).len() > 4 * 1024 * 1024);
    let (heard, state) = slow.listen_to_the_end().await;
    assert_eq!(state, "TASK_STATE_COMPLETED");
    assert!(heard == text(&quick), "{} bytes were heard", heard.len());
}
