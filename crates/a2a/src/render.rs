//! Results in the words of either version.

use serde_json::{Value, json};
use wire::a2a::{
    Message, SendResponse, StreamResponse, Task, TaskPushNotificationConfig, Version, v03,
};

pub(crate) fn task(version: Version, task: &Task) -> Value {
    match version {
        Version::V1 => json!(task),
        Version::V03 => v03::task(task),
    }
}

pub(crate) fn sent_task(version: Version, task: Task) -> Value {
    let response = SendResponse::Task(task);
    match version {
        Version::V1 => json!(response),
        Version::V03 => v03::send_response(&response),
    }
}

pub(crate) fn sent_message(version: Version, message: Message) -> Value {
    let response = SendResponse::Message(message);
    match version {
        Version::V1 => json!(response),
        Version::V03 => v03::send_response(&response),
    }
}

pub(crate) fn update(version: Version, update: &StreamResponse) -> Value {
    match version {
        Version::V1 => json!(update),
        Version::V03 => v03::stream_response(update),
    }
}

pub(crate) fn push(version: Version, config: &TaskPushNotificationConfig) -> Value {
    match version {
        Version::V1 => json!(config),
        Version::V03 => v03::task_push_config(config),
    }
}

/// In 0.3 a bare list.
pub(crate) fn pushes(version: Version, configs: &[TaskPushNotificationConfig]) -> Value {
    match version {
        Version::V1 => json!({ "configs": configs }),
        Version::V03 => configs.iter().map(v03::task_push_config).collect(),
    }
}

/// Nothing, where something was deleted.
pub(crate) fn nothing(version: Version) -> Value {
    match version {
        Version::V1 => json!({}),
        Version::V03 => Value::Null,
    }
}
