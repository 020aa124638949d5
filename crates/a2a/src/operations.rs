//! What clients can ask for, whatever the binding and the version.

use std::{sync::Arc, time::Duration};

use domain::Trace;
use tokio::sync::oneshot;
use wire::a2a::{
    ErrorCode, GetTask, Message, Role, SendConfiguration, SendMessage, Task,
    TaskPushNotificationConfig, TaskState, TaskStatus,
};

use crate::{
    calls, clock, convert,
    error::Refusal,
    extension::ExtensionCall,
    face::Face,
    feed::{Feed, Follower},
    record::{Entry, Letter, TASK_KIND, TaskRecord},
    request::Call,
    run::Begin,
};

/// The longest id that a client may give.
const ID_MAX: usize = 256;

/// How long a cancelled task is waited for; the task's own grace is shorter.
const CANCEL_WAIT: Duration = Duration::from_secs(15);

/// What a message has brought about.
#[derive(Debug)]
pub(crate) enum Sent {
    Message(Box<Message>),
    Task(Arc<Feed>),
}

/// A task, and what is known of it without reading it.
struct Found {
    entry: Entry,
    feed: Arc<Feed>,
}

impl Face {
    /// What an extension answers to a message that is meant for it.
    pub(crate) async fn answered_by_extension(
        &self,
        call: &Call,
        send: &SendMessage,
    ) -> Result<Option<Sent>, Refusal> {
        check_ids(send)?;
        let reply = self.ask_extensions(call, &send.message).await;
        Ok(reply.map(|reply| Sent::Message(Box::new(reply))))
    }

    /// Takes a message: an answer to a task that asks, or the begin of a task.
    pub(crate) async fn send(
        self: &Arc<Self>,
        call: &Call,
        mut send: SendMessage,
    ) -> Result<Sent, Refusal> {
        convert::check(&send.message)?;
        let push = send.configuration.as_mut();
        let push =
            push.and_then(|configuration| configuration.task_push_notification_config.take());
        if let Some(push) = &push {
            self.push.check(push)?;
        }
        let feed = match send.message.task_id.clone().filter(|id| !id.is_empty()) {
            Some(id) => self.tell(call, &id, send.message).await?,
            None => self.begin(call, send).await?,
        };
        if let Some(push) = push {
            let id = feed.task().id.clone();
            self.push
                .create(self, &id, push, call.version, Some(feed.clone()))
                .await?;
        }
        Ok(Sent::Task(feed))
    }

    async fn ask_extensions(&self, call: &Call, message: &Message) -> Option<Message> {
        let around = around(call);
        for extension in &self.extensions {
            if let Some(parts) = extension.handle(message, &around).await {
                let id = uuid::Uuid::new_v4().to_string();
                let mut reply = Message::new(id, Role::Agent, parts);
                let context = message.context_id.clone();
                reply.context_id = Some(context.unwrap_or_else(fresh_id));
                if extension.card().is_some() {
                    reply.extensions = vec![extension.uri().to_owned()];
                }
                return Some(reply);
            }
        }
        None
    }

    /// A message to a task that there is.
    async fn tell(
        self: &Arc<Self>,
        call: &Call,
        id: &str,
        message: Message,
    ) -> Result<Arc<Feed>, Refusal> {
        let found = self.find(call, id).await?;
        if let Some(context) = &message.context_id
            && !context.is_empty()
            && *context != found.entry.context
        {
            let words = "the task belongs to another context";
            return Err(Refusal::invalid("message.contextId", words));
        }
        let over = || {
            let words = "the task is over; send a message of its context without a task";
            Refusal::unsupported(words).with("taskId", id)
        };
        let live = self.register.live(id).ok_or_else(over)?;
        let (reply, answer) = oneshot::channel();
        let message = Box::new(message);
        let letter = Letter::Message { message, reply };
        live.inbox.send(letter).await.map_err(|_| over())?;
        answer.await.unwrap_or_else(|_| Err(over()))?;
        Ok(live.feed.clone())
    }

