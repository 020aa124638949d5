//! The official client in Rust, through both ways to an agent.

#![expect(
    clippy::unwrap_used,
    reason = "A test that cannot go on says so by panicking."
)]

use std::{
    process::{Command, Stdio},
    sync::{Arc, Mutex},
};

use agent_client_protocol::{
    Agent, ByteStreams, Client, Error,
    schema::ProtocolVersion,
    v1::{
        ConnectionTo,
        schema::{
            CancelNotification, ContentBlock, InitializeRequest, LoadSessionRequest,
            NewSessionRequest, PermissionOptionKind, PromptRequest, PromptResponse,
            RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
            SelectedPermissionOutcome, SessionId, SessionNotification, SessionUpdate, StopReason,
            TextContent,
        },
    },
};
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};

use super::sdks::{agent, nothing_is_left};

/// What the client was told and asked.
#[derive(Debug, Default)]
struct Heard {
    updates: Mutex<Vec<SessionNotification>>,
    asked: Mutex<usize>,
}

impl Heard {
    fn words(&self, session: &SessionId) -> String {
        let updates = self.updates.lock().unwrap();
        let own = updates.iter().filter(|it| it.session_id == *session);
        own.filter_map(|it| match &it.update {
            SessionUpdate::AgentMessageChunk(chunk) => match &chunk.content {
                ContentBlock::Text(text) => Some(text.text.as_str()),
                _ => None,
            },
            _ => None,
        })
        .collect()
    }

    /// Gives its permission once, and counts.
    fn allow(&self, request: &RequestPermissionRequest) -> RequestPermissionResponse {
        *self.asked.lock().unwrap() += 1;
        let mut options = request.options.iter();
        let once = options.find(|option| option.kind == PermissionOptionKind::AllowOnce);
        let chosen = once.unwrap();
        let chosen = SelectedPermissionOutcome::new(chosen.option_id.clone());
        RequestPermissionResponse::new(RequestPermissionOutcome::Selected(chosen))
    }
}

async fn say(
    agent: &ConnectionTo<Agent>,
    session: &SessionId,
    text: &str,
) -> Result<PromptResponse, Error> {
    let said = vec![ContentBlock::Text(TextContent::new(text))];
    let prompt = PromptRequest::new(session.clone(), said);
    agent.send_request(prompt).block_task().await
}

async fn talk(agent: ConnectionTo<Agent>, heard: Arc<Heard>) -> Result<(), Error> {
    let hello = InitializeRequest::new(ProtocolVersion::V1);
    let hello = agent.send_request(hello).block_task().await?;
    assert!(hello.agent_capabilities.load_session, "{hello:?}");
    let begin = || NewSessionRequest::new("/home/me");
    let first = agent.send_request(begin()).block_task().await?.session_id;
    let answer = say(&agent, &first, "hello from rust").await?;
    assert_eq!(answer.stop_reason, StopReason::EndTurn);
    let words = heard.words(&first);
    assert!(words.contains("hello from rust"), "{words}");

    say(&agent, &first, "/write rust.txt yes").await?;
    assert_eq!(*heard.asked.lock().unwrap(), 1);

    let hang = say(&agent, &first, "/hang");
    let cancel = async {
        // Behind the prompt, which the other future sends when it is first looked at.
        agent.send_notification(CancelNotification::new(first.clone()))
    };
    let (hung, cancelled) = tokio::join!(hang, cancel);
    cancelled?;
    assert_eq!(hung?.stop_reason, StopReason::Cancelled);

    let second = agent.send_request(begin()).block_task().await?.session_id;
    say(&agent, &second, "a second one").await?;
    assert!(heard.words(&second).contains("a second one"));
    assert!(!heard.words(&first).contains("a second one"));
    heard.updates.lock().unwrap().clear();
    let load = LoadSessionRequest::new(first.clone(), "/home/me");
    agent.send_request(load).block_task().await?;
    let words = heard.words(&first);
    assert!(words.contains("hello from rust"), "{words}");
    Ok(())
}

/// Starts the command as an agent and talks to it; gives its exit.
async fn client(mut command: Command) -> Result<std::process::ExitStatus, Error> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = tokio::process::Command::from(command).spawn().unwrap();
    let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let heard = Arc::new(Heard::default());
    let (hearing, asking, talking) = (heard.clone(), heard.clone(), heard);
    Client
        .v1()
        .on_receive_notification(
            async move |told: SessionNotification, _connection| {
                hearing.updates.lock().unwrap().push(told);
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _connection| {
                responder.respond(asking.allow(&request))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(
            ByteStreams::new(input.compat_write(), output.compat()),
            move |agent: ConnectionTo<Agent>| talk(agent, talking),
        )
        .await?;
    Ok(child.wait().await.unwrap())
}

#[test]
fn the_rust_client_speaks_to_the_agent() {
    for way in ["direct", "lease"] {
        let daemon = agent(way);
        let lease: &[&str] = if way == "lease" { &["--lease"] } else { &[] };
        let command = daemon.command(&[&["proxy", "a1"], lease].concat());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let ended = runtime.block_on(client(command)).unwrap();
        assert!(ended.success(), "{way}: {ended}");
        let written = super::workspace(&daemon, "a1").join("rust.txt");
        assert!(written.exists(), "{way}");
        nothing_is_left(&daemon, way);
    }
}
