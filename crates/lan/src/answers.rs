//! Whether a question of a remote run is answered for the human, from rules or from what they said, or passed to them.
//!
//! What cannot be undone is always theirs to decide, and so is a permission that no rule speaks of, and a yes or no to
//! what nobody has said can be undone. An answer says how sure it is and why, so that the journal can tell who answered what.

mod words;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use wire::runs::{AwaitMetadata, Message};

use crate::terms::terms;
use words::{folded, is_yes_or_no, says_yes_or_no, sounds_final};

/// How much of a question the words of the human must cover before they are taken for its answer.
const SURE_ENOUGH: f64 = 0.5;

/// Characters of one clause that is sent as an answer; a longer one is a story, not an answer.
const CLAUSE_MAX: usize = 200;

/// Clauses that are compared.
const CLAUSES_MAX: usize = 256;

/// What a remote run asks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Question {
    pub text: String,
    /// Which question it is, where the peer says so.
    pub ask: Option<String>,
    /// The peer's name.
    pub peer: String,
    /// It cannot be undone: only a human may answer.
    pub is_final: bool,
    /// The peer says that it can be undone.
    pub is_reversible: bool,
    /// A yes or a no would not answer it.
    pub wants_words: bool,
    /// It is a permission, not a question.
    pub is_permission: bool,
    /// The answers that it knows, where the peer tells them.
    pub options: Vec<Choice>,
}

/// One way to answer a permission of a peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    pub id: String,
    pub name: String,
    pub kind: String,
}

/// An answer that the owner gave once for all questions of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerRule {
    /// Every one of them must be in the question, in whatever case.
    pub question: Vec<String>,
    pub answer: String,
    /// Only for this peer.
    #[serde(default)]
    pub peer: Option<String>,
}

/// What is done with a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    Answer {
        text: String,
        by: AnsweredBy,
        /// From 0 to 1.
        confidence: f64,
        because: String,
    },
    AskHuman {
        because: String,
    },
}

/// Who answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnsweredBy {
    Rule,
    Context,
    /// The one that the owner has named for it.
    Agent,
    Human,
}

impl Question {
    /// Reads what a run awaits. Standard hops drop the metadata and keep the fields of a part, so both are looked at.
    pub fn of(message: &Message, metadata: Option<&AwaitMetadata>, peer: &str) -> Self {
        let is_words = |part: &&wire::runs::Part| part.content_type.starts_with("text/");
        let words = message.parts.iter().filter(is_words);
        let texts: Vec<&str> = words.filter_map(wire::runs::Part::as_text).collect();
        let text = texts.join("\n");
        let severe = |severity: Option<&str>| severity == Some("destructive");
        let told = metadata.is_some_and(AwaitMetadata::is_final);
        let told_by_part = message.parts.iter().any(|part| {
            let severity = part.extra.get("severity").and_then(|value| value.as_str());
            let reversible = part.extra.get("reversible");
            severe(severity) && reversible != Some(&serde_json::Value::Bool(true))
        });
        let is_reversible = metadata.is_some_and(|metadata| metadata.reversible == Some(true))
            || message
                .parts
                .iter()
                .any(|part| part.extra.get("reversible") == Some(&serde_json::Value::Bool(true)));
        let lower = folded(&text);
        let is_yes_or_no = is_yes_or_no(asking_part(&lower));
        let is_permission = metadata.is_some_and(|metadata| metadata.extra.contains_key("options"))
            || lower.contains("permission");
        let options = metadata.and_then(|metadata| metadata.extra.get("options"));
        let options = options.and_then(|options| serde_json::from_value(options.clone()).ok());
        Self {
            text,
            ask: metadata.and_then(AwaitMetadata::ask).map(str::to_owned),
            peer: peer.to_owned(),
            is_final: told || told_by_part || sounds_final(&lower, is_yes_or_no),
            is_reversible,
            wants_words: !told && !told_by_part && !is_yes_or_no,
            is_permission,
            options: options.unwrap_or_default(),
        }
    }
}

/// Decides; `context` is what the human said, the oldest first.
pub fn decide(question: &Question, rules: &[AnswerRule], context: &[String]) -> Decision {
    if question.is_final {
        return ask("it may not be undone, so only a human decides");
    }
    if let Some(rule) = rules.iter().find(|rule| rule.is_for(question)) {
        // The options of a permission say what is asked; a yes to mere words is a yes to whatever they mean.
        let is_yes_or_no = !question.wants_words || says_yes_or_no(&rule.answer);
        if is_yes_or_no && !question.is_reversible && question.options.is_empty() {
            return ask(
                "it is a yes or no, and the peer does not say that it can be undone, so no rule decides",
            );
        }
        return Decision::Answer {
            text: rule.answer.clone(),
            by: AnsweredBy::Rule,
            confidence: 1.0,
            because: format!("a rule answers questions with {}", rule.question.join(", ")),
        };
    }
    if question.is_permission {
        return ask("it is a permission, and no rule speaks of it");
    }
    match from_context(question, context) {
        Some((clause, confidence)) if confidence >= SURE_ENOUGH => Decision::Answer {
            because: format!("the human said: {clause}"),
            text: clause,
            by: AnsweredBy::Context,
            confidence,
        },
        Some((_, confidence)) => ask(&format!(
            "what the human said covers only {:.0} % of the question",
            confidence * 100.0
        )),
        None => ask("the human has said nothing about it"),
    }
}

