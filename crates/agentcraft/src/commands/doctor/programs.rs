//! Programs of others: git, what mounts need, and the backends agents run on, each with its version.

use std::{ffi::OsString, path::Path, time::Duration};

use catalog::{BackendProfile, BackendType};
use platform::{Guardian, Owner, Spawn, Stream, Tasks, base_environment, system::find_program};
use tokio::{io::AsyncReadExt, task::JoinHandle};

use super::{note, ok, warn};
use crate::{config::Config, error::CommandError, render::Finding};

/// A program that takes longer to say its version is hanging.
const VERSION_MAX: Duration = Duration::from_secs(5);

/// Versions are one line; this leaves room for a banner.
const VERSION_BYTES_MAX: u64 = 4096;

/// A program that was asked for its version has nothing to save.
const END_GRACE: Duration = Duration::from_millis(200);

/// One program to look for.
#[derive(Debug)]
struct Sought {
    check: String,
    program: &'static str,
    version_args: &'static [&'static str],
    /// What to say if it is missing.
    missing: Finding,
}

pub(super) fn check(config: &Config) -> Result<Vec<Finding>, CommandError> {
    let failed =
        |error: anyhow::Error| CommandError::machine("run the programs that are looked for", error);
    // The only part of a command that runs many things at once, so it has the only runtime.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(error.into()))?;
    let mut findings = runtime.block_on(look(config)).map_err(failed)?;
    findings.push(fuse_device());
    findings.push(authorities());
    Ok(findings)
}

fn authorities() -> Finding {
    match pinning::has_authorities() {
        true => ok("certificates", "authorities are known"),
        false => warn(
            "certificates",
            "this machine knows no authorities; https to model servers and other machines is refused",
            "install ca-certificates",
        ),
    }
}

fn sought() -> Vec<Sought> {
    let mount = "lent workspaces cannot be mounted without it";
    let mut sought = vec![
        tool(
            "git",
            warn(
                "git",
                "is not installed; repositories cannot be cloned without it",
                "install git",
            ),
        ),
        tool(
            "fusermount3",
            note(
                "fusermount3",
                format!("is not installed; {mount}"),
                "install fuse3",
            ),
        ),
        tool(
            "sshfs",
            note(
                "sshfs",
                format!("is not installed; {mount}"),
                "install sshfs",
            ),
        ),
    ];
    sought.extend(
        BackendType::ALL
            .iter()
            .filter_map(|(_, backend)| backend_program(backend.profile())),
    );
    sought
}

fn tool(program: &'static str, missing: Finding) -> Sought {
    Sought {
        check: program.to_owned(),
        program,
        version_args: &["--version"],
        missing,
    }
}

fn backend_program(profile: &'static BackendProfile) -> Option<Sought> {
    let program = profile.program?;
    let check = format!("backend {}", profile.word);
    let remedy = profile
        .install
        .remedy()
        .unwrap_or_else(|| format!("install {program}"));
    let missing = note(&check, format!("{program} is not installed"), remedy);
    Some(Sought {
        check,
        program,
        version_args: profile.version_args,
        missing,
    })
}

/// Looks for all of them at once: each may take seconds to start.
async fn look(config: &Config) -> anyhow::Result<Vec<Finding>> {
    let owner = Owner::starting("doctor")?;
    let guardian = Guardian::spawn(&std::env::current_exe()?, &["guardian"], &owner)?;
    let tasks = Tasks::new();
    let mut looks = Vec::new();
    for sought in sought() {
        let Some(program) = find_program(sought.program, config.program_path()) else {
            looks.push(Look::Done(sought.missing));
            continue;
        };
        let mut spawn = Spawn::new(&program, "/", owner.tag(sought.program)?);
        spawn.args = sought.version_args.iter().map(OsString::from).collect();
        spawn.env = base_environment(config.environment.clone());
        spawn.stdout = Stream::Piped;
        let guardian = guardian.clone();
        looks.push(Look::Running(tasks.spawn(|_| async move {
            let version = version(spawn, &guardian).await;
            present(&sought, &program, version)
        })));
    }
    let mut findings = Vec::new();
    for look in looks {
        findings.push(match look {
            Look::Done(finding) => finding,
            Look::Running(task) => task.await?,
        });
    }
    guardian.close().await;
    Ok(findings)
}

/// A program that was looked for: missing, or being asked for its version.
#[derive(Debug)]
enum Look {
    Done(Finding),
    Running(JoinHandle<Finding>),
}

/// The first line the program prints about itself, or why it does not.
async fn version(spawn: Spawn, guardian: &Guardian) -> Result<String, String> {
    let (group, pipes) = spawn.spawn(guardian).map_err(|error| error.to_string())?;
    let read = async {
        let mut bytes = Vec::new();
        if let Some(stdout) = pipes.stdout {
            stdout
                .take(VERSION_BYTES_MAX)
                .read_to_end(&mut bytes)
                .await?;
        }
        Ok::<_, std::io::Error>(bytes)
    };
    let read = tokio::time::timeout(VERSION_MAX, read).await;
    let exit = group.end(END_GRACE).await;
    let Ok(bytes) = read else {
        return Err(format!(
            "did not say its version within {} s",
            VERSION_MAX.as_secs()
        ));
    };
    let bytes = bytes.map_err(|error| format!("does not say its version: {error}"))?;
    let text = String::from_utf8_lossy(&bytes);
    match text.lines().map(str::trim).find(|line| !line.is_empty()) {
        Some(line) => Ok(line.to_owned()),
        None if exit.success() => Ok("version unknown".to_owned()),
        None => Err("does not say its version".to_owned()),
    }
}

fn present(sought: &Sought, program: &Path, version: Result<String, String>) -> Finding {
    let shown = program.display();
    match version {
        Ok(version) => ok(&sought.check, format!("{version} ({shown})")),
        Err(words) => warn(
            &sought.check,
            format!("{shown} {words}"),
            format!("run {shown} by hand, or install it again"),
        ),
    }
}

fn fuse_device() -> Finding {
    let device = Path::new("/dev/fuse");
    if device.exists() {
        ok("/dev/fuse", "is there")
    } else {
        note(
            "/dev/fuse",
            "is missing; lent workspaces cannot be mounted",
            "load the fuse module, or allow the device in the container",
        )
    }
}
