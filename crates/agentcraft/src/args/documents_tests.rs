//! Every command that a document shows is one that this program understands.

use std::{fs, path::Path};

use clap::Parser;

use super::Arguments;

/// What follows these belongs to the shell.
const SHELL: [&str; 8] = ["|", ">", ">>", "<", "&&", "||", "&", ";"];

/// The words of a command line, with its quotes taken off; nothing for one that goes on elsewhere.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), letter) if open == letter => quote = None,
            (Some(_), letter) => word.get_or_insert_default().push(letter),
            (None, '"' | '\'') => {
                word.get_or_insert_default();
                quote = Some(letter);
            }
            (None, '#') if word.is_none() => break,
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (None, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    let end = words.iter().position(|word| SHELL.contains(&word.as_str()));
    words.truncate(end.unwrap_or(words.len()));
    (quote.is_none() && !words.iter().any(|word| word == "\\")).then_some(words)
}

/// A grammar rather than a command (`[-f json]`, `run|resume`, `…`), or what a command prints (`agentcraft 0.1.0`).
fn is_grammar(words: &[String]) -> bool {
    let is_printed = |word: &String| word.starts_with(|first: char| first.is_ascii_digit());
    let is_part =
        |word: &String| word.starts_with('[') || word.contains('|') || word == "…" || word == "...";
    words.iter().any(is_part) || words.get(1).is_some_and(is_printed)
}

fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = fs::read_dir(root.join("docs")).unwrap();
    let docs = docs.map(|entry| entry.unwrap().path());
    let all = docs.chain([root.join("README.md"), root.join("README.zh.md")]);
    let pages = all.filter(|path| path.extension().is_some_and(|end| end == "md"));
    pages
        .map(|path| {
            (
                path.display().to_string(),
                fs::read_to_string(&path).unwrap(),
            )
        })
        .collect()
}

