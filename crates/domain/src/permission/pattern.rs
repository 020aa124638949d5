//! Patterns of rules: for the names of tools, for paths and for commands.

use super::{
    CallPath,
    command::{Reading, Script},
    glob::{Glob, PATTERN_MAX, Segments},
    path,
    shell::{self, Cut, Operator},
    wrapper::{is_assignment, is_keyword},
};

/// Why a text is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("a pattern must not be empty")]
    Empty,
    #[error("a pattern has at most {PATTERN_MAX} characters, this one has {length}")]
    TooLong { length: usize },
    #[error("a path pattern has no `..`; write the absolute path of what is outside the workspace")]
    Parent,
    #[error("the home of another user cannot be told; write the absolute path")]
    OtherHome,
    #[error("quotes or parentheses of a command pattern must be closed")]
    Unclosed,
}

/// A glob on the name of a tool; `*` is anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    glob: Glob,
}

impl Pattern {
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        check(text)?;
        Ok(Self {
            text: text.to_owned(),
            glob: Glob::new(text, Segments::Ignored),
        })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        self.glob.matches(name)
    }
}

/// A glob on paths; `*` stays within a segment, `**` does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {
    text: String,
    glob: Glob,
    anchor: Anchor,
}

/// What a path pattern is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    Workspace,
    Root,
    /// Not known yet; see [`PathPattern::at_home`].
    Home,
}

/// How sure a match has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// This path for certain: what allows.
    Exactly,
    /// This path, as far as can be told: what asks or denies.
    Perhaps,
    /// The same, or something in this folder: what asks about or denies an act on whole trees.
    Below,
}

impl PathPattern {
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        check(text)?;
        if text.split('/').any(|segment| segment == "..") {
            return Err(PatternError::Parent);
        }
        let anchor = match text {
            _ if text.starts_with('/') => Anchor::Root,
            _ if text == "~" || text.starts_with("~/") => Anchor::Home,
            _ if text.starts_with('~') => return Err(PatternError::OtherHome),
            _ => Anchor::Workspace,
        };
        Ok(Self {
            text: text.to_owned(),
            glob: compile(text),
            anchor,
        })
    }

    /// The same pattern with `~` replaced by the home folder. Without it such a pattern allows nothing.
    #[must_use]
    pub fn at_home(&self, home: &str) -> Self {
        match (self.anchor, self.text.strip_prefix('~')) {
            (Anchor::Home, Some(rest)) => Self {
                text: self.text.clone(),
                glob: compile(&format!("{}{rest}", escape(home.trim_end_matches('/')))),
                anchor: Anchor::Root,
            },
            _ => self.clone(),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Patterns of the workspace see only what is in it; absolute ones see the absolute form of every path.
    pub(super) fn matches(&self, path: &CallPath, workspace: &str, reach: Reach) -> bool {
        match (self.anchor, path) {
            (Anchor::Workspace, CallPath::Inside(inside)) => self.covers(inside, reach),
            (Anchor::Workspace, CallPath::Outside(outside)) => {
                // Taking away a folder above the workspace takes the workspace with it.
                reach == Reach::Below && contains(outside, &path::join(workspace, ""))
            }
            (Anchor::Root, CallPath::Inside(inside)) if workspace.starts_with('/') => {
                self.covers(&path::join(workspace, inside), reach)
            }
            (Anchor::Root, CallPath::Outside(outside)) => self.covers(outside, reach),
            // It cannot be told where these meet, so nothing is allowed by it.
            (Anchor::Workspace, CallPath::Unknown(text)) => {
                reach != Reach::Exactly && self.covers(text, reach)
            }
            (Anchor::Root, CallPath::Unknown(_) | CallPath::Inside(_)) | (Anchor::Home, _) => {
                reach != Reach::Exactly
            }
        }
    }

    fn covers(&self, path: &str, reach: Reach) -> bool {
        let folder = if matches!(path, "." | "/") { "" } else { path };
        self.glob.matches(path) || (reach == Reach::Below && self.glob.reaches_below(folder))
    }
}

/// A glob on commands, cut at the operators of the shell as commands are; `*` is anything but an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPattern {
    text: String,
    /// As each dialect cuts it; one if they agree.
    spellings: Vec<Spelling>,
}

/// A command pattern as one dialect cuts it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Spelling {
    parts: Vec<(String, Glob)>,
    operators: Vec<Operator>,
}

impl CommandPattern {
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        check(text)?;
        let cuts = shell::cuts(text.trim());
        if !cuts.iter().any(|cut| cut.closed) {
            return Err(PatternError::Unclosed);
        }
        let part = |part: &&str| ((*part).to_owned(), Glob::new(part, Segments::Ignored));
        let spelling = |cut: Cut<'_>| Spelling {
            parts: cut.parts.iter().map(part).collect(),
            operators: cut.operators,
        };
        Ok(Self {
            text: text.to_owned(),
            spellings: cuts.into_iter().map(spelling).collect(),
        })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the whole command, as written and as every shell reads it, is what the pattern spells.
    pub(super) fn is_all_of(&self, reading: &Reading<'_>) -> bool {
        let mut wholes = reading.wholes().iter().enumerate();
        !reading.is_too_long()
            && wholes.all(|(dialect, whole)| {
                let own = self.spellings.get(dialect).or(self.spellings.first());
                own.is_some_and(|spelling| spelling.is_all_of(whole))
            })
    }

    /// Whether some of the command, in any of the ways it can be read, is what the pattern spells.
    pub(super) fn is_part_of(&self, reading: &Reading<'_>) -> bool {
        reading.is_too_long()
            || reading.scripts().iter().any(|script| {
                self.spellings
                    .iter()
                    .any(|spelling| spelling.is_part_of(script))
            })
    }
}

