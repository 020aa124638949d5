//! The released implementation's dialect: messages by POST at `/awcp`, how it goes by SSE, the result until it was
//! acknowledged. What a message means is decided by the same machine as that of every other peer.
//!
//! A delegator shows a token with its INVITE, in the header or in `auth`. What follows is known by the delegation's id,
//! which that implementation makes of 128 random bits and which nobody else is told. `daemon` is what its programs of this
//! machine ask.

mod answers;
mod daemon;
mod events;

use std::{net::SocketAddr, time::Duration};

use axum::{
    Extension, Json, Router,
    body::{Body, to_bytes},
    extract::{ConnectInfo, DefaultBodyLimit, State},
    http::{StatusCode, header::CONNECTION},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use domain::delegation::{Code, DelegationId, Failure, RemoteInput, Report, Transport, Waits};
use engine::{Authenticator, Caller};
use platform::files;
use serde_json::{Value, json};
use wire::awcp::{
    ErrorCode, Malformed,
    released::{self, Message},
    seed,
};

use crate::{
    Delegations, convert,
    messages::{Inviting, PROMPT_MAX},
    reach::Origin,
    record::{Dialect, RemoteRecord},
    remote::RESULT,
    spool,
};

/// A START carries the whole workspace as text; larger ones are mounted.
const BODY_MAX: usize = 512 * 1024 * 1024;

/// An INVITE with the longest prompt that is taken.
const STRANGER_MAX: usize = 2 * 1024 * 1024;

/// A result is fetched after its end was told, which takes a moment.
const RETENTION_MIN: Duration = Duration::from_secs(60);

/// The file into which the workspace is written on its way.
pub(crate) const ZIPPED: &str = "workspace.zip";

#[derive(Clone)]
pub(super) struct Face {
    delegations: Delegations,
    tokens: Authenticator,
}

/// The face, for a listener that lets everybody come to `/awcp`.
pub fn released_router(delegations: Delegations, tokens: Authenticator) -> Router {
    let daemon = daemon::router(delegations.clone(), tokens.clone());
    Router::new()
        .route("/awcp", post(message).layer(DefaultBodyLimit::disable()))
        .route("/awcp/status", get(answers::status))
        .route("/awcp/cancel/{id}", post(answers::cancel))
        .route("/awcp/tasks/{id}/events", get(events::events))
        .route("/awcp/tasks/{id}/result", get(answers::result))
        .route("/awcp/tasks/{id}/ack", post(answers::ack))
        .with_state(Face {
            delegations,
            tokens,
        })
        .merge(daemon)
}

/// An ERROR, with status 200 as that implementation sends it.
fn refuse(id: &str, code: &ErrorCode, message: &str, hint: &str) -> Response {
    let error = Message::Error(released::Error {
        version: Some(wire::awcp::VERSION.to_owned()),
        delegation_id: id.to_owned(),
        code: code.in_released(),
        message: message.to_owned(),
        hint: (!hint.is_empty()).then(|| hint.to_owned()),
    });
    (StatusCode::OK, Json(error)).into_response()
}

fn refused(id: &str, failure: &Failure) -> Response {
    let code = ErrorCode::from(failure.code.as_str());
    refuse(id, &code, &failure.message, &failure.hint)
}

/// How long a message may take: half a gigabyte over an ordinary line. It holds one of few places meanwhile.
const BODY_TIME_MAX: Duration = Duration::from_secs(300);

async fn message(
    State(face): State<Face>,
    caller: Option<Extension<Caller>>,
    from: Option<Extension<ConnectInfo<SocketAddr>>>,
    body: Body,
) -> Response {
    // Whoever shows no token sends nothing large, unless somebody was told to.
    let is_expected = caller.is_some() || face.delegations.node.awaits_start();
    let large = match is_expected && caller.is_none() {
        true => face.delegations.node.large_body(),
        false => None,
    };
    let max = match caller.is_some() || large.is_some() {
        true => BODY_MAX,
        false => STRANGER_MAX,
    };
    let reading = tokio::time::timeout(BODY_TIME_MAX, to_bytes(body, max)).await;
    let Ok(Ok(bytes)) = reading else {
        let words = format!("a message has at most {max} bytes here");
        // The rest is not read, so that nothing else can come over this connection.
        let close = [(CONNECTION, "close")];
        return (StatusCode::PAYLOAD_TOO_LARGE, close, words).into_response();
    };
    let value: Value = match serde_json::from_slice(&bytes) {
        Ok(value) => value,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    drop(bytes);
    let id = released::delegation_id(&value)
        .unwrap_or_default()
        .to_owned();
    let message = match Message::parse(&value) {
        Ok(message) => message,
        Err(malformed) => return malformed_answer(&id, &malformed),
    };
    let Some(known) = convert::id(&id) else {
        let words = "the id of a delegation is letters, digits, - and _";
        return refused(&id, &Failure::new(Code::Declined, words));
    };
    let caller = caller.map(|Extension(caller)| caller);
    // An id opens what came in this dialect, where nobody else knows it; elsewhere it is no secret.
    let is_new = matches!(message, Message::Invite(_));
    if !is_new && face.record(&id).await.is_none() {
        let words = "there is no delegation of that id here";
        return refuse(&id, &ErrorCode::NotFound, words, "");
    }
    match message {
        Message::Invite(invite) => face.invited(&known, invite, caller).await,
        Message::Start(start) => {
            let from = from.map(|Extension(info)| info.0.ip());
            face.started(&known, start, from.into()).await
        }
        Message::Close(_) if face.closed(&known) => Json(released::Ok { ok: true }).into_response(),
        Message::Error(_) | Message::Close(_) => {
            let reason = "the delegator ended it".to_owned();
            face.tell(&known, RemoteInput::Cancel { reason }).await;
            Json(released::Ok { ok: true }).into_response()
        }
        Message::Continue(next) => match face.continued(&known, next) {
            Ok(()) => Json(released::Ok { ok: true }).into_response(),
            Err(words) => refused(&id, &Failure::new(Code::Declined, words)),
        },
        Message::Accept(_) => {
            let words = "a delegator does not accept";
            refused(&id, &Failure::new(Code::Declined, words))
        }
    }
}

/// Its git is a push to a server that both sides reach, which is not what ours is.
fn ours(transport: wire::awcp::Transport) -> wire::awcp::Transport {
    match transport {
        wire::awcp::Transport::Git => wire::awcp::Transport::Other("git by a server".to_owned()),
        other => other,
    }
}

fn malformed_answer(id: &str, malformed: &Malformed) -> Response {
    refused(id, &Failure::new(Code::Declined, malformed.to_string()))
}

impl Face {
    async fn invited(
        &self,
        id: &DelegationId,
        invite: released::Invite,
        caller: Option<Caller>,
    ) -> Response {
        let name = id.to_string();
        let shown = invite.auth.as_ref().map(|auth| auth.credential.0.as_str());
        let caller = caller.or_else(|| self.tokens.check(shown?));
        let Some(caller) = caller else {
            let words = "an INVITE needs a token of this node, in the header or in `auth`";
            return refused(&name, &Failure::new(Code::AuthFailed, words));
        };
        let names = invite.environment.resources.iter();
        let names: Vec<String> = names.map(|resource| resource.name.clone()).collect();
        let is_plain = |name: &String| convert::id(name).is_some();
        if names.is_empty() || !names.iter().all(is_plain) {
            let words = "the name of a resource is letters, digits, - and _";
            return refused(&name, &Failure::new(Code::Declined, words));
        }
        let invite_retention = invite.retention_ms;
        let invite = seed::Invite {
            version: invite.version,
            delegation_id: name.clone(),
            task: seed::Task {
                description: invite.task.description,
                prompt: invite.task.prompt,
            },
            lease: seed::ProposedLease {
                ttl_seconds: invite.lease.ttl_seconds,
                access_mode: invite.lease.access_mode,
            },
            workspace: seed::Workspace {
                export_name: names[0].clone(),
            },
            requirements: Some(seed::Requirements {
                transport: invite.requirements.and_then(|it| it.transport).map(ours),
                alternatives: Vec::new(),
            }),
        };
        let retention = self.retention(invite_retention);
        let from = Inviting {
            caller: &caller,
            dialect: Dialect::Released { resources: names },
            waits: Waits {
                tell: retention,
                // Its delegator comes for the result; nobody is told.
                tell_again: retention,
                ..self.delegations.node.config().waits
            },
            trace: None,
            chain: Vec::new(),
        };
        let answer = self.delegations.invited(id, invite, from).await;
        match answer {
            Ok(data) => match seed::Message::from_data(&data) {
                Ok(seed::Message::Accept(accept)) => {
                    Json(accepted(accept, retention)).into_response()
                }
                Ok(seed::Message::Error(error)) => {
                    refuse(&name, &error.code, &error.message, &error.hint)
                }
                Ok(_) | Err(_) => refused(
                    &name,
                    &Failure::new(Code::Declined, "it is under way already"),
                ),
            },
            Err(failure) => refused(&name, &failure),
        }
    }

    /// Begins the next round, in the words of why not if it does not.
    fn continued(&self, id: &DelegationId, next: released::Continue) -> Result<(), String> {
        let ended = "the delegation has ended; invite again for the next task";
        let handle = self.delegations.node.remote(id).ok_or(ended)?;
        if handle.view.borrow().state.is_end() {
            return Err(ended.to_owned());
        }
        let rounds = handle
            .rounds
            .ok_or("a delegation ends with its task here; invite again for the next one")?;
        if next.task.prompt.len() > PROMPT_MAX {
            return Err("the task is too long".to_owned());
        }
        let begun = rounds.go_on(next.round, next.task.prompt);
        begun.map_err(|why| why.to_string())
    }

    /// What the last round came to, if another one is waited for.
    fn idle_round(&self, id: &DelegationId) -> Option<Report> {
        let rounds = self.delegations.node.remote(id)?.rounds?;
        rounds.watch().borrow().done.clone()
    }

    /// Ends one that waits for another round, as done.
    fn closed(&self, id: &DelegationId) -> bool {
        let handle = self.delegations.node.remote(id);
        let rounds = handle.and_then(|handle| handle.rounds);
        rounds.is_some_and(|rounds| rounds.close())
    }

    /// For how long a result is kept that nobody acknowledges: as long as was asked for, within what is allowed here.
    fn retention(&self, wanted_ms: Option<u64>) -> Duration {
        let config = self.delegations.node.config();
        let wanted = wanted_ms.map_or(config.waits.tell, Duration::from_millis);
        wanted.max(RETENTION_MIN).min(config.retention_max)
    }

    async fn started(&self, id: &DelegationId, start: released::Start, origin: Origin) -> Response {
        let name = id.to_string();
        let Some(handle) = self.delegations.node.remote(id) else {
            let words = "there is no delegation of that id here";
            return refuse(&name, &ErrorCode::NotFound, words, "");
        };
        let mount = match self.way_in(id, start.transport_handle).await {
            Ok(mount) => mount,
            Err((code, words)) => {
                let failure = Failure::new(Code::MountFailed, words.clone());
                self.tell(id, RemoteInput::HostFailed(failure)).await;
                return refuse(&name, &code, &words, "send it again, whole");
            }
        };
        let start = seed::Start {
            version: start.version,
            delegation_id: name.clone(),
            lease: seed::GrantedLease {
                expires_at: start.lease.expires_at,
                access_mode: start.lease.access_mode,
            },
            mount,
        };
        let caller = Caller {
            name: handle.caller.clone(),
            ..Caller::owner()
        };
        match self.delegations.started(id, start, &caller, origin).await {
            Ok(data) => match seed::Message::from_data(&data) {
                Ok(seed::Message::Error(error)) => {
                    refuse(&name, &error.code, &error.message, &error.hint)
                }
                Ok(_) | Err(_) => Json(released::Ok { ok: true }).into_response(),
            },
            Err(failure) => refused(&name, &failure),
        }
    }

    /// What a handle means in our words. An archive is on disk then, and is what its checksum says.
    async fn way_in(
        &self,
        id: &DelegationId,
        handle: released::Handle,
    ) -> Result<seed::Mount, (ErrorCode, String)> {
        let none = |words: &str| (ErrorCode::TransportError, words.to_owned());
        match handle {
            released::Handle::Archive {
                workspace_base64,
                checksum,
                ..
            } => {
                let text = workspace_base64.ok_or_else(|| none("the archive is not in START"))?;
                self.keep_zip(id, text, checksum).await?;
                Ok(seed::Mount {
                    transport: convert::transport_word(Transport::Archive),
                    endpoint: None,
                    export_locator: String::new(),
                    credential: None,
                    mount_options: Some(json!({ "zip": ZIPPED })),
                })
            }
            released::Handle::Sshfs {
                endpoint,
                export_locator,
                credential,
                ..
            } => Ok(seed::Mount {
                transport: convert::transport_word(Transport::Sshfs),
                endpoint: Some(seed::Endpoint {
                    host: endpoint.host,
                    port: endpoint.port,
                    user: endpoint.user,
                    host_key: None,
                }),
                export_locator,
                credential: Some(seed::Credential::Key {
                    private_key: credential.private_key,
                    certificate: credential.certificate,
                }),
                mount_options: None,
            }),
            released::Handle::Storage { .. } | released::Handle::Git { .. } => {
                Err(none("that transport is not known here"))
            }
        }
    }

    async fn keep_zip(
        &self,
        id: &DelegationId,
        text: String,
        checksum: String,
    ) -> Result<(), (ErrorCode, String)> {
        let folder = self.delegations.node.stage_folder(id);
        let keeping = self.delegations.node.tasks().spawn_blocking(move |_| {
            let bytes = BASE64_STANDARD
                .decode(text)
                .map_err(|error| (ErrorCode::TransportError, error.to_string()))?;
            if archive::Checksum::parse(&checksum) != Some(archive::Checksum::of(&bytes)) {
                let words = "the archive is not the one its checksum was made of".to_owned();
                return Err((ErrorCode::ChecksumMismatch, words));
            }
            let failed = |words: String| (ErrorCode::SetupFailed, words);
            files::create_private_dir(&folder).map_err(|error| failed(error.to_string()))?;
            let mut file =
                spool::create(&folder, ZIPPED).map_err(|error| failed(error.to_string()))?;
            std::io::Write::write_all(&mut file, &bytes).map_err(|error| failed(error.to_string()))
        });
        let closing = || {
            (
                ErrorCode::TaskFailed,
                "the node is shutting down".to_owned(),
            )
        };
        keeping.await.unwrap_or_else(|_| Err(closing()))
    }

    /// Says something to a delegation that lives; one that does not has heard it.
    async fn tell(&self, id: &DelegationId, input: RemoteInput) -> bool {
        self.delegations.tell_taken(id, input).await
    }

    /// The record of a delegation that came in this dialect: others are none of its business.
    async fn record(&self, id: &str) -> Option<RemoteRecord> {
        let id = convert::id(id)?;
        let record = self.delegations.taken_record(&id).await?;
        matches!(record.dialect, Dialect::Released { .. }).then_some(record)
    }

    /// The changed workspace, packed, as long as nobody has acknowledged it.
    async fn result(&self, id: &DelegationId) -> Option<String> {
        let file = self
            .delegations
            .node
            .results_root()
            .join(format!("{id}.zip"));
        let reading = self.delegations.node.tasks().spawn_blocking(move |_| {
            let bytes = files::read_bounded(&file, RESULT).ok()?;
            Some(BASE64_STANDARD.encode(bytes))
        });
        reading.await.ok().flatten()
    }
}

fn accepted(accept: seed::Accept, retention: Duration) -> Message {
    let constraints = accept.remote_constraints.unwrap_or_default();
    let profile = constraints.sandbox_profile;
    Message::Accept(released::Accept {
        version: Some(wire::awcp::VERSION.to_owned()),
        delegation_id: accept.delegation_id,
        retention_ms: u64::try_from(retention.as_millis()).ok(),
        executor_work_dir: released::WorkDir {
            path: accept.remote_mount.mount_point,
        },
        executor_constraints: Some(released::Constraints {
            accepted_access_mode: constraints.accepted_access_mode,
            max_ttl_seconds: constraints.max_ttl_seconds,
            sandbox_profile: profile.map(|profile| released::SandboxProfile {
                cwd_only: profile.cwd_only,
                allow_network: profile.allow_network,
                allow_exec: profile.allow_exec,
            }),
        }),
    })
}
