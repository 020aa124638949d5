//! Programs that run others: which words after them may be the command, and which are scripts.
//!
//! Options differ between versions and systems. Where it is not known whether one takes the next word, both are read.

mod table;

use std::collections::BTreeSet;

pub(super) use table::SHELLS;
use table::{ADDING, JOINING, KEYWORDS, SCRIPT_OPTIONS, SCRIPTED, WRAPPERS, Wrapper};

/// How many readings of one command are looked at; one with more counts as too long to be read. A command of somebody
/// has two or three, and each rule looks at all of them.
const READINGS_MAX: usize = 64;

/// How many words of options before a command are looked at; one with more counts as too long to be read.
const OPTIONS_MAX: usize = 512;

/// The ways to read the words of a command.
#[derive(Debug, Default)]
pub(super) struct Readings {
    /// The words at which a program may stand.
    pub(super) starts: Vec<usize>,
    /// Texts that a shell would read again.
    pub(super) scripts: BTreeSet<String>,
}

/// All the ways to read these words; nothing if there are too many of them.
pub(super) fn readings(words: &[String]) -> Option<Readings> {
    let mut found = Readings::default();
    let mut open = vec![0];
    while let Some(at) = open.pop() {
        let Some(word) = words.get(at) else {
            continue;
        };
        if is_assignment(word) || KEYWORDS.contains(&word.as_str()) {
            open.push(at + 1);
            continue;
        }
        // A variable or a substitution that is empty leaves the next word as the program.
        if word.starts_with('$') {
            open.push(at + 1);
        }
        // The name of a function or of a process comes before its brace.
        if word == "function" {
            open.push(at + 2);
        } else if at > 0 && words[at - 1] == "coproc" {
            open.extend(
                words
                    .get(at + 1)
                    .filter(|next| *next == "{")
                    .map(|_| at + 1),
            );
        }
        if found.starts.contains(&at) {
            continue;
        }
        if found.starts.len() == READINGS_MAX || found.scripts.len() > READINGS_MAX {
            return None;
        }
        found.starts.push(at);
        let after = commands_after(words, at)?;
        if after.len() > READINGS_MAX {
            return None;
        }
        if JOINING.contains(&base(word)) {
            let joined = after.iter().map(|at| words[*at..].join(" "));
            found.scripts.extend(joined);
        }
        open.extend(after);
        found.scripts(words, at)?;
    }
    Some(found)
}

/// A word that stands for those which the program will add, where it adds some.
pub(super) fn added(words: &[String]) -> Option<String> {
    let adds = words.iter().any(|word| ADDING.contains(&base(word)));
    adds.then(|| "{}".to_owned())
}

/// The name of a program without its folder.
pub(super) fn base(program: &str) -> &str {
    match program.rsplit_once('/') {
        Some((_, name)) if !name.is_empty() => name,
        _ => program,
    }
}

/// The name and the value of a word that sets a variable.
pub(super) fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = match name.split_once('[') {
        Some((name, index)) if index.ends_with(']') => name,
        _ => name,
    };
    let named = !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    named.then_some((name, value))
}

pub(super) fn is_assignment(word: &str) -> bool {
    assignment(word).is_some()
}

pub(super) fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

impl Readings {
    /// Adds the scripts that the program at `at` is given; nothing if there are too many.
    fn scripts(&mut self, words: &[String], at: usize) -> Option<()> {
        let (program, arguments) = (base(&words[at]), &words[at + 1..]);
        // No program is called so: it is the script of a program that is not looked at more closely.
        if words[at].contains(char::is_whitespace) {
            self.scripts.insert(words[at].clone());
            self.scripts.insert(words[at..].join(" "));
        }
        if let Some(braced) = braced(&words[at]) {
            self.scripts
                .insert(format!("{braced} {}", arguments.join(" ")));
        }
        if let Some((_, value)) = words[at]
            .strip_prefix("${")
            .and_then(|word| word.split_once(['-', '=', '+']))
        {
            let command = format!("{value} {}", arguments.join(" "));
            self.scripts.insert(command.replace('}', " "));
        }
        if program == "alias" {
            let values = arguments.iter().filter_map(|word| word.split_once('='));
            self.scripts
                .extend(values.map(|(_, value)| value.to_owned()));
        }
        let letter = match program {
            "env" => 'S',
            "nix-shell" => '\0',
            _ if SHELLS.contains(&program) || SCRIPTED.contains(&program) => 'c',
            _ => return Some(()),
        };
        let mut options = 0;
        for (index, word) in arguments.iter().enumerate() {
            let Some(attached) = script_option(word, letter) else {
                continue;
            };
            options += 1;
            if options > READINGS_MAX {
                return None;
            }
            let rest = &arguments[index + 1..];
            if !attached.is_empty() {
                self.scripts.insert(attached.to_owned());
                self.scripts
                    .insert(format!("{attached} {}", rest.join(" ")));
            }
            let starts = Wrapper::UNKNOWN.commands(rest, 0)?;
            if starts.len() > READINGS_MAX {
                return None;
            }
            for start in starts {
                self.scripts.insert(rest[start].clone());
                if program == "env" {
                    self.scripts.insert(rest[start..].join(" "));
                }
            }
        }
        Some(())
    }
}

