//! Conditions in the expr language. Its library panics on some inputs and never ends on others, so both are fenced off here.

mod spelling;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use expr::{Context, Environment, Program, Value};
use serde_json::Value as Json;

use crate::scope::{Scope, state_of_nothing};
use crate::template::{NAMESPACES, Reference};

/// A condition longer than this is a program, and programs belong into a script.
const LENGTH_MAX: usize = 4096;

/// Operators, members and brackets of one condition: each may cost a level of the library's recursion.
const PARTS_MAX: usize = 200;

/// Brackets inside brackets.
const DEPTH_MAX: usize = 40;

/// Characters that `repeat` may make.
const REPEATED_MAX: usize = 64 * 1024;

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.add_function("now", |_| {
        Err(expr::Error::ExprError(
            "now() is not available: a run that is resumed must decide as before".to_owned(),
        ))
    });
    environment.add_function("repeat", |call| match call.args.as_slice() {
        [Value::String(text), Value::Integer(count)] => {
            let count = usize::try_from(*count).unwrap_or(0);
            if text.len().saturating_mul(count) > REPEATED_MAX {
                return Err(expr::Error::ExprError(
                    "repeat() makes too long a text".to_owned(),
                ));
            }
            Ok(Value::String(text.repeat(count)))
        }
        _ => Err(expr::Error::ExprError(
            "repeat() needs a text and a whole number".to_owned(),
        )),
    });
    // The three functions that workflows have beside those of the language.
    add_text_function(&mut environment, "contains", |text, part| {
        text.contains(part)
    });
    add_text_function(&mut environment, "has_prefix", |text, part| {
        text.starts_with(part)
    });
    add_text_function(&mut environment, "has_suffix", |text, part| {
        text.ends_with(part)
    });
    environment
});

fn add_text_function(
    environment: &mut Environment<'static>,
    name: &'static str,
    holds: fn(&str, &str) -> bool,
) {
    environment.add_function(name, move |call| match call.args.as_slice() {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(holds(text, part))),
        _ => Err(expr::Error::ExprError(format!("{name}() needs two texts"))),
    });
}

/// Whether the condition can be used at all; the error is in words.
pub(crate) fn check(text: &str) -> Result<(), String> {
    compile(text).map(|_| ())
}

/// Paths that a condition refers to: `states.build.ExitCode`.
pub(crate) fn references(text: &str) -> Vec<Reference> {
    tokens(text)
        .into_iter()
        .filter_map(|token| match token {
            Token::Path(path) => Some(Reference {
                path,
                line: 1,
                is_printed_unquoted: false,
            }),
            Token::Operator
            | Token::Open
            | Token::Close
            | Token::Range
            | Token::Mapping
            | Token::Call(_) => None,
        })
        .collect()
}

/// Evaluates a condition. Anything but a truth value is an error.
pub(crate) fn holds(text: &str, scope: &Scope<'_>) -> Result<bool, String> {
    match evaluate(text, scope)? {
        Value::Bool(value) => Ok(value),
        other => Err(format!(
            "the condition {text:?} gives {other} instead of true or false"
        )),
    }
}

/// Arithmetic without names, for `max_iterations`.
pub(crate) fn whole_number(text: &str) -> Result<i64, String> {
    let program = compile(text)?;
    let value = run(&program, &Context::default())?;
    match value {
        Value::Integer(number) => Ok(number),
        Value::Float(number) if number.is_finite() && number.abs() < 1e15 => Ok(number as i64),
        other => Err(format!("{text:?} gives {other} instead of a whole number")),
    }
}

fn evaluate(text: &str, scope: &Scope<'_>) -> Result<Value, String> {
    let program = compile(text)?;
    let references = references(text);
    let mut tree = scope.tree(&references);
    for reference in &references {
        if let (Some("states"), Some(name)) = (reference.part(0), reference.part(1)) {
            let states = &mut tree["states"];
            if states.get(name).is_none() {
                states[name] = state_of_nothing();
            }
        }
    }
    let mut context = Context::default();
    for namespace in NAMESPACES {
        let value = tree.get(namespace).map_or(Value::Nil, |value| {
            if namespace == "inputs" {
                coerced_inputs(value)
            } else {
                value_of(value)
            }
        });
        context.insert(namespace, value);
    }
    run(&program, &context)
}

