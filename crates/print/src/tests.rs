//! Turns through real processes: scripts that play the programs.

mod argument_tests;
mod lifetime_tests;
mod replay_tests;
mod server_tests;
mod session_tests;

use std::{
    collections::BTreeMap,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use domain::turn::{Event, EventKind, Stop};
use engine::{
    Driver, DriverError, DriverSurroundings, EventLog, OpenSession, Opened, Page, PrintProgram,
    SessionSink, Turn, TurnOptions,
};
use platform::{Guardian, Owner, OwnerScope, ProcessRef, Tasks, owner};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How long a test waits for what should happen at once.
const PATIENCE: Duration = Duration::from_secs(20);

const GUARDIAN_MARK: &str = "mark-of-the-guardian";

/// Does nothing in an ordinary run; a scene starts it with the mark.
#[test]
fn role_of_the_guardian() {
    if std::env::args().any(|arg| arg == GUARDIAN_MARK) {
        platform::guardian::run(std::io::stdin().lock());
    }
}

/// An agent's workspace, a guardian, and the log of one session.
struct Scene {
    folder: tempfile::TempDir,
    owner: Owner,
    guardian: Guardian,
    tasks: Tasks,
    log: Arc<EventLog>,
}

impl Scene {
    fn new() -> Self {
        let owner = Owner::starting(&format!("test-{}", owner::fresh_id())).unwrap();
        let args = ["--exact", "tests::role_of_the_guardian", GUARDIAN_MARK];
        let exe = std::env::current_exe().unwrap();
        Self {
            folder: tempfile::tempdir().unwrap(),
            guardian: Guardian::spawn(&exe, &args, &owner).unwrap(),
            owner,
            tasks: Tasks::new(),
            log: Arc::new(EventLog::new(1)),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a program. Another process does it: a file that any child of ours may hold open cannot be run.
    fn script(&self, name: &str, body: &str) -> PathBuf {
        let path = self.path(name);
        let mut shell = Command::new("sh")
            .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
            .arg(&path)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let text = format!("#!/bin/sh\n{body}\n");
        let mut stdin = shell.stdin.take().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
        drop(stdin);
        assert!(shell.wait().unwrap().success());
        path
    }

    fn program(&self, backend: &str, program: Option<PathBuf>) -> PrintProgram {
        let path = ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
        PrintProgram {
            backend: backend.to_owned(),
            program,
            args: None,
            model: None,
            around: DriverSurroundings {
                tasks: self.tasks.clone(),
                guardian: self.guardian.clone(),
                owner: self.owner.clone(),
                agent: "ann".to_owned(),
                workspace: self.folder.path().to_owned(),
                environment: BTreeMap::from([path]),
                start_timeout: PATIENCE,
            },
        }
    }

    /// A driver of the backend whose program is this script.
    fn driver(&self, backend: &str, body: &str) -> Arc<dyn Driver> {
        let script = self.script(&format!("{backend}-program"), body);
        crate::driver(self.program(backend, Some(script))).unwrap()
    }

    fn command(&self, body: &str, args: &[&str]) -> Arc<dyn Driver> {
        let script = self.script("command-program", body);
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        crate::driver(PrintProgram {
            args: Some(args),
            ..self.program("command", Some(script))
        })
        .unwrap()
    }

    async fn open(&self, driver: &Arc<dyn Driver>, resume: Option<&str>) -> Opened {
        let (asks, _) = mpsc::channel(1);
        let open = OpenSession {
            cwd: self.folder.path().to_owned(),
            mcp_servers: Vec::new(),
            resume: resume.map(str::to_owned),
            sink: SessionSink::new(Arc::clone(&self.log), asks),
        };
        driver.open(open).await.unwrap()
    }

    /// Opens a conversation and takes one turn.
    async fn once(&self, driver: &Arc<dyn Driver>, prompt: &str) -> Result<Stop, DriverError> {
        let opened = self.open(driver, None).await;
        patiently(driver.turn(turn(&opened.id, prompt))).await
    }

    fn events(&self) -> Vec<Arc<Event>> {
        match self.log.read(1, usize::MAX) {
            Page::Events(events) => events,
            Page::InStore { until } => panic!("in store until {until}"),
        }
    }

    /// The answer.
    fn answer(&self) -> String {
        let text = |event: &Arc<Event>| match &event.kind {
            EventKind::Text { text } => Some(text.clone()),
            _ => None,
        };
        self.events().iter().filter_map(text).collect()
    }

    /// Arguments, one in each line, that the last run of `RECORD` got.
    fn args(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("args")).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// The processes that are left, the guardian not counted.
    fn left(&self) -> Vec<ProcessRef> {
        owner::find(&OwnerScope::home(&self.owner))
    }
}

/// Shell: keeps the arguments for `Scene::args`.
const RECORD: &str = r#"printf '%s\n' "$@" > args"#;

fn turn(session: &str, prompt: &str) -> Turn {
    Turn {
        session: session.to_owned(),
        prompt: prompt.to_owned(),
        options: TurnOptions::default(),
        cancel: CancellationToken::new(),
    }
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(name)
}

async fn patiently<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap()
}

fn failed(message: &str) -> Stop {
    Stop::Failed {
        message: message.to_owned(),
    }
}