#[test]
fn every_command_in_the_documents_is_understood() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (page, text) in pages() {
        let lines = text
            .lines()
            .map(|line| line.trim_start().trim_start_matches("$ "));
        for line in lines.filter(|line| line.starts_with("agentcraft ")) {
            let Some(words) = words(line).filter(|words| !is_grammar(words)) else {
                continue;
            };
            count += 1;
            if let Err(error) = Arguments::try_parse_from(&words)
                && error.use_stderr()
            {
                wrong.push(format!(
                    "{page}: {line}\n  {}",
                    error.to_string().lines().next().unwrap_or_default()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 100, "only {count} commands were found");
}

/// What a page may say that a block needs, so that no test runs it.
const NEEDS: [&str; 10] = [
    "cargo",
    "claude",
    "foreground",
    "login",
    "model",
    "peer",
    "redis",
    "sqlite3",
    "systemd",
    "terminal",
];

/// What else may stand behind the language of a block with commands.
const WORDS: [&str; 2] = ["fails", "stays"];

#[test]
fn every_block_with_commands_says_how_it_is_run() {
    let mut wrong = Vec::new();
    for (page, text) in pages() {
        let mut fence: Option<Vec<&str>> = None;
        for line in text.lines() {
            if let Some(words) = line.strip_prefix("```") {
                let words: Vec<&str> = words.split_whitespace().collect();
                let is_known = |word: &&str| {
                    let need = word.strip_prefix("needs=");
                    WORDS.contains(word) || need.is_some_and(|need| NEEDS.contains(&need))
                };
                let has_commands = matches!(words.first(), Some(&("sh" | "console")));
                if has_commands && !words.iter().skip(1).all(is_known) {
                    wrong.push(format!("{page}: nobody knows what {line} means"));
                }
                fence = fence.is_none().then_some(words);
                continue;
            }
            let language = fence.as_ref().map(|words| words.first().copied());
            let command = line.trim_start().trim_start_matches("$ ");
            let is_shown = command.starts_with("agentcraft ")
                && (language.is_some() || line.starts_with("    "));
            if is_shown && !matches!(language, Some(Some("sh" | "console"))) {
                wrong.push(format!("{page}: no test would run {command}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The names of a command and of all below it that people are shown.
fn commands_of(command: &clap::Command, above: &[String], found: &mut Vec<Vec<String>>) {
    let shown = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set() && below.get_name() != "help");
    let mut is_leaf = true;
    for below in shown {
        is_leaf = false;
        let path = [above, &[below.get_name().to_owned()]].concat();
        commands_of(below, &path, found);
    }
    if is_leaf {
        found.push(above.to_vec());
    }
}

#[test]
fn the_page_about_the_command_line_has_every_command() {
    let (_, page) = pages()
        .into_iter()
        .find(|(page, _)| page.ends_with("docs/cli.md"))
        .unwrap();
    // `skill\|prompt list` is two of them.
    let told: Vec<Vec<Vec<&str>>> = page
        .split('`')
        .skip(1)
        .step_by(2)
        .map(|code| {
            let words = code.split_whitespace();
            words.map(|word| word.split("\\|").collect()).collect()
        })
        .collect();
    let mut all = Vec::new();
    commands_of(
        &<Arguments as clap::CommandFactory>::command(),
        &[],
        &mut all,
    );
    let is_told = |path: &&Vec<String>| {
        told.iter().any(|words| {
            path.iter().enumerate().all(|(at, name)| {
                words
                    .get(at)
                    .is_some_and(|them| them.contains(&name.as_str()))
            })
        })
    };
    let (told, left_out): (Vec<_>, Vec<_>) = all.iter().partition(is_told);
    assert!(left_out.is_empty(), "docs/cli.md lacks {left_out:?}");
    assert!(told.len() > 80, "only {} commands were found", told.len());
}

/// What `config.toml` may say, as the page on operations shows it.
fn settings_shown() -> String {
    let (_, page) = pages()
        .into_iter()
        .find(|(page, _)| page.ends_with("docs/operations.md"))
        .unwrap();
    let (_, after) = page
        .split_once("A file with every setting:\n\n```toml\n")
        .unwrap();
    after.split_once("```").unwrap().0.to_owned()
}

/// What becomes of a file with these settings.
fn resolved(settings: &str) -> Result<crate::config::Config, crate::config::ConfigError> {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("config.toml"), settings).unwrap();
    let global = super::GlobalArgs {
        home: Some(home.path().to_owned()),
        ..super::GlobalArgs::default()
    };
    crate::config::Config::resolve(&global, crate::config::Environment::new())
}

#[test]
fn the_page_about_operations_shows_every_setting() {
    let shown = settings_shown();
    resolved(&shown).unwrap();
    let is_shown = |key: &str| {
        let begins = |line: &str| {
            let rest = line.trim_start_matches("# ").strip_prefix(key);
            rest.is_some_and(|rest| rest.trim_start().starts_with('='))
        };
        let is_table = shown.contains(&format!("[{key}]")) || shown.contains(&format!(".{key}]"));
        is_table || shown.lines().any(begins)
    };
    let mut count = 0;
    for table in [
        "",
        "[http]",
        "[lan]",
        "[lending]",
        "[lending.sandbox]",
        "[runs]",
    ] {
        let wrong = resolved(&format!("{table}\nzzzzzz = 1\n")).unwrap_err();
        let said = format!("{wrong} {}", wrong.hint().unwrap_or_default());
        // A refusal names what there is: the only list that cannot be out of date.
        let named = match said.split_once("the settings are ") {
            Some((_, names)) => names.split(", ").map(str::to_owned).collect::<Vec<_>>(),
            None => {
                let (_, names) = said.split_once("expected ").unwrap();
                names
                    .split('`')
                    .skip(1)
                    .step_by(2)
                    .map(str::to_owned)
                    .collect()
            }
        };
        for key in named {
            count += 1;
            assert!(is_shown(key.trim()), "{key} of {table} is not shown");
        }
    }
    assert!(count > 40, "only {count} settings were found");
}
