//! Finding and killing processes, to show that none is left.

use std::fs;

/// Every process that lives (zombies do not) with `mark` in its environment.
pub fn marked_processes(mark: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let Ok(environ) = fs::read(entry.path().join("environ")) else {
            continue;
        };
        let holds = environ
            .windows(mark.len())
            .any(|window| window == mark.as_bytes());
        if holds && !zombie_or_gone(pid) {
            found.push(pid);
        }
    }
    found
}

/// Whether the process runs no more.
pub fn zombie_or_gone(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return true;
    };
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.trim_start().chars().next());
    matches!(state, None | Some('Z' | 'X'))
}

/// Sends a signal, by the name `kill` knows it.
pub fn kill(pid: u32, signal: &str) {
    let status = std::process::Command::new("kill")
        .args(["-s", signal, &pid.to_string()])
        .status()
        .unwrap();
    assert!(status.success(), "kill -s {signal} {pid}");
}
