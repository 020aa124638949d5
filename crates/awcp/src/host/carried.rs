//! Executors of the released dialect, seen as any other remote: their words are ours, the workspace goes as a zip and comes
//! back whole, and what differs is put where other remotes send their changes.

use std::{path::PathBuf, time::Duration};

use archive::{Delta, Folder, Limits, Manifest, everything};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use domain::delegation::{Access, Code, DelegationId, Failure, HostInput, Report};
use platform::files;
use serde_json::Value;
use tokio::sync::mpsc;
use wire::awcp::{
    ErrorCode, Secret, VERSION,
    released::{self, Event, ResultStatus},
    seed,
};

use super::{ARCHIVE, DELTA, HostEvent, HostTask};
use crate::{
    blocking::blocking,
    convert,
    error::chain,
    node::Node,
    peer::{Events, Executor, PeerError, answer_limit},
    spool,
};

/// What such an executor keeps a result for, by its own default: a week.
const RETENTION_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// Between two questions for the result, when the events were lost.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Questions in a row without an answer until it is given up. Who answers that it still works is asked on: the lease
/// has an end.
const QUESTIONS_MAX: u32 = 30;

/// One delegation to such an executor.
pub(super) struct Carried {
    pub(super) node: Node,
    pub(super) id: DelegationId,
    pub(super) access: Access,
    pub(super) limits: Limits,
    pub(super) token: Option<String>,
    pub(super) inputs: mpsc::Sender<HostEvent>,
}

impl Carried {
    /// Says one of our messages in its words, and gives its answer in ours.
    pub(super) async fn say(
        self,
        executor: Executor,
        message: seed::Message,
        limit: Duration,
    ) -> Result<Option<Value>, PeerError> {
        match message {
            seed::Message::Invite(invite) => {
                let invite = self.invite(invite);
                let answer = executor.post(&invite, limit).await?;
                Ok(in_our_words(&answer))
            }
            seed::Message::Start(start) => self.start(executor, start, limit).await,
            seed::Message::Error(_) => {
                executor.cancel(&self.id.to_string()).await?;
                Ok(None)
            }
            seed::Message::Accept(_) | seed::Message::Done(_) => Ok(None),
        }
    }

    fn invite(&self, invite: seed::Invite) -> released::Message {
        let mode = invite.lease.access_mode;
        released::Message::Invite(released::Invite {
            version: VERSION.to_owned(),
            delegation_id: invite.delegation_id,
            task: released::Task {
                description: invite.task.description,
                prompt: invite.task.prompt,
            },
            lease: released::ProposedLease {
                ttl_seconds: invite.lease.ttl_seconds,
                access_mode: mode,
            },
            retention_ms: Some(RETENTION_MS),
            environment: released::Environment {
                resources: vec![released::Resource {
                    name: sftp::WORKSPACE.to_owned(),
                    kind: "fs".to_owned(),
                    mode,
                }],
            },
            requirements: Some(released::Requirements {
                transport: Some(wire::awcp::Transport::Archive),
            }),
            auth: self.token.clone().map(|token| released::Auth {
                kind: "bearer".to_owned(),
                credential: Secret(token),
                metadata: None,
            }),
        })
    }

    async fn start(
        self,
        executor: Executor,
        start: seed::Start,
        limit: Duration,
    ) -> Result<Option<Value>, PeerError> {
        let name = self.id.to_string();
        let zip = match self.zip().await {
            Ok(zip) => zip,
            Err(failure) => return Ok(Some(convert::error(&name, &failure).to_data())),
        };
        let checksum = archive::Checksum::of(&zip).to_string();
        // Its events are only told to who listens already.
        let events = executor.events(&name).await?;
        let start = released::Message::Start(released::Start {
            version: Some(VERSION.to_owned()),
            delegation_id: name,
            lease: released::Lease {
                expires_at: start.lease.expires_at,
                access_mode: start.lease.access_mode,
            },
            transport_handle: released::Handle::Archive {
                workspace_base64: Some(BASE64_STANDARD.encode(&zip)),
                chunked: None,
                checksum,
            },
        });
        let answer = executor.post(&start, limit).await?;
        let refusal = in_our_words(&answer);
        if refusal.is_none() {
            let tasks = self.node.tasks().clone();
            tasks.spawn(|stop| async move {
                tokio::select! { biased;
                    () = stop.cancelled() => {}
                    () = self.follow(executor, Some(events)) => {}
                }
            });
        }
        Ok(refusal)
    }

