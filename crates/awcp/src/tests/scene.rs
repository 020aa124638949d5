//! A node with an engine, lending and a listener; and the agent that works at the remote.

use std::{
    collections::BTreeMap,
    fs::Permissions,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Extension, Json, Router,
    extract::{ConnectInfo, State},
    routing::{get, post},
};
use domain::{
    chain::Ourselves,
    delegation::{Access, DelegationId, Transport},
    turn::{EventKind, Stop},
};
use engine::{
    Caller, Continuity, Driver, DriverError, DriverFuture, Drivers, EndpointAgent, EndpointDrivers,
    Engine, EngineConfig, LauncherMode, OpenSession, Opened, SessionSink, Turn,
};
use platform::{Drained, Guardian, Owner, Tasks, owner};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use wire::awcp::EXTENSION_URI;

use crate::{
    AwcpConfig, Calls, Create, DelegationView, Delegations, Lending, Origin, Secrets, SftpConfig,
    router,
};

pub(super) const GUARDIAN_MARK: &str = "mark-of-the-guardian";

/// Whence everything in a test comes.
pub(super) const HERE: Origin = Origin::Address(IpAddr::V4(Ipv4Addr::LOCALHOST));

/// How long a test waits for what should happen soon.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// What the scripted agents of a node have done so far, for tests to wait for.
pub(super) type Seen = watch::Sender<Vec<String>>;

pub(super) struct Scene {
    pub(super) home: TempDir,
    pub(super) tasks: Tasks,
    pub(super) engine: Engine,
    pub(super) delegations: Delegations,
    pub(super) url: String,
    pub(super) seen: Seen,
    pub(super) adjust: fn(&mut AwcpConfig),
}

impl Scene {
    pub(super) async fn new(adjust: fn(&mut AwcpConfig)) -> Self {
        Self::begin(tempfile::tempdir().unwrap(), adjust, None).await
    }

    async fn begin(home: TempDir, adjust: fn(&mut AwcpConfig), port: Option<u16>) -> Self {
        let tasks = Tasks::new();
        let owner = Owner::starting(&format!("test-{}", owner::fresh_id())).unwrap();
        let args = ["--exact", "tests::role_of_the_guardian", GUARDIAN_MARK];
        let executable = std::env::current_exe().unwrap();
        let guardian = Guardian::spawn(&executable, &args, &owner).unwrap();
        let seen = Seen::new(Vec::new());
        let lending = Lending::default();
        let node = home.path().join("node");
        let config = engine_config(&node, executable);
        let store =
            store::Store::open(&node.join("state.db"), store::Durability::default()).unwrap();
        let drivers = drivers(seen.clone(), lending.clone());
        let engine = Engine::open(
            config,
            store,
            guardian.clone(),
            owner.clone(),
            tasks.child(),
            drivers,
        );
        let engine = engine.await.unwrap();
        load(
            &engine,
            home.path(),
            "worker",
            "a2a",
            json!({ "url": "script:" }),
        )
        .await;
        let listener =
            tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await;
        let listener = listener.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut config = AwcpConfig::new(node.join("lending"), home.path().join("mounts"), &url);
        config.executor = Some("worker".to_owned());
        config.calls = calls(&url);
        config.environment = BTreeMap::from([("PATH".into(), std::env::var_os("PATH").unwrap())]);
        adjust(&mut config);
        let delegations =
            Delegations::open(config, engine.clone(), tasks.child(), guardian, owner).await;
        let delegations = delegations.unwrap();
        lending.fill(delegations.clone());
        let app = router(delegations.clone()).layer(Extension(Caller::owner()));
        let tokens = engine::Authenticator::new(|token| (token == "good").then(Caller::owner));
        let app = app.merge(crate::released_router(delegations.clone(), tokens));
        let app = app.merge(carrier(delegations.clone(), url.clone()));
        let from = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let app = app.layer(Extension(ConnectInfo(from)));
        tasks.spawn(|stop| async move {
            tokio::select! {
                () = stop.cancelled() => {}
                served = axum::serve(listener, app).into_future() => served.unwrap(),
            }
        });
        Self {
            home,
            tasks,
            engine,
            delegations,
            url,
            seen,
            adjust,
        }
    }

