//! Who may name what: files and processes, the environment, tasks and the terminal each have one home.

use std::collections::BTreeSet;

use super::Finding;
use super::source::{Source, occurrences};

#[derive(Debug)]
struct Boundary {
    /// Paths and macros as code names them; a trailing `*` matches any ending.
    names: &'static [&'static str],
    /// Harmless names below those.
    except: &'static [&'static str],
    /// Where they may stand, as beginnings of paths.
    homes: &'static [&'static str],
    advice: &'static str,
}

const BOUNDARIES: [Boundary; 4] = [
    Boundary {
        names: &["std::fs", "std::process", "tokio::fs", "tokio::process"],
        except: &["std::process::ExitCode"],
        homes: &["crates/platform/", "crates/store/"],
        advice: "only platform and store touch files and processes: call platform",
    },
    Boundary {
        names: &[
            "std::env::var*",
            "env::var*",
            "env::set_var",
            "env::remove_var",
        ],
        except: &[],
        homes: &["crates/agentcraft/src/config"],
        advice: "only the binary's config reads the environment: take the value as an argument",
    },
    Boundary {
        names: &[
            "tokio::spawn",
            "tokio::task::spawn",
            "tokio::task::spawn_local",
        ],
        except: &[],
        homes: &["crates/platform/src/tasks.rs"],
        advice: "tasks start only through platform's Tasks: spawn there",
    },
    Boundary {
        names: &["println!", "eprintln!", "print!", "eprint!"],
        except: &[],
        homes: &["crates/agentcraft/src/render"],
        advice: "only the binary's render prints: return a value, or trace",
    },
];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    if source.is_outside_product() {
        return Vec::new();
    }
    let (imports, code) = split_imports(&source.code);
    let mut findings = Vec::new();
    for boundary in &BOUNDARIES {
        if boundary
            .homes
            .iter()
            .any(|home| source.path.starts_with(home))
        {
            continue;
        }
        // One import or line is one finding, also where two names of a boundary match it.
        let mut lines = BTreeSet::new();
        for name in boundary.names {
            let imported = imports
                .iter()
                .filter(|import| boundary.forbids_import(name, &import.path));
            let offsets = imported
                .map(|import| import.offset)
                .chain(boundary.in_code(name, &code));
            for offset in offsets.filter(|offset| !source.is_test(*offset)) {
                let line = source.line(offset);
                if lines.insert(line) {
                    let name = name.trim_end_matches('*');
                    findings.push(Finding::error(
                        &source.path,
                        line,
                        format!("`{name}` here: {}", boundary.advice),
                    ));
                }
            }
        }
    }
    findings
}

impl Boundary {
    fn forbids_import(&self, name: &str, path: &str) -> bool {
        let matches = |name: &str| occurrences(path, name).first() == Some(&0);
        matches(name) && !self.except.iter().any(|except| matches(except))
    }

    fn in_code(&self, name: &str, code: &str) -> Vec<usize> {
        let mut offsets = occurrences(code, name);
        offsets.retain(|offset| {
            !self
                .except
                .iter()
                .any(|except| code[*offset..].starts_with(except))
        });
        offsets
    }
}

/// One path that a `use` brings in, with its groups written out.
#[derive(Debug, PartialEq, Eq)]
struct Import {
    path: String,
    offset: usize,
}

/// The imports of a file, and its code with the `use` items blanked.
fn split_imports(code: &str) -> (Vec<Import>, String) {
    let mut imports = Vec::new();
    let mut rest = code.to_owned();
    for start in occurrences(code, "use") {
        let tree_start = start + "use".len();
        // `use<'a>` is a capture in a type, not an item.
        if !code[tree_start..].starts_with(char::is_whitespace) {
            continue;
        }
        let Some(len) = code[tree_start..].find(';') else {
            continue;
        };
        let tree = &code[tree_start..tree_start + len];
        write_out("", tree, tree_start, &mut imports);
        let blank: String = code[start..tree_start + len]
            .chars()
            .map(|c| " ".repeat(c.len_utf8()))
            .collect();
        rest.replace_range(start..tree_start + len, &blank);
    }
    (imports, rest)
}