    /// The packed workspace again, as a zip with one folder.
    async fn zip(&self) -> Result<Vec<u8>, Failure> {
        let (folder, limits) = (self.node.export_folder(&self.id), self.limits);
        blocking(self.node.tasks(), move || {
            let file = spool::open(&folder, ARCHIVE).map_err(|error| failed(&error))?;
            let sent = fresh(&folder.join(SENT))?;
            archive::unpack(file, None, &sent, &limits).map_err(|error| failed(&error))?;
            let mut bytes = std::io::Cursor::new(Vec::new());
            let resources = [(sftp::WORKSPACE, &sent)];
            archive::pack_zip(&resources, &everything, &limits, &mut bytes)
                .map_err(|error| failed(&error))?;
            Ok(bytes.into_inner())
        })
        .await
    }

    /// Hears how it goes, to the end; of the delegation here if that comes first. Without events it is asked.
    pub(super) async fn follow(self, executor: Executor, events: Option<Events>) {
        let heard = tokio::select! { biased;
            () = self.inputs.closed() => return,
            heard = self.hear(&executor, events) => heard,
        };
        let is_idle = matches!(&heard, Heard::Done { after, .. } if *after == After::Idle);
        let input = match heard {
            Heard::Failed(failure) => HostInput::RemoteFailed(failure),
            Heard::Done {
                report, snapshot, ..
            } => match self.bring_home(snapshot).await {
                Ok(()) => HostInput::Done(report),
                Err(failure) => HostInput::RemoteFailed(failure),
            },
        };
        if !HostTask::say(&self.inputs, input).await {
            return; // It is asked for again after a restart.
        }
        let name = self.id.to_string();
        if is_idle {
            self.close(&executor).await;
        }
        if let Err(error) = executor.acknowledge(&name).await {
            tracing::debug!(id = %name, %error, "an executor was not told that its result is here");
        }
    }

    /// Ends the session of one that waits for another round: each of ours is a delegation of its own.
    async fn close(&self, executor: &Executor) {
        let close = released::Message::Close(released::Close {
            version: Some(VERSION.to_owned()),
            delegation_id: self.id.to_string(),
        });
        if let Err(error) = executor.post(&close, answer_limit()).await {
            tracing::debug!(id = %self.id, %error, "an executor was not told that there is no other round");
        }
    }

    async fn hear(&self, executor: &Executor, events: Option<Events>) -> Heard {
        let heard = match events {
            Some(events) => hear(events).await,
            None => None,
        };
        match heard {
            Some(heard) => heard,
            None => self.ask(executor).await,
        }
    }

