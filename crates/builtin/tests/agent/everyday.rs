//! What a newcomer does: help, thoughts, plans, questions, skills, attachments.

use serde_json::json;

use crate::support::{Answer, Client, spoken};

async fn client_and_session(folder: &tempfile::TempDir) -> (Client, String) {
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    (client, session)
}

#[tokio::test]
async fn a_sentence_is_quoted_and_answered_with_what_can_be_done() {
    let folder = tempfile::tempdir().unwrap();
    let (client, session) = client_and_session(&folder).await;
    let said = client.ask(&session, "Good morning, who are you?").await;
    assert!(
        said.starts_with("You said: Good morning, who are you?\n"),
        "{said}"
    );
    assert!(said.contains("`/read path [line [limit]]`"), "{said}");
    assert!(said.contains(folder.path().to_str().unwrap()), "{said}");
    assert!(
        client
            .ask(&session, "/nonsense x")
            .await
            .starts_with("You said: /nonsense x\n")
    );
    assert!(
        client
            .ask(&session, "HELP")
            .await
            .contains("no model, no network")
    );
    assert!(client.ask(&session, "  ").await.contains("You said: "));
    let chunks = client
        .updates()
        .iter()
        .filter(|update| update["update"]["sessionUpdate"] == "agent_message_chunk")
        .count();
    assert!(chunks > 100, "the answers come in chunks: {chunks}");
}

#[tokio::test]
async fn the_commands_are_announced_after_the_session_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let (client, session) = client_and_session(&folder).await;
    client.until(|client| !client.updates().is_empty()).await;
    let update = &client.updates()[0];
    assert_eq!(update["sessionId"], session);
    assert_eq!(
        update["update"]["sessionUpdate"],
        "available_commands_update"
    );
    let commands = update["update"]["availableCommands"].as_array().unwrap();
    let read = commands
        .iter()
        .find(|command| command["name"] == "read")
        .unwrap();
    assert_eq!(read["input"]["hint"], "path [line [limit]]");
}

#[tokio::test]
async fn thoughts_come_before_the_message() {
    let folder = tempfile::tempdir().unwrap();
    let (client, session) = client_and_session(&folder).await;
    assert_eq!(
        client.ask(&session, "/think two plus two").await,
        "I thought about it: two plus two"
    );
    let updates = client.updates();
    assert_eq!(
        spoken(&updates, &session, "agent_thought_chunk"),
        "two plus two"
    );
    let kinds: Vec<&str> = updates
        .iter()
        .map(|update| update["update"]["sessionUpdate"].as_str().unwrap())
        .collect();
    let first_message = kinds
        .iter()
        .position(|kind| *kind == "agent_message_chunk")
        .unwrap();
    let last_thought = kinds
        .iter()
        .rposition(|kind| *kind == "agent_thought_chunk")
        .unwrap();
    assert!(last_thought < first_message);
}

#[tokio::test]
async fn a_plan_goes_step_by_step_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let (client, session) = client_and_session(&folder).await;
    client.ask(&session, "/plan wash; dry").await;
    let states: Vec<String> = client
        .updates()
        .iter()
        .filter(|update| update["update"]["sessionUpdate"] == "plan")
        .map(|update| {
            let entries = update["update"]["entries"].as_array().unwrap();
            let states = entries
                .iter()
                .map(|entry| entry["status"].as_str().unwrap());
            states.collect::<Vec<_>>().join(" ")
        })
        .collect();
    let expected = [
        "pending pending",
        "in_progress pending",
        "completed in_progress",
        "completed completed",
    ];
    assert_eq!(states, expected);
    assert!(
        client
            .ask(&session, "/plan ;")
            .await
            .contains("Write it like this")
    );
}

#[tokio::test]
async fn without_forms_the_next_prompt_is_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let (client, session) = client_and_session(&folder).await;
    assert!(
        client
            .ask(&session, "/ask Which colour?")
            .await
            .starts_with("Which colour?")
    );
    assert_eq!(
        client.ask(&session, "list of blues").await,
        "I asked: Which colour?\nYou answered: list of blues"
    );
    assert!(
        client
            .ask(&session, "hello")
            .await
            .contains("You said: hello")
    );
    client.ask(&session, "/ask Which colour?").await;
    assert!(client.ask(&session, "/pwd").await.contains("I work in"));
}

