//! The listener over real sockets, with a real engine behind it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::Duration,
};

use axum::{Extension, Router, http::Uri, routing::get};
use engine::{
    Caller, Drivers, EndpointDrivers, Engine, EngineConfig, JournalQuery, LauncherMode, Rights,
};
use platform::{Guardian, Owner, Tasks, owner};
use reqwest::{Client, Response, StatusCode, redirect};

use crate::{Listener, ListenerConfig, ListenerError, NewToken, Tls, Tokens, Trust};

const GUARDIAN_MARK: &str = "mark-of-the-guardian";

/// How long a test waits for what should happen at once.
const PATIENCE: Duration = Duration::from_secs(20);

/// Does nothing in an ordinary run; a scene starts it with the mark.
#[test]
fn role_of_the_guardian() {
    if std::env::args().any(|arg| arg == GUARDIAN_MARK) {
        platform::guardian::run(std::io::stdin().lock());
    }
}

struct Scene {
    home: tempfile::TempDir,
    engine: Engine,
    tasks: Tasks,
    tokens: Tokens,
}

impl Scene {
    async fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let tasks = Tasks::new();
        let engine = engine(&home, &tasks).await;
        let tokens = Tokens::open(home.path(), engine.records()).await.unwrap();
        Self {
            home,
            engine,
            tasks,
            tokens,
        }
    }

    fn owner(&self) -> String {
        let text = std::fs::read_to_string(self.tokens.owner_file()).unwrap();
        text.trim().to_owned()
    }

    /// Serves a face that tells who asks, and gives the node's address.
    async fn serve(&self, config: ListenerConfig) -> String {
        let mut listener = Listener::bind(config, self.tokens.clone(), self.engine.records())
            .await
            .unwrap();
        let who = async |caller: Option<Extension<Caller>>| {
            caller.map_or("nobody".to_owned(), |caller| caller.0.name)
        };
        // As the office does it: an unknown session is the client's mistake.
        let session = async |uri: Uri| match uri.query() {
            Some("sid=made-up") => StatusCode::BAD_REQUEST,
            Some(_) | None => StatusCode::OK,
        };
        listener.mount(
            "test",
            Router::new()
                .route("/who", get(who).post(who))
                .route("/own/way", get(who))
                .route("/socket.io/", get(session).post(session))
                .route("/for-all/card", get(who).post(who)),
        );
        listener.open_path("/own");
        listener.open_path("/socket.io");
        listener.open_reading(|path| path == "/for-all/card");
        let url = listener.local_url();
        listener.serve(&self.tasks);
        url
    }

    async fn journal(&self, kind: &str) -> Vec<String> {
        let query = JournalQuery {
            kind_prefix: Some("audit.".to_owned()),
            ..JournalQuery::default()
        };
        let rows = self.engine.journal(query).await.unwrap();
        rows.into_iter()
            .filter(|row| row.kind == kind)
            .map(|row| row.body)
            .collect()
    }
}