    /// The events were lost, or part of them; the result is kept until it is acknowledged.
    async fn ask(&self, executor: &Executor) -> Heard {
        let mut unanswered = 0;
        while unanswered < QUESTIONS_MAX {
            unanswered += 1;
            if let Ok(result) = executor.result(&self.id.to_string()).await {
                match (result.status, result.error) {
                    (ResultStatus::Running, _) => unanswered = 0,
                    (ResultStatus::Completed, _) => {
                        return Heard::Done {
                            report: report(result.summary.unwrap_or_default(), result.highlights),
                            snapshot: result.snapshot_base64,
                            after: After::Over,
                        };
                    }
                    (ResultStatus::Error, Some(error)) => {
                        return Heard::failed(error.code, error.message, error.hint);
                    }
                    (
                        ResultStatus::Error | ResultStatus::NotApplicable | ResultStatus::NotFound,
                        _,
                    ) => break,
                }
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
        let lost = "its events were lost, and it tells no result";
        Heard::Failed(Failure::new(Code::TaskFailed, lost))
    }

    /// What differs, as other remotes send it. The dialect has neither modes nor links, so those are as they were.
    async fn bring_home(&self, came: Option<String>) -> Result<(), Failure> {
        let (Some(came), Access::Rw) = (came, self.access) else {
            return Ok(());
        };
        let (folder, limits) = (self.node.export_folder(&self.id), self.limits);
        blocking(self.node.tasks(), move || {
            let bytes = BASE64_STANDARD
                .decode(came)
                .map_err(|error| failed(&error))?;
            let back = fresh(&folder.join(BACK))?;
            archive::unpack_zip(std::io::Cursor::new(bytes), &back, &limits)
                .map_err(|error| failed(&error))?;
            let back = folder.join(BACK).join(sftp::WORKSPACE);
            files::create_dir_all(&back).map_err(|error| failed(&error))?;
            let manifest = |path: PathBuf| {
                let folder = Folder::open(&path).map_err(|error| failed(&error))?;
                let (manifest, _) =
                    Manifest::of(&folder, &everything, &limits).map_err(|error| failed(&error))?;
                Ok::<_, Failure>((folder, manifest))
            };
            let (_, before) = manifest(folder.join(SENT))?;
            let (tree, after) = manifest(back)?;
            let delta = Delta::between(&before, &after.as_carried_from(&before));
            if delta.is_empty() {
                return Ok(());
            }
            let file = spool::create(&folder, DELTA).map_err(|error| failed(&error))?;
            archive::pack_delta(&tree, &delta, &limits, file).map_err(|error| failed(&error))?;
            Ok(())
        })
        .await
    }
}

/// How it ended there.
enum Heard {
    Done {
        report: Report,
        snapshot: Option<String>,
        after: After,
    },
    Failed(Failure),
}

/// What the executor does then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// Nothing more.
    Over,
    /// It keeps the workspace for another round, as its newer line does after each.
    Idle,
}

impl Heard {
    fn failed(code: ErrorCode, message: String, hint: Option<String>) -> Self {
        Self::Failed(convert::failure(seed::Error {
            version: None,
            delegation_id: String::new(),
            code,
            message,
            hint: hint.unwrap_or_default(),
        }))
    }
}

fn report(summary: String, highlights: Option<Vec<String>>) -> Report {
    Report {
        summary,
        highlights: highlights.unwrap_or_default(),
        notes: None,
    }
}

/// Nothing if the stream ended before its end was told, or tells of changes that it does not bring: to who comes late it
/// repeats the end alone.
async fn hear(mut events: Events) -> Option<Heard> {
    let mut snapshot = None;
    loop {
        match events.next().await? {
            Event::Snapshot {
                snapshot_base64, ..
            } => snapshot = Some(snapshot_base64),
            Event::Done {
                summary,
                highlights,
                snapshot_ids,
                ..
            } => {
                let report = report(summary, highlights);
                return done(report, snapshot, snapshot_ids, After::Over);
            }
            Event::RoundDone {
                summary,
                highlights,
                snapshot_ids,
                ..
            } => {
                let report = report(summary, highlights);
                return done(report, snapshot, snapshot_ids, After::Idle);
            }
            Event::Error {
                code,
                message,
                hint,
                ..
            } => return Some(Heard::failed(code, message, hint)),
            Event::Status { .. } => {}
        }
    }
}

fn done(
    report: Report,
    snapshot: Option<String>,
    named: Option<Vec<String>>,
    after: After,
) -> Option<Heard> {
    if snapshot.is_none() && named.is_some_and(|ids| !ids.is_empty()) {
        return None;
    }
    Some(Heard::Done {
        report,
        snapshot,
        after,
    })
}

/// What went and what came, unpacked in the folder of the export.
const SENT: &str = "sent";
const BACK: &str = "back";

fn fresh(path: &std::path::Path) -> Result<Folder, Failure> {
    files::remove_tree(path).map_err(|error| failed(&error))?;
    files::create_private_dir(path).map_err(|error| failed(&error))?;
    Folder::open(path).map_err(|error| failed(&error))
}

fn failed(error: &dyn std::error::Error) -> Failure {
    Failure::new(Code::TaskFailed, chain(error))
}

/// Its ACCEPT and ERROR in our words; nothing if it only says that it is well.
fn in_our_words(answer: &Value) -> Option<Value> {
    let message = released::Message::parse(answer).ok()?;
    let message = match message {
        released::Message::Accept(accept) => {
            let constraints = accept.executor_constraints.unwrap_or_default();
            let profile = constraints.sandbox_profile;
            seed::Message::Accept(seed::Accept {
                version: accept.version,
                delegation_id: accept.delegation_id,
                remote_mount: seed::RemoteMount {
                    mount_point: accept.executor_work_dir.path,
                    transport: Some(wire::awcp::Transport::Archive),
                },
                remote_constraints: Some(seed::RemoteConstraints {
                    accepted_access_mode: constraints.accepted_access_mode,
                    max_ttl_seconds: constraints.max_ttl_seconds,
                    sandbox_profile: profile.map(|profile| seed::SandboxProfile {
                        cwd_only: profile.cwd_only,
                        allow_network: profile.allow_network,
                        allow_exec: profile.allow_exec,
                    }),
                }),
            })
        }
        released::Message::Error(error) => seed::Message::Error(seed::Error {
            version: error.version,
            delegation_id: error.delegation_id,
            code: error.code.in_seed(),
            message: error.message,
            hint: error.hint.unwrap_or_default(),
        }),
        released::Message::Invite(_)
        | released::Message::Start(_)
        | released::Message::Continue(_)
        | released::Message::Close(_) => return None,
    };
    Some(message.to_data())
}
