//! Followers see the same, in order, whatever their pace.

use wire::a2a::{Part, TaskState, TaskStatus};

use super::*;

fn task() -> Task {
    Task {
        id: "t".to_owned(),
        context_id: "c".to_owned(),
        status: status(TaskState::Submitted),
        artifacts: Vec::new(),
        history: Vec::new(),
        metadata: None,
    }
}

fn status(state: TaskState) -> TaskStatus {
    TaskStatus {
        state,
        message: None,
        timestamp: None,
    }
}

fn go_to(feed: &Feed, state: TaskState) {
    feed.status(StatusUpdate {
        task_id: "t".to_owned(),
        context_id: "c".to_owned(),
        status: status(state),
        metadata: None,
    });
}

fn say(feed: &Feed, text: &str) -> Taken {
    feed.artifact(ArtifactUpdate {
        task_id: "t".to_owned(),
        context_id: "c".to_owned(),
        artifact: Artifact::new("a", vec![Part::text(text)]),
        append: true,
        last_chunk: false,
        metadata: None,
    })
}

fn word(update: &StreamResponse) -> String {
    match update {
        StreamResponse::Task(task) => format!("task {}", task.status.state.as_v03()),
        StreamResponse::StatusUpdate(update) => update.status.state.as_v03().to_owned(),
        StreamResponse::ArtifactUpdate(update) => update.artifact.parts[0]
            .as_text()
            .unwrap_or_default()
            .chars()
            .take(4)
            .collect(),
        StreamResponse::Message(_) => "message".to_owned(),
    }
}

async fn rest(follower: &mut Follower) -> Vec<String> {
    let mut words = Vec::new();
    while let Some(update) = follower.next().await {
        words.push(word(&update));
    }
    words
}

#[tokio::test]
async fn a_follower_gets_the_task_first_and_then_every_update_until_the_end() {
    let feed = Feed::new(task());
    let (mut early, mut other) = (feed.follow(), feed.follow());
    assert_eq!(word(&early.next().await.unwrap()), "task submitted");
    assert_eq!(word(&other.next().await.unwrap()), "task submitted");
    go_to(&feed, TaskState::Working);
    say(&feed, "one");
    let mut late = feed.follow();
    say(&feed, "two");
    assert_eq!(word(&late.next().await.unwrap()), "task working");
    go_to(&feed, TaskState::Completed);
    let all = ["working", "one", "two", "completed"];
    assert_eq!(rest(&mut early).await, all);
    assert_eq!(rest(&mut other).await, all);
    assert_eq!(rest(&mut late).await, ["completed"]);
    assert_eq!(feed.task().artifacts[0].parts, [Part::text("onetwo")]);
}

#[tokio::test]
async fn whoever_falls_behind_is_given_the_whole_task() {
    let feed = Feed::new(task());
    let mut slow = feed.follow();
    slow.next().await.unwrap();
    for _ in 0..20 {
        say(&feed, &"x".repeat(WINDOW_MAX / 8));
    }
    go_to(&feed, TaskState::Completed);
    assert_eq!(rest(&mut slow).await, ["task completed"]);
    assert!(feed.lock().window_weight <= WINDOW_MAX);
}

#[tokio::test]
async fn a_full_task_takes_no_more() {
    let feed = Feed::new(task());
    let chunk = "x".repeat(ARTIFACTS_MAX / 2);
    assert_eq!(say(&feed, &chunk), Taken::Whole);
    assert_eq!(say(&feed, &chunk), Taken::Not);
}

#[tokio::test]
async fn waiting_ends_when_the_task_wants_something_or_is_over() {
    let feed = Feed::new(task());
    go_to(&feed, TaskState::InputRequired);
    assert_eq!(feed.settled().await.status.state, TaskState::InputRequired);
    let over = feed.over();
    tokio::pin!(over);
    assert!(futures_util::poll!(over.as_mut()).is_pending());
    go_to(&feed, TaskState::Canceled);
    assert_eq!(over.await.status.state, TaskState::Canceled);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_for_the_end_never_stops_whoever_speaks() {
    let feed = Feed::new(task());
    let waiting = feed.clone();
    let speaking = tokio::spawn(async move {
        for _ in 0..20_000 {
            go_to(&feed, TaskState::Working);
        }
        go_to(&feed, TaskState::Completed);
    });
    while !waiting.task().status.state.is_terminal() {
        // Each look is a new wait, as each request that asks for the end is.
        let _ = tokio::time::timeout(std::time::Duration::ZERO, waiting.over()).await;
    }
    speaking.await.unwrap();
}
