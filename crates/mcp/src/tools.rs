//! The tools: their names, schemas and hints, and which function carries each out.

mod arguments;
mod delegate;
mod manage;
pub(crate) mod peers;
mod reach;
mod talk;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use arguments::{
    AgentList, AgentView, CreateAgent, Created, Message, NameAgent, Nothing, PromptAgent, Run,
    RunAgent,
};

use crate::{caller::Caller, daemon::Daemon, failure::Failure, node::Node};

const RUN: &str = "agentcraft_run_agent";
const PROMPT: &str = "agentcraft_prompt_agent";
const STATUS: &str = "agentcraft_agent_status";
const CREATE: &str = "agentcraft_create_agent";
const LIST: &str = "agentcraft_list_agents";

/// The tools by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Name {
    Run,
    Prompt,
    Status,
    Create,
    List,
    Lend(delegate::Name),
    /// What a node on the network can do.
    Peer(String),
}

impl Name {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            RUN => Self::Run,
            PROMPT => Self::Prompt,
            STATUS => Self::Status,
            CREATE => Self::Create,
            LIST => Self::List,
            name if peers::is_one(name) => Self::Peer(name.to_owned()),
            name => Self::Lend(delegate::Name::parse(name)?),
        })
    }
}

/// Every tool, in the order of the contract.
pub(crate) fn all() -> Vec<Tool> {
    let mut tools = vec![
        tool::<RunAgent, Run>(
            RUN,
            "Run an agent once",
            "Makes an agent of a template, gives it one prompt, returns its answer and the files it changed, and destroys \
             the agent and its workspace. What the agent may do without being asked is up to the permission policy; \
             everything else is asked of the person at the client where it has forms, and denied where it has none.",
        )
        .annotate(hints("Run an agent once").destructive(true).open_world(true)),
        tool::<PromptAgent, Message>(
            PROMPT,
            "Prompt an agent",
            "Sends a message to an agent, and returns its answer. An agent is named, or said by what it is made of, such as \
             workflow:NAME, and is then made the first time. Without sessionId a new conversation is \
             begun; pass the sessionId of an answer to go on with that conversation. An agent that is not running is \
             started first and goes on running.",
        )
        .annotate(hints("Prompt an agent").destructive(true).open_world(true)),
        tool::<NameAgent, AgentView>(
            STATUS,
            "Show an agent",
            "Shows one agent: its status, template, backend and workspace.",
        )
        .annotate(hints("Show an agent").read_only(true).open_world(false)),
        tool::<CreateAgent, Created>(
            CREATE,
            "Create an agent",
            "Creates an agent with a workspace of its own from a template, without starting it. The templates are the \
             resources agentcraft://template/NAME.",
        )
        .annotate(hints("Create an agent").destructive(false).idempotent(false).open_world(false)),
        tool::<Nothing, AgentList>(LIST, "List agents", "Lists every agent, with its status and template.")
            .annotate(hints("List agents").read_only(true).open_world(false)),
    ];
    tools.extend(delegate::all());
    tools
}

fn tool<I, O>(name: &'static str, title: &str, description: &'static str) -> Tool
where
    I: schemars::JsonSchema + 'static,
    O: schemars::JsonSchema + 'static,
{
    Tool::new(name, description, JsonObject::new())
        .with_title(title)
        .with_input_schema::<I>()
        .with_output_schema::<O>()
}

/// Only a tool that says so reads nothing but.
fn hints(title: &str) -> ToolAnnotations {
    ToolAnnotations::with_title(title).read_only(false)
}

/// Carries a tool out. Whatever goes wrong is a result that says so.
pub(crate) async fn call(
    name: Name,
    arguments: Option<JsonObject>,
    daemon: &Daemon,
    node: &Node,
    caller: Caller,
) -> CallToolResult {
    let result = match name {
        Name::Run => talk::run(parse(arguments), daemon, caller).await,
        Name::Prompt => talk::prompt(parse(arguments), daemon, caller).await,
        Name::Status => manage::status(parse(arguments), daemon, caller.sight()).await,
        Name::Create => manage::create(parse(arguments), daemon, &caller).await,
        Name::List => manage::list(parse(arguments), daemon, caller.sight()).await,
        Name::Lend(name) => delegate::call(name, arguments, node, caller).await,
        Name::Peer(name) => peers::call(&name, arguments, node, caller).await,
    };
    result.unwrap_or_else(Failure::into_result)
}

/// The arguments as the tool wants them; what is wrong with them is for the model to read.
fn parse<A: DeserializeOwned>(arguments: Option<JsonObject>) -> Result<A, Failure> {
    let arguments = Value::Object(arguments.unwrap_or_default());
    serde_json::from_value(arguments)
        .map_err(|error| Failure::invalid(format!("the arguments are wrong: {error}")))
}

/// A result with its text for models and its structure for programs.
fn result(
    text: Vec<String>,
    structure: &(impl Serialize + ?Sized),
) -> Result<CallToolResult, Failure> {
    let structure = serde_json::to_value(structure)
        .map_err(|error| Failure::new("INTERNAL_ERROR", format!("no JSON form: {error}")))?;
    let mut result = CallToolResult::success(text.into_iter().map(ContentBlock::text).collect());
    result.structured_content = Some(structure);
    Ok(result)
}

/// A result whose text is its structure, written out.
fn plain(structure: &(impl Serialize + ?Sized)) -> Result<CallToolResult, Failure> {
    let text = serde_json::to_string_pretty(structure).unwrap_or_default();
    result(vec![text], structure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_found_by_its_name_and_has_both_schemas_and_hints() {
        let tools = all();
        assert_eq!(tools.len(), 13);
        for tool in tools {
            assert!(Name::parse(&tool.name).is_some(), "{}", tool.name);
            assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
            assert_eq!(
                tool.input_schema["additionalProperties"], false,
                "{}",
                tool.name
            );
            let output = tool.output_schema.unwrap();
            assert_eq!(output["type"], "object", "{}", tool.name);
            let properties = tool.input_schema.get("properties");
            for (name, property) in properties.and_then(Value::as_object).into_iter().flatten() {
                assert!(property["description"].is_string(), "{name}");
                // One that is null would not be of the property's type.
                assert!(property.get("default").is_none(), "{name}");
            }
            assert!(tool.annotations.unwrap().read_only_hint.is_some());
        }
        assert_eq!(Name::parse("agentcraft_destroy_agent"), None);
    }

    #[test]
    fn wrong_arguments_are_named() {
        let arguments = |value: Value| value.as_object().cloned();
        let cases = [
            (serde_json::json!({"template": "t"}), "prompt"),
            (serde_json::json!({"template": 1, "prompt": "p"}), "string"),
            (
                serde_json::json!({"template": "t", "prompt": "p", "timeout": 1}),
                "timeoutMs",
            ),
        ];
        for (given, named) in cases {
            let failure = parse::<RunAgent>(arguments(given)).unwrap_err();
            assert_eq!(failure.code, "INVALID_PARAMS");
            assert!(failure.message.contains(named), "{}", failure.message);
        }
        assert!(parse::<Nothing>(None).is_ok());
    }
}