/// What is attached to an option that takes a script; nothing if the word is no such option.
fn script_option(word: &str, letter: char) -> Option<&str> {
    if word.starts_with("--") {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        return SCRIPT_OPTIONS.contains(&name).then_some(value);
    }
    let (_, attached) = word.strip_prefix('-')?.split_once(letter)?;
    Some(attached)
}

/// The words of `{rm,-r,a}`, which some shells make of it.
fn braced(word: &str) -> Option<String> {
    let list = word.strip_prefix('{')?.strip_suffix('}')?;
    list.contains(',').then(|| list.replace(',', " "))
}

/// Where the command may begin that the program at `at` runs; nothing if there are too many options before it.
fn commands_after(words: &[String], at: usize) -> Option<Vec<usize>> {
    let name = base(&words[at]);
    let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) else {
        return Some(Vec::new());
    };
    if wrapper.after.is_empty() {
        return wrapper.commands(words, at + 1);
    }
    let markers = (at + 1..words.len()).filter(|at| wrapper.after.contains(&words[*at].as_str()));
    // One more than is looked at, so that the rest is noticed.
    let starts: Option<Vec<Vec<usize>>> = markers
        .take(READINGS_MAX + 1)
        .map(|marker| wrapper.commands(words, marker + 1))
        .collect();
    starts.map(|starts| starts.concat())
}

/// Whether an option takes the next word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Next,
    Unknown,
}

impl Wrapper {
    /// Where the command may begin in the words from `from` on; nothing if there are too many options before it.
    fn commands(&self, words: &[String], from: usize) -> Option<Vec<usize>> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        let mut open = vec![(from, self.own)];
        while let Some((at, own)) = open.pop() {
            let Some(word) = words.get(at) else {
                continue;
            };
            if !seen.insert((at, own)) {
                continue;
            }
            if seen.len() > OPTIONS_MAX {
                return None;
            }
            if let Some(option) = word.strip_prefix('-') {
                let takes = self.takes(option);
                if takes != Takes::Next {
                    open.push((at + 1, own));
                }
                if takes != Takes::Nothing {
                    open.push((at + 2, own));
                }
            } else if is_assignment(word) {
                open.push((at + 1, own));
            } else if own > 0 {
                open.push((at + 1, own - 1));
            } else {
                found.push(at);
            }
        }
        Some(found)
    }

    /// Of an option without its first dash.
    fn takes(&self, option: &str) -> Takes {
        if let Some(long) = option.strip_prefix('-') {
            return match long.is_empty() || long.contains('=') {
                true => Takes::Nothing,
                false => Takes::Unknown,
            };
        }
        let mut letters = option.chars();
        while let Some(letter) = letters.next() {
            if self.valued.contains(letter) {
                return match letters.next() {
                    Some(_) => Takes::Nothing,
                    None => Takes::Next,
                };
            }
            if !self.flags.contains(letter) {
                return Takes::Unknown;
            }
        }
        Takes::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(command: &str) -> Vec<String> {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let mut starts = readings(&words).unwrap().starts;
        starts.sort_unstable();
        let commands = starts.iter().map(|start| words[*start..].join(" "));
        commands.collect()
    }

    #[test]
    fn an_option_takes_the_next_word_only_where_it_may() {
        let cases: [(&str, &[&str]); 8] = [
            ("sudo -u a b", &["sudo -u a b", "b"]),
            ("sudo -ua b c", &["sudo -ua b c", "b c"]),
            ("sudo -n a b", &["sudo -n a b", "a b"]),
            ("sudo --user a b", &["sudo --user a b", "a b", "b"]),
            ("sudo --user=a b c", &["sudo --user=a b c", "b c"]),
            ("timeout -k 1 2 a", &["timeout -k 1 2 a", "a"]),
            ("xargs -i a b", &["xargs -i a b", "a b", "b"]),
            ("A=1 env B=2 nice a", &["env B=2 nice a", "nice a", "a"]),
        ];
        for (command, expected) in cases {
            assert_eq!(starts(command), expected, "{command}");
        }
    }

    #[test]
    fn what_has_too_many_readings_is_not_read() {
        let many: Vec<String> = (0..200)
            .flat_map(|_| ["--a".to_owned(), "b".to_owned()])
            .collect();
        let words: Vec<String> = std::iter::once("sudo".to_owned()).chain(many).collect();
        assert!(readings(&words).is_none());
        let scripts = vec!["-c".to_owned(); 1000];
        let words: Vec<String> = std::iter::once("sh".to_owned()).chain(scripts).collect();
        assert!(readings(&words).is_none());
    }
}
