//! Errors of the agent in words: what it said, the detail it hid in `data`, and what to do about it.

use engine::DriverError;
use jsonrpc::ErrorObject;
use serde_json::Value;

/// The protocol's code for an agent that wants its user signed in.
pub(crate) const AUTH_REQUIRED: i64 = -32000;

/// The protocol's code for a file or a session that does not exist.
pub(crate) const RESOURCE_NOT_FOUND: i64 = -32002;

/// What is quoted of the data of an error; some agents put a whole log there.
const DETAIL_BYTES_MAX: usize = 2 * 1024;

/// The keys under which agents keep what really happened.
const DETAIL_KEYS: [&str; 5] = ["details", "detail", "message", "error", "reason"];

/// An error answer as a driver's error. `sign_in` names the ways the agent offers.
pub(crate) fn refused(error: &ErrorObject, sign_in: &[String]) -> DriverError {
    let mut message = error.message.clone();
    let data = error.data.as_deref();
    let detail = data.and_then(|data| detail(&serde_json::from_str(data.get()).ok()?));
    if let Some(detail) = detail.filter(|detail| !message.contains(detail.as_str())) {
        message = format!("{message}: {detail}");
    }
    if error.code == AUTH_REQUIRED {
        message = format!(
            "it wants its user signed in first ({message}). Sign in once with the agent's own program, or give its \
             key in the template's environment"
        );
        if !sign_in.is_empty() {
            message = format!("{message}; it offers: {}", sign_in.join(", "));
        }
    }
    DriverError::Refused {
        code: error.code,
        message,
    }
}

/// The words of an error's data: a text, or the text under one of the usual keys.
fn detail(data: &Value) -> Option<String> {
    let text = match data {
        Value::String(text) => text.as_str(),
        Value::Object(object) => DETAIL_KEYS
            .iter()
            .find_map(|key| object.get(*key).and_then(Value::as_str))?,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
    };
    let text = text.trim();
    let end = text.floor_char_boundary(DETAIL_BYTES_MAX);
    (!text.is_empty()).then(|| text[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(error: &ErrorObject, sign_in: &[&str]) -> String {
        let sign_in: Vec<String> = sign_in.iter().map(|way| (*way).to_owned()).collect();
        match refused(error, &sign_in) {
            DriverError::Refused { message, .. } => message,
            error => panic!("{error:?}"),
        }
    }

    #[test]
    fn the_detail_in_the_data_is_said_too() {
        let bare = || ErrorObject::internal("Internal error");
        let cases = [
            (bare(), "Internal error"),
            (bare().with_data("quota"), "Internal error: quota"),
            (
                bare().with_data(&json!({ "details": "exited with code 1" })),
                "Internal error: exited with code 1",
            ),
            (bare().with_data(&json!({ "other": 1 })), "Internal error"),
            (bare().with_data("Internal error"), "Internal error"),
        ];
        for (error, expected) in cases {
            assert_eq!(words(&error, &[]), expected);
        }
    }

    #[test]
    fn a_missing_sign_in_says_what_to_do() {
        let error = ErrorObject::new(AUTH_REQUIRED, "Authentication required");
        let said = words(&error, &["Log in with Google", "API key"]);
        for part in [
            "Authentication required",
            "Sign in once",
            "environment",
            "Log in with Google, API key",
        ] {
            assert!(said.contains(part), "{said}");
        }
    }
}
