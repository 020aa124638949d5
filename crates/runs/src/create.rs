//! A new run: what is checked before there is one, and how the same request is told from a second one.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::{
    Name, Trace, chain,
    run::{Input, Limits, Run},
};
use engine::{Batch, Caller, Keep, Sessions};
use platform::crash;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;
use wire::{
    hex,
    runs::{Message, RunCreate, RunMetadata},
};

use crate::{
    begin::Conversation,
    error::RunsError,
    exchange::Label,
    history::{self, Elsewhere},
    node::{Handle, Runs},
    prompt,
    record::{self, Dialect, KEY, RUN, RunRecord, SESSION, SessionRecord},
    task::NewRun,
};

/// The right to run agents; one for a single agent has its name after a colon.
const RIGHT: &str = "runs";

/// Messages and parts of one request: more is not something anybody said.
const MESSAGES_MAX: usize = 256;

/// The shortest time for the work that a caller may ask for.
const WORK_MIN_SECS: f64 = 0.001;

/// A key that a caller chose for its request.
const KEY_MAX: usize = 255;

/// What came with a request beside its body.
#[derive(Debug, Clone)]
pub(crate) struct Around {
    pub(crate) caller: Caller,
    /// How the caller reached us.
    pub(crate) base: String,
    /// The chain of calls in the header, which standard hops keep more often than the body.
    pub(crate) chain: Vec<String>,
    pub(crate) trace: Option<Trace>,
    pub(crate) key: Option<String>,
    /// The body's hash, to tell a repeated request from another with the same key.
    pub(crate) body_hash: String,
}

/// Which run a key began.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeyRecord {
    run: String,
    body_hash: String,
}

/// What a request led to.
pub(crate) enum Created {
    New(Handle),
    /// The same request came before.
    Known(Box<RunRecord>),
}

impl Runs {
    pub(crate) async fn create(
        &self,
        create: RunCreate,
        around: Around,
    ) -> Result<Created, RunsError> {
        let metadata = create.metadata.clone().unwrap_or_default();
        let chain = self.check_chain(&metadata, &around)?;
        self.make_called(&create, &around.caller).await?;
        let (agent, dialect) = self.agent_of(&create)?;
        self.check_right(&around.caller, &agent)?;
        check_input(&create.input)?;
        check_time(&metadata)?;
        if let Some(known) = self.known_key(&around).await? {
            return Ok(Created::Known(Box::new(known)));
        }
        // What is refused anyway leaves nothing in the exchange.
        self.session_of(&create, &agent, &around).await?;
        drop(self.place()?);
        // What may take long comes before the gate, and the gate looks again.
        let earlier = self.earlier(&create).await?;
        let prompt = self
            .prompt_of(&earlier.messages, &create.input, &metadata, &around)
            .await?;
        // Only what has a name can be meant by two requests at once.
        let has_name = around.key.is_some() || session_id(&create)?.is_some();
        let _gate = match has_name {
            true => Some(self.gate().await),
            false => None,
        };
        if let Some(known) = self.known_key(&around).await? {
            return Ok(Created::Known(Box::new(known)));
        }
        let place = self.place()?;
        let mut session = self.session_of(&create, &agent, &around).await?;
        Self::extend_history(&mut session, earlier.urls);
        let conversation = match session.engine_session {
            Some(_) => Conversation::Known,
            None => Conversation::New,
        };
        // Whoever takes up after a crash knows where to look.
        let engine_session = session
            .engine_session
            .get_or_insert_with(Sessions::fresh_id);
        let record = RunRecord {
            // Ids in the order of time lie close together in the store.
            id: Uuid::now_v7().to_string(),
            agent,
            caller: around.caller.name.clone(),
            dialect,
            session: session.id.clone(),
            machine: Run::new(self.limits(&metadata)),
            prompt,
            output: Vec::new(),
            error: None,
            asks: std::collections::BTreeMap::new(),
            chain,
            trace: Some(around.trace.unwrap_or_else(fresh_trace)),
            base: around.base.clone(),
            master_session: metadata.master_session_id.clone(),
            created_at: record::now(),
            finished_at: None,
            engine_session: Some(engine_session.clone()),
            turn: None,
            standing: None,
            input: create.input,
        };
        session.active_run = Some(record.id.clone());
        session.last_active = record.created_at;
        session.master_session = metadata.master_session_id;
        let new = NewRun {
            record,
            session,
            conversation,
            place,
        };
        self.begin_run(new, &around).await.map(Created::New)
    }

