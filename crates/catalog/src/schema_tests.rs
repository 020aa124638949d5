//! The schemas agree with the readers: what one accepts or knows, the other does too.

use super::*;
use crate::problem::Checked;
use crate::template::STEP_WORDS;
use crate::{
    Format, SAMPLES, check_template, parse_mcp_server, parse_prompt, parse_skill, parse_workflow,
};

/// A checker of the keywords our schemas use; `pattern` is left to the readers' own tests.
fn accepts(schema: &Value, value: &Value) -> bool {
    let all = |key: &str| schema[key].as_array().into_iter().flatten();
    let type_fits = match schema["type"].as_str() {
        None => true,
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some(other) => panic!("the checker does not know the type {other}"),
    };
    let in_bounds = |number: u64| {
        schema["minimum"]
            .as_u64()
            .is_none_or(|least| number >= least)
            && schema["maximum"].as_u64().is_none_or(|most| number <= most)
    };
    let condition_holds = match schema.get("if") {
        None => true,
        Some(condition) => {
            let branch = if accepts(condition, value) {
                "then"
            } else {
                "else"
            };
            schema
                .get(branch)
                .is_none_or(|branch| accepts(branch, value))
        }
    };
    type_fits
        && condition_holds
        && schema.get("const").is_none_or(|constant| constant == value)
        && (schema.get("enum").is_none() || all("enum").any(|choice| choice == value))
        && (schema.get("anyOf").is_none() || all("anyOf").any(|option| accepts(option, value)))
        && value.as_u64().is_none_or(in_bounds)
        && value
            .as_str()
            .is_none_or(|text| text.len() as u64 >= schema["minLength"].as_u64().unwrap_or(0))
        && value.as_array().is_none_or(|items| {
            items.len() as u64 >= schema["minItems"].as_u64().unwrap_or(0)
                && items.iter().all(|item| {
                    schema
                        .get("items")
                        .is_none_or(|schema| accepts(schema, item))
                })
        })
        && value.as_object().is_none_or(|entries| {
            all("required").all(|key| entries.contains_key(key.as_str().unwrap()))
                && entries.iter().all(|(key, entry)| {
                    let property = schema["properties"].get(key);
                    property
                        .or(schema.get("additionalProperties"))
                        .is_none_or(|schema| accepts(schema, entry))
                })
        })
}

fn problems(kind: DocumentKind, value: &Value) -> (bool, Vec<String>) {
    fn parts<T>(checked: Checked<T>) -> (bool, Vec<String>) {
        let valid = checked.is_valid();
        (
            valid,
            checked.problems.iter().map(ToString::to_string).collect(),
        )
    }
    let text = value.to_string();
    match kind {
        DocumentKind::Template => parts(check_template(value)),
        DocumentKind::Component(ComponentKind::Skill) => parts(parse_skill(&text, Format::Json)),
        DocumentKind::Component(ComponentKind::Prompt) => parts(parse_prompt(&text, Format::Json)),
        DocumentKind::Component(ComponentKind::McpServer) => {
            parts(parse_mcp_server(&text, Format::Json))
        }
        DocumentKind::Component(ComponentKind::Workflow) => {
            parts(parse_workflow(&text, Format::Json, "stem"))
        }
    }
}

/// `kind; what both say of it; the value`. A template's value is merged into one that is valid.
const AGREED: &str = r#"
template; valid; {"description": "d"}
template; invalid; {"backend": {"type": "zzz"}}
template; invalid; {"backend": {}}
template; invalid; {"backend": {"type": "command"}}
template; valid; {"backend": {"type": "command", "config": {"executablePath": "x"}}}
template; valid; {"backend": {"type": "builtin"}, "provider": null}
template; invalid; {"provider": null}
template; invalid; {"name": null}
template; valid; {"domainContext": {"mcpServers": ["a", {"name": "b", "command": "c", "env": {"A": "b"}}]}}
template; invalid; {"domainContext": {"mcpServers": [{"name": "b"}]}}
template; invalid; {"domainContext": {"skills": "a"}}
template; invalid; {"initializer": {"steps": []}}
template; valid; {"initializer": {"steps": [{"type": "exec", "config": {"command": "x", "timeoutMs": 5}}]}}
template; invalid; {"initializer": {"steps": [{"type": "exec", "config": {"command": "x", "timeoutMs": 0}}]}}
template; invalid; {"initializer": {"steps": [{"type": "mkdir", "config": {}}]}}
template; valid; {"cwd": "client", "launchMode": "one-shot", "env": {"A": "b"}, "passEnv": ["A_*"]}
template; invalid; {"cwd": "home"}
template; invalid; {"startTimeoutMs": 0}
template; invalid; {"metadata": {"a": 1}}
skill; valid; {"name": "s", "content": "c", "tags": ["t"]}
skill; invalid; {"name": "s", "content": ""}
prompt; invalid; {"name": "p"}
mcp; invalid; {"name": "m", "command": "c", "args": [1]}
workflow; valid; {"name": "w", "content": "c"}
workflow; valid; {"states": {}}
workflow; invalid; {"name": "w"}
"#;

