//! What an agent asks, and what was answered, in words.

use domain::{
    permission::GATE,
    turn::{Answer, Ask, AskKind},
};

use super::style::{Style, Tone, many_lines, one_line};

/// Letters of what is asked for that are shown; the whole of it is in the session.
const TITLE_MAX: usize = 600;

/// The question with its options, numbered from one.
pub(crate) fn ask_text(ask: &Ask, style: Style) -> String {
    let mark = style.paint(Tone::Doubtful, "?");
    match &ask.kind {
        AskKind::Permission {
            tool,
            options,
            destructive,
        } => {
            let title: String = one_line(&tool.title).chars().take(TITLE_MAX).collect();
            let kind = style.paint(Tone::Faint, tool.kind.as_str()).into_owned();
            let mut text = format!("{mark} {kind} {}\n", style.paint(Tone::Strong, &title));
            if *destructive && tool.name.as_deref() != Some(GATE) {
                let warning = style.paint(Tone::Bad, "this cannot be undone");
                text.push_str(&format!("  {warning}\n"));
            }
            for (index, option) in options.iter().enumerate() {
                text.push_str(&format!("  {} {}\n", index + 1, one_line(&option.name)));
            }
            text
        }
        AskKind::Question { text, .. } => {
            let text = many_lines(text).into_owned();
            format!("{mark} {}\n", style.paint(Tone::Strong, &text))
        }
    }
}

/// What was answered, and by whom.
pub(crate) fn answer_text(ask: Option<&Ask>, answer: &Answer, by: Option<&str>) -> String {
    let words = match (answer, ask.map(|ask| &ask.kind)) {
        (Answer::Option { id }, Some(AskKind::Permission { options, .. })) => {
            let option = options.iter().find(|option| option.id == *id);
            option.map_or_else(|| id.clone(), |option| option.name.clone())
        }
        (Answer::Option { id }, _) => id.clone(),
        (Answer::Text { text }, _) => text.clone(),
        (Answer::Declined, _) => "declined".to_owned(),
    };
    let what = match ask.map(|ask| &ask.kind) {
        Some(AskKind::Permission { tool, .. }) => format!("{}: ", tool.title),
        Some(AskKind::Question { .. }) | None => String::new(),
    };
    // What tells one connection from another says nothing to people.
    let by = by.map(|by| by.split('#').next().unwrap_or_default());
    let by = by.map(|by| format!(" (by {by})")).unwrap_or_default();
    one_line(&format!("{what}{words}{by}")).into_owned()
}

#[cfg(test)]
mod tests {
    use domain::turn::{AskId, AskOption, OptionKind, ToolCall, ToolKind, ToolStatus};

    use super::*;

    fn permission() -> Ask {
        Ask {
            id: AskId("ask-1".to_owned()),
            kind: AskKind::Permission {
                tool: ToolCall {
                    id: "t".to_owned(),
                    title: "Write a.txt".to_owned(),
                    name: None,
                    kind: ToolKind::Edit,
                    status: ToolStatus::Pending,
                    locations: Vec::new(),
                    content: Vec::new(),
                    input: None,
                    output: None,
                },
                options: [
                    ("y", "Allow", OptionKind::AllowOnce),
                    ("n", "Reject", OptionKind::RejectOnce),
                ]
                .map(|(id, name, kind)| AskOption {
                    id: id.to_owned(),
                    name: name.to_owned(),
                    kind,
                })
                .to_vec(),
                destructive: true,
            },
        }
    }

    #[test]
    fn a_permission_lists_its_options_by_number() {
        assert_eq!(
            ask_text(&permission(), Style::Plain),
            "? edit Write a.txt\n  this cannot be undone\n  1 Allow\n  2 Reject\n"
        );
    }

    #[test]
    fn an_answer_is_told_by_the_name_of_its_option() {
        let ask = permission();
        let answer = Answer::Option { id: "n".to_owned() };
        assert_eq!(
            answer_text(Some(&ask), &answer, Some("policy")),
            "Write a.txt: Reject (by policy)"
        );
        assert_eq!(answer_text(None, &Answer::Declined, None), "declined");
    }
}
