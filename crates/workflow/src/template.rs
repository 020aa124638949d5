//! Texts with Go template actions: parsing them, finding what they refer to, and filling them in.

mod functions;
mod references;

use std::fmt;

use gotmpl::parse::{CommandNode, DefineNode, Expr, ListNode, Node, Parser, PipeNode};
use gotmpl::{MissingKey, Template};

use crate::scope::Scope;

pub(crate) use functions::NAMESPACES;
pub(crate) use references::Reference;

/// Bytes that one text may grow to when it is filled in: a prompt with a file or two in it.
const TEXT_MAX: usize = 8 * 1024 * 1024;

/// Rounds of `range` in one text; a workflow that needs more should use a loop.
const RANGE_ROUNDS_MAX: u64 = 100_000;

/// What a tree calls itself; never seen in a file.
const MAIN: &str = "text";

/// Prints a value the way workflows expect: lists and mappings as JSON, nothing as nothing.
const SHOW: &str = "__show";

/// Why a text could not be parsed, and where in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    /// From one, within the text.
    pub(crate) line: u64,
    pub(crate) message: String,
}

/// A text that has been parsed.
#[derive(Debug)]
pub(crate) struct Parsed {
    tree: ListNode,
    defines: Vec<DefineNode>,
}

/// Whether a text has anything to fill in.
pub(crate) fn is_template(text: &str) -> bool {
    text.contains("{{")
}

pub(crate) fn parse(text: &str) -> Result<Parsed, SyntaxError> {
    let outcome = Parser::with_name(None, text, "{{", "}}").and_then(Parser::parse);
    match outcome {
        Ok((tree, defines)) => Ok(Parsed { tree, defines }),
        Err(gotmpl::TemplateError::Parse { line, message, .. })
        | Err(gotmpl::TemplateError::Lex { line, message, .. }) => Err(SyntaxError {
            line: line as u64,
            message,
        }),
        Err(other) => Err(SyntaxError {
            line: 1,
            message: other.to_string(),
        }),
    }
}

impl Parsed {
    /// Everything the text refers to, and the functions it calls.
    pub(crate) fn references(&self) -> Vec<Reference> {
        references::of(&self.tree, &self.defines)
    }

    /// Names of functions that do not exist.
    pub(crate) fn unknown_functions(&self) -> Vec<String> {
        references::unknown_functions(&self.tree, &self.defines)
    }
}

/// Fills a text in. The error is in words.
pub(crate) fn render(text: &str, scope: &Scope<'_>) -> Result<String, String> {
    if !is_template(text) {
        return Ok(text.to_owned());
    }
    let parsed = parse(text).map_err(|error| error.message)?;
    let data = functions::value_of(&scope.tree(&parsed.references()));
    let mut template = Template::new(MAIN)
        .missing_key(MissingKey::Error)
        .max_range_iters(RANGE_ROUNDS_MAX)
        .funcs(functions::all(&data, scope.world));
    let mut tree = parsed.tree;
    show_printed(&mut tree);
    template = template.add_parse_tree(MAIN, tree);
    for mut define in parsed.defines {
        show_printed(&mut define.body);
        template = template.add_parse_tree(&define.name, define.body);
    }
    let mut out = Bounded::default();
    let outcome = template.execute_template_fmt(&mut out, MAIN, &data);
    if out.is_full {
        return Err(format!("the text grows beyond {TEXT_MAX} bytes"));
    }
    outcome.map_err(|error| in_words(&error))?;
    Ok(out.text)
}

fn in_words(error: &gotmpl::TemplateError) -> String {
    match error {
        gotmpl::TemplateError::MissingKey { key } => {
            format!("{key:?} is not defined at this point of the run")
        }
        other => {
            let text = other.to_string();
            text.strip_prefix("execution error: ")
                .map_or_else(|| text.clone(), str::to_owned)
        }
    }
}

/// Sends every value that is printed through `SHOW`.
fn show_printed(list: &mut ListNode) {
    for node in &mut list.nodes {
        match node {
            Node::Action(action) => {
                if action.pipe.decl.is_empty() {
                    append_show(&mut action.pipe);
                }
            }
            Node::If(branch) | Node::Range(branch) | Node::With(branch) => {
                show_printed(&mut branch.body);
                if let Some(otherwise) = &mut branch.else_body {
                    show_printed(otherwise);
                }
            }
            Node::List(inner) => show_printed(inner),
            Node::Text(_)
            | Node::Template(_)
            | Node::Define(_)
            | Node::Break(_)
            | Node::Continue(_) => {}
        }
    }
}

fn append_show(pipe: &mut PipeNode) {
    pipe.commands.push(CommandNode {
        pos: pipe.pos,
        args: vec![Expr::Identifier(pipe.pos, SHOW.into())],
    });
}

/// A writer that stops at `TEXT_MAX`.
#[derive(Default)]
struct Bounded {
    text: String,
    is_full: bool,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.text.len() + text.len() > TEXT_MAX {
            self.is_full = true;
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
