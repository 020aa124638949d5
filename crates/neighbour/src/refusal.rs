//! A refusal as servers write it: ours, those of the standard, and those of the local network's dialect alone.

use reqwest::StatusCode;
use serde_json::Value;
use wire::runs::ErrorBody;

use crate::ClientError;

/// Characters that are kept of what a refusal says, and of the word for programs in it.
const TEXT_MAX: usize = 2000;
const CODE_MAX: usize = 100;

/// The code, the message, the suggestion and the details.
type Told = (String, String, Option<String>, Option<Value>);

pub(crate) fn refusal(status: StatusCode, bytes: &[u8]) -> ClientError {
    let body: Option<ErrorBody> = serde_json::from_slice(bytes).ok();
    let (code, message, suggestion, details) = match body {
        Some(ErrorBody {
            error: Some(error),
            message,
            ..
        }) => (error.code, message, error.suggestion, error.details),
        Some(body) => (body.code, body.message, None, body.data),
        None => dialect_error(bytes).unwrap_or_else(|| {
            (
                "refused".to_owned(),
                format!("it answered {status}"),
                None,
                None,
            )
        }),
    };
    ClientError::Refused {
        status: status.as_u16(),
        code: cut(&code, CODE_MAX),
        message: cut(&message, TEXT_MAX),
        suggestion: suggestion.map(|text| cut(&text, TEXT_MAX)),
        details: details.map(Box::new),
    }
}

/// Peers of the network's dialect alone write `{"error": "word"}` or `{"error": {code, message, …}}`.
fn dialect_error(bytes: &[u8]) -> Option<Told> {
    let body: Value = serde_json::from_slice(bytes).ok()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match body.get("error")? {
        Value::String(word) => Some((word.clone(), word.clone(), None, None)),
        error => {
            let code = error.get("code").and_then(text)?;
            let message = error
                .get("message")
                .and_then(text)
                .unwrap_or_else(|| code.clone());
            let suggestion = error.get("suggestion").and_then(text);
            Some((code, message, suggestion, error.get("details").cloned()))
        }
    }
}

/// At most so many characters, without those that a terminal would obey.
pub fn cut(text: &str, max: usize) -> String {
    let plain = text.chars().filter(|c| !c.is_control() || *c == '\n');
    plain.take(max).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refusals_of_every_server_are_read() {
        let ours = json!({ "code": "invalid_input", "message": "no", "error": { "code": "wrong_answer", "message": "no",
            "suggestion": "say yes" } });
        let standard = json!({ "code": "not_found", "message": "nobody", "data": null });
        let dialect = json!({ "status": "failed", "error": { "code": "circular_call_detected", "message": "循环" } });
        let short = json!({ "error": "self_loop_rejected" });
        for (body, code, message, suggestion) in [
            (ours, "wrong_answer", "no", Some("say yes")),
            (standard, "not_found", "nobody", None),
            (dialect, "circular_call_detected", "循环", None),
            (short, "self_loop_rejected", "self_loop_rejected", None),
            (
                json!("<html>"),
                "refused",
                "it answered 404 Not Found",
                None,
            ),
        ] {
            let refused = refusal(StatusCode::NOT_FOUND, body.to_string().as_bytes());
            let ClientError::Refused {
                code: is,
                message: said,
                suggestion: way_on,
                ..
            } = &refused
            else {
                panic!("{refused:?}");
            };
            assert_eq!((is.as_str(), said.as_str()), (code, message));
            assert_eq!(way_on.as_deref(), suggestion);
            assert!(refused.is_not_found() && !refused.is_away());
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_left_out() {
        assert_eq!(cut("a\u{1b}[2Jb\nc", 100), "a[2Jb\nc");
        assert_eq!(cut("轻音乐电台", 3), "轻音乐");
    }
}