    /// A new task.
    async fn begin(self: &Arc<Self>, call: &Call, send: SendMessage) -> Result<Arc<Feed>, Refusal> {
        let agent = self.agent_for(call, &send).await?;
        let node = self.config.calls.node();
        let chain = calls::accept(node, &send.message, call.chain.clone())?;
        let mut message = send.message;
        let given = message.context_id.take().filter(|id| !id.is_empty());
        let context = given.unwrap_or_else(fresh_id);
        let id = fresh_id();
        message.context_id = Some(context.clone());
        message.task_id = Some(id.clone());
        let prompt = (self.config.prompt)(&message);
        let task = Task {
            id,
            context_id: context,
            status: TaskStatus {
                state: TaskState::Submitted,
                message: None,
                timestamp: Some(clock::text(clock::now())),
            },
            artifacts: Vec::new(),
            history: vec![message],
            metadata: None,
        };
        let record = TaskRecord {
            task,
            agent,
            caller: call.caller.name.clone(),
            session: None,
            turn: None,
            from_seq: 0,
            ask: None,
            standing: None,
            // A task that comes from nowhere begins a trace, which its lines of the journal tell as its turn does.
            trace: Some(
                call.trace
                    .unwrap_or_else(|| Trace::new(uuid::Uuid::new_v4().as_u128())),
            ),
            chain,
        };
        self.spawn(record, Begin::Prompt(prompt)).await
    }

    /// Who a message is for: the address says it, or the message, or there is only one.
    async fn agent_for(&self, call: &Call, send: &SendMessage) -> Result<String, Refusal> {
        if let Some(agent) = call.target.agent() {
            return Ok(agent.to_owned());
        }
        let from = |metadata: &Option<wire::a2a::Object>| {
            let named = metadata.as_ref()?.get("agent")?;
            named.as_str().map(str::to_owned)
        };
        let named = send.tenant.clone().filter(|tenant| !tenant.is_empty());
        let named = named
            .or_else(|| from(&send.message.metadata))
            .or_else(|| from(&send.metadata))
            .or_else(|| self.config.default_agent.clone());
        let agents = self.agents_for(&call.caller);
        let agent = match (named, agents.as_slice()) {
            (Some(named), _) => self.called(named, &call.caller).await?,
            (None, [only]) => only.name.clone(),
            (None, all) => {
                let names: Vec<&str> = all.iter().map(|agent| agent.name.as_str()).collect();
                let words = format!("say which agent is meant, one of: {}", names.join(", "));
                return Err(Refusal::invalid("message.metadata.agent", words));
            }
        };
        self.check_agent(&call.caller, &agent)?;
        Ok(agent)
    }

    pub(crate) async fn get(&self, call: &Call, get: GetTask) -> Result<Task, Refusal> {
        check_history(get.history_length)?;
        let found = self.find(call, &get.id).await?;
        Ok(shortened(&found.feed.task(), get.history_length))
    }

    /// Stops a task, and tells how it ended.
    pub(crate) async fn cancel(&self, call: &Call, id: &str) -> Result<Task, Refusal> {
        for extension in &self.extensions {
            if extension.cancel(id, &around(call)).await {
                return Ok(ended(id));
            }
        }
        let found = self.find(call, id).await?;
        let not_cancelable = |state: TaskState| {
            let words = format!("the task is over: {}", state.as_v03());
            Refusal::new(ErrorCode::TaskNotCancelable, words).with("taskId", id)
        };
        let Some(live) = self.register.live(id) else {
            return Err(not_cancelable(found.entry.state));
        };
        if live.inbox.send(Letter::Cancel).await.is_err() {
            return Err(not_cancelable(live.feed.task().status.state));
        }
        let waited = tokio::time::timeout(CANCEL_WAIT, live.feed.over()).await;
        let task = waited.unwrap_or_else(|_| live.feed.task());
        match task.status.state {
            TaskState::Completed | TaskState::Failed | TaskState::Rejected => {
                Err(not_cancelable(task.status.state))
            }
            TaskState::Canceled
            | TaskState::Submitted
            | TaskState::Working
            | TaskState::InputRequired
            | TaskState::AuthRequired => Ok(Task::clone(&task)),
        }
    }

    /// Follows a task that is not over.
    pub(crate) async fn subscribe(&self, call: &Call, id: &str) -> Result<Follower, Refusal> {
        let found = self.find(call, id).await?;
        if found.feed.task().status.state.is_terminal() {
            let words = "the task is over; there is nothing to wait for";
            return Err(Refusal::unsupported(words).with("taskId", id));
        }
        Ok(found.feed.follow())
    }

