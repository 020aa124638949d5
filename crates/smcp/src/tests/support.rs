//! An office server on a port of its own, and a computer's tools that do as they are told.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use domain::office::Role;
use platform::Tasks;
use serde_json::{Map, Value, json};
use tokio::{net::TcpListener, sync::Notify};
use tokio_util::sync::CancellationToken;
use wire::smcp::{CallResult, ConfigAnswer, Profile, Progress, Resource};

use super::raw::Raw;
use crate::{
    Audit, Caller, LinkConfig, Listener, Refused,
    computer::{
        Answering, CallFailure, ComputerConfig, ResourceFailure, ResourcePage, ServerTool, Tools,
    },
    server::{OfficeConfig, OfficeServer, Sharing, router, shared_router},
};

/// How long anything may take that is expected to happen at once.
pub(super) const SOON: Duration = Duration::from_secs(10);

/// A running server.
pub(super) struct Office {
    pub(super) address: SocketAddr,
    pub(super) tasks: Tasks,
    pub(super) server: OfficeServer,
    refused: Refusals,
}

type Refusals = Arc<Mutex<Vec<Refused>>>;

fn audit(refused: &Refusals) -> Audit {
    let written = Arc::clone(refused);
    Arc::new(move |record| written.lock().unwrap().push(record))
}

impl Office {
    pub(super) async fn start() -> Self {
        Self::with(OfficeConfig::default(), "127.0.0.1:0").await
    }

    pub(super) async fn with(config: OfficeConfig, address: &str) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let (tasks, refused) = (Tasks::new(), Refusals::default());
        let (router, server) = router(config, Arc::new(caller), audit(&refused), &tasks);
        Self::serve(listener, tasks, refused, router, server)
    }

    /// A server whose tokens are taken back when the switch is off.
    pub(super) async fn revocable(config: OfficeConfig, is_valid: &Arc<AtomicBool>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (tasks, refused) = (Tasks::new(), Refusals::default());
        let switch = Arc::clone(is_valid);
        let authenticate = move |token: &str| {
            let switch = Arc::clone(&switch);
            let is_valid = move || switch.load(Ordering::SeqCst);
            let caller = caller(token).filter(|_| is_valid())?;
            let is_ours = !caller.name.starts_with("lasting");
            Some(if is_ours {
                caller.while_valid(is_valid)
            } else {
                caller
            })
        };
        let (router, server) = router(config, Arc::new(authenticate), audit(&refused), &tasks);
        Self::serve(listener, tasks, refused, router, server)
    }

    /// A server that forgets whom it has refused, for tests that watch the memory.
    pub(super) async fn forgetful() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (tasks, config) = (Tasks::new(), OfficeConfig::default());
        let (router, server) = router(config, Arc::new(caller), Arc::new(drop), &tasks);
        Self::serve(listener, tasks, Refusals::default(), router, server)
    }

    /// One of several servers that share a Redis.
    pub(super) async fn sharing(config: OfficeConfig, redis: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (tasks, refused) = (Tasks::new(), Refusals::default());
        let sharing = Sharing::parse(redis).unwrap();
        let caller = Arc::new(caller);
        let shared = shared_router(config, &sharing, caller, audit(&refused), &tasks);
        let (router, server) = shared.await.unwrap();
        Self::serve(listener, tasks, refused, router, server)
    }

    fn serve(
        listener: TcpListener,
        tasks: Tasks,
        refused: Refusals,
        router: axum::Router,
        server: OfficeServer,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        tasks.spawn(|stop| async move {
            let router = router.into_make_service_with_connect_info::<SocketAddr>();
            let serving = axum::serve(listener, router);
            tokio::select! {
                () = stop.cancelled() => {}
                served = serving.into_future() => served.unwrap(),
            }
        });
        Self {
            address,
            tasks,
            server,
            refused,
        }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn refused(&self) -> Vec<Refused> {
        self.refused.lock().unwrap().clone()
    }

    pub(super) async fn stop(self) {
        assert_eq!(self.tasks.drain(SOON).await, platform::Drained::Clean);
    }

    pub(super) async fn raw(&self, profile: Profile, token: &str) -> Raw {
        Raw::connect(self.address, profile, json!({ "token": token }))
            .await
            .unwrap()
    }

    /// A member that has joined.
    pub(super) async fn member(
        &self,
        profile: Profile,
        role: Role,
        name: &str,
        office: &str,
    ) -> Raw {
        let mut raw = self.raw(profile, &format!("t-{name}")).await;
        let answer = raw.join(role.as_str(), name, office).await;
        assert_eq!(answer, [json!(true), Value::Null]);
        raw
    }

    pub(super) fn link(&self, profile: Profile, name: &str, office: &str) -> LinkConfig {
        link(&self.url(), profile, name, office)
    }
}

pub(super) fn link(url: &str, profile: Profile, name: &str, office: &str) -> LinkConfig {
    LinkConfig {
        url: url.to_owned(),
        token: format!("t-{name}"),
        profile,
        office: office.to_owned(),
        name: name.to_owned(),
        connector: None,
    }
}

/// `t-NAME` is the token of NAME, who may join anywhere; `only-OFFICE` opens one office, to computers.
fn caller(token: &str) -> Option<Caller> {
    if let Some(name) = token.strip_prefix("t-") {
        return Some(Caller::everywhere(name));
    }
    let office = token.strip_prefix("only-")?.to_owned();
    Some(Caller::new("scoped", move |role, asked| {
        role == Role::Computer && asked.as_str() == office
    }))
}

