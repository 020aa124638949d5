//! Being installed, upgraded and looked into: what a person who keeps a node running meets.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};
use testkit::TestDaemon;

use crate::{node, office::Running};

fn read(daemon: &TestDaemon, path: &str) -> String {
    let path = daemon.scratch(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_service_is_installed_with_completions_and_manual_and_taken_back_whole() {
    let daemon = node().stopped();
    let (config, data) = (daemon.scratch("config"), daemon.scratch("data"));
    let run = |word: &str| {
        let mut command = daemon.command(&["service", word]);
        command
            .env("XDG_CONFIG_HOME", &config)
            .env("XDG_DATA_HOME", &data);
        command.env_remove("XDG_RUNTIME_DIR");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    let said = run("install");
    assert!(
        said.contains("systemctl --user enable --now agentcraft.service"),
        "{said}"
    );
    let manual = daemon.scratch("data/man");
    assert!(
        said.contains(&format!("MANPATH=\"{}", manual.display())),
        "{said}"
    );
    assert!(said.contains("fpath=("), "{said}");
    let unit = read(&daemon, "config/systemd/user/agentcraft.service");
    assert_eq!(unit, run("show"));
    let home = daemon.home();
    let start = format!("--home {} daemon start --foreground", home.display());
    assert!(unit.contains(&start), "{unit}");
    let keys = format!("EnvironmentFile=-{}/service.env", home.display());
    assert!(unit.contains(&keys), "{unit}");
    for file in [
        "data/bash-completion/completions/agentcraft",
        "data/zsh/site-functions/_agentcraft",
        "config/fish/completions/agentcraft.fish",
        "data/man/man1/agentcraft-agent-run.1",
    ] {
        assert!(read(&daemon, file).contains("agentcraft"), "{file}");
    }
    let stranger = daemon.scratch("data/man/man1/other.1");
    fs::write(&stranger, "not ours").unwrap();
    let said = run("uninstall");
    // The unit is gone: what is to be run names nothing that needs it.
    assert!(
        said.contains("run: systemctl --user stop agentcraft.service"),
        "{said}"
    );
    let left = |folder: &std::path::Path| {
        let files = walk(folder);
        files.into_iter().filter(|file| file != &stranger).count()
    };
    assert_eq!((left(&config), left(&data)), (0, 0));
    assert!(stranger.exists(), "what is not ours stays");
}

#[test]
fn a_service_is_the_node_that_the_shell_means() {
    let daemon = node().stopped();
    let (socket, configs) = (daemon.scratch("n.sock"), daemon.scratch("my configs"));
    let flags = [
        "--configs-dir",
        configs.to_str().unwrap(),
        "service",
        "show",
    ];
    let mut command = daemon.command(&flags);
    command
        .env("AGENTCRAFT_SOCKET", &socket)
        .env("AGENTCRAFT_LISTEN", "127.0.0.1:7777")
        .env("PATH", "/opt/100%/bin:/usr/bin:/bin");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let unit = String::from_utf8(output.stdout).unwrap();
    for part in [
        format!("--socket {}", socket.display()),
        format!("--configs-dir \"{}\"", configs.display()),
        "Environment=\"AGENTCRAFT_LISTEN=127.0.0.1:7777\"".to_owned(),
        "Environment=\"PATH=/opt/100%%/bin:/usr/bin:/bin\"".to_owned(),
    ] {
        assert!(unit.contains(&part), "{part}: {unit}");
    }
}

#[test]
fn a_service_is_not_started_beside_a_node_that_runs() {
    let daemon = node().start();
    let mut command = daemon.command(&["service", "install"]);
    command.env("XDG_CONFIG_HOME", daemon.scratch("config"));
    command.env("XDG_DATA_HOME", daemon.scratch("data"));
    command.env_remove("XDG_RUNTIME_DIR");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("a node runs already"), "{said}");
    assert!(
        said.contains("systemctl --user enable agentcraft.service"),
        "{said}"
    );
    assert!(!said.contains("--now"), "{said}");
}

#[test]
fn completions_leave_the_words_of_the_shell_as_they_are_and_still_know_targets() {
    let daemon = node().start();
    daemon.template("triage", json!({"backend": {"type": "builtin"}}));
    let program = Path::new(env!("CARGO_BIN_EXE_agentcraft"));
    let script = format!(
        "PATH={}:$PATH; before=$COMP_WORDBREAKS; source <(agentcraft completions bash); [[ $before == $COMP_WORDBREAKS ]] || exit 3; \
         COMP_WORDS=(agentcraft agent run template : tri); COMP_CWORD=5; COMP_TYPE=9; \
         _agentcraft agentcraft tri :; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        program.parent().unwrap().display(),
    );
    let plain = daemon.command(&[]);
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]);
    for (name, value) in plain.get_envs() {
        bash.env(name, value.unwrap_or_default());
    }
    let output = bash.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "triage\n");
}

