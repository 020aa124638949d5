//! The programs that run others, and what is known of their options.

/// Programs that run a script given after `-c`.
pub(in crate::permission) const SHELLS: [&str; 9] = [
    "sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "mksh", "rbash",
];

/// Programs beside shells that give a script after `-c` to a shell.
pub(super) const SCRIPTED: [&str; 6] = ["su", "runuser", "flock", "script", "sg", "newgrp"];

/// Options in long form whose value is a script.
pub(super) const SCRIPT_OPTIONS: [&str; 6] = [
    "--command",
    "--session-command",
    "--init-command",
    "--split-string",
    "--run",
    "--eval",
];

/// Programs that put words together and give them to a shell.
pub(super) const JOINING: [&str; 6] = ["eval", "ssh", "watch", "parallel", "trap", "tmux"];

/// Programs that add words to the command that they run.
pub(super) const ADDING: [&str; 4] = ["xargs", "parallel", "fd", "fdfind"];

/// Words of the shell's own language that a command may follow.
pub(super) const KEYWORDS: [&str; 14] = [
    "if",
    "then",
    "else",
    "elif",
    "while",
    "until",
    "do",
    "!",
    "{",
    "}",
    "coproc",
    "noglob",
    "nocorrect",
    "-",
];

/// A program that runs the command after it.
pub(super) struct Wrapper {
    pub(super) name: &'static str,
    /// The words, any of them, after which the command comes; none if it comes after the name.
    pub(super) after: &'static [&'static str],
    /// Its options of one letter that stand alone.
    pub(super) flags: &'static str,
    /// Those that take a value: the rest of the word or the next one. Of all others it is not known.
    pub(super) valued: &'static str,
    /// How many words of its own come before the command.
    pub(super) own: usize,
}

impl Wrapper {
    /// A program of which nothing is known but that a command follows.
    pub(super) const UNKNOWN: Self = wrapper("", "", "", 0);
}

const fn wrapper(
    name: &'static str,
    flags: &'static str,
    valued: &'static str,
    own: usize,
) -> Wrapper {
    Wrapper {
        name,
        after: &[],
        flags,
        valued,
        own,
    }
}

const fn runner(name: &'static str, after: &'static [&'static str], own: usize) -> Wrapper {
    Wrapper {
        name,
        after,
        // Those that name a container first have these two in common; the others have nothing.
        flags: if own > 0 { "it" } else { "" },
        valued: "",
        own,
    }
}

const FIND: &[&str] = &["-exec", "-execdir", "-ok", "-okdir"];
const FD: &[&str] = &["-x", "-X", "--exec", "--exec-batch"];

pub(super) const WRAPPERS: [Wrapper; 81] = [
    wrapper("sudo", "AbEeHiKklnPSsVvN", "CDgpRrtTUu", 0),
    wrapper("doas", "Lns", "aCu", 0),
    wrapper("pkexec", "", "", 0),
    wrapper("env", "i0v", "uC", 0),
    wrapper("command", "pvV", "", 0),
    wrapper("builtin", "", "", 0),
    wrapper("exec", "cl", "a", 0),
    wrapper("nohup", "", "", 0),
    wrapper("setsid", "cfw", "", 0),
    wrapper("time", "pavqhV", "fo", 0),
    wrapper("nice", "", "n", 0),
    wrapper("ionice", "t", "cnpPu", 0),
    wrapper("chrt", "abdfimorR", "TPD", 1),
    wrapper("taskset", "acp", "", 1),
    wrapper("numactl", "", "", 0),
    wrapper("prlimit", "", "", 0),
    wrapper("stdbuf", "", "ioe", 0),
    wrapper("unbuffer", "p", "", 0),
    wrapper("timeout", "fpv", "ks", 1),
    wrapper("gtimeout", "fpv", "ks", 1),
    wrapper("xargs", "0rtpxo", "aEdILnPs", 0),
    wrapper("parallel", "k0", "jINLdPsSa", 0),
    wrapper("watch", "bcdegptx", "nq", 0),
    wrapper("entr", "acdnprsz", "", 0),
    wrapper("busybox", "", "", 0),
    wrapper("toybox", "", "", 0),
    wrapper("chroot", "", "", 1),
    wrapper("fakeroot", "", "", 0),
    wrapper("fakechroot", "", "", 0),
    wrapper("unshare", "cfr", "SGRw", 0),
    wrapper("nsenter", "aFe", "tSG", 0),
    wrapper("setpriv", "", "", 0),
    wrapper("setarch", "BFILRSTXZv", "", 1),
    wrapper("linux32", "", "", 0),
    wrapper("linux64", "", "", 0),
    wrapper("runuser", "flmp", "cgGsuw", 0),
    wrapper("su", "flmp", "cgGsw", 1),
    wrapper("sg", "", "c", 1),
    wrapper("flock", "eFnosxu", "cEw", 1),
    wrapper("strace", "cCdDfFhiknqrtTvVwxyYzZ", "abeEIoOpPsSuUX", 0),
    wrapper("ltrace", "bcCfhiLrStTVx", "aAeDFlnopsuwxX", 0),
    wrapper("systemd-run", "dGPqrSt", "EHMpu", 0),
    wrapper("systemd-inhibit", "", "", 0),
    wrapper("systemd-cat", "", "tp", 0),
    wrapper("dbus-run-session", "", "", 0),
    wrapper("xvfb-run", "al", "efnps", 0),
    wrapper("caffeinate", "disum", "tw", 0),
    wrapper("firejail", "", "", 0),
    wrapper("proxychains", "q", "f", 0),
    wrapper("proxychains4", "q", "f", 0),
    wrapper("torsocks", "", "", 0),
    wrapper("rlwrap", "", "", 0),
    wrapper("screen", "adDimOqRUx", "cehpsSTt", 0),
    wrapper(
        "ssh",
        "46AaCfGgKkMNnqsTtVvXxYy",
        "BbcDEeFIiJLlmOopPQRSWw",
        1,
    ),
    wrapper("npx", "y", "p", 0),
    wrapper("bunx", "", "", 0),
    wrapper("uvx", "", "", 0),
    wrapper("trap", "lp", "", 0),
    wrapper("eval", "", "", 0),
    // Its words become those of `"$@"`.
    wrapper("set", "abefhkmnptuvxBCEHPT", "o", 0),
    runner("find", FIND, 0),
    runner("fd", FD, 0),
    runner("fdfind", FD, 0),
    runner("docker", &["exec", "run"], 1),
    runner("podman", &["exec", "run"], 1),
    runner("nerdctl", &["exec", "run"], 1),
    runner("kubectl", &["exec"], 1),
    runner("npm", &["exec", "x"], 0),
    runner("pnpm", &["exec", "dlx"], 0),
    runner("yarn", &["exec", "dlx"], 0),
    runner("bundle", &["exec"], 0),
    runner("mise", &["exec", "x"], 0),
    runner("direnv", &["exec"], 1),
    runner("uv", &["run"], 0),
    runner("poetry", &["run"], 0),
    runner("pipenv", &["run"], 0),
    runner("conda", &["run"], 0),
    runner("nix", &["-c", "--command"], 0),
    runner("nix-shell", &["--run", "--command"], 0),
    runner("git", &["foreach", "run", "-x", "--exec"], 0),
    runner(
        "tmux",
        &[
            "new",
            "new-session",
            "neww",
            "new-window",
            "splitw",
            "split-window",
            "send-keys",
        ],
        0,
    ),
];
