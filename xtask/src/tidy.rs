//! `cargo xtask tidy`: the rules of the architecture and of the style that the compiler does not hold.
//! This file gathers what is looked at and prints what is found; each part below owns its rules.

mod boundaries;
mod conformance;
mod edges;
mod figures;
mod repository;
mod shape;
mod source;
mod words;

use std::fmt;
use std::fs;
use std::process::ExitCode;

use anyhow::Context;

use crate::workspace;
use source::Source;

/// One broken rule: where, and what is wrong with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    file: String,
    line: usize,
    severity: Severity,
    words: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    Error,
    Warning,
}

impl Finding {
    fn error(file: &str, line: usize, words: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line,
            severity: Severity::Error,
            words: words.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.severity {
            Severity::Error => "",
            Severity::Warning => "warning: ",
        };
        write!(
            formatter,
            "{prefix}{}:{}: {}",
            self.file, self.line, self.words
        )
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Print how long files and functions are, crate by crate, instead of checking
    #[arg(long)]
    figures: bool,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if options.figures {
        println!("{}", figures::table(&sources()?));
        return Ok(ExitCode::SUCCESS);
    }
    Ok(if is_clean()? {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints every finding; true when none of them is an error.
pub(crate) fn is_clean() -> anyhow::Result<bool> {
    let findings = findings()?;
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .count();
    println!(
        "tidy: {errors} errors, {} warnings",
        findings.len() - errors
    );
    Ok(errors == 0)
}

/// Every file of Rust.
fn sources() -> anyhow::Result<Vec<Source>> {
    let root = workspace::root();
    let files = workspace::files()?.into_iter();
    files
        .filter(|path| path.ends_with(".rs"))
        .map(|path| {
            let text = fs::read_to_string(root.join(&path));
            let text = text.with_context(|| format!("could not read {path}"))?;
            Ok(Source::parse(&path, text))
        })
        .collect()
}

fn findings() -> anyhow::Result<Vec<Finding>> {
    let root = workspace::root();
    let mut findings = edges::check(&edges::packages()?);
    let mut sources = Vec::new();
    let mut conformance = None;
    let files = workspace::files()?;
    for path in &files {
        let bytes = fs::read(root.join(path)).with_context(|| format!("could not read {path}"))?;
        if let Some(finding) = repository::binary(path, &bytes) {
            findings.push(finding);
            continue;
        }
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        findings.extend(words::check(path, &text));
        if path == conformance::FILE {
            conformance = Some(text);
        } else if path.ends_with(".rs") {
            sources.push(Source::parse(path, text));
        }
    }
    for source in &sources {
        findings.extend(shape::check(source));
        findings.extend(boundaries::check(source));
    }
    findings.extend(repository::unlisted_tests(&sources));
    if let Some(text) = conformance {
        findings.extend(conformance::check(&text, &sources));
    }
    findings.sort();
    Ok(findings)
}
