//! `agentcraft editor`: the entry that an editor's settings need, ready to paste.

use std::path::Path;

use serde_json::json;

use crate::{
    args::{EditorArgs, EditorKind, SessionFolder},
    config::Config,
    error::CommandError,
    render::Screen,
};

pub(super) fn run(
    arguments: &EditorArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    // Editors are seldom started from a shell, so the program is named by its whole path.
    let program = std::env::current_exe()
        .map_err(|error| CommandError::machine("find our own program", error))?;
    let words = words(arguments, config);
    screen.note(match arguments.editor {
        EditorKind::Zed => "for settings.json of Zed:",
        EditorKind::Neovim => "for the setup of codecompanion.nvim:",
        EditorKind::Jetbrains => "for ~/.jetbrains/acp.json:",
    })?;
    if arguments.lease
        && let Some(name) = arguments.name.name()
    {
        screen.note(&format!(
            "the agent must run: `agentcraft agent start {name}`"
        ))?;
    }
    screen.line(&entry(arguments, &program, &words))?;
    Ok(())
}

/// What follows the name of the program.
fn words(arguments: &EditorArgs, config: &Config) -> Vec<String> {
    // The editor has another environment than this shell.
    let mut words = config.flags();
    words.extend(of_arguments(arguments));
    words
}

fn of_arguments(arguments: &EditorArgs) -> Vec<String> {
    let mut words = vec!["proxy".to_owned(), arguments.name.to_string()];
    if let Some(template) = &arguments.template {
        words.extend(["--template".to_owned(), template.to_string()]);
    }
    words.extend(arguments.lease.then(|| "--lease".to_owned()));
    if arguments.cwd == SessionFolder::Client {
        words.extend(["--cwd".to_owned(), "client".to_owned()]);
    }
    words
}

fn entry(arguments: &EditorArgs, program: &Path, words: &[String]) -> String {
    let (name, program) = (&arguments.name.to_string(), program.to_string_lossy());
    let pretty = |value| serde_json::to_string_pretty(&value).unwrap_or_default();
    match arguments.editor {
        EditorKind::Zed => pretty(json!({ "agent_servers": { name: {
            "type": "custom", "command": program, "args": words, "env": {},
        } } })),
        EditorKind::Jetbrains => pretty(json!({ "agent_servers": { name: {
            "command": program, "args": words, "env": {},
        } } })),
        EditorKind::Neovim => {
            let all = std::iter::once(program.as_ref()).chain(words.iter().map(String::as_str));
            let command = all.map(lua_string).collect::<Vec<_>>().join(", ");
            format!(
                "require(\"codecompanion\").setup({{\n  adapters = {{ acp = {{\n    [{0}] = function()\n      \
                 return require(\"codecompanion.adapters\").extend(\"claude_code\", {{\n        name = {0},\n        \
                 commands = {{ default = {{ {command} }} }},\n      }})\n    end,\n  }} }},\n}})",
                lua_string(name),
            )
        }
    }
}

/// Text as Lua writes it.
fn lua_string(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Arguments, Command};

    fn shown(line: &str) -> String {
        let words = std::iter::once("agentcraft").chain(line.split(' '));
        let Some(Command::Editor(arguments)) = Arguments::parse_from(words).command else {
            panic!("{line} is no editor command");
        };
        let words = [
            "proxy".to_owned(),
            arguments.name.to_string(),
            "--lease".to_owned(),
        ];
        entry(&arguments, Path::new("/opt/a \"b\"/agentcraft"), &words)
    }

    #[test]
    fn an_entry_lets_the_editors_folder_through_where_that_is_wanted() {
        let line = "agentcraft editor zed a1 --lease --cwd client";
        let command = Arguments::parse_from(line.split(' ')).command;
        let Some(Command::Editor(arguments)) = command else {
            panic!("{line} is no editor command");
        };
        assert_eq!(
            of_arguments(&arguments),
            ["proxy", "a1", "--lease", "--cwd", "client"]
        );
    }

    #[test]
    fn an_entry_names_the_program_and_what_it_is_told() {
        let zed: serde_json::Value = serde_json::from_str(&shown("editor zed a1 --lease")).unwrap();
        let server = &zed["agent_servers"]["a1"];
        assert_eq!(server["type"], "custom");
        assert_eq!(server["command"], "/opt/a \"b\"/agentcraft");
        assert_eq!(server["args"], json!(["proxy", "a1", "--lease"]));
        let jetbrains: serde_json::Value =
            serde_json::from_str(&shown("editor jetbrains a1")).unwrap();
        assert_eq!(jetbrains["agent_servers"]["a1"]["args"][0], "proxy");
        let neovim = shown("editor neovim a1");
        assert!(
            neovim.contains(r#"{ "/opt/a \"b\"/agentcraft", "proxy", "a1", "--lease" }"#),
            "{neovim}"
        );
    }
}
