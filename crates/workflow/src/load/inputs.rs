//! The inputs of a file: a list of `{name, …}`, or a mapping of names.

use crate::document::{Node, Yaml};
use crate::plan::{InputKind, InputSpec, InputValidation};
use crate::problem::{Code, Severity};
use crate::reader::Mapping;

use super::Loader;

const KINDS: [(&str, InputKind); 8] = [
    ("string", InputKind::String),
    ("integer", InputKind::Integer),
    ("boolean", InputKind::Boolean),
    ("int", InputKind::Integer),
    ("number", InputKind::Integer),
    ("bool", InputKind::Boolean),
    ("text", InputKind::String),
    ("file", InputKind::String),
];

impl Loader<'_> {
    pub(super) fn inputs(&self, node: &Node) -> Vec<InputSpec> {
        let mut specs: Vec<InputSpec> = Vec::new();
        let mut keep = |spec: Option<InputSpec>, node: &Node| {
            let Some(spec) = spec else { return };
            if specs.iter().any(|known| known.name == spec.name) {
                let message = format!("input {:?} is declared twice", spec.name);
                self.findings.error(node.place, Code::InvalidValue, message);
            } else {
                specs.push(spec);
            }
        };
        if let Yaml::Map(entries) = &node.value {
            for entry in entries {
                let spec = entry
                    .value
                    .mapping(self.findings)
                    .and_then(|map| self.input(&map, Some(entry.key.clone())));
                keep(spec, &entry.value);
            }
        } else {
            for item in node.list(self.findings).unwrap_or_default() {
                let spec = item
                    .mapping(self.findings)
                    .and_then(|map| self.input(&map, None));
                keep(spec, item);
            }
        }
        specs
    }

    fn input(&self, map: &Mapping<'_>, name: Option<String>) -> Option<InputSpec> {
        let name = match name.or_else(|| map.text("name")) {
            Some(name) if !name.is_empty() => name,
            Some(_) | None => {
                map.missing("the name of the input");
                return None;
            }
        };
        let kind = map
            .get("type")
            .and_then(|node| node.choice(self.findings, &KINDS));
        let mut validation = map
            .get("validation")
            .and_then(|node| node.mapping(self.findings))
            .map(|map| self.validation(&map))
            .unwrap_or_default();
        if let Some(node) = map.get("enum") {
            validation.choices = node
                .texts(self.findings)
                .into_iter()
                .map(|(_, text)| text)
                .collect();
        }
        let spec = InputSpec {
            kind: kind.unwrap_or_default(),
            description: map.text("description").unwrap_or_default(),
            required: map
                .get("required")
                .and_then(|node| node.boolean(self.findings))
                .unwrap_or(false),
            default: map.get("default").map(Node::to_json),
            validation,
            name,
        };
        self.check_default(map, &spec);
        map.warn_of_unknown("an input", Severity::Warning, Code::UnknownField);
        Some(spec)
    }

    fn validation(&self, map: &Mapping<'_>) -> InputValidation {
        let texts = |key| {
            let node = map.get(key);
            let texts = node
                .map(|node| node.texts(self.findings))
                .unwrap_or_default();
            texts.into_iter().map(|(_, text)| text).collect()
        };
        let number = |key| map.get(key)?.integer(self.findings, i64::MIN, i64::MAX);
        let validation = InputValidation {
            pattern: map.text("pattern"),
            choices: texts("enum"),
            min: number("min"),
            max: number("max"),
            file_exists: map
                .get("file_exists")
                .and_then(|node| node.boolean(self.findings))
                .unwrap_or(false),
            file_extension: texts("file_extension"),
        };
        if let Some(pattern) = &validation.pattern
            && let Err(error) = regex::Regex::new(pattern)
        {
            let words = error.to_string();
            let words = words.lines().last().unwrap_or_default().trim().to_owned();
            self.findings.error(
                map.place_of("pattern"),
                Code::InvalidValue,
                format!("the pattern cannot be used: {words}"),
            );
        }
        if let (Some(min), Some(max)) = (validation.min, validation.max)
            && min > max
        {
            let message = format!("min {min} is above max {max}");
            self.findings
                .error(map.place_of("min"), Code::InvalidValue, message);
        }
        map.warn_of_unknown("a validation", Severity::Warning, Code::UnknownField);
        validation
    }

    fn check_default(&self, map: &Mapping<'_>, spec: &InputSpec) {
        let Some(default) = &spec.default else { return };
        let is_fine = match spec.kind {
            InputKind::String => !default.is_array() && !default.is_object(),
            InputKind::Integer => {
                default.is_i64()
                    || default
                        .as_str()
                        .is_some_and(|text| text.parse::<i64>().is_ok())
            }
            InputKind::Boolean => {
                default.is_boolean()
                    || default
                        .as_str()
                        .is_some_and(|text| text.parse::<bool>().is_ok())
            }
        };
        if !is_fine {
            self.findings.error(
                map.place_of("default"),
                Code::InvalidValue,
                format!(
                    "the default of {:?} is not of type {}",
                    spec.name,
                    spec.kind.word()
                ),
            );
        }
    }
}
