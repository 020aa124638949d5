//! The home folder: whether it is ours alone, has room, and is free of leftovers.

use std::{
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use platform::{ConfinedDir, system::effective_uid};

use super::{fail, note, ok, warn};
use crate::{config::Config, render::Finding};

/// Below this a store that grows with every turn is about to fail.
const FREE_BYTES_FAIL: u64 = 50 * 1024 * 1024;
const FREE_BYTES_WARN: u64 = 1024 * 1024 * 1024;

/// How files are called that were being written when their writer died.
const LEFTOVER_PREFIX: &str = ".agentcraft-tmp-";

pub(super) fn check(config: &Config) -> Vec<Finding> {
    let mut findings = vec![home(&config.home)];
    findings.extend(private_parts(config));
    findings.extend(space(&config.home));
    findings.extend(leftovers(config));
    findings.extend(stores(config));
    findings
}

/// The stores, whether a daemon uses them or not.
fn stores(config: &Config) -> Vec<Finding> {
    config.stores().iter().map(|file| store(file)).collect()
}

fn store(file: &Path) -> Finding {
    let shown = file.display();
    let away = |ending: &str| {
        format!(
            "stop the daemon and move it away (`mv {shown} {shown}.{ending}`); a new one begins empty"
        )
    };
    if let Some(said) = store::damage(file) {
        return fail(
            "store",
            format!("{shown} is damaged: {said}"),
            away("damaged"),
        );
    }
    match store::inspect(file) {
        Ok(Some(schema)) if schema.found > schema.known => fail(
            "store",
            format!(
                "{shown} was written by a newer version (schema {}, this one knows {})",
                schema.found, schema.known
            ),
            "install that version again, or set AGENTCRAFT_HOME to another folder",
        ),
        Ok(Some(schema)) if !schema.is_usable() => fail(
            "store",
            format!(
                "{shown} is no store of this program (schema {})",
                schema.found
            ),
            away("other"),
        ),
        Ok(_) => ok("store", shown.to_string()),
        Err(error) => fail(
            "store",
            error.to_string(),
            "see who owns it, and with which mode",
        ),
    }
}

fn home(home: &Path) -> Finding {
    let shown = home.display();
    match home.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            note("home", format!("{shown} is not there yet"), "agentcraft up")
        }
        Err(error) => fail(
            "home",
            format!("{shown} cannot be looked at: {error}"),
            "check the folders above it",
        ),
        Ok(metadata) if !metadata.is_dir() => fail(
            "home",
            format!("{shown} is not a folder"),
            "move it away, or set AGENTCRAFT_HOME",
        ),
        Ok(metadata) if metadata.uid() != effective_uid() => fail(
            "home",
            format!("{shown} belongs to another user, {}", metadata.uid()),
            "set AGENTCRAFT_HOME to a folder of your own",
        ),
        Ok(metadata) if metadata.permissions().mode() & 0o077 != 0 => {
            let mode = metadata.permissions().mode() & 0o777;
            warn(
                "home",
                format!("{shown} is open to other users (mode {mode:o})"),
                format!("chmod 700 {shown}"),
            )
        }
        Ok(_) => ok("home", shown.to_string()),
    }
}

/// What lies below a private home is private too, unless somebody opened the home and these with it.
fn private_parts(config: &Config) -> Vec<Finding> {
    let parts = [
        &config.state_dir,
        &config.log_file,
        &config.home.join("config.toml"),
    ];
    let is_open = |path: &&&std::path::PathBuf| {
        path.metadata()
            .is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
    };
    let open = parts.iter().filter(is_open);
    open.map(|path| {
        let shown = path.display();
        warn(
            "privacy",
            format!("{shown} is open to other users"),
            format!("chmod go= {shown}"),
        )
    })
    .collect()
}

/// The nearest folder that exists tells the room for a home that does not yet.
fn space(home: &Path) -> Option<Finding> {
    let folder = home.ancestors().find(|folder| folder.exists())?;
    let system = rustix::fs::statvfs(folder).ok()?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    let message = format!("{} MiB free at {}", free / (1024 * 1024), folder.display());
    Some(match free {
        ..FREE_BYTES_FAIL => fail(
            "disk",
            message,
            "make room; nothing can be recorded without it",
        ),
        FREE_BYTES_FAIL..FREE_BYTES_WARN => warn("disk", message, "make room soon"),
        FREE_BYTES_WARN.. => ok("disk", message),
    })
}

fn leftovers(config: &Config) -> Option<Finding> {
    let folders = [
        &config.home,
        &config.state_dir,
        &config.instances_dir,
        &config.configs_dir,
    ];
    let count: usize = folders.into_iter().map(|folder| leftovers_in(folder)).sum();
    (count > 0).then(|| {
        note(
            "leftovers",
            format!("{count} unfinished files of an interrupted write"),
            "the daemon removes them when it starts: agentcraft daemon restart",
        )
    })
}

fn leftovers_in(folder: &Path) -> usize {
    let entries = ConfinedDir::open(folder).and_then(|folder| folder.list("."));
    let is_leftover = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(LEFTOVER_PREFIX);
    entries.map_or(0, |entries| {
        entries
            .iter()
            .filter(|entry| is_leftover(&entry.name))
            .count()
    })
}
