//! One step of a file: its kind, and what every kind may have.

use crate::document::{Node, Place, Yaml};
use crate::plan::{INLINE_ERROR_PREFIX, Step, StepHooks, StepKind, Terminal, TerminalStatus};
use crate::problem::{Code, Severity, quoted};
use crate::reader::Mapping;

use super::{Loader, Places, Purpose};

/// Steps as files call them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Command,
    Agent,
    Parallel,
    Terminal,
    ForEach,
    While,
    Operation,
    CallWorkflow,
    Approval,
    /// An operation by its own name.
    Custom,
}

const WORDS: [(&str, Word); 10] = [
    ("step", Word::Command),
    ("command", Word::Command),
    ("agent", Word::Agent),
    ("parallel", Word::Parallel),
    ("terminal", Word::Terminal),
    ("for_each", Word::ForEach),
    ("while", Word::While),
    ("operation", Word::Operation),
    ("call_workflow", Word::CallWorkflow),
    ("approval", Word::Approval),
];

impl Loader<'_> {
    /// The step, and the terminal that its inline error stands for.
    pub(super) fn step(
        &self,
        name: &str,
        place: Place,
        node: &Node,
        places: &mut Places,
    ) -> (Option<Step>, Option<Step>) {
        let Some(node) = self.expanded(node) else {
            return (None, None);
        };
        let Some(map) = node.mapping(self.findings) else {
            return (None, None);
        };
        self.check_name(name, place);
        let word = self.word(&map);
        let kind = word.and_then(|word| self.kind(word, name, &map, places));
        let mut target = |key: &'static str| {
            let node = map.get(key)?;
            let text = node.text(self.findings)?;
            places
                .targets
                .push((name.to_owned(), key.to_owned(), node.place));
            Some(text)
        };
        let on_success = target("on_success");
        let on_complete = target("on_complete");
        let (on_failure, terminal) = match map.get("on_failure") {
            Some(node) if matches!(node.value, Yaml::Map(_)) => self.inline_error(name, node),
            Some(_) => (target("on_failure"), None),
            None => (None, None),
        };
        let transitions = self.transitions(&map, name, places);
        let mut approval = self.approval(&map, name);
        if kind == Some(StepKind::Gate) && approval.is_none() {
            approval = Some(self.bare_approval(&map, name));
        }
        // Read before it is known whether the step can be used: every problem is told at once.
        let rest = Step {
            name: name.to_owned(),
            description: map.text("description").unwrap_or_default(),
            line: place.line,
            kind: StepKind::Gate,
            transitions,
            on_success: on_complete.or(on_success),
            on_failure,
            continue_on_error: self.flag(&map, "continue_on_error"),
            retry: self.retry(&map),
            timeout: map
                .get("timeout")
                .and_then(|node| node.duration(self.findings)),
            hooks: self.step_hooks(&map, name),
            approval,
            idempotent: map
                .get("idempotent")
                .and_then(|node| node.boolean(self.findings)),
        };
        let step = kind.map(|kind| Step { kind, ..rest });
        // Understood by other tools, without a meaning here.
        map.get("depends_on");
        if word.is_some() {
            // Which keys are right depends on the kind.
            map.warn_of_unknown(
                &format!("step {}", quoted(name)),
                Severity::Warning,
                Code::UnknownField,
            );
        }
        (step, terminal)
    }

    fn check_name(&self, name: &str, place: Place) {
        let is_fine = |character: char| character.is_alphanumeric() || "_-.".contains(character);
        if name.is_empty() || !name.chars().all(is_fine) || name.starts_with(INLINE_ERROR_PREFIX) {
            let message = format!("{} is not a name for a step", quoted(name));
            self.findings.error(place, Code::InvalidValue, message);
        }
    }

    pub(super) fn flag(&self, map: &Mapping<'_>, key: &'static str) -> bool {
        map.get(key)
            .and_then(|node| node.boolean(self.findings))
            .unwrap_or(false)
    }

    fn word(&self, map: &Mapping<'_>) -> Option<Word> {
        let Some(node) = map.get("type") else {
            return self.guessed(map);
        };
        let written = node.text(self.findings)?;
        let mut words = WORDS.iter();
        let is_known = words.any(|(word, _)| word.eq_ignore_ascii_case(written.trim()));
        if !is_known && written.contains('.') {
            // A type with a dot is an operation by its own name.
            return Some(Word::Custom);
        }
        node.choice(self.findings, &WORDS)
    }

    fn kind(
        &self,
        word: Word,
        name: &str,
        map: &Mapping<'_>,
        places: &mut Places,
    ) -> Option<StepKind> {
        match word {
            Word::Command => self.command(map, name).map(StepKind::Command),
            Word::Agent => self.agent(map, name).map(StepKind::Agent),
            Word::Parallel => self.parallel(map, name, places).map(StepKind::Parallel),
            Word::Terminal => Some(StepKind::Terminal(self.terminal(map, name))),
            Word::ForEach => self.for_each(map, name, places).map(StepKind::ForEach),
            Word::While => self.while_loop(map, name, places).map(StepKind::While),
            Word::Operation => self.operation(map, name).map(StepKind::Operation),
            Word::CallWorkflow => self.workflow_call(map, name).map(StepKind::Workflow),
            Word::Approval => Some(StepKind::Gate),
            Word::Custom => {
                let written = map.text("type")?;
                let operation = self.custom_operation(map, name, &written);
                Some(StepKind::Operation(operation))
            }
        }
    }

    fn guessed(&self, map: &Mapping<'_>) -> Option<Word> {
        let guesses = [
            ("command", Word::Command),
            ("script_file", Word::Command),
            ("prompt", Word::Agent),
            ("prompt_file", Word::Agent),
            ("provider", Word::Agent),
            ("parallel", Word::Parallel),
            ("items", Word::ForEach),
            ("while", Word::While),
            ("operation", Word::Operation),
            ("workflow", Word::CallWorkflow),
            ("call_workflow", Word::CallWorkflow),
            ("approval", Word::Approval),
            ("status", Word::Terminal),
        ];
        let found = guesses.iter().find(|(key, _)| map.has(key));
        let Some((key, word)) = found else {
            map.missing("type");
            return None;
        };
        let message = format!("type is missing; taken from the key {key}");
        self.findings
            .warning(map.place, Code::MissingField, message);
        Some(*word)
    }

    fn step_hooks(&self, map: &Mapping<'_>, step: &str) -> StepHooks {
        let Some(hooks) = map
            .get("hooks")
            .and_then(|node| node.mapping(self.findings))
        else {
            return StepHooks::default();
        };
        let read = |key| {
            hooks
                .get(key)
                .map(|node| self.hooks(node, step))
                .unwrap_or_default()
        };
        let found = StepHooks {
            pre: read("pre"),
            post: read("post"),
        };
        hooks.warn_of_unknown("the hooks of a step", Severity::Warning, Code::UnknownField);
        found
    }

    fn terminal(&self, map: &Mapping<'_>, step: &str) -> Terminal {
        let statuses = [
            ("success", TerminalStatus::Success),
            ("failure", TerminalStatus::Failure),
        ];
        let status = map
            .get("status")
            .and_then(|node| node.choice(self.findings, &statuses));
        let status = status.unwrap_or_default();
        let exit_code = map
            .get("exit_code")
            .and_then(|node| node.integer(self.findings, 0, 255));
        let default = match status {
            TerminalStatus::Success => 0,
            TerminalStatus::Failure => 1,
        };
        Terminal {
            status,
            message: self.optional_template(map, "message", step),
            exit_code: exit_code.map_or(default, |code| i32::try_from(code).unwrap_or(default)),
        }
    }

    /// `on_failure: {message, status}` is a terminal without a name of its own.
    fn inline_error(&self, step: &str, node: &Node) -> (Option<String>, Option<Step>) {
        let Some(map) = node.mapping(self.findings) else {
            return (None, None);
        };
        let name = format!("{INLINE_ERROR_PREFIX}{step}");
        let message = match map.get("message") {
            Some(node) => self.template(node, step, Purpose::Other),
            None => {
                map.missing("the message of on_failure");
                None
            }
        };
        let exit_code = map
            .get("status")
            .and_then(|node| node.integer(self.findings, 1, 255));
        map.warn_of_unknown(
            "an inline on_failure",
            Severity::Warning,
            Code::UnknownField,
        );
        let terminal = Terminal {
            status: TerminalStatus::Failure,
            message,
            exit_code: exit_code.map_or(1, |code| i32::try_from(code).unwrap_or(1)),
        };
        let made = Step {
            name: name.clone(),
            description: String::new(),
            line: node.place.line,
            kind: StepKind::Terminal(terminal),
            transitions: Vec::new(),
            on_success: None,
            on_failure: None,
            continue_on_error: false,
            retry: None,
            timeout: None,
            hooks: StepHooks::default(),
            approval: None,
            idempotent: None,
        };
        (Some(name), Some(made))
    }
}