/// What bash itself would offer after these words.
fn offered(daemon: &TestDaemon, words: &[&str]) -> Vec<String> {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_agentcraft"));
    let (last, before) = words.split_last().unwrap();
    let script = format!(
        "PATH={}:$PATH; source <(agentcraft completions bash); COMP_WORDS=(agentcraft {}); COMP_CWORD={}; COMP_TYPE=9; \
         _clap_complete_agentcraft agentcraft '{last}' '{}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        program.parent().unwrap().display(),
        words.join(" "),
        words.len(),
        before.last().unwrap_or(&"agentcraft"),
    );
    let plain = daemon.command(&[]);
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]);
    bash.current_dir(plain.get_current_dir().unwrap());
    for (name, value) in plain.get_envs() {
        bash.env(name, value.unwrap_or_default());
    }
    let output = bash.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let offered = String::from_utf8(output.stdout).unwrap();
    offered.lines().map(str::to_owned).collect()
}

#[test]
fn a_shell_offers_the_agents_templates_and_workflows_that_are_there() {
    let workflow = "name: greet\nstates:\n  initial: done\n  done: {type: terminal}\n";
    let daemon = node()
        .file("configs/workflows/greet.yaml", workflow)
        .start();
    daemon.template("echo", json!({"backend": {"type": "builtin"}}));
    let mut client = daemon.client();
    client.ok(
        "agent.create",
        json!({"name": "reviewer", "template": "echo"}),
    );
    assert_eq!(offered(&daemon, &["agent", "stop", "rev"]), ["reviewer"]);
    assert_eq!(
        offered(&daemon, &["agent", "chat", "workflow:g"]),
        ["workflow:greet"]
    );
    assert_eq!(
        offered(&daemon, &["agent", "run", "--template", "ec"]),
        ["echo"]
    );
    assert_eq!(
        offered(&daemon, &["agent", "create", "x", "-t", "workflow:g"]),
        ["workflow:greet"]
    );
    assert_eq!(offered(&daemon, &["agent", "resol"]), ["resolve"]);
    assert_eq!(offered(&daemon, &["agent", "create", "rev"]), [""]);
}

