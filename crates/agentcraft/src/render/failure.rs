//! Why a command failed, as text for people and as one JSON object for programs.

use serde_json::{Map, Value, json};

use super::style::{Style, Tone, many_lines, one_line};
use crate::error::CommandError;

/// Labels of the context are padded to this.
const LABEL_WIDTH: usize = 11;

pub(super) fn text(error: &CommandError, style: Style) -> String {
    let mut text = format!(
        "{} {}\n",
        style.paint(Tone::Bad, "error:"),
        many_lines(&error.to_string())
    );
    let mut line = |label: &str, value: &str| {
        let label = format!("{:<LABEL_WIDTH$}", one_line(label));
        text.push_str(&format!(
            "  {} {}\n",
            style.paint(Tone::Faint, &label),
            many_lines(value)
        ));
    };
    for cause in error.causes() {
        line("because", &cause);
    }
    match error {
        CommandError::NotRunning { socket } => line("socket", &socket.display().to_string()),
        CommandError::NotStarted { report, log, .. } => {
            report.lines().for_each(|part| line("it said", part));
            line("log", &log.display().to_string());
        }
        CommandError::Remote(remote) => {
            let code = remote.code.to_string();
            let named = format!("{} ({code})", remote.error_code);
            line(
                "code",
                if remote.error_code.is_empty() {
                    &code
                } else {
                    &named
                },
            );
            for (key, value) in &remote.context {
                for part in context_lines(value) {
                    line(key, &part);
                }
            }
        }
        _ => {}
    }
    if let Some(hint) = error.hint() {
        text.push_str(&format!("{} {hint}\n", style.paint(Tone::Good, "hint:")));
    }
    text
}

pub(super) fn json(error: &CommandError) -> String {
    let mut object = Map::new();
    object.insert("message".to_owned(), json!(error.to_string()));
    if let CommandError::Remote(remote) = error {
        object.insert("code".to_owned(), json!(remote.code));
        object.insert("errorCode".to_owned(), json!(remote.error_code));
        object.insert("context".to_owned(), json!(remote.context));
    }
    let causes = error.causes();
    if !causes.is_empty() {
        object.insert("causes".to_owned(), json!(causes));
    }
    if let Some(hint) = error.hint() {
        object.insert("hint".to_owned(), json!(hint));
    }
    object.insert("exitCode".to_owned(), json!(error.exit().number()));
    format!("{}\n", json!({ "error": object }))
}

/// A value of the context in words: texts bare, problems with their paths, lists one line each.
fn context_lines(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(values) => values.iter().flat_map(context_lines).collect(),
        Value::Object(problem) => {
            let part = |key| problem.get(key).and_then(Value::as_str);
            match (part("path"), part("message")) {
                (Some("") | None, Some(message)) => vec![message.to_owned()],
                (Some(path), Some(message)) => vec![format!("{path}: {message}")],
                (_, None) => vec![value.to_string()],
            }
        }
        Value::Null => Vec::new(),
        Value::Bool(_) | Value::Number(_) => vec![value.to_string()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Remote, Versions};

    fn remote(error_code: &str, code: i64, context: Value) -> Box<Remote> {
        Box::new(Remote {
            code,
            message: "it did not work".to_owned(),
            error_code: error_code.to_owned(),
            context: serde_json::from_value(context).unwrap(),
            versions: None,
        })
    }

    fn check(error: &CommandError, exit: u8, expected: &str) {
        assert_eq!(text(error, Style::Plain), expected);
        assert_eq!(error.exit().number(), exit);
    }

    #[test]
    fn a_missing_daemon_says_how_to_start_one() {
        check(
            &CommandError::NotRunning {
                socket: "/home/ann/a.sock".into(),
            },
            3,
            "error: the daemon is not running\n  socket      /home/ann/a.sock\n\
             hint: start it with `agentcraft daemon start`, or try a node with `agentcraft up`\n",
        );
    }

    #[test]
    fn an_answer_shows_message_code_context_and_what_to_do() {
        check(
            &CommandError::Remote(remote(
                "AGENT_ALREADY_RUNNING",
                -32004,
                json!({ "name": "reviewer", "pid": 7 }),
            )),
            1,
            "error: it did not work\n  code        AGENT_ALREADY_RUNNING (-32004)\n  name        reviewer\n  \
             pid         7\nhint: `agentcraft agent stop reviewer` ends its process first\n",
        );
    }

    #[test]
    fn problems_of_a_file_come_one_per_line() {
        let errors = json!({ "errors": [
            { "path": "backend.type", "message": "is missing" },
            { "path": "", "message": "is empty" },
        ] });
        check(
            &CommandError::Remote(remote("CONFIG_VALIDATION", -32002, errors)),
            5,
            "error: it did not work\n  code        CONFIG_VALIDATION (-32002)\n  \
             errors      backend.type: is missing\n  errors      is empty\n\
             hint: `agentcraft template validate FILE` shows every problem of a file\n",
        );
    }

    #[test]
    fn an_answer_without_data_shows_the_bare_code() {
        check(
            &CommandError::Remote(remote("", -32099, json!({}))),
            1,
            "error: it did not work\n  code        -32099\n",
        );
    }

    #[test]
    fn different_versions_are_both_named() {
        let versions = Versions {
            command: "0.2.0".to_owned(),
            daemon: "0.1.0".to_owned(),
        };
        let mut unknown = remote("METHOD_NOT_FOUND", -32601, json!({}));
        unknown.versions = Some(versions);
        check(
            &CommandError::Remote(unknown),
            1,
            "error: it did not work\n  code        METHOD_NOT_FOUND (-32601)\n\
             hint: this command is 0.2.0 and the daemon is 0.1.0; `agentcraft daemon restart` makes them one\n",
        );
    }

    #[test]
    fn escapes_of_others_do_not_reach_the_terminal() {
        let mut evil = remote(
            "AGENT_LAUNCH",
            -32008,
            json!({ "stderr": "\u{1b}]0;x\u{7}" }),
        );
        evil.message = "\u{1b}[2Jgone".to_owned();
        let text = text(&CommandError::Remote(evil), Style::Plain);
        assert!(
            !text.contains('\u{1b}') && text.contains("\\u{1b}[2Jgone"),
            "{text}"
        );
    }

    #[test]
    fn programs_get_one_object_on_one_line() {
        let error = CommandError::Remote(remote("AGENT_NOT_FOUND", -32003, json!({ "name": "x" })));
        let text = json(&error);
        assert_eq!(text.lines().count(), 1);
        let expected = json!({ "error": {
            "message": "it did not work",
            "code": -32003,
            "errorCode": "AGENT_NOT_FOUND",
            "context": { "name": "x" },
            "hint": "`agentcraft agent list` shows the agents there are",
            "exitCode": 4,
        } });
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let error = CommandError::Print(std::io::ErrorKind::BrokenPipe.into());
        assert_eq!(error.exit().number(), 0);
    }
}
