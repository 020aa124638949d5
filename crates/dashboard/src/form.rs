//! Answers to a question that wants more than a line: whether they are what its schema asks for.
//!
//! Only what forms of agents use is looked at: which fields there are, their types, choices and bounds. The agent itself
//! decides about the rest.

use serde_json::{Map, Value};

/// What is wrong with an answer, in words; nothing if it may be given.
pub(crate) fn mistake(schema: &str, text: &str) -> Option<String> {
    let schema: Value = serde_json::from_str(schema).ok()?;
    let properties = schema["properties"].as_object()?;
    let parsed: Option<Value> = serde_json::from_str(text).ok();
    if properties.is_empty() && !matches!(parsed, Some(Value::Object(_))) {
        return Some("there is nothing to fill in: accept it with {}, or decline".to_owned());
    }
    let mut names = properties.keys();
    match (parsed, names.next(), names.next()) {
        (Some(Value::Object(fields)), _, _) => wrong_field(&schema, properties, &fields),
        // Whoever is asked for one thing may say it as it is.
        (parsed, Some(only), None) => {
            let property = &properties[only];
            let as_said = wrong_value(only, property, &Value::String(text.to_owned()))?;
            match parsed {
                Some(value) => wrong_value(only, property, &value),
                None => Some(as_said),
            }
        }
        (_, None, _) => None,
        (_, Some(_), Some(_)) => {
            let mut names: Vec<&str> = properties.keys().map(String::as_str).collect();
            names.sort_unstable();
            let names = names.join(", ");
            Some(format!("the question wants a form as JSON with {names}"))
        }
    }
}

fn wrong_field(
    schema: &Value,
    properties: &Map<String, Value>,
    fields: &Map<String, Value>,
) -> Option<String> {
    let required = schema["required"].as_array();
    let mut required = required.into_iter().flatten().filter_map(Value::as_str);
    if let Some(missing) = required.find(|name| fields.get(*name).is_none_or(Value::is_null)) {
        return Some(format!("{missing} is missing"));
    }
    fields.iter().find_map(|(name, value)| {
        let property = properties.get(name)?;
        wrong_value(name, property, value)
    })
}

fn wrong_value(name: &str, property: &Value, value: &Value) -> Option<String> {
    let fits = match property["type"].as_str() {
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        Some(_) | None => true,
    };
    if !fits {
        let wanted = property["type"].as_str().unwrap_or_default();
        return Some(format!("{name} is not of the type {wanted}"));
    }
    let choices = choices(property);
    if !choices.is_empty() && !choices.contains(&value) {
        let choices: Vec<String> = choices.iter().map(|choice| choice.to_string()).collect();
        return Some(format!("{name} is none of {}", choices.join(", ")));
    }
    if let Some(items) = value.as_array() {
        return wrong_items(name, property, items);
    }
    let number = value.as_f64()?;
    let (least, most) = (&property["minimum"], &property["maximum"]);
    if least.as_f64().is_some_and(|least| number < least) {
        return Some(format!("{name} is below {least}"));
    }
    if most.as_f64().is_some_and(|most| number > most) {
        return Some(format!("{name} is above {most}"));
    }
    None
}

/// A choice of several: each of them, and how many there are.
fn wrong_items(name: &str, property: &Value, items: &[Value]) -> Option<String> {
    let count = u64::try_from(items.len()).unwrap_or(u64::MAX);
    let (least, most) = (&property["minItems"], &property["maxItems"]);
    if least.as_u64().is_some_and(|least| count < least) {
        return Some(format!("{name} has fewer than {least}"));
    }
    if most.as_u64().is_some_and(|most| count > most) {
        return Some(format!("{name} has more than {most}"));
    }
    let each = &property["items"];
    items
        .iter()
        .find_map(|item| wrong_value(&format!("one of {name}"), each, item))
}

/// What it must be one of, if it must.
fn choices(property: &Value) -> Vec<&Value> {
    if let Some(words) = property["enum"].as_array() {
        return words.iter().collect();
    }
    let titled = ["oneOf", "anyOf"]
        .iter()
        .find_map(|key| property[*key].as_array());
    let titled = titled.into_iter().flatten();
    titled.filter_map(|choice| choice.get("const")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPLOY: &str = r#"{"type":"object","required":["target","replicas"],"properties":{
        "target":{"type":"string","oneOf":[{"const":"staging"},{"const":"production"}]},
        "replicas":{"type":"integer","minimum":1,"maximum":9},
        "force":{"type":"boolean"}}}"#;
    const REPEAT: &str = r#"{"type":"object","required":["decision"],"properties":{
        "decision":{"type":"string","enum":["again","skip","fail"]}}}"#;

    fn check(schema: &str, text: &str, expected: Option<&str>) {
        assert_eq!(mistake(schema, text).as_deref(), expected, "{text}");
    }

    #[test]
    fn a_form_is_taken_only_with_what_it_asks_for() {
        check(DEPLOY, r#"{"target":"staging","replicas":2}"#, None);
        check(
            DEPLOY,
            "staging",
            Some("the question wants a form as JSON with force, replicas, target"),
        );
        check(
            DEPLOY,
            r#"{"target":"staging"}"#,
            Some("replicas is missing"),
        );
        check(
            DEPLOY,
            r#"{"target":"moon","replicas":2}"#,
            Some(r#"target is none of "staging", "production""#),
        );
        check(
            DEPLOY,
            r#"{"target":"staging","replicas":"2"}"#,
            Some("replicas is not of the type integer"),
        );
        check(
            DEPLOY,
            r#"{"target":"staging","replicas":12}"#,
            Some("replicas is above 9"),
        );
        check(
            DEPLOY,
            r#"{"target":"staging","replicas":0}"#,
            Some("replicas is below 1"),
        );
    }

    #[test]
    fn the_only_field_may_be_said_as_it_is() {
        check(REPEAT, "skip", None);
        check(REPEAT, r#"{"decision":"again"}"#, None);
        let wrong = Some(r#"decision is none of "again", "skip", "fail""#);
        check(REPEAT, "perhaps", wrong);
        let count = r#"{"properties":{"count":{"type":"integer"}}}"#;
        check(count, "3", None);
        check(count, "three", Some("count is not of the type integer"));
    }

    #[test]
    fn a_choice_of_several_is_checked_one_by_one() {
        let checks = r#"{"type":"object","required":["checks"],"properties":{"checks":{
            "type":"array","minItems":1,"maxItems":2,"items":{"type":"string","enum":["lint","test"]}}}}"#;
        check(checks, r#"{"checks":["lint","test"]}"#, None);
        check(
            checks,
            r#"{"checks":["lint","bogus"]}"#,
            Some(r#"one of checks is none of "lint", "test""#),
        );
        check(checks, r#"{"checks":[]}"#, Some("checks has fewer than 1"));
        check(
            checks,
            r#"{"checks":["lint","test","lint"]}"#,
            Some("checks has more than 2"),
        );
    }

    #[test]
    fn a_form_without_fields_is_accepted_or_declined() {
        let nothing = r#"{"type":"object","properties":{}}"#;
        check(nothing, "{}", None);
        let words = Some("there is nothing to fill in: accept it with {}, or decline");
        check(nothing, "yes", words);
        check(nothing, "[]", words);
    }

    #[test]
    fn a_schema_that_says_nothing_takes_everything() {
        check("{}", "anything", None);
        check("no JSON", "anything", None);
    }
}
