//! Workspaces: what real agents read is there, the user's files stay, a failure leaves nothing.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::node;

fn tree(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path.clone());
            }
            found.push(
                path.strip_prefix(dir)
                    .unwrap()
                    .to_string_lossy()
                    .into_owned(),
            );
        }
    }
    found.sort();
    found
}

fn with_skill() -> testkit::Builder {
    node()
        .file(
            "configs/skills/tidy.json",
            r#"{"name":"tidy","description":"Keep it tidy","content":"MARK-SKILL"}"#,
        )
        .file(
            "configs/prompts/greet.yaml",
            "name: greet\ncontent: Hello {{who}}, MARK-PROMPT\n",
        )
        .file(
            "configs/mcp/files.json",
            r#"{"name":"files","command":"files-server","args":["--stdio"]}"#,
        )
}

fn rich() -> Value {
    json!({
        "backend": {"type": "claude-code"},
        "provider": {"type": "anthropic"},
        "domainContext": {"skills": ["tidy"], "prompts": ["greet"], "mcpServers": ["files"]},
        "metadata": {"who": "Ada"},
    })
}

#[test]
fn a_workspace_holds_what_real_agents_read() {
    let daemon = with_skill().start();
    daemon.template("rich", rich());
    let mut client = daemon.client();
    let agent = client.ok("agent.create", json!({"name": "r1", "template": "rich"}));
    let dir = Path::new(agent["workspaceDir"].as_str().unwrap()).to_owned();
    assert_eq!(dir, daemon.home().join("instances/r1"));
    let agents = fs::read_to_string(dir.join("AGENTS.md")).unwrap();
    assert!(
        agents.contains("MARK-SKILL") && agents.contains("Hello Ada, MARK-PROMPT"),
        "{agents}"
    );
    assert!(
        fs::read_to_string(dir.join("CLAUDE.md"))
            .unwrap()
            .contains("AGENTS.md")
    );
    for skills in [".agents/skills", ".claude/skills"] {
        assert!(
            fs::read_to_string(dir.join(skills).join("tidy/SKILL.md"))
                .unwrap()
                .contains("MARK-SKILL")
        );
    }
    let mcp: Value =
        serde_json::from_str(&fs::read_to_string(dir.join(".mcp.json")).unwrap()).unwrap();
    assert_eq!(mcp["mcpServers"]["files"]["command"], "files-server");
    for path in tree(&dir) {
        let text = fs::read_to_string(dir.join(&path)).unwrap_or_default();
        assert!(
            !text.contains("\"allow\""),
            "{path} allows tools behind the policy's back"
        );
    }
    let instance: Value =
        serde_json::from_str(&fs::read_to_string(dir.join(".agentcraft.json")).unwrap()).unwrap();
    assert_eq!(instance, client.ok("agent.status", json!({"name": "r1"})));
}

#[test]
fn a_work_dir_gets_a_link_and_keeps_the_users_files_on_destroy() {
    let daemon = with_skill().start();
    daemon.template("rich", rich());
    let mut client = daemon.client();
    let dir = daemon.scratch("project");
    fs::create_dir_all(dir.join("src")).unwrap();
    fs::write(dir.join("src/main.rs"), "fn main() {}").unwrap();
    fs::write(dir.join("AGENTS.md"), "the user's own").unwrap();

    let create = |conflict: Value| json!({"name": "w1", "template": "rich", "overrides": {"workDir": dir, "workDirConflict": conflict}});
    let error = client.call(
        "agent.create",
        json!({"name": "w1", "template": "rich", "overrides": {"workDir": dir}}),
    );
    assert_eq!(error.unwrap_err().code, -32005);
    assert_eq!(
        tree(&dir),
        ["AGENTS.md", "src", "src/main.rs"],
        "a refused create changes nothing"
    );

    client.ok("agent.create", create(json!("append")));
    assert_eq!(
        fs::read_to_string(dir.join("AGENTS.md")).unwrap(),
        "the user's own"
    );
    assert!(dir.join("CLAUDE.md").exists());
    let link = daemon.home().join("instances/w1");
    assert_eq!(fs::read_link(&link).unwrap(), dir);
    let other = json!({"name": "w2", "template": "rich", "overrides": {"workDir": dir, "workDirConflict": "append"}});
    assert_eq!(
        client.call("agent.create", other).unwrap_err().code,
        -32005,
        "one agent for each folder"
    );

    client.ok("agent.destroy", json!({"name": "w1"}));
    assert!(!link.is_symlink());
    assert!(!dir.join(".agentcraft.json").exists());
    assert!(dir.join("src/main.rs").exists() && dir.join("CLAUDE.md").exists());

    client.ok("agent.create", create(json!("overwrite")));
    assert!(
        fs::read_to_string(dir.join("AGENTS.md"))
            .unwrap()
            .contains("MARK-SKILL")
    );
    assert!(dir.join("src/main.rs").exists());
    client.ok("agent.destroy", json!({"name": "w1"}));
    assert_eq!(tree(&daemon.home().join("instances")), Vec::<String>::new());
}

