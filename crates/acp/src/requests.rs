//! What the agent asks of us: each request is carried out in a task of its own, so that one that waits for a person
//! holds up no other; bounded, withdrawn when the agent says so, ended with the connection.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use jsonrpc::{ErrorObject, Id, Request};
use platform::Tasks;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    client::Client,
    convert,
    elicitation::{self, Question},
    files::Files,
    grants, lenient,
    members::{in_session, with_session},
    permission::Permission,
    relay::Relay,
    sessions::named_session,
    terminal::Terminals,
};

/// Requests carried out at a time. Most wait for a person or a process, and no agent has this many of those.
const REQUESTS_MAX: usize = 256;

/// What answers the agent.
#[derive(Debug)]
pub(crate) struct Requests {
    client: Arc<Client>,
    tasks: Tasks,
    pub(crate) files: Arc<Files>,
    pub(crate) terminals: Arc<Terminals>,
    places: Arc<Semaphore>,
    /// What withdraws each request that is carried out.
    running: Mutex<HashMap<Id, CancellationToken>>,
}

/// A request that is understood, with what it needs of the moment it arrived.
#[derive(Debug)]
enum Work {
    Permission(Box<Permission>),
    Question(Box<Question>),
    File(Value),
    Write(Value),
    Terminal {
        method: String,
        params: Value,
    },
    Relayed(Box<Relayed>),
    /// A question that there is nobody to ask.
    Decline,
    Refuse(ErrorObject),
}

/// A request that a client carries out.
#[derive(Debug)]
struct Relayed {
    relay: Relay,
    method: String,
    params: Option<Box<RawValue>>,
}

impl Requests {
    pub(crate) fn new(
        client: Arc<Client>,
        tasks: Tasks,
        files: Files,
        terminals: Arc<Terminals>,
    ) -> Arc<Requests> {
        Arc::new(Requests {
            client,
            tasks,
            files: Arc::new(files),
            terminals,
            places: Arc::new(Semaphore::new(REQUESTS_MAX)),
            running: Mutex::default(),
        })
    }

