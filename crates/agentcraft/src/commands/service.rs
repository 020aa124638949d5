//! `agentcraft service …`: the node as a service of the user, with completions and manual pages.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use platform::{
    files::{self, Durability, Mode, write_atomic},
    system::{self, find_program},
};

use super::describe;
use crate::{
    args::{ServiceCommand, Shell},
    config::Config,
    error::CommandError,
    render::Screen,
};

const UNIT: &str = "agentcraft.service";

/// What makes systemd notice a new unit and start it, now and at every login.
const ENABLE: [&[&str]; 2] = [
    &["--user", "daemon-reload"],
    &["--user", "enable", "--now", UNIT],
];
const DISABLE: [&[&str]; 2] = [
    &["--user", "disable", "--now", UNIT],
    &["--user", "daemon-reload"],
];

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
}

pub(super) fn run(
    command: ServiceCommand,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    match command {
        ServiceCommand::Show => Ok(screen.print(&unit(config)?)?),
        ServiceCommand::Install => install(config, screen),
        ServiceCommand::Uninstall => uninstall(config, screen),
    }
}

fn install(config: &Config, screen: &mut Screen) -> Result<(), CommandError> {
    let folders = Folders::of(config)?;
    write(&folders.units.join(UNIT), unit(config)?.as_bytes(), screen)?;
    for (shell, path) in folders.completions() {
        write(&path, &describe::script(shell), screen)?;
    }
    let manual = folders.manual();
    make_folder(&manual)?;
    let count = describe::write_manual(&manual)?;
    screen.line(&format!("wrote {count} pages to {}", manual.display()))?;
    manage(&ENABLE, config, screen)
}

fn uninstall(config: &Config, screen: &mut Screen) -> Result<(), CommandError> {
    let folders = Folders::of(config)?;
    manage(&DISABLE, config, screen)?;
    let pages = files::list(&folders.manual()).unwrap_or_default();
    let pages = pages.into_iter().filter(|path| is_our_page(path));
    let completions = folders.completions().map(|(_, path)| path);
    let unit = folders.units.join(UNIT);
    let ours = std::iter::once(unit).chain(completions).chain(pages);
    let ours: Vec<PathBuf> = ours.filter(|path| files::is_there(path)).collect();
    for path in &ours {
        files::remove_file_if_there(path)
            .map_err(|error| CommandError::machine("remove what was installed", error))?;
    }
    Ok(screen.line(&format!("removed {} files", ours.len()))?)
}

fn is_our_page(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name == "agentcraft.1" || (name.starts_with("agentcraft-") && name.ends_with(".1"))
}

fn write(path: &Path, bytes: &[u8], screen: &mut Screen) -> Result<(), CommandError> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    write_atomic(path, bytes, Mode::SHARED, Durability::default())
        .map_err(|error| CommandError::machine("write what is installed", error))?;
    Ok(screen.line(&format!("wrote {}", path.display()))?)
}

fn make_folder(folder: &Path) -> Result<(), CommandError> {
    files::create_dir_all(folder)
        .map_err(|error| CommandError::machine("make the folder of what is installed", error))
}

/// Tells systemd, or says how to where it does not serve this user.
fn manage(commands: &[&[&str]], config: &Config, screen: &mut Screen) -> Result<(), CommandError> {
    let path = config.environment.get(OsStr::new("PATH"));
    let program = path.and_then(|path| find_program("systemctl", path));
    let is_served = config
        .environment
        .contains_key(OsStr::new("XDG_RUNTIME_DIR"));
    for arguments in commands {
        let ran = match &program {
            Some(program) if is_served => system::run_to_end(program, arguments).is_ok(),
            Some(_) | None => false,
        };
        if !ran {
            screen.note(&format!(
                "systemd was not told; run: systemctl {}",
                arguments.join(" ")
            ))?;
        }
    }
    Ok(())
}

/// The unit: the daemon in the foreground, which ends its agents itself when it is told to.
fn unit(config: &Config) -> Result<String, CommandError> {
    let program = std::env::current_exe()
        .map_err(|error| CommandError::machine("find our own program", error))?;
    let mut words = vec![quoted(&program)];
    if !config.has_default_home() {
        words.extend(["--home".to_owned(), quoted(&config.home)]);
    }
    words.extend(["daemon", "start", "--foreground"].map(str::to_owned));
    // The agents of the node get their own grace first.
    let stop = config.stop_grace.as_secs() + 30;
    Ok(format!(
        "[Unit]\nDescription=AgentCraft node\n\n\
         [Service]\nExecStart={}\nRestart=on-failure\nRestartSec=2\nKillMode=mixed\nTimeoutStopSec={stop}\n\n\
         [Install]\nWantedBy=default.target\n",
        words.join(" ")
    ))
}

/// A path as one word of a unit: quoted, with what systemd would expand written twice.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", text.replace('%', "%%").replace('$', "$$"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_a_unit_mean_what_they_say() {
        assert_eq!(quoted(Path::new("/a b/c")), "\"/a b/c\"");
        assert_eq!(quoted(Path::new("/100%/$x")), "\"/100%%/$$x\"");
        assert_eq!(quoted(Path::new("/a\"b")), "\"/a\\\"b\"");
    }

    #[test]
    fn only_our_own_pages_are_removed() {
        assert!(is_our_page(Path::new("/m/agentcraft.1")));
        assert!(is_our_page(Path::new("/m/agentcraft-agent-run.1")));
        assert!(!is_our_page(Path::new("/m/agent.1")));
        assert!(!is_our_page(Path::new("/m/agentcraft-notes.txt")));
    }
}
