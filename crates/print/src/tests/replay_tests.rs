//! Recorded streams of the real programs, replayed: every event, and every line of the recording.

use domain::turn::{Dialect, EventKind, Raw, Stop};

use super::*;

/// Plays `NAME.jsonl` and compares all events, one JSON in each line, with `NAME.events`.
async fn check(name: &str, backend: &str) {
    let scene = Scene::new();
    let recording = fixture(&format!("{name}.jsonl"));
    let driver = scene.driver(backend, &format!("cat '{}'", recording.display()));
    assert_eq!(scene.once(&driver, "hello").await, Ok(Stop::EndTurn));
    let events = scene.events();
    let told: Vec<String> = events
        .iter()
        .map(|event| serde_json::to_string(&event.kind).unwrap())
        .collect();
    let wanted = std::fs::read_to_string(fixture(&format!("{name}.events"))).unwrap();
    assert_eq!(told.join("\n"), wanted.trim_end(), "{name}");
    let raw = |raw: &Raw| {
        assert_eq!(raw.dialect, Dialect::Print);
        raw.frame.to_string()
    };
    let frames: Vec<String> = events
        .iter()
        .filter_map(|event| event.raw.as_ref().map(raw))
        .collect();
    let recorded = std::fs::read_to_string(recording).unwrap();
    let lines: Vec<&str> = recorded.lines().filter(is_kept).collect();
    assert_eq!(frames, lines, "{name}: every line once, word for word");
}

/// Pieces without words are of what a later line has whole.
fn is_kept(line: &&str) -> bool {
    let is_piece = line.contains(r#""type":"stream_event""#);
    !is_piece || line.contains("_delta\",\"text\":") || line.contains("_delta\",\"thinking\":")
}

#[tokio::test]
async fn claude_is_understood() {
    check("claude", "claude-code").await;
}

#[tokio::test]
async fn claude_in_pieces_says_nothing_twice() {
    check("claude-partial", "claude-code").await;
}

#[tokio::test]
async fn codex_is_understood() {
    check("codex", "codex").await;
}

#[tokio::test]
async fn gemini_is_understood() {
    check("gemini", "gemini").await;
}

#[tokio::test]
async fn copilot_is_understood() {
    check("copilot", "copilot").await;
}

#[tokio::test]
async fn opencode_is_understood() {
    check("opencode", "opencode").await;
}

#[tokio::test]
async fn qwen_is_understood() {
    check("qwen", "qwen").await;
}

/// Plays these lines and returns how the turn went, and its events without those that mean nothing.
async fn play(backend: &str, lines: &[&str]) -> (Stop, Vec<EventKind>) {
    let scene = Scene::new();
    let path = scene.path("lines");
    std::fs::write(&path, lines.join("\n")).unwrap();
    let driver = scene.driver(backend, "cat lines");
    let stop = scene.once(&driver, "hello").await.unwrap();
    let kinds = scene.events().into_iter().map(|event| event.kind.clone());
    let meant = kinds.filter(|kind| !matches!(kind, EventKind::Other { .. } | EventKind::Usage(_)));
    (stop, meant.collect())
}

fn text(text: &str) -> EventKind {
    EventKind::Text {
        text: text.to_owned(),
    }
}

fn notice(text: &str) -> EventKind {
    EventKind::Notice {
        text: text.to_owned(),
    }
}

/// Backend, last line, and how the turn went.
const ENDS: &str = r#"
claude-code | {"subtype":"error_max_turns","is_error":true,"type":"result","stop_reason":"tool_use"} | MaxTurnRequests
claude-code | {"type":"result","subtype":"success","is_error":true,"result":"API Error: 400"} | API Error: 400
claude-code | {"type":"result","subtype":"error_during_execution","is_error":true,"errors":["No such"]} | No such
claude-code | {"type":"result","subtype":"success","stop_reason":"max_tokens"} | MaxTokens
claude-code | {"type":"result","subtype":"success","stop_reason":"refusal"} | Refusal
claude-code | Execution error | claude-code-program ended without saying how the turn went: Execution error
qwen | {"type":"result","subtype":"error_during_execution","is_error":true,"error":{"message":"no key"}} | no key
codex | {"type":"turn.failed","error":{"message":"no model"}} | no model
codex | {"type":"turn.started"} | codex-program ended without saying how the turn went
gemini | {"type":"result","status":"error","error":{"type":"FatalTurnLimitedError","message":"x"}} | MaxTurnRequests
gemini | {"type":"result","status":"error","error":{"type":"Error","message":"quota"}} | quota
copilot | {"type":"result","sessionId":"s","exitCode":1} | it ended with code 1
opencode | {"type":"error","sessionID":"s","error":{"name":"E","data":{"message":"no provider"}}} | no provider
opencode | {"type":"step_finish","part":{"reason":"length","tokens":{}}} | MaxTokens
"#;

#[tokio::test]
async fn ends_of_every_program_are_told_apart() {
    for case in ENDS.trim().lines() {
        let parts: Vec<&str> = case.split(" | ").collect();
        let [backend, line, wanted] = parts[..] else {
            panic!("{case}");
        };
        let told = match play(backend, &[line]).await.0 {
            Stop::Failed { message } => message,
            stop => format!("{stop:?}"),
        };
        assert_eq!(told, wanted, "{case}");
    }
}

#[tokio::test]
async fn a_denied_tool_is_told_and_the_answer_of_a_command_without_a_model_is_text() {
    let line = r#"{"type":"result","subtype":"success","result":"the answer","permission_denials":
        [{"tool_name":"Bash","tool_use_id":"1","tool_input":{"command":"touch x"}}]}"#;
    let line = line.replace('\n', "");
    let (stop, events) = play("claude-code", &[&line]).await;
    assert_eq!(stop, Stop::EndTurn);
    let denied = "not allowed, and nobody could be asked in print mode: Bash: touch x";
    assert_eq!(events, [text("the answer"), notice(denied)]);
}

