//! What is known of an office, whatever comes late.

use std::sync::Arc;

use super::*;

fn desk() -> Arc<Desk> {
    Arc::new(Desk {
        office: "studio".to_owned(),
        known: Mutex::new(Known {
            office: ServerStatus::Ready,
            refused: None,
            computers: BTreeMap::new(),
            asked: 0,
        }),
        changes: watch::channel(0).0,
    })
}

fn tool(name: &str) -> wire::smcp::Tool {
    serde_json::from_value(json!({
        "name": name, "bundle_id": "b", "description": "Does it.", "params_schema": null,
        "return_schema": {"type": "object"},
        "meta": {"MCP_TOOL_ANNOTATION": "{\"readOnlyHint\":true}"}
    }))
    .unwrap()
}

fn names(desk: &Desk, computer: &str) -> Option<Vec<String>> {
    let known = desk.known();
    let computer = known.computers.get(computer)?;
    Some(
        computer
            .tools
            .iter()
            .map(|tool| tool.name.clone())
            .collect(),
    )
}

#[test]
fn an_answer_to_an_older_question_changes_nothing() {
    let desk = desk();
    let first = desk.begin("nova");
    let second = desk.begin("nova");
    assert_eq!(
        desk.settle("nova", second, Ok(vec![tool("b__new")])),
        Some(())
    );
    assert_eq!(desk.settle("nova", first, Ok(vec![tool("b__old")])), None);
    assert_eq!(names(&desk, "nova"), Some(vec!["b__new".to_owned()]));
}

#[test]
fn an_answer_of_a_computer_that_has_left_changes_nothing() {
    let desk = desk();
    let asked = desk.begin("nova");
    desk.change(|known| {
        known.computers.remove("nova");
    });
    assert_eq!(desk.settle("nova", asked, Ok(vec![tool("b__x")])), None);
    assert_eq!(names(&desk, "nova"), None);
}

#[test]
fn a_computer_that_fails_to_answer_offers_nothing_until_it_does() {
    let desk = desk();
    let asked = desk.begin("nova");
    desk.settle("nova", asked, Ok(vec![tool("b__x")]));
    desk.settle("nova", asked, Err(LinkError::TimedOut));
    assert_eq!(names(&desk, "nova"), Some(Vec::new()));
    desk.settle("nova", asked, Ok(vec![tool("b__x")]));
    assert_eq!(names(&desk, "nova"), Some(vec!["b__x".to_owned()]));
}

#[test]
fn a_tool_is_described_in_the_words_of_mcp() {
    assert_eq!(
        described("nova", tool("b__x")).raw,
        json!({
            "name": "b__x", "description": "Does it.", "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}
        })
    );
}

#[test]
fn an_office_that_does_not_let_us_in_says_so_where_its_tools_would_be() {
    let desk = desk();
    desk.refused("The office has an agent already.");
    let told = *desk.changes.borrow();
    desk.refused("The office has an agent already.");
    assert_eq!(*desk.changes.borrow(), told, "nothing is said twice");
    let tools = desk.tools();
    assert_eq!(tools.len(), 1);
    assert_eq!(
        (tools[0].server.as_str(), tools[0].name.as_str()),
        ("studio", WAIT)
    );
    let words = tools[0].description.as_deref().unwrap();
    assert!(
        words.contains("the office studio") && words.contains("has an agent already."),
        "{words}"
    );
}

/// An office server, and what joins it.
struct Place {
    url: String,
    tasks: Tasks,
}

impl Place {
    async fn open(address: &str) -> Self {
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let tasks = Tasks::new();
        let anybody: smcp::Authenticator =
            Arc::new(|token: &str| Some(smcp::Caller::everywhere(token)));
        let config = smcp::server::OfficeConfig::default();
        let (router, _) = smcp::server::router(config, anybody, Arc::new(drop), &tasks);
        let connections = tasks.child();
        tasks.spawn(|stop| listener::serve_router(listener, None, router, connections, stop));
        Self { url, tasks }
    }

    fn link(&self, name: &str) -> LinkConfig {
        LinkConfig {
            url: self.url.clone(),
            token: name.to_owned(),
            profile: wire::smcp::Profile::Shipped,
            office: "studio".to_owned(),
            name: name.to_owned(),
            connector: None,
        }
    }

    fn computer(&self, tasks: &Tasks) -> smcp::computer::Computer {
        let config = smcp::computer::ComputerConfig::new(self.link("nova"));
        smcp::computer::Computer::start(config, Arc::new(OneTool), tasks)
    }
}

/// A computer that says hello.
struct OneTool;