/// Tools whose answers are in the test.
#[derive(Default)]
pub(super) struct FakeTools {
    pub(super) config: Value,
    pub(super) calls: AtomicUsize,
    pub(super) cancelled: Notify,
    pub(super) begun: Notify,
}

impl FakeTools {
    pub(super) fn new() -> Arc<Self> {
        Self::with(json!({
            "inputs": [{"id": "key", "type": "promptString", "description": "", "password": true, "default": "SECRET"}],
            "servers": {
                "one": {"type": "stdio", "command": "run", "env": {"KEY": "SECRET", "OTHER": "${input:key}"},
                        "default_tool_meta": {"auto_apply": true}, "forbidden_tools": ["burn"],
                        "tool_meta": {"ask": {"auto_apply": false}, "echo": {"alias": "say"}}},
                "off": {"type": "http", "url": "https://u:SECRET@h/mcp?k=SECRET", "disabled": true,
                        "headers": {"Authorization": "Bearer SECRET"}},
            }
        }))
    }

    pub(super) fn with(config: Value) -> Arc<Self> {
        Arc::new(Self {
            config,
            ..Self::default()
        })
    }

    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Tools for FakeTools {
    fn config(&self) -> ConfigAnswer {
        ConfigAnswer::from_value(&self.config).0
    }

    fn tools(&self) -> Answering<'_, Vec<ServerTool>> {
        let tool = |server: &str, name: &str| ServerTool {
            server: server.to_owned(),
            name: name.to_owned(),
            description: format!("does {name}"),
            input_schema: json!({"type": "object"}),
            ..ServerTool::default()
        };
        Box::pin(async move {
            let names = ["echo", "hang", "image", "ask", "burn", "fail", "denied"];
            let mut tools: Vec<ServerTool> = names.map(|name| tool("one", name)).into();
            tools.push(tool("off", "any"));
            tools
        })
    }

    fn call(
        &self,
        _server: &str,
        tool: &str,
        params: Map<String, Value>,
        cancel: CancellationToken,
        listener: Option<Listener>,
    ) -> Answering<'_, Result<CallResult, CallFailure>> {
        let tool = tool.to_owned();
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::SeqCst);
            self.begun.notify_one();
            for step in [1.0, 2.0] {
                let said = Progress {
                    progress: step,
                    total: Some(2.0),
                    message: Some(format!("step {step}")),
                };
                listener.iter().for_each(|it| it.hear(said.clone()));
            }
            let content = match tool.as_str() {
                "hang" => {
                    cancel.cancelled().await;
                    self.cancelled.notify_one();
                    return Err(CallFailure::Failed("cancelled".to_owned()));
                }
                "fail" => return Err(CallFailure::Failed("on purpose".to_owned())),
                "denied" => return Err(CallFailure::Unauthorized { hint: None }),
                "image" => {
                    use base64::{Engine as _, engine::general_purpose::STANDARD};
                    let data = STANDARD.encode(vec![42_u8; 700_000]);
                    json!({"type": "image", "mimeType": "image/png", "data": data})
                }
                _ => json!({"type": "text", "text": json!(params).to_string()}),
            };
            let texts = params.get("megabytes").and_then(Value::as_u64).unwrap_or(0);
            let mut content = vec![content];
            content
                .extend((0..texts).map(|_| json!({"type": "text", "text": "x".repeat(1 << 20)})));
            Ok(CallResult {
                content,
                ..CallResult::default()
            })
        })
    }

    fn resources(
        &self,
        server: &str,
        cursor: Option<&str>,
    ) -> Answering<'_, Result<ResourcePage, ResourceFailure>> {
        let (server, cursor) = (server.to_owned(), cursor.map(str::to_owned));
        Box::pin(async move {
            if server != "one" {
                return Err(ResourceFailure::NotOffered);
            }
            let resource = |uri: &str, priority: f64| Resource {
                uri: uri.to_owned(),
                name: "r".to_owned(),
                annotations: json!({ "priority": priority }).as_object().cloned(),
                ..Resource::default()
            };
            Ok(match cursor.as_deref() {
                None => ResourcePage {
                    resources: vec![
                        resource("window://one/low", 0.1),
                        resource("file:///x", 1.0),
                    ],
                    next_cursor: Some("2".to_owned()),
                },
                Some(_) => ResourcePage {
                    resources: vec![resource("window://one/high", 0.9)],
                    next_cursor: None,
                },
            })
        })
    }

    fn read(&self, _server: &str, uri: &str) -> Answering<'_, Result<String, ResourceFailure>> {
        let text = format!("body of {uri}");
        Box::pin(async move { Ok(text) })
    }
}

pub(super) fn computer_config(link: LinkConfig) -> ComputerConfig {
    ComputerConfig::new(link)
}

pub(super) fn params(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Waits until so many members sit in the server's offices.
pub(super) async fn until_seated(office: &Office, members: usize) {
    let mut changes = office.server.changes();
    let is_full = || office.server.seats().len() == members;
    let seated = async { while !is_full() && changes.changed().await.is_ok() {} };
    let seated = tokio::time::timeout(SOON, seated).await;
    assert!(seated.is_ok(), "{:?}", office.server.seats());
}

/// Everybody in an office, as `role name`.
pub(super) fn seats(office: &Office) -> BTreeMap<String, Vec<String>> {
    let mut seats: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for seat in office.server.seats() {
        let names = seats.entry(seat.office).or_default();
        names.push(format!("{} {}", seat.role, seat.name));
    }
    seats
}
