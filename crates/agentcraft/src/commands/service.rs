//! `agentcraft service …`: the node as a service of the user, with completions and manual pages.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use platform::{
    files::{self, Durability, Mode, write_atomic},
    system::{self, find_program},
};
use serde_json::json;

use super::describe;
use crate::{
    args::{Format, ServiceCommand, Shell},
    config::Config,
    connection::Connection,
    error::CommandError,
    render::Screen,
};

const UNIT: &str = "agentcraft.service";

/// The file of the home in which a service finds the keys that its agents need.
const KEYS: &str = "service.env";

/// What the shell of whoever installs the service says that the node could not know otherwise.
const CARRIED: [&str; 3] = ["PATH", "AGENTCRAFT_LISTEN", "AGENTCRAFT_LOG"];

/// A word to systemd, and what a person says who comes after us, where we cannot say it.
struct Word {
    ours: &'static [&'static str],
    theirs: &'static str,
}

const RELOAD: Word = Word {
    ours: &["--user", "daemon-reload"],
    theirs: "systemctl --user daemon-reload",
};
const ENABLE: Word = Word {
    ours: &["--user", "enable", "--now", UNIT],
    theirs: "systemctl --user enable --now agentcraft.service",
};
/// Where a node runs already the service could not: it would find the home taken, and end.
const ENABLE_LATER: Word = Word {
    ours: &["--user", "enable", UNIT],
    theirs: "systemctl --user enable agentcraft.service",
};
/// By then the unit is gone, and only what runs knows its name.
const DISABLE: Word = Word {
    ours: &["--user", "disable", "--now", UNIT],
    theirs: "systemctl --user stop agentcraft.service",
};

/// What starts the service at every login.
const WANTED: &str = "default.target.wants/agentcraft.service";

/// Where the user's programs look for such files.
struct Folders {
    units: PathBuf,
    data: PathBuf,
    config: PathBuf,
}

impl Folders {
    fn of(config: &Config) -> Result<Self, CommandError> {
        let home = system::home_dir(&config.environment).ok_or_else(|| CommandError::Refused {
            message: "your home folder is not known".to_owned(),
            hint: "set HOME".to_owned(),
        })?;
        let folder = |variable: &str, default: &str| {
            let set = config.environment.get(OsStr::new(variable));
            let set = set.map(PathBuf::from).filter(|path| path.is_absolute());
            set.unwrap_or_else(|| home.join(default))
        };
        let config = folder("XDG_CONFIG_HOME", ".config");
        Ok(Self {
            units: config.join("systemd/user"),
            data: folder("XDG_DATA_HOME", ".local/share"),
            config,
        })
    }

    fn completions(&self) -> [(Shell, PathBuf); 3] {
        [
            (
                Shell::Bash,
                self.data.join("bash-completion/completions/agentcraft"),
            ),
            (Shell::Zsh, self.data.join("zsh/site-functions/_agentcraft")),
            (
                Shell::Fish,
                self.config.join("fish/completions/agentcraft.fish"),
            ),
        ]
    }

    fn manual(&self) -> PathBuf {
        self.data.join("man/man1")
    }

    /// What programs do not find by themselves, and the line that shows it to them.
    fn unseen(&self, config: &Config) -> Vec<String> {
        let path = config.environment.get(OsStr::new("PATH"));
        let mut folders = path.into_iter().flat_map(std::env::split_paths);
        // man looks beside the folders of programs.
        let beside = self.data.parent().map(|folder| folder.join("bin"));
        let mut words = Vec::new();
        if !folders.any(|folder| Some(folder) == beside) {
            let manual = self.data.join("man");
            words.push(format!(
                "man finds the pages with this line in your shell's profile: export MANPATH=\"{}:$MANPATH\"",
                manual.display()
            ));
        }
        let functions = self.data.join("zsh/site-functions");
        words.push(format!(
            "zsh finds the completions with this line in ~/.zshrc, before compinit: fpath=({} $fpath)",
            functions.display()
        ));
        words
    }
}

