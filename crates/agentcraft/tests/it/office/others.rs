//! MCP servers that others have written, behind a computer of ours.

use std::{env, path::PathBuf, process::Command};

use serde_json::{Value, json};

use super::Scene;

/// The program of npm's server with everything in it, if it is installed.
fn everything() -> Option<PathBuf> {
    let modules = PathBuf::from(env::var_os("AGENTCRAFT_TEST_SMCP_NODE_MODULES")?);
    let program = modules.join("@modelcontextprotocol/server-everything/dist/index.js");
    program.is_file().then_some(program)
}

fn text(result: &Value) -> String {
    result["content"][0]["text"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn servers_of_others_are_lent_and_called() {
    let Some(scene) = Scene::start() else { return };
    let clock = ["-c", "import mcp_server_time"];
    let has_clock = Command::new(&scene.python).args(clock).status();
    let (Some(everything), true) = (everything(), has_clock.is_ok_and(|it| it.success())) else {
        println!("skipped: ./test installs mcp-server-time and server-everything");
        return;
    };
    let servers = json!({"servers": {
        "time": {"command": scene.python, "args": ["-m", "mcp_server_time", "--local-timezone", "UTC"]},
        "everything": {"command": "node", "args": [everything, "stdio"]},
    }});
    scene.write("servers.json", &servers.to_string());
    let computer = scene.computer(&["--yes"]);
    // They come up one after the other.
    loop {
        let lent = computer.until("lending");
        if lent.contains("everything (") && lent.contains("time (") {
            break;
        }
    }
    let said = scene.json(
        "call",
        &["nova", "everything__echo", r#"{"message": "héllo"}"#],
    );
    assert!(text(&said).contains("héllo"), "{said}");
    let zones = r#"{"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}"#;
    let told = scene.json("call", &["nova", "time__convert_time", zones]);
    assert!(text(&told).contains("T21:00:00"), "{told}");
    let wrong = scene.office("call", &["nova", "time__convert_time", "{}"]);
    assert_eq!(wrong.code, 1, "{wrong:?}");
}
