//! Tool calls in a conversation: one line each, and what they changed, shortened.

use domain::turn::{ToolCall, ToolContent, ToolStatus};
use unicode_width::UnicodeWidthStr;

use super::{
    style::{Style, Tone, one_line},
    symbols::Symbols,
    table::shorten,
};

/// Lines of a change that are shown: the rest is in the file.
const CHANGE_MAX: usize = 12;

/// Lines of what a failed tool said.
const SAID_MAX: usize = 3;

/// Without a terminal a title is cut here: some agents put whole scripts there.
const TITLE_MAX: usize = 200;

/// Bytes of each side of a change that are looked at: what is larger is only counted.
const SIDE_MAX: usize = 256 * 1024;

/// The one line of a tool call, without a line break.
pub(super) fn tool_line(
    tool: &ToolCall,
    style: Style,
    symbols: Symbols,
    width: Option<usize>,
) -> String {
    let (tone, mark) = match tool.status {
        ToolStatus::Pending | ToolStatus::InProgress => (Tone::Doubtful, symbols.waiting),
        ToolStatus::Completed => (Tone::Good, symbols.done),
        ToolStatus::Failed => (Tone::Bad, symbols.failed),
    };
    let kind = tool.kind.as_str();
    // One column stays free: terminals differ in what a full line does to the cursor.
    let taken = mark.width() + kind.len() + 3;
    let room = width.map_or(TITLE_MAX, |width| width.saturating_sub(taken).max(8));
    let title = shorten(&one_line(&tool.title), room);
    format!(
        "{} {} {title}",
        style.paint(tone, mark),
        style.paint(Tone::Faint, kind)
    )
}

/// What is worth knowing once a call is over: changes of files, and the words of a failure.
pub(super) fn tool_outcome(
    tool: &ToolCall,
    style: Style,
    symbols: Symbols,
    width: Option<usize>,
) -> String {
    let mut text = String::new();
    for content in &tool.content {
        match content {
            ToolContent::Diff { old, new, .. } => {
                for (tone, line) in change(old.as_deref().unwrap_or_default(), new, symbols) {
                    let line = shorten(&one_line(&line), room(width));
                    text.push_str(&format!("  {}\n", style.paint(tone, &line)));
                }
            }
            ToolContent::Text { text: said } if tool.status == ToolStatus::Failed => {
                for line in said.lines().take(SAID_MAX) {
                    let line = shorten(&one_line(line), room(width));
                    text.push_str(&format!("  {}\n", style.paint(Tone::Bad, &line)));
                }
            }
            ToolContent::Text { .. } | ToolContent::Terminal { .. } => {}
        }
    }
    text
}

fn room(width: Option<usize>) -> usize {
    width.map_or(TITLE_MAX, |width| width.saturating_sub(3).max(8))
}

/// The lines between what both sides begin and end with.
fn change(old: &str, new: &str, symbols: Symbols) -> Vec<(Tone, String)> {
    if old.len() > SIDE_MAX || new.len() > SIDE_MAX {
        let words = format!("{} bytes before, {} after", old.len(), new.len());
        return vec![(Tone::Faint, words)];
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = |(left, right): &(&&str, &&str)| left == right;
    let head = old.iter().zip(&new).take_while(same).count();
    let (old, new) = (&old[head..], &new[head..]);
    let tail = old.iter().rev().zip(new.iter().rev());
    let tail = tail.take_while(same).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    // Each side gets the room that the other leaves.
    let half = CHANGE_MAX / 2;
    let removed = old
        .len()
        .min(half.max(CHANGE_MAX.saturating_sub(new.len())));
    let added = new.len().min(CHANGE_MAX - removed);
    let mut lines = Vec::new();
    for (sign, tone, side, shown) in [
        ("-", Tone::Bad, old, removed),
        ("+", Tone::Good, new, added),
    ] {
        lines.extend(
            side[..shown]
                .iter()
                .map(|line| (tone, format!("{sign} {line}"))),
        );
        if side.len() > shown {
            let rest = side.len() - shown;
            lines.push((
                Tone::Faint,
                format!("{sign} {} {rest} more lines", symbols.more),
            ));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use domain::turn::ToolKind;

    use super::*;

    fn edit(old: Option<&str>, new: &str) -> ToolCall {
        ToolCall {
            id: "t".to_owned(),
            title: "Write a.txt\n\x1b[2Jand more".to_owned(),
            name: None,
            kind: ToolKind::Edit,
            status: ToolStatus::Completed,
            locations: Vec::new(),
            content: vec![ToolContent::Diff {
                path: "a.txt".to_owned(),
                old: old.map(str::to_owned),
                new: new.to_owned(),
            }],
            input: None,
            output: None,
        }
    }

    #[test]
    fn a_call_is_one_harmless_line_that_fits() {
        let tool = edit(None, "");
        let line = |width| tool_line(&tool, Style::Plain, Symbols::UNICODE, width);
        assert_eq!(line(None), "✓ edit Write a.txt \\u{1b}[2Jand more");
        assert_eq!(line(Some(19)), "✓ edit Write a.tx…");
        assert!((19..40).all(|width| line(Some(width)).width() < width));
        let ascii = tool_line(&tool, Style::Plain, Symbols::ASCII, None);
        assert!(ascii.starts_with("+ edit"), "{ascii}");
    }

    #[test]
    fn a_change_shows_what_differs_and_counts_the_rest() {
        let outcome =
            |tool: &ToolCall| tool_outcome(tool, Style::Plain, Symbols::UNICODE, Some(40));
        assert_eq!(
            outcome(&edit(Some("a\nb\nc\n"), "a\nB\nc\n")),
            "  - b\n  + B\n"
        );
        let long: String = (0..20).map(|line| format!("{line}\n")).collect();
        let text = outcome(&edit(None, &long));
        assert_eq!(text.lines().count(), 13);
        assert!(text.ends_with("  + 11\n  + … 8 more lines\n"), "{text}");
    }
}