async fn engine(home: &tempfile::TempDir, tasks: &Tasks) -> Engine {
    let owner = Owner::starting(&format!("test-{}", owner::fresh_id())).unwrap();
    let args = [
        "--exact",
        "listener_tests::role_of_the_guardian",
        GUARDIAN_MARK,
    ];
    let executable = std::env::current_exe().unwrap();
    let guardian = Guardian::spawn(&executable, &args, &owner).unwrap();
    let store = store::Store::open(&home.path().join("state.db"), store::Durability::default());
    let folder = |name: &str| {
        let path = home.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    let config = EngineConfig {
        configs_dir: folder("configs"),
        instances_dir: folder("instances"),
        agent_logs_dir: folder("logs"),
        executable,
        environment: BTreeMap::new(),
        launcher: LauncherMode::Mock,
        stop_grace: Duration::from_secs(1),
        durability: platform::files::Durability::default(),
        journal_age: Duration::from_secs(3600),
        journal_lines: 10_000,
        policy: domain::permission::Policy::default(),
    };
    let drivers = Drivers {
        acp: |_| unreachable!("no test starts a process"),
        print: |_| None,
        endpoint: EndpointDrivers::none(),
    };
    Engine::open(
        config,
        store.unwrap(),
        guardian,
        owner,
        tasks.child(),
        drivers,
    )
    .await
    .unwrap()
}

fn loopback(trust: Trust, tls: Tls) -> ListenerConfig {
    ListenerConfig {
        addr: SocketAddr::from(([127, 0, 0, 1], 0)),
        trust,
        hosts: Vec::new(),
        origins: vec!["https://tool.example".to_owned()],
        tls,
    }
}

fn client() -> Client {
    Client::builder()
        .timeout(PATIENCE)
        .redirect(redirect::Policy::none())
        .build()
        .unwrap()
}

async fn error_code(response: Response) -> (StatusCode, String) {
    let status = response.status();
    let body: serde_json::Value = response.json().await.unwrap();
    (status, body["error"]["code"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn every_request_needs_a_token_on_loopback_too() {
    let scene = Scene::new().await;
    let url = scene.serve(loopback(Trust::Tokens, Tls::Off)).await;
    let who = format!("{url}/who");
    let unauthorized = (StatusCode::UNAUTHORIZED, "unauthorized".to_owned());
    let answer = client().get(&who).send().await.unwrap();
    assert!(answer.headers().contains_key("www-authenticate"));
    assert_eq!(error_code(answer).await, unauthorized);
    let answer = client()
        .get(&who)
        .bearer_auth("act_x")
        .send()
        .await
        .unwrap();
    assert_eq!(error_code(answer).await, unauthorized);
    let answer = client().get(format!("{url}/nowhere")).send().await.unwrap();
    assert_eq!(
        error_code(answer).await,
        unauthorized,
        "a stranger learns nothing about paths"
    );
    let answer = client()
        .get(&who)
        .bearer_auth(scene.owner())
        .send()
        .await
        .unwrap();
    assert_eq!(answer.text().await.unwrap(), "owner");
    let answer = client()
        .get(&who)
        .header("x-agentcraft-token", scene.owner())
        .send()
        .await
        .unwrap();
    assert_eq!(answer.text().await.unwrap(), "owner");
    let answer = client().get(format!("{url}/healthz")).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let answer = client().get(format!("{url}/own/way")).send().await.unwrap();
    assert_eq!(answer.text().await.unwrap(), "nobody");
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn a_token_has_its_name_and_rights_until_it_is_revoked_also_after_a_restart() {
    let scene = Scene::new().await;
    let url = scene.serve(loopback(Trust::Tokens, Tls::Off)).await;
    let rights = Rights::Only(BTreeSet::from(["runs".to_owned()]));
    let new = NewToken {
        name: "phone".to_owned(),
        rights: rights.clone(),
        lifetime: Some(Duration::from_secs(60)),
    };
    let (view, token) = scene.tokens.create(new.clone()).await.unwrap();
    let again = Tokens::open(scene.home.path(), scene.engine.records())
        .await
        .unwrap();
    assert_eq!(again.check(&token).unwrap().rights, rights);
    assert_eq!(again.authenticator().check(&token).unwrap().name, "phone");
    let get = || {
        client()
            .get(format!("{url}/who"))
            .bearer_auth(&token)
            .send()
    };
    assert_eq!(get().await.unwrap().text().await.unwrap(), "phone");
    let listing = client()
        .get(format!("{url}/tokens"))
        .bearer_auth(&token)
        .send();
    assert_eq!(
        error_code(listing.await.unwrap()).await,
        (StatusCode::FORBIDDEN, "forbidden".to_owned())
    );
    scene.tokens.revoke(&view.id).await.unwrap();
    assert_eq!(get().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    let again = Tokens::open(scene.home.path(), scene.engine.records())
        .await
        .unwrap();
    assert_eq!(again.check(&token), None);
    let new = NewToken {
        lifetime: Some(Duration::ZERO),
        ..new
    };
    let (_, expired) = scene.tokens.create(new).await.unwrap();
    assert_eq!(scene.tokens.check(&expired), None);
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn the_owners_token_is_a_private_file_that_a_restart_keeps() {
    use std::os::unix::fs::PermissionsExt;
    let scene = Scene::new().await;
    let token = scene.owner();
    let mode = || {
        let metadata = scene.tokens.owner_file().metadata().unwrap();
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(mode(), 0o600);
    let wide = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(scene.tokens.owner_file(), wide).unwrap();
    let again = Tokens::open(scene.home.path(), scene.engine.records())
        .await
        .unwrap();
    assert_eq!(again.check(&token), Some(Caller::owner()));
    assert_eq!(mode(), 0o600);
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn strange_names_and_strange_pages_are_turned_away() {
    let scene = Scene::new().await;
    let url = scene.serve(loopback(Trust::Tokens, Tls::Off)).await;
    let with = |name: &'static str, value: String| {
        client()
            .post(format!("{url}/who"))
            .bearer_auth(scene.owner())
            .header(name, value)
            .send()
    };
    let answer = with("host", "evil.example".to_owned()).await.unwrap();
    assert_eq!(error_code(answer).await.1, "unknown_host");
    let answer = with("origin", "https://evil.example".to_owned())
        .await
        .unwrap();
    assert_eq!(
        error_code(answer).await,
        (StatusCode::FORBIDDEN, "foreign_origin".to_owned())
    );
    let answer = with("origin", url.clone()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let answer = with("origin", "https://tool.example".to_owned())
        .await
        .unwrap();
    assert_eq!(
        answer.headers()["access-control-allow-origin"],
        "https://tool.example"
    );
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn a_browser_logs_in_once_with_a_link_and_acts_only_from_our_own_pages() {
    let scene = Scene::new().await;
    let url = scene.serve(loopback(Trust::Tokens, Tls::Off)).await;
    let made = client()
        .post(format!("{url}/login/codes"))
        .bearer_auth(scene.owner())
        .send()
        .await
        .unwrap();
    let made: serde_json::Value = made.json().await.unwrap();
    let link = format!("{url}{}", made["path"].as_str().unwrap());
    // Whoever only checks a link does not use it up.
    let looked = client().head(&link).send().await.unwrap();
    assert!(!looked.headers().contains_key("set-cookie"));
    let login = client().get(&link).send().await.unwrap();
    assert_eq!(login.status(), StatusCode::SEE_OTHER);
    assert_eq!(login.headers()["location"], "/");
    let set = login.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(
        set.contains("HttpOnly") && set.contains("SameSite=Strict"),
        "{set}"
    );
    let cookie = set.split(';').next().unwrap().to_owned();
    let answer = client().get(&link).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "a second time");
    let ask = |method: reqwest::Method| {
        client()
            .request(method, format!("{url}/who"))
            .header("cookie", &cookie)
    };
    let seen = ask(reqwest::Method::GET).send().await.unwrap();
    assert_eq!(seen.text().await.unwrap(), "owner");
    let blind = ask(reqwest::Method::POST).send().await.unwrap();
    assert_eq!(error_code(blind).await.1, "foreign_origin");
    let own = ask(reqwest::Method::POST).header("origin", &url).send();
    assert_eq!(own.await.unwrap().status(), StatusCode::OK);
    let out = client()
        .post(format!("{url}/logout"))
        .header("cookie", &cookie)
        .header("origin", &url)
        .send();
    assert_eq!(out.await.unwrap().status(), StatusCode::NO_CONTENT);
    let gone = ask(reqwest::Method::GET).send().await.unwrap();
    assert_eq!(gone.status(), StatusCode::UNAUTHORIZED);
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn what_is_for_all_is_read_without_a_token_and_not_written() {
    let scene = Scene::new().await;
    let url = scene.serve(loopback(Trust::Tokens, Tls::Off)).await;
    let card = format!("{url}/for-all/card");
    let read = client().get(&card).send().await.unwrap();
    assert_eq!(read.text().await.unwrap(), "nobody");
    let known = client().get(&card).bearer_auth(scene.owner()).send().await;
    assert_eq!(known.unwrap().text().await.unwrap(), "owner");
    let wrong = client().get(&card).bearer_auth("act_x").send().await;
    assert_eq!(wrong.unwrap().text().await.unwrap(), "nobody");
    for (method, path) in [
        (reqwest::Method::POST, "/for-all/card"),
        (reqwest::Method::GET, "/for-all/card/"),
        (reqwest::Method::GET, "/for-all"),
    ] {
        let refused = client().request(method.clone(), format!("{url}{path}"));
        let refused = refused.send().await.unwrap().status();
        assert_eq!(refused, StatusCode::UNAUTHORIZED, "{method} {path}");
    }
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn an_open_network_may_ask_agents_and_not_rule_the_node() {
    let scene = Scene::new().await;
    let url = scene.serve(loopback(Trust::Open, Tls::Off)).await;
    let answer = client().get(format!("{url}/who")).send().await.unwrap();
    assert_eq!(answer.text().await.unwrap(), "open:127.0.0.1");
    let answer = client().get(format!("{url}/for-all/card")).send();
    assert_eq!(
        answer.await.unwrap().text().await.unwrap(),
        "open:127.0.0.1"
    );
    let answer = client().get(format!("{url}/tokens")).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    let answer = client()
        .get(format!("{url}/who"))
        .bearer_auth("act_wrong")
        .send();
    assert_eq!(answer.await.unwrap().status(), StatusCode::UNAUTHORIZED);
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn another_machine_is_let_in_only_with_encryption_or_where_the_network_is_trusted() {
    let scene = Scene::new().await;
    let everywhere = |trust, tls| ListenerConfig {
        addr: SocketAddr::from(([0, 0, 0, 0], 0)),
        ..loopback(trust, tls)
    };
    let bind = |config| Listener::bind(config, scene.tokens.clone(), scene.engine.records());
    let refused = bind(everywhere(Trust::Tokens, Tls::Off)).await.unwrap_err();
    assert!(matches!(refused, ListenerError::Unprotected { .. }));
    assert!(refused.to_string().contains("turn tls on"), "{refused}");
    bind(everywhere(Trust::Open, Tls::Off)).await.unwrap();
    let own = Tls::SelfSigned {
        home: scene.home.path().to_owned(),
    };
    let listener = bind(everywhere(Trust::Tokens, own)).await.unwrap();
    assert!(listener.fingerprint().unwrap().starts_with("sha256:"));
    assert_eq!(listener.scheme(), "https");
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn an_encrypted_port_answers_those_who_know_its_certificate() {
    let scene = Scene::new().await;
    let home = scene.home.path().to_owned();
    let tls = Tls::SelfSigned { home: home.clone() };
    let url = scene.serve(loopback(Trust::Tokens, tls)).await;
    let pem = std::fs::read(home.join("listener.pem")).unwrap();
    let known = reqwest::Certificate::from_pem(&pem).unwrap();
    let trusting = Client::builder().tls_certs_only([known]).build().unwrap();
    let get = |client: Client| {
        client
            .get(format!("{url}/who"))
            .bearer_auth(scene.owner())
            .send()
    };
    assert_eq!(get(trusting).await.unwrap().text().await.unwrap(), "owner");
    assert!(get(client()).await.is_err(), "a stranger's certificate");
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn what_is_not_there_is_told_in_json_with_the_methods_that_are() {
    let scene = Scene::new().await;
    let url = scene.serve(loopback(Trust::Tokens, Tls::Off)).await;
    let ask = |method: reqwest::Method, path: &str| {
        client()
            .request(method, format!("{url}{path}"))
            .bearer_auth(scene.owner())
            .send()
    };
    let missing = ask(reqwest::Method::GET, "/nowhere").await.unwrap();
    assert_eq!(
        error_code(missing).await,
        (StatusCode::NOT_FOUND, "not_found".to_owned())
    );
    let wrong = ask(reqwest::Method::DELETE, "/who").await.unwrap();
    assert_eq!(wrong.headers()["allow"], "GET,HEAD,POST");
    assert_eq!(error_code(wrong).await.0, StatusCode::METHOD_NOT_ALLOWED);
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn the_audit_tells_who_was_refused_and_who_changed_something() {
    let scene = Scene::new().await;
    let url = scene.serve(loopback(Trust::Tokens, Tls::Off)).await;
    let mut growth = scene.engine.journal_growth();
    client()
        .get(format!("{url}/who?token=secret"))
        .send()
        .await
        .unwrap();
    client()
        .post(format!("{url}/who"))
        .bearer_auth(scene.owner())
        .send()
        .await
        .unwrap();
    let lines = async {
        loop {
            let refused = scene.journal("audit.refused").await;
            let calls = scene.journal("audit.call").await;
            if !refused.is_empty() && !calls.is_empty() {
                return (refused, calls);
            }
            growth.changed().await.unwrap();
        }
    };
    let (refused, calls) = tokio::time::timeout(PATIENCE, lines).await.unwrap();
    assert!(refused[0].contains("unauthorized"), "{refused:?}");
    assert!(!refused[0].contains("secret"), "{refused:?}");
    assert!(calls[0].contains("\"who\":\"owner\""), "{calls:?}");
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn names_are_whose_things_are_so_nobody_gets_another_ones() {
    let scene = Scene::new().await;
    let url = scene.serve(loopback(Trust::Tokens, Tls::Off)).await;
    let create = async |name: &str| {
        let answer = client()
            .post(format!("{url}/tokens"))
            .bearer_auth(scene.owner())
            .body(format!(r#"{{"name": "{name}", "rights": ["runs"]}}"#))
            .send();
        answer.await.unwrap().status()
    };
    for reserved in [
        "owner",
        "Owner",
        " owner ",
        "nobody",
        "peer:desk",
        "open:10.0.0.1",
    ] {
        assert_eq!(
            create(reserved).await,
            StatusCode::BAD_REQUEST,
            "{reserved}"
        );
    }
    assert_eq!(create("phone").await, StatusCode::CREATED);
    assert_eq!(create("phone").await, StatusCode::BAD_REQUEST);
    let id = scene.tokens.list()[0].id.clone();
    scene.tokens.revoke(&id).await.unwrap();
    assert_eq!(create("phone").await, StatusCode::CREATED);
    // The node itself renews what it gave a peer before it ends the old one.
    let peer = || NewToken {
        name: "peer:desk".to_owned(),
        rights: Rights::All,
        lifetime: None,
    };
    let (_, one) = scene.tokens.issue(peer()).await.unwrap();
    let (view, two) = scene.tokens.issue(peer()).await.unwrap();
    let (caller, id) = scene.tokens.whose(&two).unwrap();
    assert_eq!(
        (caller.name.as_str(), id.unwrap().0),
        ("peer:desk", view.id.clone())
    );
    assert_ne!(scene.tokens.whose(&one).unwrap().1.unwrap().0, view.id);
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn tokens_that_are_over_leave_room_and_nothing_in_the_store() {
    let scene = Scene::new().await;
    let new = |number: usize| NewToken {
        name: format!("bot {number}"),
        rights: Rights::All,
        lifetime: Some(Duration::ZERO),
    };
    for number in 0..5 {
        let (view, _) = scene.tokens.create(new(number)).await.unwrap();
        let known: Vec<String> = scene.tokens.kept_ids();
        assert_eq!(known, [view.id], "the one before it is gone");
    }
    let (_, again) = scene.tokens.create(new(0)).await.unwrap();
    assert_eq!(scene.tokens.check(&again), None);
    let tokens = Tokens::open(scene.home.path(), scene.engine.records());
    assert!(tokens.await.unwrap().kept_ids().is_empty());
    let kept = scene.engine.records();
    let kept = kept.list::<serde_json::Value>("token", engine::Which::Live, None, 10);
    assert!(kept.await.unwrap().is_empty());
    assert_eq!(scene.journal("audit.token-expired").await.len(), 6);
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn the_messages_of_a_polling_session_are_neither_counted_nor_written_down() {
    let scene = Scene::new().await;
    let url = scene.serve(loopback(Trust::Tokens, Tls::Off)).await;
    let mut growth = scene.engine.journal_growth();
    let post = async |path: &str| {
        let asked = client().post(format!("{url}{path}")).send().await;
        asked.unwrap().status()
    };
    // More than a caller may ask at once.
    let client = client();
    for _ in 0..15 {
        let message = || client.post(format!("{url}/socket.io/?sid=known")).send();
        let asked = futures_util::future::join_all((0..40).map(|_| message())).await;
        let is_fine = |asked: reqwest::Result<Response>| asked.unwrap().status() == StatusCode::OK;
        assert!(asked.into_iter().all(is_fine));
    }
    // Whoever makes up sessions is held up, and the handshake is written down.
    let mut answers = Vec::new();
    for _ in 0..200 {
        answers.push(post("/socket.io/?sid=made-up").await);
    }
    assert_eq!(answers[0], StatusCode::BAD_REQUEST);
    assert!(answers.contains(&StatusCode::TOO_MANY_REQUESTS));
    assert_eq!(post("/socket.io/").await, StatusCode::OK);
    let lines = async {
        loop {
            let calls = scene.journal("audit.call").await;
            if !calls.is_empty() {
                return calls;
            }
            growth.changed().await.unwrap();
        }
    };
    let calls = tokio::time::timeout(PATIENCE, lines).await.unwrap();
    assert_eq!(calls.len(), 1, "{calls:?}");
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn who_hammers_an_open_path_fills_no_journal() {
    const ASKED: usize = 300;
    let scene = Scene::new().await;
    let url = scene.serve(loopback(Trust::Tokens, Tls::Off)).await;
    let mut growth = scene.engine.journal_growth();
    let stranger = client();
    for _ in 0..ASKED {
        let asked = stranger.post(format!("{url}/socket.io/")).send();
        asked.await.unwrap();
    }
    let owner = client().post(format!("{url}/who"));
    let asked = owner.bearer_auth(scene.owner()).send();
    asked.await.unwrap();
    // Lines are written in their order, so the owner's comes last.
    let lines = async {
        loop {
            let calls = scene.journal("audit.call").await;
            if calls.iter().any(|call| call.contains("\"who\":\"owner\"")) {
                return calls;
            }
            growth.changed().await.unwrap();
        }
    };
    let calls = tokio::time::timeout(PATIENCE, lines).await.unwrap();
    let strangers = calls.iter().filter(|call| call.contains("nobody")).count();
    assert!((1..ASKED / 2).contains(&strangers), "{strangers}");
    scene.engine.shutdown().await;
}