#[test]
fn a_create_that_fails_leaves_nothing() {
    let daemon = with_skill().start();
    let mut failing = rich();
    failing["initializer"] = json!({"steps": [
        {"type": "mkdir", "config": {"path": "made"}},
        {"type": "write-file", "config": {"path": "made/file.txt", "content": "x"}},
        {"type": "exec", "config": {"command": "sh", "args": ["-c", "echo no luck >&2; exit 3"]}},
    ]});
    daemon.template("failing", failing);
    let mut client = daemon.client();
    let error = client
        .call("agent.create", json!({"name": "f1", "template": "failing"}))
        .unwrap_err();
    assert_eq!(
        (error.code, &error.data["errorCode"]),
        (-32005, &json!("WORKSPACE_INIT"))
    );
    assert!(
        error.message.contains("initializer.steps[2]") && error.message.contains("no luck"),
        "{}",
        error.message
    );
    assert_eq!(tree(&daemon.home().join("instances")), Vec::<String>::new());
    assert_eq!(client.ok("agent.list", json!({})), json!([]));

    let dir = daemon.scratch("project");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("AGENTS.md"), "the user's own").unwrap();
    let overrides = json!({"workDir": dir, "workDirConflict": "overwrite"});
    let error = client.call(
        "agent.create",
        json!({"name": "f1", "template": "failing", "overrides": overrides}),
    );
    assert_eq!(error.unwrap_err().code, -32005);
    assert_eq!(
        tree(&dir)
            .iter()
            .filter(|path| *path != "made")
            .collect::<Vec<_>>(),
        ["AGENTS.md"]
    );
    assert_eq!(
        fs::read_to_string(dir.join("AGENTS.md")).unwrap(),
        "the user's own"
    );
    assert_eq!(tree(&daemon.home().join("instances")), Vec::<String>::new());
}

#[test]
fn initializer_steps_stay_in_the_workspace_and_end_in_time() {
    let daemon = node().file("configs/files/note.txt", "a note").start();
    let step =
        |step: Value| json!({"backend": {"type": "builtin"}, "initializer": {"steps": [step]}});
    daemon.template("copies", step(json!({"type": "file-copy", "config": {"from": "files/note.txt", "to": "docs/note.txt"}})));
    daemon.template("hangs", step(json!({"type": "exec", "config": {"command": "sleep", "args": ["1000"], "timeoutMs": 100}})));
    daemon.template(
        "links",
        json!({"backend": {"type": "builtin"}, "initializer": {"steps": [
            {"type": "exec", "config": {"command": "ln", "args": ["-s", "/tmp", "out"]}},
            {"type": "write-file", "config": {"path": "out/escaped-by-agentcraft", "content": "x"}},
        ]}}),
    );
    let mut client = daemon.client();
    let agent = client.ok("agent.create", json!({"name": "c1", "template": "copies"}));
    let copied = Path::new(agent["workspaceDir"].as_str().unwrap()).join("docs/note.txt");
    assert_eq!(fs::read_to_string(copied).unwrap(), "a note");
    let error = client
        .call("agent.create", json!({"name": "h1", "template": "hangs"}))
        .unwrap_err();
    assert!(
        error.message.contains("did not end within 100 ms"),
        "{}",
        error.message
    );
    let error = client
        .call("agent.create", json!({"name": "l1", "template": "links"}))
        .unwrap_err();
    assert_eq!(error.code, -32005, "{}", error.message);
    assert!(!Path::new("/tmp/escaped-by-agentcraft").exists());
}

#[test]
fn a_damaged_instance_is_said_to_be_damaged() {
    let daemon = node().start();
    daemon.script_template("own", "exec sleep 1000");
    let mut client = daemon.client();
    for (name, damage) in [("d1", None), ("d2", Some("{ not json"))] {
        client.ok("agent.create", json!({"name": name, "template": "own"}));
        let file = daemon
            .home()
            .join("instances")
            .join(name)
            .join(".agentcraft.json");
        match damage {
            None => fs::remove_file(&file).unwrap(),
            Some(text) => fs::write(&file, text).unwrap(),
        }
        for method in ["agent.start", "agent.resolve", "agent.destroy"] {
            let error = client.call(method, json!({"name": name})).unwrap_err();
            assert_eq!(
                (error.code, &error.data["errorCode"]),
                (-32007, &json!("INSTANCE_CORRUPTED")),
                "{method}"
            );
        }
        client.ok("agent.destroy", json!({"name": name, "force": true}));
    }
    assert_eq!(client.ok("agent.list", json!({})), json!([]));
}

#[test]
fn changed_files_of_the_configs_folder_are_read_again() {
    let daemon = node().start();
    let mut client = daemon.client();
    let path = daemon.home().join("configs/skills/new.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, r#"{"name":"new","content":"one"}"#).unwrap();
    testkit::eventually("the new skill is there", || {
        client.call("skill.get", json!({"name": "new"})).is_ok()
    });
    fs::write(&path, r#"{"name":"new","content":"two"}"#).unwrap();
    testkit::eventually("the change is there", || {
        client.ok("skill.get", json!({"name": "new"}))["content"] == "two"
    });
    fs::write(&path, "{ broken").unwrap();
    testkit::eventually("the problem is there", || {
        client.ok("template.problems", json!({})) != json!([])
    });
    assert_eq!(
        client
            .call("skill.get", json!({"name": "new"}))
            .unwrap_err()
            .code,
        -32000
    );
    fs::remove_file(&path).unwrap();
    testkit::eventually("the problem is gone", || {
        client.ok("template.problems", json!({})) == json!([])
    });
}
