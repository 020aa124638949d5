//! What peers say: each message finds its delegation, its sender is checked, and it gets an answer.

use domain::{
    TRACEPARENT, Trace,
    delegation::{
        Code, DelegationId, Ending, Failure, HostInput, Phase, Remote, RemoteInput, Waits,
    },
};
use engine::Caller;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use wire::awcp::seed::{self, Message};

use crate::{
    Delegations, calls, clock, convert,
    delegations::{INVITE_RIGHT, RIGHT},
    host::HostTask,
    reach::{Origin, Whence},
    record::{Dialect, REMOTE_KIND, RemoteRecord, Task},
    remote::{Message as Asked, RemoteEvent},
};

/// The longest prompt that is taken with an INVITE.
pub(crate) const PROMPT_MAX: usize = 1024 * 1024;

/// The longest description: one that has more to say says it in the prompt.
const DESCRIPTION_MAX: usize = 64 * 1024;

/// Who invites, how, and what it belongs to.
pub(crate) struct Inviting<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) dialect: Dialect,
    /// How long is waited for it.
    pub(crate) waits: Waits,
    pub(crate) trace: Option<Trace>,
    /// Who has called whom until here.
    pub(crate) chain: Vec<String>,
}

impl Delegations {
    /// Takes the `data` of an A2A part and gives that of the answer; nothing if it is not about lending.
    ///
    /// The host's messages are known by their caller, the remote's by the secret of the delegation in `awcp_secret`, or
    /// by a caller with the right to delegations.
    pub async fn handle_message(
        &self,
        data: &Value,
        caller: &Caller,
        origin: Origin,
    ) -> Option<Value> {
        let awcp = data.get("awcp")?;
        let id = seed::delegation_id(awcp).unwrap_or_default().to_owned();
        let refuse = |failure: Failure| Some(convert::error(&id, &failure).to_data());
        let message = match Message::parse(awcp) {
            Ok(message) => message,
            Err(malformed) => {
                return refuse(Failure::new(Code::Declined, malformed.to_string()));
            }
        };
        let Some(known) = convert::id(&id) else {
            let words = "the id of a delegation is letters, digits, - and _";
            return refuse(Failure::new(Code::Declined, words));
        };
        let secret = data.get("awcp_secret").and_then(Value::as_str);
        let trace = data.get(TRACEPARENT).and_then(Value::as_str);
        let trace = trace.and_then(Trace::of_traceparent);
        let is_known = self.node.remote(&known).is_some() || self.node.host(&known).is_some();
        if matches!(message, Message::Error(_)) && secret.is_none() && !is_known {
            // The end of it may have overtaken its INVITE.
            self.node.take_back(known.clone(), caller.name.clone());
        }
        let answer = match message {
            Message::Invite(invite) => {
                let from = Inviting {
                    caller,
                    dialect: Dialect::Seed,
                    waits: self.node.config().waits,
                    trace,
                    chain: calls::told(data),
                };
                self.invited(&known, invite, from).await
            }
            Message::Start(start) => self.started(&known, start, caller, origin).await,
            Message::Error(error) if secret.is_none() && self.node.remote(&known).is_some() => {
                self.host_failed(&known, convert::failure(error), caller)
                    .await
            }
            message @ (Message::Done(_) | Message::Error(_) | Message::Accept(_)) => {
                let by_right = Self::permits(Some(caller));
                self.remote_says(&known, message, secret, by_right).await
            }
        };
        match answer {
            Ok(answer) => Some(answer),
            Err(failure) => refuse(failure),
        }
    }

    pub(crate) async fn invited(
        &self,
        id: &DelegationId,
        invite: seed::Invite,
        from: Inviting<'_>,
    ) -> Result<Value, Failure> {
        let caller = from.caller;
        if !caller.may(INVITE_RIGHT) {
            let words = format!("{} may not lend workspaces here", caller.name);
            return Err(Failure::new(Code::AuthFailed, words));
        }
        let task = &invite.task;
        if task.prompt.len() > PROMPT_MAX || task.description.len() > DESCRIPTION_MAX {
            return Err(Failure::new(Code::Declined, "the task is too long"));
        }
        {
            // An id and a place are given once, however many ask for them at the same time.
            let _turn = self.node.taking().await;
            if self.node.remote(id).is_none() {
                if let Some(ended) = self.ended_here(id, caller).await {
                    return Ok(ended);
                }
                self.take(id, invite, from).await?;
            }
        }
        let ask = Some(RemoteInput::InvitedAgain);
        self.ask_remote(id, caller, ask, None).await
    }