    pub(crate) async fn create_push(
        self: &Arc<Self>,
        call: &Call,
        config: TaskPushNotificationConfig,
    ) -> Result<TaskPushNotificationConfig, Refusal> {
        self.push.require()?;
        let id = config.task_id.clone().unwrap_or_default();
        let found = self.find(call, &id).await?;
        let terminal = found.feed.task().status.state.is_terminal();
        let feed = (!terminal).then_some(found.feed);
        self.push
            .create(self, &id, config, call.version, feed)
            .await
    }

    /// Refuses a task that is not there for this caller.
    pub(crate) async fn check_task(&self, call: &Call, id: &str) -> Result<(), Refusal> {
        self.find(call, id).await.map(drop)
    }

    pub(crate) fn is_visible(&self, call: &Call, entry: &Entry) -> bool {
        let here = call.target.agent().is_none_or(|agent| entry.agent == agent);
        let may_see = || self.lacking(&call.caller, &entry.agent).is_none();
        here && entry.is_of(&call.caller) && may_see()
    }

    /// What is not for this caller is as good as not there.
    async fn find(&self, call: &Call, id: &str) -> Result<Found, Refusal> {
        let missing = || Refusal::task_not_found(id);
        if id.is_empty() || id.len() > ID_MAX {
            return Err(missing());
        }
        let entry = match self.register.entry(id) {
            Some(entry) => entry,
            None => {
                let stored = self.records().get::<TaskRecord>(TASK_KIND, id).await?;
                Entry::of(&stored.ok_or_else(missing)?.value)
            }
        };
        if !self.is_visible(call, &entry) {
            return Err(missing());
        }
        let feed = self.feed_of(id).await.ok_or_else(missing)?;
        Ok(Found { entry, feed })
    }

    /// The feed of a task; that of one which is over has nothing more to give than the task.
    pub(crate) async fn feed_of(&self, id: &str) -> Option<Arc<Feed>> {
        if let Some(live) = self.register.live(id) {
            return Some(live.feed.clone());
        }
        let stored = self.records().get::<TaskRecord>(TASK_KIND, id).await;
        let stored = stored.ok().flatten()?;
        Some(Feed::new(stored.value.task))
    }
}

/// Waits for the answer to a message, unless the client does not want to.
pub(crate) async fn answer(feed: &Feed, configuration: Option<&SendConfiguration>) -> Task {
    let immediately = configuration.is_some_and(|it| it.return_immediately);
    let task = if immediately {
        feed.task()
    } else {
        feed.settled().await
    };
    shortened(&task, configuration.and_then(|it| it.history_length))
}

/// The task with the last messages of its history.
pub(crate) fn shortened(task: &Task, history_length: Option<i64>) -> Task {
    let mut task = task.clone();
    if let Some(wanted) = history_length {
        let wanted = usize::try_from(wanted).unwrap_or(0);
        let surplus = task.history.len().saturating_sub(wanted);
        task.history.drain(..surplus);
    }
    task
}

fn check_ids(send: &SendMessage) -> Result<(), Refusal> {
    let message = &send.message;
    let ids = [
        ("message.messageId", Some(&message.message_id)),
        ("message.contextId", message.context_id.as_ref()),
        ("message.taskId", message.task_id.as_ref()),
    ];
    for (field, id) in ids {
        if id.is_some_and(|id| id.len() > ID_MAX || id.chars().any(char::is_control)) {
            let words = format!("an id has at most {ID_MAX} bytes and no control characters");
            return Err(Refusal::invalid(field, words));
        }
    }
    check_history(send.configuration.as_ref().and_then(|it| it.history_length))
}

pub(crate) fn check_history(length: Option<i64>) -> Result<(), Refusal> {
    if length.is_some_and(|length| length < 0) {
        return Err(Refusal::invalid("historyLength", "it is not negative"));
    }
    Ok(())
}

fn fresh_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Who calls, as extensions are told.
fn around(call: &Call) -> ExtensionCall {
    ExtensionCall {
        caller: call.caller.clone(),
        agent: call.target.agent().map(str::to_owned),
        declared: call.declared.clone(),
        from: call.from,
    }
}

/// How something that an extension has ended looks to a client, which knows it by its id alone.
fn ended(id: &str) -> Task {
    Task {
        id: id.to_owned(),
        context_id: id.to_owned(),
        status: TaskStatus {
            state: TaskState::Canceled,
            message: None,
            timestamp: None,
        },
        artifacts: Vec::new(),
        history: Vec::new(),
        metadata: None,
    }
}
