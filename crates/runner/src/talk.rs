//! One conversation of somebody who runs workflows: where it takes place, what it offers, and the run that waits in it.

use std::{
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use domain::turn::{Dialect, EventKind, Raw};
use engine::SessionSink;
use serde_json::{Value, json};

use crate::{choices::Choices, parked::Parked, servers::Servers};

#[derive(Debug)]
pub(crate) struct Talk {
    pub(crate) id: String,
    pub(crate) sink: SessionSink,
    pub(crate) cwd: PathBuf,
    pub(crate) servers: Servers,
    /// One turn at a time; the session sees to that.
    pub(crate) run: tokio::sync::Mutex<Option<Parked>>,
    /// An earlier process may have left a run that waits here; asked once.
    left: AtomicBool,
    choices: Mutex<Choices>,
    /// The commands that were told last.
    told: Mutex<Value>,
}

impl Talk {
    pub(crate) fn new(id: String, sink: SessionSink, cwd: PathBuf, servers: Servers) -> Self {
        Self {
            id,
            sink,
            cwd,
            servers,
            run: tokio::sync::Mutex::default(),
            left: AtomicBool::new(false),
            choices: Mutex::default(),
            told: Mutex::default(),
        }
    }

    /// One that an earlier process had opened.
    pub(crate) fn taken_up(self) -> Self {
        self.left.store(true, Ordering::Relaxed);
        self
    }

    /// Whether a run may have been left here; true at most once.
    pub(crate) fn may_have_left(&self) -> bool {
        self.left.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn choices(&self) -> MutexGuard<'_, Choices> {
        self.choices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells an editor which commands there are, in the words of its protocol, unless it knows them.
    pub(crate) fn offer(&self, commands: Vec<Value>) {
        let commands = Value::Array(commands);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if *told == commands {
            return;
        }
        self.tell(
            "available_commands_update",
            &json!({ "availableCommands": &commands }),
        );
        *told = commands;
    }

    /// An update that only the editor's protocol has words for.
    pub(crate) fn tell(&self, name: &str, members: &Value) {
        let mut update = members.clone();
        update["sessionUpdate"] = name.into();
        let frame = json!({ "sessionId": self.id, "update": update });
        let raw = Raw {
            dialect: Dialect::Acp,
            frame: frame.to_string().into(),
        };
        let kind = EventKind::Other {
            name: name.to_owned(),
        };
        self.sink.emit(kind, Some(raw));
    }
}
