//! Reading the written form of a policy: `rules` in full, or the short lists `allow`, `ask` and `deny`.
//!
//! All that is wrong is told at once, each with its place and, for a wrong word, the nearest right one.

use std::fmt;

use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};

use super::{
    CommandPattern, Decision, PathPattern, Pattern, PatternError, Place, Policy, RULES_MAX, Rule,
};
use crate::turn::ToolKind;

/// How many problems are told; who has more begins with these.
const PROBLEMS_MAX: usize = 32;

/// The longest reason, in characters: it is shown on one line.
const REASON_MAX: usize = 500;

/// The longest word that is compared with the right ones, and shown.
const SHOWN_MAX: usize = 60;

const POLICY_KEYS: [&str; 5] = ["default", "rules", "allow", "ask", "deny"];
const RULE_KEYS: [&str; 7] = [
    "kind",
    "tool",
    "path",
    "command",
    "decision",
    "reason",
    "destructive",
];

/// Why a policy could not be read: at least one problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", list(problems))]
pub struct PolicyError {
    pub problems: Vec<Problem>,
}

/// One thing wrong with a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where, such as `rules[2].kind`; empty for the policy itself.
    pub path: String,
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => formatter.write_str(&self.message),
            path => write!(formatter, "{path}: {}", self.message),
        }
    }
}

impl Policy {
    /// Reads a `permissions` object.
    pub fn from_object(object: &Map<String, Value>) -> Result<Self, PolicyError> {
        let mut reader = Reader::default();
        let policy = reader.policy(object);
        if reader.problems.is_empty() {
            Ok(policy)
        } else {
            Err(PolicyError {
                problems: reader.problems,
            })
        }
    }
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Map::deserialize(deserializer)?;
        Self::from_object(&object).map_err(de::Error::custom)
    }
}

#[derive(Default)]
struct Reader {
    problems: Vec<Problem>,
}

