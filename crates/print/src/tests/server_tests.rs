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
async fn opencode_gets_servers_by_a_variable() {
    let scene = Scene::new();
    turn_with_server(&scene, "opencode").await;
    let env = std::fs::read_to_string(scene.path("env")).unwrap();
    let told = env
        .lines()
        .find_map(|line| line.strip_prefix("OPENCODE_CONFIG_CONTENT="));
    let told: serde_json::Value = serde_json::from_str(told.unwrap()).unwrap();
    assert_eq!(told["mcp"]["files"]["command"], json!(["fs", "--stdio"]));
}

#[tokio::test]
async fn servers_behind_an_address_come_as_the_program_takes_them_or_words_are_said() {
    let cases = [
        ("claude-code", "far old", ""),
        ("qwen", "far old", ""),
        ("copilot", "far old", ""),
        (
            "codex",
            "far",
            "codex does not get the MCP server old: it takes none over sse",
        ),
        ("opencode", "far old", ""),
        (
            "gemini",
            "",
            "gemini does not get the MCP server far: it takes none but those of its own settings\n\
             gemini does not get the MCP server old: it takes none but those of its own settings",
        ),
    ];
    for (backend, taken, said) in cases {
        let scene = Scene::new();
        let driver = scene.driver(backend, LOOK);
        let (asks, _) = mpsc::channel(1);
        let open = OpenSession {
            cwd: scene.folder.path().to_owned(),
            mcp_servers: Vec::new(),
            resume: None,
            sink: SessionSink::new(Arc::clone(&scene.log), asks),
        };
        let servers = json!([
            { "type": "http", "name": "far", "url": "https://far.test/mcp", "headers": [{ "name": "X-Key", "value": SECRET }] },
            { "type": "sse", "name": "old", "url": "https://old.test/sse", "headers": [] },
        ]);
        let words = engine::NativeOpen {
            clash: engine::Clash::default(),
            method: "session/new".to_owned(),
            params: domain::turn::Raw {
                dialect: domain::turn::Dialect::Acp,
                frame: json!({ "mcpServers": servers }).to_string().into(),
            },
        };
        let opened = driver.open_with(open, words).await.unwrap();
        patiently(driver.turn(turn(&opened.id, "hello")))
            .await
            .unwrap();
        let args = scene.args().join("|");
        assert!(!args.contains(SECRET), "{backend}: {args}");
        let read = |name: &str| std::fs::read_to_string(scene.path(name)).unwrap_or_default();
        let all = format!("{args}\n{}\n{}", read("env"), read("file"));
        for name in ["far", "old"] {
            let url = format!("https://{name}.test/");
            let expected = taken.split(' ').any(|taken| taken == name);
            assert_eq!(all.contains(&url), expected, "{backend}: {name}: {all}");
        }
        assert_eq!(all.contains(SECRET), !taken.is_empty(), "{backend}: {all}");
        assert_eq!(notices(&scene).join("\n"), said, "{backend}");
    }
}

fn notices(scene: &Scene) -> Vec<String> {
    let engine::Page::Events(events) = scene.log.read(1, 100) else {
        return Vec::new();
    };
    events
        .iter()
        .filter_map(|event| match &event.kind {
            domain::turn::EventKind::Notice { text } => Some(text.clone()),
            _ => None,
        })
        .collect()
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
