//! What somebody typed: `/name`, inputs as `key=value` or `--input key=value`, quotes, or one text for the only input.

use serde_json::{Map, Value};
use workflow::{InputKind, Plan};

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

    /// The inputs. A workflow whose only required input is missing takes the whole text for it.
    pub fn inputs(&self, plan: &Plan) -> Result<Map<String, Value>, PromptError> {
        let parsed = parse_inputs(&self.rest, plan);
        let mut required = plan.inputs.iter().filter(|input| input.required);
        match (&parsed, required.next(), required.next()) {
            (Err(PromptError::NotAnInput { .. } | PromptError::Quote), Some(only), None)
                if !self.rest.starts_with("--input") =>
            {
                let text = Value::String(self.rest.clone());
                Ok(Map::from_iter([(only.name.clone(), text)]))
            }
            _ => parsed,
        }
    }
}

fn parse_inputs(text: &str, plan: &Plan) -> Result<Map<String, Value>, PromptError> {
    let mut inputs = Map::new();
    let mut words = words(text)?.into_iter();
    while let Some(word) = words.next() {
        let pair = match word.strip_prefix("--input") {
            Some("") => words.next().ok_or(PromptError::NoValue)?,
            Some(rest) => match rest.strip_prefix('=') {
                Some(pair) => pair.to_owned(),
                None => return Err(PromptError::NotAnInput { word }),
            },
            None => word,
        };
        let Some((name, value)) = pair.split_once('=') else {
            return Err(PromptError::NotAnInput { word: pair });
        };
        let known = plan.inputs.iter().find(|input| input.name == name);
        let value = typed(value, known.map(|input| input.kind));
        if inputs.insert(name.to_owned(), value).is_some() {
            return Err(PromptError::Twice {
                name: name.to_owned(),
            });
        }
    }
    Ok(inputs)
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

/// Words as a shell splits them, with quotes and backslashes and nothing else.
fn words(text: &str) -> Result<Vec<String>, PromptError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some('"') | None, '\\') => word.get_or_insert_default().extend(letters.next()),
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        return Err(PromptError::Quote);
    }
    words.extend(word);
    Ok(words)
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