fn compile(text: &str) -> Result<Program, String> {
    if text.trim().is_empty() {
        return Err("the condition is empty".to_owned());
    }
    if text.contains("{{") {
        return Err("conditions are written without {{ and }}".to_owned());
    }
    refuse_monsters(text)?;
    let text = spelling::ours(text);
    match catch_unwind(AssertUnwindSafe(|| expr::compile(&text))) {
        Ok(Ok(program)) => Ok(program),
        Ok(Err(error)) => Err(first_words(&error.to_string())),
        Err(_) => {
            Err("the condition cannot be understood (a mapping inside a mapping?)".to_owned())
        }
    }
}

fn run(program: &Program, context: &Context) -> Result<Value, String> {
    match catch_unwind(AssertUnwindSafe(|| ENVIRONMENT.run(program, context))) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(first_words(&error.to_string())),
        Err(_) => Err("the condition could not be evaluated".to_owned()),
    }
}

/// The library points at the place over several lines; the last one says what it expected.
fn first_words(message: &str) -> String {
    let line = message
        .lines()
        .rev()
        .find_map(|line| line.trim().strip_prefix("= "))
        .or_else(|| message.lines().next())
        .unwrap_or_default();
    line.chars().take(200).collect()
}

fn refuse_monsters(text: &str) -> Result<(), String> {
    if text.len() > LENGTH_MAX {
        return Err(format!("the condition is longer than {LENGTH_MAX} bytes"));
    }
    let (mut parts, mut depth) = (0, 0_usize);
    for token in tokens(text) {
        match token {
            Token::Range => return Err("ranges (a..b) are not available".to_owned()),
            Token::Mapping => return Err("mappings ({a: b}) are not available".to_owned()),
            Token::Open => {
                depth += 1;
                parts += 1;
            }
            Token::Close => depth = depth.saturating_sub(1),
            Token::Operator | Token::Call(_) => parts += 1,
            Token::Path(path) => parts += path.len(),
        }
        if depth > DEPTH_MAX || parts > PARTS_MAX {
            return Err("the condition is too complex; decide in a script instead".to_owned());
        }
    }
    Ok(())
}

/// Functions that a condition calls.
pub(crate) fn unknown_functions(text: &str) -> Vec<String> {
    // The library has no list of its functions; asking for one that exists fails in another way.
    tokens(text)
        .into_iter()
        .filter_map(|token| match token {
            Token::Call(name) => Some(name),
            Token::Path(_)
            | Token::Operator
            | Token::Open
            | Token::Close
            | Token::Range
            | Token::Mapping => None,
        })
        .filter(|name| {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                ENVIRONMENT.eval_func(&Context::default(), name, Vec::new(), None)
            }));
            matches!(outcome, Ok(Err(error)) if error.to_string().starts_with("Unknown function"))
        })
        .collect()
}

#[derive(Debug, PartialEq)]
enum Token {
    Path(Vec<String>),
    Call(String),
    Operator,
    Open,
    Close,
    Range,
    Mapping,
}

const OPERATOR_WORDS: [&str; 11] = [
    "and",
    "or",
    "not",
    "in",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "if",
    "else",
    "let",
];

