//! Calls and their answers, kept within bounds.

use serde_json::json;

use super::*;

fn id(agent: &str, request: &str, tool: &str) -> CallId {
    let body = json!({
        "agent": agent, "req_id": request, "computer": "pc", "tool_name": tool, "params": {"x": 1}
    });
    CallId::of(&serde_json::from_value(body.clone()).unwrap(), &body)
}

fn carry(calls: &Arc<Calls>, id: CallId) -> Carrying {
    match calls.begin(id) {
        Begin::Carry(carrying) => carrying,
        Begin::Known(_) => panic!("it is new"),
        Begin::Busy => panic!("there is room"),
    }
}

fn known(calls: &Arc<Calls>, id: CallId) -> Answer {
    match calls.begin(id) {
        Begin::Known(answer) => answer,
        Begin::Carry(_) | Begin::Busy => panic!("it is known"),
    }
}

#[tokio::test]
async fn a_repeated_call_finds_the_first_ones_answer() {
    let calls = Arc::new(Calls::default());
    let carrying = carry(&calls, id("ann", "r", "t"));
    let answer = known(&calls, id("ann", "r", "t"));
    assert_eq!(*answer.borrow(), None);
    carrying.publish(&json!(1));
    assert_eq!(*answer.borrow(), Some(Kept::Answer(json!(1))));
    let again = known(&calls, id("ann", "r", "t"));
    assert_eq!(*again.borrow(), Some(Kept::Answer(json!(1))));
}

#[tokio::test]
async fn an_id_of_another_agent_or_for_another_call_is_another_call() {
    let calls = Arc::new(Calls::default());
    carry(&calls, id("ann", "1", "t")).publish(&json!("of ann"));
    carry(&calls, id("bob", "1", "t")).publish(&json!("of bob"));
    carry(&calls, id("ann", "1", "other")).publish(&json!("other"));
    let mut scoped = id("ann", "1", "t");
    scoped.scope = "another caller".to_owned();
    carry(&calls, scoped).publish(&json!("another ann"));
    let answer = known(&calls, id("ann", "1", "t"));
    assert_eq!(*answer.borrow(), Some(Kept::Answer(json!("of ann"))));
}

#[tokio::test]
async fn a_call_that_nobody_carries_out_any_more_may_come_again() {
    let calls = Arc::new(Calls::default());
    drop(carry(&calls, id("ann", "r", "t")));
    carry(&calls, id("ann", "r", "t")).publish(&json!(2));
    assert_eq!(calls.book().unanswered, 0);
}

#[tokio::test]
async fn a_cancel_reaches_its_call_alone() {
    let calls = Arc::new(Calls::default());
    let one = carry(&calls, id("ann", "1", "t"));
    let two = carry(&calls, id("ann", "2", "t"));
    let other = carry(&calls, id("bob", "2", "t"));
    calls.cancel(Some("ann"), "2");
    calls.cancel(None, "unknown");
    assert!(!one.cancel.is_cancelled() && two.cancel.is_cancelled());
    assert!(!other.cancel.is_cancelled());
}

#[tokio::test]
async fn calls_beyond_those_at_work_wait_for_their_turn() {
    let calls = Arc::new(Calls::default());
    let mut turns = Vec::new();
    for _ in 0..AT_WORK_MAX {
        turns.push(calls.turn().await);
    }
    let mut next = std::pin::pin!(calls.turn());
    assert!(futures_util::poll!(&mut next).is_pending());
    turns.pop();
    drop(next.await);
    let held: Vec<Carrying> = (0..UNANSWERED_MAX)
        .map(|n| carry(&calls, id("ann", &n.to_string(), "t")))
        .collect();
    assert!(matches!(
        calls.begin(id("ann", "one more", "t")),
        Begin::Busy
    ));
    drop(held);
}

#[tokio::test]
async fn answers_are_kept_within_a_number_of_bytes_and_a_time() {
    let calls = Arc::new(Calls::default());
    let large = json!("x".repeat(KEPT_ANSWER_MAX - 16));
    let count = 2 * KEPT_BYTES_MAX / KEPT_ANSWER_MAX;
    for n in 0..count {
        carry(&calls, id("ann", &n.to_string(), "t")).publish(&large);
        assert!(calls.book().bytes <= KEPT_BYTES_MAX);
    }
    // The first is still known, so that it does not happen again.
    assert_eq!(
        *known(&calls, id("ann", "0", "t")).borrow(),
        Some(Kept::Gone)
    );
    let last = (count - 1).to_string();
    let answer = known(&calls, id("ann", &last, "t"));
    assert_eq!(*answer.borrow(), Some(Kept::Answer(large)));
    carry(&calls, id("ann", "huge", "t")).publish(&json!("x".repeat(KEPT_ANSWER_MAX)));
    assert_eq!(
        *known(&calls, id("ann", "huge", "t")).borrow(),
        Some(Kept::Gone)
    );
    let mut book = calls.book();
    book.forget(Instant::now() + KEPT_FOR);
    assert_eq!((book.calls.len(), book.answered.len()), (0, 0));
    assert_eq!((book.bytes, book.emptied), (0, 0));
}

#[tokio::test]
async fn remembered_calls_are_bounded() {
    let calls = Arc::new(Calls::default());
    for n in 0..2 * ANSWERED_MAX {
        carry(&calls, id("ann", &n.to_string(), "t")).publish(&json!(n));
    }
    assert_eq!(calls.book().calls.len(), ANSWERED_MAX);
}
