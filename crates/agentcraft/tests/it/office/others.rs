//! MCP servers that others have written, behind a computer of ours.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    path::PathBuf,
    process::Command,
    thread,
};

use serde_json::{Value, json};

use super::{Running, Scene};

/// The program of one of npm's servers, if it is installed.
fn of_npm(name: &str) -> Option<PathBuf> {
    let modules = PathBuf::from(env::var_os("AGENTCRAFT_TEST_SMCP_NODE_MODULES")?);
    let program = modules.join(format!("@modelcontextprotocol/{name}/dist/index.js"));
    program.is_file().then_some(program)
}

/// Whether a Python has these servers.
fn has(scene: &Scene, module: &str) -> bool {
    let import = ["-c".to_owned(), format!("import {module}")];
    let imported = Command::new(&scene.python).args(import).output();
    imported.is_ok_and(|it| it.status.success())
}

/// A computer whose servers are all there; they come up one after the other.
fn lend(scene: &Scene, servers: &Value) -> Running {
    scene.write("servers.json", &json!({ "servers": servers }).to_string());
    let computer = scene.computer(&["--yes"]);
    loop {
        let lent = computer.until("lending");
        let names = servers.as_object().unwrap().keys();
        if names
            .into_iter()
            .all(|name| lent.contains(&format!("{name} (")))
        {
            return computer;
        }
    }
}

/// One page, again and again.
fn serve_page(page: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/page.html", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines
                .next()
                .and_then(Result::ok)
                .is_some_and(|line| !line.is_empty())
            {}
            let length = page.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{page}"
            );
            let _ = stream.write_all(answer.as_bytes()); // The reader may have left.
        }
    });
    url
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
    let (Some(everything), true) = (of_npm("server-everything"), has(&scene, "mcp_server_time"))
    else {
        println!("skipped: ./test installs mcp-server-time and server-everything");
        return;
    };
    let servers = json!({
        "time": {"command": scene.python, "args": ["-m", "mcp_server_time", "--local-timezone", "UTC"]},
        "everything": {"command": "node", "args": [everything, "stdio"]},
    });
    let _computer = lend(&scene, &servers);
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

#[test]
fn pages_are_fetched_and_files_are_written_by_servers_of_others() {
    let Some(scene) = Scene::start() else { return };
    let (Some(files), true) = (of_npm("server-filesystem"), has(&scene, "mcp_server_fetch")) else {
        println!("skipped: ./test installs mcp-server-fetch and server-filesystem");
        return;
    };
    let folder = scene.home.scratch("shelf");
    fs::create_dir_all(&folder).unwrap();
    // It may have another name for the kernel, and the server compares names.
    let folder = folder.canonicalize().unwrap();
    let servers = json!({
        "fetch": {"command": scene.python, "args": ["-m", "mcp_server_fetch", "--ignore-robots-txt", "--allow-private-ips"]},
        "files": {"command": "node", "args": [files, folder]},
    });
    let _computer = lend(&scene, &servers);
    let url = serve_page("<html><body><h1>Notes</h1><p>the blue door</p></body></html>");
    let page = scene.json(
        "call",
        &[
            "nova",
            "fetch__fetch",
            &json!({"url": url, "raw": true}).to_string(),
        ],
    );
    assert!(text(&page).contains("the blue door"), "{page}");
    let note = folder.join("note.txt");
    let write = json!({"path": note, "content": "gr\u{fc}n"}).to_string();
    let written = scene.json("call", &["nova", "files__write_file", &write]);
    assert_eq!(written["isError"], false, "{written}");
    assert_eq!(fs::read_to_string(&note).unwrap(), "gr\u{fc}n");
    let read = json!({ "path": note }).to_string();
    let read = scene.json("call", &["nova", "files__read_text_file", &read]);
    assert_eq!(text(&read), "gr\u{fc}n", "{read}");
    let outside = json!({"path": "/etc/hostname"}).to_string();
    let refused = scene.office("call", &["nova", "files__read_text_file", &outside]);
    assert_eq!(refused.code, 1, "{refused:?}");
}
