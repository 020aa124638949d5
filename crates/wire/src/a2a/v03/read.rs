//! Reading what 0.3 writes: tolerant of what is missing or unknown, in words about what is wrong.

use serde_json::Value;

use super::Malformed;
use crate::a2a::{
    Artifact, ArtifactUpdate, AuthenticationInfo, Content, Message, Object, Part, Role,
    SendConfiguration, SendMessage, SendResponse, StatusUpdate, StreamResponse, Task,
    TaskPushNotificationConfig, TaskState, TaskStatus, message::some,
};

pub(super) type Read<T> = Result<T, Malformed>;

pub fn read_message(value: &Value) -> Read<Message> {
    let object = as_object(value, "a message")?;
    let role = match text(object, "role")?.as_str() {
        "user" | "ROLE_USER" => Role::User,
        "agent" | "ROLE_AGENT" => Role::Agent,
        other => return Err(Malformed(format!("`role` is user or agent, not {other:?}"))),
    };
    // The protocol buffers of 0.3 call the parts `content`.
    let parts = object.get("parts").or_else(|| object.get("content"));
    Ok(Message {
        message_id: text(object, "messageId")?,
        context_id: optional(object, "contextId")?,
        task_id: optional(object, "taskId")?,
        role,
        parts: list(parts, "parts")?
            .iter()
            .map(read_part)
            .collect::<Read<_>>()?,
        metadata: metadata(object)?,
        extensions: words(object, "extensions")?,
        reference_task_ids: words(object, "referenceTaskIds")?,
    })
}

pub fn read_part(value: &Value) -> Read<Part> {
    let object = as_object(value, "a part")?;
    // Some clients leave the kind out; one that calls it otherwise means something that we do not know.
    let kind = match optional(object, "kind")? {
        Some(kind) => Some(kind),
        None => optional(object, "type")?,
    };
    if let Some(kind) = kind
        && !matches!(kind.as_str(), "text" | "file" | "data")
    {
        return Err(Malformed(format!("there is no part of kind {kind:?}")));
    }
    let mut part = match (object.get("text"), object.get("file"), object.get("data")) {
        (Some(Value::String(text)), None, None) => Part::text(text.clone()),
        (None, Some(file), None) => {
            let file = as_object(file, "`file`")?;
            let content = match (optional(file, "bytes")?, optional(file, "uri")?) {
                (Some(bytes), None) => Content::Raw(bytes),
                (None, Some(uri)) => Content::Url(uri),
                _ => return Err(Malformed("a file has `bytes` or `uri`".to_owned())),
            };
            let mut part = Part::of(content);
            part.media_type = optional(file, "mimeType")?;
            part.filename = optional(file, "name")?;
            part
        }
        (None, None, Some(data)) => Part::data(data.clone()),
        _ => {
            let words = "a part has one of `text`, `file` and `data`";
            return Err(Malformed(words.to_owned()));
        }
    };
    part.metadata = metadata(object)?;
    Ok(part)
}

pub fn read_task(value: &Value) -> Read<Task> {
    let object = as_object(value, "a task")?;
    let status = object.get("status");
    Ok(Task {
        id: text(object, "id")?,
        context_id: optional(object, "contextId")?.unwrap_or_default(),
        status: read_status(status.unwrap_or(&Value::Null))?,
        artifacts: list(object.get("artifacts"), "artifacts")?
            .iter()
            .map(read_artifact)
            .collect::<Read<_>>()?,
        history: list(object.get("history"), "history")?
            .iter()
            .map(read_message)
            .collect::<Read<_>>()?,
        metadata: metadata(object)?,
    })
}

fn read_status(value: &Value) -> Read<TaskStatus> {
    let object = as_object(value, "`status`")?;
    let word = text(object, "state")?;
    let state =
        TaskState::parse(&word).ok_or_else(|| Malformed(format!("there is no state {word:?}")))?;
    let message = object.get("message").filter(|message| !message.is_null());
    Ok(TaskStatus {
        state,
        message: message.map(read_message).transpose()?,
        timestamp: optional(object, "timestamp")?,
    })
}

fn read_artifact(value: &Value) -> Read<Artifact> {
    let object = as_object(value, "an artifact")?;
    Ok(Artifact {
        artifact_id: text(object, "artifactId")?,
        name: optional(object, "name")?,
        description: optional(object, "description")?,
        parts: list(object.get("parts"), "parts")?
            .iter()
            .map(read_part)
            .collect::<Read<_>>()?,
        metadata: metadata(object)?,
        extensions: words(object, "extensions")?,
    })
}