fn write_out(prefix: &str, tree: &str, offset: usize, imports: &mut Vec<Import>) {
    let offset = offset + (tree.len() - tree.trim_start().len());
    let tree = tree.trim();
    if let Some((head, group)) = tree.split_once('{') {
        let prefix = format!("{prefix}{}", head.trim());
        let mut part_offset = offset + head.len() + 1;
        for part in split_group(group.strip_suffix('}').unwrap_or(group)) {
            write_out(&prefix, part, part_offset, imports);
            part_offset += part.len() + 1;
        }
    } else if !tree.is_empty() {
        let leaf = tree.split_whitespace().next().unwrap_or(tree);
        let path = if leaf == "self" {
            prefix.trim_end_matches(':').to_owned()
        } else {
            format!("{prefix}{leaf}")
        };
        let path = path.strip_prefix("::").unwrap_or(&path).to_owned();
        imports.push(Import { path, offset });
    }
}

/// The parts of a group between the commas that are not in an inner group.
fn split_group(group: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    group
        .split(|character| {
            match character {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            character == ',' && depth == 0
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Source::parse(path, text.to_owned()))
            .iter()
            .map(|finding| finding.line)
            .collect()
    }

    const ENGINE: &str = "crates/engine/src/turn.rs";

    #[test]
    fn imports_are_written_out() {
        let (imports, rest) = split_imports("use std::{fs::{self, File}, io as x};\nfn a() {}");
        let paths: Vec<&str> = imports.iter().map(|import| import.path.as_str()).collect();
        assert_eq!(paths, ["std::fs", "std::fs::File", "std::io"]);
        assert_eq!(rest.trim_start_matches([' ', ';', '\n']), "fn a() {}");
    }

    #[test]
    fn names_are_found_in_imports_groups_and_paths() {
        let cases = [
            "use std::fs;",
            "use std::{fs, io};",
            "use std::{\n    io,\n    process::Command,\n};",
            "fn a() { std::fs::read(\"x\"); }",
            "use tokio::{process::Command, sync::mpsc};",
            "fn a() { env::var(\"X\"); }",
            "use std::env::var_os;",
            "fn a() { tokio::spawn(b()); }",
            "fn a() { println!(); }",
        ];
        for text in cases {
            assert_eq!(lines(ENGINE, text).len(), 1, "{text}");
        }
        assert_eq!(
            lines(ENGINE, "use std::{\n    io,\n    process::Command,\n};"),
            [3]
        );
    }

    #[test]
    fn harmless_names_are_left_alone() {
        let cases = [
            "use std::process::ExitCode;",
            "use std::process::{ExitCode};",
            "fn a() -> std::process::ExitCode { b() }",
            "use std::path::Path;",
            "fn a() { env::args(); env!(\"X\"); }",
            "// std::fs is not used here.",
            "const A: &str = \"std::fs println!\";",
            "fn a() { tokio::task::spawn_blocking(b); }",
            "pub(crate) use task::spawn;",
            "fn a() -> impl use<'a> + Sized {}",
            "#[cfg(test)]\nmod tests {\n    use std::fs;\n}",
        ];
        for text in cases {
            assert_eq!(lines(ENGINE, text), [0; 0], "{text}");
        }
    }

    #[test]
    fn each_name_has_its_home() {
        let cases = [
            ("crates/platform/src/files.rs", "use std::fs;"),
            ("crates/store/src/open.rs", "use std::fs;"),
            (
                "crates/agentcraft/src/config/layers.rs",
                "use std::env::var;",
            ),
            (
                "crates/platform/src/tasks.rs",
                "fn a() { tokio::spawn(b()); }",
            ),
            ("crates/agentcraft/src/render.rs", "fn a() { println!(); }"),
            ("crates/agentcraft/tests/it/start.rs", "use std::fs;"),
            ("crates/testkit/src/daemon.rs", "use std::process::Command;"),
            ("xtask/src/ci.rs", "fn a() { println!(); }"),
        ];
        for (path, text) in cases {
            assert_eq!(lines(path, text), [0; 0], "{path}");
        }
    }
}
