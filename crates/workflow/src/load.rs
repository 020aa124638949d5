//! From the text of a file to a checked plan, or to every problem in it.

mod actions;
mod expand;
mod flow;
mod inputs;
mod steps;

use std::cell::RefCell;

use crate::check;
use crate::document::{self, Node, Place, Yaml};
use crate::plan::{Hook, Plan, WorkflowHooks};
use crate::problem::{Code, Problem, Severity, quoted};
use crate::reader::{Findings, Mapping};
use crate::template;

/// The text of a step template by its name (`.awf/templates/NAME.yaml`), or why it cannot be had.
pub type TemplateLookup<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// What became of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// Only if no problem is an error.
    pub plan: Option<Plan>,
    /// In the order of the file; warnings too.
    pub problems: Vec<Problem>,
    /// Roles and skills that are named outright; whoever has the folders can say which of them are there.
    pub mentions: Vec<Mention>,
}

/// A role or a skill that a step gives its agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    pub kind: Mentioned,
    pub name: String,
    pub line: u64,
    pub column: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mentioned {
    Role,
    Skill,
}

impl Mention {
    /// What is wrong where there is none of that name.
    pub fn missing(&self) -> Problem {
        let (code, word, hint) = match self.kind {
            Mentioned::Role => (
                Code::InputMissingRole,
                "role",
                "roles are NAME/AGENTS.md in .agentcraft/roles, .awf/roles, .agents/roles or your home's",
            ),
            Mentioned::Skill => (
                Code::InputMissingSkill,
                "skill",
                "skills are NAME/SKILL.md in .agentcraft/skills, .awf/skills, .agents/skills, .claude/skills or your home's",
            ),
        };
        Problem {
            code,
            severity: Severity::Warning,
            line: self.line,
            column: self.column,
            message: format!(
                "there is no {word} {}, so the step will fail",
                quoted(&self.name)
            ),
            hint: Some(hint.to_owned()),
        }
    }
}

/// Bytes of a workflow file; what is longer was not written by hand.
pub const WORKFLOW_FILE_MAX: usize = 4 * 1024 * 1024;

/// Reads and checks a workflow.
pub fn load(text: &str, templates: TemplateLookup<'_>) -> Loaded {
    let failed = |problem: Problem| Loaded {
        plan: None,
        problems: vec![problem],
        mentions: Vec::new(),
    };
    if text.len() > WORKFLOW_FILE_MAX {
        let message = format!("the file is longer than {WORKFLOW_FILE_MAX} bytes");
        return failed(Problem::placeless(Code::YamlSyntax, message));
    }
    let root = match document::parse(text) {
        Ok(root) => root,
        Err(problem) => return failed(problem),
    };
    let findings = Findings::default();
    let loader = Loader {
        findings: &findings,
        templates,
        texts: RefCell::default(),
        conditions: RefCell::default(),
        mentions: RefCell::default(),
    };
    let plan = loader.workflow(&root);
    if let Some((plan, places)) = &plan {
        let (texts, conditions) = (loader.texts.take(), loader.conditions.take());
        check::run(plan, places, &texts, &conditions, &findings);
    }
    let has_errors = findings.has_errors();
    Loaded {
        plan: plan.map(|(plan, _)| plan).filter(|_| !has_errors),
        mentions: loader.mentions.take(),
        problems: findings.into_problems(),
    }
}

/// Where the parts of a plan are in the file.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pub(crate) initial: Place,
    /// (step, key, place of the value).
    pub(crate) targets: Vec<(String, String, Place)>,
    /// (step, place of its name).
    pub(crate) steps: Vec<(String, Place)>,
}

impl Places {
    pub(crate) fn step(&self, name: &str) -> Place {
        let found = self.steps.iter().find(|(step, _)| step == name);
        found.map(|(_, place)| *place).unwrap_or_default()
    }
}