#[test]
fn a_shell_offers_what_lies_behind_the_port_and_of_the_node_that_the_line_means() {
    let peer = node().listening().start();
    peer.template("echo", json!({"backend": {"type": "builtin"}}));
    let mut client = peer.client();
    client.ok("agent.create", json!({"name": "news", "template": "echo"}));
    client.ok("agent.start", json!({"name": "news"}));
    let daemon = node().listening().start();
    let token = daemon.scratch("peer.token");
    fs::create_dir_all(daemon.scratch("")).unwrap();
    fs::write(&token, peer.token()).unwrap();
    let file = token.to_str().unwrap();
    let add = [
        "peer",
        "add",
        &peer.url(),
        "--token-file",
        file,
        "-f",
        "quiet",
    ];
    let added = daemon.cli(&add);
    let alias = added.stdout.trim();
    let created = daemon.cli(&["token", "create", "bot", "-f", "json"]);
    let created: Value = serde_json::from_str(&created.stdout).unwrap();
    let id = created["id"].as_str().unwrap();
    assert_eq!(offered(&daemon, &["peer", "show", &alias[..2]]), [alias]);
    assert_eq!(offered(&daemon, &["token", "revoke", &id[..2]]), [id]);
    let target = format!("peer:{alias}/news");
    testkit::eventually("the peer says what it can do", || {
        offered(&daemon, &["agent", "run", &target[..target.len() - 2]]) == [target.clone()]
    });
    let home = peer.home();
    let elsewhere = ["--home", home.to_str().unwrap(), "agent", "stop", "ne"];
    assert_eq!(offered(&daemon, &elsewhere), ["news"]);
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                walk(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

#[test]
fn an_upgrade_is_checked_without_touching_what_is_kept() {
    let mut daemon = node().stopped();
    let check = |daemon: &TestDaemon| {
        let output = daemon.cli(&["upgrade-check", "-f", "json"]);
        let told: Value = serde_json::from_str(&output.stdout).unwrap();
        (output.code, told["verdict"].as_str().unwrap().to_owned())
    };
    assert_eq!(check(&daemon), (0, "empty".to_owned()));
    daemon.start();
    daemon.stop();
    assert_eq!(check(&daemon), (0, "same".to_owned()));
    for name in ["state.db", "runs.db"] {
        let stores = walk(&daemon.home()).into_iter();
        let store = stores.into_iter().find(|path| path.ends_with(name));
        let store = store.unwrap();
        let known = set_version(&store, 999);
        let before = fs::read(&store).unwrap();
        assert_eq!(check(&daemon), (1, "refused".to_owned()), "{name}");
        assert_eq!(fs::read(&store).unwrap(), before);
        let refused = daemon.cli(&["daemon", "start"]);
        assert_ne!(refused.code, 0);
        assert!(refused.stderr.contains("newer version"), "{refused:?}");
        set_version(&store, known);
    }
    assert_eq!(check(&daemon), (0, "same".to_owned()));
}

/// Gives a store another version, and tells which it had.
fn set_version(store: &Path, version: u32) -> u32 {
    const SCRIPT: &str = "import sqlite3, sys; store = sqlite3.connect(sys.argv[1]); \
        print(store.execute('PRAGMA user_version').fetchone()[0]); \
        store.execute('PRAGMA user_version = ' + sys.argv[2])";
    let written = Command::new("python3")
        .args(["-c", SCRIPT])
        .arg(store)
        .arg(version.to_string())
        .output()
        .unwrap();
    assert!(written.status.success(), "{written:?}");
    String::from_utf8(written.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

#[test]
fn a_bundle_tells_of_the_node_and_neither_of_secrets_nor_of_conversations() {
    let daemon = node()
        .listening()
        .env("DEPLOY_TOKEN", "very-secret-value")
        .file(
            "config.toml",
            "[http]\nname = \"nova\"\n[runs]\ndropbox_uri = \"smb://bob:hunter2-pass@nas/\"\n",
        )
        .start();
    daemon.template(
        "echo",
        json!({"backend": {"type": "builtin"}, "env": {"API": "inner-secret"}}),
    );
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "echo", "template": "echo"}));
    client.ok(
        "agent.run",
        json!({"name": "echo", "prompt": "words of a conversation"}),
    );
    let file = daemon.scratch("trouble.md");
    fs::create_dir_all(daemon.scratch("")).unwrap();
    let output = daemon.cli(&["debug", "bundle", "--output", file.to_str().unwrap()]);
    assert_eq!(output.code, 0, "{output:?}");
    let text = fs::read_to_string(&file).unwrap();
    for part in [
        "## Doctor",
        "name = \"nova\"",
        "\"echo\"",
        "turn.ended",
        "DEPLOY_TOKEN",
        "## Log",
        "writes its log there",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    for secret in [
        "very-secret-value",
        "inner-secret",
        "hunter2-pass",
        "words of a conversation",
        &daemon.token(),
    ] {
        assert!(!text.contains(secret), "{secret} is in it");
    }
    let again = daemon.cli(&["debug", "bundle", "--output", file.to_str().unwrap()]);
    assert_ne!(again.code, 0, "a file that is there is not overwritten");
}

/// A daemon in the background, which ends with the test.
struct Background(TestDaemon);

impl Background {
    fn start(daemon: TestDaemon) -> Self {
        let started = daemon.cli(&["daemon", "start"]);
        assert_eq!(started.code, 0, "{started:?}");
        Self(daemon)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.0.cli(&["daemon", "stop"]);
    }
}

#[test]
fn the_log_has_neither_tokens_nor_words_at_its_most_talkative() {
    let daemon = node().listening().env("AGENTCRAFT_LOG", "trace").stopped();
    let background = Background::start(daemon);
    let daemon = &background.0;
    let template = json!({"backend": {"type": "builtin"}});
    daemon.template("echo", template);
    let said = ["agent", "run", "template:echo", "-p", "words-of-a-turn"];
    assert_eq!(daemon.cli(&said).code, 0);
    let right = "office:computer:studio";
    let made = daemon.cli(&["token", "create", "desk", "--right", right, "-f", "quiet"]);
    let (desk, owner) = (daemon.scratch("desk.token"), daemon.scratch("owner.token"));
    fs::create_dir_all(daemon.scratch("")).unwrap();
    fs::write(&desk, made.stdout.trim()).unwrap();
    fs::write(&owner, daemon.token()).unwrap();
    let (desk, owner) = (desk.to_str().unwrap(), owner.to_str().unwrap());
    let url = daemon.url();
    let join = [
        "computer",
        "join",
        &url,
        "studio",
        "--name",
        "here",
        "--token-file",
        desk,
    ];
    let computer = Running::start(daemon.command(&join));
    computer.until("joined ");
    let words = r#"{"word": "words-of-a-call"}"#;
    let call = [
        "office",
        "call",
        &url,
        "studio",
        "here",
        "no__tool",
        words,
        "--token-file",
        owner,
    ];
    let called = daemon.cli(&call);
    assert_ne!(called.code, 0, "{called:?}");
    let log = fs::read_to_string(daemon.home().join("logs/daemon.log")).unwrap();
    assert!(log.contains("a turn begins"), "details are logged: {log}");
    for secret in [
        made.stdout.trim(),
        &daemon.token(),
        "words-of-a-turn",
        "words-of-a-call",
    ] {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret}");
    }
}

#[test]
fn a_bundle_is_written_although_the_settings_are_broken_and_tells_nothing_secret_of_them() {
    let daemon = node().start();
    let broken = "[http]\ntoken = \"hunter2-pass\" oops\n";
    fs::write(daemon.home().join("config.toml"), broken).unwrap();
    fs::create_dir_all(daemon.scratch("")).unwrap();
    let file = daemon.scratch("trouble.md");
    let output = daemon.cli(&["debug", "bundle", "--output", file.to_str().unwrap()]);
    assert_eq!(output.code, 0, "{output:?}");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("config.toml: line 2, column"), "{text}");
    assert!(!text.contains("hunter2-pass"), "{text}");
    let doctor = daemon.cli(&["doctor"]);
    assert_eq!(doctor.code, 1, "{doctor:?}");
    assert!(doctor.stdout.contains("line 2, column"), "{doctor:?}");
    let refused = daemon.cli(&["agent", "list"]);
    assert_ne!(refused.code, 0);
    assert!(!refused.stderr.contains("hunter2-pass"), "{refused:?}");
}

#[test]
fn a_bundle_is_written_although_the_daemon_hangs() {
    let mut daemon = node().start();
    let pid = daemon.pid();
    testkit::kill(pid, "STOP");
    let file = daemon.scratch("trouble.md");
    fs::create_dir_all(daemon.scratch("")).unwrap();
    let output = daemon.cli(&["debug", "bundle", "--output", file.to_str().unwrap()]);
    testkit::kill(pid, "CONT");
    assert_eq!(output.code, 0, "{output:?}");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("could not be asked"), "{text}");
    assert!(text.contains("## Log"), "{text}");
    daemon.stop();
}
