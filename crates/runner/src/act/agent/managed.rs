//! An agent of the node: one that exists, or one made of a template for as long as the step takes.

use std::collections::VecDeque;

use domain::{
    Name,
    lifecycle::{Force, LaunchMode, WorkspacePolicy},
    session::{ClientId, WhenBusy},
    turn::{Ask, AskId, EventKind, Stop, TurnId},
};
use engine::{
    About, Answers, AttachAs, Create, CreateSession, DriverFuture, Engine, EngineError, NativeOpen,
    NativeSession, Overrides, Prompt, Purpose, chain,
};
use tokio::{sync::oneshot, time::Instant};
use workflow::{AgentAction, Provider, SessionUse};

use super::{Act, Answered, STOPPED, Spoken, WIND_DOWN, at, options};
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
    let (name, made) = find(engine, action).await.map_err(|error| chain(&error))?;
    let is_started = match engine.sessions().driver(&name) {
        Ok(_) => true,
        Err(EngineError::NotStarted { .. }) => false,
        // To start it would not help: there is nobody behind it.
        Err(error) => {
            leave(engine, &name, made, Started::Before).await;
            return Err(chain(&error));
        }
    };
    if !is_started {
        let started = tokio::select! { biased;
            () = act.stop.cancelled() => Err((STOPPED.to_owned(), Started::Perhaps)),
            started = engine.start(name.as_str()) => {
                started.map_err(|error| (chain(&error), Started::Before))
            }
        };
        if let Err((why, started)) = started {
            leave(engine, &name, made, started).await;
            return Err(why);
        }
    }
    let spoken = converse(act, action, context, engine, &name).await;
    let started = match is_started {
        true => Started::Before,
        false => Started::Perhaps,
    };
    leave(engine, &name, made, started).await;
    spoken
}

/// Whether the agent runs because of the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Started {
    /// It ran before, or does not run.
    Before,
    /// It does, or is about to.
    Perhaps,
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
            purpose: Purpose::Passing,
            ..Overrides::default()
        },
    };
    engine.create(create).await?;
    Ok((name, Made::Here))
}

