//! The values a run is given: checked against what the workflow asks for, all problems at once.

use serde_json::{Map, Value};

use crate::plan::{InputKind, InputSpec, Plan};
use crate::problem::{Code, Problem, nearest};
use crate::world::World;

/// Bytes of one input; longer texts belong into a file.
const INPUT_MAX: usize = 1024 * 1024;

/// Fills in defaults and checks every value; the result has each declared input.
///
/// Texts are taken for numbers and truth values where the workflow asks for those, since command lines know only text.
pub fn check_inputs(
    plan: &Plan,
    given: &Map<String, Value>,
    world: &dyn World,
) -> Result<Map<String, Value>, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut checked = Map::new();
    for spec in &plan.inputs {
        match value_for(spec, given.get(&spec.name)) {
            Ok(Some(value)) => {
                problems.extend(
                    violations(spec, &value, world)
                        .into_iter()
                        .map(|violation| failed(spec, &violation)),
                );
                checked.insert(spec.name.clone(), value);
            }
            Ok(None) => {
                // A text that was not given is empty, so that templates need no special case.
                let nothing = match spec.kind {
                    InputKind::String => Value::String(String::new()),
                    InputKind::Integer | InputKind::Boolean => Value::Null,
                };
                checked.insert(spec.name.clone(), nothing);
            }
            Err(violation) => problems.push(failed(spec, &violation)),
        }
    }
    for name in given.keys().filter(|name| !checked.contains_key(*name)) {
        if plan.inputs.iter().any(|spec| spec.name == *name) {
            continue;
        }
        let mut problem = Problem::placeless(
            Code::InputInvalidFormat,
            format!("inputs.{name}: the workflow has no such input"),
        );
        problem.hint = nearest(name, plan.inputs.iter().map(|spec| spec.name.as_str()))
            .map(|known| format!("did you mean {known}?"));
        problems.push(problem);
    }
    for name in &plan.environment {
        if world.variable(name).is_none() {
            problems.push(Problem::placeless(
                Code::InputValidationFailed,
                format!("env.{name}: the workflow needs this variable, and it is not set"),
            ));
        }
    }
    if problems.is_empty() {
        Ok(checked)
    } else {
        Err(problems)
    }
}

fn failed(spec: &InputSpec, violation: &Violation) -> Problem {
    let code = match violation {
        Violation::MissingFile(_) => Code::InputMissingFile,
        Violation::Other(_) => Code::InputValidationFailed,
    };
    let (Violation::MissingFile(words) | Violation::Other(words)) = violation;
    Problem::placeless(code, format!("inputs.{}: {words}", spec.name))
}

enum Violation {
    MissingFile(String),
    Other(String),
}

fn value_for(spec: &InputSpec, given: Option<&Value>) -> Result<Option<Value>, Violation> {
    let given = given.filter(|value| !value.is_null());
    let Some(value) = given.or(spec.default.as_ref().filter(|value| !value.is_null())) else {
        return if spec.required {
            Err(Violation::Other("required, and not given".to_owned()))
        } else {
            Ok(None)
        };
    };
    let wrong = || {
        let shown: String = value.to_string().chars().take(80).collect();
        Violation::Other(format!("value {shown} is not of type {}", spec.kind.word()))
    };
    let typed = match (spec.kind, value) {
        (InputKind::String, Value::String(text)) => Value::String(text.clone()),
        (InputKind::String, Value::Number(_) | Value::Bool(_)) => Value::String(value.to_string()),
        (InputKind::Integer, Value::Number(number)) if number.is_i64() => value.clone(),
        (InputKind::Integer, Value::String(text)) => {
            Value::from(text.trim().parse::<i64>().map_err(|_| wrong())?)
        }
        (InputKind::Boolean, Value::Bool(_)) => value.clone(),
        (InputKind::Boolean, Value::String(text)) => {
            match text.trim().to_ascii_lowercase().as_str() {
                "true" | "yes" | "1" | "on" => Value::Bool(true),
                "false" | "no" | "0" | "off" => Value::Bool(false),
                _ => return Err(wrong()),
            }
        }
        _ => return Err(wrong()),
    };
    if spec.required && typed.as_str().is_some_and(str::is_empty) {
        return Err(Violation::Other("required, and empty".to_owned()));
    }
    Ok(Some(typed))
}

fn violations(spec: &InputSpec, value: &Value, world: &dyn World) -> Vec<Violation> {
    let validation = &spec.validation;
    let mut found = Vec::new();
    let shown = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut other = |words: String| found.push(Violation::Other(words));
    if shown.len() > INPUT_MAX {
        other(format!("is longer than {INPUT_MAX} bytes"));
    }
    if let Some(pattern) = &validation.pattern
        && !regex::Regex::new(pattern).is_ok_and(|regex| regex.is_match(&shown))
    {
        other(format!(
            "value {shown:?} does not match pattern {pattern:?}"
        ));
    }
    if !validation.choices.is_empty() && !validation.choices.contains(&shown) {
        other(format!(
            "value {shown:?} is not one of {}",
            validation.choices.join(", ")
        ));
    }
    if let Some(number) = value.as_i64() {
        if let Some(min) = validation.min.filter(|min| number < *min) {
            other(format!("value {number} is below minimum {min}"));
        }
        if let Some(max) = validation.max.filter(|max| number > *max) {
            other(format!("value {number} exceeds maximum {max}"));
        }
    }
    if !validation.file_extension.is_empty() && !shown.is_empty() {
        let has = |extension: &String| {
            shown.ends_with(&format!(".{}", extension.trim_start_matches('.')))
        };
        if !validation.file_extension.iter().any(has) {
            other(format!(
                "{shown:?} does not end in {}",
                validation.file_extension.join(" or ")
            ));
        }
    }
    if validation.file_exists && !shown.is_empty() && !world.exists(&shown) {
        found.push(Violation::MissingFile(format!(
            "the file {shown:?} is not there"
        )));
    }
    found
}

#[cfg(test)]
#[path = "inputs_tests.rs"]
mod tests;