fn tokens(text: &str) -> Vec<Token> {
    let characters: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut index = 0;
    while let Some(&character) = characters.get(index) {
        index += 1;
        match character {
            '"' | '\'' | '`' => {
                while let Some(&inner) = characters.get(index) {
                    index += 1;
                    match inner {
                        '\\' if character != '`' => index += 1,
                        _ if inner == character => break,
                        _ => {}
                    }
                }
            }
            '{' if is_mapping(&characters[index..]) => tokens.push(Token::Mapping),
            '(' | '[' | '{' => tokens.push(Token::Open),
            ')' | ']' | '}' => tokens.push(Token::Close),
            '.' if characters.get(index) == Some(&'.') => tokens.push(Token::Range),
            '+' | '-' | '*' | '/' | '%' | '<' | '>' | '=' | '!' | '&' | '|' | '^' | '?' | ':'
            | '.' | ';' => {
                tokens.push(Token::Operator);
            }
            _ if character.is_alphabetic() || character == '_' => {
                let start = index - 1;
                index = end_of_path(&characters, start);
                let word: String = characters[start..index].iter().collect();
                let after = characters[index..]
                    .iter()
                    .find(|next| !next.is_whitespace());
                if OPERATOR_WORDS.contains(&word.as_str()) {
                    tokens.push(Token::Operator);
                } else if after == Some(&'(') && !word.contains('.') {
                    tokens.push(Token::Call(word));
                } else {
                    let word = word.replace('?', "");
                    tokens.push(Token::Path(word.split('.').map(str::to_owned).collect()));
                }
            }
            _ if character.is_ascii_digit() => {
                while characters
                    .get(index)
                    .is_some_and(|next| next.is_alphanumeric() || *next == '_')
                {
                    index += 1;
                }
            }
            _ => {}
        }
    }
    tokens
}

/// Whether a brace opens a mapping, which the library does not survive, or a predicate.
fn is_mapping(after: &[char]) -> bool {
    let text: String = after.iter().collect();
    let text = text.trim_start();
    let is_word = |character: char| character.is_alphanumeric() || "_$\"'`".contains(character);
    let key = text.trim_start_matches(is_word);
    key.len() < text.len() && key.trim_start().starts_with(':') || text.starts_with('}')
}

fn end_of_path(characters: &[char], start: usize) -> usize {
    let is_word = |character: &char| character.is_alphanumeric() || *character == '_';
    let mut index = start;
    while let Some(character) = characters.get(index) {
        let is_inner_dot = |at: usize| {
            characters.get(at) == Some(&'.') && characters.get(at + 1).is_some_and(is_word)
        };
        let is_optional = *character == '?' && is_inner_dot(index + 1);
        if !is_word(character) && !is_inner_dot(index) && !is_optional {
            break;
        }
        index += 1;
    }
    index
}

fn value_of(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => number.as_i64().map_or_else(
            || Value::Float(number.as_f64().unwrap_or_default()),
            Value::Integer,
        ),
        Json::String(text) => Value::String(text.clone()),
        Json::Array(items) => Value::Array(items.iter().map(value_of).collect()),
        Json::Object(entries) => Value::Map(
            entries
                .iter()
                .map(|(key, value)| (key.clone(), value_of(value)))
                .collect(),
        ),
    }
}

/// Inputs come as text from command lines; a condition means the number or truth value they spell.
fn coerced_inputs(inputs: &Json) -> Value {
    let Json::Object(entries) = inputs else {
        return value_of(inputs);
    };
    let coerced = |value: &Json| match value {
        Json::String(text) => {
            let is_number = text.ends_with(|last: char| last.is_ascii_digit());
            if let Ok(number) = text.parse::<i64>() {
                Value::Integer(number)
            } else if let (true, Ok(number)) = (is_number, text.parse::<f64>()) {
                Value::Float(number)
            } else {
                match text.as_str() {
                    "true" | "True" | "TRUE" => Value::Bool(true),
                    "false" | "False" | "FALSE" => Value::Bool(false),
                    _ => Value::String(text.clone()),
                }
            }
        }
        other => value_of(other),
    };
    Value::Map(
        entries
            .iter()
            .map(|(key, value)| (key.clone(), coerced(value)))
            .collect(),
    )
}

#[cfg(test)]
#[path = "expression_tests.rs"]
mod tests;