/// Puts everything back as it was.
async fn leave(engine: &Engine, name: &Name, made: Made, started: Started) {
    let left = match (made, started) {
        (Made::Here, _) => engine.destroy(name.as_str(), Force::Yes).await,
        (Made::Before, Started::Perhaps) => engine.stop(name.as_str()).await.map(drop),
        (Made::Before, Started::Before) => Ok(()),
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
) -> Result<Spoken, String> {
    let sessions = engine.sessions();
    let id = match &action.session {
        SessionUse::Continue { session } => session.clone(),
        SessionUse::Once | SessionUse::Keep => open(act, engine, agent).await?,
    };
    let spoken = prompted((act, action), context, engine, &id).await;
    act.audience.silence(&act.path);
    sessions.detach(&id, client(act)).await;
    match action.session {
        // A turn that goes on in it is not waited for.
        SessionUse::Once if act.stop.is_cancelled() => {
            let engine = engine.clone();
            act.scene.node.around.tasks.spawn(|_| async move {
                let _ = engine.sessions().close(&id).await; // It may have ended by itself.
            });
        }
        SessionUse::Once => sessions.close(&id).await.map_err(|error| chain(&error))?,
        SessionUse::Keep | SessionUse::Continue { .. } => {}
    }
    spoken.map_err(|error| chain(&error))
}

/// Opens a conversation. One that comes to be after nobody wants it any more is closed.
async fn open(act: &Act, engine: &Engine, agent: &Name) -> Result<String, String> {
    let create = CreateSession {
        agent: agent.clone(),
        client: Some(format!("workflow run {}", act.run)),
        idle_ttl: None,
    };
    let brought = servers(act, engine, agent);
    let (engine, (sender, opened)) = (engine.clone(), oneshot::channel());
    act.scene.node.around.tasks.spawn(|_| async move {
        let sessions = engine.sessions();
        let created = match brought {
            Some(open) => {
                let session = NativeSession {
                    create,
                    cwd: None,
                    open,
                    resume: None,
                };
                sessions.create_native(session).await
            }
            None => sessions.create(create).await,
        };
        let id = created.map(|view| view.session_id);
        if let Err(Ok(id)) = sender.send(id) {
            let _ = sessions.close(&id).await; // It may have ended by itself.
        }
    });
    tokio::select! { biased;
        () = act.stop.cancelled() => Err(STOPPED.to_owned()),
        opened = opened => match opened {
            Ok(opened) => opened.map_err(|error| chain(&error)),
            Err(_) => Err("the program is shutting down".to_owned()),
        },
    }
}

/// What the run is called in the conversation.
fn client(act: &Act) -> ClientId {
    ClientId(format!("run-{}-{}", act.run, act.path))
}

async fn prompted(
    (act, action): (&Act, &AgentAction),
    context: Context,
    engine: &Engine,
    id: &str,
) -> Result<Spoken, EngineError> {
    let sessions = engine.sessions();
    let attach = AttachAs {
        client: client(act),
        answers: Answers::Everything,
    };
    let view = sessions.attach(id, attach).await?;
    let prompt = Prompt {
        text: context.prompt,
        options: options(act, action, context.system),
        when_busy: WhenBusy::Queue,
        by: None,
    };
    let turn = sessions.prompt(id, prompt).await?;
    follow(act, engine, id, turn, view.last_seq + 1).await
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
) -> Result<Spoken, EngineError> {
    let sessions = engine.sessions();
    let mut reader = sessions.events(id, from).await?;
    let mut answered = Answered::default();
    let mut is_ours = false;
    let mut given_up = None;
    let mut asking: Option<(AskId, DriverFuture<'_, ()>)> = None;
    let mut questions = VecDeque::new();
    let stop = loop {
        if asking.is_none() && given_up.is_none() {
            let next = questions.pop_front();
            asking =
                next.map(|ask: Ask| (ask.id.clone(), Box::pin(put(act, engine, id, ask)) as _));
        }
        let event = tokio::select! { biased;
            () = act.stop.cancelled(), if given_up.is_none() => {
                given_up = Some(Instant::now() + WIND_DOWN);
                asking = None;
                sessions.cancel(id).await?;
                continue;
            }
            event = reader.next() => event?,
            () = asked(&mut asking) => {
                asking = None;
                continue;
            }
            () = at(given_up) => break Stop::Cancelled,
        };
        let Some(event) = event else {
            return Err(EngineError::ShuttingDown);
        };
        match &event.kind {
            EventKind::TurnStarted { turn: begun, .. } => is_ours = *begun == turn,
            EventKind::TurnEnded { turn: ended, stop } if *ended == turn => break stop.clone(),
            EventKind::Ask(ask) if is_ours => questions.push_back(ask.clone()),
            EventKind::AskSettled { ask: settled, .. } if is_ours => {
                // By somebody else, or because nobody wants to know any more.
                questions.retain(|ask| ask.id != *settled);
                asking = asking.filter(|(ask, _)| ask != settled);
            }
            kind if is_ours => answered.hear(act, kind),
            _ => {}
        }
    };
    Ok(Spoken {
        stop,
        text: answered.text,
        is_cut: answered.is_cut,
        usage: answered.usage,
        session: Some(id.to_owned()),
    })
}

/// Puts a question of the agent's to whoever watches the run.
async fn put(act: &Act, engine: &Engine, id: &str, ask: Ask) {
    let answer = act.audience.ask_inner(&act.path, ask.kind, None).await;
    // Somebody else may have answered meanwhile.
    let _ = engine
        .sessions()
        .answer(id, ask.id, answer, client(act))
        .await;
}

/// The end of what is asked; never, where nothing is.
async fn asked(asking: &mut Option<(AskId, DriverFuture<'_, ()>)>) {
    match asking {
        Some((_, asking)) => asking.await,
        None => std::future::pending().await,
    }
}
