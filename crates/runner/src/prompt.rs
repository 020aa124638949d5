//! What somebody typed: `/name`, inputs as `key=value` or `--input key=value`, quotes, or one text for the only input.

use std::collections::HashSet;

use serde_json::{Map, Value};
use workflow::{InputKind, InputSpec, Plan};

/// Says that an input follows.
const OPTION: &str = "--input";

/// How much of a text is read to find where the inputs after it begin, in lengths of the text: quotes can make every `--input` one whose
/// value reaches to the end.
const READ_MAX: usize = 64;

/// A workflow that somebody wants to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    pub name: String,
    /// Everything after the name, as written.
    pub rest: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    #[error("a quote is not closed")]
    Quote,
    #[error("--input needs key=value after it")]
    NoValue,
    #[error("{word:?} is not an input: write key=value")]
    NotAnInput { word: String },
    #[error("the input {name} is given twice")]
    Twice { name: String },
    #[error(
        "{word:?} comes after the input {name}: put the value of {name} into quotes, or leave {name}= out and write the text alone"
    )]
    After { name: String, word: String },
    #[error(
        "where the inputs after the text begin cannot be told, so many quotes there are: write them before it, and the text as {name}='…'"
    )]
    Unclear { name: String },
}

impl Command {
    /// The command in a prompt that begins with a slash.
    pub fn parse(prompt: &str) -> Option<Self> {
        let rest = prompt.trim().strip_prefix('/')?;
        let (name, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        (!name.is_empty()).then(|| Self {
            name: name.to_owned(),
            rest: rest.trim().to_owned(),
        })
    }

    /// The inputs where nobody has named the workflow, so that the text is meant as it is.
    pub(crate) fn text(&self, plan: &Plan) -> Result<Map<String, Value>, PromptError> {
        let mut required = plan.inputs.iter().filter(|input| input.required);
        match (required.next(), required.next()) {
            (Some(only), None) => {
                let text = Value::String(self.rest.clone());
                Ok(Map::from_iter([(only.name.clone(), text)]))
            }
            (Some(_) | None, _) => self.inputs(plan),
        }
    }

    /// The inputs. Where one alone is required, what follows the leading inputs is the text of that one, as it is written: only the
    /// name of an input that the workflow has makes a word an input there.
    pub fn inputs(&self, plan: &Plan) -> Result<Map<String, Value>, PromptError> {
        let mut required = plan.inputs.iter().filter(|input| input.required);
        match (required.next(), required.next()) {
            (Some(only), None) => with_text(&self.rest, only, plan),
            (Some(_) | None, _) => strict(&self.rest, plan),
        }
    }
}

/// Inputs alone: every word must be one. A name that the workflow does not have is told by the check, with the nearest that it has.
fn strict(text: &str, plan: &Plan) -> Result<Map<String, Value>, PromptError> {
    let mut inputs = Map::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (pair, after) = pair(rest)?;
        add(&mut inputs, &pair, plan)?;
        rest = after;
    }
    Ok(inputs)
}

/// Inputs and then, perhaps, the text of the only one that is required. Those that are said with `--input` may follow the text.
fn with_text(text: &str, only: &InputSpec, plan: &Plan) -> Result<Map<String, Value>, PromptError> {
    let mut inputs = Map::new();
    let mut rest = text.trim_start();
    while begins_with_input(rest, plan) {
        let (pair, after) = pair(rest)?;
        add(&mut inputs, &pair, plan)?;
        rest = after;
    }
    if rest.is_empty() {
        return Ok(inputs);
    }
    if inputs.contains_key(&only.name) {
        let word = rest.split_whitespace().next().unwrap_or_default();
        return Err(PromptError::After {
            name: only.name.clone(),
            word: word.to_owned(),
        });
    }
    let unclear = || PromptError::Unclear {
        name: only.name.clone(),
    };
    let (own, last) = rest.split_at(explicit(rest, plan).ok_or_else(unclear)?);
    for (name, value) in strict(last, plan)? {
        if name == only.name || inputs.insert(name.clone(), value).is_some() {
            return Err(PromptError::Twice { name });
        }
    }
    inputs.insert(
        only.name.clone(),
        typed(unquoted(own.trim()), Some(only.kind)),
    );
    Ok(inputs)
}

/// The inside of a text that stands in quotes as a whole.
fn unquoted(text: &str) -> &str {
    let inside = |quote: char| {
        let inside = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inside.contains(quote) && !inside.contains('\\')).then_some(inside)
    };
    inside('"').or_else(|| inside('\'')).unwrap_or(text)
}

