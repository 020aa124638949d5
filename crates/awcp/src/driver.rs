//! The driver: a turn lends the session's folder to a peer, with the prompt as the task.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use domain::{
    delegation::{Access, Ending, Transport},
    turn::{EventKind, Stop},
};
use engine::{
    Continuity, Driver, DriverError, DriverFuture, EndpointAgent, OpenSession, Opened, SessionSink,
    Turn,
};
use serde_json::Value;

use crate::{Create, DelegationView, Delegations, Keeping, Secrets};

/// How long a lease is unless the template says otherwise.
const TTL: Duration = Duration::from_secs(60 * 60);

/// Longer than any lease; the lease itself ends the wait.
const WAIT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Where drivers find the lending of their node: engine and lending need each other, so it is filled when both are
/// there. Clones share.
#[derive(Debug, Clone, Default)]
pub struct Lending {
    delegations: Arc<OnceLock<Delegations>>,
}

impl Lending {
    /// Tells the drivers; only the first time counts.
    pub fn fill(&self, delegations: Delegations) {
        let _ = self.delegations.set(delegations); // A node has one.
    }

    /// The delegations of the node, once it lends.
    pub fn delegations(&self) -> Option<&Delegations> {
        self.delegations.get()
    }

    /// A driver for the peer that the template names: `url`, where its card is found; `dir`, what is lent instead of the
    /// session's folder; `tokenEnv`, the variable that holds the token for it; `access`, `ttlSecs`, `transport`.
    pub fn driver(&self, agent: &EndpointAgent) -> Result<Arc<dyn Driver>, DriverError> {
        let text = |key: &str| agent.config.get(key).and_then(Value::as_str);
        let unsupported = |what: String| DriverError::Unsupported { what };
        let url = text("url")
            .ok_or_else(|| unsupported("be reached: its template names no `url`".to_owned()))?;
        let token = match text("tokenEnv") {
            None => text("token").map(str::to_owned),
            Some(name) => {
                let value = agent.around.environment.get(OsStr::new(name));
                let value = value.and_then(|value| value.to_str()).map(str::to_owned);
                let missing = || {
                    unsupported(format!(
                        "be reached: the variable {name} with its token is not set"
                    ))
                };
                Some(value.ok_or_else(missing)?)
            }
        };
        let access = match text("access") {
            None | Some("rw") => Access::Rw,
            Some("ro") => Access::Ro,
            Some(other) => return Err(unsupported(format!("have the access {other:?}: ro or rw"))),
        };
        let transports = match text("transport") {
            None => Vec::new(),
            Some("archive") => vec![Transport::Archive],
            Some("sshfs") => vec![Transport::Sshfs],
            Some("git") => vec![Transport::Git],
            Some(other) => {
                return Err(unsupported(format!(
                    "be lent to by {other:?}: archive, git or sshfs"
                )));
            }
        };
        let ttl = agent.config.get("ttlSecs").and_then(Value::as_u64);
        Ok(Arc::new(LendingDriver {
            lending: self.clone(),
            own_name: agent.around.agent.clone(),
            url: url.to_owned(),
            token,
            dir: text("dir").map(PathBuf::from),
            access,
            transports,
            ttl: ttl.map_or(TTL, Duration::from_secs),
            conversations: Mutex::default(),
        }))
    }
}

struct LendingDriver {
    lending: Lending,
    /// Of the agent.
    own_name: String,
    url: String,
    token: Option<String>,
    dir: Option<PathBuf>,
    access: Access,
    transports: Vec<Transport>,
    ttl: Duration,
    conversations: Mutex<BTreeMap<String, (PathBuf, SessionSink)>>,
}

impl std::fmt::Debug for LendingDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LendingDriver")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Driver for LendingDriver {
    fn open(&self, open: OpenSession) -> DriverFuture<'_, Result<Opened, DriverError>> {
        // Each turn is a delegation of its own; what lasts is the folder.
        let continuity = match &open.resume {
            Some(_) => Continuity::Resumed,
            None => Continuity::Fresh,
        };
        let id = open.resume.unwrap_or_else(platform::owner::fresh_id);
        self.lock().insert(id.clone(), (open.cwd, open.sink));
        Box::pin(std::future::ready(Ok(Opened { id, continuity })))
    }

    fn turn(&self, turn: Turn) -> DriverFuture<'_, Result<Stop, DriverError>> {
        Box::pin(self.take(turn))
    }

    fn ended(&self) -> DriverFuture<'_, ()> {
        Box::pin(std::future::pending()) // There is no process.
    }

    fn close<'a>(&'a self, session: &'a str) -> DriverFuture<'a, ()> {
        self.lock().remove(session);
        Box::pin(std::future::ready(()))
    }
}

impl LendingDriver {
    async fn take(&self, turn: Turn) -> Result<Stop, DriverError> {
        let unsupported = |what: &str| DriverError::Unsupported {
            what: what.to_owned(),
        };
        let known = self.lock().get(&turn.session).cloned();
        let (cwd, sink) =
            known.ok_or_else(|| unsupported("go on with a session that is not open"))?;
        let delegations = self.lending.delegations.get();
        let delegations =
            delegations.ok_or_else(|| unsupported("lend: this node lends nothing"))?;
        let calls = &delegations.node.config().calls;
        let chain = calls.behind(turn.options.trace, &self.own_name, &turn.prompt);
        let create = Create {
            peer_url: self.url.clone(),
            token: self.token.clone(),
            dir: self.dir.clone().unwrap_or(cwd),
            description: None,
            prompt: turn.prompt,
            access: self.access,
            ttl: self.ttl,
            transports: self.transports.clone(),
            quota_bytes: None,
            secrets: Secrets::Refuse,
            keeping: Keeping::Auto,
            continues: None,
            trace: turn.options.trace,
            chain,
        };
        let id = match delegations.create(create).await {
            Ok(id) => id.to_string(),
            Err(error) => {
                return Ok(Stop::Failed {
                    message: crate::error::chain(&error),
                });
            }
        };
        let notice = format!("the workspace is lent to {} as {id}", self.url);
        sink.emit(EventKind::Notice { text: notice }, None);
        let ended = tokio::select! { biased;
            () = turn.cancel.cancelled() => delegations.cancel(&id, "the turn was cancelled").await,
            ended = delegations.wait(&id, WAIT) => ended,
        };
        match ended {
            Ok(view) => Ok(stop(view, &sink)),
            Err(error) => Ok(Stop::Failed {
                message: crate::error::chain(&error),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (PathBuf, SessionSink)>> {
        self.conversations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn stop(view: DelegationView, sink: &SessionSink) -> Stop {
    match view.ending {
        Some(Ending::Completed(report)) => {
            sink.emit(
                EventKind::Text {
                    text: report.summary,
                },
                None,
            );
            Stop::EndTurn
        }
        Some(Ending::Cancelled(_)) => Stop::Cancelled,
        Some(Ending::Error(failure) | Ending::Expired(failure)) => Stop::Failed {
            message: format!(
                "{}: {} ({})",
                failure.code.as_str(),
                failure.message,
                failure.hint
            ),
        },
        None => Stop::Failed {
            message: format!("the delegation is still {}", view.state),
        },
    }
}
