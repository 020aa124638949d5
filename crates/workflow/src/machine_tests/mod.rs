//! Stories of runs: a file, what the world answers, and what the machine asked for.

mod flow;
mod groups;
mod property;
mod resume;
mod steps;

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::Timestamp;
use serde_json::{Map, Value};

use super::*;
use crate::world::FileKind;

#[derive(Debug, Default)]
pub(super) struct Desk {
    pub(super) files: BTreeMap<String, String>,
    pub(super) variables: BTreeMap<String, String>,
}

impl World for Desk {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }

    fn read(&self, _kind: FileKind, path: &str) -> Result<String, String> {
        self.files
            .get(path)
            .cloned()
            .ok_or_else(|| format!("{path} is not there"))
    }

    fn exists(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }
}

pub(super) fn plan_of(text: &str) -> Arc<Plan> {
    let loaded = crate::load(text, &|_| Err("no templates".to_owned()));
    Arc::new(
        loaded
            .plan
            .unwrap_or_else(|| panic!("{:#?}", loaded.problems)),
    )
}

/// A workflow with these states, the first of which is `a`, and terminals `done` and `bad`.
pub(super) fn states(text: &str) -> String {
    format!(
        "name: demo\nstates:\n  initial: a\n{text}\n  done: {{type: terminal, message: fine}}\n  bad: {{type: terminal, status: failure, message: 'bad: {{{{.error.message}}}}'}}\n"
    )
}

/// A run with a clock of its own and everything it has asked for.
pub(super) struct Run {
    pub(super) machine: Machine,
    pub(super) now: i64,
    pub(super) effects: Vec<Effect>,
}

impl Run {
    pub(super) fn new(text: &str) -> Self {
        Self::with(text, Map::new(), Desk::default())
    }

    pub(super) fn with(text: &str, inputs: Map<String, Value>, desk: Desk) -> Self {
        let setup = Setup {
            run: "r-1".to_owned(),
            inputs,
            seed: 7,
            ..Setup::default()
        };
        let machine = Machine::new(plan_of(text), setup, Arc::new(desk)).unwrap();
        Self {
            machine,
            now: 1000,
            effects: Vec::new(),
        }
    }

    /// Begins, and gives the effects.
    pub(super) fn begin(text: &str) -> Self {
        let mut run = Self::new(text);
        run.tell(Input::Begin);
        run
    }

    pub(super) fn tell(&mut self, input: Input) -> Vec<Effect> {
        let effects = self.machine.apply(input, Timestamp(self.now)).unwrap();
        // Every transition must survive being written down.
        let written = serde_json::to_string(self.machine.state()).unwrap();
        let read: State = serde_json::from_str(&written).unwrap();
        assert_eq!(
            &read,
            self.machine.state(),
            "a state reads back as it was written"
        );
        self.effects.extend(effects.clone());
        effects
    }

    pub(super) fn wait(&mut self, millis: i64) -> Vec<Effect> {
        self.now += millis;
        self.tell(Input::Tick)
    }

    /// The last thing started at this path that is still open.
    pub(super) fn open(&self, path: &str) -> &Start {
        let starts = self.effects.iter().rev().filter_map(|effect| match effect {
            Effect::Start(start) => Some(start),
            _ => None,
        });
        let mut open = starts.filter(|start| self.machine.state().open.contains_key(&start.ticket));
        open.find(|start| start.path == path)
            .unwrap_or_else(|| panic!("nothing is open at {path}: {:#?}", self.effects))
    }

    pub(super) fn ok(&mut self, path: &str, output: &str) -> Vec<Effect> {
        self.end(path, StepResult::succeeded(output))
    }

    pub(super) fn fail(&mut self, path: &str, code: i32) -> Vec<Effect> {
        self.end(path, StepResult::failed(code, "went wrong"))
    }

    pub(super) fn end(&mut self, path: &str, result: StepResult) -> Vec<Effect> {
        let ticket = self.open(path).ticket;
        self.tell(Input::Finished {
            ticket,
            result: Box::new(result),
        })
    }

    /// The command lines (or prompts) that were started, in order.
    pub(super) fn started(&self) -> Vec<String> {
        self.effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Start(start) => Some(match &start.action {
                    Action::Command(command) => command.line.clone(),
                    Action::Agent(agent) => agent.prompt.clone(),
                    Action::Operation(operation) => operation.name.clone(),
                    Action::Workflow(call) => call.workflow.clone(),
                    Action::Hook { command } => format!("hook {command}"),
                }),
                _ => None,
            })
            .collect()
    }

    pub(super) fn finish(&self) -> &Finish {
        self.machine
            .finish()
            .unwrap_or_else(|| panic!("not over: {:#?}", self.effects))
    }

    pub(super) fn outcome(&self) -> (Outcome, i32, &str) {
        let finish = self.finish();
        (finish.outcome, finish.exit_code, &finish.message)
    }

    pub(super) fn logs(&self) -> Vec<&str> {
        self.effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Log { message, .. } => Some(message.as_str()),
                _ => None,
            })
            .collect()
    }

    pub(super) fn approval(&self) -> &AskApproval {
        self.effects
            .iter()
            .rev()
            .find_map(|effect| match effect {
                Effect::AskApproval(ask) => Some(ask),
                _ => None,
            })
            .expect("somebody was asked")
    }

    pub(super) fn question(&self) -> &AskInput {
        self.effects
            .iter()
            .rev()
            .find_map(|effect| match effect {
                Effect::AskInput(ask) => Some(ask),
                _ => None,
            })
            .expect("somebody was asked")
    }
}
