//! What the host does when its machine says so.

use std::time::Duration;

use domain::{
    TRACEPARENT, Trace,
    delegation::{
        Access, Code, DelegationId, Failure, Grant, HostEffect, HostInput, LockDecision, Phase,
        Transport,
    },
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use wire::awcp::{Secret, VERSION, seed};

use super::{HostEvent, HostTask, carried::Carried, earlier, exports};
use crate::{
    CHAIN_KEY, clock, convert,
    node::Node,
    peer::{Found, PeerError, answer_limit, traceparent},
    remote::CERTIFICATE,
};

/// How often an unreachable peer is tried, and how long after each time.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_secs(1);

impl HostTask {
    pub(super) async fn act(&mut self, effect: HostEffect) {
        match effect {
            HostEffect::AcquireLock => self.acquire(),
            HostEffect::ReacquireLock => self.reacquire(),
            HostEffect::SendInvite => self.send_invite(),
            HostEffect::Prepare { grant, transport } => self.prepare(&grant, transport),
            HostEffect::StopPreparing | HostEffect::StopCollecting => self.step.stop().await,
            HostEffect::Restore { grant, transport } => self.restore(&grant, transport),
            HostEffect::SendStart { grant, transport } => self.send_start(&grant, transport),
            HostEffect::RevokeCredential => self.revoke().await,
            HostEffect::CloseExport => {
                self.node.close_export(self.record.machine.id()).await;
                self.keep_unfinished().await;
            }
            HostEffect::Collect { transport } => self.collect(transport),
            HostEffect::ReleaseLock => self.node.release_lock(self.record.machine.id()),
            HostEffect::SendError(failure) => self.send_error(failure),
            HostEffect::Announce(ending) => self.announce(&ending),
            HostEffect::TickAt(moment) => self.tick = Some(earlier(self.tick, moment)),
        }
    }

    fn id(&self) -> DelegationId {
        self.record.machine.id().clone()
    }

    /// To ourselves. The task reads its own inbox, so it must not wait for room in it.
    fn later(&self, input: HostInput) {
        let own = self.own.clone();
        self.node.tasks().spawn(|_| async move {
            let _ = own.send(HostEvent::Input(input)).await; // It has ended meanwhile.
        });
    }

    fn acquire(&mut self) {
        let hold = self.record.machine.offer().hold();
        match self.node.request_lock(&self.id(), &self.record.dir, hold) {
            Ok(LockDecision::Granted) => self.later(HostInput::LockGranted),
            Ok(LockDecision::Queued { before }) => {
                self.found = None; // It may be somewhere else by then.
                let text = format!("waits for its folder; {before} wait before it");
                crate::record::note(&mut self.record.log, text);
            }
            Err(error) => {
                let failure = Failure::new(Code::Declined, error.to_string());
                self.later(HostInput::NoLock(failure));
            }
        }
    }

    fn reacquire(&mut self) {
        if self.node.locks().holds(&self.id()) {
            return; // It was taken before anybody could ask.
        }
        let hold = self.record.machine.offer().hold();
        if let Err(error) = self.node.restore_lock(&self.id(), &self.record.dir, hold) {
            let failure = Failure::new(Code::TaskFailed, error.to_string());
            self.later(HostInput::Fail(failure));
        }
    }

    fn send_invite(&self) {
        let offer = self.record.machine.offer().clone();
        let (description, prompt) = (&self.record.task.description, self.record.prompt());
        let invite = convert::invite(&self.id(), &offer, description, &prompt);
        let limit = self.node.config().waits.accept;
        self.talk(invite, limit, |answer| match answer {
            Some(seed::Message::Accept(accept)) => match convert::acceptance(accept) {
                Some(acceptance) => HostInput::Accept(acceptance),
                None => HostInput::RemoteFailed(Failure::new(
                    Code::DepMissing,
                    "the peer wants a transport that is not known here",
                )),
            },
            Some(seed::Message::Error(error)) => HostInput::RemoteFailed(convert::failure(error)),
            Some(_) | None => HostInput::RemoteFailed(Failure::new(
                Code::Declined,
                "the peer answered the invitation with neither ACCEPT nor ERROR",
            )),
        });
    }

    fn send_start(&self, grant: &Grant, transport: Transport) {
        let Some(mount) = self.mount(transport) else {
            let words = "the way in was lost before START";
            self.later(HostInput::Fail(Failure::new(Code::TaskFailed, words)));
            return;
        };
        let start = seed::Message::Start(seed::Start {
            version: Some(VERSION.to_owned()),
            delegation_id: self.id().to_string(),
            lease: seed::GrantedLease {
                expires_at: clock::text(grant.until),
                access_mode: convert::access_word(grant.access),
            },
            mount,
        });
        self.talk(start, answer_limit(), |answer| match answer {
            Some(seed::Message::Error(error)) => HostInput::RemoteFailed(convert::failure(error)),
            Some(_) | None => HostInput::Began,
        });
    }

    /// What START says of the way in. Where to tell how it went is ours, and in the options.
    fn mount(&self, transport: Transport) -> Option<seed::Mount> {
        let facing = self.record.facing;
        let base = format!("{}/awcp/{}", self.node.url_for(facing), self.id());
        let secret = self.record.secret.clone()?;
        let mut options = json!({ "reply_url": format!("{base}/message"), "reply_token": secret });
        if let Some(fingerprint) = &self.node.config().fingerprint {
            options[CERTIFICATE] = fingerprint.as_str().into();
        }
        match transport {
            Transport::Archive | Transport::Git => {
                options["checksum"] = self.record.checksum.clone()?.into();
                options["delta_url"] = format!("{base}/delta").into();
                Some(seed::Mount {
                    transport: convert::transport_word(transport),
                    endpoint: None,
                    export_locator: format!("{base}/archive"),
                    credential: Some(seed::Credential::Token {
                        token: Secret(secret),
                    }),
                    mount_options: Some(options),
                })
            }
            Transport::Sshfs => {
                options["view"] = "/".into();
                let gate = self.gate.lock();
                let credential = gate.grant.as_ref()?.credential();
                let (host, port) = self.node.sftp_address(facing)?;
                Some(seed::Mount {
                    transport: convert::transport_word(transport),
                    endpoint: Some(seed::Endpoint {
                        host,
                        port,
                        user: credential.user.clone(),
                        host_key: Some(credential.host_key.clone()),
                    }),
                    export_locator: "/workspace".to_owned(),
                    credential: Some(seed::Credential::Key {
                        private_key: Secret(credential.private_key.clone()),
                        certificate: None,
                    }),
                    mount_options: Some(options),
                })
            }
        }
    }

    fn send_error(&self, failure: Failure) {
        let message = convert::error(&self.id().to_string(), &failure);
        let voice = self.voice();
        self.node.tasks().spawn(|stop| async move {
            let telling = voice.send(&message, answer_limit());
            tokio::select! { biased;
                () = stop.cancelled() => {}
                // A remote that does not hear of it finds its access gone.
                told = telling => if let Err(error) = told {
                    tracing::debug!(%error, "a remote could not be told that it is over");
                },
            }
        });
    }

    /// Asks a remote that is at work how it stands, by inviting it again: one that has ended says how, and one that has forgotten
    /// it accepts anew.
    pub(super) fn ask_remote(&self) {
        let offer = self.record.machine.offer().clone();
        let (description, prompt) = (&self.record.task.description, self.record.prompt());
        let invite = convert::invite(&self.id(), &offer, description, &prompt);
        let (own, voice) = (self.own.clone(), self.voice());
        self.node.tasks().spawn(|stop| async move {
            let answer = tokio::select! { biased;
                () = stop.cancelled() => return,
                answer = voice.ask(&invite) => answer,
            };
            let input = match answer {
                Some(seed::Message::Error(error)) => {
                    HostInput::RemoteFailed(convert::failure(error))
                }
                Some(seed::Message::Done(done)) => HostInput::Done(convert::report(done)),
                Some(seed::Message::Accept(_)) => {
                    let words = "the remote knows nothing of it any more";
                    HostInput::Fail(Failure::new(Code::TaskFailed, words))
                }
                Some(_) | None => return, // It is at work, or is not reached; the lease has an end.
            };
            let _ = own.send(HostEvent::Input(input)).await; // It has ended meanwhile.
        });
    }

    /// Sends a message, and what comes of it comes back as an input.
    fn talk(
        &self,
        message: seed::Message,
        limit: Duration,
        read: fn(Option<seed::Message>) -> HostInput,
    ) {
        let (own, voice) = (self.own.clone(), self.voice());
        self.node.tasks().spawn(|stop| async move {
            let answer = tokio::select! { biased;
                () = stop.cancelled() => return,
                answer = voice.send(&message, limit) => answer,
            };
            let input = match answer {
                Ok(data) => read(data.and_then(|data| seed::Message::from_data(&data).ok())),
                Err(PeerError::Unreachable { url, why }) => HostInput::Unreachable {
                    reason: format!("{url}: {why}"),
                },
                Err(error @ PeerError::Denied { .. }) => {
                    let hint = "pair again with --right delegations:invite, or bring a token of `delegation admit`";
                    let failure = Failure::with_hint(Code::AuthFailed, error.to_string(), hint);
                    HostInput::RemoteFailed(failure)
                }
                Err(error) => {
                    let failure = Failure::new(Code::Declined, error.to_string());
                    HostInput::RemoteFailed(failure)
                }
            };
            let _ = own.send(HostEvent::Input(input)).await; // It has ended meanwhile.
        });
    }

    fn voice(&self) -> Voice {
        let agreed = self.record.agreement.as_ref();
        let offered = self.record.machine.offer().access;
        Voice {
            node: self.node.clone(),
            id: self.id(),
            url: self.record.peer_url.clone(),
            token: self.record.token.clone(),
            trace: self
                .record
                .trace
                .unwrap_or_else(crate::delegations::new_trace),
            access: agreed.map_or(offered, |agreement| agreement.access),
            limits: exports::limits(&self.node, self.record.quota_bytes),
            own: self.own.clone(),
            found: self.found.clone(),
            chain: match self.record.chain.is_empty() {
                true => self.node.config().calls.begin(),
                false => self.record.chain.clone(),
            },
        }
    }

    fn prepare(&mut self, grant: &Grant, transport: Transport) {
        let secret = format!(
            "{}{}",
            platform::owner::fresh_id(),
            uuid::Uuid::new_v4().simple()
        );
        self.record.secret = Some(secret.clone());
        self.open_gate(grant);
        let export = exports::Export::of(&self.node, &self.record, grant.clone(), transport);
        let (own, gate) = (self.own.clone(), self.gate.clone());
        self.step.begin(self.node.tasks(), |stop| async move {
            let event = match export.prepare(&gate, &stop).await {
                Ok(checksum) => HostEvent::Packed(checksum),
                Err(failure) => HostEvent::Input(HostInput::PrepareFailed(failure)),
            };
            let _ = own.send(event).await; // It has ended meanwhile.
        });
    }

    fn open_gate(&self, grant: &Grant) {
        let mut gate = self.gate.lock();
        gate.secret.clone_from(&self.record.secret);
        gate.open = Some(grant.access);
        gate.over = CancellationToken::new();
        // What is new, and what is replaced by something of the same size.
        gate.delta_max = self
            .record
            .quota_bytes
            .saturating_add(self.record.size.bytes)
            .saturating_add(DELTA_OVERHEAD);
    }

    fn restore(&mut self, grant: &Grant, transport: Transport) {
        match transport {
            Transport::Archive | Transport::Git => {
                self.open_gate(grant);
                if self.record.machine.phase() == Phase::Running {
                    self.listen_again();
                }
            }
            Transport::Sshfs => {
                let words = "the host was restarted, and the credential went with it";
                self.later(HostInput::Fail(Failure::new(Code::TaskFailed, words)));
            }
        }
    }

    /// Whoever told us by events has lost us; everybody else finds us where we were.
    fn listen_again(&self) {
        let voice = self.voice();
        self.node.tasks().spawn(|stop| async move {
            tokio::select! { biased;
                () = stop.cancelled() => {}
                () = voice.listen_again() => {}
            }
        });
    }

    async fn revoke(&mut self) {
        let grant = {
            let mut gate = self.gate.lock();
            gate.open = None;
            gate.over.cancel();
            gate.grant.take()
        };
        if let Some(grant) = grant {
            self.quota_hit = grant.quota_hit();
            let touched = grant.revoke().await;
            self.keep_touched(touched).await;
        }
    }

    /// What was changed among that which no diff shows is named in the audit.
    async fn keep_touched(&self, touched: sftp::Touched) {
        let grant = Grant {
            access: Access::Rw,
            until: clock::now(),
        };
        let export = exports::Export::of(&self.node, &self.record, grant, Transport::Sshfs);
        if let Err(failure) = export.keep_touched(touched).await {
            tracing::warn!(id = %self.id(), why = failure.message, "an audit lacks what is ignored");
        }
    }

    /// Whatever ended it, what was changed over a mount is at home already: it belongs into the audit.
    async fn keep_unfinished(&mut self) {
        let phase = self.record.machine.phase();
        let agreed = self.record.agreement.as_ref();
        let is_mount =
            agreed.is_some_and(|it| it.transport == Transport::Sshfs && it.access == Access::Rw);
        if !phase.is_end() || phase == Phase::Completed || !is_mount {
            return;
        }
        let grant = Grant {
            access: Access::Rw,
            until: clock::now(),
        };
        let export = exports::Export::of(&self.node, &self.record, grant, Transport::Sshfs);
        match export.keep_mounted().await {
            Ok(0) => {}
            Ok(changed) => {
                let text =
                    format!("{changed} paths had been changed by then: see its diff, or undo it");
                crate::record::note(&mut self.record.log, text);
            }
            // Nothing was served yet, or it was kept by the daemon before.
            Err(failure) => {
                tracing::debug!(id = %self.id(), why = failure.message, "there is nothing to audit");
            }
        }
    }

    fn collect(&mut self, transport: Transport) {
        let access = self
            .record
            .agreement
            .as_ref()
            .map(|agreement| agreement.access);
        let grant = Grant {
            access: access.unwrap_or(self.record.machine.offer().access),
            until: clock::now(),
        };
        let export = exports::Export::of(&self.node, &self.record, grant, transport);
        let (own, quota_hit, keeping) = (self.own.clone(), self.quota_hit, self.record.keeping);
        self.step.begin(self.node.tasks(), |stop| async move {
            let collected = match quota_hit {
                Some(hit) => Err(Failure::new(Code::TaskFailed, hit.to_string())),
                None => export.collect(keeping, &stop).await,
            };
            let event = match collected {
                Ok(snapshot) => HostEvent::Collected(snapshot),
                Err(failure) => HostEvent::Input(HostInput::CollectFailed(failure)),
            };
            let _ = own.send(event).await; // It has ended meanwhile.
        });
    }
}

/// What the list of changes and the archive's own headers may need.
const DELTA_OVERHEAD: u64 = 64 << 20;

/// What is needed to say something to the remote.
struct Voice {
    node: Node,
    id: DelegationId,
    url: String,
    token: Option<String>,
    trace: Trace,
    access: Access,
    limits: archive::Limits,
    own: mpsc::Sender<HostEvent>,
    /// The peer, if it was found a moment ago.
    found: Option<Found>,
    /// Who has called whom, this node included.
    chain: Vec<String>,
}

impl Voice {
    async fn send(
        &self,
        message: &seed::Message,
        limit: Duration,
    ) -> Result<Option<Value>, PeerError> {
        let mut attempt = 1;
        let mut found = self.found.clone();
        loop {
            match self.try_send(message, limit, found.take()).await {
                Err(PeerError::Unreachable { .. }) if attempt < ATTEMPTS => {
                    tokio::time::sleep(PAUSE * attempt).await;
                    attempt += 1;
                }
                sent => return sent,
            }
        }
    }

    async fn try_send(
        &self,
        message: &seed::Message,
        limit: Duration,
        found: Option<Found>,
    ) -> Result<Option<Value>, PeerError> {
        let found = match found {
            Some(found) => found,
            None => {
                let peers = self.node.peers();
                peers.find(&self.url, self.token.as_deref()).await?
            }
        };
        match found {
            Found::Peer(peer) => {
                let mut data = message.to_data();
                data[TRACEPARENT] = traceparent(self.trace).into();
                if matches!(message, seed::Message::Invite(_)) {
                    data[CHAIN_KEY] = json!(self.chain);
                }
                peer.send(&data, self.trace, limit).await
            }
            Found::Executor(executor) => self.carried().say(executor, message.clone(), limit).await,
        }
    }

    /// Asks once, and only one that takes an INVITE that it knows for a question.
    async fn ask(&self, invite: &seed::Message) -> Option<seed::Message> {
        let peers = self.node.peers();
        let found = match self.found.clone() {
            Some(found) => found,
            None => peers.find(&self.url, self.token.as_deref()).await.ok()?,
        };
        match &found {
            Found::Peer(peer) if peer.can_be_asked() => {}
            Found::Peer(_) | Found::Executor(_) => return None,
        }
        let answer = self.try_send(invite, answer_limit(), Some(found)).await;
        seed::Message::from_data(&answer.ok()??).ok()
    }

    fn carried(&self) -> Carried {
        Carried {
            node: self.node.clone(),
            id: self.id.clone(),
            access: self.access,
            limits: self.limits,
            token: self.token.clone(),
            inputs: self.own.clone(),
        }
    }

    async fn listen_again(&self) {
        let mut attempt = 1;
        while attempt <= ATTEMPTS {
            let found = self.node.peers().find(&self.url, self.token.as_deref());
            match found.await {
                Ok(Found::Executor(executor)) => {
                    return self.carried().follow(executor, None).await;
                }
                Err(PeerError::Unreachable { .. }) => {
                    tokio::time::sleep(PAUSE * attempt).await;
                    attempt += 1;
                }
                Ok(Found::Peer(_)) | Err(_) => return,
            }
        }
    }
}
