//! One turn with a remote agent: send, follow, answer what it asks, come back to it when the line breaks.

use std::time::Duration;

use domain::turn::{Answer, EventKind, Stop};
use engine::SessionSink;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use wire::a2a::{
    Message, Object, Part, Role, SendConfiguration, SendMessage, SendResponse, StreamResponse,
    Task, TaskState, TaskStatus, Version,
};

use super::hearing::{Hearing, ask};
use crate::{
    calls::{CHAIN_KEY, SOURCE_KEY},
    client::{Client, ClientError, Updates},
};

/// How often an agent is asked again that says nothing more, before the turn fails.
const RECONNECTS_MAX: u32 = 6;

/// The first pause before that; each one is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// How often a task is looked at where the agent has no streams.
const POLL: Duration = Duration::from_secs(1);

/// How long a cancelled task has to say so.
const CANCEL_GRACE: Duration = Duration::from_secs(10);

/// One turn.
pub(super) struct RemoteTurn {
    client: Client,
    sink: SessionSink,
    agent: Option<String>,
    hearing: Hearing,
    task: Option<String>,
    context: Option<String>,
}

/// How often an agent was asked in vain since it was last heard, and what came of it.
#[derive(Debug)]
struct Tries {
    count: u32,
    pause: Duration,
    last: Option<ClientError>,
}

impl Tries {
    fn after(why: Option<ClientError>) -> Self {
        Self {
            count: 0,
            pause: FIRST_PAUSE,
            last: why,
        }
    }

    async fn pause(&mut self) {
        tokio::time::sleep(self.pause).await;
        self.pause *= 2;
        self.count += 1;
    }

    fn are_over(&self) -> bool {
        self.count >= RECONNECTS_MAX
    }
}

/// How far a task is, for us.
#[derive(Debug)]
enum Progress {
    Over(Stop),
    /// It wants an answer to what its status says.
    Waits(Box<TaskStatus>),
    GoesOn,
}

impl RemoteTurn {
    pub(super) fn new(client: Client, sink: SessionSink, agent: Option<String>) -> Self {
        Self {
            hearing: Hearing::new(sink.clone()),
            client,
            sink,
            agent,
            task: None,
            context: None,
        }
    }

    /// The stop reason, and what the agent calls the context.
    pub(super) async fn take(
        mut self,
        prompt: String,
        context: String,
        cancel: CancellationToken,
    ) -> (Result<Stop, ClientError>, Option<String>) {
        let finished = tokio::select! { biased;
            () = cancel.cancelled() => None,
            stop = self.converse(prompt, &context) => Some(stop),
        };
        let stop = match finished {
            Some(stop) => stop,
            None => Ok(self.give_up().await),
        };
        (stop, self.context)
    }

    /// Messages and answers until the task is over.
    async fn converse(&mut self, prompt: String, context: &str) -> Result<Stop, ClientError> {
        let mut message = self.message(prompt, context);
        loop {
            match self.exchange(message).await? {
                Progress::Over(stop) => return Ok(stop),
                Progress::GoesOn => {
                    let what = "it closed the stream of a task that is not over";
                    return Err(self.client.strange(what.to_owned()));
                }
                Progress::Waits(status) => {
                    let answer = match self.sink.ask(ask(&status), None).await {
                        Answer::Text { text } => Part::text(text),
                        Answer::Option { id } => Part::data(json!({ "optionId": id })),
                        Answer::Declined => {
                            self.cancel_remote().await;
                            let message = "the agent asked, and nobody answered".to_owned();
                            return Ok(Stop::Failed { message });
                        }
                    };
                    message = self.message(String::new(), context);
                    message.parts = vec![answer];
                    message.task_id.clone_from(&self.task);
                }
            }
        }
    }

    fn message(&self, text: String, context: &str) -> Message {
        let id = uuid::Uuid::new_v4().to_string();
        let mut message = Message::new(id, Role::User, vec![Part::text(text)]);
        let context = self.context.clone().unwrap_or_else(|| context.to_owned());
        message.context_id = Some(context);
        let mut metadata = Object::new();
        if let Some(agent) = &self.agent {
            metadata.insert("agent".to_owned(), json!(agent));
        }
        if let Some(source) = self.client.chain().last() {
            metadata.insert(SOURCE_KEY.to_owned(), json!(source));
            metadata.insert(CHAIN_KEY.to_owned(), json!(self.client.chain()));
        }
        message.metadata = Some(metadata).filter(|metadata| !metadata.is_empty());
        message
    }

    /// Sends one message and follows the task until it is over or waits.
    async fn exchange(&mut self, message: Message) -> Result<Progress, ClientError> {
        let streams = self.client.streams();
        let send = SendMessage {
            tenant: None,
            message,
            configuration: Some(SendConfiguration {
                return_immediately: !streams,
                ..SendConfiguration::default()
            }),
            metadata: None,
        };
        if !streams {
            return match self.client.send(&send).await? {
                SendResponse::Message(message) => Ok(self.on_message(&message)),
                SendResponse::Task(task) => match self.on_task(&task) {
                    Progress::GoesOn => self.poll(&task.id).await,
                    settled => Ok(settled),
                },
            };
        }
        let updates = self.client.stream(&send).await?;
        match self.follow(updates).await {
            Ok(Progress::GoesOn) => self.come_back(None).await,
            Err(error) if self.task.is_some() => self.come_back(Some(error)).await,
            settled => settled,
        }
    }

