//! What a template put into the workspace for an agent to read: its skills and its instructions.

use agent_client_protocol_schema::v1::StopReason;
use platform::confined::Kind;

use crate::{
    turn::{Outcome, Turn},
    words,
    workspace::Workspace,
};

/// Where skills are by convention, each in a folder of its own.
const FOLDER: &str = ".agents/skills";

/// Where the instructions are by convention.
const INSTRUCTIONS: &str = "AGENTS.md";

/// Skills in an answer.
const SKILLS_MAX: usize = 200;

/// A skill's file; the description is at its beginning.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// A name or a description in the list.
const WORDS_BYTES_MAX: usize = 300;

pub(super) async fn skills(turn: &Turn) -> Outcome {
    let text = turn.on_files(describe).await?;
    turn.say(text).await?;
    Ok(StopReason::EndTurn)
}

fn describe(workspace: &Workspace) -> String {
    // A folder that is not there has no skills.
    let entries = workspace.dir.list(FOLDER).unwrap_or_default();
    let folders = entries
        .iter()
        .filter(|entry| matches!(entry.kind, Kind::Dir | Kind::Link));
    let mut lines = Vec::new();
    for folder in folders.take(SKILLS_MAX) {
        let folder = folder.name.to_string_lossy();
        let path = format!("{FOLDER}/{folder}/SKILL.md");
        if let Ok(bytes) = workspace.dir.read(path, FILE_BYTES_MAX) {
            let text = String::from_utf8_lossy(&bytes);
            let name = field(&text, "name").unwrap_or_else(|| folder.into_owned());
            let description =
                field(&text, "description").unwrap_or_else(|| "(no description)".to_owned());
            lines.push(format!("- {name}: {description}"));
        }
    }
    let mut text = if lines.is_empty() {
        format!("There are no skills in {FOLDER}.")
    } else {
        format!("Skills in this workspace:\n{}", lines.join("\n"))
    };
    if matches!(workspace.dir.exists(INSTRUCTIONS), Ok(true)) {
        text.push_str(&format!(
            "\nInstructions are in {INSTRUCTIONS}; `/read {INSTRUCTIONS}` shows them."
        ));
    }
    text
}

/// A field of the front matter, as far as one line goes: the file is YAML, and this only a glance at it.
fn field(text: &str, name: &str) -> Option<String> {
    let front = text.strip_prefix("---")?;
    let front = front.split("\n---").next()?;
    let mut lines = front.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let value = match value.trim() {
        // A block: its first line is the next one.
        "|" | ">" | "|-" | ">-" => lines.next()?.trim().to_owned(),
        value => words::unquoted(value),
    };
    (!value.is_empty()).then(|| words::shortened(&value, WORDS_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_front_matter_are_found() {
        let text = "---\nname: review\ndescription: \"Looks: at code\"\nlong: >-\n  first\n  second\n---\nname: no\n";
        let check = |name, value: Option<&str>| assert_eq!(field(text, name).as_deref(), value);
        check("name", Some("review"));
        check("description", Some("Looks: at code"));
        check("long", Some("first"));
        check("other", None);
        assert_eq!(field("name: x", "name"), None);
    }
}
