//! Parameters: parsed into their type once, with an error that names the field.

use domain::{Name, NoTrace, Trace, target::Target};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::error::RpcError;

/// The longest prompt: what is larger belongs into a file of the workspace.
const PROMPT_MAX: usize = 1024 * 1024;

/// Who decides where no client does.
const POLICY: &str = "policy";

/// The longest name of a client: as long as that of an agent with what it does.
const CLIENT_MAX: usize = 128;

/// Parses a request's parameters; absent ones count as an empty object.
pub(crate) fn parse<P: DeserializeOwned>(params: Option<&RawValue>) -> Result<P, RpcError> {
    let text = params.map_or("{}", RawValue::get);
    if text.starts_with('[') {
        return Err(RpcError::invalid_params(
            "",
            "parameters are given by name, in an object",
        ));
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let inner = error.inner().to_string();
        // The position is one in a line the caller did not write by hand.
        let message = inner.split(" at line ").next().unwrap_or(&inner).to_owned();
        let path = error.path().to_string();
        match (path.as_str(), missing(&message)) {
            (".", Some(field)) => RpcError::invalid_params(field, "it is missing"),
            (path, Some(field)) => {
                RpcError::invalid_params(&format!("{path}.{field}"), "it is missing")
            }
            (".", None) => RpcError::invalid_params("", &message),
            (path, None) => RpcError::invalid_params(path, &message),
        }
    })
}

/// The name in a field, checked before anything is looked up or made with it.
pub(crate) fn name(field: &str, text: &str) -> Result<Name, RpcError> {
    Name::parse(text).map_err(|error| RpcError::invalid_params(field, &error.to_string()))
}

/// Whom a field means.
pub(crate) fn target(field: &str, text: &str) -> Result<Target, RpcError> {
    text.parse().map_err(|error: domain::target::TargetError| {
        RpcError::invalid_params(field, &error.to_string())
    })
}

/// What a turn belongs to.
pub(crate) fn trace(field: &str, text: Option<String>) -> Result<Option<Trace>, RpcError> {
    let trace = text.map(Trace::try_from).transpose();
    trace.map_err(|error: NoTrace| RpcError::invalid_params(field, &error.to_string()))
}

/// A prompt that fits into an event with room to spare: events are lines too.
pub(crate) fn prompt(field: &str, text: &str) -> Result<(), RpcError> {
    if text.is_empty() {
        return Err(RpcError::invalid_params(field, "it is empty"));
    }
    if text.len() > PROMPT_MAX {
        let message = format!(
            "it has {} bytes, and a prompt has at most {PROMPT_MAX}",
            text.len()
        );
        return Err(RpcError::invalid_params(field, &message));
    }
    Ok(())
}

/// The name that a client gives itself, which others are shown.
pub(crate) fn client(name: Option<&str>) -> Result<(), RpcError> {
    match name {
        Some(name)
            if name.len() > CLIENT_MAX || name.contains(char::is_control) || name == POLICY =>
        {
            let message = format!(
                "it has at most {CLIENT_MAX} bytes, no control characters, and is not {POLICY:?}"
            );
            Err(RpcError::invalid_params("clientId", &message))
        }
        Some(_) | None => Ok(()),
    }
}

/// One of a few words.
pub(crate) fn word<T: Copy>(field: &str, text: &str, words: &[(&str, T)]) -> Result<T, RpcError> {
    words
        .iter()
        .find(|(word, _)| *word == text)
        .map(|(_, value)| *value)
        .ok_or_else(|| {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            RpcError::invalid_params(
                field,
                &format!("{text:?} is not one of {}", known.join(", ")),
            )
        })
}

fn missing(message: &str) -> Option<&str> {
    message.strip_prefix("missing field `")?.strip_suffix('`')
}

#[cfg(test)]
mod tests {
    use wire::daemon::CreateParams;

    use super::*;

    fn refusal(params: &str) -> String {
        let params = RawValue::from_string(params.to_owned()).unwrap();
        parse::<CreateParams>(Some(&params))
            .unwrap_err()
            .into_object()
            .message
    }

    #[test]
    fn a_wrong_parameter_is_named() {
        let cases = [
            (r#"{"template":"t"}"#, "name: it is missing"),
            (
                r#"{"name":7,"template":"t"}"#,
                "name: invalid type: integer `7`, expected a string",
            ),
            (
                r#"{"name":"a","template":"t","overrides":{"workDirConflict":"maybe"}}"#,
                "overrides.workDirConflict: unknown variant `maybe`, expected one of `error`, `overwrite`, `append`",
            ),
            (
                r#"{"name":"a","template":"t","overrides":{"metadata":{"k":1}}}"#,
                "overrides.metadata.k: invalid type: integer `1`, expected a string",
            ),
            ("[1]", "parameters are given by name, in an object"),
        ];
        for (params, words) in cases {
            assert_eq!(refusal(params), words, "{params}");
        }
    }
}