/// A text with template actions, and where it stands.
#[derive(Debug)]
pub(crate) struct TextUse {
    pub(crate) place: Place,
    pub(crate) text: String,
    /// Empty for those of the workflow.
    pub(crate) step: String,
    pub(crate) purpose: Purpose,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Becomes part of a shell's command line.
    Command,
    Hook,
    HookCommand,
    /// Evaluated when everything is over.
    Output,
    Other,
}

#[derive(Debug)]
pub(crate) struct ConditionUse {
    pub(crate) place: Place,
    pub(crate) text: String,
    pub(crate) step: String,
}

pub(super) struct Loader<'a> {
    pub(super) findings: &'a Findings,
    pub(super) templates: TemplateLookup<'a>,
    texts: RefCell<Vec<TextUse>>,
    conditions: RefCell<Vec<ConditionUse>>,
    mentions: RefCell<Vec<Mention>>,
}

impl Loader<'_> {
    fn workflow(&self, root: &Node) -> Option<(Plan, Places)> {
        let top = root.mapping(self.findings)?;
        let name = match top.text("name") {
            Some(name) if !name.trim().is_empty() => name,
            Some(_) | None => {
                top.missing("name");
                String::new()
            }
        };
        let mut places = Places::default();
        let tags = top.get("tags").map(|node| node.texts(self.findings));
        let environment = top.get("env").map(|node| node.texts(self.findings));
        top.get("plugins");
        let inputs = top
            .get("inputs")
            .map(|node| self.inputs(node))
            .unwrap_or_default();
        let hooks = top
            .get("hooks")
            .map(|node| self.workflow_hooks(node))
            .unwrap_or_default();
        let outputs = top
            .get("outputs")
            .map(|node| self.outputs(node))
            .unwrap_or_default();
        let states = match top.get("states") {
            Some(node) => self.states(node, &mut places),
            None => {
                top.missing("states");
                None
            }
        };
        let strings = |texts: Option<Vec<(Place, String)>>| {
            texts
                .unwrap_or_default()
                .into_iter()
                .map(|(_, text)| text)
                .collect()
        };
        let plan = Plan {
            name,
            description: top.text("description").unwrap_or_default(),
            version: top.text("version").unwrap_or_default(),
            author: top.text("author").unwrap_or_default(),
            tags: strings(tags),
            inputs,
            environment: strings(environment),
            initial: String::new(),
            steps: crate::plan::Steps::default(),
            hooks,
            outputs,
        };
        top.warn_of_unknown("a workflow", Severity::Warning, Code::UnknownField);
        let (initial, steps) = states?;
        Some((
            Plan {
                initial,
                steps: steps.into(),
                ..plan
            },
            places,
        ))
    }

    fn states(&self, node: &Node, places: &mut Places) -> Option<(String, Vec<crate::plan::Step>)> {
        let states = node.mapping(self.findings)?;
        let initial = match states.get("initial") {
            Some(node) => {
                places.initial = node.place;
                node.text(self.findings)?
            }
            None => {
                states.missing("states.initial");
                String::new()
            }
        };
        let mut steps = Vec::new();
        for entry in states.entries.iter().filter(|entry| entry.key != "initial") {
            places.steps.push((entry.key.clone(), entry.place));
            let (step, terminal) = self.step(&entry.key, entry.place, &entry.value, places);
            steps.extend(step);
            steps.extend(terminal);
        }
        if places.steps.is_empty() {
            states.missing("a step below states");
        }
        // What was made from inline errors is not part of what people wrote.
        steps.sort_by_key(|step| step.name.starts_with(crate::plan::INLINE_ERROR_PREFIX));
        Some((initial, steps))
    }

    fn workflow_hooks(&self, node: &Node) -> WorkflowHooks {
        let Some(map) = node.mapping(self.findings) else {
            return WorkflowHooks::default();
        };
        let read = |key| {
            map.get(key)
                .map(|node| self.hooks(node, ""))
                .unwrap_or_default()
        };
        let hooks = WorkflowHooks {
            start: read("workflow_start"),
            end: read("workflow_end"),
            error: read("workflow_error"),
            cancel: read("workflow_cancel"),
        };
        map.warn_of_unknown(
            "the hooks of a workflow",
            Severity::Warning,
            Code::UnknownField,
        );
        hooks
    }

    pub(super) fn hooks(&self, node: &Node, step: &str) -> Vec<Hook> {
        let one = std::slice::from_ref(node);
        let items = if let Yaml::Map(_) = &node.value {
            one
        } else {
            node.list(self.findings).unwrap_or_default()
        };
        let mut hooks = Vec::new();
        for item in items {
            let Some(map) = item.mapping(self.findings) else {
                continue;
            };
            if let Some(log) = map.get("log") {
                hooks.extend(self.template(log, step, Purpose::Hook).map(Hook::Log));
            }
            if let Some(command) = map.get("command") {
                hooks.extend(
                    self.template(command, step, Purpose::HookCommand)
                        .map(Hook::Command),
                );
            }
            if !map.has("log") && !map.has("command") {
                self.findings.error(
                    item.place,
                    Code::MissingField,
                    "a hook needs log or command",
                );
            }
            map.warn_of_unknown("a hook", Severity::Warning, Code::UnknownField);
        }
        hooks
    }

    /// A mapping of names to templates, or a list of `{name, value}`.
    fn outputs(&self, node: &Node) -> Vec<(String, String)> {
        if let Yaml::List(items) = &node.value {
            let read = |item: &Node| {
                let map = item.mapping(self.findings)?;
                let name = map.text("name")?;
                map.get("description");
                let value = map.get("value").or_else(|| map.get("from"))?;
                Some((name, self.template(value, "", Purpose::Output)?))
            };
            return items.iter().filter_map(read).collect();
        }
        let Some(map) = node.mapping(self.findings) else {
            return Vec::new();
        };
        map.entries
            .iter()
            .filter_map(|entry| {
                let text = self.template(&entry.value, "", Purpose::Output)?;
                Some((entry.key.clone(), text))
            })
            .collect()
    }

    /// A text that may hold template actions; remembered for the checks.
    pub(super) fn template(&self, node: &Node, step: &str, purpose: Purpose) -> Option<String> {
        let text = node.text(self.findings)?;
        self.note_text(node.place, &text, step, purpose);
        Some(text)
    }

    /// Remembers a name that is no template.
    pub(super) fn note_mention(&self, place: Place, kind: Mentioned, name: &str) {
        if !template::is_template(name) {
            self.mentions.borrow_mut().push(Mention {
                kind,
                name: name.to_owned(),
                line: place.line,
                column: place.column,
            });
        }
    }

    pub(super) fn note_text(&self, place: Place, text: &str, step: &str, purpose: Purpose) {
        if template::is_template(text) {
            self.texts.borrow_mut().push(TextUse {
                place,
                text: text.to_owned(),
                step: step.to_owned(),
                purpose,
            });
        }
    }

    /// Remembers every text inside a value.
    pub(super) fn note_texts_within(&self, node: &Node, step: &str) {
        match &node.value {
            Yaml::Text(text) => self.note_text(node.place, text, step, Purpose::Other),
            Yaml::List(items) => items
                .iter()
                .for_each(|item| self.note_texts_within(item, step)),
            Yaml::Map(entries) => entries
                .iter()
                .for_each(|entry| self.note_texts_within(&entry.value, step)),
            Yaml::Null | Yaml::Bool(_) | Yaml::Number(..) => {}
        }
    }

    pub(super) fn condition(&self, node: &Node, step: &str) -> Option<String> {
        let text = node.text(self.findings)?;
        self.conditions.borrow_mut().push(ConditionUse {
            place: node.place,
            text: text.clone(),
            step: step.to_owned(),
        });
        Some(text)
    }

    pub(super) fn optional_template(
        &self,
        map: &Mapping<'_>,
        key: &'static str,
        step: &str,
    ) -> Option<String> {
        self.template(map.get(key)?, step, Purpose::Other)
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