    /// Everything is kept before anybody hears of the run: that it is there, and that it has begun.
    async fn begin_run(&self, mut new: NewRun, around: &Around) -> Result<Handle, RunsError> {
        let created = new.record.clone();
        let mut batch = Batch::default();
        let said = self
            .keep_messages(&created.input, &created.caller, &mut batch)
            .await;
        let ids = said.iter().map(|resource| resource.id.clone()).collect();
        Self::extend_history(&mut new.session, ids);
        let effects = new.record.machine.apply(Input::Start, record::now());
        let effects = effects.map_err(|refusal| RunsError::Refused {
            id: created.id.clone(),
            refusal,
        })?;
        batch.put_unless_finished(SESSION, &new.session.id, Keep::Live, &new.session)?;
        batch.put(RUN, &created.id, Keep::Live, &new.record)?;
        batch.note(created.note());
        batch.note(new.record.note());
        if let Some(id) = key_id(around)? {
            let kept = KeyRecord {
                run: created.id.clone(),
                body_hash: around.body_hash.clone(),
            };
            batch.put(KEY, &id, Keep::Finished, &kept)?;
        }
        crash::point("run.before-created");
        self.records().write_all(batch).await?;
        crash::point("run.created");
        self.exchange().kept(&said);
        Ok(self.launch(new, created, effects))
    }

    fn check_chain(
        &self,
        metadata: &RunMetadata,
        around: &Around,
    ) -> Result<Vec<String>, RunsError> {
        let told = chain::merge(metadata.call_chain.clone(), around.chain.clone());
        let source = metadata.source_agent_id.as_deref();
        Ok(self.config().calls.node().accept(source, &told)?)
    }

    /// The agent that is meant: by its name, or as the one that speaks for the node.
    fn agent_of(&self, create: &RunCreate) -> Result<(Name, Dialect), RunsError> {
        let (wanted, dialect) = match (&create.agent_name, &create.agent_id) {
            (Some(name), None) => (Some(name.as_str()), Dialect::Standard),
            (Some(name), Some(_)) => (Some(name.as_str()), Dialect::Network),
            (None, Some(id)) => (Some(id.as_str()), Dialect::Network),
            (None, None) => (None, Dialect::Network),
        };
        let node = self.config().calls.node();
        if let Some(wanted) = wanted {
            if let Some(agent) = self.public_agent(wanted) {
                return Ok((agent, dialect));
            }
            if !node.is(wanted) && wanted != node.name {
                return Err(RunsError::AgentNotFound {
                    name: wanted.chars().take(128).collect(),
                });
            }
        }
        Ok((self.default_agent()?, dialect))
    }

    /// Makes the agent of a target that has none yet, where the caller may have it made.
    async fn make_called(&self, create: &RunCreate, caller: &Caller) -> Result<(), RunsError> {
        if let Some(said) = create.agent_name.as_ref().or(create.agent_id.as_ref()) {
            let offered = self.config().public.named();
            self.engine().called(said, caller, RIGHT, offered).await?;
        }
        Ok(())
    }

    /// The right that a caller lacks to run an agent; nothing if it may.
    pub(crate) fn lacking(&self, caller: &Caller, agent: &str) -> Option<String> {
        let offered = self.config().public.named();
        self.engine().lacking(caller, RIGHT, agent, offered)
    }

    fn check_right(&self, caller: &Caller, agent: &Name) -> Result<(), RunsError> {
        match self.lacking(caller, agent.as_str()) {
            None => Ok(()),
            Some(right) => Err(RunsError::Forbidden { right }),
        }
    }

    /// An agent that callers may see.
    pub(crate) fn public_agent(&self, name: &str) -> Option<Name> {
        // One that is made for a target is there if the node offers it.
        let name = self.engine().agent_of(&name.parse().ok()?).ok()?;
        let is_there = self.engine().public_agent(name.as_str()).is_ok();
        (self.config().public.shows(name.as_str()) && is_there).then_some(name)
    }

    fn default_agent(&self) -> Result<Name, RunsError> {
        if let Some(name) = &self.config().default_agent {
            return self
                .public_agent(name)
                .ok_or_else(|| RunsError::AgentNotFound { name: name.clone() });
        }
        let agents = self.engine().public_agents();
        let mut public = agents
            .iter()
            .filter_map(|agent| self.public_agent(&agent.name));
        match (public.next(), public.next()) {
            (Some(only), None) => Ok(only),
            (Some(_), Some(_)) => Err(RunsError::WhichAgent),
            (None, _) => Err(RunsError::AgentNotFound {
                name: self.config().calls.node().name.clone(),
            }),
        }
    }

    /// The session to go on in.
    async fn session_of(
        &self,
        create: &RunCreate,
        agent: &Name,
        around: &Around,
    ) -> Result<SessionRecord, RunsError> {
        let Some(id) = session_id(create)? else {
            return Ok(self.fresh_session(None, agent, &around.caller.name));
        };
        let continued = self.continued(id, agent, &around.caller.name).await?;
        if let Some(session) = continued {
            return Ok(session);
        }
        // Standard clients choose the id of a session themselves. Words that are no such id name one of ours.
        if Uuid::parse_str(id).is_err() {
            return Err(RunsError::SessionNotFound {
                id: id.chars().take(128).collect(),
            });
        }
        Ok(self.fresh_session(Some(id.to_owned()), agent, &around.caller.name))
    }