impl Reader {
    fn problem(&mut self, path: &str, message: impl Into<String>) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem {
                path: path.to_owned(),
                message: message.into(),
            });
        }
    }

    fn policy(&mut self, object: &Map<String, Value>) -> Policy {
        self.known_keys("", object, &POLICY_KEYS);
        let default = object
            .get("default")
            .and_then(|value| self.word("default", value, &Decision::ALL));
        let lists = [Decision::Deny, Decision::Ask, Decision::Allow];
        let short = lists.iter().find(|list| object.contains_key(list.as_str()));
        if let (true, Some(list)) = (object.contains_key("rules"), short) {
            let message = "a policy has either `rules` or the lists `allow`, `ask` and `deny`";
            self.problem(list.as_str(), message);
        }
        let mut rules = Vec::new();
        for (index, value) in self.items("rules", object.get("rules")) {
            let rule = self.rule(&format!("rules[{index}]"), value);
            rules.extend(rule.map(|rule| at(rule, None, index)));
        }
        for list in lists {
            for (index, value) in self.items(list.as_str(), object.get(list.as_str())) {
                let rule = self.entry(&format!("{}[{index}]", list.as_str()), value, list);
                rules.extend(rule.map(|rule| at(rule, Some(list), index)));
            }
        }
        if rules.len() > RULES_MAX {
            let message = format!("a policy has at most {RULES_MAX} rules");
            self.problem("", message);
        }
        Policy { rules, default }
    }

    fn rule(&mut self, path: &str, value: &Value) -> Option<Rule> {
        let Some(object) = value.as_object() else {
            self.problem(path, format!("must be an object, not {}", name_of(value)));
            return None;
        };
        self.known_keys(path, object, &RULE_KEYS);
        let within = |key: &str| format!("{path}.{key}");
        let kinds = self.kinds(&within("kind"), object.get("kind"));
        let tool = self.pattern(&within("tool"), object.get("tool"), Pattern::parse);
        let file = self.pattern(&within("path"), object.get("path"), PathPattern::parse);
        let command = self.pattern(
            &within("command"),
            object.get("command"),
            CommandPattern::parse,
        );
        let reason = object
            .get("reason")
            .and_then(|value| self.reason(&within("reason"), value));
        let decision = match object.get("decision") {
            Some(value) => self.word(&within("decision"), value, &Decision::ALL),
            None => {
                self.problem(path, "needs a `decision`: allow, ask or deny");
                None
            }
        };
        let destructive = match object.get("destructive") {
            None | Some(Value::Bool(false)) => false,
            Some(Value::Bool(true)) if decision.is_none_or(|it| it == Decision::Allow) => true,
            Some(Value::Bool(true)) => {
                self.problem(&within("destructive"), "is only for rules that allow");
                false
            }
            Some(value) => {
                let message = format!("must be true or false, not {}", name_of(value));
                self.problem(&within("destructive"), message);
                false
            }
        };
        Some(Rule {
            kinds,
            tool,
            path: file,
            command,
            reason,
            destructive,
            ..Rule::any(decision?)
        })
    }

    /// `kind`, `kind(pattern)` or the name of a tool.
    fn entry(&mut self, path: &str, value: &Value, decision: Decision) -> Option<Rule> {
        let text = self.text(path, value)?.trim();
        let (word, inner) = match text.split_once('(') {
            Some((word, rest)) if rest.ends_with(')') => {
                (word.trim(), Some(&rest[..rest.len() - 1]))
            }
            _ => (text, None),
        };
        let mut rule = Rule::any(decision);
        let kind = ToolKind::ALL.iter().find(|(name, _)| *name == word);
        let Some((_, kind)) = kind else {
            return self.tool_entry(path, word, inner, rule);
        };
        rule.kinds = vec![*kind];
        match (kind, inner) {
            (_, None) => {}
            (ToolKind::Think | ToolKind::Fetch, Some(_)) => {
                self.problem(path, format!("`{word}` takes no pattern"));
                return None;
            }
            (ToolKind::Execute, Some(inner)) => {
                rule.command = Some(self.parsed(path, CommandPattern::parse(inner))?);
            }
            (_, Some(inner)) => rule.path = Some(self.parsed(path, PathPattern::parse(inner))?),
        }
        Some(rule)
    }

    fn tool_entry(
        &mut self,
        path: &str,
        word: &str,
        inner: Option<&str>,
        rule: Rule,
    ) -> Option<Rule> {
        let kinds = ToolKind::ALL.iter().map(|(name, _)| *name);
        // `Read` is more likely the kind than a tool, and a rule that never fits is worse than an error.
        let mistaken = ToolKind::ALL
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case(word));
        if mistaken || inner.is_some() {
            let message = format!(
                "{} is not a kind, and tools with patterns are written in `rules`{}",
                quoted(word),
                suggestion(word, kinds)
            );
            self.problem(path, message);
            return None;
        }
        Some(Rule {
            tool: Some(self.parsed(path, Pattern::parse(word))?),
            ..rule
        })
    }

    fn kinds(&mut self, path: &str, value: Option<&Value>) -> Vec<ToolKind> {
        match value {
            None => Vec::new(),
            Some(Value::Array(items)) if items.is_empty() => {
                self.problem(path, "must name a kind; leave it out to mean every kind");
                Vec::new()
            }
            Some(Value::Array(items)) => {
                let mut kinds = Vec::new();
                for (index, item) in items.iter().enumerate() {
                    let kind = self.word(&format!("{path}[{index}]"), item, &ToolKind::ALL);
                    kinds.extend(kind);
                }
                kinds
            }
            Some(value) => Vec::from_iter(self.word(path, value, &ToolKind::ALL)),
        }
    }

    fn pattern<T>(
        &mut self,
        path: &str,
        value: Option<&Value>,
        parse: impl Fn(&str) -> Result<T, PatternError>,
    ) -> Option<T> {
        let text = self.text(path, value?)?;
        self.parsed(path, parse(text))
    }

    fn parsed<T>(&mut self, path: &str, result: Result<T, PatternError>) -> Option<T> {
        result
            .map_err(|error| self.problem(path, error.to_string()))
            .ok()
    }

    fn reason(&mut self, path: &str, value: &Value) -> Option<String> {
        let text = self.text(path, value)?;
        if text.chars().count() > REASON_MAX {
            self.problem(path, format!("must have at most {REASON_MAX} characters"));
            return None;
        }
        Some(text.to_owned())
    }

    fn word<T: Copy>(&mut self, path: &str, value: &Value, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(path, value)?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let near = suggestion(text, all.iter().copied());
            let message = format!("{} is not one of {}{near}", quoted(text), all.join(", "));
            self.problem(path, message);
        }
        found.map(|(_, meaning)| *meaning)
    }

    fn text<'v>(&mut self, path: &str, value: &'v Value) -> Option<&'v str> {
        let text = value.as_str();
        if text.is_none() {
            self.problem(path, format!("must be text, not {}", name_of(value)));
        }
        text
    }

    fn items<'v>(&mut self, path: &str, value: Option<&'v Value>) -> Vec<(usize, &'v Value)> {
        match value {
            None => Vec::new(),
            Some(Value::Array(items)) => items.iter().enumerate().take(RULES_MAX + 1).collect(),
            Some(value) => {
                self.problem(path, format!("must be a list, not {}", name_of(value)));
                Vec::new()
            }
        }
    }

    fn known_keys(&mut self, path: &str, object: &Map<String, Value>, known: &[&str]) {
        for key in object.keys().filter(|key| !known.contains(&key.as_str())) {
            let near = suggestion(key, known.iter().copied());
            let message = format!("{} is not a known key{near}", quoted(key));
            self.problem(path, message);
        }
    }
}

fn at(rule: Rule, list: Option<Decision>, index: usize) -> Rule {
    Rule {
        place: Place {
            list,
            number: index + 1,
            ..Place::default()
        },
        ..rule
    }
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn quoted(text: &str) -> String {
    let shown: String = text.chars().take(SHOWN_MAX).collect();
    format!("{shown:?}")
}

fn suggestion<'a>(written: &str, words: impl Iterator<Item = &'a str>) -> String {
    if written.len() > SHOWN_MAX {
        return String::new();
    }
    let written = written.to_lowercase();
    let far = (written.chars().count() / 3).max(1);
    // Singular and plural, and short forms, are near however many letters they lack.
    let distance = |word: &str| match written.len() >= 3
        && (written.starts_with(word) || word.starts_with(&written))
    {
        true => 1,
        false => strsim::osa_distance(&written, word),
    };
    words
        .map(|word| (distance(word), word))
        .filter(|(distance, _)| *distance <= far)
        .min()
        .map_or_else(String::new, |(_, word)| format!("; did you mean {word:?}?"))
}

fn list(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    lines.join("; ")
}
