//! One operation, from its parameters in either version to its result in the same one.

use std::sync::Arc;

use axum::http::HeaderMap;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use wire::a2a::{
    CancelTask, ConfigOfTask, ErrorCode, GetTask, ListTasks, SendMessage, SubscribeToTask,
    TaskPushNotificationConfig, Version, v03,
};

use crate::{
    card::{Reader, Shape},
    error::Refusal,
    face::Face,
    operations::{self, Sent},
    render,
    request::Call,
    stream::{Streaming, Until},
};

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Send,
    Stream,
    Get,
    List,
    Cancel,
    Subscribe,
    PushCreate,
    PushGet,
    PushList,
    PushDelete,
    ExtendedCard,
}

/// Every operation with its method in 1.0 and in 0.3.
const METHODS: [(Operation, &str, Option<&str>); 11] = [
    (Operation::Send, "SendMessage", Some("message/send")),
    (
        Operation::Stream,
        "SendStreamingMessage",
        Some("message/stream"),
    ),
    (Operation::Get, "GetTask", Some("tasks/get")),
    (Operation::List, "ListTasks", None),
    (Operation::Cancel, "CancelTask", Some("tasks/cancel")),
    (
        Operation::Subscribe,
        "SubscribeToTask",
        Some("tasks/resubscribe"),
    ),
    (
        Operation::PushCreate,
        "CreateTaskPushNotificationConfig",
        Some("tasks/pushNotificationConfig/set"),
    ),
    (
        Operation::PushGet,
        "GetTaskPushNotificationConfig",
        Some("tasks/pushNotificationConfig/get"),
    ),
    (
        Operation::PushList,
        "ListTaskPushNotificationConfigs",
        Some("tasks/pushNotificationConfig/list"),
    ),
    (
        Operation::PushDelete,
        "DeleteTaskPushNotificationConfig",
        Some("tasks/pushNotificationConfig/delete"),
    ),
    (
        Operation::ExtendedCard,
        "GetExtendedAgentCard",
        Some("agent/getAuthenticatedExtendedCard"),
    ),
];

impl Operation {
    /// The operation that a version calls so.
    pub(crate) fn of_method(version: Version, method: &str) -> Option<Self> {
        METHODS
            .iter()
            .find(|(_, v1, old)| match version {
                Version::V1 => *v1 == method,
                // Some clients and suites of 0.3 use its earlier name.
                Version::V03 => {
                    *old == Some(method)
                        || (method == "agent/authenticatedExtendedCard"
                            && *v1 == "GetExtendedAgentCard")
                }
            })
            .map(|(operation, _, _)| *operation)
    }
}

/// What an operation gives.
#[derive(Debug)]
pub(crate) enum Outcome {
    Value(Value),
    Stream(Streaming),
}

/// Carries out an operation. `headers` matter to cards alone.
pub(crate) async fn perform(
    face: &Arc<Face>,
    call: &Call,
    operation: Operation,
    params: Value,
    headers: &HeaderMap,
) -> Result<Outcome, Refusal> {
    let version = call.version;
    let value = match operation {
        Operation::Send => send(face, call, params).await?,
        Operation::Stream => return stream(face, call, params).await,
        Operation::Get => render::task(version, &face.get(call, read::<GetTask>(params)?).await?),
        Operation::List => json!(face.list(call, read::<ListTasks>(params)?).await?),
        Operation::Cancel => {
            let cancel: CancelTask = read(params)?;
            render::task(version, &face.cancel(call, &cancel.id).await?)
        }
        Operation::Subscribe => {
            let subscribe: SubscribeToTask = read(params)?;
            let follower = face.subscribe(call, &subscribe.id).await?;
            return Ok(Outcome::Stream(Streaming::Follow {
                follower,
                until: Until::Over,
            }));
        }
        Operation::PushCreate => {
            face.push.require()?;
            let config = read_push(version, params)?;
            let (there, call) = (face.clone(), call.clone());
            let made = carried_out(face, async move { there.create_push(&call, config).await });
            render::push(version, &made.await?)
        }
        Operation::PushGet => {
            let ConfigOfTask { task_id, id } = config_of_task(face, call, params).await?;
            let id = match id {
                Some(id) if version == Version::V1 || id != DEFAULT_CONFIG => id,
                Some(_) | None => only_config(face, &task_id)?,
            };
            render::push(version, &face.push.get(&task_id, &id)?)
        }
        Operation::PushList => {
            let of = config_of_task(face, call, params).await?;
            render::pushes(version, &face.push.list(&of.task_id)?)
        }
        Operation::PushDelete => {
            let of = config_of_task(face, call, params).await?;
            let id = of
                .id
                .ok_or_else(|| Refusal::invalid("id", "which webhook?"))?;
            let there = face.clone();
            carried_out(face, async move {
                there.push.delete(&there, &of.task_id, &id).await
            })
            .await?;
            render::nothing(version)
        }
        Operation::ExtendedCard => {
            require_extended_card(face, version)?;
            let shape = match version {
                Version::V1 => Shape::Strict,
                Version::V03 => Shape::Both,
            };
            let reader = Reader::Extended(&call.caller);
            face.card(headers, &call.target, shape, reader)?
        }
    };
    Ok(Outcome::Value(value))
}