pub(super) fn run(
    command: ServiceCommand,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    match command {
        ServiceCommand::Show(output) => match (output.format, unit(config)?) {
            (Format::Json, unit) => Ok(screen.json(&json!({ "unit": unit }))?),
            (Format::Table | Format::Quiet, unit) => Ok(screen.print(&unit)?),
        },
        ServiceCommand::Install(output) => install(config, output.format, screen),
        ServiceCommand::Uninstall(output) => uninstall(config, output.format, screen),
    }
}

fn install(config: &Config, format: Format, screen: &mut Screen) -> Result<(), CommandError> {
    let folders = Folders::of(config)?;
    let unit_file = (folders.units.join(UNIT), unit(config)?.into_bytes());
    let completions = folders.completions();
    let scripts = completions.map(|(shell, path)| (path, describe::script(shell)));
    let mut wrote = Vec::new();
    for (path, bytes) in std::iter::once(unit_file).chain(scripts) {
        write(&path, &bytes)?;
        wrote.push(path.display().to_string());
    }
    let manual = folders.manual();
    make_folder(&manual)?;
    let count = describe::write_manual(&manual)?;
    let keys = config.home.join(KEYS);
    match format {
        Format::Json => screen.json(&json!({
            "wrote": wrote, "pages": count, "manual": manual, "keys": keys,
        }))?,
        Format::Quiet => wrote.iter().try_for_each(|path| screen.line(path))?,
        Format::Table => {
            for path in &wrote {
                screen.line(&format!("wrote {path}"))?;
            }
            screen.line(&format!("wrote {count} pages to {}", manual.display()))?;
            screen.note(&format!(
                "keys that agents need belong into {}",
                keys.display()
            ))?;
            for words in folders.unseen(config) {
                screen.note(&words)?;
            }
        }
    }
    if Connection::open_if_running(config)?.is_none() {
        return manage(&[RELOAD, ENABLE], config, screen);
    }
    manage(&[RELOAD, ENABLE_LATER], config, screen)?;
    screen.note(&format!(
        "a node runs already; end it (`agentcraft daemon stop`, or Ctrl-C where `agentcraft up` runs), then run: systemctl --user start {UNIT}"
    ))?;
    Ok(())
}

fn uninstall(config: &Config, format: Format, screen: &mut Screen) -> Result<(), CommandError> {
    let folders = Folders::of(config)?;
    manage(&[DISABLE, RELOAD], config, screen)?;
    let pages = files::list(&folders.manual()).unwrap_or_default();
    let pages = pages.into_iter().filter(|path| is_our_page(path));
    let completions = folders.completions().map(|(_, path)| path);
    let unit = folders.units.join(UNIT);
    // systemd takes this link away with `disable`, where it was told.
    files::remove_file_if_there(&folders.units.join(WANTED))
        .map_err(|error| CommandError::machine("remove what was installed", error))?;
    let ours = std::iter::once(unit).chain(completions).chain(pages);
    let ours: Vec<PathBuf> = ours.filter(|path| files::is_there(path)).collect();
    for path in &ours {
        files::remove_file_if_there(path)
            .map_err(|error| CommandError::machine("remove what was installed", error))?;
    }
    let words = format!("removed {} files", ours.len());
    let answer = json!({ "removed": ours });
    super::done(&answer, &ours.len().to_string(), &words, format, screen)
}

fn is_our_page(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name == "agentcraft.1" || (name.starts_with("agentcraft-") && name.ends_with(".1"))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), CommandError> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    write_atomic(path, bytes, Mode::SHARED, Durability::default())
        .map_err(|error| CommandError::machine("write what is installed", error))
}

fn make_folder(folder: &Path) -> Result<(), CommandError> {
    files::create_dir_all(folder)
        .map_err(|error| CommandError::machine("make the folder of what is installed", error))
}

