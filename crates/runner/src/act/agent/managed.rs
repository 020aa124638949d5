//! An agent of the node: one that exists, or one made of a template for as long as the step takes.

use domain::{
    Name,
    lifecycle::{Force, LaunchMode, WorkspacePolicy},
    session::{ClientId, WhenBusy},
    turn::{Answer, EventKind, TurnId},
};
use engine::{
    About, Answers, AttachAs, Create, CreateSession, Engine, EngineError, NativeOpen,
    NativeSession, Overrides, Prompt, TurnOptions, chain,
};
use workflow::{AgentAction, Provider, SessionUse};

use super::{Act, Answered, Spoken};
use crate::{act::context::Context, servers::Takes};

/// Backends whose agents are on other nodes, where the programs and addresses of this one mean nothing.
const ELSEWHERE: [&str; 3] = ["peer", "a2a", "delegation"];

pub(super) async fn speak(
    act: &Act,
    action: &AgentAction,
    context: Context,
) -> Result<Spoken, String> {
    let engine = act.scene.node.engine.get();
    let engine = engine.ok_or("there is no node here that could run agents")?;
    let words = |error: EngineError| chain(&error);
    let (name, made) = find(engine, action).await.map_err(words)?;
    let is_started = engine.sessions().driver(&name).is_ok();
    if !is_started {
        let started = engine.start(name.as_str()).await.map_err(words);
        if let Err(why) = started {
            leave(engine, &name, made, false).await;
            return Err(why);
        }
    }
    let spoken = converse(act, action, context, engine, &name).await;
    leave(engine, &name, made, !is_started).await;
    spoken.map_err(words)
}

/// Whether the agent was made for the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    Here,
    Before,
}

async fn find(engine: &Engine, action: &AgentAction) -> Result<(Name, Made), EngineError> {
    let (agent, template) = match &action.provider {
        Provider::Agent(name) => (Some(name), None),
        Provider::Template(name) => (None, Some(name)),
        Provider::Named(name) | Provider::Known(name) => match engine.agent(name) {
            Ok(_) => (Some(name), None),
            Err(_) => (None, Some(name)),
        },
        Provider::Acp(_) => (None, None),
    };
    if let Some(name) = agent {
        engine.agent(name)?;
        let name =
            Name::parse(name).map_err(|_| EngineError::AgentNotFound { name: name.clone() })?;
        return Ok((name, Made::Before));
    }
    let fresh = format!("step-{}", &uuid::Uuid::new_v4().simple().to_string()[..12]);
    let name = Name::parse(&fresh).expect("letters and digits are a name");
    let create = Create {
        name: name.clone(),
        template: template.cloned().unwrap_or_default(),
        overrides: Overrides {
            launch_mode: Some(LaunchMode::OneShot),
            workspace_policy: Some(WorkspacePolicy::Ephemeral),
            passing: true,
            ..Overrides::default()
        },
    };
    engine.create(create).await?;
    Ok((name, Made::Here))
}

/// Puts everything back as it was.
async fn leave(engine: &Engine, name: &Name, made: Made, started_here: bool) {
    let left = match made {
        Made::Here => engine.destroy(name.as_str(), Force::Yes).await,
        Made::Before if started_here => engine.stop(name.as_str()).await.map(drop),
        Made::Before => Ok(()),
    };
    if let Err(error) = left {
        tracing::warn!(agent = %name, error = %chain(&error), "could not put away the agent of a step");
    }
}

async fn converse(
    act: &Act,
    action: &AgentAction,
    context: Context,
    engine: &Engine,
    agent: &Name,
) -> Result<Spoken, EngineError> {
    let sessions = engine.sessions();
    let id = match &action.session {
        SessionUse::Continue { session } => session.clone(),
        SessionUse::Once | SessionUse::Keep => {
            let create = CreateSession {
                agent: agent.clone(),
                client: Some(format!("workflow run {}", act.run)),
                idle_ttl: None,
            };
            match servers(act, engine, agent) {
                Some(open) => {
                    let session = NativeSession {
                        create,
                        cwd: None,
                        open,
                        resume: None,
                    };
                    sessions.create_native(session).await?.session_id
                }
                None => sessions.create(create).await?.session_id,
            }
        }
    };
    let client = ClientId(format!("run-{}-{}", act.run, act.path));
    let attach = AttachAs {
        client: client.clone(),
        answers: Answers::Everything,
    };
    let view = sessions.attach(&id, attach).await?;
    let prompt = Prompt {
        text: context.prompt,
        options: TurnOptions {
            append_system_prompt: context.system,
            ..TurnOptions::default()
        },
        when_busy: WhenBusy::Queue,
        by: None,
    };
    let turn = sessions.prompt(&id, prompt).await?;
    let spoken = follow(act, engine, &id, turn, view.last_seq + 1, &client).await;
    act.audience.silence(&act.path);
    sessions.detach(&id, client).await;
    if action.session == SessionUse::Once {
        sessions.close(&id).await?;
    }
    spoken
}

/// The servers that the run was given, in the request that opens the conversation. The agent has those of its template itself.
fn servers(act: &Act, engine: &Engine, agent: &Name) -> Option<NativeOpen> {
    let view = engine.agent(agent.as_str()).ok()?;
    if ELSEWHERE.contains(&view.backend_type.as_str()) {
        for name in act.scene.servers.names() {
            let text =
                format!("{agent} does not get the MCP server {name}: it works on another node");
            act.audience.notice(text);
        }
        return None;
    }
    let hello = engine.sessions().driver(agent).ok()?.said(About::Agent);
    let takes = hello.map_or(Takes::Sorted, Takes::Declared);
    let (open, left_out) = act.scene.servers.all_for(agent.as_str(), &takes);
    for text in left_out {
        act.audience.notice(text);
    }
    open
}

async fn follow(
    act: &Act,
    engine: &Engine,
    id: &str,
    turn: TurnId,
    from: u64,
    client: &ClientId,
) -> Result<Spoken, EngineError> {
    let sessions = engine.sessions();
    let mut reader = sessions.events(id, from).await?;
    let mut answered = Answered::default();
    let (mut is_ours, mut is_cancelled) = (false, false);
    loop {
        let event = tokio::select! { biased;
            () = act.stop.cancelled(), if !is_cancelled => {
                is_cancelled = true;
                sessions.cancel(id).await?;
                continue;
            }
            event = reader.next() => event?,
        };
        let Some(event) = event else {
            return Err(EngineError::ShuttingDown);
        };
        match &event.kind {
            EventKind::TurnStarted { turn: begun, .. } => is_ours = *begun == turn,
            EventKind::TurnEnded { turn: ended, stop } if *ended == turn => {
                return Ok(Spoken {
                    stop: stop.clone(),
                    text: answered.text,
                    is_cut: answered.is_cut,
                    usage: answered.usage,
                    session: Some(id.to_owned()),
                });
            }
            EventKind::Ask(ask) if is_ours => {
                let answer = tokio::select! { biased;
                    () = act.stop.cancelled() => Answer::Declined,
                    answer = act.audience.ask(ask.kind.clone(), None) => answer,
                };
                // Somebody else may have answered meanwhile.
                let _ = sessions
                    .answer(id, ask.id.clone(), answer, client.clone())
                    .await;
            }
            kind if is_ours => answered.hear(act, kind),
            _ => {}
        }
    }
}
