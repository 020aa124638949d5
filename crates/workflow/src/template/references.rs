//! What a template refers to, read off its tree: names for the checks, and only what is needed for the filling in.

use gotmpl::parse::{CommandNode, DefineNode, Expr, ListNode, Node, PipeNode};

use super::functions::{BUILT_IN, NAMESPACES, OURS};

/// A path from the root of the data: `states.build.Output`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) path: Vec<String>,
    /// From one, within the text.
    pub(crate) line: u64,
    /// It is printed, and nothing on the way makes it one word for a shell.
    pub(crate) is_printed_unquoted: bool,
}

impl Reference {
    pub(crate) fn part(&self, index: usize) -> Option<&str> {
        self.path.get(index).map(String::as_str)
    }
}

/// Functions whose result is one word for a shell.
const QUOTING: [&str; 2] = ["escape", "shell_quote"];

pub(super) fn of(tree: &ListNode, defines: &[DefineNode]) -> Vec<Reference> {
    let mut walk = Walk::default();
    walk.list(tree, Dot::Root);
    for define in defines {
        walk.list(&define.body, Dot::Moved);
    }
    walk.references
}

pub(super) fn unknown_functions(tree: &ListNode, defines: &[DefineNode]) -> Vec<String> {
    let mut walk = Walk::default();
    walk.list(tree, Dot::Root);
    for define in defines {
        walk.list(&define.body, Dot::Moved);
    }
    let is_known = |name: &String| {
        [&BUILT_IN[..], &OURS[..], &NAMESPACES[..]]
            .iter()
            .any(|names| names.contains(&name.as_str()))
    };
    walk.functions.retain(|name| !is_known(name));
    walk.functions
}

/// What `.` means: inside `range` and `with` it is no longer the root.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dot {
    Root,
    Moved,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Printed {
    Unquoted,
    Quoted,
}

#[derive(Default)]
struct Walk {
    references: Vec<Reference>,
    functions: Vec<String>,
}

impl Walk {
    fn list(&mut self, list: &ListNode, dot: Dot) {
        for node in &list.nodes {
            match node {
                Node::Action(action) => self.printed(&action.pipe, dot),
                Node::If(branch) => {
                    self.pipe(&branch.pipe, dot, Printed::Quoted);
                    self.list(&branch.body, dot);
                    branch
                        .else_body
                        .iter()
                        .for_each(|body| self.list(body, dot));
                }
                Node::Range(branch) | Node::With(branch) => {
                    // What is ranged over is probably printed inside.
                    self.pipe(&branch.pipe, dot, Printed::Unquoted);
                    self.list(&branch.body, Dot::Moved);
                    branch
                        .else_body
                        .iter()
                        .for_each(|body| self.list(body, dot));
                }
                Node::Template(template) => {
                    if let Some(pipe) = &template.pipe {
                        self.pipe(pipe, dot, Printed::Unquoted);
                    }
                }
                Node::List(inner) => self.list(inner, dot),
                Node::Define(define) => self.list(&define.body, Dot::Moved),
                Node::Text(_) | Node::Break(_) | Node::Continue(_) => {}
            }
        }
    }

    fn printed(&mut self, pipe: &PipeNode, dot: Dot) {
        let is_quoted = pipe.commands.last().is_some_and(|command| {
            matches!(command.args.first(), Some(Expr::Identifier(_, name)) if QUOTING.contains(&name.as_str()))
        });
        let printed = if is_quoted {
            Printed::Quoted
        } else {
            Printed::Unquoted
        };
        self.pipe(pipe, dot, printed);
    }

    fn pipe(&mut self, pipe: &PipeNode, dot: Dot, printed: Printed) {
        for command in &pipe.commands {
            self.command(command, dot, printed);
        }
    }

    fn command(&mut self, command: &CommandNode, dot: Dot, printed: Printed) {
        let mut arguments = command.args.iter();
        if let Some(Expr::Identifier(position, name)) = command.args.first() {
            arguments.next();
            if NAMESPACES.contains(&name.as_str()) {
                self.found(vec![name.to_string()], position.line, printed);
            } else {
                self.functions.push(name.to_string());
            }
            if name == "index" && self.indexed(&command.args[1..], dot, printed) {
                return;
            }
        }
        for argument in arguments {
            self.expression(argument, dot, printed);
        }
    }

    /// `index .states "my-step" "Output"` is a path when its keys are written out.
    fn indexed(&mut self, arguments: &[Expr], dot: Dot, printed: Printed) -> bool {
        let Some((first, keys)) = arguments.split_first() else {
            return false;
        };
        let Some(mut path) = path_of(first, dot) else {
            return false;
        };
        for key in keys {
            let Expr::String(_, key) = key else { break };
            path.push(key.to_string());
        }
        self.found(path, first.pos().line, printed);
        keys.iter()
            .filter(|key| !matches!(key, Expr::String(..)))
            .for_each(|key| self.expression(key, dot, printed));
        true
    }

    fn expression(&mut self, expression: &Expr, dot: Dot, printed: Printed) {
        if let Some(path) = path_of(expression, dot) {
            self.found(path, expression.pos().line, printed);
            return;
        }
        match expression {
            Expr::Pipe(_, pipe) => self.pipe(pipe, dot, printed),
            Expr::Chain(_, inner, _) => self.expression(inner, dot, printed),
            Expr::Identifier(_, name) => self.functions.push(name.to_string()),
            Expr::Dot(_)
            | Expr::Field(..)
            | Expr::Variable(..)
            | Expr::String(..)
            | Expr::Number(..)
            | Expr::Bool(..)
            | Expr::Nil(_) => {}
        }
    }

    fn found(&mut self, path: Vec<String>, line: usize, printed: Printed) {
        self.references.push(Reference {
            path,
            line: line as u64,
            is_printed_unquoted: printed == Printed::Unquoted,
        });
    }
}

fn path_of(expression: &Expr, dot: Dot) -> Option<Vec<String>> {
    let strings =
        |fields: &[gotmpl::parse::SmolStr]| fields.iter().map(ToString::to_string).collect();
    match expression {
        Expr::Field(_, fields) if dot == Dot::Root => Some(strings(fields)),
        Expr::Variable(_, name, fields) if name == "$" && !fields.is_empty() => {
            Some(strings(fields))
        }
        Expr::Identifier(_, name) if NAMESPACES.contains(&name.as_str()) => {
            Some(vec![name.to_string()])
        }
        Expr::Chain(_, inner, fields) => match inner.as_ref() {
            Expr::Identifier(_, name) if NAMESPACES.contains(&name.as_str()) => {
                let mut path = vec![name.to_string()];
                path.extend(fields.iter().map(ToString::to_string));
                Some(path)
            }
            _ => None,
        },
        _ => None,
    }
}
