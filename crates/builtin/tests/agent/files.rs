//! The files of the workspace, and that nothing else is reached.

use std::os::unix::fs::symlink;

use serde_json::json;

use crate::support::{Client, allow, statuses};

#[tokio::test]
async fn folders_are_listed_and_files_read() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("src")).unwrap();
    std::fs::write(folder.path().join("src/a b.txt"), "one\ntwo\nthree\n").unwrap();
    std::fs::write(folder.path().join("raw"), [0xff, 0]).unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    let cases = [
        ("/list", ".:\n.agentcraft/\nraw\nsrc/\n"),
        ("List src", "src:\na b.txt\n"),
        (
            "/read 'src/a b.txt'",
            "src/a b.txt, 3 lines:\none\ntwo\nthree\n",
        ),
        ("read \"src/a b.txt\" 2 1", "src/a b.txt, 1 line:\ntwo\n"),
        ("/read raw", "That did not work: raw is not text."),
        ("/read", "Write it like this: `/read path [line [limit]]`"),
        (
            "/read raw x",
            "Write it like this: `/read path [line [limit]]`",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(client.ask(&session, text).await, expected, "{text}");
    }
    let absolute = folder.path().join("src/a b.txt");
    let said = client
        .ask(&session, &format!("/read '{}' 3", absolute.display()))
        .await;
    assert!(said.ends_with("1 line:\nthree\n"), "{said}");
    let call = client
        .updates()
        .into_iter()
        .rfind(|update| update["update"]["sessionUpdate"] == "tool_call")
        .unwrap();
    assert_eq!(call["update"]["kind"], "read");
    assert_eq!(
        call["update"]["locations"],
        json!([{ "path": absolute, "line": 3 }])
    );
}

#[tokio::test]
async fn paths_outside_the_workspace_are_refused() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("workspace");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(outer.path().join("secret"), "geheim").unwrap();
    symlink("../secret", folder.join("link")).unwrap();
    symlink("..", folder.join("up")).unwrap();
    let client = Client::start(&folder).await;
    let session = client.new_session().await;
    client
        .call(
            "session/set_mode",
            json!({ "sessionId": session, "modeId": "auto" }),
        )
        .await
        .unwrap();
    let secret = outer.path().join("secret").display().to_string();
    let cases = [
        "/read ../secret".to_owned(),
        "/read sub/../../secret".to_owned(),
        format!("/read {secret}"),
        "/read link".to_owned(),
        "/read up/secret".to_owned(),
        "/read /etc/passwd".to_owned(),
        "/list ..".to_owned(),
        "/list up".to_owned(),
        "/search geheim ..".to_owned(),
        "/write ../new x".to_owned(),
        "/write link x".to_owned(),
        "/append up/secret x".to_owned(),
        format!("/write {secret} x"),
    ];
    for text in &cases {
        let said = client.ask(&session, text).await;
        assert!(said.starts_with("That did not work: "), "{text}: {said}");
        assert!(!said.contains("geheim"), "{text}: {said}");
    }
    assert_eq!(
        std::fs::read_to_string(outer.path().join("secret")).unwrap(),
        "geheim"
    );
    assert!(!outer.path().join("new").exists());
    let failed = statuses(&client.updates(), &session)
        .iter()
        .filter(|status| *status == "failed")
        .count();
    assert_eq!(failed, cases.len());
    assert!(
        client
            .ask(&session, "/search geheim")
            .await
            .starts_with("0 hits")
    );
}

#[tokio::test]
async fn a_text_is_found_and_what_is_no_text_skipped() {
    let folder = tempfile::tempdir().unwrap();
    for sub in ["a", ".git"] {
        std::fs::create_dir(folder.path().join(sub)).unwrap();
        std::fs::write(
            folder.path().join(sub).join("x.txt"),
            "no\n the needle here\n",
        )
        .unwrap();
    }
    std::fs::write(folder.path().join("binary"), b"needle\0").unwrap();
    std::fs::write(folder.path().join("many"), "needle\n".repeat(500)).unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    assert_eq!(
        client.ask(&session, "/search needle a").await,
        "a/x.txt:2: the needle here\n1 hits in 1 files."
    );
    assert_eq!(
        client.ask(&session, "/search 'the needle' a/x.txt").await,
        "a/x.txt:2: the needle here\n1 hits in 1 files."
    );
    let said = client.ask(&session, "search needle").await;
    assert!(said.ends_with("\n200 hits in 3 files."), "{said}");
    assert_eq!(
        client.ask(&session, "/search nothing-like-this a").await,
        "0 hits in 1 files."
    );
}

#[tokio::test]
async fn a_session_in_a_folder_of_the_workspace_starts_its_paths_there() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    std::fs::write(folder.path().join("top"), "top\n").unwrap();
    let client = Client::start(folder.path()).await;
    let params = json!({ "cwd": folder.path().join("sub"), "mcpServers": [] });
    let answer = client.call("session/new", params).await.unwrap();
    let session = answer["sessionId"].as_str().unwrap();
    client.will_answer([allow("allow_once")]);
    client.ask(session, "/write new.txt hello").await;
    assert_eq!(
        std::fs::read_to_string(folder.path().join("sub/new.txt")).unwrap(),
        "hello"
    );
    assert!(client.ask(session, "/read ../top").await.ends_with("top\n"));
    assert!(client.ask(session, "/pwd").await.ends_with("/sub."));
    let params = json!({ "cwd": "/", "mcpServers": [] });
    let answer = client.call("session/new", params).await.unwrap();
    let elsewhere = answer["sessionId"].as_str().unwrap();
    assert!(client.ask(elsewhere, "/read top").await.ends_with("top\n"));
    assert!(
        client
            .ask(elsewhere, "/pwd")
            .await
            .contains("where I do not go")
    );
}