/// Tells systemd, or says how to where it does not serve this user.
fn manage(words: &[Word], config: &Config, screen: &mut Screen) -> Result<(), CommandError> {
    let path = config.environment.get(OsStr::new("PATH"));
    let program = path.and_then(|path| find_program("systemctl", path));
    let is_served = config
        .environment
        .contains_key(OsStr::new("XDG_RUNTIME_DIR"));
    for Word { ours, theirs } in words {
        let ran = match &program {
            Some(program) if is_served => system::run_to_end(program, ours),
            Some(_) => Err(std::io::Error::other("it does not serve this user")),
            None => Err(std::io::Error::other("there is no systemctl")),
        };
        if let Err(error) = ran {
            screen.note(&format!("systemd was not told ({error}); run: {theirs}"))?;
        }
    }
    Ok(())
}

/// The unit: the daemon in the foreground, which ends its agents itself when it is told to.
fn unit(config: &Config) -> Result<String, CommandError> {
    let program = std::env::current_exe()
        .map_err(|error| CommandError::machine("find our own program", error))?;
    let mut words = vec![program.to_string_lossy().into_owned()];
    words.extend(config.flags());
    words.extend(["daemon", "start", "--foreground"].map(str::to_owned));
    let words = words.iter().map(|word| match is_plain(word) {
        true => word.clone(),
        false => quoted(word).replace('$', "$$"),
    });
    let words: Vec<String> = words.collect();
    let carried = CARRIED.into_iter().filter_map(|name| {
        let value = config.environment.get(OsStr::new(name))?.to_str()?;
        // A unit has no way to write a line break, and none of these has a use for one.
        let is_writable = !value.is_empty() && !value.contains(char::is_control);
        is_writable.then(|| format!("Environment={}\n", quoted(&format!("{name}={value}"))))
    });
    let carried: String = carried.collect();
    let keys = config.home.join(KEYS).to_string_lossy().replace('%', "%%");
    // The agents of the node get their own grace first.
    let stop = config.stop_grace.as_secs() + 30;
    Ok(format!(
        "# Written by `agentcraft service install`; `agentcraft service uninstall` removes it.\n\
         #\n\
         # A service does not see what your shell sets. PATH is that of the shell it was installed from, so that agents and\n\
         # their tools are found as they were there; install again when it has changed.\n\
         # Keys that agents need (such as ANTHROPIC_API_KEY) go into the file below, one NAME=value on each line, which only\n\
         # you should be able to read (chmod 600). Without the file nothing is missing.\n\
         [Unit]\nDescription=AgentCraft node\n\n\
         [Service]\n{carried}EnvironmentFile=-{keys}\nExecStart={}\n\
         Restart=on-failure\nRestartSec=2\nKillMode=mixed\nTimeoutStopSec={stop}\n\n\
         [Install]\nWantedBy=default.target\n",
        words.join(" ")
    ))
}

/// Whether systemd reads a word as it stands.
fn is_plain(word: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:".contains(&byte);
    !word.is_empty() && word.bytes().all(is_plain)
}

/// Text as one word of a unit: quoted, with what systemd would replace written twice.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", text.replace('%', "%%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_a_unit_mean_what_they_say() {
        assert_eq!(quoted("/a b/c"), "\"/a b/c\"");
        assert_eq!(quoted("/100%/$x"), "\"/100%%/$x\"");
        assert_eq!(quoted("/a\"b"), "\"/a\\\"b\"");
        assert!(is_plain("/usr/bin/agentcraft") && !is_plain("/100%") && !is_plain("/my node"));
    }

    #[test]
    fn only_our_own_pages_are_removed() {
        assert!(is_our_page(Path::new("/m/agentcraft.1")));
        assert!(is_our_page(Path::new("/m/agentcraft-agent-run.1")));
        assert!(!is_our_page(Path::new("/m/agent.1")));
        assert!(!is_our_page(Path::new("/m/agentcraft-notes.txt")));
    }
}