impl smcp::computer::Tools for OneTool {
    fn config(&self) -> wire::smcp::ConfigAnswer {
        let config = json!({"servers": {"one": {
            "type": "stdio", "command": "x", "default_tool_meta": {"auto_apply": true}
        }}});
        wire::smcp::ConfigAnswer::from_value(&config).0
    }

    fn tools(&self) -> smcp::computer::Answering<'_, Vec<smcp::computer::ServerTool>> {
        let tool = smcp::computer::ServerTool {
            server: "one".to_owned(),
            name: "hello".to_owned(),
            input_schema: json!({"type": "object"}),
            ..smcp::computer::ServerTool::default()
        };
        Box::pin(async { vec![tool] })
    }

    fn call(
        &self,
        _server: &str,
        _tool: &str,
        _params: serde_json::Map<String, Value>,
        _cancel: CancellationToken,
        _listener: Option<Listener>,
    ) -> smcp::computer::Answering<'_, Result<CallResult, smcp::computer::CallFailure>> {
        Box::pin(async { Ok(CallResult::default()) })
    }

    fn resources(
        &self,
        _server: &str,
        _cursor: Option<&str>,
    ) -> smcp::computer::Answering<
        '_,
        Result<smcp::computer::ResourcePage, smcp::computer::ResourceFailure>,
    > {
        Box::pin(async { Err(smcp::computer::ResourceFailure::NotOffered) })
    }

    fn read(
        &self,
        _server: &str,
        _uri: &str,
    ) -> smcp::computer::Answering<'_, Result<String, smcp::computer::ResourceFailure>> {
        Box::pin(async { Err(smcp::computer::ResourceFailure::NotOffered) })
    }
}

const PATIENCE: Duration = Duration::from_secs(60);

async fn until_offered(office: &OfficeTools, names: &[&str]) {
    let mut changes = office.changes();
    let offered = async {
        loop {
            let tools = office.tools();
            let found: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
            if found == names {
                return;
            }
            changes.changed().await.unwrap();
        }
    };
    let offered = timeout(PATIENCE, offered).await;
    assert!(offered.is_ok(), "{:?}", office.tools());
}

fn call(server: &str, tool: &str) -> ToolCall {
    ToolCall {
        server: server.to_owned(),
        tool: tool.to_owned(),
        arguments: serde_json::Map::new(),
        cancel: CancellationToken::new(),
        progress: None,
    }
}

#[tokio::test]
async fn a_second_agent_waits_for_the_place_in_words() {
    let place = Place::open("127.0.0.1:0").await;
    let _computer = place.computer(&place.tasks);
    let first = OfficeTools::start(place.link("one"), PATIENCE, &place.tasks);
    until_offered(&first, &["one__hello"]).await;
    let second = OfficeTools::start(place.link("two"), PATIENCE, &place.tasks);
    until_offered(&second, &[WAIT]).await;
    let (waited, ()) = tokio::join!(second.call(call("studio", WAIT)), async {
        drop(first);
    });
    let waited = waited.unwrap();
    assert!(!waited.is_error && waited.raw.to_string().contains("has let us in"));
    until_offered(&second, &["one__hello"]).await;
    second.call(call("nova", "one__hello")).await.unwrap();
    let _ = place.tasks.drain(PATIENCE).await; // Whatever is stuck ends with the test.
}

#[tokio::test]
async fn after_a_loss_a_call_waits_for_its_computer_too() {
    let before = Place::open("127.0.0.1:0").await;
    let members = Tasks::new();
    let computer = before.computer(&members);
    let office = OfficeTools::start(before.link("one"), PATIENCE, &members);
    until_offered(&office, &["one__hello"]).await;
    let address = before.url.trim_start_matches("http://").to_owned();
    // The agent comes back to an office in which its computer is not, and asks for it under way.
    drop(computer);
    let lost = async {
        let _ = before.tasks.drain(PATIENCE).await; // Its members come back to the next one.
        let after = Place::open(&address).await;
        let mut changes = office.changes();
        while office
            .servers()
            .iter()
            .any(|server| server.status != ServerStatus::Ready)
        {
            changes.changed().await.unwrap();
        }
        let computer = after.computer(&members);
        (after, computer)
    };
    let request = Call::new("nova", "one__hello", serde_json::Map::new(), PATIENCE);
    let cancel = CancellationToken::new();
    let ((after, _computer), answer) = tokio::join!(lost, async {
        // It was lost below this call.
        let mut standing = office.agent.standing();
        let _ = standing
            .wait_for(|standing| *standing != Standing::Joined)
            .await;
        office.carry(request, &cancel).await
    });
    assert!(answer.unwrap().is_ok());
    members.cancel();
    let _ = after.tasks.drain(PATIENCE).await; // Whatever is stuck ends with the test.
}