#[tokio::test]
async fn with_forms_the_client_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start_with(folder.path(), json!({ "elicitation": { "form": {} } })).await;
    let session = client.new_session().await;
    client.will_answer([
        Answer::Result(json!({ "action": "accept", "content": { "answer": "blue" } })),
        Answer::Result(json!({ "action": "decline" })),
        Answer::Result(json!({ "action": "cancel" })),
        Answer::Error(-32603, "broken"),
    ]);
    assert_eq!(
        client.ask(&session, "/ask Which colour?").await,
        "I asked: Which colour?\nYou answered: blue"
    );
    assert!(
        client
            .ask(&session, "/ask Why?")
            .await
            .contains("rather not")
    );
    assert!(client.ask(&session, "/ask Why?").await.contains("closed"));
    assert!(client.ask(&session, "/ask Why?").await.contains("broken"));
    let (method, params) = &client.requests()[0];
    assert_eq!(method, "elicitation/create");
    assert_eq!(params["mode"], "form");
    assert_eq!(params["message"], "Which colour?");
    assert_eq!(params["sessionId"], session);
    assert_eq!(
        params["requestedSchema"]["properties"]["answer"]["type"],
        "string"
    );
}

#[tokio::test]
async fn attachments_are_quoted_and_pictures_are_declined() {
    let folder = tempfile::tempdir().unwrap();
    let (client, session) = client_and_session(&folder).await;
    let blocks = json!([
        { "type": "resource_link", "uri": "file:///a.txt", "name": "a.txt" },
        { "type": "resource", "resource": { "uri": "file:///b.txt", "text": "one\ntwo" } },
        { "type": "image", "data": "aGk=", "mimeType": "image/png" },
        { "type": "audio", "data": "aGk=", "mimeType": "audio/wav" },
        { "type": "text", "text": "/pwd" },
    ]);
    let before = client.updates().len();
    client
        .call(
            "session/prompt",
            json!({ "sessionId": session, "prompt": blocks }),
        )
        .await
        .unwrap();
    let said = spoken(&client.updates()[before..], &session, "agent_message_chunk");
    for words in [
        "You linked a.txt (file:///a.txt)",
        "file:///b.txt:\n> one\n> two",
        "images",
        "audio",
        "I work in",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[tokio::test]
async fn skills_and_servers_and_variables_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join(".agents/skills/review");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(
        skill.join("SKILL.md"),
        "---\nname: review\ndescription: Looks at code\n---\nText",
    )
    .unwrap();
    std::fs::write(folder.path().join("AGENTS.md"), "Be kind.").unwrap();
    let client = Client::start(folder.path()).await;
    let servers = json!([
        { "name": "git", "command": "/bin/git-mcp", "args": [], "env": [] },
        { "type": "http", "name": "web", "url": "http://localhost", "headers": [] },
    ]);
    let params = json!({ "cwd": client.cwd, "mcpServers": servers });
    let answer = client.call("session/new", params).await.unwrap();
    let session = answer["sessionId"].as_str().unwrap();
    let skills = client.ask(session, "/skills").await;
    assert!(
        skills.contains("- review: Looks at code") && skills.contains("AGENTS.md"),
        "{skills}"
    );
    assert!(client.ask(session, "/mcp").await.ends_with("- git\n- web"));
    assert_eq!(
        client.ask(session, "/env GREETING").await,
        "GREETING is set to: hello"
    );
    let secret = client.ask(session, "/env API_KEY").await;
    assert!(
        secret.contains("is set") && !secret.contains("geheim"),
        "{secret}"
    );
    assert_eq!(client.ask(session, "/env OTHER").await, "OTHER is not set.");
    let other = client.new_session().await;
    assert!(client.ask(&other, "/mcp").await.contains("no MCP servers"));
}
