//! Answering what an agent asks: from what a person typed to an answer of the session.

use domain::turn::{Answer, Ask, AskKind, OptionKind};
use wire::daemon::SessionAnswerParams;

use super::editor::{Editor, Typed};

/// What stands before the answer of a person.
pub(super) fn prompt(ask: &Ask) -> String {
    match &ask.kind {
        AskKind::Permission { options, .. } => {
            let default = options
                .iter()
                .position(|option| option.kind == OptionKind::RejectOnce)
                .map_or("no".to_owned(), |index| (index + 1).to_string());
            format!("  choose 1-{} [{default}] ", options.len())
        }
        AskKind::Question { .. } => "  answer [none] ".to_owned(),
    }
}

/// The answer in what was typed; nothing where it means nothing. An empty line says no.
pub(super) fn meant(ask: &Ask, typed: &str) -> Option<Answer> {
    let typed = typed.trim();
    let options = match &ask.kind {
        AskKind::Question { .. } if typed.is_empty() => return Some(Answer::Declined),
        AskKind::Question { .. } => {
            return Some(Answer::Text {
                text: typed.to_owned(),
            });
        }
        AskKind::Permission { .. } if typed.is_empty() => return Some(ask.kind.denial()),
        AskKind::Permission { options, .. } => options,
    };
    let by_number = typed
        .parse::<usize>()
        .ok()
        .and_then(|number| options.get(number.checked_sub(1)?));
    let same = |text: &str| text.eq_ignore_ascii_case(typed);
    let option = by_number
        .or_else(|| options.iter().find(|it| same(&it.id) || same(&it.name)))
        .or_else(|| match typed.to_ascii_lowercase().as_str() {
            "y" | "yes" => ask.kind.option(OptionKind::AllowOnce),
            "n" | "no" => ask.kind.option(OptionKind::RejectOnce),
            _ => None,
        })?;
    Some(Answer::Option {
        id: option.id.clone(),
    })
}

/// Asks the person at the terminal of this process, wherever stdin and stdout lead. Who leaves says no; who presses Ctrl-C wants
/// to end the whole of it, and nothing is answered.
pub(super) fn on_terminal(ask: &Ask) -> Option<Answer> {
    let Ok(mut editor) = Editor::on_terminal() else {
        return Some(ask.kind.denial());
    };
    loop {
        match editor.read(&prompt(ask)) {
            Ok(Typed::Line(line)) => {
                if let Some(answer) = meant(ask, &line) {
                    return Some(answer);
                }
            }
            Ok(Typed::Interrupt) => return None,
            Ok(Typed::End) | Err(_) => return Some(ask.kind.denial()),
        }
    }
}

/// The call that gives the answer.
pub(super) fn params(session: &str, ask: &Ask, answer: Answer) -> SessionAnswerParams {
    let mut params = SessionAnswerParams {
        session_id: session.to_owned(),
        ask: ask.id.0.clone(),
        ..SessionAnswerParams::default()
    };
    match answer {
        Answer::Option { id } => params.option = Some(id),
        Answer::Text { text } => params.text = Some(text),
        Answer::Declined => params.decline = true,
    }
    params
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn permission() -> Ask {
        serde_json::from_value(json!({
            "id": "ask-1", "ask": "permission",
            "tool": {"id": "t", "title": "Write", "kind": "edit", "status": "pending"},
            "options": [
                {"id": "a1", "name": "Allow", "kind": "allow-once"},
                {"id": "a2", "name": "Always", "kind": "allow-always"},
                {"id": "r1", "name": "Reject", "kind": "reject-once"},
            ],
        }))
        .unwrap()
    }

    #[test]
    fn options_are_chosen_by_number_name_or_yes_and_no() {
        let cases = [
            ("", Some("r1")),
            ("1", Some("a1")),
            (" 2 ", Some("a2")),
            ("y", Some("a1")),
            ("No", Some("r1")),
            ("always", Some("a2")),
            ("r1", Some("r1")),
            ("0", None),
            ("4", None),
            ("maybe", None),
        ];
        for (typed, expected) in cases {
            let id = meant(&permission(), typed).map(|answer| match answer {
                Answer::Option { id } => id,
                other => panic!("{other:?}"),
            });
            assert_eq!(id.as_deref(), expected, "{typed:?}");
        }
        assert_eq!(prompt(&permission()), "  choose 1-3 [3] ");
    }

    #[test]
    fn a_question_takes_a_line_and_an_empty_one_declines() {
        let ask: Ask =
            serde_json::from_value(json!({"id": "ask-2", "ask": "question", "text": "Colour?"}))
                .unwrap();
        assert_eq!(meant(&ask, ""), Some(Answer::Declined));
        let text = "blue".to_owned();
        assert_eq!(meant(&ask, "blue"), Some(Answer::Text { text }));
    }
}