    /// Ends this daemon's tasks and begins anew in the same home, at the same address.
    pub(super) async fn restart(self) -> Self {
        self.leave().await.come_back().await
    }

    /// Ends this daemon's tasks; nobody is at its address until it is back.
    pub(super) async fn leave(self) -> Away {
        let Self {
            home,
            tasks,
            engine,
            delegations,
            url,
            adjust,
            ..
        } = self;
        assert_eq!(tasks.drain(Duration::from_secs(20)).await, Drained::Clean);
        drop((engine, delegations));
        let port = url.rsplit(':').next().unwrap().parse().unwrap();
        Away { home, adjust, port }
    }

    /// A workspace with these files.
    pub(super) fn workspace(&self, files: &[(&str, &str)]) -> PathBuf {
        let dir = self.home.path().join(format!("w-{}", owner::fresh_id()));
        std::fs::create_dir_all(&dir).unwrap();
        for (path, text) in files {
            let path = dir.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        dir
    }

    pub(super) async fn lend(&self, create: Create) -> String {
        self.delegations.create(create).await.unwrap().to_string()
    }

    /// Lends and waits for the end.
    pub(super) async fn lend_on(&self, create: Create) -> DelegationView {
        let id = self.lend(create).await;
        self.ended(&id).await
    }

    pub(super) async fn ended(&self, id: &str) -> DelegationView {
        let view = self.delegations.wait(id, PATIENCE).await.unwrap();
        assert!(view.state.is_end(), "{view:?}");
        view
    }

    /// Waits until the scripted agents of this node have done that.
    pub(super) async fn saw(&self, what: &str) {
        let mut seen = self.seen.subscribe();
        let has = seen.wait_for(|seen| seen.iter().any(|done| done == what));
        tokio::time::timeout(PATIENCE, has).await.unwrap().unwrap();
    }

    /// Waits until the remote's side has ended and nothing of it is left.
    pub(super) async fn left_nothing(&self, id: &str) -> DelegationView {
        let id = crate::convert::id(id).unwrap();
        if let Some(mut handle) = self.delegations.node.remote(&id) {
            let clean = handle
                .view
                .wait_for(|view| view.state.is_end() && !view.cleanup_due);
            let _ = tokio::time::timeout(PATIENCE, clean).await.unwrap(); // It may have ended at once.
        }
        let view = self.delegations.get_taken(&id).await.unwrap();
        assert!(view.state.is_end() && !view.cleanup_due, "{view:?}");
        assert_eq!(names(&self.home.path().join("mounts")), [""; 0]);
        assert_eq!(names(&self.home.path().join("node/lending/taken")), [""; 0]);
        let agents: Vec<String> = self
            .engine
            .agents()
            .iter()
            .map(|it| it.name.clone())
            .collect();
        assert_eq!(agents, [""; 0], "no agent of a lent workspace is left");
        view
    }

    /// Nothing of this one is at its mount point.
    pub(super) fn left_nothing_of(&self, id: &str) {
        assert!(!self.home.path().join("mounts").join(id).exists());
    }

    /// The host has given back everything.
    pub(super) fn gave_back(&self) {
        assert_eq!(
            names(&self.home.path().join("node/lending/exports")),
            [""; 0]
        );
        assert!(self.delegations.node.locks().is_idle());
    }

    /// Everything about this delegation that is kept, as the store has it.
    pub(super) fn id(&self, id: &str) -> DelegationId {
        crate::convert::id(id).unwrap()
    }
}

/// A daemon that has ended.
pub(super) struct Away {
    home: TempDir,
    adjust: fn(&mut AwcpConfig),
    port: u16,
}

impl Away {
    pub(super) async fn come_back(self) -> Scene {
        Scene::begin(self.home, self.adjust, Some(self.port)).await
    }
}

fn engine_config(node: &Path, executable: PathBuf) -> EngineConfig {
    let folder = |name: &str| {
        let path = node.join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    EngineConfig {
        configs_dir: folder("configs"),
        instances_dir: folder("instances"),
        agent_logs_dir: folder("logs"),
        executable,
        environment: BTreeMap::new(),
        launcher: LauncherMode::Mock,
        stop_grace: Duration::from_secs(1),
        durability: platform::files::Durability::default(),
        journal_age: Duration::from_secs(3600),
        journal_lines: 100_000,
        policy: domain::permission::Policy::default(),
    }
}

pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub(super) fn read(dir: &Path, name: &str) -> String {
    std::fs::read_to_string(dir.join(name)).unwrap_or_else(|_| format!("no {name}"))
}

pub(super) fn create(to: &Scene, dir: &Path, prompt: &str) -> Create {
    Create {
        peer_url: to.url.clone(),
        token: None,
        dir: dir.to_owned(),
        description: None,
        prompt: prompt.to_owned(),
        access: Access::Rw,
        ttl: Duration::from_secs(600),
        transports: vec![Transport::Archive],
        quota_bytes: None,
        secrets: Secrets::Refuse,
        keeping: crate::Keeping::Auto,
        continues: None,
        trace: None,
        chain: Vec::new(),
    }
}

/// Chains behind turns, by agent and prompt.
type Chains = BTreeMap<(String, String), Vec<String>>;

/// The calls of a node that has no other face than lending, called by its address.
fn calls(url: &str) -> Calls {
    let node = Ourselves {
        id: url.to_owned(),
        name: "node".to_owned(),
    };
    let begun = node.begin();
    let chains: Arc<Mutex<Chains>> = Arc::default();
    let known = chains.clone();
    let key = |agent: &str, prompt: &str| (agent.to_owned(), prompt.to_owned());
    Calls::new(
        node,
        move |_, agent, prompt| {
            let known = known.lock().unwrap().get(&key(agent, prompt)).cloned();
            known.unwrap_or_else(|| begun.clone())
        },
        move |agent, prompt, chain| {
            chains.lock().unwrap().insert(key(agent, prompt), chain);
            Box::new(())
        },
    )
}

pub(super) fn with_sftp(config: &mut AwcpConfig) {
    config.sftp = Some(SftpConfig {
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        public_host: "127.0.0.1".to_owned(),
    });
}

/// The part of A2A that carries messages of lending.
fn carrier(delegations: Delegations, url: String) -> Router {
    let card = json!({
        "name": "node", "description": "", "version": "1",
        "supportedInterfaces": [
            { "url": format!("{url}/a2a"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0" },
        ],
        "capabilities": { "extensions": [
            { "uri": EXTENSION_URI, "params": { "transports": delegations.transports() } },
        ] },
        "defaultInputModes": [], "defaultOutputModes": [], "skills": [],
    });
    let mut bare = card.clone();
    bare["capabilities"] = json!({});
    Router::new()
        .route("/.well-known/agent-card.json", get(|| async { Json(card) }))
        .route(
            "/bare/.well-known/agent-card.json",
            get(|| async { Json(bare) }),
        )
        .route("/a2a", post(send_message))
        .with_state(delegations)
}

async fn send_message(
    State(delegations): State<Delegations>,
    Json(request): Json<Value>,
) -> Json<Value> {
    let data = &request["params"]["message"]["parts"][0]["data"];
    let answer = delegations
        .handle_message(data, &Caller::owner(), HERE)
        .await;
    let message = json!({
        "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "data": answer.unwrap_or_default() }],
    });
    Json(json!({ "jsonrpc": "2.0", "id": 1, "result": { "message": message } }))
}

pub(super) async fn load(engine: &Engine, home: &Path, name: &str, backend: &str, config: Value) {
    let template = json!({
        "schemaVersion": "1",
        "name": name,
        "version": "1.0.0",
        "description": "an agent of a test",
        "domainContext": {},
        "backend": { "type": backend, "config": config },
    });
    let path = home.join(format!("{name}.json"));
    std::fs::write(&path, template.to_string()).unwrap();
    engine.load_template(path).await.unwrap();
}

fn drivers(seen: Seen, lending: Lending) -> Drivers {
    Drivers {
        acp: |_| unreachable!("no agent here is a process"),
        print: |_| None,
        endpoint: EndpointDrivers::new(move |agent: EndpointAgent| match agent.backend.as_str() {
            "delegation" => lending.driver(&agent),
            _ => Ok(Arc::new(Scripted {
                seen: seen.clone(),
                sessions: Mutex::default(),
            }) as Arc<dyn Driver>),
        }),
    }
}

/// Does what each line of its prompt says, in the folder of its session.
#[derive(Debug)]
struct Scripted {
    seen: Seen,
    sessions: Mutex<BTreeMap<String, (PathBuf, SessionSink, usize)>>,
}

impl Driver for Scripted {
    fn open(&self, open: OpenSession) -> DriverFuture<'_, Result<Opened, DriverError>> {
        if open.cwd.join("stuck").exists() {
            let opening = "opening".to_owned();
            self.seen.send_modify(|seen| seen.push(opening));
            return Box::pin(std::future::pending());
        }
        let id = owner::fresh_id();
        self.sessions
            .lock()
            .unwrap()
            .insert(id.clone(), (open.cwd, open.sink, 0));
        let continuity = Continuity::Fresh;
        Box::pin(std::future::ready(Ok(Opened { id, continuity })))
    }

    fn turn(&self, turn: Turn) -> DriverFuture<'_, Result<Stop, DriverError>> {
        let (cwd, sink, number) = {
            let mut sessions = self.sessions.lock().unwrap();
            let session = sessions.get_mut(&turn.session).unwrap();
            session.2 += 1;
            session.clone()
        };
        Box::pin(async move {
            Ok(tokio::select! { biased;
                () = turn.cancel.cancelled() => Stop::Cancelled,
                stop = self.act((&cwd, number), &sink, &turn.prompt) => stop,
            })
        })
    }

    fn ended(&self) -> DriverFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn close<'a>(&'a self, session: &'a str) -> DriverFuture<'a, ()> {
        self.sessions.lock().unwrap().remove(session);
        Box::pin(std::future::ready(()))
    }
}

impl Scripted {
    async fn act(&self, (cwd, number): (&Path, usize), sink: &SessionSink, prompt: &str) -> Stop {
        for line in prompt.lines() {
            let mut words = line.splitn(3, ' ');
            let mut word = || words.next().unwrap_or("");
            let (verb, name, rest) = (word(), word(), word());
            let path = cwd.join(name);
            match verb {
                "write" => {
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    if let Err(error) = std::fs::write(&path, rest) {
                        say(sink, &format!("could not write {name}: {error}"));
                    }
                }
                "fill" => {
                    let bytes = vec![b'x'; rest.parse().unwrap()];
                    if let Err(error) = std::fs::write(&path, bytes) {
                        say(sink, &format!("could not fill {name}: {error}"));
                    }
                }
                "remove" => std::fs::remove_file(&path).unwrap(),
                "cat" => say(sink, &std::fs::read_to_string(&path).unwrap_or_default()),
                "git" => {
                    let args = line["git ".len()..].split(' ');
                    let ran = std::process::Command::new("git")
                        .args(args)
                        .current_dir(cwd)
                        .output();
                    let output = ran.unwrap();
                    let said = [output.stdout, output.stderr].concat();
                    say(sink, &String::from_utf8_lossy(&said));
                }
                "plant" => {
                    use std::io::Write;
                    let file = std::fs::OpenOptions::new().append(true).open(&path);
                    writeln!(file.unwrap(), "{rest}").unwrap();
                }
                "hook" => {
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::fs::write(&path, format!("#!/bin/sh\n{rest}\n")).unwrap();
                    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
                }
                "link" => std::os::unix::fs::symlink(rest, &path).unwrap(),
                "run" => std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap(),
                // Which prompt of the session this is.
                "session" => say(sink, &format!("prompt {number}")),
                "list" => say(sink, &names(cwd).join(" ")),
                "fail" => {
                    return Stop::Failed {
                        message: line["fail ".len()..].to_owned(),
                    };
                }
                "wait" => {
                    self.seen
                        .send_modify(|seen| seen.push("waiting".to_owned()));
                    std::future::pending::<()>().await;
                }
                // Waits for the test to say go.
                "pause" => {
                    self.seen
                        .send_modify(|seen| seen.push("pausing".to_owned()));
                    let mut seen = self.seen.subscribe();
                    let go = seen.wait_for(|seen| seen.iter().any(|it| it == "go"));
                    drop(go.await.unwrap());
                }
                _ => say(sink, line),
            }
        }
        Stop::EndTurn
    }
}

fn say(sink: &SessionSink, text: &str) {
    let text = text.to_owned();
    sink.emit(EventKind::Text { text }, None);
}
