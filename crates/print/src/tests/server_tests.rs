//! How each program learns of the MCP servers of its conversation.

use serde_json::json;

use super::*;

/// Shell: keeps the arguments, the environment, and what is in the file that some argument names.
const LOOK: &str = r#"
printf '%s\n' "$@" > args; env > env
for arg in "$@"; do
    path="/${arg#*/}"
    if [ -f "$path" ]; then cat "$path" > file; stat -c %a "$path" > mode; fi
done"#;

const SECRET: &str = "not-for-everybody";

/// A conversation with one server that has a secret, and one turn in it.
async fn turn_with_server(scene: &Scene, backend: &str) {
    let driver = scene.driver(backend, LOOK);
    let (asks, _) = mpsc::channel(1);
    let server = json!({
        "name": "files", "command": "fs", "args": ["--stdio"], "env": {"KEY": SECRET},
    });
    let open = OpenSession {
        cwd: scene.folder.path().to_owned(),
        mcp_servers: serde_json::from_value(json!([server])).unwrap(),
        resume: None,
        sink: SessionSink::new(Arc::clone(&scene.log), asks),
    };
    let opened = driver.open(open).await.unwrap();
    patiently(driver.turn(turn(&opened.id, "hello")))
        .await
        .unwrap();
}

#[tokio::test]
async fn servers_come_in_a_private_file_that_goes_with_the_turn() {
    let cases = [
        ("claude-code", "--mcp-config|"),
        ("qwen", "--mcp-config="),
        ("copilot", "--additional-mcp-config=@"),
    ];
    for (backend, option) in cases {
        let scene = Scene::new();
        turn_with_server(&scene, backend).await;
        let args = scene.args().join("|");
        assert!(!args.contains(SECRET), "{backend}: {args}");
        let (_, rest) = args.split_once(option).expect(backend);
        let path = rest.split('|').next().unwrap();
        assert!(!Path::new(path).exists(), "{backend}: {path}");
        assert!(path.starts_with(scene.folder.path().to_str().unwrap()));

        let read = |name: &str| std::fs::read_to_string(scene.path(name)).unwrap();
        let file: serde_json::Value = serde_json::from_str(&read("file")).unwrap();
        let shape = json!({"command": "fs", "args": ["--stdio"], "env": {"KEY": SECRET}});
        assert_eq!(file, json!({"mcpServers": {"files": shape}}), "{backend}");
        assert_eq!(read("mode").trim(), "600", "{backend}");
    }
}

#[tokio::test]
async fn codex_gets_servers_as_settings_and_their_secrets_as_variables() {
    let scene = Scene::new();
    turn_with_server(&scene, "codex").await;
    let args = scene.args().join("|");
    assert!(args.contains("|-c|mcp_servers.files={"), "{args}");
    assert!(!args.contains(SECRET), "{args}");
    let env = std::fs::read_to_string(scene.path("env")).unwrap();
    let variable = format!("AGENTCRAFT_MCP_0_0={SECRET}");
    assert!(env.lines().any(|line| line == variable), "{env}");
}

#[tokio::test]
async fn programs_that_read_their_workspace_are_told_nothing() {
    for backend in ["gemini", "opencode"] {
        let scene = Scene::new();
        turn_with_server(&scene, backend).await;
        let args = scene.args().join("|");
        assert!(!args.contains("mcp"), "{backend}: {args}");
    }
}

#[tokio::test]
async fn a_program_that_speaks_acp_is_not_run_for_a_prompt() {
    let scene = Scene::new();
    let adapter = scene.script("claude-agent-acp", "echo wrong > ran");
    scene.script("claude", &format!("{RECORD}; echo right > ran"));
    let driver = crate::driver(scene.program("claude-code", Some(adapter))).unwrap();
    scene.once(&driver, "hello").await.unwrap();
    let ran = std::fs::read_to_string(scene.path("ran")).unwrap();
    assert_eq!(ran.trim(), "right");
    assert_eq!(scene.args().last().unwrap(), "hello");
}
