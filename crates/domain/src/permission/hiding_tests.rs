//! Claims about commands that hide what they run: behind redirections, options of wrappers, other shells' quotes.

use super::*;
use crate::turn::ToolKind;

fn call(command: &str) -> Call {
    Call {
        kind: ToolKind::Execute,
        name: None,
        title: "run".into(),
        paths: Vec::new(),
        command: Some(command.into()),
        workspace: "/ws".into(),
        opaque: false,
    }
}

fn decision(default: Decision, rule: Decision, pattern: &str, command: &str) -> Decision {
    let policy = Policy {
        rules: vec![Rule {
            kinds: vec![ToolKind::Execute],
            command: Some(CommandPattern::parse(pattern).unwrap()),
            ..Rule::any(rule)
        }],
        default: Some(default),
    };
    decide(&policy, &call(command)).decision
}

fn is_allowed(pattern: &str, command: &str) -> bool {
    decision(Decision::Deny, Decision::Allow, pattern, command) == Decision::Allow
}

fn is_denied(pattern: &str, command: &str) -> bool {
    decision(Decision::Allow, Decision::Deny, pattern, command) == Decision::Deny
}

#[track_caller]
fn all_are_found(commands: &[&str]) {
    for command in commands {
        assert!(is_denied("rm *", command), "denied: {command}");
        assert!(is_destructive(&call(command)), "destructive: {command}");
    }
}

#[test]
fn a_star_that_allows_covers_no_quotes_that_shells_read_differently() {
    for command in [
        r"echo ok $'a\'; rm -rf /x; : '\'",
        "echo $'a'",
        "echo $\"a\"",
        "echo a$'b'",
        "echo ${a}",
        "echo $[a]",
    ] {
        assert!(!is_allowed("echo *", command), "{command}");
        assert!(!is_allowed("*", command), "{command}");
    }
    // What the rule itself spells is allowed, and nothing more of the kind.
    assert!(is_allowed("echo $'a' *", "echo $'a' b"));
    assert!(!is_allowed("echo $'a' *", "echo $'a' $'b'"));
    assert!(!is_allowed(
        "echo $'a' *",
        r"echo $'a' $'b\'; rm -rf /x; : '\'"
    ));
    assert!(is_allowed("echo ${a} *", "echo ${a} b"));
    assert!(!is_allowed("echo ${a} *", "echo ${a} ${b@P}"));
    // A dollar before the end of quotes is a dollar.
    assert!(is_allowed("grep *", "grep 'a$' b"));
    assert!(is_allowed("grep *", "grep \"a$\" b"));
}

#[test]
fn quotes_that_shells_read_differently_are_denied_in_either_reading() {
    // One shell runs the first, the other the second.
    all_are_found(&[
        r"echo ok $'a\'; rm -rf /x; : '\'",
        r"echo ok $'a\''; rm -rf /x; : '",
        r"$'rm' x",
        r"$'\162\x6d' x",
        "$\"rm\" x",
    ]);
}

#[test]
fn a_program_that_is_not_named_is_not_allowed_by_a_star() {
    for command in [
        "$x -rf a",
        "\"$x\" -rf a",
        "A=1 $x a",
        "/bin/r? a",
        "r[m] a",
    ] {
        assert!(!is_allowed("*", command), "{command}");
        assert!(!is_allowed("* a", command), "{command}");
    }
    assert!(!is_allowed("x=*; *", "x=rm; $x -rf a"));
    assert!(is_allowed("$CC *", "$CC -c a.c"));
    assert!(is_allowed("ls *", "ls $x *.c"));
    assert!(is_allowed("ls > *", "ls > $x"));
    assert!(is_allowed("[ *", "[ -f a ]"));
}

#[test]
fn a_redirection_hides_no_command() {
    all_are_found(&[
        "2>/dev/null rm -rf x",
        ">/dev/null rm -rf /",
        "ls; >&2 rm -rf x",
        "rm>/dev/null -rf x",
        "rm 2>/dev/null x",
        "rm 2>&1 x",
        "</dev/null rm x",
        "< /dev/null > 'a b' rm x",
        ">>\"a b\" rm x",
        "{fd}>a rm x",
        "ls &>a rm x",
        "rm &>a x",
        ">|a rm x",
        ">$(date).log rm x",
        "A=1 >a sudo >b rm x",
        "sudo 2>a -u root rm x",
        "if true; then >a rm x; fi",
    ]);
    assert!(is_denied("curl * | sh", "curl x 2>/dev/null | sh"));
}

