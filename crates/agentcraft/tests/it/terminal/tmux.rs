//! The chat as a person sees it: in a real terminal, at two widths, with and without colour.

use std::process::{Command, Output};

use testkit::{TestDaemon, eventually};

use super::started;

/// A terminal of tmux, with a server of its own; gone with this value.
struct Tmux {
    socket: String,
}

impl Tmux {
    /// Runs a command of the daemon's binary; nothing, with the reason told, where there is no tmux.
    fn open(daemon: &TestDaemon, columns: u16, colour: Colour, arguments: &[&str]) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            println!("left out: there is no tmux");
            return None;
        }
        let path = daemon.scratch(&format!("tmux-{columns}-{colour:?}"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let tmux = Self {
            socket: path.to_str().unwrap().to_owned(),
        };
        let plain = daemon.command(arguments);
        let mut line = vec!["exec".to_owned(), "env".to_owned(), "-i".to_owned()];
        let settings = plain
            .get_envs()
            .filter_map(|(key, value)| Some((key, value?)));
        for (key, value) in settings {
            line.push(quoted(&format!("{}={}", key.display(), value.display())));
        }
        line.push("TERM=screen-256color LC_ALL=C.UTF-8".to_owned());
        if colour == Colour::Off {
            line.push("NO_COLOR=1".to_owned());
        }
        line.push(quoted(plain.get_program().to_str().unwrap()));
        line.extend(plain.get_args().map(|word| quoted(word.to_str().unwrap())));
        let width = columns.to_string();
        let opened = tmux.tell(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &width,
            "-y",
            "50",
            &line.join(" "),
        ]);
        assert!(opened.status.success(), "{opened:?}");
        Some(tmux)
    }

    fn tell(&self, words: &[&str]) -> Output {
        Command::new("tmux")
            .args(["-S", &self.socket])
            .args(words)
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap()
    }

    fn say(&self, line: &str) {
        self.tell(&["send-keys", "-l", line]);
        self.tell(&["send-keys", "Enter"]);
    }

    /// What is on the screen, with the sequences that colour it.
    fn shown(&self) -> String {
        let pane = self.tell(&["capture-pane", "-e", "-p"]);
        String::from_utf8(pane.stdout).unwrap()
    }

    fn see(&self, text: &str) {
        eventually(text, || self.shown().contains(text));
    }

    /// Waits until it has been one's turn to type so many times.
    fn see_prompts(&self, count: usize) {
        eventually("a prompt", || {
            plain(&self.shown()).matches("\nx>").count() >= count
        });
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.tell(&["kill-server"]);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Colour {
    On,
    Off,
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The text without the sequences that colour it.
fn plain(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    plain
}

#[test]
fn a_chat_looks_right_in_a_real_terminal_at_two_widths_with_and_without_colour() {
    let daemon = started();
    for (columns, colour) in [
        (80, Colour::On),
        (80, Colour::Off),
        (40, Colour::On),
        (40, Colour::Off),
    ] {
        let Some(chat) = Tmux::open(&daemon, columns, colour, &["agent", "chat", "x"]) else {
            return;
        };
        chat.see_prompts(1);
        chat.say(&format!("/write at-{columns}-{colour:?}.txt hello"));
        chat.see("choose 1-4");
        chat.say("1");
        chat.see("bytes.");
        chat.see_prompts(2);
        chat.say("/slow 100");
        chat.see("chunk 2 of 100");
        chat.tell(&["send-keys", "C-c"]);
        chat.see("cancelled");
        chat.see_prompts(3);
        let shown = chat.shown();
        let sequences = shown.contains('\x1b');
        assert_eq!(sequences, colour == Colour::On, "{shown}");
        let plain = plain(&shown).replace("else\nthere", "else there");
        for whole in [
            "else there",
            "\n  1 Allow once\n",
            "\ncancelling; Ctrl-C again leaves\n",
        ] {
            assert!(
                plain.contains(whole),
                "{whole:?} at {columns}, {colour:?}: {plain}"
            );
        }
    }
}
