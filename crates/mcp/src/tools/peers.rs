//! What peers can do, as tools: one for each skill of a node that is there now. Calling one asks that node.

use std::time::Duration;

use rmcp::model::{CallToolResult, JsonObject, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{hints, parse, result};
use crate::{
    caller::{Caller, PEERS_RIGHT},
    failure::Failure,
    node::Node,
};

/// What all their names begin with.
const PREFIX: &str = "peer_";

/// The longest name of a tool that every client takes.
const NAME_MAX: usize = 64;

/// Tools that a list may have of them; models lose their way among more.
const TOOLS_MAX: usize = 200;

/// How long a list waits for the node, which is this machine's own; without an answer it has none of them.
const LIST_WITHIN: Duration = Duration::from_secs(2);

/// How long the other node may work: a little less than an answer of our own node is waited for.
const DONE_WITHIN: Duration = Duration::from_secs(110);

/// What every one of them takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Ask {
    /// What shall be done, in words.
    text: String,
}

/// What came of it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    /// completed, partial, awaiting or failed.
    status: String,
    /// What the other node said.
    text: String,
    /// Under which the node keeps it.
    intent_id: String,
}

/// A skill of a peer.
struct Skill {
    tool: String,
    peer: String,
    peer_name: String,
    capability: String,
    description: String,
}

/// The tools of this moment; none if the node knows nobody or does not listen.
pub(crate) async fn all(node: &Node) -> Vec<Tool> {
    let skills = tokio::time::timeout(LIST_WITHIN, skills(node)).await;
    let skills = skills.ok().and_then(Result::ok).unwrap_or_default();
    let tools = skills.into_iter().map(|skill| {
        let title = format!("{} of {}", skill.capability, skill.peer_name);
        let description = format!(
            "Asks the node {} on the network to do this: {}",
            skill.peer_name, skill.description
        );
        Tool::new(skill.tool, description, JsonObject::new())
            .with_title(&title)
            .with_input_schema::<Ask>()
            .with_output_schema::<Answer>()
            .annotate(hints(&title).destructive(true).open_world(true))
    });
    tools.collect()
}

/// Whether a name could be one of theirs.
pub(crate) fn is_one(name: &str) -> bool {
    name.starts_with(PREFIX)
}

pub(super) async fn call(
    name: &str,
    arguments: Option<JsonObject>,
    node: &Node,
    caller: Caller,
) -> Result<CallToolResult, Failure> {
    let ask: Ask = parse(arguments)?;
    caller.require(PEERS_RIGHT)?;
    let found = skills(node).await?;
    let found = found.into_iter().find(|skill| skill.tool == name);
    let skill = found.ok_or_else(|| {
        Failure::invalid(format!(
            "no node that is there now has the skill behind {name}: list the tools again"
        ))
    })?;
    let intent = json!({
        "text": ask.text,
        "peer": skill.peer,
        "capability": skill.capability,
        "timeoutSeconds": DONE_WITHIN.as_secs(),
    });
    let done = tokio::select! { biased;
        () = caller.left() => return Err(Failure::new("CANCELLED", "nobody waits any more")),
        done = node.post("/intents", &intent) => done?,
    };
    told(&skill, &done)
}

fn told(skill: &Skill, done: &Value) -> Result<CallToolResult, Failure> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (status, leg) = (text(&done["status"]), &done["legs"][0]);
    let intent_id = text(&done["id"]);
    let said = text(&leg["text"]);
    match status.as_str() {
        "completed" | "partial" => {
            let answer = Answer {
                status,
                text: said.clone(),
                intent_id,
            };
            result(vec![said], &answer)
        }
        "awaiting" => Err(Failure::new(
            "AWAITING_ANSWER",
            format!(
                "{} asks: {} A human answers with `agentcraft intent --answer {intent_id} \"…\"`",
                skill.peer_name,
                text(&leg["question"])
            ),
        )),
        _ => {
            let why = leg["error"]["message"].as_str();
            let tried = done["tried"][0]["why"].as_str();
            let why = why.or(tried).unwrap_or("it did not say why");
            let words = format!("{} did not do it: {why}", skill.peer_name);
            Err(Failure::new("PEER_FAILED", words))
        }
    }
}

async fn skills(node: &Node) -> Result<Vec<Skill>, Failure> {
    let known = node.get("/peers").await?;
    let mut skills: Vec<Skill> = Vec::new();
    let peers = known["peers"].as_array().into_iter().flatten();
    for peer in peers.filter(|peer| peer["status"] == "online") {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for capability in peer["capabilities"].as_array().into_iter().flatten() {
            let (alias, id) = (text(&peer["alias"]), text(&capability["id"]));
            let skill = Skill {
                tool: tool_name(&alias, &id),
                peer: text(&peer["id"]),
                peer_name: alias,
                capability: id,
                description: text(&capability["description"]),
            };
            let is_taken = skills.iter().any(|known| known.tool == skill.tool);
            if !is_taken && skills.len() < TOOLS_MAX {
                skills.push(skill);
            }
        }
    }
    Ok(skills)
}

/// Clients take letters, digits, `_` and `-` alone.
fn tool_name(peer: &str, capability: &str) -> String {
    let plain = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' => letter,
        _ => '_',
    };
    let name = format!("{PREFIX}{peer}_{capability}");
    name.chars().map(plain).take(NAME_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tools_are_such_as_every_client_takes() {
        assert_eq!(tool_name("nova9", "radio"), "peer_nova9_radio");
        assert_eq!(tool_name("n-1", "新闻 digest"), "peer_n-1____digest");
        assert_eq!(tool_name("n", &"x".repeat(100)).len(), NAME_MAX);
        assert!(is_one("peer_nova9_radio") && !is_one("delegate"));
    }
}
