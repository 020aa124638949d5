//! `cargo xtask tidy --figures`: the shape of the code in numbers, crate by crate, beside the lines we hold ourselves to.

use std::collections::BTreeMap;

use super::source::{Source, occurrences};

/// The line for functions, which clippy holds.
const FUNCTION_MAX: usize = 70;

/// What is told of one crate.
#[derive(Debug, Default)]
struct Figures {
    files: Vec<usize>,
    functions: Vec<usize>,
    test_lines: usize,
    unwraps: usize,
    mutexes: usize,
}

/// The table, with a last row for everything.
pub(super) fn table(sources: &[Source]) -> String {
    let mut crates: BTreeMap<&str, Figures> = BTreeMap::new();
    let mut whole = Figures::default();
    for source in sources {
        let owner = source.path.split('/').nth(1).unwrap_or_default();
        let owner = if source.path.starts_with("xtask/") {
            "xtask"
        } else {
            owner
        };
        for figures in [crates.entry(owner).or_default(), &mut whole] {
            figures.add(source);
        }
    }
    let head = [
        "crate",
        "files",
        "lines",
        "p90 file",
        "longest",
        "functions",
        "p90 function",
        "longest",
        "over 70",
        "unwraps",
        "mutexes",
        "test lines",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(crates.iter().map(|(name, figures)| figures.row(name)));
    rows.push(whole.row("all"));
    aligned(&rows)
}

impl Figures {
    fn add(&mut self, source: &Source) {
        if source.is_test_file() {
            self.test_lines += source.text.lines().count();
            return;
        }
        let lines = source.lines_without_tests();
        self.files.push(lines);
        self.test_lines += source.text.lines().count() - lines;
        let outside = |word: &str| {
            let found = occurrences(&source.code, word).into_iter();
            let is_run = |offset: &usize| !source.is_outside_product() && !source.is_test(*offset);
            found.filter(is_run).count()
        };
        self.unwraps += outside("unwrap");
        self.mutexes += outside("Mutex");
        self.functions.extend(functions(source));
    }

    fn row(&self, name: &str) -> Vec<String> {
        let sum: usize = self.files.iter().sum();
        let over = self
            .functions
            .iter()
            .filter(|lines| **lines > FUNCTION_MAX)
            .count();
        let numbers = [
            self.files.len(),
            sum,
            ninetieth(&self.files),
            largest(&self.files),
            self.functions.len(),
            ninetieth(&self.functions),
            largest(&self.functions),
            over,
            self.unwraps,
            self.mutexes,
            self.test_lines,
        ];
        let numbers = numbers.iter().map(ToString::to_string);
        std::iter::once(name.to_owned()).chain(numbers).collect()
    }
}

/// How long each function of the product is, from its `fn` to its closing brace.
fn functions(source: &Source) -> Vec<usize> {
    let starts = occurrences(&source.code, "fn").into_iter();
    let starts = starts.filter(|start| !source.is_test(*start));
    starts
        .filter_map(|start| {
            let end = end_of(&source.code, start)?;
            Some(source.line(end) - source.line(start) + 1)
        })
        .collect()
}

/// Where the body that begins after `start` ends; nothing for a declaration or the type of a pointer.
fn end_of(code: &str, start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut nested = 0_isize;
    for (offset, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => nested += 1,
            b')' | b']' if nested == 0 && depth == 0 => return None,
            b')' | b']' => nested -= 1,
            b';' | b',' | b'=' if depth == 0 && nested == 0 => return None,
            b'{' => depth += 1,
            b'}' if depth == 0 => return None,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(offset);
                }
            }
            _ => {}
        }
    }
    None
}

fn ninetieth(numbers: &[usize]) -> usize {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let index = (sorted.len() * 9) / 10;
    sorted.get(index).or(sorted.last()).copied().unwrap_or(0)
}

fn largest(numbers: &[usize]) -> usize {
    numbers.iter().copied().max().unwrap_or(0)
}

fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0))
        .collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_from_their_word_to_their_brace() {
        let text = "//! Doc.\nfn one() {}\nfn three(\n    a: fn(u8) -> u8,\n) -> u8 {\n    a(1)\n}\ntrait T {\n    fn none(&self);\n}\n\
                    #[cfg(test)]\nmod tests {\n    fn left_out() {\n    }\n}\n";
        let source = Source::parse("crates/a/src/lib.rs", text.to_owned());
        assert_eq!(functions(&source), [1, 5]);
    }

    #[test]
    fn a_table_has_a_row_for_each_crate_and_one_for_all() {
        let source =
            |path: &str| Source::parse(path, "//! Doc.\nfn a() { b.unwrap(); }\n".to_owned());
        let table = table(&[
            source("crates/one/src/lib.rs"),
            source("crates/two/src/lib.rs"),
        ]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 4, "{table}");
        assert!(lines[3].starts_with("all"), "{table}");
        assert!(lines[3].split_whitespace().nth(9) == Some("2"), "{table}");
    }
}
