//! How version 0.3 writes the model: with a `kind` in every object, words in lower case, files in an object of their own.

mod card;
mod read;

pub use card::{hybrid_card, read_card};
pub use read::{
    read_message, read_part, read_push_config, read_send_message, read_send_response,
    read_stream_response, read_task,
};

use serde_json::{Map, Value, json};

use super::{
    Artifact, Content, Message, Object, Part, Role, SendMessage, SendResponse, StreamResponse,
    Task, TaskPushNotificationConfig, TaskStatus,
};

/// Why a value is not what 0.3 calls by that name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub String);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

pub fn message(message: &Message) -> Value {
    let mut object = Map::new();
    object.insert("kind".to_owned(), json!("message"));
    object.insert("messageId".to_owned(), json!(message.message_id));
    object.insert(
        "role".to_owned(),
        json!(match message.role {
            Role::User => "user",
            Role::Agent => "agent",
        }),
    );
    object.insert(
        "parts".to_owned(),
        message.parts.iter().map(part).collect::<Vec<_>>().into(),
    );
    put(&mut object, "contextId", &message.context_id);
    put(&mut object, "taskId", &message.task_id);
    put(&mut object, "metadata", &message.metadata);
    put_list(&mut object, "extensions", &message.extensions);
    put_list(&mut object, "referenceTaskIds", &message.reference_task_ids);
    object.into()
}

pub fn part(part: &Part) -> Value {
    let file = |key: &str, value: &str| {
        let mut file = Map::new();
        file.insert(key.to_owned(), json!(value));
        put(&mut file, "mimeType", &part.media_type);
        put(&mut file, "name", &part.filename);
        json!({ "kind": "file", "file": file })
    };
    let mut value = match &part.content {
        Content::Text(text) => json!({ "kind": "text", "text": text }),
        Content::Raw(raw) => file("bytes", raw),
        Content::Url(url) => file("uri", url),
        Content::Data(data @ Value::Object(_)) => json!({ "kind": "data", "data": data }),
        // 0.3 has only objects here.
        Content::Data(data) => json!({ "kind": "data", "data": { "value": data } }),
    };
    if let (Some(metadata), Some(object)) = (&part.metadata, value.as_object_mut()) {
        object.insert("metadata".to_owned(), json!(metadata));
    }
    value
}

pub fn task(task: &Task) -> Value {
    let mut object = Map::new();
    object.insert("kind".to_owned(), json!("task"));
    object.insert("id".to_owned(), json!(task.id));
    object.insert("contextId".to_owned(), json!(task.context_id));
    object.insert("status".to_owned(), status(&task.status));
    if !task.artifacts.is_empty() {
        object.insert(
            "artifacts".to_owned(),
            task.artifacts.iter().map(artifact).collect(),
        );
    }
    if !task.history.is_empty() {
        object.insert(
            "history".to_owned(),
            task.history.iter().map(message).collect(),
        );
    }
    put(&mut object, "metadata", &task.metadata);
    object.into()
}

pub fn status(status: &TaskStatus) -> Value {
    let mut object = Map::new();
    object.insert("state".to_owned(), json!(status.state.as_v03()));
    if let Some(said) = &status.message {
        object.insert("message".to_owned(), message(said));
    }
    put(&mut object, "timestamp", &status.timestamp);
    object.into()
}

pub fn artifact(artifact: &Artifact) -> Value {
    let mut object = Map::new();
    object.insert("artifactId".to_owned(), json!(artifact.artifact_id));
    object.insert(
        "parts".to_owned(),
        artifact.parts.iter().map(part).collect(),
    );
    put(&mut object, "name", &artifact.name);
    put(&mut object, "description", &artifact.description);
    put(&mut object, "metadata", &artifact.metadata);
    put_list(&mut object, "extensions", &artifact.extensions);
    object.into()
}

pub fn send_response(response: &SendResponse) -> Value {
    match response {
        SendResponse::Task(told) => task(told),
        SendResponse::Message(said) => message(said),
    }
}

/// An event of a stream. `final` says that the stream ends with it.
pub fn stream_response(response: &StreamResponse) -> Value {
    match response {
        StreamResponse::Task(told) => task(told),
        StreamResponse::Message(said) => message(said),
        StreamResponse::StatusUpdate(update) => {
            let state = update.status.state;
            let mut object = Map::new();
            object.insert("kind".to_owned(), json!("status-update"));
            object.insert("taskId".to_owned(), json!(update.task_id));
            object.insert("contextId".to_owned(), json!(update.context_id));
            object.insert("status".to_owned(), status(&update.status));
            object.insert(
                "final".to_owned(),
                json!(state.is_terminal() || state.is_interrupted()),
            );
            put(&mut object, "metadata", &update.metadata);
            object.into()
        }
        StreamResponse::ArtifactUpdate(update) => {
            let mut object = Map::new();
            object.insert("kind".to_owned(), json!("artifact-update"));
            object.insert("taskId".to_owned(), json!(update.task_id));
            object.insert("contextId".to_owned(), json!(update.context_id));
            object.insert("artifact".to_owned(), artifact(&update.artifact));
            object.insert("append".to_owned(), json!(update.append));
            object.insert("lastChunk".to_owned(), json!(update.last_chunk));
            put(&mut object, "metadata", &update.metadata);
            object.into()
        }
    }
}

/// The parameters of `message/send`.
pub fn send_message(send: &SendMessage) -> Value {
    let mut object = Map::new();
    object.insert("message".to_owned(), message(&send.message));
    if let Some(configuration) = &send.configuration {
        let mut shape = json!({ "blocking": !configuration.return_immediately });
        if let Some(object) = shape.as_object_mut() {
            put_list(
                object,
                "acceptedOutputModes",
                &configuration.accepted_output_modes,
            );
            put(object, "historyLength", &configuration.history_length);
            if let Some(push) = &configuration.task_push_notification_config {
                object.insert("pushNotificationConfig".to_owned(), push_config(push));
            }
        }
        object.insert("configuration".to_owned(), shape);
    }
    put(&mut object, "metadata", &send.metadata);
    object.into()
}

/// A configuration without the task it belongs to.
pub fn push_config(config: &TaskPushNotificationConfig) -> Value {
    let mut object = Map::new();
    object.insert("url".to_owned(), json!(config.url));
    put(&mut object, "id", &config.id);
    put(&mut object, "token", &config.token);
    if let Some(authentication) = &config.authentication {
        let mut shape = Map::new();
        shape.insert("schemes".to_owned(), json!([authentication.scheme]));
        put(&mut shape, "credentials", &authentication.credentials);
        object.insert("authentication".to_owned(), shape.into());
    }
    object.into()
}

/// A configuration with the task it belongs to.
pub fn task_push_config(config: &TaskPushNotificationConfig) -> Value {
    json!({
        "taskId": config.task_id.clone().unwrap_or_default(),
        "pushNotificationConfig": push_config(config),
    })
}

fn put<T: serde::Serialize>(object: &mut Object, key: &str, value: &Option<T>) {
    if let Some(value) = value {
        object.insert(key.to_owned(), json!(value));
    }
}

fn put_list(object: &mut Object, key: &str, values: &[String]) {
    if !values.is_empty() {
        object.insert(key.to_owned(), json!(values));
    }
}

#[cfg(test)]
#[path = "v03_tests.rs"]
mod tests;