/// Where the inputs begin that are said with `--input` and stand to the end; the end where there are none. Nothing if that takes too long
/// to find out.
fn explicit(text: &str, plan: &Plan) -> Option<usize> {
    let mut left = text.len().saturating_mul(READ_MAX);
    // Places from which not all is inputs; whatever is read up to one of them need not be read further.
    let mut vain: HashSet<usize> = HashSet::new();
    for (begin, _) in text.match_indices(OPTION) {
        if !text[..begin].ends_with(char::is_whitespace) {
            continue;
        }
        let mut rest = &text[begin..];
        while !rest.is_empty() {
            let place = text.len() - rest.len();
            let is_input = after_option(rest).is_some_and(|pair| names_input(pair, plan));
            if !is_input || !vain.insert(place) {
                break;
            }
            let next = pair(rest).ok();
            let unread = next.as_ref().map_or(0, |(_, after)| after.len());
            left = left.checked_sub(rest.len() - unread)?;
            match next {
                Some((_, after)) => rest = after,
                None => break,
            }
        }
        if rest.is_empty() {
            return Some(begin);
        }
    }
    Some(text.len())
}

/// Whether a text begins with an input: nobody writes `--input` first who means words.
fn begins_with_input(text: &str, plan: &Plan) -> bool {
    after_option(text).is_some() || names_input(text, plan)
}

/// What follows `--input`.
fn after_option(text: &str) -> Option<&str> {
    let rest = text.strip_prefix(OPTION)?;
    let is_sign = |letter: char| letter == '=' || letter.is_whitespace();
    (rest.is_empty() || rest.starts_with(is_sign)).then(|| rest.trim_start_matches(is_sign))
}

/// Whether a text begins with `NAME=`, where the workflow has an input of that name.
fn names_input(text: &str, plan: &Plan) -> bool {
    let is_it = |input: &InputSpec| {
        let rest = text.strip_prefix(input.name.as_str());
        rest.is_some_and(|rest| rest.starts_with('='))
    };
    plan.inputs.iter().any(is_it)
}

/// The first input of a text, and what follows it.
fn pair(text: &str) -> Result<(String, &str), PromptError> {
    let (word, rest) = first_word(text)?;
    match word.strip_prefix(OPTION) {
        Some("") if rest.is_empty() => Err(PromptError::NoValue),
        Some("") => first_word(rest),
        Some(rest_of_word) => match rest_of_word.strip_prefix('=') {
            Some(pair) => Ok((pair.to_owned(), rest)),
            None => Err(PromptError::NotAnInput { word }),
        },
        None => Ok((word, rest)),
    }
}

fn add(inputs: &mut Map<String, Value>, pair: &str, plan: &Plan) -> Result<(), PromptError> {
    let Some((name, value)) = pair.split_once('=') else {
        return Err(PromptError::NotAnInput {
            word: pair.to_owned(),
        });
    };
    let known = plan.inputs.iter().find(|input| input.name == name);
    let value = typed(value, known.map(|input| input.kind));
    match inputs.insert(name.to_owned(), value) {
        None => Ok(()),
        Some(_) => Err(PromptError::Twice {
            name: name.to_owned(),
        }),
    }
}