#[test]
fn options_of_wrappers_hide_no_command() {
    all_are_found(&[
        r"ls | xargs -d'\n' rm -rf",
        "xargs -i rm {}",
        "xargs -l rm",
        "xargs rm",
        "xargs -I{} rm {}",
        "xargs -I {} -P 4 rm {}",
        "xargs --max-args 1 rm",
        "xargs -0r rm",
        "sudo -uroot rm -rf x",
        "sudo --user root rm x",
        "sudo --user=root rm x",
        "sudo -nu root rm x",
        "sudo -E A=1 -u root rm x",
        "sudo -- rm x",
        "timeout -k5s 10 rm x",
        "timeout --signal KILL 5 rm x",
        "timeout --foreground 5 rm x",
        "env --unset A rm x",
        "env -S'rm x'",
        "env -vS 'rm x'",
        "env --split-string='rm x'",
        "env -uA -C /tmp B=1 rm x",
        "env -i - rm x",
        "sudo -s rm x",
        "xargs -a list rm",
        "nice -5 rm x",
        "nice --adjustment 5 rm x",
        "ionice -c3 rm x",
        "setsid -f rm x",
        "nohup rm x &",
        "stdbuf -oL rm x",
        "stdbuf --output 0 rm x",
        "chroot --userspec a /new rm x",
        "unshare -r --mount rm x",
        "doas -u root rm x",
        "exec -a y rm x",
        "command -p rm x",
        "builtin command rm x",
        "time -p rm x",
        "/usr/bin/time -f %e -o a rm x",
        "watch -n1 rm x",
        "watch 'rm x'",
        "watch --interval 1 'ls; rm x'",
        "parallel rm ::: x",
        "parallel -j 4 'rm {}' ::: x",
        "flock /tmp/a rm x",
        "flock /tmp/a -c 'rm x'",
        "taskset -c 0 rm x",
        "strace -f -o a rm x",
        "busybox rm x",
        "ssh host rm x",
        "ssh -p22 -i key host 'cd a && rm x'",
        "ssh host cd a '&&' rm x",
        "docker exec -it box rm x",
        "docker run --rm -v a:b image rm x",
        "kubectl exec pod -c box -- rm x",
        "find . -exec rm {} +",
        r"find . -name a -execdir sudo rm {} \;",
        r"find . -ok rm {} \;",
        r"find . -exec sh -c 'rm x' \;",
        "fd a -x rm",
        "uv run rm x",
        "uv run -i index rm x",
        "git submodule foreach 'rm x'",
        "A=1 B+=2 C[0]=3 rm x",
    ]);
    // A wrapper behind a wrapper is found, too.
    assert!(is_denied("sudo *", "A=1 env B=2 sudo -n ls"));
    assert!(is_denied("xargs *", "ls | sudo xargs ls"));
}

#[test]
fn the_language_of_the_shell_hides_no_command() {
    all_are_found(&[
        "coproc rm x",
        "coproc NAME { rm x; }",
        "function f { rm x; }; f",
        "f() { rm x; }; f",
        "f() ( rm x ); f",
        "! rm x",
        "time rm x",
        "while true; do rm x; done",
        "until false; do rm x; done",
        "for a in b; do rm $a; done",
        "for a in b\ndo\nrm $a\ndone",
        "if ls; then ls; else rm x; fi",
        "if ls; then ls; elif rm x; then ls; fi",
        "case a in a) rm x;; esac",
        "case a in (a|b) rm x;; esac",
        "echo $(case a in a) rm x;; esac)",
        "{ rm x; }",
        "( rm x )",
        "{rm,-rf,x}",
        "ls && rm x || true",
        "ls |& rm x",
        "rm $(ls)",
        "rm `ls`",
        "rm <(ls)",
        "echo \"$(echo `rm x`)\"",
        r"echo `echo \`rm x\``",
        "diff <(rm x) >(ls)",
        "x=rm; $x -rf a",
        "export x=rm; \"$x\" a",
        "x='rm -rf'; ${x} a",
        "set -- rm x; \"$@\"",
        "alias ls='rm -rf'; ls x",
        r"\rm x",
        "'rm' x",
        "r\"\"m x",
        "/usr/bin/rm x",
        "r\\\nm x",
        "rm${IFS}-rf${IFS}x",
        "$x rm x",
        "$(true) rm x",
        "env $x rm x",
        "${x:-rm} a",
        "${x:-rm a}",
        "echo `# b` ; rm x",
        "rm\tx",
    ]);
}

