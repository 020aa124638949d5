//! The ways a command can be read: as written, and as what it comes to without quotes, redirections, wrappers and inner
//! shells.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    sequence::{Sequence, sequences},
    shell::{self, Cut, Dialect, Operator},
    words::words,
    wrapper::{self, SHELLS},
};

/// The longest command that is read, in bytes. A longer one is allowed by no rule and caught by all that ask or deny.
pub(super) const COMMAND_MAX: usize = 64 * 1024;

/// How many parts are read, in all the scripts of a command; one with more counts as too long. Every rule on commands
/// looks at each part, and a file written through a here-document has thousands of lines.
const PARTS_MAX: usize = 8192;

/// How many bytes all the readings of a command have; one with more counts as too long. The longest plain command has
/// four times its length, and as much again for each shell within it.
const READ_MAX: usize = 32 * COMMAND_MAX;

/// How many shells within shells are looked into; a command with more counts as too long. Nobody means more.
const NESTED_MAX: usize = 4;

/// Programs that write their arguments, which a shell may read.
const WRITERS: [&str; 3] = ["echo", "printf", "print"];

/// A command and what it comes to.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    /// As each dialect cuts it; none if it is too long.
    wholes: Vec<Cut<'a>>,
    scripts: Vec<Script>,
}

/// A script: the command itself, a piece of it that runs alone, or what it gives to a shell.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) parts: Vec<Part>,
    pub(super) operators: Vec<Operator>,
}

/// What stands between operators.
#[derive(Debug)]
pub(super) struct Part {
    words: Vec<String>,
    /// The words at which a program may stand.
    starts: Vec<usize>,
    /// Every text that a pattern may mean: as written, without quotes, without wrappers.
    pub(super) forms: Vec<String>,
    /// What this gives to a shell.
    scripts: BTreeSet<String>,
}

impl<'a> Reading<'a> {
    pub(super) fn of(command: &'a str) -> Self {
        let mut reader = Reader {
            scripts: Vec::new(),
            parts: PARTS_MAX,
            bytes: READ_MAX,
        };
        let command = command.trim();
        let read = match command.len() <= COMMAND_MAX {
            true => reader.read(command, 0),
            false => Err(TooLong),
        };
        Self {
            wholes: match read {
                Ok(()) => shell::cuts(command),
                Err(TooLong) => Vec::new(),
            },
            scripts: reader.scripts,
        }
    }

    /// The command as written, once for each dialect that cuts it in its own way; none if it is too long.
    pub(super) fn wholes(&self) -> &[Cut<'a>] {
        &self.wholes
    }

    pub(super) fn is_too_long(&self) -> bool {
        self.wholes.is_empty()
    }

    pub(super) fn scripts(&self) -> &[Script] {
        &self.scripts
    }
}

impl Script {
    /// Whether some part runs one of these programs.
    pub(super) fn runs(&self, programs: &[&str]) -> bool {
        self.parts.iter().any(|part| part.runs(programs))
    }
}

impl Part {
    /// The programs that it may run, each without its folder and with its arguments.
    pub(super) fn commands(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.starts.iter().map(|start| {
            let program = wrapper::base(&self.words[*start]);
            (program, &self.words[start + 1..])
        })
    }

    /// All its words without quotes.
    pub(super) fn text(&self) -> String {
        self.words.join(" ")
    }

    fn runs(&self, programs: &[&str]) -> bool {
        self.commands()
            .any(|(program, _)| programs.contains(&program))
    }
}

/// The command has more to read than is looked at.
#[derive(Debug)]
struct TooLong;

/// Collects the scripts of a command within bounds.
struct Reader {
    scripts: Vec<Script>,
    /// How many parts may still be read.
    parts: usize,
    /// How many bytes of readings may still be made.
    bytes: usize,
}

impl Reader {
    fn read(&mut self, text: &str, depth: usize) -> Result<(), TooLong> {
        shell::cuts(text)
            .iter()
            .try_for_each(|cut| self.read_cut(text, cut, depth))
    }