/// A value of the kind that the input has; one that is not stays a text, and the check says what is wrong with it.
pub fn typed(text: &str, kind: Option<InputKind>) -> Value {
    let parsed = match kind {
        Some(InputKind::Integer) => text.trim().parse::<i64>().ok().map(Value::from),
        Some(InputKind::Boolean) => text.trim().parse::<bool>().ok().map(Value::from),
        Some(InputKind::String) | None => None,
    };
    parsed.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// The first word as a shell splits them, with quotes and backslashes and nothing else, and what follows it.
fn first_word(text: &str) -> Result<(String, &str), PromptError> {
    let mut word = String::new();
    let mut quote: Option<char> = None;
    let mut letters = text.char_indices();
    while let Some((place, letter)) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some('"') | None, '\\') => word.extend(letters.next().map(|(_, letter)| letter)),
            (Some(_), _) => word.push(letter),
            (None, '\'' | '"') => quote = Some(letter),
            (None, _) if letter.is_whitespace() => return Ok((word, text[place..].trim_start())),
            (None, _) => word.push(letter),
        }
    }
    match quote {
        Some(_) => Err(PromptError::Quote),
        None => Ok((word, "")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan(inputs: &str) -> Plan {
        let text = format!(
            "name: t\ninputs:\n{inputs}\nstates:\n  initial: done\n  done:\n    type: terminal\n"
        );
        let loaded = workflow::load(&text, &|_| Err(String::new()));
        loaded
            .plan
            .unwrap_or_else(|| panic!("{:?}", loaded.problems))
    }

    fn check(prompt: &str, inputs: &str) -> Result<Value, String> {
        let command = Command::parse(prompt).ok_or("no command")?;
        let inputs = command.inputs(&plan(inputs));
        inputs.map(Value::Object).map_err(|error| error.to_string())
    }

    const TWO: &str =
        "  - {name: who, type: string, required: true}\n  - {name: count, type: integer}";

    #[test]
    fn inputs_are_read_in_every_way_people_write_them() {
        let both = json!({"who": "a b", "count": 3});
        for prompt in [
            "/greet who='a b' count=3",
            "/greet --input=who=\"a b\" --input=count=3",
            "  /greet --input who=a\\ b --input count=3",
        ] {
            assert_eq!(check(prompt, TWO), Ok(both.clone()), "{prompt}");
        }
    }

    #[test]
    fn the_only_required_input_takes_the_whole_text() {
        let text = json!({"who": "the quick brown fox's den"});
        assert_eq!(check("/greet the quick brown fox's den", TWO), Ok(text));
    }

    const TEXT_AND_STYLE: &str =
        "  - {name: question, type: string, required: true}\n  - {name: style, type: string}";

    #[test]
    fn text_with_an_equals_sign_in_it_is_text_unless_an_input_of_the_workflow_is_named() {
        for (prompt, inputs) in [
            (
                "/ask why is a=b wrong",
                json!({"question": "why is a=b wrong"}),
            ),
            ("/ask a=b", json!({"question": "a=b"})),
            (
                "/ask is style=short short",
                json!({"question": "is style=short short"}),
            ),
            (
                "/ask style=short why is it's a=\"b",
                json!({"question": "why is it's a=\"b", "style": "short"}),
            ),
            (
                "/ask why is 'a'=b --input style=\"very short\"",
                json!({"question": "why is 'a'=b", "style": "very short"}),
            ),
            (
                "/ask what does --input other=1 do",
                json!({"question": "what does --input other=1 do"}),
            ),
            (
                "/ask question='a=b c' style=x",
                json!({"question": "a=b c", "style": "x"}),
            ),
            ("/ask \"a=b\"", json!({"question": "a=b"})),
            (
                "/ask --inputs are what?",
                json!({"question": "--inputs are what?"}),
            ),
            ("/ask", json!({})),
            ("/ask style=x", json!({"style": "x"})),
        ] {
            assert_eq!(check(prompt, TEXT_AND_STYLE), Ok(inputs), "{prompt}");
        }
        let words = check("/ask question=why is it so", TEXT_AND_STYLE).unwrap_err();
        assert!(words.contains("into quotes"), "{words}");
    }

    #[test]
    fn however_often_inputs_are_named_a_prompt_is_read_at_once() {
        const MANY: usize = 60_000;
        let began = std::time::Instant::now();
        let check = |tail: &str| check(&format!("/ask why {tail}"), TEXT_AND_STYLE);
        let again = "--input style=a ".repeat(MANY);
        assert_eq!(
            check(&again),
            Err("the input style is given twice".to_owned())
        );
        for tail in [
            format!("{again}not"),
            "--input style=a b ".repeat(MANY),
            "--input other=a ".repeat(MANY),
            format!("{again}--input style='"),
        ] {
            let text = format!("why {}", tail.trim());
            assert_eq!(check(&tail), Ok(json!({ "question": text })));
        }
        // Each value here reaches to the end.
        let words = check(&format!("{}x", r"--input style=\'' ".repeat(MANY))).unwrap_err();
        assert!(words.contains("question='…'"), "{words}");
        assert!(began.elapsed() < std::time::Duration::from_secs(20));
    }

    #[test]
    fn words_for_a_workflow_that_nobody_named_are_taken_as_they_are() {
        let command = Command {
            name: "greet".to_owned(),
            rest: "who=a 'and b".to_owned(),
        };
        let inputs = command.text(&plan(TWO)).unwrap();
        assert_eq!(Value::Object(inputs), json!({"who": "who=a 'and b"}));
    }

    #[test]
    fn mistakes_are_told() {
        for (prompt, words) in [
            ("/greet --input", "--input needs key=value after it"),
            ("/greet --input=who=a who=b", "the input who is given twice"),
        ] {
            assert_eq!(check(prompt, TWO), Err(words.to_owned()), "{prompt}");
        }
        assert_eq!(Command::parse("hello"), None);
        assert_eq!(Command::parse("/"), None);
    }
}
