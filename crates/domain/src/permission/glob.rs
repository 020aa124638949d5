//! Globs: `*`, `**`, `?` and `{a,b}`, matched in time linear in pattern and text, whatever the pattern.
//!
//! A pattern becomes the steps of a small machine that is in all its possible states at once, so nothing is tried twice.

/// The longest pattern, in characters: more than any path or command somebody writes a rule for.
pub(super) const PATTERN_MAX: usize = 512;

/// How deep braces nest; deeper ones mean themselves. Keeps the compiler's recursion shallow.
const BRACES_MAX: usize = 8;

/// Whether `*` stops at a slash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Segments {
    Kept,
    Ignored,
}

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Glob {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// This character.
    Char(char),
    /// A character of the same segment.
    Within,
    /// A character.
    Any,
    /// Go on at both places.
    Split(usize, usize),
    Jump(usize),
    Done,
}

/// Whether a star may stand for a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wild {
    Yes,
    No,
}

impl Glob {
    pub(super) fn new(pattern: &str, segments: Segments) -> Self {
        let characters: Vec<char> = pattern.chars().collect();
        let mut compiler = Compiler {
            steps: Vec::new(),
            segments,
        };
        compiler.sequence(&characters, Start::OfSegment, 0);
        compiler.steps.push(Step::Done);
        Self {
            steps: compiler.steps,
        }
    }

    /// Whether the pattern describes all of `text`.
    pub(super) fn matches(&self, text: &str) -> bool {
        // Most texts differ from most patterns at once, which needs no machine.
        if let Some(Step::Char(first)) = self.steps.first()
            && !text.starts_with(*first)
        {
            return false;
        }
        self.is_done(&self.feed(text.chars().map(|character| (character, Wild::Yes))))
    }

    /// The same, where the characters at `special`, in order, are only those that the pattern spells itself.
    pub(super) fn spells(&self, text: &str, special: &[usize]) -> bool {
        let characters = text.char_indices().map(|(at, character)| {
            let wild = match special.binary_search(&at) {
                Ok(_) => Wild::No,
                Err(_) => Wild::Yes,
            };
            (character, wild)
        });
        self.is_done(&self.feed(characters))
    }

    fn is_done(&self, states: &States) -> bool {
        states
            .active
            .iter()
            .any(|step| self.steps[*step] == Step::Done)
    }

    /// Whether the pattern could describe something in the folder `path`; empty for where patterns begin.
    pub(super) fn reaches_below(&self, path: &str) -> bool {
        let slash = (!path.is_empty()).then_some('/');
        // From every step the end can be reached, so a state that is alive is a match to come.
        let characters = path.chars().chain(slash);
        let states = self.feed(characters.map(|character| (character, Wild::Yes)));
        states
            .active
            .iter()
            .any(|step| self.steps[*step] != Step::Done)
    }

    fn feed(&self, text: impl Iterator<Item = (char, Wild)>) -> States {
        let mut states = States::new(self.steps.len());
        let mut next = States::new(self.steps.len());
        states.enter(&self.steps, 0);
        for (character, wild) in text {
            next.clear();
            for index in 0..states.active.len() {
                let step = states.active[index];
                let takes = match self.steps[step] {
                    Step::Char(wanted) => wanted == character,
                    Step::Within => character != '/' && wild == Wild::Yes,
                    Step::Any => wild == Wild::Yes,
                    Step::Split(..) | Step::Jump(_) | Step::Done => false,
                };
                if takes {
                    next.enter(&self.steps, step + 1);
                }
            }
            std::mem::swap(&mut states, &mut next);
            if states.active.is_empty() {
                break;
            }
        }
        states
    }
}

/// The steps that the machine is at, each once.
#[derive(Debug)]
struct States {
    active: Vec<usize>,
    seen: Vec<u64>,
    round: u64,
    open: Vec<usize>,
}

impl States {
    fn new(steps: usize) -> Self {
        Self {
            active: Vec::with_capacity(steps),
            seen: vec![0; steps],
            round: 1,
            open: Vec::new(),
        }
    }