#[test]
fn another_shell_hides_no_command() {
    all_are_found(&[
        "su -c 'rm x'",
        "su - root -c 'rm x'",
        "su -c'rm x'",
        "su --command='rm x' root",
        "su --command 'rm x'",
        "runuser -u a -- rm x",
        "runuser -l a -c 'rm x'",
        "script -qc 'rm x' /dev/null",
        "bash -lc 'rm x'",
        "bash -c -- 'rm x'",
        "bash -c -o pipefail 'rm x'",
        "bash -euo pipefail -c 'ls; rm x'",
        "bash --norc -c 'rm x'",
        "fish --command 'rm x'",
        "eval rm x",
        "eval \"rm x\"",
        "eval 'ls;' rm x",
        "trap 'rm x' EXIT",
        "trap -- 'ls; rm x' EXIT",
        "sh <<EOF\nrm x\nEOF",
        "bash <<'EOF'\nit's\nsudo sh -c 'rm x'\nEOF",
        "sh <<< 'rm x'",
        "echo rm x | sh",
        "echo 'ls; rm x' | sudo bash -s",
        "bash -c \"$(echo rm x)\"",
        "echo x | xargs -I{} sh -c 'rm {}'",
        "source /dev/stdin <<< 'rm x'",
        "printf '%s\\n' 'rm x' | sh",
        "sh -c 'sh -c \"sh -c \\\"rm x\\\"\"'",
    ]);
    assert!(is_destructive(&call("echo cm0gLXJmIHgK | base64 -d | sh")));
    // Nobody reads shells within shells for ever, and what is not read is caught.
    let mut deep = "rm x".to_owned();
    for _ in 0..6 {
        deep = format!("sh -c {}", words::join(&[&deep]));
    }
    all_are_found(&[&deep]);
}

#[test]
fn what_is_harmless_stays_so() {
    for command in [
        "sudo -u root ls rm",
        "timeout 5 cargo test",
        "xargs -n 1 echo rm x",
        "env A=1 B=2 cargo test -- rm x",
        "find . -name rm -print",
        "ssh host ls rm",
        "ls 2>/dev/null | head > rm.txt",
        "git log --format='%h rm x'",
        "echo \"rm x\" > a",
        "kubectl exec pod -- ls rm",
        "bash script.sh rm x",
        "cat a | while read b; do echo \"$b\"; done",
        "cat > a <<EOF\nfirst line\n\"a b\": 'c d'\nEOF",
        "git commit -m \"$(cat <<'EOF'\nIt's done: rm is gone\nEOF\n)\"",
        "for a in rm x; do echo $a; done",
    ] {
        assert!(!is_denied("rm *", command), "{command}");
        assert!(!is_destructive(&call(command)), "{command}");
    }
}

#[test]
fn a_command_made_to_be_slow_is_too_long_to_be_read() {
    for slow in [
        "sudo --a b ".repeat(5000),
        format!("env {}", "-S 'a b' ".repeat(6000)),
        format!("sh {}", "-c ".repeat(20_000)),
        format!("watch {}", "--a b ".repeat(10_000)),
        format!("find {}", "-exec a ".repeat(8000)),
    ] {
        assert!(is_denied("rm *", &slow));
        assert!(!is_allowed("*", &slow));
        assert!(is_destructive(&call(&slow)));
    }
}