#[tokio::test]
async fn the_words_of_an_agent_below_are_not_the_answer() {
    let lines = [
        r#"{"type":"assistant","parent_tool_use_id":"t","message":{"id":"m","content":[{"type":"text","text":"below"}]}}"#,
        r#"{"type":"assistant","parent_tool_use_id":null,"message":{"id":"m","content":[{"type":"text","text":"above"}]}}"#,
        r#"{"type":"result","subtype":"success","result":"above"}"#,
    ];
    assert_eq!(play("claude-code", &lines).await.1, [text("above")]);
}

#[tokio::test]
async fn words_in_pieces_are_told_once_also_where_an_agent_below_speaks_between() {
    let start = |id: &str, parent: &str| {
        format!(
            r#"{{"type":"stream_event","parent_tool_use_id":{parent},"event":{{"type":"message_start","message":{{"id":"{id}"}}}}}}"#
        )
    };
    let piece = |text: &str, parent: &str| {
        format!(
            r#"{{"type":"stream_event","parent_tool_use_id":{parent},"event":{{"type":"content_block_delta","delta":{{"type":"text_delta","text":"{text}"}}}}}}"#
        )
    };
    let whole = |id: &str, text: &str, parent: &str| {
        format!(
            r#"{{"type":"assistant","parent_tool_use_id":{parent},"message":{{"id":"{id}","content":[{{"type":"text","text":"{text}"}}]}}}}"#
        )
    };
    let lines = [
        start("above", "null"),
        piece("one ", "null"),
        start("below", "\"t\""),
        piece("hidden", "\"t\""),
        whole("below", "hidden", "\"t\""),
        piece("two", "null"),
        whole("above", "one two", "null"),
        r#"{"type":"result","subtype":"success","result":"one two"}"#.to_owned(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (_, events) = play("claude-code", &lines).await;
    assert_eq!(events, [text("one "), text("two")]);
}

#[tokio::test]
async fn a_codex_message_that_grows_is_told_once_and_a_plan_is_a_plan() {
    let lines = [
        r#"{"type":"item.started","item":{"id":"i","type":"agent_message","text":"a"}}"#,
        r#"{"type":"item.updated","item":{"id":"i","type":"agent_message","text":"a b"}}"#,
        r#"{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"a b"}}"#,
        r#"{"type":"item.started","item":{"id":"p","type":"todo_list","items":[{"text":"do","completed":true}]}}"#,
        r#"{"type":"error","message":"Reconnecting... 1/5"}"#,
        r#"{"type":"turn.completed"}"#,
    ];
    let (stop, events) = play("codex", &lines).await;
    assert_eq!(stop, Stop::EndTurn);
    let plan = r#"{"type":"plan","entries":[{"text":"do","status":"completed"}]}"#;
    let plan: EventKind = serde_json::from_str(plan).unwrap();
    let again = notice("Reconnecting... 1/5");
    assert_eq!(events, [text("a"), text(" b"), plan, again]);
}

#[tokio::test]
async fn calls_without_ids_get_stable_ones() {
    let lines = [
        r#"{"type":"tool_use","tool_name":"glob","parameters":{"pattern":"*"}}"#,
        r#"{"type":"tool_result","status":"error","error":{"message":"no"}}"#,
        r#"{"type":"tool_use","tool_name":"glob","parameters":{"pattern":"*"}}"#,
        r#"{"type":"result","status":"success"}"#,
    ];
    let ids: Vec<String> = play("gemini", &lines)
        .await
        .1
        .iter()
        .map(|event| match event {
            EventKind::ToolCall(call) => call.id.clone(),
            EventKind::ToolUpdate(update) => update.id.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ids, ["tool-1", "tool-1", "tool-2"]);
}

#[tokio::test]
async fn garbage_and_unknown_lines_are_survived_and_huge_ones_left_out() {
    let scene = Scene::new();
    let body = r#"
printf '\377\376 not text\n\n[1]\n"text"\n{"half":\n'
echo '{"no":"type"}'
echo '{"type":"assistant","message":"not a message"}'
echo '{"type":"news","subtype":"big"}'
head -c 11000000 /dev/zero | tr '\0' x
echo
echo '{"type":"result","subtype":"success","result":"done"}'"#;
    let driver = scene.driver("claude-code", body);
    assert_eq!(scene.once(&driver, "hello").await, Ok(Stop::EndTurn));
    let names: Vec<String> = scene
        .events()
        .iter()
        .map(|event| match &event.kind {
            EventKind::Other { name } => name.clone(),
            EventKind::Notice { text } | EventKind::Text { text } => text.clone(),
            _ => "usage".to_owned(),
        })
        .collect();
    let wanted = [
        "unnamed",
        "assistant",
        "news/big",
        "a line of more than 10 MiB was left out",
        "done",
        "usage",
    ];
    assert_eq!(names, wanted);
}