fn ask(because: &str) -> Decision {
    Decision::AskHuman {
        because: because.to_owned(),
    }
}

impl AnswerRule {
    fn is_for(&self, question: &Question) -> bool {
        let text = question.text.to_lowercase();
        let is_peer = self.peer.as_ref().is_none_or(|peer| *peer == question.peer);
        is_peer
            && !self.question.is_empty()
            && self
                .question
                .iter()
                .all(|word| text.contains(&word.to_lowercase()))
    }
}

/// The clause that says most about the question and something beyond it.
fn from_context(question: &Question, context: &[String]) -> Option<(String, f64)> {
    let asking = asking_part(&question.text).trim();
    let asked: BTreeSet<String> = terms(asking).into_iter().collect();
    if asked.is_empty() {
        return None;
    }
    let clauses = context.iter().flat_map(|said| clauses(said));
    let mut best: Option<(String, f64)> = None;
    for clause in clauses.take(CLAUSES_MAX) {
        let said: BTreeSet<String> = terms(clause).into_iter().collect();
        let shared = asked.intersection(&said).count();
        let says_more = said.difference(&asked).next().is_some();
        // Whoever says the question itself has not answered it.
        if shared == 0
            || !says_more
            || clause.contains(asking)
            || clause.chars().count() > CLAUSE_MAX
        {
            continue;
        }
        let covered = shared as f64 / asked.len() as f64;
        // Of two that say as much, what was said last counts.
        if best.as_ref().is_none_or(|(_, known)| covered >= *known) {
            best = Some((clause.to_owned(), covered));
        }
    }
    best
}

/// The sentence with the question mark; what comes before it tells what was found, not what is wanted.
fn asking_part(text: &str) -> &str {
    let is_mark = |c: char| matches!(c, '?' | '？');
    let Some(end) = text.rfind(is_mark) else {
        return text;
    };
    let before = &text[..end];
    let start = before.rfind(['。', '!', '！', '\n', '?', '？', ';', '；']);
    let start = start.max(before.rfind(". "));
    match start {
        Some(at) => {
            let length = before[at..].chars().next().map_or(0, char::len_utf8);
            &before[at + length..]
        }
        None => before,
    }
}

