//! What a program in the sandbox can do, tried by shells that were put into one.

use std::process::Command as Process;

use super::*;

/// The role of the sandboxed process: this very test, started again with this variable.
const WORDS: &str = "SANDBOX_TEST_WORDS";

/// Runs a shell's script in the sandbox; tells what it printed and whether it succeeded.
fn run(sandbox: &Sandbox, script: &str) -> (String, bool) {
    let words = sandbox.arguments(OsStr::new("/bin/sh"), &["-c".into(), script.into()]);
    let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
    let output = Process::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "sandbox::tests::role_of_the_sandboxed_program",
            "--nocapture",
        ])
        .env(WORDS, words.join("\u{1}"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (text, output.status.success())
}

#[test]
fn role_of_the_sandboxed_program() {
    let Ok(words) = std::env::var(WORDS) else {
        return; // It is only a role.
    };
    let words: Vec<OsString> = words.split('\u{1}').map(OsString::from).collect();
    let failed = become_program(&words).unwrap_err();
    panic!("{failed:?}");
}

fn skipped() -> bool {
    if !is_available() {
        println!("skipped: this kernel has no landlock of Linux 6.2");
    }
    !is_available()
}

#[test]
fn a_program_writes_in_its_folders_and_reads_nothing_of_others() {
    if skipped() {
        return;
    }
    let (mine, others) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mine, others) = (mine.path(), others.path());
    std::fs::write(others.join("secret"), "s").unwrap();
    let sandbox = Sandbox {
        write: vec![mine.to_owned()],
        ..Sandbox::default()
    };
    let mine_shown = mine.display();
    let script = format!(
        "cd {mine_shown} && mkdir a b && echo x > a/f && mv a/f b/f && ln b/f b/g && : > b/f && echo ok"
    );
    let (text, done) = run(&sandbox, &script);
    assert!(done && text.contains("ok"), "{text}");
    assert!(mine.join("b/g").exists());
    for (script, why) in [
        (format!("cat {}/secret", others.display()), "read"),
        (format!("echo x > {}/new", others.display()), "create"),
        (format!("ls {}", others.display()), "list"),
        (
            format!("mv {mine_shown}/b/f {}/f", others.display()),
            "move out",
        ),
        (
            "echo x > /etc/agentcraft-sandbox-test".to_owned(),
            "the system",
        ),
        (
            format!("cat /proc/{}/environ", std::process::id()),
            "the environment of another process",
        ),
    ] {
        let (text, done) = run(&sandbox, &script);
        assert!(!done, "{why}: {text}");
    }
    let reading = Sandbox {
        read: vec![others.to_owned()],
        ..Sandbox::default()
    };
    assert!(run(&reading, &format!("cat {}/secret", others.display())).1);
    assert!(!run(&reading, &format!("rm {}/secret", others.display())).1);
}

#[test]
fn sockets_are_closed_unless_the_internet_is_allowed_and_those_in_files_always() {
    if skipped() {
        return;
    }
    let python = "/usr/bin/python3";
    if !std::path::Path::new(python).exists() {
        println!("skipped: there is no {python}");
        return;
    }
    let make = |family: &str| {
        format!("exec {python} -c 'import socket; socket.socket(socket.{family}); print(\"made\")'")
    };
    let pair = format!("exec {python} -c 'import socket; socket.socketpair(); print(\"made\")'");
    let offline = Sandbox::default();
    let online = Sandbox {
        network: Network::Internet,
        ..Sandbox::default()
    };
    for (sandbox, script, made) in [
        (&offline, make("AF_INET"), false),
        (&offline, make("AF_INET6"), false),
        (&offline, make("AF_UNIX"), false),
        (&offline, pair, true),
        (&online, make("AF_INET"), true),
        (&online, make("AF_INET6"), true),
        (&online, make("AF_UNIX"), false),
    ] {
        let (text, done) = run(sandbox, &script);
        assert_eq!(done, made, "{script}: {text}");
    }
}

#[test]
fn a_program_that_is_alone_runs_no_other_one_whatever_it_tries() {
    if skipped() {
        return;
    }
    let mine = tempfile::tempdir().unwrap();
    let copy = mine.path().join("true");
    std::fs::copy("/bin/true", &copy).unwrap();
    let alone = Sandbox {
        write: vec![mine.path().to_owned()],
        network: Network::Internet,
        programs: Programs::None,
        ..Sandbox::default()
    };
    let (text, done) = run(&alone, "cd /; (echo forked); echo works");
    assert!(
        done && text.contains("forked") && text.contains("works"),
        "{text}"
    );
    let shown = copy.display();
    for script in [
        "exec /bin/true".to_owned(),
        "/bin/true".to_owned(),
        "exec sh -c true".to_owned(),
        format!("exec {shown}"),
        format!("exec /lib64/ld-linux-x86-64.so.2 {shown}"),
        format!("exec /lib/ld-linux-aarch64.so.1 {shown}"),
        // The name of the program itself opens nothing either.
        "exec \"$0\" -c true".to_owned(),
    ] {
        let (text, done) = run(&alone, &script);
        assert!(!done, "{script}: {text}");
    }
    let any = Sandbox {
        programs: Programs::Any,
        ..alone
    };
    for script in ["exec /bin/true".to_owned(), format!("exec {shown}")] {
        let (text, done) = run(&any, &script);
        assert!(done, "{script}: {text}");
    }
}

#[test]
fn words_that_describe_no_sandbox_are_refused() {
    for words in [
        &[][..],
        &["--"],
        &["--read", "--"],
        &["--wide-open", "--", "sh"],
        &["--read", "/a", "sh"],
    ] {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        assert_eq!(Sandbox::parse(&words), None, "{words:?}");
    }
    let sandbox = Sandbox {
        read: vec!["/a".into()],
        write: vec!["/--".into()],
        network: Network::None,
        programs: Programs::None,
    };
    let words = sandbox.arguments(OsStr::new("p"), &["--read".into()]);
    let (read, line) = Sandbox::parse(&words).unwrap();
    assert_eq!(read, sandbox);
    assert_eq!(line, ["p", "--read"]);
}
