//! The folders that AWF has: those of the user, for every project, and the places in which a prompt or a script may be.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use platform::{files, system};

use crate::found::Found;

/// Folders of a project that hold what its workflows use.
const LOCAL: [&str; 2] = [".agentcraft", ".awf"];

/// What is looked for in several places: one that a project has wins over one of its pack, that over one of the user's.
const KINDS: [&str; 2] = ["prompts", "scripts"];

/// The folders of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folders {
    config: PathBuf,
    data: PathBuf,
    /// Looked into for workflows before those of the project.
    workflows_first: Option<PathBuf>,
}

impl Folders {
    /// As the variables say; none for somebody without a home.
    pub fn of(environment: &BTreeMap<OsString, OsString>) -> Option<Self> {
        let named = |name: &str| {
            let value = environment.get(OsStr::new(name))?;
            Some(PathBuf::from(value)).filter(|path| path.is_absolute())
        };
        let home = system::home_dir(environment);
        let below = |variable: &str, usual: &str| {
            let base = named(variable).or_else(|| Some(home.as_ref()?.join(usual)));
            base.map(|base| base.join("awf"))
        };
        Some(Self {
            config: named("AWF_CONFIG_HOME").or_else(|| below("XDG_CONFIG_HOME", ".config"))?,
            data: below("XDG_DATA_HOME", ".local/share")?,
            workflows_first: environment
                .get(OsStr::new("AWF_WORKFLOWS_PATH"))
                .filter(|path| !path.is_empty())
                .map(PathBuf::from),
        })
    }

    pub(crate) fn workflows_first(&self) -> Option<&Path> {
        self.workflows_first.as_deref()
    }

    /// The user's workflows, for every project.
    pub(crate) fn workflows(&self) -> PathBuf {
        self.config.join("workflows")
    }

    /// Below it each pack has a folder.
    pub(crate) fn packs(&self) -> PathBuf {
        self.data.join("workflow-packs")
    }
}

/// Where what one workflow names is looked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct FilePlaces {
    cwd: PathBuf,
    /// The folder of the workflow's pack.
    pack: Option<PathBuf>,
    /// The folder of the workflow file.
    beside: PathBuf,
    user: Option<Folders>,
}

impl FilePlaces {
    pub(crate) fn of(
        found: &Found,
        cwd: &Path,
        environment: &BTreeMap<OsString, OsString>,
    ) -> Self {
        Self {
            cwd: cwd.to_owned(),
            pack: found.pack.clone(),
            beside: found.path.parent().map(PathBuf::from).unwrap_or_default(),
            user: Folders::of(environment),
        }
    }

    /// What `awf.*` in templates stands for.
    pub(crate) fn values(&self) -> BTreeMap<String, String> {
        let config = self.config();
        let data = match &self.user {
            Some(user) => user.data.clone(),
            None => config.join("data"),
        };
        ["prompts", "scripts", "skills", "workflows"]
            .map(|name| (format!("{name}_dir"), config.join(name)))
            .into_iter()
            .chain([
                ("plugins_dir".to_owned(), data.join("plugins")),
                ("config_dir".to_owned(), config.clone()),
                ("data_dir".to_owned(), data),
            ])
            .map(|(name, path)| (name, path.to_string_lossy().into_owned()))
            .collect()
    }

    /// Where a prompt or a script of this name may be, the nearest first.
    pub(crate) fn of_kind(&self, kind: &str, path: &Path) -> Vec<PathBuf> {
        if let Some(places) = self.below_users(path) {
            return places;
        }
        let mut places = self.of_project(kind, path);
        places.extend([self.beside.join(path), self.cwd.join(path)]);
        places.extend(
            self.user
                .iter()
                .map(|user| user.config.join(kind).join(path)),
        );
        places
    }

    /// Where a file may be that is named by the user's folder of prompts or of scripts, the nearest first; nothing for others.
    pub(crate) fn below_users(&self, path: &Path) -> Option<Vec<PathBuf>> {
        KINDS.into_iter().find_map(|kind| {
            let rest = path.strip_prefix(self.config().join(kind)).ok()?;
            let mut places = self.of_project(kind, rest);
            places.push(path.to_owned());
            Some(places)
        })
    }