#[test]
fn schema_and_reader_agree_on_what_is_valid() {
    for case in AGREED.trim().lines() {
        let [word, verdict, text] = case.split("; ").collect::<Vec<_>>()[..] else {
            panic!("not a case: {case}");
        };
        let mut value: Value = serde_json::from_str(text).unwrap();
        let kind = kind_of(word);
        if kind == DocumentKind::Template {
            value = merged(&value);
        }
        let valid = verdict == "valid";
        assert_eq!(accepts(&schema(kind), &value), valid, "schema: {case}");
        let (read, problems) = problems(kind, &value);
        assert_eq!(read, valid, "reader: {case}: {problems:?}");
    }
}

fn kind_of(word: &str) -> DocumentKind {
    DocumentKind::Component(match word.trim_end_matches('s') {
        "template" => return DocumentKind::Template,
        "skill" => ComponentKind::Skill,
        "prompt" => ComponentKind::Prompt,
        "mcp" => ComponentKind::McpServer,
        "workflow" => ComponentKind::Workflow,
        other => panic!("no schema for {other}"),
    })
}

/// A valid template with some keys replaced, or removed by null.
fn merged(changes: &Value) -> Value {
    let mut template = json!({
        "name": "t", "version": "1.0.0", "backend": {"type": "codex"},
        "provider": {"type": "openai"}, "domainContext": {},
    });
    let entries = template.as_object_mut().unwrap();
    for (key, change) in changes.as_object().unwrap() {
        entries.insert(key.clone(), change.clone());
    }
    entries.retain(|_, entry| !entry.is_null());
    template
}

#[test]
fn the_samples_fit_their_schemas() {
    for sample in SAMPLES {
        let kind = kind_of(sample.path.split('/').next().unwrap());
        let format = Format::from_path(sample.path).unwrap();
        let value = crate::document::parse(sample.content, format).unwrap();
        assert!(accepts(&schema(kind), &value), "{}", sample.path);
    }
}

#[test]
fn every_property_of_a_schema_is_known_to_its_reader() {
    for kind in DocumentKind::ALL {
        let schema = schema(kind);
        assert_eq!(schema["$schema"], DRAFT);
        for (key, property) in schema["properties"].as_object().unwrap() {
            assert!(
                property["description"].is_string(),
                "{kind:?}.{key} has no description"
            );
            // A mapping is the wrong kind for most keys, but only an unknown key is called unknown.
            let (_, problems) = problems(kind, &json!({key: {}, "content": "x"}));
            let unknown = format!("{key}: is not a known key");
            let is_states = key == "states"; // Read whole, so nothing in it is unknown.
            assert!(
                is_states || !problems.iter().any(|line| line.starts_with(&unknown)),
                "{kind:?}: {problems:?}"
            );
        }
    }
}

#[test]
fn every_step_type_has_its_schema() {
    let schema = schema(DocumentKind::Template);
    let steps = schema["properties"]["initializer"]["properties"]["steps"]["items"]["anyOf"]
        .as_array()
        .unwrap();
    let words: Vec<&str> = steps
        .iter()
        .map(|step| step["properties"]["type"]["const"].as_str().unwrap())
        .collect();
    assert_eq!(words, STEP_WORDS.map(|(word, _)| word));
}