async fn send(face: &Arc<Face>, call: &Call, params: Value) -> Result<Value, Refusal> {
    let send = read_send(call.version, params)?;
    let configuration = send.configuration.clone();
    Ok(match take(face, call, send).await? {
        Sent::Message(message) => render::sent_message(call.version, *message),
        Sent::Task(feed) => {
            let task = operations::answer(&feed, configuration.as_ref()).await;
            render::sent_task(call.version, task)
        }
    })
}

async fn stream(face: &Arc<Face>, call: &Call, params: Value) -> Result<Outcome, Refusal> {
    let send = read_send(call.version, params)?;
    Ok(Outcome::Stream(match take(face, call, send).await? {
        Sent::Message(message) => Streaming::One(*message),
        Sent::Task(feed) => Streaming::Follow {
            follower: feed.follow(),
            until: Until::Settled,
        },
    }))
}

/// Takes a message with everything that belongs to it, such as its webhook.
async fn take(face: &Arc<Face>, call: &Call, send: SendMessage) -> Result<Sent, Refusal> {
    // Whoever takes back what it asked of an extension does so by leaving, too.
    if let Some(answered) = face.answered_by_extension(call, &send).await? {
        return Ok(answered);
    }
    let (there, call) = (face.clone(), call.clone());
    carried_out(face, async move { there.send(&call, send).await }).await
}

/// Does the whole of it, also where the client leaves in the middle: half of what it asked for is what it does not expect.
async fn carried_out<T: Send + 'static>(
    face: &Face,
    work: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<T, Refusal> {
    let stopping = || Refusal::busy("this node is about to stop");
    let done = face
        .tasks
        .spawn(|stop| async move { stop.run_until_cancelled(work).await });
    match done.await {
        Ok(Some(outcome)) => outcome,
        Ok(None) | Err(_) => Err(stopping()),
    }
}

fn read_send(version: Version, params: Value) -> Result<SendMessage, Refusal> {
    match version {
        Version::V1 => read(params),
        Version::V03 => v03::read_send_message(&params).map_err(malformed),
    }
}

fn read_push(version: Version, params: Value) -> Result<TaskPushNotificationConfig, Refusal> {
    match version {
        Version::V1 => {
            // Earlier drafts of 1.0 put the configuration into a field of its own.
            let nested = params
                .get("config")
                .or_else(|| params.get("pushNotificationConfig"));
            let task = params
                .get("taskId")
                .and_then(Value::as_str)
                .map(str::to_owned);
            let mut config: TaskPushNotificationConfig = read(nested.cloned().unwrap_or(params))?;
            config.task_id = config.task_id.or(task);
            Ok(config)
        }
        Version::V03 => {
            let nested = params.get("pushNotificationConfig").unwrap_or(&Value::Null);
            let mut config = v03::read_push_config(nested).map_err(malformed)?;
            let task = params.get("taskId").and_then(Value::as_str);
            let task = task.ok_or_else(|| Refusal::invalid("taskId", "it is missing"))?;
            config.task_id = Some(task.to_owned());
            Ok(config)
        }
    }
}

/// Which task's webhook is meant; 0.3 calls the task `id`.
async fn config_of_task(face: &Face, call: &Call, params: Value) -> Result<ConfigOfTask, Refusal> {
    face.push.require()?;
    let of = match call.version {
        Version::V1 => read::<ConfigOfTask>(params)?,
        Version::V03 => {
            let text = |key: &str| params.get(key).and_then(Value::as_str).map(str::to_owned);
            let missing = || Refusal::invalid("id", "it is missing");
            ConfigOfTask {
                task_id: text("id").or_else(|| text("taskId")).ok_or_else(missing)?,
                id: text("pushNotificationConfigId"),
            }
        }
    };
    face.check_task(call, &of.task_id).await?;
    Ok(of)
}

/// How clients of 0.3 call the webhook of a task to which they have given no id.
const DEFAULT_CONFIG: &str = "default";

/// In 0.3 a client may ask for the webhook of a task without saying which.
fn only_config(face: &Face, task: &str) -> Result<String, Refusal> {
    let mut all = face.push.list(task)?;
    let named = all
        .iter()
        .position(|it| it.id.as_deref() == Some(DEFAULT_CONFIG));
    let first = (!all.is_empty()).then(|| all.swap_remove(named.unwrap_or(0)));
    let id = first.and_then(|config| config.id);
    id.ok_or_else(|| Refusal::task_not_found(task))
}

/// A node that asks nobody who they are has nothing more to tell those who have said it.
fn require_extended_card(face: &Face, version: Version) -> Result<(), Refusal> {
    if face.config.needs_token {
        return Ok(());
    }
    let code = match version {
        Version::V1 => ErrorCode::UnsupportedOperation,
        Version::V03 => ErrorCode::ExtendedAgentCardNotConfigured,
    };
    Err(Refusal::new(
        code,
        "there is no extended card: this node needs no token",
    ))
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, Refusal> {
    if !params.is_object() {
        return Err(Refusal::invalid("params", "they are an object"));
    }
    serde_json::from_value(params).map_err(|error| Refusal::invalid("params", error.to_string()))
}

fn malformed(error: v03::Malformed) -> Refusal {
    Refusal::invalid("params", error.to_string())
}
