//! What tests need: a node in a temporary home, a peer that does what it is told, and somebody to ask.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use domain::chain::Ourselves;
use engine::Records;
use platform::Tasks;
use serde_json::{Value, json};
use store::{JournalQuery, Store};
use tempfile::TempDir;
use uuid::Uuid;

use crate::{
    Adviser, AnswerRule, Discovery, Grants, Human, Issued, Lan, LanConfig, NewPeer, PortFuture,
    Ports, Question, Reach,
};

/// A node of ours with everything it needs.
pub(crate) struct TestNode {
    pub(crate) lan: Lan,
    pub(crate) grants: Arc<FakeGrants>,
    pub(crate) store: Store,
    pub(crate) configs: PathBuf,
    pub(crate) id: String,
    pub(crate) tasks: Tasks,
    _home: TempDir,
}

#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) name: &'static str,
    pub(crate) url: Option<String>,
    pub(crate) rules: Vec<AnswerRule>,
    pub(crate) human: Option<Arc<FakeHuman>>,
    pub(crate) router: Option<Arc<FakeAdviser>>,
    pub(crate) answerer: Option<Arc<FakeAdviser>>,
}

impl TestNode {
    pub(crate) async fn start(setup: Setup) -> Self {
        let home = TempDir::new().unwrap();
        let configs = home.path().join("configs");
        std::fs::create_dir(&configs).unwrap();
        let store = Store::open(
            &home.path().join("store.db"),
            store::Durability::ProcessDeath,
        )
        .unwrap();
        let id = Uuid::new_v4().to_string();
        let (grants, tasks) = (Arc::new(FakeGrants::default()), Tasks::new());
        let config = LanConfig {
            node: Ourselves {
                id: id.clone(),
                name: setup.name.to_owned(),
            },
            version: "1".to_owned(),
            configs: configs.clone(),
            // What finds others is tried with real nodes on networks of their own.
            discovery: Discovery::Off,
            peers: Vec::new(),
            reach: setup.url.map(|url| Reach {
                scheme: "http",
                port: url.rsplit(':').next().unwrap().parse().unwrap(),
                url: Some(url),
            }),
            probe: None,
            fingerprint: None,
            rules: setup.rules,
        };
        let ports = Ports {
            grants: grants.clone(),
            human: setup.human.map(|human| human as Arc<dyn Human>),
            router: setup.router.map(|router| router as Arc<dyn Adviser>),
            answerer: setup.answerer.map(|answerer| answerer as Arc<dyn Adviser>),
        };
        let lan = Lan::start(config, Records::new(store.clone()), ports, &tasks)
            .await
            .unwrap();
        Self {
            lan,
            grants,
            store,
            configs,
            id,
            tasks,
            _home: home,
        }
    }

    pub(crate) async fn plain() -> Self {
        let setup = Setup {
            name: "desk",
            ..Setup::default()
        };
        Self::start(setup).await
    }

    pub(crate) async fn knows(&self, peer: &FakePeer) -> String {
        let new = NewPeer {
            url: peer.url.clone(),
            ..NewPeer::default()
        };
        self.lan.peers().add(new).await.unwrap().id
    }

    /// The bodies of journal lines of a kind.
    pub(crate) async fn journal(&self, kind: &str) -> Vec<Value> {
        let query = JournalQuery {
            kind_prefix: Some(kind.to_owned()),
            ..JournalQuery::default()
        };
        let rows = self.store.journal(query).await.unwrap();
        rows.iter()
            .map(|row| serde_json::from_str(&row.body).unwrap())
            .collect()
    }
}

/// Serves a router on loopback until the tasks end.
pub(crate) async fn serve(router: Router, tasks: &Tasks) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    serve_on(listener, router, tasks)
}

pub(crate) fn serve_on(listener: tokio::net::TcpListener, router: Router, tasks: &Tasks) -> String {
    let url = format!("http://{}", listener.local_addr().unwrap());
    tasks.spawn(|stop| async move {
        // Connections that are kept open end too, as they do with a process.
        axum::serve(listener, router)
            .with_graceful_shutdown(stop.cancelled_owned())
            .await
    });
    url
}

