//! The dropbox: deliverables under names that people read, in a folder that may be a share.

use domain::Name;
use platform::{ConfinedDir, files};
use tracing::warn;

use super::Exchange;

/// A name of a file that every file system takes.
const NAME_MAX: usize = 120;

impl Exchange {
    /// Puts a deliverable into the agent's folder; a share that is away is no reason to fail. Blocks.
    pub(crate) fn drop_file(&self, agent: &Name, name: &str, bytes: &[u8]) {
        let Some(dropbox) = &self.config().dropbox else {
            return;
        };
        let name = readable_name(name);
        let dropped = || -> Result<(), String> {
            files::create_dir_all(&dropbox.dir).map_err(|error| error.to_string())?;
            let dir = ConfinedDir::open(&dropbox.dir).map_err(|error| error.to_string())?;
            dir.create_dir_all(agent.as_str())
                .map_err(|error| error.to_string())?;
            dir.write_atomic(format!("{agent}/{name}"), bytes)
                .map_err(|error| error.to_string())
        };
        if let Err(error) = dropped() {
            warn!(%agent, name, error, "a deliverable could not be put into the dropbox");
        }
    }
}

/// One name of a file, whatever was asked for: no folders, no dots in front, nothing that a share refuses.
pub(crate) fn readable_name(name: &str) -> String {
    let is_bad = |c: char| c.is_control() || "/\\:*?\"<>|".contains(c);
    let cleaned: String = name
        .chars()
        .map(|c| if is_bad(c) { '-' } else { c })
        .collect();
    let trimmed = cleaned.trim_matches(['.', ' ', '-']);
    let mut short = String::new();
    for c in trimmed.chars() {
        if short.len() + c.len_utf8() > NAME_MAX {
            break;
        }
        short.push(c);
    }
    if short.is_empty() {
        "deliverable".to_owned()
    } else {
        short
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_folder_or_hides() {
        for (name, expected) in [
            ("ukraine-news-0227.pdf", "ukraine-news-0227.pdf"),
            ("新闻 摘要.md", "新闻 摘要.md"),
            ("../../etc/passwd", "etc-passwd"),
            ("/etc/passwd", "etc-passwd"),
            ("..", "deliverable"),
            ("", "deliverable"),
            (".hidden", "hidden"),
            ("a\\b:c\n", "a-b-c"),
            ("notes/today.md", "notes-today.md"),
        ] {
            assert_eq!(readable_name(name), expected, "{name:?}");
        }
        assert!(readable_name(&"长".repeat(200)).len() <= NAME_MAX);
    }
}