    /// What was said in the session elsewhere, since it was here last.
    async fn earlier(&self, create: &RunCreate) -> Result<Elsewhere, RunsError> {
        let Some(id) = session_id(create)? else {
            return Ok(Elsewhere::default());
        };
        let urls = create
            .session
            .as_ref()
            .map_or(&[][..], |session| session.history.as_slice());
        if urls.is_empty() {
            return Ok(Elsewhere::default());
        }
        // Whose it is was looked at before.
        let known = self.known_session(id, |_| true).await?;
        let known = known.map(|session| session.history).unwrap_or_default();
        history::elsewhere(self, urls, &known).await
    }

    async fn prompt_of(
        &self,
        earlier: &[Message],
        input: &[Message],
        metadata: &RunMetadata,
        around: &Around,
    ) -> Result<String, RunsError> {
        let mut urls = Vec::new();
        for attached in prompt::attachments(input) {
            let part = attached.part;
            let encoded = part.content.as_deref().unwrap_or_default();
            let bytes = STANDARD.decode(encoded).map_err(|_| RunsError::Invalid {
                what: "a part says base64 and is not".to_owned(),
            })?;
            let label = Label {
                name: part.name.clone(),
                content_type: part.content_type.clone(),
                owner: around.caller.name.clone(),
            };
            let resource = self.exchange().put(label, bytes.into()).await?;
            let path = self.exchange().path(&resource.id, resource.expires_at);
            urls.push(format!("{}{path}", around.base));
        }
        let mut prompt = prompt::compose(earlier, input, &urls, metadata);
        if prompt.trim().is_empty() {
            // The standard allows messages that say nothing; what to make of one is for the agent.
            prompt = prompt::EMPTY.to_owned();
        }
        if prompt.len() > prompt::PROMPT_MAX {
            return Err(RunsError::BodyTooLarge);
        }
        Ok(prompt)
    }

    /// The node's limits, or less where the caller wishes so.
    fn limits(&self, metadata: &RunMetadata) -> Limits {
        let mut limits = self.config().limits;
        let wished = metadata
            .timeout_seconds
            .and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
        if let Some(wished) = wished {
            limits.work = limits.work.min(wished);
        }
        limits
    }

    async fn known_key(&self, around: &Around) -> Result<Option<RunRecord>, RunsError> {
        let Some(id) = key_id(around)? else {
            return Ok(None);
        };
        let Some(kept) = self.records().get::<KeyRecord>(KEY, &id).await? else {
            return Ok(None);
        };
        if kept.value.body_hash != around.body_hash {
            return Err(RunsError::KeyReused);
        }
        match self.find(&kept.value.run, &around.caller).await {
            Ok(record) => Ok(Some(record)),
            Err(RunsError::RunNotFound { .. }) => Ok(None), // Too old to be known.
            Err(error) => Err(error),
        }
    }
}

/// A time in which nothing can be done is a mistake, not a wish.
fn check_time(metadata: &RunMetadata) -> Result<(), RunsError> {
    let is_enough = |seconds: f64| seconds >= WORK_MIN_SECS;
    match metadata.timeout_seconds.is_none_or(is_enough) {
        true => Ok(()),
        false => Err(RunsError::Invalid {
            what: format!("timeout_seconds is a number of seconds, at least {WORK_MIN_SECS}"),
        }),
    }
}

/// The session that the caller names, in one way or the other.
fn session_id(create: &RunCreate) -> Result<Option<&str>, RunsError> {
    let inline = create.session.as_ref().map(|session| &session.id);
    match (&create.session_id, inline) {
        (Some(one), Some(other)) if one != other => Err(RunsError::SessionMismatch),
        (Some(id), _) | (None, Some(id)) => Ok(Some(id)),
        (None, None) => Ok(None),
    }
}

/// Keys of different callers never meet.
fn key_id(around: &Around) -> Result<Option<String>, RunsError> {
    let Some(key) = &around.key else {
        return Ok(None);
    };
    if key.is_empty() || key.len() > KEY_MAX {
        return Err(RunsError::Invalid {
            what: format!("an Idempotency-Key has 1 to {KEY_MAX} characters"),
        });
    }
    let text = format!("{}\n{key}", around.caller.name);
    Ok(Some(hex(&Sha256::digest(text.as_bytes()))))
}

pub(crate) fn check_input(input: &[Message]) -> Result<(), RunsError> {
    let invalid = |what: &str| {
        Err(RunsError::Invalid {
            what: what.to_owned(),
        })
    };
    let parts = || input.iter().flat_map(|message| &message.parts);
    if input.is_empty() {
        return invalid("input needs at least one message");
    }
    if input.len() > MESSAGES_MAX || parts().count() > MESSAGES_MAX {
        return invalid("input has too many messages or parts");
    }
    if let Some(message) = input.iter().find(|message| !message.has_known_role()) {
        let role: String = message.role.chars().take(64).collect();
        return invalid(&format!(
            "{role:?} is no role: user, agent or agent/NAME is"
        ));
    }
    if parts().any(|part| part.content.is_some() && part.content_url.is_some()) {
        return invalid("a part has content or content_url, not both");
    }
    Ok(())
}

/// A run that comes from nowhere begins a trace, which its lines of the journal tell as its turn does.
fn fresh_trace() -> Trace {
    Trace::new(Uuid::new_v4().as_u128())
}
