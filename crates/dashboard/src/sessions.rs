//! Sessions on the page: look, begin, prompt, cancel, end, and answer what they ask.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State},
};
use domain::{
    session::WhenBusy,
    target::Target,
    turn::{Answer as Said, AskId, AskKind, TurnId},
};
use engine::{Caller, CreateSession, EngineError, ErrorKind, Prompt, TurnOptions};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    answer::{Answer, Refused, done, json_of},
    form, reach,
    router::Config,
    sent::Sent,
    watchers::{Watchers, client},
};

pub(crate) async fn list(State(config): State<Arc<Config>>) -> Answer {
    json_of(&config.engine.sessions().list(None))
}

pub(crate) async fn look(State(config): State<Arc<Config>>, Path(id): Path<String>) -> Answer {
    json_of(&config.engine.sessions().get(&id).await?)
}

#[derive(Debug, Deserialize)]
pub(crate) struct NewSession {
    /// An agent by its name, or another target: `workflow:NAME` runs a workflow.
    agent: String,
}

pub(crate) async fn create(
    State(config): State<Arc<Config>>,
    Extension(caller): Extension<Caller>,
    Json(new): Json<NewSession>,
) -> Answer {
    let target = new.agent.parse::<Target>();
    let target = target.map_err(|error| Refused::bad(error.to_string()))?;
    reach::check_target(&config.engine, &caller, &target)?;
    let agent = config.engine.ensure(&target).await?;
    let sessions = config.engine.sessions();
    let create = CreateSession {
        agent: agent.clone(),
        client: Some("dashboard".to_owned()),
        idle_ttl: None,
    };
    let created = match sessions.create(create.clone()).await {
        // Whoever wants to talk to an agent wants it to run.
        Err(EngineError::NotStarted { .. }) => {
            match config.engine.start(agent.as_str()).await {
                // It runs, and still there is no way to talk to it.
                Err(error) if error.kind() == ErrorKind::AgentAlreadyRunning => {
                    return Err(Refused::conflict(format!(
                        "{agent} runs, but not as a program that can be talked to; its template says how one talks to it: `protocol: acp` in the backend's config"
                    )));
                }
                started => started?,
            };
            sessions.create(create).await?
        }
        created => created?,
    };
    json_of(&created)
}

#[derive(Debug, Deserialize)]
pub(crate) struct NewPrompt {
    text: String,
    /// The page's own name for it. A line that dies takes the answer along; with the same key the prompt is not sent twice.
    key: Option<String>,
}

pub(crate) async fn prompt(
    State(config): State<Arc<Config>>,
    Extension(caller): Extension<Caller>,
    Extension(watchers): Extension<Watchers>,
    Extension(sent): Extension<Sent>,
    Path(id): Path<String>,
    Json(new): Json<NewPrompt>,
) -> Answer {
    if new.text.trim().is_empty() {
        return Err(Refused::bad("a prompt has words"));
    }
    let agent = config.engine.sessions().get(&id).await?.agent_name;
    reach::check_agent(&config.engine, &caller, &agent)?;
    let (session, text) = (id.clone(), new.text);
    let send = async move {
        watchers.attach(&session).await?;
        let prompt = Prompt {
            text,
            options: TurnOptions::default(),
            when_busy: WhenBusy::Queue,
            by: None,
        };
        Ok::<_, Refused>(config.engine.sessions().prompt(&session, prompt).await?)
    };
    let turn = sent.once(id, new.key, send).await?;
    json_of(&json!({ "turn": turn }))
}

pub(crate) async fn cancel(State(config): State<Arc<Config>>, Path(id): Path<String>) -> Answer {
    config.engine.sessions().cancel(&id).await?;
    done()
}

pub(crate) async fn close(State(config): State<Arc<Config>>, Path(id): Path<String>) -> Answer {
    config.engine.sessions().close(&id).await?;
    done()
}

pub(crate) async fn answer(
    State(config): State<Arc<Config>>,
    Path((id, ask)): Path<(String, String)>,
    Json(answer): Json<Said>,
) -> Answer {
    let (sessions, ask) = (config.engine.sessions(), AskId(ask));
    if let Said::Text { text } = &answer {
        let open = sessions.waiting(&id).await?.asks;
        let asked = open.iter().find(|open| open.id == ask);
        if let Some(AskKind::Question {
            schema: Some(schema),
            ..
        }) = asked.map(|asked| &asked.kind)
            && let Some(mistake) = form::mistake(schema, text)
        {
            return Err(Refused::bad(mistake));
        }
    }
    sessions.answer(&id, ask, answer, client()).await?;
    done()
}

/// Prompts that are sent when the turns before them are over.
pub(crate) async fn waiting(State(config): State<Arc<Config>>, Path(id): Path<String>) -> Answer {
    let waiting = config.engine.sessions().waiting(&id).await?;
    let prompts = waiting.prompts.iter();
    let prompts: Vec<Value> = prompts
        .map(|(turn, text)| json!({ "turn": turn, "text": text }))
        .collect();
    json_of(&prompts)
}

/// Takes a prompt back whose turn has not begun, or ends the turn.
pub(crate) async fn take_back(
    State(config): State<Arc<Config>>,
    Path((id, turn)): Path<(String, u64)>,
) -> Answer {
    let sessions = config.engine.sessions();
    sessions.cancel_turn(&id, TurnId(turn)).await?;
    done()
}

/// Everything that waits for an answer, on whatever face it was asked.
pub(crate) async fn asks(State(config): State<Arc<Config>>) -> Answer {
    let mut asks: Vec<Value> = Vec::new();
    for session in config.engine.sessions().list(None) {
        if session.asks > 0 {
            // One that has ended meanwhile asks nothing.
            let waiting = config.engine.sessions().waiting(&session.session_id).await;
            for ask in waiting.unwrap_or_default().asks {
                asks.push(json!({
                    "session": session.session_id,
                    "agent": session.agent_name,
                    "ask": ask,
                }));
            }
        }
    }
    json_of(&asks)
}
