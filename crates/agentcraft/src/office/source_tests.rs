//! What is known of an office, whatever comes late.

use std::sync::Arc;

use super::*;

fn desk() -> Arc<Desk> {
    Arc::new(Desk {
        office: "studio".to_owned(),
        known: Mutex::new(Known {
            office: ServerStatus::Ready,
            computers: BTreeMap::new(),
            asked: 0,
        }),
        changes: watch::channel(0).0,
    })
}

fn tool(name: &str) -> wire::smcp::Tool {
    serde_json::from_value(json!({
        "name": name, "bundle_id": "b", "description": "Does it.", "params_schema": null,
        "return_schema": {"type": "object"},
        "meta": {"MCP_TOOL_ANNOTATION": "{\"readOnlyHint\":true}"}
    }))
    .unwrap()
}

fn names(desk: &Desk, computer: &str) -> Option<Vec<String>> {
    let known = desk.known();
    let computer = known.computers.get(computer)?;
    Some(
        computer
            .tools
            .iter()
            .map(|tool| tool.name.clone())
            .collect(),
    )
}

#[test]
fn an_answer_to_an_older_question_changes_nothing() {
    let desk = desk();
    let first = desk.begin("nova");
    let second = desk.begin("nova");
    assert_eq!(
        desk.settle("nova", second, Ok(vec![tool("b__new")])),
        Some(())
    );
    assert_eq!(desk.settle("nova", first, Ok(vec![tool("b__old")])), None);
    assert_eq!(names(&desk, "nova"), Some(vec!["b__new".to_owned()]));
}

#[test]
fn an_answer_of_a_computer_that_has_left_changes_nothing() {
    let desk = desk();
    let asked = desk.begin("nova");
    desk.change(|known| {
        known.computers.remove("nova");
    });
    assert_eq!(desk.settle("nova", asked, Ok(vec![tool("b__x")])), None);
    assert_eq!(names(&desk, "nova"), None);
}

#[test]
fn a_computer_that_fails_to_answer_offers_nothing_until_it_does() {
    let desk = desk();
    let asked = desk.begin("nova");
    desk.settle("nova", asked, Ok(vec![tool("b__x")]));
    desk.settle("nova", asked, Err(LinkError::TimedOut));
    assert_eq!(names(&desk, "nova"), Some(Vec::new()));
    desk.settle("nova", asked, Ok(vec![tool("b__x")]));
    assert_eq!(names(&desk, "nova"), Some(vec!["b__x".to_owned()]));
}

#[test]
fn a_tool_is_described_in_the_words_of_mcp() {
    assert_eq!(
        described("nova", tool("b__x")).raw,
        json!({
            "name": "b__x", "description": "Does it.", "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}
        })
    );
}
