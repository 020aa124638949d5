//! Words that must not reach anyone who uses or reads the product.

use super::Finding;

/// This file has to spell the words it looks for.
const THIS_FILE: &str = "xtask/src/tidy/words.rs";

/// Folders of one machine.
const MACHINE_PATHS: [&str; 2] = ["/work/", "/root/"];

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    if path == THIS_FILE {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for word in MACHINE_PATHS.iter().filter(|word| begins_in(line, word)) {
            let words = format!(
                "`{word}` is a path of one machine: use a relative path or a temporary folder"
            );
            findings.push(Finding::error(path, index + 1, words));
        }
    }
    findings
}

/// True when the path stands in the line from its root, not as the inside of a longer one.
fn begins_in(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(offset, _)| {
        let before = line[..offset].chars().next_back();
        !before.is_some_and(|before| before.is_alphanumeric() || "._~*/)}>".contains(before))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_paths_are_found_only_from_the_root() {
        let cases = [
            ("see /work/target", 1),
            ("HOME=/root/x", 1),
            ("\"/work/a\" \"/work/b\"", 1),
            ("/home/me/work/x", 0),
            ("https://host/work/", 0),
            ("$HOME/work/", 0),
            ("${home}/root/", 0),
            ("/workspace", 0),
        ];
        for (line, count) in cases {
            assert_eq!(check("README.md", line).len(), count, "{line}");
        }
    }
}
