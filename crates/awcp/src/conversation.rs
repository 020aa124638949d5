//! What was said in the rounds of a delegation: each is done by an agent of its own, which is told what went before.

use serde::{Deserialize, Serialize};

use crate::record::HostRecord;

/// Rounds that are told again; earlier ones have become what the folder is.
const ROUNDS_MAX: usize = 8;

/// How much of a text is told again: enough for an answer, and all rounds together stay a small part of a prompt.
const TEXT_MAX: usize = 8 * 1024;

/// One round, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exchange {
    asked: String,
    answered: String,
}

impl HostRecord {
    /// What was said until the end of this round.
    pub(crate) fn conversation(&self) -> Vec<Exchange> {
        let answered = match self.machine.ending() {
            None => String::new(),
            Some(ending) => match (ending, ending.failure()) {
                (_, Some(failure)) => failure.message.clone(),
                (domain::delegation::Ending::Completed(report), None) => report.summary.clone(),
                (_, None) => String::new(),
            },
        };
        let mut said = self.conversation.clone();
        said.push(Exchange {
            asked: cut(&self.task.prompt),
            answered: cut(&answered),
        });
        let old = said.len().saturating_sub(ROUNDS_MAX);
        said.split_off(old)
    }

    /// What the remote is asked: the task, and behind it what went before. A command to the agent stands alone, since what follows
    /// would be part of it.
    pub(crate) fn prompt(&self) -> String {
        if self.conversation.is_empty() || self.task.prompt.starts_with('/') {
            return self.task.prompt.clone();
        }
        let mut prompt = format!(
            "{}\n\nThis goes on from earlier work in the same folder. What was said then, the oldest first:",
            self.task.prompt
        );
        for Exchange { asked, answered } in &self.conversation {
            prompt = format!(
                "{prompt}\n\n{}\n{}",
                quoted("Asked", asked),
                quoted("Answered", answered)
            );
        }
        prompt
    }
}

/// Every line is marked, so that none of it is taken for something to be done now.
fn quoted(who: &str, text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("> {line}")).collect();
    format!("{who}:\n{}", lines.join("\n"))
}

fn cut(text: &str) -> String {
    if text.len() <= TEXT_MAX {
        return text.to_owned();
    }
    let mut end = TEXT_MAX;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{} …", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_quoted_and_cut_between_letters() {
        assert_eq!(quoted("Asked", "a\nb"), "Asked:\n> a\n> b");
        let long = "é".repeat(TEXT_MAX);
        let cut = cut(&long);
        assert!(cut.len() < TEXT_MAX + 8 && cut.ends_with(" …"));
    }
}
