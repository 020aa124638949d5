//! What runs may use of the machine and of the node.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use domain::Trace;
use engine::{DriverSurroundings, Drivers, Engine, Records};
use serde_json::{Map, Value};
use workflow::{InputKind, InputSpec, Mask, Plan, SECRET_NAMES, is_secret_name};

use crate::{choices::Choices, folders::FilePlaces, found::Shelf, servers::Servers};

/// Given by whoever assembles the program; clones share everything.
#[derive(Debug, Clone)]
pub struct Surroundings {
    pub around: DriverSurroundings,
    pub drivers: Drivers,
    /// Agents and templates of the node, once there is an engine.
    pub engine: Arc<OnceLock<Engine>>,
    /// The program that speaks for the agents of the daemon, where this node is not the daemon.
    pub elsewhere: Option<PathBuf>,
    /// Where runs are written down.
    pub records: Records,
    /// Where each run has a folder for what is too long for the records.
    pub folder: PathBuf,
    pub shelf: Shelf,
    /// Parts of names that make a variable secret, beside those that always do.
    pub secret_names: Vec<String>,
    /// The user's home folder, in which roles and skills are looked for too.
    pub user_home: Option<PathBuf>,
}

impl Surroundings {
    /// Secrets of the environment that runs see.
    pub fn mask(&self) -> Mask {
        mask(&self.around.environment, &self.secret_names)
    }

    /// Those secrets themselves, to be kept with a run.
    pub(crate) fn secrets(&self) -> BTreeSet<String> {
        secrets(&self.around.environment, &self.secret_names)
    }
}

/// A mask of the secrets of an environment; `more` are parts of names beside those that always make a variable secret.
pub fn mask(environment: &BTreeMap<OsString, OsString>, more: &[String]) -> Mask {
    Mask::of_values(secrets(environment, more))
}

/// The values of inputs whose names say that they are secret. Numbers and yes or no are none.
pub(crate) fn secret_inputs(inputs: &Map<String, Value>, more: &[String]) -> BTreeSet<String> {
    let parts = parts(more);
    let secret = inputs.iter().filter_map(|(name, value)| {
        let value = value.as_str().filter(|value| !value.is_empty())?;
        is_secret_name(name, &parts).then(|| value.to_owned())
    });
    secret.collect()
}

/// Whether the values of an input are never shown.
pub(crate) fn is_secret_input(spec: &InputSpec, more: &[String]) -> bool {
    spec.kind == InputKind::String && is_secret(&spec.name, more)
}

/// Whether a name says that its value is secret.
pub(crate) fn is_secret(name: &str, more: &[String]) -> bool {
    is_secret_name(name, &parts(more))
}

/// A workflow as it may be shown: without what is usual for an input that is a secret.
#[must_use]
pub fn shown(plan: Plan, more: &[String]) -> Plan {
    with_secret_defaults(plan, more, || Some(Value::String("***".to_owned())))
}

/// A workflow as it may be offered: what is usual for a secret is nothing that anybody could send back.
#[must_use]
pub fn offered(plan: Plan, more: &[String]) -> Plan {
    with_secret_defaults(plan, more, || None)
}

fn with_secret_defaults(
    mut plan: Plan,
    more: &[String],
    instead: impl Fn() -> Option<Value>,
) -> Plan {
    for spec in &mut plan.inputs {
        if spec.default.is_some() && is_secret_input(spec, more) {
            spec.default = instead();
            spec.required = false; // It has one.
        }
    }
    plan
}

/// Parts of names that make a variable or an input secret.
fn parts(more: &[String]) -> Vec<&str> {
    let more = more.iter().map(String::as_str);
    SECRET_NAMES.into_iter().chain(more).collect()
}

fn secrets(environment: &BTreeMap<OsString, OsString>, more: &[String]) -> BTreeSet<String> {
    let parts = parts(more);
    let is_secret = |name: &OsString| is_secret_name(&name.to_string_lossy(), &parts);
    environment
        .iter()
        .filter(|(name, value)| is_secret(name) && !value.is_empty())
        .map(|(_, value)| value.to_string_lossy().into_owned())
        .collect()
}

/// What one run has beside that.
#[derive(Debug, Clone)]
pub(crate) struct Scene {
    pub(crate) node: Surroundings,
    /// The working directory of the run.
    pub(crate) cwd: PathBuf,
    /// MCP servers that whoever asked for the run brings along; they win over those of a step.
    pub(crate) servers: Servers,
    /// What whoever asked for the run has chosen for its agents.
    pub(crate) choices: Choices,
    /// What the turns of its agents belong to.
    pub(crate) trace: Option<Trace>,
    /// Where its files are looked for.
    pub(crate) places: FilePlaces,
}

impl Scene {
    /// The variables that commands and programs of the run have.
    pub(crate) fn environment(&self) -> &BTreeMap<OsString, OsString> {
        &self.node.around.environment
    }

    /// What a driver may use, with its processes tagged so.
    pub(crate) fn surroundings(&self, tag: String) -> DriverSurroundings {
        DriverSurroundings {
            agent: tag,
            workspace: self.cwd.clone(),
            ..self.node.around.clone()
        }
    }
}

/// The path of a step as part of a name: letters, digits and dashes.
pub(crate) fn plain(step: &str) -> String {
    const LETTERS: usize = 40;
    let plain = |letter: char| match letter.is_ascii_alphanumeric() {
        true => letter,
        false => '-',
    };
    step.chars().map(plain).take(LETTERS).collect()
}
