//! What templates and expressions see at one moment of a run, as one JSON tree.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::duration::format_duration;
use crate::machine::{Failure, Record, Setup};
use crate::template::Reference;
use crate::world::World;

/// Borrowed views of a run. Only what a text refers to is copied, since outputs are large.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) workflow: &'a str,
    pub(crate) setup: &'a Setup,
    pub(crate) records: &'a BTreeMap<String, Record>,
    /// Loops around this point, the innermost first.
    pub(crate) loops: &'a [LoopView],
    pub(crate) failure: Option<&'a Failure>,
    pub(crate) elapsed: Duration,
    /// The step in progress; empty for the hooks of the workflow.
    pub(crate) current: &'a str,
    pub(crate) world: &'a Arc<dyn World>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LoopView {
    pub(crate) item: Value,
    pub(crate) index: u32,
    /// Unknown for `while`, shown as -1.
    pub(crate) length: Option<u32>,
}

/// Properties of a step's state.
pub(crate) const STATE_PROPERTIES: [&str; 15] = [
    "Output",
    "OutputPath",
    "Stderr",
    "StderrPath",
    "Truncated",
    "ExitCode",
    "Status",
    "Response",
    "JSON",
    "Data",
    "Error",
    "TokensUsed",
    "TokensInput",
    "TokensOutput",
    "TokensEstimated",
];

impl Scope<'_> {
    /// The tree for a text that has these references.
    pub(crate) fn tree(&self, references: &[Reference]) -> Value {
        let mut states = Map::new();
        let mut variables = Map::new();
        let mut add_state = |name: &str| {
            if let Some(record) = self.records.get(name) {
                states.insert(name.to_owned(), state_of(record));
            }
        };
        for reference in references {
            match (reference.part(0), reference.part(1)) {
                (Some("states"), Some(name)) => add_state(name),
                (Some("states") | None, None) => {
                    self.records.keys().for_each(|name| add_state(name))
                }
                (Some("env"), Some(name)) => {
                    if let Some(value) = self.world.variable(name) {
                        variables.insert(name.to_owned(), Value::String(value));
                    }
                }
                _ => {}
            }
        }
        let mut tree = Map::new();
        tree.insert("inputs".into(), Value::Object(self.setup.inputs.clone()));
        tree.insert("states".into(), Value::Object(states));
        tree.insert("env".into(), Value::Object(variables));
        tree.insert("workflow".into(), self.workflow());
        tree.insert("context".into(), self.context());
        tree.insert("awf".into(), json!(self.setup.directories));
        if !self.loops.is_empty() {
            tree.insert("loop".into(), loop_of(self.loops));
        }
        if let Some(failure) = self.failure {
            tree.insert("error".into(), error_of(failure));
        }
        Value::Object(tree)
    }

    fn workflow(&self) -> Value {
        let duration = format_duration(self.elapsed);
        json!({
            "id": self.setup.run, "ID": self.setup.run,
            "name": self.workflow, "Name": self.workflow,
            "duration": duration, "Duration": duration,
            "current_state": self.current, "CurrentState": self.current,
            "parent_run_id": self.setup.parent_run,
        })
    }

    fn context(&self) -> Value {
        let setup = self.setup;
        json!({
            "working_dir": setup.working_dir, "WorkingDir": setup.working_dir,
            "user": setup.user, "User": setup.user,
            "hostname": setup.hostname, "Hostname": setup.hostname,
        })
    }
}

fn state_of(record: &Record) -> Value {
    json!({
        "Output": record.output,
        "OutputPath": record.output_path.clone().unwrap_or_default(),
        "Stderr": record.stderr,
        "StderrPath": record.stderr_path.clone().unwrap_or_default(),
        "Truncated": record.truncated,
        "ExitCode": record.exit_code,
        "Status": record.status.word(),
        "Response": record.response,
        "JSON": record.json,
        "Data": record.data,
        "Error": record.error.clone().unwrap_or_default(),
        "TokensUsed": record.tokens.input.saturating_add(record.tokens.output),
        "TokensInput": record.tokens.input,
        "TokensOutput": record.tokens.output,
        "TokensEstimated": record.tokens.estimated,
    })
}

/// A step that has not run, as expressions see it: conditions about it are false rather than errors.
pub(crate) fn state_of_nothing() -> Value {
    let mut state = state_of(&Record::default());
    state["Status"] = json!("pending");
    state
}

fn loop_of(loops: &[LoopView]) -> Value {
    let Some((inner, outer)) = loops.split_first() else {
        return Value::Null;
    };
    let is_last = inner.length.is_some_and(|length| inner.index + 1 == length);
    let length = inner.length.map_or(-1, i64::from);
    let parent = loop_of(outer);
    json!({
        "Item": inner.item, "item": inner.item,
        "Index": inner.index, "index": inner.index,
        "Index1": inner.index + 1, "index1": inner.index + 1,
        "First": inner.index == 0, "first": inner.index == 0,
        "Last": is_last, "last": is_last,
        "Length": length, "length": length,
        "Parent": parent, "parent": parent,
    })
}

fn error_of(failure: &Failure) -> Value {
    let code = failure.code.as_str();
    json!({
        "message": failure.message, "Message": failure.message,
        "type": code, "Type": code,
        "exit_code": failure.exit_code, "ExitCode": failure.exit_code,
        "state": failure.step, "State": failure.step,
    })
}
