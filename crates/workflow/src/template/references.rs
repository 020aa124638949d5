//! What a template refers to, read off its tree: names for the checks, and only what is needed for the filling in.

use gotmpl::parse::{CommandNode, DefineNode, Expr, ListNode, Node, PipeNode};

use super::functions::{BUILT_IN, NAMESPACES, OURS};

/// A path from the root of the data: `states.build.Output`; an empty one is the root itself.
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
    walk(tree, defines).references
}

pub(super) fn unknown_functions(tree: &ListNode, defines: &[DefineNode]) -> Vec<String> {
    let mut walk = walk(tree, defines);
    let is_known = |name: &String| {
        [&BUILT_IN[..], &OURS[..], &NAMESPACES[..]]
            .iter()
            .any(|names| names.contains(&name.as_str()))
    };
    walk.functions.retain(|name| !is_known(name));
    walk.functions
}

fn walk(tree: &ListNode, defines: &[DefineNode]) -> Walk {
    let mut walk = Walk {
        prints_elsewhere: defines.iter().any(|define| prints_unquoted(&define.body)),
        ..Walk::default()
    };
    walk.list(tree, Dot::Root);
    for define in defines {
        walk.list(&define.body, Dot::Moved);
    }
    walk
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
    /// A text that is defined, and filled in elsewhere, prints something unquoted.
    prints_elsewhere: bool,
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
                    // What is ranged over is probably what is printed inside.
                    let printed = Printed::unless(!prints_unquoted(&branch.body));
                    self.pipe(&branch.pipe, dot, printed);
                    self.list(&branch.body, Dot::Moved);
                    branch
                        .else_body
                        .iter()
                        .for_each(|body| self.list(body, dot));
                }
                Node::Template(template) => {
                    if let Some(pipe) = &template.pipe {
                        self.pipe(pipe, dot, Printed::unless(!self.prints_elsewhere));
                    }
                }
                Node::List(inner) => self.list(inner, dot),
                Node::Define(define) => self.list(&define.body, Dot::Moved),
                Node::Text(_) | Node::Break(_) | Node::Continue(_) => {}
            }
        }
    }

    fn printed(&mut self, pipe: &PipeNode, dot: Dot) {
        // Another name for the root prints nothing; what is printed of it is found by that name.
        let names_root = !pipe.decl.is_empty()
            && matches!(&pipe.commands[..], [command] if matches!(&command.args[..], [only] if is_root(only)));
        self.pipe(pipe, dot, Printed::unless(names_root || is_quoted(pipe)));
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
            // Under another name for the root; nothing else has parts that are called so.
            Expr::Field(_, fields) | Expr::Variable(_, _, fields)
                if fields.len() > 1 && ["states", "env"].contains(&fields[0].as_str()) =>
            {
                self.found(strings(fields), expression.pos().line, printed);
            }
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

impl Printed {
    fn unless(is_quoted: bool) -> Self {
        match is_quoted {
            true => Self::Quoted,
            false => Self::Unquoted,
        }
    }
}

/// Whether what a pipe gives is one word for a shell.
fn is_quoted(pipe: &PipeNode) -> bool {
    pipe.commands.last().is_some_and(|command| {
        matches!(command.args.first(), Some(Expr::Identifier(_, name)) if QUOTING.contains(&name.as_str()))
    })
}

/// Whether something is printed there as it is.
fn prints_unquoted(list: &ListNode) -> bool {
    list.nodes.iter().any(|node| match node {
        Node::Action(action) => action.pipe.decl.is_empty() && !is_quoted(&action.pipe),
        Node::If(branch) | Node::Range(branch) | Node::With(branch) => {
            let otherwise = branch.else_body.as_ref();
            prints_unquoted(&branch.body) || otherwise.is_some_and(prints_unquoted)
        }
        Node::List(inner) => prints_unquoted(inner),
        Node::Template(_) => true, // Whatever that prints.
        Node::Define(_) | Node::Text(_) | Node::Break(_) | Node::Continue(_) => false,
    })
}

fn is_root(expression: &Expr) -> bool {
    match expression {
        Expr::Dot(_) => true,
        Expr::Variable(_, name, fields) => name == "$" && fields.is_empty(),
        _ => false,
    }
}

fn strings(fields: &[gotmpl::parse::SmolStr]) -> Vec<String> {
    fields.iter().map(ToString::to_string).collect()
}

fn path_of(expression: &Expr, dot: Dot) -> Option<Vec<String>> {
    match expression {
        Expr::Dot(_) if dot == Dot::Root => Some(Vec::new()),
        Expr::Field(_, fields) if dot == Dot::Root => Some(strings(fields)),
        Expr::Variable(_, name, fields) if name == "$" => Some(strings(fields)),
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