impl Spelling {
    fn is_all_of(&self, whole: &Cut<'_>) -> bool {
        whole.closed
            && whole.operators == self.operators
            && self.parts.iter().enumerate().all(|(at, (text, glob))| {
                let part = whole.parts[at];
                let target =
                    at > 0 && matches!(whole.operators[at - 1], Operator::Into | Operator::From);
                let known = target
                    || unknown_program(part)
                        .is_none_or(|program| text.split_whitespace().any(|word| word == program));
                known && glob.spells(part, &whole.special[at])
            })
    }

    fn is_part_of(&self, script: &Script) -> bool {
        let fits = |glob: &Glob, forms: &[String]| forms.iter().any(|form| glob.matches(form));
        script
            .parts
            .windows(self.parts.len())
            .enumerate()
            .any(|(at, parts)| {
                script.operators[at..].starts_with(&self.operators)
                    && self
                        .parts
                        .iter()
                        .zip(parts)
                        .all(|((_, glob), part)| fits(glob, &part.forms))
            })
    }
}

/// The program of a part, where the shell makes its name of a variable or of the files that there are.
fn unknown_program(part: &str) -> Option<&str> {
    let program = part
        .split_whitespace()
        .find(|word| !is_assignment(word) && !is_keyword(word))?;
    let made = program.contains(['$', '*', '?'])
        || (program.contains('[') && program.contains(']'))
        || (program.contains('{') && program.contains(','));
    made.then_some(program)
}

fn check(text: &str) -> Result<(), PatternError> {
    if text.trim().is_empty() {
        return Err(PatternError::Empty);
    }
    let length = text.chars().count();
    if length > PATTERN_MAX {
        return Err(PatternError::TooLong { length });
    }
    Ok(())
}

/// `./a` is `a`, and `a/` is all that is in it.
fn compile(text: &str) -> Glob {
    let text = text.strip_prefix("./").unwrap_or(text);
    match text {
        "" => Glob::new("**", Segments::Kept),
        "/" => Glob::new("/**", Segments::Kept),
        _ if text.ends_with('/') => Glob::new(&format!("{text}**"), Segments::Kept),
        _ => Glob::new(text, Segments::Kept),
    }
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        if matches!(character, '*' | '?' | '{' | '}' | ',' | '\\') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

fn contains(folder: &str, path: &str) -> bool {
    let rest = path.strip_prefix(folder.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(path: &str) -> CallPath {
        CallPath::Inside(path.into())
    }

    fn outside(path: &str) -> CallPath {
        CallPath::Outside(path.into())
    }

    #[test]
    fn patterns_say_what_is_wrong_with_them() {
        assert_eq!(PathPattern::parse(" "), Err(PatternError::Empty));
        assert_eq!(PathPattern::parse("a/../b"), Err(PatternError::Parent));
        assert_eq!(PathPattern::parse("~bob/a"), Err(PatternError::OtherHome));
        assert_eq!(
            CommandPattern::parse("echo 'a"),
            Err(PatternError::Unclosed)
        );
        let long = "a".repeat(PATTERN_MAX + 1);
        assert!(matches!(
            Pattern::parse(&long),
            Err(PatternError::TooLong { .. })
        ));
    }

    #[test]
    fn relative_patterns_see_only_the_workspace_and_absolute_ones_everything() {
        let cases = [
            ("**", inside("a"), true),
            ("**", inside("."), true),
            ("**", outside("/etc/passwd"), false),
            ("*", outside("/etc"), false),
            ("./src/", inside("src/a"), true),
            ("/etc/**", outside("/etc/passwd"), true),
            ("/**", inside("a"), true),
            ("/ws/src/**", inside("src/a"), true),
            ("/other/**", inside("src/a"), false),
            ("~/.ssh/**", outside("/home/me/.ssh/id"), false),
            ("/**", CallPath::Unknown("~/a".into()), false),
            ("**", CallPath::Unknown("~/a".into()), false),
        ];
        for (pattern, path, expected) in cases {
            let compiled = PathPattern::parse(pattern).unwrap();
            let matched = compiled.matches(&path, "/ws", Reach::Exactly);
            assert_eq!(matched, expected, "{pattern} {path}");
        }
    }

    #[test]
    fn a_home_pattern_is_absolute_once_the_home_is_known() {
        let pattern = PathPattern::parse("~/.ssh/**").unwrap();
        let key = outside("/home/{me}/.ssh/id");
        let known = pattern.at_home("/home/{me}/");
        assert!(known.matches(&key, "/ws", Reach::Exactly));
        assert!(!known.matches(&outside("/etc"), "/ws", Reach::Perhaps));
        assert!(pattern.matches(&key, "/ws", Reach::Perhaps));
        assert_eq!(known.as_str(), "~/.ssh/**");
    }

    #[test]
    fn what_takes_whole_trees_is_caught_from_above() {
        let pattern = PathPattern::parse("a/secret/**").unwrap();
        for path in [inside("a"), inside("."), outside("/"), outside("/ws")] {
            assert!(pattern.matches(&path, "/ws", Reach::Below), "{path}");
            assert!(!pattern.matches(&path, "/ws", Reach::Perhaps), "{path}");
        }
        assert!(!pattern.matches(&inside("b"), "/ws", Reach::Below));
        assert!(!pattern.matches(&outside("/w"), "/ws", Reach::Below));
    }
}