/// How a peer takes a run.
#[derive(Clone)]
pub(crate) enum Manner {
    Does(&'static str),
    /// Asks, with what it says of the question, and tells what it was answered.
    Asks(&'static str, Value),
    Refuses(u16, Value),
    /// Knows the session of nobody.
    Forgets,
}

/// A peer that keeps what it was asked.
pub(crate) struct FakePeer {
    pub(crate) url: String,
    pub(crate) id: String,
    pub(crate) script: Arc<Script>,
    pub(crate) tasks: Tasks,
}

pub(crate) struct Script {
    pub(crate) manifest: Mutex<Value>,
    manner: Manner,
    pub(crate) asked: Mutex<Vec<(Option<String>, Value)>>,
    answered: Mutex<Option<String>>,
    /// What it asks instead of what it began with.
    asks: Mutex<Option<(&'static str, Value)>>,
    /// The only answer that it can take.
    takes: Mutex<Option<&'static str>>,
    /// The question that the last answer was for.
    meant: Mutex<Option<String>>,
}

impl FakePeer {
    pub(crate) async fn start(name: &str, capabilities: &[(&str, &str)], manner: Manner) -> Self {
        let id = Uuid::new_v4().to_string();
        let capabilities: Vec<Value> = capabilities
            .iter()
            .map(|(id, description)| json!({ "id": id, "description": description }))
            .collect();
        let manifest = json!({ "agent_id": id, "name": name, "version": "1", "description": name, "capabilities": capabilities });
        let script = Arc::new(Script {
            manifest: Mutex::new(manifest),
            manner,
            asked: Mutex::default(),
            answered: Mutex::default(),
            asks: Mutex::default(),
            takes: Mutex::default(),
            meant: Mutex::default(),
        });
        let router = Router::new()
            .route("/ping", get(async || Json(json!({}))))
            .route(
                "/manifest",
                get(async |State(script): State<Arc<Script>>| {
                    Json(script.manifest.lock().unwrap().clone())
                }),
            )
            .route("/runs", post(take_run))
            .route("/runs/{id}", get(look).post(resume))
            .with_state(script.clone());
        let tasks = Tasks::new();
        let url = serve(router, &tasks).await;
        Self {
            url,
            id,
            script,
            tasks,
        }
    }

    pub(crate) fn asked(&self) -> Vec<(Option<String>, Value)> {
        self.script.asked.lock().unwrap().clone()
    }

    pub(crate) fn answered(&self) -> Option<String> {
        self.script.answered.lock().unwrap().clone()
    }

    pub(crate) fn meant(&self) -> Option<String> {
        self.script.meant.lock().unwrap().clone()
    }

    /// It asks something else from now on.
    pub(crate) fn asks(&self, question: &'static str, metadata: Value) {
        *self.script.asks.lock().unwrap() = Some((question, metadata));
    }

    /// It takes no other answer.
    pub(crate) fn takes(&self, answer: &'static str) {
        *self.script.takes.lock().unwrap() = Some(answer);
    }

    /// Somebody else answers what it asks.
    pub(crate) fn answers(&self, answer: &str) {
        *self.script.answered.lock().unwrap() = Some(answer.to_owned());
    }

    pub(crate) fn says(&self, key: &str, value: Value) {
        self.script.manifest.lock().unwrap()[key] = value;
    }

    /// Its connections are refused from now on.
    pub(crate) async fn dies(&self) {
        let _ = self.tasks.drain(std::time::Duration::from_secs(5)).await;
    }
}

async fn take_run(
    State(script): State<Arc<Script>>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let chain = headers
        .get("x-agentcraft-call-chain")
        .map(|chain| chain.to_str().unwrap().to_owned());
    let session = body["session_id"].as_str().map(str::to_owned);
    script.asked.lock().unwrap().push((chain, body));
    match &script.manner {
        Manner::Refuses(status, body) => {
            (StatusCode::from_u16(*status).unwrap(), Json(body.clone())).into_response()
        }
        Manner::Forgets if session.is_some() => (
            StatusCode::GONE,
            Json(json!({ "error": { "code": "session_expired", "message": "gone" } })),
        )
            .into_response(),
        Manner::Does(_) | Manner::Asks(..) | Manner::Forgets => {
            let run = json!({ "run_id": "r1", "agent_name": "a", "session_id": "s1", "status": "in-progress" });
            (StatusCode::ACCEPTED, Json(run)).into_response()
        }
    }
}

async fn look(State(script): State<Arc<Script>>, Path(id): Path<String>) -> Json<Value> {
    let mut run =
        json!({ "run_id": id, "agent_name": "a", "session_id": "s1", "status": "completed" });
    let answered = script.answered.lock().unwrap().clone();
    let text = match (&script.manner, answered) {
        (Manner::Does(text), _) => (*text).to_owned(),
        (_, Some(answer)) => format!("did: {answer}"),
        (Manner::Asks(question, metadata), None) => {
            let instead = script.asks.lock().unwrap().clone();
            let (question, metadata) = instead.unwrap_or((question, metadata.clone()));
            run["status"] = json!("awaiting");
            let message = json!({ "role": "agent", "parts": [{ "content_type": "text/plain", "content": question }] });
            run["await_request"] =
                json!({ "type": "message", "message": message, "metadata": metadata });
            String::new()
        }
        (Manner::Refuses(..) | Manner::Forgets, None) => String::new(),
    };
    run["output"] =
        json!([{ "role": "agent", "parts": [{ "content_type": "text/plain", "content": text }] }]);
    Json(run)
}

/// As the standard has it: there is no path for resuming alone.
async fn resume(
    State(script): State<Arc<Script>>,
    id: Path<String>,
    Json(body): Json<Value>,
) -> Response {
    let answer = body["await_resume"]["message"]["parts"][0]["content"].as_str();
    if let Some(only) = *script.takes.lock().unwrap()
        && answer != Some(only)
    {
        let error = json!({ "code": "wrong_answer", "message": format!("say {only}") });
        let refused = Json(json!({ "error": error }));
        return (StatusCode::UNPROCESSABLE_ENTITY, refused).into_response();
    }
    *script.answered.lock().unwrap() = answer.map(str::to_owned);
    *script.meant.lock().unwrap() = body["ask"].as_str().map(str::to_owned);
    look(State(script), id).await.into_response()
}

/// Tokens that are made and ended.
#[derive(Default)]
pub(crate) struct FakeGrants {
    pub(crate) issued: Mutex<Vec<(String, BTreeSet<String>, String)>>,
    pub(crate) revoked: Mutex<Vec<String>>,
}

impl Grants for FakeGrants {
    fn issue(
        &self,
        name: String,
        rights: BTreeSet<String>,
        _: Option<std::time::Duration>,
    ) -> PortFuture<Result<Issued, String>> {
        let token = format!("token-{}", Uuid::new_v4());
        let token_id = format!("id-of-{token}");
        self.issued
            .lock()
            .unwrap()
            .push((name, rights, token.clone()));
        Box::pin(async move { Ok(Issued { token_id, token }) })
    }

    fn revoke(&self, token_id: String) -> PortFuture<Result<(), String>> {
        self.revoked.lock().unwrap().push(token_id);
        Box::pin(async { Ok(()) })
    }
}

/// Somebody who answers, or is not there.
#[derive(Default)]
pub(crate) struct FakeHuman {
    pub(crate) answer: Option<&'static str>,
    /// They think about it for ever.
    pub(crate) never: bool,
    pub(crate) asked: Mutex<Vec<Question>>,
    pub(crate) told: Mutex<Vec<String>>,
    pub(crate) asking: tokio::sync::Notify,
}

impl FakeHuman {
    pub(crate) async fn was_asked(&self) {
        self.asking.notified().await;
    }
}

impl Human for FakeHuman {
    fn ask(&self, question: Question) -> PortFuture<Option<String>> {
        self.asked.lock().unwrap().push(question);
        self.asking.notify_one();
        if self.never {
            return Box::pin(std::future::pending());
        }
        let answer = self.answer.map(str::to_owned);
        Box::pin(async move { answer })
    }

    fn tell(&self, words: String) {
        self.told.lock().unwrap().push(words);
    }
}

/// An agent that always says the same.
pub(crate) struct FakeAdviser {
    says: &'static str,
    asked: Mutex<Vec<String>>,
}

impl FakeAdviser {
    pub(crate) fn saying(says: &'static str) -> Arc<Self> {
        Arc::new(Self {
            says,
            asked: Mutex::default(),
        })
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Adviser for FakeAdviser {
    fn name(&self) -> &str {
        "wise"
    }

    fn ask(&self, words: String) -> PortFuture<Result<String, String>> {
        self.asked.lock().unwrap().push(words);
        Box::pin(std::future::ready(Ok(self.says.to_owned())))
    }
}

/// Somebody who never answers.
pub(crate) struct Silent;

impl Human for Silent {
    fn ask(&self, _: Question) -> PortFuture<Option<String>> {
        Box::pin(std::future::pending())
    }

    fn tell(&self, _: String) {}
}
