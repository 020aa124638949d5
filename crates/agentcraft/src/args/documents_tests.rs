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
