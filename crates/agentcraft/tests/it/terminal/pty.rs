//! A terminal for a command: what it shows, and what is typed into it.

use std::{
    fs::File,
    io::{Read, Write},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rustix::{
    fs::{Mode, OFlags},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};
use testkit::{PATIENCE, TestDaemon};

/// Rows of the terminal; none of the tests scrolls back.
const ROWS: u16 = 50;

#[derive(Debug)]
pub(crate) struct Pty {
    child: Child,
    keyboard: File,
    shown: Arc<Mutex<String>>,
    /// Reads what is shown until the terminal is hung up.
    reader: JoinHandle<()>,
    /// What has been seen already; only newer text counts.
    seen: usize,
    finished: String,
}

impl Pty {
    /// Runs a command of the daemon's binary on a terminal of its own.
    pub(crate) fn open(daemon: &TestDaemon, columns: u16, arguments: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize {
            ws_row: ROWS,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap();
        let slave = || {
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            Stdio::from(rustix::fs::open(&path, flags, Mode::empty()).unwrap())
        };
        let plain = daemon.command(arguments);
        // The program becomes the leader of a session whose terminal this is, so that Ctrl-C reaches it.
        let mut command = Command::new("setsid");
        command
            .args(["--ctty", "--wait"])
            .arg(plain.get_program())
            .args(plain.get_args())
            .env_clear()
            .envs(
                plain
                    .get_envs()
                    .filter_map(|(key, value)| Some((key, value?))),
            )
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .current_dir(plain.get_current_dir().unwrap())
            .stdin(slave())
            .stdout(slave())
            .stderr(slave());
        let child = command.spawn().expect("setsid is part of every Linux");
        let shown = Arc::new(Mutex::new(String::new()));
        let keyboard = File::from(master);
        let screen = keyboard.try_clone().unwrap();
        let written = shown.clone();
        let reader = std::thread::spawn(move || read(screen, &written));
        Self {
            child,
            keyboard,
            shown,
            reader,
            seen: 0,
            finished: String::new(),
        }
    }

    /// Waits until the text is shown, after everything that was waited for before.
    #[track_caller]
    pub(crate) fn see(&mut self, text: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            let shown = self.shown.lock().unwrap().clone();
            if let Some(at) = shown[self.seen..].find(text) {
                self.seen += at + text.len();
                return;
            }
            assert!(
                Instant::now() < until,
                "{text:?} is not shown in {:?}",
                &shown[self.seen..]
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Types a line.
    pub(crate) fn say(&mut self, line: &str) {
        self.press(format!("{line}\r").as_bytes());
    }

    pub(crate) fn press(&mut self, keys: &[u8]) {
        self.keyboard.write_all(keys).unwrap();
    }

    /// The command's own number: `setsid` becomes it.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the terminal takes lines and shows what is typed, as a shell wants to find it.
    pub(crate) fn is_as_usual(&self) -> bool {
        let mode = tcgetattr(&self.keyboard).unwrap();
        mode.local_modes
            .contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Waits for the end and for the last of what it showed, and gives the exit code.
    pub(crate) fn end(&mut self) -> i32 {
        let until = Instant::now() + PATIENCE;
        loop {
            let status = self.child.try_wait().unwrap();
            if let (Some(status), true) = (status, self.reader.is_finished()) {
                self.finished = self.shown.lock().unwrap().clone();
                return status.code().unwrap_or(-1);
            }
            assert!(
                Instant::now() < until,
                "it goes on: {:?}",
                self.shown.lock().unwrap()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Everything it showed until its end.
    pub(crate) fn text(&self) -> &str {
        &self.finished
    }

    /// Lines that do not fit, among those that were written without moving the cursor.
    pub(crate) fn lines_wider_than(&self, columns: usize) -> Vec<&str> {
        let lines = self.finished.split("\r\n");
        lines
            .filter(|line| !line.contains('\x1b') && line.chars().count() > columns)
            .collect()
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It may have ended.
        let _ = self.child.wait();
    }
}

/// Reads until the terminal is hung up.
fn read(mut screen: File, shown: &Mutex<String>) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = screen.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..count]);
        // A character may come in two parts.
        let whole = match std::str::from_utf8(&bytes) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        let text: Vec<u8> = bytes.drain(..whole).collect();
        shown
            .lock()
            .unwrap()
            .push_str(&String::from_utf8_lossy(&text));
    }
}
