//! What a server streams: pieces of text, of thought and of tool calls, put together as they come.

use domain::turn::Usage;
use serde::Deserialize;

use crate::conversation::Wanted;

/// Tools that a model may want at once; more is a model that has lost its way.
const WANTED_MAX: usize = 64;

/// What an answer may come to, thoughts and the arguments of tools included: far beyond what a model can say.
pub(crate) const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Something to show at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    Thought(String),
}

/// What an answer has come to.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) finish: Option<String>,
    pub(crate) usage: Option<Usage>,
    /// How much of it there is.
    bytes: usize,
}

/// A server's line, as far as we read it; unknown fields are none of our business.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Chunk {
    choices: Vec<Choice>,
    usage: Option<Tokens>,
    error: Option<serde_json::Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Choice {
    delta: Delta,
    /// Servers that do not stream answer with this.
    message: Delta,
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Delta {
    content: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    tool_calls: Option<Vec<ToolDelta>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ToolDelta {
    index: Option<usize>,
    id: Option<String>,
    function: FunctionDelta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Tokens {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

impl Answer {
    /// Takes the next line and gives what there is to show. The words of an error are the server's.
    pub(crate) fn take(&mut self, line: &str) -> Result<Vec<Piece>, String> {
        let chunk: Chunk = serde_json::from_str(line)
            .map_err(|error| format!("it sent what is no JSON: {error}"))?;
        if let Some(error) = chunk.error {
            let message = error["message"].as_str().map(str::to_owned);
            return Err(message.unwrap_or_else(|| error.to_string()));
        }
        if let Some(tokens) = chunk.usage {
            self.usage = Some(Usage {
                input_tokens: tokens.prompt_tokens,
                output_tokens: tokens.completion_tokens,
                cost_usd: None,
            });
        }
        let mut pieces = Vec::new();
        // Only one answer was asked for.
        for choice in chunk.choices.into_iter().take(1) {
            for delta in [choice.delta, choice.message] {
                self.take_delta(delta, &mut pieces)?;
            }
            self.finish = choice.finish_reason.or(self.finish.take());
        }
        Ok(pieces)
    }

    fn take_delta(&mut self, delta: Delta, pieces: &mut Vec<Piece>) -> Result<(), String> {
        let thought = delta.reasoning_content.or(delta.reasoning);
        if let Some(thought) = thought.filter(|thought| !thought.is_empty()) {
            self.grow(&thought)?;
            pieces.push(Piece::Thought(thought));
        }
        if let Some(text) = delta.content.filter(|text| !text.is_empty()) {
            self.grow(&text)?;
            self.text.push_str(&text);
            pieces.push(Piece::Text(text));
        }
        for tool in delta.tool_calls.unwrap_or_default() {
            self.take_tool(tool)?;
        }
        Ok(())
    }

    /// Pieces belong together by index; a server without indices sends each call whole.
    fn take_tool(&mut self, delta: ToolDelta) -> Result<(), String> {
        let index = delta.index.unwrap_or(self.wanted.len());
        if index >= WANTED_MAX {
            return Err(format!("it wants more than {WANTED_MAX} tools at once"));
        }
        if self.wanted.len() <= index {
            self.wanted.resize_with(index + 1, Wanted::default);
        }
        let name = delta.function.name.unwrap_or_default();
        let arguments = delta.function.arguments.unwrap_or_default();
        self.grow(&name)?;
        self.grow(&arguments)?;
        let wanted = &mut self.wanted[index];
        if let Some(id) = delta.id.filter(|id| !id.is_empty()) {
            wanted.id = id;
        }
        wanted.name.push_str(&name);
        wanted.arguments.push_str(&arguments);
        Ok(())
    }

    fn grow(&mut self, text: &str) -> Result<(), String> {
        self.bytes += text.len();
        match self.bytes <= ANSWER_BYTES_MAX {
            true => Ok(()),
            false => Err(format!(
                "its answer is larger than {ANSWER_BYTES_MAX} bytes"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[&str]) -> (Answer, Vec<Piece>) {
        let mut answer = Answer::default();
        let pieces = lines
            .iter()
            .flat_map(|line| answer.take(line).unwrap())
            .collect();
        (answer, pieces)
    }

    #[test]
    fn pieces_of_a_tool_call_are_put_together() {
        let (answer, pieces) = check(&[
            r#"{"choices":[{"delta":{"role":"assistant","reasoning_content":"hm"}}]}"#,
            r#"{"choices":[{"delta":{"content":"Look"}}]}"#,
            r#"{"choices":[{"delta":{"content":"ing."}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"read","arguments":"{\"pa"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"c2","function":{"name":"list","arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"th\":1}"}}]},"finish_reason":"tool_calls"}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}"#,
        ]);
        assert_eq!(
            pieces,
            [
                Piece::Thought("hm".into()),
                Piece::Text("Look".into()),
                Piece::Text("ing.".into())
            ]
        );
        assert_eq!(answer.text, "Looking.");
        assert_eq!(answer.wanted[0].arguments, r#"{"path":1}"#);
        assert_eq!(answer.wanted[1].id, "c2");
        assert_eq!(answer.finish.as_deref(), Some("tool_calls"));
        assert_eq!(answer.usage.unwrap().output_tokens, Some(3));
    }

    #[test]
    fn an_answer_in_one_piece_is_an_answer_too() {
        let (answer, _) =
            check(&[r#"{"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}]}"#]);
        assert_eq!(answer.text, "Hello");
    }

    #[test]
    fn an_error_in_the_stream_is_told_in_the_servers_words() {
        let mut answer = Answer::default();
        let error = answer.take(r#"{"error":{"message":"no such model"}}"#);
        assert_eq!(error.unwrap_err(), "no such model");
        assert!(answer.take("<html>").unwrap_err().contains("no JSON"));
        let greedy = r#"{"choices":[{"delta":{"tool_calls":[{"index":9999}]}}]}"#;
        assert!(answer.take(greedy).is_err());
    }
}