    /// Reads updates until something is settled, or the stream ends.
    async fn follow(&mut self, mut updates: Updates) -> Result<Progress, ClientError> {
        while let Some(update) = updates.next().await? {
            self.sink.room().await;
            match self.hear(&update) {
                Progress::GoesOn => {}
                settled => return Ok(settled),
            }
        }
        Ok(Progress::GoesOn)
    }

    /// The line broke while the task went on: it is followed again from where it is now.
    async fn come_back(&mut self, why: Option<ClientError>) -> Result<Progress, ClientError> {
        let Some(task) = self.task.clone() else {
            return why.map_or(Ok(Progress::GoesOn), Err);
        };
        // A follower of 0.3 is told only what is new, and not what was said while nobody followed.
        if self.client.version() == Version::V03 {
            return self.poll(&task).await;
        }
        let mut tries = Tries::after(why);
        loop {
            tries.pause().await;
            let heard = self.hearing.amount();
            let followed = match self.client.subscribe(&task).await {
                Ok(updates) => self.follow(updates).await,
                // It came to its end meanwhile, or the agent does not know how to be followed again.
                Err(ClientError::Refused { .. } | ClientError::Status { .. }) => {
                    return self.poll(&task).await;
                }
                Err(error) => Err(error),
            };
            match followed {
                Ok(Progress::GoesOn) => {}
                Ok(settled) => return Ok(settled),
                Err(error) => tries.last = Some(error),
            }
            // A line that brings something between its breaks is a line that works.
            if self.hearing.amount() > heard {
                tries = Tries::after(None);
            }
            if tries.are_over() {
                return self.lost(tries).await;
            }
        }
    }

    /// Looks at the task from time to time until it is settled.
    async fn poll(&mut self, task: &str) -> Result<Progress, ClientError> {
        let mut tries = Tries::after(None);
        loop {
            match self.client.get(task).await {
                Ok(now) => {
                    match self.on_task(&now) {
                        Progress::GoesOn => {}
                        settled => return Ok(settled),
                    }
                    tries = Tries::after(None);
                    tokio::time::sleep(POLL).await;
                }
                Err(error @ ClientError::Refused { .. }) => return Err(error),
                Err(error) => {
                    tries.last = Some(error);
                    if tries.are_over() {
                        return self.lost(tries).await;
                    }
                    tries.pause().await;
                }
            }
        }
    }

    /// Nothing more is heard of a task: it is told to stop, in case that it hears us.
    async fn lost(&mut self, tries: Tries) -> Result<Progress, ClientError> {
        self.cancel_remote().await;
        tries.last.map_or(Ok(Progress::GoesOn), Err)
    }

    fn hear(&mut self, update: &StreamResponse) -> Progress {
        match update {
            StreamResponse::Task(task) => self.on_task(task),
            StreamResponse::Message(message) => self.on_message(message),
            StreamResponse::StatusUpdate(update) => {
                self.learn(&update.task_id, &update.context_id);
                self.on_status(&update.status)
            }
            StreamResponse::ArtifactUpdate(update) => {
                self.learn(&update.task_id, &update.context_id);
                self.hearing.chunk(update);
                Progress::GoesOn
            }
        }
    }

    fn on_message(&mut self, message: &Message) -> Progress {
        self.context.clone_from(&message.context_id);
        self.hearing.message(message);
        Progress::Over(Stop::EndTurn)
    }

    fn on_task(&mut self, task: &Task) -> Progress {
        self.learn(&task.id, &task.context_id);
        for artifact in &task.artifacts {
            self.hearing.whole(artifact);
        }
        self.on_status(&task.status)
    }

    fn learn(&mut self, task: &str, context: &str) {
        self.task = Some(task.to_owned());
        if !context.is_empty() {
            self.context = Some(context.to_owned());
        }
    }

    fn on_status(&mut self, status: &TaskStatus) -> Progress {
        self.hearing.status(status);
        let words = status.message.as_ref().map(Message::text);
        match status.state {
            TaskState::Submitted | TaskState::Working => Progress::GoesOn,
            TaskState::Completed => Progress::Over(Stop::EndTurn),
            TaskState::Canceled => Progress::Over(Stop::Cancelled),
            TaskState::Rejected => Progress::Over(Stop::Refusal),
            TaskState::Failed => {
                let message = words.filter(|words| !words.is_empty());
                let message = message.unwrap_or_else(|| "the agent's task failed".to_owned());
                Progress::Over(Stop::Failed { message })
            }
            TaskState::InputRequired | TaskState::AuthRequired => {
                Progress::Waits(Box::new(status.clone()))
            }
        }
    }

    /// The turn was cancelled: the agent is told, and has a moment to agree.
    async fn give_up(&mut self) -> Stop {
        self.cancel_remote().await;
        Stop::Cancelled
    }

    async fn cancel_remote(&self) {
        let Some(task) = &self.task else { return };
        let cancelled = tokio::time::timeout(CANCEL_GRACE, self.client.cancel(task)).await;
        let words = match cancelled {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", CANCEL_GRACE.as_secs()),
        };
        let text = format!("the agent may go on with the task: {words}");
        self.sink.emit(EventKind::Notice { text }, None);
    }
}
