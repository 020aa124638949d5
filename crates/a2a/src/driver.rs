//! The driver: an A2A agent of another party takes the turns of an agent here.
//!
//! A conversation is a context there, a turn is a task there. The card is read when the first turn begins and again after
//! the agent could not be reached, so an agent that moves or comes late is found.

mod hearing;
mod turn;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use domain::turn::Stop;
use engine::{
    Calls, Continuity, Driver, DriverError, DriverFuture, EndpointAgent, OpenSession, Opened,
    SessionSink, Turn, TurnOf,
};
use serde_json::Value;

use crate::client::{Client, ClientError, ClientOptions};

/// A driver for the agent that the template names: `url`, where its card is found; `agent`, one of several at a node of this
/// program; `tokenEnv`, the variable that holds the token for it, or `token` itself; `fingerprint`, of its certificate.
pub fn driver(agent: EndpointAgent, calls: Calls) -> Result<Arc<dyn Driver>, DriverError> {
    let text = |key: &str| agent.config.get(key).and_then(Value::as_str);
    let url = text("url").ok_or_else(|| DriverError::Unsupported {
        what: "be reached: its template names no `url`".to_owned(),
    })?;
    let token = match text("tokenEnv").or_else(|| text("token_env")) {
        None => text("token").map(str::to_owned),
        Some(name) => {
            let value = agent.around.environment.get(std::ffi::OsStr::new(name));
            let value = value.and_then(|value| value.to_str()).map(str::to_owned);
            let missing = || DriverError::Unsupported {
                what: format!("be reached: the variable {name} with its token is not set"),
            };
            Some(value.ok_or_else(missing)?)
        }
    };
    Ok(Arc::new(A2aDriver {
        url: url.trim_end_matches('/').to_owned(),
        agent: text("agent").map(str::to_owned),
        options: ClientOptions {
            token,
            fingerprint: text("fingerprint").map(str::to_owned),
            ..ClientOptions::default()
        },
        own_name: agent.around.agent.clone(),
        calls,
        client: Mutex::default(),
        conversations: Mutex::default(),
    }))
}

#[derive(Debug)]
struct A2aDriver {
    url: String,
    agent: Option<String>,
    options: ClientOptions,
    own_name: String,
    calls: Calls,
    client: Mutex<Option<Client>>,
    conversations: Mutex<BTreeMap<String, Conversation>>,
}

#[derive(Debug, Clone)]
struct Conversation {
    sink: SessionSink,
    /// What the agent calls it, once it has said something else than our id.
    context: Option<String>,
}

impl Driver for A2aDriver {
    fn open(&self, open: OpenSession) -> DriverFuture<'_, Result<Opened, DriverError>> {
        // Our id is offered as the context, which agents take; so it also takes up a conversation after a restart.
        let continuity = match &open.resume {
            Some(_) => Continuity::Resumed,
            None => Continuity::Fresh,
        };
        let id = open
            .resume
            .unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        let mut conversations = self.lock();
        let context = conversations.get(&id).and_then(|it| it.context.clone());
        let sink = open.sink;
        conversations.insert(id.clone(), Conversation { sink, context });
        Box::pin(std::future::ready(Ok(Opened { id, continuity })))
    }

    fn turn(&self, turn: Turn) -> DriverFuture<'_, Result<Stop, DriverError>> {
        Box::pin(self.take(turn))
    }

    fn ended(&self) -> DriverFuture<'_, ()> {
        // There is no process; each turn finds out whether the agent is there.
        Box::pin(std::future::pending())
    }

    fn close<'a>(&'a self, session: &'a str) -> DriverFuture<'a, ()> {
        let mut conversations = self.lock();
        // A context that the agent has named itself is still needed to go on later.
        if conversations
            .get(session)
            .is_some_and(|it| it.context.is_none())
        {
            conversations.remove(session);
        }
        Box::pin(std::future::ready(()))
    }
}

impl A2aDriver {
    async fn take(&self, turn: Turn) -> Result<Stop, DriverError> {
        let known = self.lock().get(&turn.session).cloned();
        let conversation = known.ok_or_else(|| DriverError::Unsupported {
            what: format!("go on with {:?}, which is not open", turn.session),
        })?;
        let client = tokio::select! { biased;
            () = turn.cancel.cancelled() => return Ok(Stop::Cancelled),
            client = self.client() => client.map_err(failure)?,
        };
        let context = conversation.context.clone();
        let chain = self.calls.chain(TurnOf {
            trace: turn.options.trace,
            agent: &self.own_name,
            prompt: &turn.prompt,
        });
        let remote = turn::RemoteTurn::new(
            client.traced(turn.options.trace).called_by(chain),
            conversation.sink,
            self.agent.clone(),
        );
        let context = context.unwrap_or_else(|| turn.session.clone());
        let (stop, named) = remote.take(turn.prompt, context.clone(), turn.cancel).await;
        if let Some(named) = named.filter(|named| *named != context && !named.is_empty())
            && let Some(conversation) = self.lock().get_mut(&turn.session)
        {
            conversation.context = Some(named);
        }
        if let Err(ClientError::Unreachable { .. } | ClientError::Silent { .. }) = &stop {
            *self.client_lock() = None;
        }
        stop.map_err(failure)
    }

    async fn client(&self) -> Result<Client, ClientError> {
        let known = self.client_lock().clone();
        if let Some(client) = known {
            return Ok(client);
        }
        let named = self.agent.as_ref();
        let client = match named.map(|agent| format!("{}/a2a/{agent}", self.url)) {
            Some(url) => match Client::connect(&url, self.options.clone()).await {
                // Not a node of this program: the message itself says who is meant.
                Err(ClientError::NoCard { .. }) => {
                    Client::connect(&self.url, self.options.clone()).await?
                }
                found => found?,
            },
            None => Client::connect(&self.url, self.options.clone()).await?,
        };
        *self.client_lock() = Some(client.clone());
        Ok(client)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Conversation>> {
        self.conversations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn client_lock(&self) -> MutexGuard<'_, Option<Client>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failure(error: ClientError) -> DriverError {
    match error {
        ClientError::Refused { code, message } => DriverError::Refused { code, message },
        ClientError::Silent { limit, .. } => DriverError::Silent {
            what: "a message",
            limit,
        },
        ClientError::Protocol { .. } => DriverError::Protocol {
            what: error.to_string(),
        },
        ClientError::Status {
            status, ref words, ..
        } => DriverError::Refused {
            code: i64::from(status),
            message: words.clone(),
        },
        ClientError::BadUrl { .. }
        | ClientError::NoCard { .. }
        | ClientError::NoWay { .. }
        | ClientError::Unreachable { .. } => DriverError::Gone {
            how: error.to_string(),
        },
    }
}
