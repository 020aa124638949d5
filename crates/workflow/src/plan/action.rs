//! What steps do in the world: commands, turns of agents, operations, calls of other workflows.

use domain::target::Target;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Text;

/// A command line or a script, run by a shell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Command {
    pub script: Script,
    #[serde(default)]
    pub dir: Option<Text>,
    #[serde(default)]
    pub capture: Capture,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Script {
    Inline(Text),
    /// A file whose text is a template; its path is one too.
    File(Text),
}

/// What is kept of a command's output.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Capture {
    /// Names under which the output is known besides the step's.
    #[serde(default)]
    pub stdout: Option<String>,
    #[serde(default)]
    pub stderr: Option<String>,
    /// In bytes.
    #[serde(default)]
    pub max_size: Option<u64>,
    #[serde(default)]
    pub encoding: Option<String>,
}

/// A prompt given to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// As written; may hold a template, so it is understood when the step starts.
    pub provider: Text,
    /// A conversation may begin with the user's words instead.
    #[serde(default)]
    pub prompt: Option<Prompt>,
    #[serde(default)]
    pub system_prompt: Option<Text>,
    #[serde(default)]
    pub role: Option<Text>,
    #[serde(default)]
    pub skills: Vec<Skill>,
    #[serde(default)]
    pub options: Map<String, Value>,
    #[serde(default)]
    pub output_format: OutputFormat,
    #[serde(default)]
    pub mode: ConversationMode,
    #[serde(default)]
    pub tracking: SessionTracking,
    #[serde(default)]
    pub tool_proxy: Option<ToolProxy>,
    #[serde(default)]
    pub dir: Option<Text>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prompt {
    Inline(Text),
    /// A file whose text is a template; its path is one too.
    File(Text),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Skill {
    Name(Text),
    Path(Text),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputFormat {
    /// As the agent wrote it.
    #[default]
    Raw,
    /// Without the fences around a block of code.
    Text,
    /// Parsed; the step fails if the answer is not JSON.
    Json,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConversationMode {
    #[default]
    Single,
    /// Goes on with the user's words until they are empty, `exit` or `quit`.
    Conversation,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionTracking {
    #[default]
    None,
    /// The session's id is kept, so that a later step can continue it.
    Track,
    /// Continues the session of that step.
    ContinueFrom(String),
}

/// Tools that an agent is given through a proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolProxy {
    pub intercept_builtins: bool,
    /// Per plugin, the operations that are offered; empty means all.
    #[serde(default)]
    pub plugin_tools: Vec<(String, Vec<String>)>,
}

/// Who answers an agent step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "name")]
pub enum Provider {
    /// One that the format knows by name: claude, codex, gemini, github_copilot, mistral_vibe, opencode,
    /// openai_compatible.
    Known(String),
    /// An agent made from that template for the step, and gone with it.
    Template(String),
    /// The agent of that name.
    Agent(String),
    /// A program that speaks ACP on stdio: its words.
    Acp(Vec<String>),
    /// A name that only the runner can look up: a backend, an agent or a template.
    Named(String),
}

/// Providers that files name without saying what they are.
pub(crate) const KNOWN_PROVIDERS: [&str; 8] = [
    "claude",
    "codex",
    "gemini",
    "github_copilot",
    "copilot",
    "mistral_vibe",
    "opencode",
    "openai_compatible",
];

/// The one of them that nobody here speaks to.
pub(crate) const UNSUPPORTED_PROVIDER: &str = "mistral_vibe";

impl Provider {
    /// Reads `claude`, `template:NAME`, `agent:NAME`, `acp:PROGRAM WORDS…`; a blank may stand for the colon.
    pub fn parse(written: &str) -> Result<Self, String> {
        let written = written.trim();
        if written.is_empty() {
            return Err("the provider is empty".to_owned());
        }
        let split = written.split_once([':', ' ']);
        match split.map(|(kind, rest)| (kind, rest.trim())) {
            Some(("template", name)) => name_of("template", name).map(Self::Template),
            Some(("agent", name)) => name_of("agent", name).map(Self::Agent),
            Some(("acp", line)) => {
                let words = words(line)?;
                if words.is_empty() {
                    return Err("acp: needs the command of the agent".to_owned());
                }
                Ok(Self::Acp(words))
            }
            Some(("workflow" | "peer", _)) if written.contains(':') => {
                let target: Result<Target, _> = written.parse();
                target.map_err(|error| error.to_string())?;
                Ok(Self::Named(written.to_owned()))
            }
            Some(_) | None if KNOWN_PROVIDERS.contains(&written) => {
                // Both spellings are in use; the runner should see one.
                let name = if written == "copilot" {
                    "github_copilot"
                } else {
                    written
                };
                Ok(Self::Known(name.to_owned()))
            }
            Some(_) | None => name_of("provider", written).map(Self::Named),
        }
    }
}

fn name_of(kind: &str, name: &str) -> Result<String, String> {
    let is_fine = |character: char| character.is_alphanumeric() || "_-./".contains(character);
    if name.is_empty() || !name.chars().all(is_fine) {
        return Err(format!("{name:?} is not the name of a {kind}"));
    }
    Ok(name.to_owned())
}

/// Splits a command line into words as a shell would, with quotes but without expansion.
pub(crate) fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some('"') | None, '\\') => word.get_or_insert_default().extend(characters.next()),
            (Some(_), _) => word.get_or_insert_default().push(character),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(character),
        }
    }
    if quote.is_some() {
        return Err(format!("{line:?} has a quote that is not closed"));
    }
    words.extend(word);
    Ok(words)
}

/// An operation that the runner offers: `http.request`, `notify.send`, a tool of an MCP server…
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    pub name: String,
    /// Texts in it are templates, at any depth.
    #[serde(default)]
    pub inputs: Map<String, Value>,
}

/// A run of another workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkflowCall {
    /// `name` or `pack/name`; may hold a template.
    pub workflow: Text,
    #[serde(default)]
    pub inputs: Map<String, Value>,
    /// Output or step of the called workflow, and the name it gets here.
    #[serde(default)]
    pub outputs: Vec<(String, String)>,
}
