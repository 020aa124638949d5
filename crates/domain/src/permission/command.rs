//! The ways a command can be read: as written, and as what it comes to without quotes, wrappers and inner shells.

use super::shell::{self, Cut, Operator};

/// The longest command that is read, in bytes. A longer one is allowed by no rule and caught by all that ask or deny.
pub(super) const COMMAND_MAX: usize = 64 * 1024;

/// How many parts are read, in all the scripts of a command; one with more counts as too long. Every rule on commands
/// looks at each part, and a file written through a here-document has thousands of lines.
const PARTS_MAX: usize = 8192;

/// How many shells within shells are looked into. Each level is a piece of the one above, so this bounds the work.
const NESTED_MAX: usize = 3;

/// How many wrappers around one program are taken off; nobody means more.
const WRAPPERS_MAX: usize = 16;

/// Programs that run a script given after `-c`.
pub(super) const SHELLS: [&str; 7] = ["sh", "bash", "zsh", "dash", "ksh", "ash", "fish"];

/// A program that runs the command after it.
struct Wrapper {
    name: &'static str,
    /// Its options of one letter that take the next word.
    valued: &'static str,
    /// How many words of its own come before the command.
    own: usize,
}

const fn wrapper(name: &'static str, valued: &'static str, own: usize) -> Wrapper {
    Wrapper { name, valued, own }
}

const WRAPPERS: [Wrapper; 16] = [
    wrapper("sudo", "ugpCDRTUrth", 0),
    wrapper("doas", "uC", 0),
    // The value of `-S` is itself a command, so it is left to be read as one.
    wrapper("env", "uC", 0),
    wrapper("command", "", 0),
    wrapper("builtin", "", 0),
    wrapper("exec", "a", 0),
    wrapper("nohup", "", 0),
    wrapper("setsid", "", 0),
    wrapper("time", "fo", 0),
    wrapper("nice", "n", 0),
    wrapper("ionice", "cn", 0),
    wrapper("stdbuf", "ioe", 0),
    wrapper("timeout", "ks", 1),
    wrapper("xargs", "IiLlnPsdEa", 0),
    wrapper("busybox", "", 0),
    wrapper("chroot", "", 1),
];

/// Words of the shell's own language that a command may follow.
const KEYWORDS: [&str; 10] = [
    "if", "then", "else", "elif", "while", "until", "do", "!", "{", "}",
];

/// A command and what it comes to.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    whole: Option<Cut<'a>>,
    scripts: Vec<Script>,
}

/// A script: the command itself, or one that it gives to a shell.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) parts: Vec<Part>,
    pub(super) operators: Vec<Operator>,
}

/// What stands between operators.
#[derive(Debug)]
pub(super) struct Part {
    /// The program without its folder, and its arguments, without wrappers and quotes.
    pub(super) words: Vec<String>,
    /// Every text that a pattern may mean: as written, without quotes, without wrappers.
    pub(super) forms: Vec<String>,
}

impl<'a> Reading<'a> {
    pub(super) fn of(command: &'a str) -> Self {
        let mut scripts = Vec::new();
        let mut left = PARTS_MAX;
        let fits = command.len() <= COMMAND_MAX && read(command.trim(), 0, &mut left, &mut scripts);
        Self {
            whole: fits.then(|| shell::cut(command.trim())),
            scripts,
        }
    }

    /// The command as written, unless it is too long.
    pub(super) fn whole(&self) -> Option<&Cut<'a>> {
        self.whole.as_ref()
    }

    pub(super) fn is_too_long(&self) -> bool {
        self.whole.is_none()
    }

    pub(super) fn scripts(&self) -> &[Script] {
        &self.scripts
    }
}

impl Script {
    /// Whether some part runs one of these programs.
    pub(super) fn runs(&self, programs: &[&str]) -> bool {
        self.parts.iter().any(|part| {
            part.words
                .first()
                .is_some_and(|program| programs.contains(&program.as_str()))
        })
    }
}

/// Adds the scripts of `text`; false if they have more parts than are `left`.
fn read(text: &str, depth: usize, left: &mut usize, scripts: &mut Vec<Script>) -> bool {
    let cut = shell::cut(text);
    let Some(rest) = left.checked_sub(cut.parts.len()) else {
        return false;
    };
    *left = rest;
    let here_document = cut
        .operators
        .windows(2)
        .any(|pair| pair == [Operator::From, Operator::From]);
    // The text of a here-document follows rules of its own, and text with open quotes follows none, so there every
    // line is looked at by itself as well.
    if (here_document || !cut.closed) && text.contains('\n') && depth < NESTED_MAX {
        for line in text.lines() {
            if !read(line, NESTED_MAX, left, scripts) {
                return false;
            }
        }
    }
    let parts: Vec<Part> = cut.parts.iter().map(|part| Part::of(part)).collect();
    if depth < NESTED_MAX {
        for part in &parts {
            let inner = part.script();
            if inner.is_some_and(|inner| !read(&inner, depth + 1, left, scripts)) {
                return false;
            }
        }
    }
    scripts.push(Script {
        parts,
        operators: cut.operators,
    });
    true
}

impl Part {
    fn of(text: &str) -> Self {
        let spoken = shell::words(text);
        let mut words = unwrapped(&spoken).to_vec();
        let mut forms = vec![text.to_owned(), spoken.join(" "), words.join(" ")];
        if let Some(program) = words.first_mut()
            && let Some((_, name)) = program.rsplit_once('/')
            && !name.is_empty()
        {
            *program = name.to_owned();
            forms.push(words.join(" "));
        }
        forms.dedup();
        Self { words, forms }
    }

    /// The script that this gives to a shell.
    fn script(&self) -> Option<String> {
        let (program, arguments) = self.words.split_first()?;
        if program == "eval" {
            return Some(arguments.join(" "));
        }
        // No program is called so; it is the value of `env -S`.
        if program.contains(char::is_whitespace) {
            return Some(self.words.join(" "));
        }
        if !SHELLS.contains(&program.as_str()) {
            return None;
        }
        let option = arguments.iter().position(|word| {
            word.starts_with('-') && !word.starts_with("--") && word.contains('c')
        })?;
        let script = arguments[option + 1..]
            .iter()
            .find(|word| !word.starts_with('-'));
        script.cloned()
    }
}

/// What is left without assignments, keywords and programs that only run others.
fn unwrapped(words: &[String]) -> &[String] {
    let mut rest = words;
    for _ in 0..WRAPPERS_MAX {
        let Some((first, after)) = rest.split_first() else {
            break;
        };
        let name = first.rsplit('/').next().unwrap_or(first);
        if is_assignment(first) || KEYWORDS.contains(&first.as_str()) {
            rest = after;
        } else if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
            rest = wrapper.command(after);
        } else {
            break;
        }
    }
    rest
}

impl Wrapper {
    fn command<'w>(&self, arguments: &'w [String]) -> &'w [String] {
        let mut rest = arguments;
        let mut own = self.own;
        while let Some((word, after)) = rest.split_first() {
            rest = match word.strip_prefix('-') {
                Some(option) if takes_next(option, self.valued) => after.get(1..).unwrap_or(&[]),
                Some(_) => after,
                None if own > 0 => {
                    own -= 1;
                    after
                }
                None => break,
            };
        }
        rest
    }
}

/// Whether the last letter of a group such as `-Eu` wants a value.
fn takes_next(option: &str, valued: &str) -> bool {
    !option.starts_with('-')
        && option
            .chars()
            .last()
            .is_some_and(|last| valued.contains(last))
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}