    /// A command line in which such files are named by the places where they are.
    pub(crate) fn located(&self, line: &str) -> String {
        let mut located = line.to_owned();
        for kind in KINDS {
            let folder = self.config().join(kind);
            let folder = folder.to_string_lossy();
            let mut from = 0;
            while let Some(at) = located[from..].find(&*folder) {
                let begin = from + at;
                let rest = &located[begin..];
                let end = begin + rest.find(ends_a_word).unwrap_or(rest.len());
                let places = self.below_users(Path::new(&located[begin..end]));
                let place = places
                    .into_iter()
                    .flatten()
                    .find(|place| files::is_there(place));
                from = end;
                if let Some(place) = place {
                    let place = place.to_string_lossy();
                    located.replace_range(begin..end, &place);
                    from = begin + place.len();
                }
            }
        }
        located
    }

    /// In the project, and in the pack.
    fn of_project(&self, kind: &str, path: &Path) -> Vec<PathBuf> {
        let local = LOCAL.map(|home| self.cwd.join(home).join(kind));
        let pack = self.pack.as_ref();
        let name = pack.and_then(|pack| pack.file_name());
        let for_pack = local.iter().filter_map(|folder| Some(folder.join(name?)));
        let of_pack = pack.map(|pack| pack.join(kind));
        let folders = for_pack.chain(of_pack).chain(local.clone());
        folders.map(|folder| folder.join(path)).collect()
    }

    fn config(&self) -> PathBuf {
        match &self.user {
            Some(user) => user.config.clone(),
            None => self.cwd.join(".awf"),
        }
    }
}

/// Whether the shell would end a word here.
fn ends_a_word(letter: char) -> bool {
    letter.is_whitespace() || "\"'`;|&<>()".contains(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_folders_are_where_the_variables_say() {
        let check = |variables: &[(&str, &str)], config: &str, data: &str| {
            let environment = variables
                .iter()
                .map(|(name, value)| (OsString::from(name), OsString::from(value)))
                .collect();
            let folders = Folders::of(&environment).unwrap();
            assert_eq!((folders.config, folders.data), (config.into(), data.into()));
        };
        let home = ("HOME", "/h");
        check(&[home], "/h/.config/awf", "/h/.local/share/awf");
        let xdg = [("XDG_CONFIG_HOME", "/c"), ("XDG_DATA_HOME", "/d")];
        check(&[home, xdg[0], xdg[1]], "/c/awf", "/d/awf");
        let own = ("AWF_CONFIG_HOME", "/own");
        check(&[home, xdg[0], own], "/own", "/h/.local/share/awf");
    }

    #[test]
    fn the_project_wins_over_the_pack_and_that_over_the_user() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        let places = FilePlaces {
            cwd: at("p"),
            pack: Some(at("p/.awf/workflow-packs/pack")),
            beside: at("p/.awf/workflow-packs/pack/workflows"),
            user: Some(Folders {
                config: at("c"),
                data: at("d"),
                workflows_first: None,
            }),
        };
        let user = at("c/scripts").to_string_lossy().into_owned();
        let line = format!("sh {user}/x.sh '{user}/y.sh'; cd {user}");
        let write = |path: &str| {
            let path = at(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        };
        let located = || {
            let there = folder.path().to_string_lossy().into_owned();
            places.located(&line).replace(&*there, "")
        };
        write("c/scripts/x.sh");
        assert_eq!(
            located(),
            "sh /c/scripts/x.sh '/c/scripts/y.sh'; cd /c/scripts"
        );
        write("p/.awf/workflow-packs/pack/scripts/x.sh");
        let pack = "/p/.awf/workflow-packs/pack/scripts";
        assert_eq!(
            located(),
            format!("sh {pack}/x.sh '/c/scripts/y.sh'; cd {pack}/")
        );
        write("p/.awf/scripts/pack/x.sh");
        assert!(located().starts_with("sh /p/.awf/scripts/pack/x.sh '"));
        let first = &places.of_kind("scripts", Path::new("x.sh"))[1];
        assert_eq!(*first, at("p/.awf/scripts/pack/x.sh"));
    }
}