    /// How a delegation of this caller's ended that is over: a host that was away longer than it is told asks so.
    async fn ended_here(&self, id: &DelegationId, caller: &Caller) -> Option<Value> {
        let record = self.taken_record(id).await?;
        if record.caller != caller.name || record.dialect != Dialect::Seed {
            return None;
        }
        let message = match record.machine.ending()? {
            Ending::Completed(report) => convert::done(id, report),
            Ending::Error(failure) | Ending::Cancelled(failure) | Ending::Expired(failure) => {
                convert::error(&id.to_string(), failure)
            }
        };
        Some(message.to_data())
    }

    /// Makes the remote's side of a delegation that nobody knows yet.
    async fn take(
        &self,
        id: &DelegationId,
        invite: seed::Invite,
        from: Inviting<'_>,
    ) -> Result<(), Failure> {
        let offer = convert::offer(&invite);
        // What is refused at once leaves no trace.
        self.node.admit(&offer, id)?;
        let records = self.node.records();
        let known = records
            .get::<RemoteRecord>(REMOTE_KIND, &id.to_string())
            .await;
        if !matches!(known, Ok(None)) {
            let words = format!("the delegation {id} has been here before");
            return Err(Failure::new(Code::Declined, words));
        }
        if self.node.is_taken_back(id, &from.caller.name) {
            let words = "the host has taken it back already";
            return Err(Failure::new(Code::Declined, words));
        }
        let chain = self.node.config().calls.accept(&from.chain);
        let chain = chain.map_err(|refused| Failure::new(Code::Declined, refused.to_string()))?;
        let (machine, effects) = Remote::new(id.clone(), offer, from.waits, clock::now());
        let record = RemoteRecord {
            machine,
            caller: from.caller.name.clone(),
            task: Task {
                description: invite.task.description,
                prompt: invite.task.prompt,
            },
            mount_point: self.node.mount_point(id),
            transport: None,
            home: None,
            created_at: clock::now(),
            log: Vec::new(),
            dialect: from.dialect,
            trace: from.trace,
            chain,
        };
        self.begin_remote(record, effects);
        Ok(())
    }

    pub(crate) async fn started(
        &self,
        id: &DelegationId,
        start: seed::Start,
        caller: &Caller,
        origin: Origin,
    ) -> Result<Value, Failure> {
        let until = clock::parse(&start.lease.expires_at).ok_or_else(|| {
            Failure::new(Code::StartExpired, "the end of the lease cannot be read")
        })?;
        let grant = domain::delegation::Grant {
            access: convert::access(start.lease.access_mode),
            until,
        };
        let whence = Whence {
            node: &self.node,
            caller: &caller.name,
            origin,
        };
        let mount = match self.waits_for_start(id, caller) && clock::now() < grant.until {
            true => whence.admit(start.mount).await,
            // What is under way is not looked for again, and still leads nowhere else.
            false => whence.look_at(&start.mount).await.map(|()| start.mount),
        };
        match mount {
            Ok(mount) => {
                let ask = Some(RemoteInput::Start(grant));
                self.ask_remote(id, caller, ask, Some(mount)).await
            }
            Err(failure) => {
                if self.waits_for_start(id, caller) {
                    let ask = Some(RemoteInput::HostFailed(failure.clone()));
                    self.ask_remote(id, caller, ask, None).await?;
                }
                Err(failure)
            }
        }
    }

    /// Whether it was accepted for this caller and has not begun.
    fn waits_for_start(&self, id: &DelegationId, caller: &Caller) -> bool {
        self.node.remote(id).is_some_and(|handle| {
            handle.caller == caller.name && handle.view.borrow().state == Phase::Accepted
        })
    }

    /// Ends the work on a delegation whose host cancels the task of that id; whether it is one of that host's.
    pub async fn cancel_task(&self, id: &str, caller: &Caller) -> bool {
        let Some(id) = convert::id(id) else {
            return false;
        };
        let handle = self.node.remote(&id);
        let Some(mut handle) = handle.filter(|handle| handle.caller == caller.name) else {
            return false;
        };
        let reason = "the host cancelled the task".to_owned();
        let cancel = RemoteEvent::Input(RemoteInput::Cancel { reason });
        let _ = handle.events.send(cancel).await; // It has ended meanwhile.
        let _ = handle.view.wait_for(|view| view.state.is_end()).await; // As above.
        true
    }