pub fn read_stream_response(value: &Value) -> Read<StreamResponse> {
    let object = as_object(value, "an event")?;
    match text(object, "kind")?.as_str() {
        "task" => read_task(value).map(StreamResponse::Task),
        "message" => read_message(value).map(StreamResponse::Message),
        "status-update" => Ok(StreamResponse::StatusUpdate(StatusUpdate {
            task_id: text(object, "taskId")?,
            context_id: optional(object, "contextId")?.unwrap_or_default(),
            status: read_status(object.get("status").unwrap_or(&Value::Null))?,
            metadata: metadata(object)?,
        })),
        "artifact-update" => Ok(StreamResponse::ArtifactUpdate(ArtifactUpdate {
            task_id: text(object, "taskId")?,
            context_id: optional(object, "contextId")?.unwrap_or_default(),
            artifact: read_artifact(object.get("artifact").unwrap_or(&Value::Null))?,
            append: flag(object, "append"),
            last_chunk: flag(object, "lastChunk"),
            metadata: metadata(object)?,
        })),
        other => Err(Malformed(format!("there is no event of kind {other:?}"))),
    }
}

pub fn read_send_response(value: &Value) -> Read<SendResponse> {
    match read_stream_response(value)? {
        StreamResponse::Task(task) => Ok(SendResponse::Task(task)),
        StreamResponse::Message(message) => Ok(SendResponse::Message(message)),
        StreamResponse::StatusUpdate(_) | StreamResponse::ArtifactUpdate(_) => {
            Err(Malformed("an answer is a task or a message".to_owned()))
        }
    }
}

/// The parameters of `message/send`; the protocol buffers of 0.3 call the message `request`.
pub fn read_send_message(value: &Value) -> Read<SendMessage> {
    let object = as_object(value, "`params`")?;
    let message = object.get("message").or_else(|| object.get("request"));
    let message = message.ok_or_else(|| Malformed("missing field `message`".to_owned()))?;
    let configuration = object.get("configuration").filter(|it| !it.is_null());
    Ok(SendMessage {
        tenant: None,
        message: read_message(message)?,
        configuration: configuration.map(read_configuration).transpose()?,
        metadata: metadata(object)?,
    })
}

fn read_configuration(value: &Value) -> Read<SendConfiguration> {
    let object = as_object(value, "`configuration`")?;
    let push = object.get("pushNotificationConfig");
    let push = push.filter(|push| !push.is_null());
    Ok(SendConfiguration {
        accepted_output_modes: words(object, "acceptedOutputModes")?,
        task_push_notification_config: push.map(read_push_config).transpose()?,
        history_length: number(object, "historyLength")?,
        return_immediately: object.get("blocking") == Some(&Value::Bool(false)),
    })
}

pub fn read_push_config(value: &Value) -> Read<TaskPushNotificationConfig> {
    let object = as_object(value, "`pushNotificationConfig`")?;
    let authentication = object.get("authentication").filter(|it| !it.is_null());
    let authentication = match authentication {
        None => None,
        Some(value) => {
            let object = as_object(value, "`authentication`")?;
            let scheme = words(object, "schemes")?.into_iter().next();
            scheme
                .map(|scheme| {
                    Ok(AuthenticationInfo {
                        scheme,
                        credentials: optional(object, "credentials")?,
                    })
                })
                .transpose()?
        }
    };
    Ok(TaskPushNotificationConfig {
        tenant: None,
        id: optional(object, "id")?,
        task_id: None,
        url: text(object, "url")?,
        token: optional(object, "token")?,
        authentication,
    })
}

pub(super) fn as_object<'a>(value: &'a Value, what: &str) -> Read<&'a Object> {
    value
        .as_object()
        .ok_or_else(|| Malformed(format!("{what} is an object")))
}

fn text(object: &Object, key: &str) -> Read<String> {
    match object.get(key) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(Malformed(format!("`{key}` is text"))),
        None => Err(Malformed(format!("missing field `{key}`"))),
    }
}

pub(super) fn optional(object: &Object, key: &str) -> Read<Option<String>> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(some(Some(text.clone()))),
        Some(_) => Err(Malformed(format!("`{key}` is text"))),
    }
}

/// A whole number, which may also come as text.
fn number(object: &Object, key: &str) -> Read<Option<i64>> {
    let wrong = || Malformed(format!("`{key}` is a whole number"));
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) => number.as_i64().map(Some).ok_or_else(wrong),
        Some(Value::String(text)) => text.parse().map(Some).map_err(|_| wrong()),
        Some(_) => Err(wrong()),
    }
}

pub(super) fn flag(object: &Object, key: &str) -> bool {
    object.get(key) == Some(&Value::Bool(true))
}

fn metadata(object: &Object) -> Read<Option<Object>> {
    match object.get("metadata") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(metadata)) => Ok(Some(metadata.clone())),
        Some(_) => Err(Malformed("`metadata` is an object".to_owned())),
    }
}

pub(super) fn list<'a>(value: Option<&'a Value>, what: &str) -> Read<&'a [Value]> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(values)) => Ok(values),
        Some(_) => Err(Malformed(format!("`{what}` is a list"))),
    }
}

pub(super) fn words(object: &Object, key: &str) -> Read<Vec<String>> {
    let wrong = || Malformed(format!("`{key}` is a list of texts"));
    list(object.get(key), key)?
        .iter()
        .map(|value| value.as_str().map(str::to_owned).ok_or_else(wrong))
        .collect()
}
