//! Functions of templates, and values on their way between JSON and the template library.

use std::collections::BTreeMap;
use std::sync::Arc;

use gotmpl::{FuncMap, TemplateError, Value};
use serde_json::Value as Json;

use crate::world::{FILE_MAX, FileKind, World};

/// What templates and expressions can refer to; each is also a function, so that the leading dot can be left out.
pub(crate) const NAMESPACES: [&str; 8] = [
    "inputs", "states", "workflow", "env", "loop", "error", "context", "awf",
];

/// Functions that the template language brings along.
pub(super) const BUILT_IN: [&str; 20] = [
    "and", "call", "eq", "ge", "gt", "html", "index", "js", "le", "len", "lt", "ne", "not", "or",
    "print", "printf", "println", "slice", "urlquery", "true",
];

/// Functions of ours.
pub(super) const OURS: [&str; 8] = [
    "escape",
    "shell_quote",
    "json",
    "split",
    "join",
    "readFile",
    "trimSpace",
    super::SHOW,
];

pub(super) fn all(data: &Value, world: &Arc<dyn World>) -> FuncMap {
    let mut functions = FuncMap::new();
    let mut add = |name: &str, function: gotmpl::ValueFunc| {
        functions.insert(name.to_owned(), function);
    };
    for namespace in NAMESPACES {
        let value = data.field(namespace).cloned();
        add(
            namespace,
            Arc::new(move |_| {
                value.clone().ok_or_else(|| TemplateError::MissingKey {
                    key: namespace.to_owned(),
                })
            }),
        );
    }
    let quote: gotmpl::ValueFunc = Arc::new(|arguments| {
        let [value] = exactly("shell_quote", arguments)?;
        Ok(text(shell_quoted(&shown(value))))
    });
    add("escape", Arc::clone(&quote));
    add("shell_quote", quote);
    add(
        "json",
        Arc::new(|arguments| {
            let [value] = exactly("json", arguments)?;
            Ok(text(json_of(value).to_string()))
        }),
    );
    let world = Arc::clone(world);
    add(
        "readFile",
        Arc::new(move |arguments| {
            let [path] = exactly("readFile", arguments)?;
            let path = shown(path);
            let content = world
                .read(FileKind::Any, &path)
                .map_err(TemplateError::Exec)?;
            if content.len() > FILE_MAX {
                return Err(TemplateError::Exec(format!(
                    "{path} is longer than {FILE_MAX} bytes"
                )));
            }
            Ok(text(content))
        }),
    );
    add(
        super::SHOW,
        Arc::new(|arguments| Ok(text(arguments.first().map(shown).unwrap_or_default()))),
    );
    add_text_functions(&mut functions);
    functions
}

fn add_text_functions(functions: &mut FuncMap) {
    let mut add = |name: &str, function: gotmpl::ValueFunc| {
        functions.insert(name.to_owned(), function);
    };
    add(
        "split",
        Arc::new(|arguments| {
            let [whole, separator] = exactly("split", arguments)?;
            let (whole, separator) = (shown(whole), shown(separator));
            let parts = whole
                .split(separator.as_str())
                .map(|part| text(part.trim().to_owned()));
            Ok(Value::List(parts.collect()))
        }),
    );
    add(
        "join",
        Arc::new(|arguments| {
            let [items, separator] = exactly("join", arguments)?;
            let Value::List(items) = items else {
                return Err(TemplateError::Exec("join needs a list".to_owned()));
            };
            let words: Vec<String> = items.iter().map(shown).collect();
            Ok(text(words.join(&shown(separator))))
        }),
    );
    add(
        "trimSpace",
        Arc::new(|arguments| {
            let [value] = exactly("trimSpace", arguments)?;
            Ok(text(shown(value).trim().to_owned()))
        }),
    );
}

fn exactly<'a, const COUNT: usize>(
    name: &str,
    arguments: &'a [Value],
) -> Result<[&'a Value; COUNT], TemplateError> {
    let all: Vec<&Value> = arguments.iter().collect();
    all.try_into().map_err(|_| TemplateError::ArgCount {
        name: name.to_owned(),
        expected: COUNT,
        got: arguments.len(),
    })
}

fn text(text: String) -> Value {
    Value::String(text.into())
}

fn shown(value: &Value) -> String {
    match value {
        Value::Nil => String::new(),
        Value::String(text) => text.to_string(),
        Value::List(_) | Value::Map(_) => json_of(value).to_string(),
        other => other.to_string(),
    }
}

/// A word that a POSIX shell reads as exactly this text.
fn shell_quoted(text: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "_-./:=@%+,".contains(character);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

pub(super) fn value_of(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => Value::Int(integer),
            (None, Some(integer)) => Value::Uint(integer),
            (None, None) => Value::Float(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Value::String(text.as_str().into()),
        Json::Array(items) => Value::List(items.iter().map(value_of).collect()),
        Json::Object(entries) => {
            let entries: BTreeMap<Arc<str>, Value> = entries
                .iter()
                .map(|(key, value)| (key.as_str().into(), value_of(value)))
                .collect();
            Value::Map(Arc::new(entries))
        }
    }
}

fn json_of(value: &Value) -> Json {
    match value {
        Value::Nil | Value::Function(_) => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(integer) => Json::from(*integer),
        Value::Uint(integer) => Json::from(*integer),
        Value::Float(float) => Json::from(*float),
        Value::String(text) => Json::String(text.to_string()),
        Value::List(items) => Json::Array(items.iter().map(json_of).collect()),
        Value::Map(entries) => Json::Object(
            entries
                .iter()
                .map(|(key, value)| (key.to_string(), json_of(value)))
                .collect(),
        ),
    }
}