    /// Says something to a delegation that was taken and lives.
    pub(crate) async fn tell_taken(&self, id: &DelegationId, input: RemoteInput) -> bool {
        match self.node.remote(id) {
            None => false,
            Some(handle) => handle.events.send(RemoteEvent::Input(input)).await.is_ok(),
        }
    }

    pub(crate) async fn taken_record(&self, id: &DelegationId) -> Option<RemoteRecord> {
        let records = self.node.records();
        let id = id.to_string();
        let stored = records.get::<RemoteRecord>(REMOTE_KIND, &id).await;
        Some(stored.ok()??.value)
    }

    async fn host_failed(
        &self,
        id: &DelegationId,
        failure: Failure,
        caller: &Caller,
    ) -> Result<Value, Failure> {
        let ask = Some(RemoteInput::HostFailed(failure));
        self.ask_remote(id, caller, ask, None).await
    }

    async fn ask_remote(
        &self,
        id: &DelegationId,
        caller: &Caller,
        input: Option<RemoteInput>,
        mount: Option<seed::Mount>,
    ) -> Result<Value, Failure> {
        let unknown = || Failure::new(Code::Declined, format!("there is no delegation {id} here"));
        let handle = self.node.remote(id).ok_or_else(unknown)?;
        if handle.caller != caller.name {
            // Whoever did not begin it learns no more than that it is not theirs.
            return Err(unknown());
        }
        let (reply, answer) = oneshot::channel();
        let asked = Asked {
            input,
            mount,
            reply,
        };
        let sent = handle
            .events
            .send(RemoteEvent::Message(Box::new(asked)))
            .await;
        sent.map_err(|_| unknown())?;
        answer.await.map_err(|_| unknown())
    }

    /// What the remote says to its host: DONE or ERROR, with the secret.
    pub(crate) async fn remote_says(
        &self,
        id: &DelegationId,
        message: Message,
        secret: Option<&str>,
        by_right: bool,
    ) -> Result<Value, Failure> {
        let denied = || {
            let words =
                "this is not the secret of a delegation here, or the caller lacks the right";
            Failure::with_hint(
                Code::AuthFailed,
                words,
                format!("callers need the right {RIGHT}"),
            )
        };
        let handle = match self.node.host(id) {
            Some(handle) => handle,
            // It is over, and whoever repeats how it ended may stop.
            None if self.ended_with(id, secret).await || by_right => {
                return Ok(json!({ "ok": true }));
            }
            None => return Err(denied()),
        };
        let is_known = secret.is_some_and(|secret| handle.gate.knows(secret));
        if !is_known && !by_right {
            return Err(denied());
        }
        let input = match message {
            Message::Done(done) => HostInput::Done(convert::report(done)),
            Message::Error(error) => HostInput::RemoteFailed(convert::failure(error)),
            Message::Accept(accept) => match convert::acceptance(accept) {
                Some(acceptance) => HostInput::Accept(acceptance),
                None => {
                    return Err(Failure::new(
                        Code::DepMissing,
                        "that transport is not known here",
                    ));
                }
            },
            Message::Invite(_) | Message::Start(_) => {
                return Err(Failure::new(
                    Code::Declined,
                    "a remote neither invites nor starts",
                ));
            }
        };
        // Whoever says how it ended forgets it when it hears that it was heard.
        let is_kept = HostTask::say(&handle.inputs, input).await;
        match is_kept || handle.view.borrow().state.is_end() {
            true => Ok(json!({ "ok": true })),
            false => Err(Failure::new(
                Code::TaskFailed,
                "it could not be kept; say it again",
            )),
        }
    }

    async fn ended_with(&self, id: &DelegationId, secret: Option<&str>) -> bool {
        use subtle::ConstantTimeEq;
        let records = self.node.records();
        let kind = crate::record::HOST_KIND;
        let stored = records
            .get::<crate::record::HostRecord>(kind, &id.to_string())
            .await;
        let known = stored.ok().flatten().and_then(|stored| stored.value.secret);
        match (known, secret) {
            (Some(known), Some(secret)) => known.as_bytes().ct_eq(secret.as_bytes()).into(),
            _ => false,
        }
    }
}