    fn clear(&mut self) {
        self.active.clear();
        self.round += 1;
    }

    /// Adds a step and all that follow from it without a character.
    fn enter(&mut self, steps: &[Step], first: usize) {
        self.open.push(first);
        while let Some(step) = self.open.pop() {
            if self.seen[step] == self.round {
                continue;
            }
            self.seen[step] = self.round;
            match steps[step] {
                Step::Split(one, other) => self.open.extend([one, other]),
                Step::Jump(target) => self.open.push(target),
                Step::Char(_) | Step::Within | Step::Any | Step::Done => self.active.push(step),
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    OfSegment,
    InSegment,
}

struct Compiler {
    steps: Vec<Step>,
    segments: Segments,
}

impl Compiler {
    fn sequence(&mut self, pattern: &[char], mut start: Start, depth: usize) {
        let mut at = 0;
        while at < pattern.len() {
            let rest = &pattern[at..];
            let kept = self.segments == Segments::Kept;
            let (taken, next) = match rest {
                ['*', '*', ..] => self.stars(rest, start),
                ['*', ..] => {
                    self.repeat(if kept { Step::Within } else { Step::Any });
                    (1, Start::InSegment)
                }
                ['?', ..] => {
                    self.steps.push(if kept { Step::Within } else { Step::Any });
                    (1, Start::InSegment)
                }
                // A folder belongs to what is in it: `src/**` is also `src`.
                ['/', '*', '*'] if kept && at > 0 => {
                    self.optional(|compiler| {
                        compiler.steps.push(Step::Char('/'));
                        compiler.repeat(Step::Any);
                    });
                    (3, Start::InSegment)
                }
                ['/', ..] => {
                    self.steps.push(Step::Char('/'));
                    (1, Start::OfSegment)
                }
                ['{', ..] if depth < BRACES_MAX => self.braces(rest, start, depth),
                ['\\', literal @ ('*' | '?' | '{' | '}' | ',' | '\\'), ..] => {
                    self.steps.push(Step::Char(*literal));
                    (2, Start::InSegment)
                }
                [literal, ..] => {
                    self.steps.push(Step::Char(*literal));
                    (1, Start::InSegment)
                }
                [] => break,
            };
            at += taken;
            start = next;
        }
    }

    /// Two stars or more: any folders if they are a whole segment, any text otherwise.
    fn stars(&mut self, rest: &[char], start: Start) -> (usize, Start) {
        let count = rest.iter().take_while(|c| **c == '*').count();
        let whole = start == Start::OfSegment && rest.get(count) == Some(&'/');
        if whole && self.segments == Segments::Kept {
            self.optional(|compiler| {
                compiler.repeat(Step::Any);
                compiler.steps.push(Step::Char('/'));
            });
            return (count + 1, Start::OfSegment);
        }
        self.repeat(Step::Any);
        (count, Start::InSegment)
    }

    /// `{a,b}`: one of them. Braces without a comma, or without their other half, mean themselves.
    fn braces(&mut self, rest: &[char], start: Start, depth: usize) -> (usize, Start) {
        let Some((alternatives, taken)) = alternatives(rest) else {
            self.steps.push(Step::Char('{'));
            return (1, Start::InSegment);
        };
        let mut ends = Vec::new();
        let last = alternatives.len() - 1;
        for (index, alternative) in alternatives.iter().enumerate() {
            let split = self.steps.len();
            if index < last {
                self.steps.push(Step::Split(split + 1, 0));
            }
            self.sequence(alternative, start, depth + 1);
            if index < last {
                ends.push(self.steps.len());
                self.steps.push(Step::Jump(0));
                self.steps[split] = Step::Split(split + 1, self.steps.len());
            }
        }
        let end = self.steps.len();
        for jump in ends {
            self.steps[jump] = Step::Jump(end);
        }
        (taken, Start::InSegment)
    }

    fn repeat(&mut self, one: Step) {
        let at = self.steps.len();
        self.steps
            .extend([Step::Split(at + 1, at + 3), one, Step::Jump(at)]);
    }

    fn optional(&mut self, build: impl FnOnce(&mut Self)) {
        let at = self.steps.len();
        self.steps.push(Step::Jump(0));
        build(self);
        self.steps[at] = Step::Split(at + 1, self.steps.len());
    }
}

/// What stands between the commas of the braces that `rest` begins with, and how long it all is.
fn alternatives(rest: &[char]) -> Option<(Vec<&[char]>, usize)> {
    let mut found = Vec::new();
    let (mut depth, mut from, mut at) = (0_usize, 1, 0);
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 1,
            '{' => depth += 1,
            ',' if depth == 1 => {
                found.push(&rest[from..at]);
                from = at + 1;
            }
            '}' if depth == 1 => {
                found.push(&rest[from..at]);
                return (found.len() > 1).then_some((found, at + 1));
            }
            '}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(pattern: &str, text: &str) -> bool {
        Glob::new(pattern, Segments::Kept).matches(text)
    }

    #[test]
    fn stars_and_braces_mean_what_people_expect_of_paths() {
        let cases = [
            ("src/*.rs", "src/a.rs src/.rs", "src/a/b.rs a.rs src/a.rsx"),
            ("src/**", "src src/a src/a/b", "srcs src2/a a/src"),
            ("**/*.rs", "a.rs b/a.rs b/c/a.rs", "a.r"),
            ("**/.env", ".env a/.env a/b/.env", "x.env a.env .envs"),
            ("a/**/b", "a/b a/x/b a/x/y/b", "ab a/bb b"),
            ("**", ". a a/b", ""),
            ("*", ". a .a", "a/b"),
            ("a?c", "abc aéc", "ac a/c abbc"),
            ("{a,b/**}", "a b b/c", "c ab"),
            ("{src,test}/*.{c,h}", "src/a.c test/b.h", "src/a.o lib/a.c"),
            ("{a,{b,c}d}", "a bd cd", "b c ad"),
            ("{a}", "{a}", "a"),
            ("{a,b", "{a,b", "a b"),
            ("[id].ts", "[id].ts", "i.ts d.ts"),
            ("\\*", "*", "a"),
            ("a\\b", "a\\b", "ab"),
            ("/**", "/ /a /a/b", "a"),
            ("a***b", "ab a/x/b", "a"),
        ];
        for (pattern, yes, no) in cases {
            for text in yes.split_whitespace() {
                assert!(path(pattern, text), "{pattern} is not {text}");
            }
            for text in no.split_whitespace() {
                assert!(!path(pattern, text), "{pattern} is {text}");
            }
        }
    }

    #[test]
    fn without_segments_a_star_is_anything() {
        let glob = Glob::new("git log *", Segments::Ignored);
        assert!(glob.matches("git log src/a b\nc"));
        assert!(!glob.matches("git logs"));
    }

    #[test]
    fn a_folder_is_reached_if_the_pattern_may_go_on_in_it() {
        let cases = [
            ("a/secret/**", "a", true),
            ("a/secret/**", "", true),
            ("a/secret/**", "b", false),
            ("**/.env", "b", true),
            ("a", "a", false),
            ("*.rs", "src", false),
        ];
        for (pattern, folder, expected) in cases {
            let glob = Glob::new(pattern, Segments::Kept);
            assert_eq!(glob.reaches_below(folder), expected, "{pattern} {folder}");
        }
    }

    #[test]
    fn hostile_patterns_take_no_longer_than_others() {
        let text = "a".repeat(20_000);
        for piece in ["*a", "**", "**/", "{a,a}", "{a,*}", "?*", "{", "{,"] {
            let count = 100 / piece.len();
            let glob = Glob::new(&format!("{}b", piece.repeat(count)), Segments::Kept);
            assert!(!glob.matches(&text), "{piece}");
            assert!(glob.steps.len() < 8 * PATTERN_MAX);
        }
        let nested = format!("{}a{}", "{a,".repeat(150), "}".repeat(150));
        let glob = Glob::new(&nested, Segments::Kept);
        assert!(glob.matches("a"));
    }
}