fn clauses(text: &str) -> Vec<&str> {
    let ends = |c: char| {
        matches!(
            c,
            ',' | '，' | '。' | ';' | '；' | '\n' | '!' | '！' | '?' | '？'
        )
    };
    let parts = text.split(ends).flat_map(|part| part.split(". "));
    let trimmed = parts.map(|part| part.trim().trim_end_matches('.'));
    trimmed.filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};
    use wire::runs::Part;

    use super::*;

    fn question(text: &str) -> Question {
        Question::of(
            &Message::new("agent", vec![Part::text(text)]),
            None,
            "nova9",
        )
    }

    fn answered(
        question: &Question,
        rules: &[AnswerRule],
        context: &[&str],
    ) -> Option<(String, AnsweredBy)> {
        let context: Vec<String> = context.iter().map(|said| (*said).to_owned()).collect();
        match decide(question, rules, &context) {
            Decision::Answer {
                text,
                by,
                confidence,
                because,
            } => {
                assert!((SURE_ENOUGH..=1.0).contains(&confidence) && !because.is_empty());
                Some((text, by))
            }
            Decision::AskHuman { because } => {
                assert!(!because.is_empty());
                None
            }
        }
    }

    #[test]
    fn what_the_human_has_said_answers_for_them() {
        let said = "帮我把乌克兰新闻的前三条翻译成中文，生成PDF，用A4纸张大小";
        let found = answered(&question("请问PDF需要什么纸张大小？"), &[], &[said]);
        assert_eq!(
            found,
            Some(("用A4纸张大小".to_owned(), AnsweredBy::Context))
        );
        let said = "Make a report, use the paper size A4. Thanks";
        let found = answered(&question("Which paper size?"), &[], &[said]);
        assert_eq!(found.unwrap().0, "use the paper size A4");
    }

    #[test]
    fn what_was_said_last_counts() {
        let said = ["paper size A4", "no, make the paper size A5"];
        let found = answered(&question("Which paper size?"), &[], &said);
        assert_eq!(found.unwrap().0, "make the paper size A5");
    }

    #[test]
    fn a_question_that_the_words_do_not_cover_goes_to_the_human() {
        let asked = "找到5条：\n1. 泽连斯基讲话\n2. 前线更新\n3. 欧盟援助\n\n要整理哪几条？";
        assert_eq!(
            answered(&question(asked), &[], &["帮我关注一下乌克兰局势"]),
            None
        );
        assert_eq!(
            answered(&question("Which paper size?"), &[], &["which paper size"]),
            None,
            "it says nothing new"
        );
        let repeated = answered(
            &question("Which paper size?"),
            &[],
            &["ask them: Which paper size?"],
        );
        assert_eq!(repeated, None, "the question is no answer");
        assert_eq!(answered(&question("Which paper size?"), &[], &[]), None);
    }

    #[test]
    fn what_cannot_be_undone_always_goes_to_the_human() {
        let rule = AnswerRule {
            question: vec!["确认".to_owned()],
            answer: "是".to_owned(),
            peer: None,
        };
        let metadata = AwaitMetadata {
            severity: Some("destructive".to_owned()),
            reversible: Some(false),
            extra: Map::new(),
        };
        let message = Message::new("agent", vec![Part::text("确认执行？")]);
        let marked = Question::of(&message, Some(&metadata), "nova9");
        let mut part = Part::text("确认执行？");
        part.extra
            .insert("severity".to_owned(), json!("destructive"));
        part.extra.insert("reversible".to_owned(), json!(false));
        let by_part = Question::of(&Message::new("agent", vec![part]), None, "nova9");
        let by_words = question("即将删除3月1日到3月7日的所有日程，确认执行？");
        for question in [marked, by_part, by_words] {
            assert_eq!(
                answered(&question, std::slice::from_ref(&rule), &["确认执行，是"]),
                None
            );
        }
        let metadata = AwaitMetadata {
            severity: None,
            reversible: Some(true),
            extra: Map::new(),
        };
        let undone = Question::of(&message, Some(&metadata), "nova9");
        assert!(answered(&undone, std::slice::from_ref(&rule), &[]).is_some());
        assert_eq!(answered(&question("确认执行？"), &[rule], &[]), None);
    }

    #[test]
    fn no_rule_sends_pays_or_says_yes_to_what_nobody_called_reversible() {
        let rule = |question: &str, answer: &str| AnswerRule {
            question: vec![question.to_owned()],
            answer: answer.to_owned(),
            peer: None,
        };
        for (asked, is_final) in [
            ("Shall I send it to all 4000 customers now?", true),
            ("Shall I email this to your boss?", true),
            ("Shall I order and charge your card 900 EUR?", true),
            ("Shall I drop the database?", true),
            ("Sending it now, shall I?", true),
            ("Shall I publish the post?", true),
            ("要不要把合同发给客户？", true),
            ("现在下单购买吗？", true),
            ("Shall I begin?", false),
            ("Proceed, shall I?", false),
            ("可以开始吗？", false),
        ] {
            let asked = question(asked);
            assert_eq!(asked.is_final, is_final, "{}", asked.text);
            for word in ["shall i", "吗", "要不要"] {
                let rules = [rule(word, "yes"), rule(word, "go ahead")];
                assert_eq!(answered(&asked, &rules, &[]), None, "{}", asked.text);
            }
        }
        let plain = question("Paper size?");
        assert_eq!(
            answered(&plain, &[rule("paper", "Yes, please.")], &[]),
            None
        );
        assert!(answered(&plain, &[rule("paper", "A4")], &[]).is_some());
        let ordered = question("In which order shall I list them?");
        assert!(!ordered.is_final && ordered.wants_words);
        assert!(answered(&ordered, &[rule("order", "by date")], &[]).is_some());
        let which = question("Which file shall I send?");
        assert!(which.is_final && which.wants_words);
    }

    #[test]
    fn a_rule_answers_its_questions_and_no_others() {
        let rule = AnswerRule {
            question: vec!["PAPER".to_owned(), "size".to_owned()],
            answer: "A4".to_owned(),
            peer: Some("nova9".to_owned()),
        };
        let rules = [rule];
        let found = answered(&question("which Paper Size"), &rules, &[]);
        assert_eq!(found, Some(("A4".to_owned(), AnsweredBy::Rule)));
        assert_eq!(answered(&question("which size"), &rules, &[]), None);
        let mut elsewhere = question("which paper size");
        elsewhere.peer = "tablet".to_owned();
        assert_eq!(answered(&elsewhere, &rules, &[]), None);
    }

    #[test]
    fn a_permission_is_never_answered_from_words() {
        let metadata = AwaitMetadata {
            severity: Some("normal".to_owned()),
            reversible: None,
            extra: Map::from_iter([("options".to_owned(), json!([]))]),
        };
        let message = Message::new("agent", vec![Part::text("run tests now?")]);
        let asked = Question::of(&message, Some(&metadata), "desk");
        assert_eq!(
            answered(&asked, &[], &["run tests now please quickly"]),
            None
        );
    }
}
