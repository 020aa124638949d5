//! Reading, writing, editing and listing files below the workspace.

use domain::turn::ToolContent;
use platform::confined::ConfinedError;

use super::{Act, OUTPUT_MAX, Place, shortened};

/// The largest file that tools read or change.
const FILE_MAX: u64 = 4 * 1024 * 1024;

/// Replaces a text that occurs once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) path: String,
    pub(crate) old: String,
    pub(crate) new: String,
}

impl Edit {
    fn apply(&self, content: &str) -> Result<String, String> {
        if self.old.is_empty() {
            return Err("\"old\" is empty; use write for a new file".to_owned());
        }
        match content.matches(&self.old).count() {
            1 => Ok(content.replacen(&self.old, &self.new, 1)),
            0 => Err(format!("{} does not hold that text", self.path)),
            count => Err(format!(
                "{} holds that text {count} times; give more of what is around it",
                self.path
            )),
        }
    }
}

pub(super) fn read(
    place: &Place,
    path: &str,
    offset: usize,
    limit: usize,
) -> Result<String, String> {
    let content = content(place, path)?;
    let mut lines = content.lines().skip(offset - 1);
    let mut shown = String::new();
    for line in lines.by_ref().take(limit) {
        if shown.len() + line.len() > OUTPUT_MAX {
            shown.push_str("… more; read on with offset\n");
            return Ok(shown);
        }
        shown.push_str(line);
        shown.push('\n');
    }
    let rest = lines.count();
    if rest > 0 {
        shown.push_str(&format!("… {rest} lines more; read on with offset\n"));
    }
    Ok(shown)
}

pub(super) fn write(place: &Place, path: &str, content: &str) -> Result<String, String> {
    let folder = place.open()?;
    let relative = place.relative(path);
    if let Some(parent) = relative
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        folder.create_dir_all(parent).map_err(words)?;
    }
    folder
        .write_atomic(&relative, content.as_bytes())
        .map_err(words)?;
    Ok(format!("wrote {} bytes to {path}", content.len()))
}

pub(super) fn edit(place: &Place, edit: &Edit) -> Result<String, String> {
    let changed = edit.apply(&content(place, &edit.path)?)?;
    let folder = place.open()?;
    folder
        .write_atomic(place.relative(&edit.path), changed.as_bytes())
        .map_err(words)?;
    Ok(format!("changed {}", edit.path))
}

pub(super) fn list(place: &Place, path: &str) -> Result<String, String> {
    let entries = place.open()?.list(place.relative(path)).map_err(words)?;
    let mut listed = String::new();
    for entry in entries {
        listed.push_str(&entry.name.to_string_lossy());
        if entry.kind == platform::confined::Kind::Dir {
            listed.push('/');
        }
        listed.push('\n');
    }
    Ok(shortened(listed))
}

/// The change that an act would make to a file, if it can be made at all.
pub(super) fn preview(act: &Act, place: &Place) -> Option<ToolContent> {
    let (path, new) = match act {
        Act::Write { path, content } => (path, content.clone()),
        Act::Edit(edit) => {
            let old = content(place, &edit.path).ok()?;
            (&edit.path, edit.apply(&old).ok()?)
        }
        Act::Read { .. } | Act::List { .. } | Act::Search { .. } | Act::Run { .. } => return None,
    };
    Some(ToolContent::Diff {
        path: place.root.join(path).to_string_lossy().into_owned(),
        old: content(place, path).ok(),
        new,
    })
}

fn content(place: &Place, path: &str) -> Result<String, String> {
    let bytes = place
        .open()?
        .read(place.relative(path), FILE_MAX)
        .map_err(words)?;
    String::from_utf8(bytes).map_err(|_| format!("{path} is not a text file"))
}

fn words(error: ConfinedError) -> String {
    engine::chain(&error)
}
