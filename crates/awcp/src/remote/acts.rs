//! What the remote does when its machine says so.

use domain::delegation::{Acceptance, Access, Code, Failure, RemoteEffect, RemoteInput, Transport};
use platform::files;
use tokio_util::sync::CancellationToken;
use wire::awcp::seed;

use super::{
    RemoteEvent, RemoteTask,
    plane::{Bringing, Plane},
    rounds::{Between, Rounds},
    work,
};
use crate::{clock, convert, error::chain, host::earlier, node::Node, record::note};

/// The agent works as long as there is something to work in.
async fn work_in(
    (plane, access): (&Plane, Access),
    node: &Node,
    task: work::Task,
    rounds: Option<&Rounds>,
    stop: &CancellationToken,
) -> RemoteInput {
    let stop = stop.child_token();
    let between = rounds.map(|rounds| Between {
        rounds,
        plane,
        access,
    });
    let working = work::work(node, plane.place(), task, between.as_ref(), &stop);
    let mut working = std::pin::pin!(working);
    let worked = tokio::select! { biased;
        worked = &mut working => worked,
        () = plane.lost() => {
            stop.cancel();
            let _ = working.await; // Whatever it says, it had nothing to work in.
            let reason = "the mount has ended by itself".to_owned();
            return RemoteInput::AccessLost { reason };
        }
    };
    match worked {
        Ok(report) => RemoteInput::TaskDone(report),
        Err(failure) => RemoteInput::TaskFailed(failure),
    }
}

impl RemoteTask {
    pub(super) async fn act(&mut self, effect: RemoteEffect) {
        match effect {
            RemoteEffect::Check => self.check(),
            RemoteEffect::SendAccept(acceptance) => {
                let accept = convert::accept(&self.id(), &acceptance);
                self.answer(&accept.to_data());
            }
            RemoteEffect::Mount {
                access, transport, ..
            } => self.bring(access, transport),
            RemoteEffect::StopMounting | RemoteEffect::StopTask | RemoteEffect::StopFlushing => {
                self.step.stop().await;
            }
            RemoteEffect::BeginTask => self.begin_task(),
            RemoteEffect::Flush { .. } => self.flush(),
            RemoteEffect::Unmount => {
                let plane = self.plane.lock().await.take();
                if let Some(plane) = plane {
                    plane.take_down().await;
                }
            }
            RemoteEffect::RemoveMountPoint => self.remove_mount_point().await,
            RemoteEffect::SendDone(report) => {
                let done = convert::done(&self.id(), &report);
                self.tell(&done);
            }
            RemoteEffect::SendError(failure) => {
                let error = convert::error(&self.id().to_string(), &failure);
                let was_asked = !self.asked.is_empty();
                self.answer(&error.to_data());
                // Whoever asked has heard it with the answer.
                match was_asked {
                    true => self.later(RemoteInput::Told),
                    false => self.tell(&error),
                }
            }
            RemoteEffect::Announce(ending) => {
                let id = self.id();
                tracing::info!(%id, how = %ending.phase(), "work in a lent workspace has ended");
            }
            RemoteEffect::TickAt(moment) => self.tick = Some(earlier(self.tick, moment)),
        }
    }

    /// To ourselves. The task reads its own inbox, so it must not wait for room in it.
    fn later(&self, input: RemoteInput) {
        let own = self.own.clone();
        self.node.tasks().spawn(|_| async move {
            let _ = own.send(RemoteEvent::Input(input)).await; // It has ended meanwhile.
        });
    }

