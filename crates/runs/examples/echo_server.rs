//! The runs API with one agent in its own process that says everything back, for the benchmark: what the face costs without
//! a program behind it.
//!
//! `cargo run -p runs --example echo_server` serves at an address that it prints; `/bare` answers every request as a handler does
//! that does nothing else. It ends with its standard input.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a tool of the benchmark, with the habits of tests"
)]

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io::Read,
    net::Ipv4Addr,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Extension, Json, routing::post};
use domain::{
    Name,
    chain::Ourselves,
    run::Limits,
    turn::{EventKind, Stop},
};
use engine::{
    Caller, Calls, Continuity, Create, Driver, DriverError, DriverFuture, Drivers, EndpointDrivers,
    Engine, EngineConfig, LauncherMode, OpenSession, Opened, Overrides, SessionSink, Turn,
};
use platform::{Guardian, Owner, Tasks, owner};
use runs::{Capabilities, ExchangeConfig, PublicAgents, Runs, RunsConfig};
use serde_json::{Value, json};

const GUARDIAN: &str = "guardian-of-the-example";

/// What the agent is called.
const AGENT: &str = "talker";

/// Longer than any benchmark.
const LONG: Duration = Duration::from_secs(3600);

/// Says back what it is told.
#[derive(Debug, Default)]
struct Echo(Mutex<HashMap<String, SessionSink>>);

impl Driver for Echo {
    fn open(&self, open: OpenSession) -> DriverFuture<'_, Result<Opened, DriverError>> {
        let id = uuid::Uuid::new_v4().to_string();
        self.0.lock().unwrap().insert(id.clone(), open.sink);
        let continuity = Continuity::Fresh;
        Box::pin(std::future::ready(Ok(Opened { id, continuity })))
    }

    fn turn(&self, turn: Turn) -> DriverFuture<'_, Result<Stop, DriverError>> {
        let sink = self.0.lock().unwrap()[&turn.session].clone();
        sink.emit(EventKind::Text { text: turn.prompt }, None);
        Box::pin(std::future::ready(Ok(Stop::EndTurn)))
    }

    fn ended(&self) -> DriverFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn close<'a>(&'a self, session: &'a str) -> DriverFuture<'a, ()> {
        self.0.lock().unwrap().remove(session);
        Box::pin(std::future::ready(()))
    }
}

/// What a request is answered with at the least: a run that has said it back.
async fn bare(Json(request): Json<Value>) -> Json<Value> {
    let output = json!([{ "role": "agent/talker", "parts": request["input"][0]["parts"] }]);
    Json(json!({
        "run_id": "0198f4a2-0000-7000-8000-000000000000", "agent_name": AGENT,
        "session_id": "0198f4a2-0000-7000-8000-000000000001", "status": "completed", "output": output,
        "created_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:00:00Z",
    }))
}

async fn engine(home: &Path, tasks: &Tasks) -> Engine {
    let owner = Owner::starting(&format!("bench-{}", owner::fresh_id())).unwrap();
    let executable = std::env::current_exe().unwrap();
    let guardian = Guardian::spawn(&executable, &[GUARDIAN], &owner).unwrap();
    let store = store::Store::open(&home.join("state.db"), store::Durability::default()).unwrap();
    let folder = |name: &str| {
        let path = home.join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    let config = EngineConfig {
        configs_dir: folder("configs"),
        instances_dir: folder("instances"),
        agent_logs_dir: folder("logs"),
        executable,
        environment: BTreeMap::new(),
        launcher: LauncherMode::Real,
        stop_grace: Duration::from_secs(1),
        durability: platform::files::Durability::default(),
        journal_age: LONG,
        journal_lines: 1_000_000,
        policy: domain::permission::Policy::default(),
    };
    let drivers = Drivers {
        acp: |_| unreachable!("no process is started"),
        print: |_| None,
        endpoint: EndpointDrivers::new(|_| Ok(Arc::new(Echo::default()))),
    };
    let opened = Engine::open(config, store, guardian, owner, tasks.child(), drivers);
    opened.await.unwrap()
}

async fn add_agent(engine: &Engine, home: &Path) {
    let template = json!({
        "name": AGENT, "version": "1.0.0", "description": "says it back",
        "backend": { "type": "openai-compatible", "config": { "baseUrl": "http://echo.example" } },
        "domainContext": { "skills": [] },
    });
    let folder = home.join("configs/templates");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("talker.json");
    std::fs::write(&path, template.to_string()).unwrap();
    engine.load_template(path).await.unwrap();
    let create = Create {
        name: Name::parse(AGENT).unwrap(),
        template: AGENT.to_owned(),
        overrides: Overrides::default(),
    };
    engine.create(create).await.unwrap();
}

fn config(home: &Path) -> RunsConfig {
    RunsConfig {
        description: "an echo".to_owned(),
        public: PublicAgents::All,
        default_agent: None,
        persistent: BTreeSet::new(),
        scheme: "http",
        public_url: None,
        limits: Limits {
            work: LONG,
            answer: LONG,
        },
        session_ttl: LONG,
        history_from: Vec::new(),
        capabilities: Capabilities::none(),
        exchange: ExchangeConfig::folder(home.join("exchange")),
        calls: Calls::new(Ourselves {
            id: "a797ca02-11b5-4080-9263-a31d6d30cba7".to_owned(),
            name: "bench".to_owned(),
        }),
    }
}

#[tokio::main]
async fn main() {
    if std::env::args().nth(1).as_deref() == Some(GUARDIAN) {
        platform::guardian::run(std::io::stdin().lock());
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let tasks = Tasks::new();
    let engine = engine(home.path(), &tasks).await;
    add_agent(&engine, home.path()).await;
    let runs = Runs::open(config(home.path()), engine, tasks.child()).await;
    let app = runs.unwrap().router().layer(Extension(Caller::owner()));
    let app = app.route("/bare", post(bare));
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.unwrap();
    println!("http://{}", listener.local_addr().unwrap());
    let over = tasks.spawn_blocking(|_| {
        let mut rest = Vec::new();
        let _ = std::io::stdin().read_to_end(&mut rest); // It ends, one way or another.
    });
    tokio::select! {
        served = axum::serve(listener, app).into_future() => served.unwrap(),
        ended = over => ended.unwrap(),
    }
}
