//! Changes that are known by their paths alone: new content in a folder of its own, and what is gone.

use std::collections::BTreeSet;

use crate::{Content, Delta, Entry, EntryPath, Folder, Kind, Manifest};

/// Who may read a file, and who may run it.
const READ: u32 = 0o444;
const RUN: u32 = 0o111;
const OWNER_RUNS: u32 = 0o100;

impl Delta {
    /// What must be done to `home`, which is as in `before`, so that everything in `staged` is there and the files in
    /// `removed` are not. A file keeps its mode, but for whether it can be run. A folder that had nothing but what is
    /// gone goes with it.
    pub fn overlay<'a>(
        home: &Folder,
        before: &Manifest,
        staged: &Manifest,
        removed: impl IntoIterator<Item = &'a [u8]>,
    ) -> Self {
        let mut after = before.clone();
        let mut gone = BTreeSet::new();
        for path in removed {
            let path = EntryPath::known(path);
            if after.entries.remove(&path).is_some() {
                gone.insert(path);
            }
        }
        for (path, entry) in &staged.entries {
            let is_folder = |entry: &Entry| entry.content == Content::Dir;
            match after.entries.get(path) {
                Some(here) if is_folder(entry) && is_folder(here) => {}
                _ => {
                    let entry = dressed(entry, before.entries.get(path));
                    after.entries.insert(path.clone(), entry);
                }
            }
        }
        // Children come before their folders.
        for path in gone.clone().into_iter().rev() {
            let mut above = path.parent();
            while let Some(folder) = above {
                if !is_left_empty(home, &folder, &after, &gone) {
                    break;
                }
                after.entries.remove(&folder);
                above = folder.parent();
                gone.insert(folder);
            }
        }
        Self::between(before, &after)
    }
}

fn dressed(entry: &Entry, before: Option<&Entry>) -> Entry {
    let mut entry = entry.clone();
    let was = before.filter(|before| before.content.kind() == Kind::File);
    if let (Some(was), Kind::File) = (was, entry.content.kind()) {
        entry.mode = match (was.mode & OWNER_RUNS != 0, entry.mode & OWNER_RUNS != 0) {
            (true, true) | (false, false) => was.mode,
            // Whoever may read it may run it.
            (false, true) => was.mode | (was.mode & READ) >> 2,
            (true, false) => was.mode & !RUN,
        };
    }
    entry
}

/// Nothing is in this folder that stays, nor anything that was not lent.
fn is_left_empty(
    home: &Folder,
    folder: &EntryPath,
    after: &Manifest,
    gone: &BTreeSet<EntryPath>,
) -> bool {
    let here = after.entries.get(folder);
    if !here.is_some_and(|entry| entry.content == Content::Dir) {
        return false;
    }
    let names = home.descend(Some(folder)).and_then(|it| it.names());
    names.is_ok_and(|names| {
        let mut paths = names
            .iter()
            .map(|name| EntryPath::below(Some(folder), name));
        // Something new may come to stand where something is gone.
        paths.all(|path| gone.contains(&path) && !after.entries.contains_key(&path))
    }) && !has_below(after, folder)
}

fn has_below(manifest: &Manifest, folder: &EntryPath) -> bool {
    let first = EntryPath::below(Some(folder), b"");
    let mut rest = manifest.entries.range(first.clone()..);
    rest.next()
        .is_some_and(|(path, _)| path.as_bytes().starts_with(first.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::{Limits, apply, everything};

    fn folder(files: &[(&str, &str, u32)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text, mode) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(*mode)).unwrap();
        }
        folder
    }

    fn shown(folder: &std::path::Path) -> Vec<String> {
        let limits = Limits::default();
        let folder = Folder::open(folder).unwrap();
        let (manifest, _) = Manifest::of(&folder, &everything, &limits).unwrap();
        let lines = manifest.entries.iter().map(|(path, entry)| {
            let kind = entry.content.kind();
            match kind {
                Kind::File => format!("{path} {:o}", entry.mode & 0o777),
                Kind::Dir | Kind::Link => path.to_string(),
            }
        });
        lines.collect()
    }

    fn journal() -> (tempfile::TempDir, crate::Journal) {
        let folder = tempfile::tempdir().unwrap();
        let opened = Folder::open(folder.path()).unwrap();
        let journal = crate::Journal::of(opened, std::path::Path::new("to"));
        (folder, journal)
    }

    #[test]
    fn new_content_comes_old_goes_and_what_was_not_named_stays() {
        let home = folder(&[
            ("keep", "1", 0o640),
            ("change", "old", 0o640),
            ("run", "r", 0o644),
            ("gone/a/b", "x", 0o644),
            ("half/gone", "x", 0o644),
            ("half/other", "x", 0o644),
            ("file", "x", 0o644),
        ]);
        let staged = folder(&[
            ("change", "new", 0o644),
            ("run", "r", 0o755),
            ("new/deep/file", "n", 0o644),
            ("file/inside", "f", 0o644),
        ]);
        let limits = Limits::default();
        let open = |path: &tempfile::TempDir| Folder::open(path.path()).unwrap();
        let (to, from) = (open(&home), open(&staged));
        let (before, _) = Manifest::of(&to, &everything, &limits).unwrap();
        let (after, _) = Manifest::of(&from, &everything, &limits).unwrap();
        let removed = [&b"gone/a/b"[..], b"half/gone", b"file", b"never/there"];
        let delta = Delta::overlay(&to, &before, &after, removed);
        let (_folder, journal) = journal();
        apply(&to, &journal, &delta, &from, &everything, &limits).unwrap();
        let expected = [
            "change 640",
            "file",
            "file/inside 644",
            "half",
            "half/other 644",
            "keep 640",
            "new",
            "new/deep",
            "new/deep/file 644",
            "run 755",
        ];
        assert_eq!(shown(home.path()), expected);
        assert_eq!(std::fs::read(home.path().join("change")).unwrap(), b"new");
    }

    #[test]
    fn a_folder_with_something_that_was_not_lent_stays() {
        let home = folder(&[("d/lent", "1", 0o644), ("d/own", "2", 0o644)]);
        let staged = tempfile::tempdir().unwrap();
        let limits = Limits::default();
        let (to, from) = (
            Folder::open(home.path()).unwrap(),
            Folder::open(staged.path()).unwrap(),
        );
        let keep = |path: &EntryPath, _| path.as_bytes() == b"d/own";
        let (before, _) = Manifest::of(&to, &keep, &limits).unwrap();
        let delta = Delta::overlay(&to, &before, &Manifest::default(), [&b"d/lent"[..]]);
        let (_folder, journal) = journal();
        apply(&to, &journal, &delta, &from, &keep, &limits).unwrap();
        assert_eq!(shown(home.path()), ["d", "d/own 644"]);
    }
}