    fn check(&mut self) {
        let admitted = self.node.admit(self.record.machine.offer(), &self.id());
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(failure) => return self.later(RemoteInput::Declined(failure)),
        };
        let (point, own) = (self.record.mount_point.clone(), self.own.clone());
        let tasks = self.node.tasks().clone();
        let sandbox = self.node.sandbox_profile();
        self.step.begin(&self.node.tasks().clone(), |_| async move {
            let shown = point.display().to_string();
            let reserved = tasks.spawn_blocking(move |_| {
                let is_taken = files::is_there(&point);
                let free = match is_taken {
                    true => files::list(&point).is_ok_and(|entries| entries.is_empty()),
                    false => true,
                };
                free && files::create_private_dir(&point).is_ok()
            });
            let input = match reserved.await {
                Ok(true) => RemoteInput::Admitted(Acceptance {
                    mount_point: shown,
                    access: Some(admitted.access),
                    ttl: Some(admitted.ttl),
                    transport: Some(admitted.transport),
                    sandbox,
                }),
                Ok(false) | Err(_) => RemoteInput::Declined(Failure::new(
                    Code::MountpointDenied,
                    "the mount point is not an empty folder",
                )),
            };
            let _ = own.send(RemoteEvent::Input(input)).await; // It has ended meanwhile.
        });
    }

    fn bring(&mut self, access: Access, transport: Transport) {
        let Some(mount) = self.mount.take() else {
            let failure = Failure::new(Code::MountFailed, "START names no way in");
            return self.later(RemoteInput::MountFailed(failure));
        };
        let bringing = Bringing {
            node: self.node.clone(),
            id: self.id(),
            point: self.record.mount_point.clone(),
            access,
            mount,
            dialect: self.record.dialect.clone(),
        };
        let (own, plane) = (self.own.clone(), self.plane.clone());
        self.step.begin(self.node.tasks(), |stop| async move {
            let brought = match transport {
                Transport::Archive => bringing.unpack(&stop).await,
                Transport::Git => bringing.clone_repository(&stop).await,
                Transport::Sshfs => bringing.mount(&stop).await,
            };
            let input = match brought {
                Ok(brought) => {
                    *plane.lock().await = Some(brought);
                    RemoteInput::Mounted
                }
                Err(failure) => RemoteInput::MountFailed(failure),
            };
            let _ = own.send(RemoteEvent::Input(input)).await; // It has ended meanwhile.
        });
    }

    fn begin_task(&mut self) {
        let (node, own, plane) = (self.node.clone(), self.own.clone(), self.plane.clone());
        let task = work::Task {
            prompt: self.record.task.prompt.clone(),
            trace: self.record.trace,
            chain: self.record.chain.clone(),
        };
        note(&mut self.record.log, "the task has begun".to_owned());
        let (access, rounds) = (self.access(), self.rounds.clone());
        self.step.begin(self.node.tasks(), |stop| async move {
            let input = match plane.lock().await.as_ref() {
                Some(plane) => {
                    work_in((plane, access), &node, task, rounds.as_deref(), &stop).await
                }
                None => {
                    let words = "the workspace is gone";
                    RemoteInput::TaskFailed(Failure::new(Code::MountFailed, words))
                }
            };
            let _ = own.send(RemoteEvent::Input(input)).await; // It has ended meanwhile.
        });
    }

    fn access(&self) -> Access {
        let lease = self.record.machine.lease();
        lease.map_or(Access::Ro, |lease| lease.access)
    }

    fn flush(&mut self) {
        let (plane, own) = (self.plane.clone(), self.own.clone());
        let access = self.access();
        self.step.begin(self.node.tasks(), |stop| async move {
            let flushed = match plane.lock().await.as_ref() {
                Some(plane) => tokio::select! { biased;
                    () = stop.cancelled() => return,
                    flushed = Plane::flush(plane, access) => flushed,
                },
                None => Err(Failure::new(Code::MountFailed, "the workspace is gone")),
            };
            let input = match flushed {
                Ok(()) => RemoteInput::Flushed,
                Err(failure) => RemoteInput::FlushFailed(failure),
            };
            let _ = own.send(RemoteEvent::Input(input)).await; // It has ended meanwhile.
        });
    }

    /// What may be a mount is removed only as an empty folder: the host's own files could be behind it.
    async fn remove_mount_point(&mut self) {
        let (node, id) = (self.node.clone(), self.id());
        let (point, transport) = (self.record.mount_point.clone(), self.record.transport);
        let removing = self.node.tasks().spawn_blocking(move |_| {
            let _ = files::remove_tree(&node.stage_folder(&id)); // Only an archive on its way.
            match transport {
                Some(Transport::Archive | Transport::Git) => {
                    files::remove_tree(&point).map_err(|error| chain(&error))
                }
                Some(Transport::Sshfs) | None => {
                    let root = platform::ConfinedDir::open(&node.config().mount_root);
                    let removed = root.and_then(|root| root.remove_dir(id.to_string()));
                    match removed {
                        Err(error) if !error.is_not_found() => Err(chain(&error)),
                        Ok(()) | Err(_) => Ok(()),
                    }
                }
            }
        });
        if let Ok(Err(error)) = removing.await {
            tracing::warn!(id = %self.id(), %error, "could not remove a mount point");
        }
    }

    fn tell(&self, message: &seed::Message) {
        let Some(home) = self.record.home.clone() else {
            return; // A host that has not said where is told when it asks.
        };
        let (node, own, data) = (self.node.clone(), self.own.clone(), message.to_data());
        let id = self.id();
        self.node.tasks().spawn(|stop| async move {
            let told = tokio::select! { biased;
                () = stop.cancelled() => return,
                told = node.peers().reply(home.as_home(), &data) => told,
            };
            match told {
                Ok(()) => {
                    let told = RemoteEvent::Input(RemoteInput::Told);
                    let _ = own.send(told).await; // It has ended meanwhile.
                }
                // The machine tries again until it has waited long enough.
                Err(error) => tracing::debug!(%id, %error, at = %clock::text(clock::now()), "a host could not be told"),
            }
        });
    }
}
