//! Which calls cannot be undone, as far as their kind, name and command tell.
//!
//! The lists err on the side of asking: one question too many costs a moment, one too few costs the thing itself.

use super::{
    Call,
    command::{Part, Reading, Script},
    shell::Operator,
    wrapper::SHELLS,
};
use crate::turn::ToolKind;

/// Programs that destroy, publish or send whatever their arguments.
const PROGRAMS: [&str; 27] = [
    "rm",
    "unlink",
    "shred",
    "srm",
    "wipe",
    "truncate",
    "dd",
    "wipefs",
    "blkdiscard",
    "fdisk",
    "sfdisk",
    "parted",
    "shutdown",
    "reboot",
    "poweroff",
    "halt",
    "dropdb",
    "dropuser",
    "userdel",
    "groupdel",
    "mail",
    "mailx",
    "sendmail",
    "mutt",
    "msmtp",
    "trash",
    "trash-put",
];

/// Programs with acts that cannot be undone: any of the words after the first, in this order.
const ACTS: [(&str, &[&str]); 42] = [
    ("git", &["reset", "--hard"]),
    ("git", &["reset", "--merge"]),
    ("git", &["push", "--force"]),
    ("git", &["push", "--force-with-lease"]),
    ("git", &["push", "--mirror"]),
    ("git", &["push", "--delete"]),
    ("git", &["push", "--prune"]),
    ("git", &["checkout", "--"]),
    ("git", &["checkout", "--force"]),
    ("git", &["checkout", "."]),
    ("git", &["switch", "--discard-changes"]),
    ("git", &["restore"]),
    ("git", &["clean"]),
    ("git", &["rm"]),
    ("git", &["stash", "drop"]),
    ("git", &["stash", "clear"]),
    ("git", &["branch", "-D"]),
    ("git", &["tag", "-d"]),
    ("git", &["reflog", "expire"]),
    ("git", &["filter-branch"]),
    ("git", &["update-ref", "-d"]),
    ("docker", &["rm"]),
    ("docker", &["rmi"]),
    ("docker", &["prune"]),
    ("podman", &["rm"]),
    ("podman", &["prune"]),
    ("kubectl", &["delete"]),
    ("helm", &["uninstall"]),
    ("terraform", &["destroy"]),
    ("terraform", &["apply"]),
    ("npm", &["publish"]),
    ("npm", &["unpublish"]),
    ("yarn", &["publish"]),
    ("pnpm", &["publish"]),
    ("cargo", &["publish"]),
    ("twine", &["upload"]),
    ("gh", &["delete"]),
    ("gh", &["merge"]),
    ("aws", &["rm"]),
    ("rsync", &["--delete"]),
    ("crontab", &["-r"]),
    ("find", &["-delete"]),
];

/// Programs that bring text from the network, or make it of what cannot be read.
const FETCHERS: [&str; 7] = [
    "curl", "wget", "fetch", "aria2c", "base64", "xxd", "openssl",
];

/// Programs, beside shells, that run text they are given.
const INTERPRETERS: [&str; 8] = [
    "python", "python3", "perl", "ruby", "node", "php", "source", ".",
];

/// Statements of databases, in lower case.
const STATEMENTS: [&str; 6] = [
    "drop table",
    "drop database",
    "drop schema",
    "truncate table",
    "delete from",
    "flushall",
];

/// Words of tool names for acts on others or on what is kept.
const NAME_WORDS: [&str; 22] = [
    "send",
    "reply",
    "pay",
    "payment",
    "purchase",
    "buy",
    "transfer",
    "refund",
    "charge",
    "withdraw",
    "publish",
    "tweet",
    "delete",
    "remove",
    "destroy",
    "drop",
    "purge",
    "wipe",
    "erase",
    "truncate",
    "uninstall",
    "shutdown",
];

/// Whether the call does something that cannot be undone, or may: a command too long to be read counts.
pub fn is_destructive(call: &Call) -> bool {
    call.kind == ToolKind::Delete
        || name_tells(call)
        || call.suspected_command().is_some_and(|command| {
            let reading = Reading::of(command);
            reading.is_too_long() || reading.scripts().iter().any(script_tells)
        })
}

fn script_tells(script: &Script) -> bool {
    let feeds = script.operators.iter().any(|operator| {
        matches!(
            operator,
            Operator::Pipe | Operator::Substitute | Operator::Backtick | Operator::From
        )
    });
    let runs_fetched = feeds
        && script.runs(&FETCHERS)
        && (script.runs(&SHELLS) || script.runs(&INTERPRETERS) || script.runs(&["eval"]));
    runs_fetched || script.parts.iter().any(part_tells)
}

fn part_tells(part: &Part) -> bool {
    let text = part.text().to_lowercase();
    STATEMENTS.iter().any(|statement| text.contains(statement))
        || part
            .commands()
            .any(|(program, arguments)| command_tells(program, arguments))
}

fn command_tells(program: &str, arguments: &[String]) -> bool {
    let acts = ACTS
        .iter()
        .any(|(name, act)| program == *name && in_order(arguments, act));
    PROGRAMS.contains(&program)
        || program.starts_with("mkfs")
        || acts
        || (program == "git" && git_tells(arguments))
}

/// The short spellings: letters of one option may stand together.
fn git_tells(arguments: &[String]) -> bool {
    let Some(verb) = arguments
        .iter()
        .position(|word| matches!(word.as_str(), "push" | "checkout" | "switch" | "branch"))
    else {
        return false;
    };
    let short = |letter: char| {
        arguments[verb..]
            .iter()
            .any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(letter))
    };
    match arguments[verb].as_str() {
        "push" => {
            short('f')
                || short('d')
                || arguments[verb..]
                    .iter()
                    .any(|word| word.starts_with(['+', ':']) || word.starts_with("--force"))
        }
        "branch" => short('D') || (short('d') && short('f')),
        _ => short('f') || short('C') || short('B'),
    }
}

fn in_order(words: &[String], wanted: &[&str]) -> bool {
    let mut rest = words.iter();
    wanted.iter().all(|wanted| rest.any(|word| word == wanted))
}

fn name_tells(call: &Call) -> bool {
    let looks_only = matches!(
        call.kind,
        ToolKind::Read | ToolKind::Search | ToolKind::Think
    );
    if looks_only {
        return false;
    }
    let telling = |name: &str| {
        name_words(name)
            .iter()
            .any(|word| NAME_WORDS.contains(&word.as_str()))
    };
    // Titles of other kinds name files and commands; only the first words of a free one say what the tool does.
    let title: String = call
        .title
        .split_whitespace()
        .take(2)
        .collect::<Vec<_>>()
        .join(" ");
    call.name.as_deref().is_some_and(telling) || (call.kind == ToolKind::Other && telling(&title))
}

/// The words of `mcp__mail__sendMessage` in lower case.
fn name_words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut lower_before = false;
    for character in name.chars() {
        let new = !character.is_alphanumeric() || (character.is_uppercase() && lower_before);
        if new {
            words.push(String::new());
        }
        lower_before = character.is_lowercase();
        if let Some(word) = words.last_mut()
            && character.is_alphanumeric()
        {
            word.extend(character.to_lowercase());
        }
    }
    words
}