    /// Begins to carry out a request. What it refers to is looked up now, at its place in the stream.
    pub(crate) fn take(self: &Arc<Requests>, request: Request) {
        let Request {
            method,
            params,
            responder,
            ..
        } = request;
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            tracing::warn!(%method, "the agent has too many requests at a time");
            return; // Dropping the responder answers with an error.
        };
        let work = self.understand(method, params.as_deref());
        let withdrawn = CancellationToken::new();
        let id = responder.id().clone();
        self.running().insert(id.clone(), withdrawn.clone());
        let requests = Arc::clone(self);
        let worker = Arc::clone(self);
        let mut doing = Box::pin(async move { worker.carry_out(work).await });
        // Begun here, at its place in the stream: questions are asked in the order in which they came.
        let begun = doing.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        self.tasks.spawn(|stop| async move {
            let _place = place;
            let doing = async {
                match begun {
                    Poll::Ready(outcome) => outcome,
                    Poll::Pending => doing.await,
                }
            };
            let outcome = tokio::select! { biased;
                () = stop.cancelled() => Err(ErrorObject::cancelled()),
                () = withdrawn.cancelled() => Err(ErrorObject::cancelled()),
                outcome = doing => outcome,
            };
            requests.running().remove(&id);
            let answering = async {
                match outcome {
                    Ok(result) => responder.reply(&result).await,
                    Err(error) => responder.fail(error).await,
                }
            };
            tokio::select! { biased;
                answered = answering => drop(answered), // An agent that has left needs no answer.
                () = stop.cancelled() => {}
            }
        });
    }

    /// The agent no longer wants an answer.
    pub(crate) fn withdraw(&self, params: Option<&RawValue>) {
        let params = parsed(params);
        let id = Id::from_json(&params["requestId"].to_string());
        let withdrawn = id.and_then(|id| self.running().get(&id).cloned());
        match withdrawn {
            Some(withdrawn) => withdrawn.cancel(),
            None => tracing::debug!("the agent withdrew a request that is not carried out"),
        }
    }

    /// The connection has ended, and with it everything that was done for the agent.
    pub(crate) fn end(&self) {
        self.tasks.cancel();
    }

    fn understand(&self, method: String, params: Option<&RawValue>) -> Work {
        let sessions = &self.client.sessions;
        let refuse = |error| Work::Refuse(error);
        let is_ask = ["session/request_permission", "elicitation/create"].contains(&&*method);
        let named = named_session(params);
        let adopted = match &named {
            Some(id) => {
                let parent = sessions.parent(id);
                parent.and_then(|parent| with_session(params?.get(), &parent))
            }
            None if is_ask => {
                let parent = sessions.at_work();
                parent.and_then(|parent| in_session(params?.get(), &parent))
            }
            None => None,
        };
        let is_nobodys = named.is_none() && adopted.is_none();
        let params = adopted.as_deref().or(params);
        let relay = match is_ask {
            true => None,
            false => sessions.relay(named_session(params).as_deref(), &method),
        };
        if let Some(relay) = relay {
            let params = params.map(ToOwned::to_owned);
            return Work::Relayed(Box::new(Relayed {
                relay,
                method,
                params,
            }));
        }
        match method.as_str() {
            "session/request_permission" => match Permission::read(sessions, params) {
                Ok(permission) => Work::Permission(Box::new(permission)),
                Err(error) => refuse(error),
            },
            "elicitation/create" if is_nobodys => Work::Decline,
            "elicitation/create" => match Question::read(sessions, params) {
                Ok(question) => Work::Question(Box::new(question)),
                Err(error) => refuse(error),
            },
            "fs/read_text_file" => Work::File(parsed(params)),
            "fs/write_text_file" => Work::Write(parsed(params)),
            "terminal/create"
            | "terminal/output"
            | "terminal/wait_for_exit"
            | "terminal/kill"
            | "terminal/release" => Work::Terminal {
                params: parsed(params),
                method,
            },
            method => {
                let session = named_session(params);
                tracing::debug!(method, ?session, "refused a request that is not known");
                refuse(ErrorObject::method_not_found(method))
            }
        }
    }

    async fn carry_out(&self, work: Work) -> Result<Box<RawValue>, ErrorObject> {
        let unwritten = |error: serde_json::Error| ErrorObject::internal(error.to_string());
        let result = match work {
            Work::Permission(permission) => {
                let answer = permission.ask(&self.client.sessions).await;
                return answer.map_err(unwritten);
            }
            Work::Question(question) => return question.ask().await.map_err(unwritten),
            Work::File(params) => {
                grants::check(&self.client.sessions, &params, &grants::read(&params))?;
                self.files.read(&self.tasks, &params).await?
            }
            Work::Write(params) => {
                self.files.check(&self.tasks, &params).await?;
                let act = grants::write(&params);
                grants::permit(&self.client.sessions, &params, act).await?;
                self.files.write(&self.tasks, &params).await?
            }
            Work::Terminal { method, params } => self.terminal(&method, &params).await?,
            Work::Relayed(relayed) => return self.relay(*relayed).await,
            Work::Decline => elicitation::declined(),
            Work::Refuse(error) => return Err(error),
        };
        to_raw_value(&result).map_err(unwritten)
    }

    /// Has a client do it. What would change something is decided on here, wherever it is done.
    async fn relay(&self, relayed: Relayed) -> Result<Box<RawValue>, ErrorObject> {
        let Relayed {
            relay,
            method,
            params,
        } = relayed;
        let values = parsed(params.as_deref());
        self.check_place(&method, &values).await?;
        let act = match method.as_str() {
            "fs/write_text_file" => Some(grants::write(&values)),
            "terminal/create" => Some(grants::run(&values)),
            _ => None,
        };
        if let Some(act) = act {
            grants::permit(&self.client.sessions, &values, act).await?;
        }
        if method == "fs/read_text_file" {
            grants::check(&self.client.sessions, &values, &grants::read(&values))?;
        }
        relay.ask(method, params.as_deref()).await
    }

    /// In a session that works in the workspace nothing lies elsewhere, whoever does it. Where one works in a folder of the
    /// editor's, the editor knows which others belong to it.
    async fn check_place(&self, method: &str, values: &Value) -> Result<(), ErrorObject> {
        let session = convert::text(values, "sessionId").unwrap_or_default();
        let cwd = self.client.sessions.cwd(session);
        if !cwd.is_some_and(|cwd| self.files.is_workspace(&cwd)) {
            return Ok(());
        }
        match method {
            "fs/read_text_file" | "fs/write_text_file" => {
                self.files.check(&self.tasks, values).await
            }
            "terminal/create" => self.terminals.check(values),
            _ => Ok(()),
        }
    }

    async fn terminal(&self, method: &str, params: &Value) -> Result<Value, ErrorObject> {
        let terminals = &self.terminals;
        match method {
            "terminal/create" => {
                let session = convert::text(params, "sessionId").unwrap_or_default();
                let cwd = self.client.sessions.cwd(session);
                let cwd = cwd.ok_or_else(|| grants::unknown(session))?;
                terminals.check(params)?;
                grants::permit(&self.client.sessions, params, grants::run(params)).await?;
                terminals.create(session, &cwd, params).await
            }
            "terminal/output" => terminals.output(params),
            "terminal/wait_for_exit" => terminals.wait(params).await,
            "terminal/kill" => terminals.kill(params).await,
            _ => terminals.release(params),
        }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<Id, CancellationToken>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Params as a value; null where they are absent or nested beyond reading.
pub(crate) fn parsed(params: Option<&RawValue>) -> Value {
    params
        .and_then(|params| lenient::value(params.get()))
        .unwrap_or_default()
}