    fn read_cut(&mut self, text: &str, cut: &Cut<'_>, depth: usize) -> Result<(), TooLong> {
        self.parts = self.parts.checked_sub(cut.parts.len()).ok_or(TooLong)?;
        let mut inner = BTreeSet::new();
        let here_document = cut
            .operators
            .windows(2)
            .any(|pair| pair == [Operator::From, Operator::From]);
        // The text of a here-document follows rules of its own, and text with open quotes follows none, so there every
        // line is looked at by itself as well.
        if (here_document || !cut.closed) && text.contains('\n') {
            inner.extend(text.lines().map(str::to_owned));
        }
        // Backticks end before the comment in them does.
        let comments = cut.operators.iter().zip(&cut.parts[1..]);
        inner.extend(
            comments
                .filter(|(operator, text)| **operator == Operator::Comment && text.contains('`'))
                .map(|(_, text)| text.trim_start_matches('#').to_owned()),
        );
        let written = cut.parts.iter().map(|part| (*part).to_owned()).collect();
        let as_cut = Sequence {
            commands: written,
            operators: cut.operators.clone(),
        };
        let mut variables = BTreeMap::new();
        let mut scripts = Vec::new();
        for sequence in std::iter::once(as_cut).chain(sequences(cut)) {
            let script = self.script(sequence, cut.dialect)?;
            for part in &script.parts {
                inner.extend(part.scripts.iter().cloned());
                let assigned = part
                    .words
                    .iter()
                    .filter_map(|word| wrapper::assignment(word));
                variables.extend(assigned.map(|(name, value)| (name.to_owned(), value.to_owned())));
            }
            scripts.push(script);
        }
        // What one part writes may be what a shell in another one reads.
        if scripts.iter().any(|script| script.runs(&SHELLS)) {
            let parts = scripts.iter().flat_map(|script| &script.parts);
            inner.extend(parts.flat_map(written_texts));
        }
        let parts = scripts.iter().flat_map(|script| &script.parts);
        inner.extend(parts.flat_map(|part| with_variables(part, &variables)));
        self.scripts.append(&mut scripts);
        inner.remove(text);
        match depth < NESTED_MAX {
            true => inner
                .iter()
                .try_for_each(|inner| self.read(inner, depth + 1)),
            false if inner.is_empty() => Ok(()),
            false => Err(TooLong),
        }
    }

    fn script(&mut self, sequence: Sequence, dialect: Dialect) -> Result<Script, TooLong> {
        let parts = sequence.commands.into_iter();
        Ok(Script {
            parts: parts
                .map(|text| self.part(text, dialect))
                .collect::<Result<_, _>>()?,
            operators: sequence.operators,
        })
    }

    fn part(&mut self, text: String, dialect: Dialect) -> Result<Part, TooLong> {
        let mut words = words(&text, dialect);
        words.extend(wrapper::added(&words));
        let readings = wrapper::readings(&words).ok_or(TooLong)?;
        let mut scripts = readings.scripts;
        // Backticks within backticks.
        if text.contains("\\`") {
            scripts.insert(text.replace("\\`", "`"));
        }
        // Unless somebody changes it, the variable is a space.
        if text.contains("IFS") {
            scripts.insert(text.replace("${IFS}", " ").replace("$IFS", " "));
        }
        scripts.remove(&text);
        let mut forms = BTreeSet::from([words.join(" "), text]);
        for start in &readings.starts {
            let rest = words[*start..].join(" ");
            let program = &words[*start];
            let named = wrapper::base(program);
            if named.len() < program.len() {
                forms.insert(rest[program.len() - named.len()..].to_owned());
            }
            self.spend(rest.len())?;
            forms.insert(rest);
        }
        for text in forms.iter().chain(&scripts) {
            self.spend(text.len())?;
        }
        Ok(Part {
            words,
            starts: readings.starts,
            forms: forms.into_iter().collect(),
            scripts,
        })
    }

    fn spend(&mut self, bytes: usize) -> Result<(), TooLong> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or(TooLong)?;
        Ok(())
    }
}

/// What `echo` and its like write.
fn written_texts(part: &Part) -> Vec<String> {
    let mut texts = Vec::new();
    for (program, arguments) in part.commands() {
        if WRITERS.contains(&program) {
            texts.push(arguments.join(" "));
            texts.extend(arguments.iter().filter(|word| word.contains(' ')).cloned());
        }
    }
    texts
}

/// The commands of a part whose program is a variable that the same text sets.
fn with_variables(part: &Part, variables: &BTreeMap<String, String>) -> Vec<String> {
    let resolved = part.commands().filter_map(|(program, arguments)| {
        let name = program.strip_prefix('$')?;
        let name = name
            .strip_prefix('{')
            .and_then(|name| name.strip_suffix('}'))
            .unwrap_or(name);
        let value = variables.get(name)?;
        Some(format!("{value} {}", arguments.join(" ")))
    });
    resolved.collect()
}
