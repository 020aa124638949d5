//! Step templates: `use_template` and its `parameters`, replaced by the step they stand for.

use serde_json::Value;

use crate::document::{self, Entry, Node, Place, Yaml};
use crate::problem::Code;

use super::Loader;

impl Loader<'_> {
    /// The entries of a step, with those of its template below them.
    pub(super) fn expanded(&self, node: &Node) -> Option<Node> {
        let Yaml::Map(own) = &node.value else {
            return Some(node.clone());
        };
        let Some(named) = own.iter().find(|entry| entry.key == "use_template") else {
            return Some(node.clone());
        };
        let place = named.value.place;
        let name = named.value.text(self.findings)?;
        let text = (self.templates)(&name)
            .map_err(|words| {
                let message = format!("the template {name:?} cannot be used: {words}");
                self.findings.error(place, Code::InputMissingFile, message);
            })
            .ok()?;
        let document = document::parse(&text)
            .map_err(|problem| {
                let message = format!("the template {name:?}: {problem}");
                self.findings.error(place, Code::YamlSyntax, message);
            })
            .ok()?;
        let given = own.iter().find(|entry| entry.key == "parameters");
        let given = given
            .map(|entry| entry.value.object(self.findings))
            .unwrap_or_default();
        let parameters = self.parameters(&document, &given, place, &name);
        let Some(step) = step_of(&document) else {
            let message = format!("the template {name:?} has no step below states");
            self.findings.error(place, Code::MissingField, message);
            return None;
        };
        let mut entries = match substituted(step, &parameters, place).value {
            Yaml::Map(entries) => entries,
            Yaml::Null | Yaml::Bool(_) | Yaml::Number(..) | Yaml::Text(_) | Yaml::List(_) => {
                Vec::new()
            }
        };
        if entries.iter().any(|entry| entry.key == "use_template") {
            let message = format!("the template {name:?} uses a template itself");
            self.findings.error(place, Code::CycleDetected, message);
            return None;
        }
        for entry in own
            .iter()
            .filter(|entry| entry.key != "use_template" && entry.key != "parameters")
        {
            entries.retain(|known| known.key != entry.key);
            entries.push(entry.clone());
        }
        Some(Node {
            place: node.place,
            value: Yaml::Map(entries),
        })
    }

    fn parameters(
        &self,
        document: &Node,
        given: &serde_json::Map<String, Value>,
        place: Place,
        template: &str,
    ) -> Vec<(String, String)> {
        let shown = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let mut parameters: Vec<(String, String)> = given
            .iter()
            .map(|(name, value)| (name.clone(), shown(value)))
            .collect();
        let declared = entry(document, "parameters").map(|node| node.texts_of_declarations());
        for (name, required, default) in declared.unwrap_or_default() {
            if given.contains_key(&name) {
                continue;
            }
            match default {
                Some(default) => parameters.push((name, shown(&default))),
                None if required => {
                    let message = format!("the template {template:?} needs the parameter {name:?}");
                    self.findings.error(place, Code::MissingField, message);
                }
                None => parameters.push((name, String::new())),
            }
        }
        parameters
    }
}

impl Node {
    fn texts_of_declarations(&self) -> Vec<(String, bool, Option<Value>)> {
        let Value::Array(items) = self.to_json() else {
            return Vec::new();
        };
        items
            .iter()
            .filter_map(|item| {
                let name = item.get("name")?.as_str()?.to_owned();
                let required = item
                    .get("required")
                    .and_then(Value::as_bool)
                    .unwrap_or(false);
                Some((name, required, item.get("default").cloned()))
            })
            .collect()
    }
}

fn entry<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    let Yaml::Map(entries) = &node.value else {
        return None;
    };
    entries
        .iter()
        .find(|entry| entry.key == key)
        .map(|entry| &entry.value)
}

/// The step a template stands for: the initial one, or the first.
fn step_of(document: &Node) -> Option<&Node> {
    let states = entry(document, "states")?;
    let initial = entry(states, "initial").and_then(|node| {
        let Yaml::Text(text) = &node.value else {
            return None;
        };
        Some(text.as_str())
    });
    if let Some(found) = initial.and_then(|name| entry(states, name)) {
        return Some(found);
    }
    let Yaml::Map(entries) = &states.value else {
        return None;
    };
    entries
        .iter()
        .find(|entry| entry.key != "initial")
        .map(|entry| &entry.value)
}

/// A copy with the parameters in it; everything stands where the template is used.
fn substituted(node: &Node, parameters: &[(String, String)], place: Place) -> Node {
    let value = match &node.value {
        Yaml::Text(text) => Yaml::Text(filled_in(text, parameters)),
        Yaml::List(items) => Yaml::List(
            items
                .iter()
                .map(|item| substituted(item, parameters, place))
                .collect(),
        ),
        Yaml::Map(entries) => Yaml::Map(
            entries
                .iter()
                .map(|entry| Entry {
                    place,
                    key: entry.key.clone(),
                    value: substituted(&entry.value, parameters, place),
                })
                .collect(),
        ),
        other @ (Yaml::Null | Yaml::Bool(_) | Yaml::Number(..)) => other.clone(),
    };
    Node { place, value }
}

fn filled_in(text: &str, parameters: &[(String, String)]) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let Some(end) = rest[start..].find("}}").map(|end| start + end) else {
            break;
        };
        let inside = rest[start + 2..end].trim().trim_start_matches('.');
        let value = inside
            .strip_prefix("parameters.")
            .and_then(|name| parameters.iter().find(|(known, _)| known == name.trim()));
        out.push_str(&rest[..start]);
        match value {
            Some((_, value)) => out.push_str(value),
            None => out.push_str(&rest[start..end + 2]),
        }
        rest = &rest[end + 2..];
    }
    out.push_str(rest);
    out
}
