//! The socket and the daemon behind it.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};

use super::{fail, note, ok, warn};
use crate::{
    config::Config,
    connection::{Connection, VERSION},
    error::CommandError,
    network::Address,
    render::Finding,
};

pub(super) fn check(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(socket(config));
    findings.push(daemon(config));
    findings
}

fn socket(config: &Config) -> Option<Finding> {
    let shown = config.socket.display();
    let metadata = config.socket.symlink_metadata().ok()?;
    Some(if !metadata.file_type().is_socket() {
        fail(
            "socket",
            format!("{shown} is not a socket"),
            "move it away, or set AGENTCRAFT_SOCKET",
        )
    } else if metadata.permissions().mode() & 0o077 != 0 {
        warn(
            "socket",
            format!("{shown} is open to other users"),
            format!("chmod 600 {shown}"),
        )
    } else {
        ok("socket", shown.to_string())
    })
}

fn daemon(config: &Config) -> Finding {
    let ping = Connection::open(config).and_then(|mut connection| connection.ping());
    match ping {
        Ok(ping) if ping.version != VERSION => warn(
            "daemon",
            format!("runs version {}, this command is {VERSION}", ping.version),
            "agentcraft daemon restart",
        ),
        Ok(ping) => match Address::why_none(config) {
            Some(why) => warn("daemon", why, "agentcraft daemon restart"),
            None => ok(
                "daemon",
                format!("runs version {} as process {}", ping.version, ping.pid),
            ),
        },
        Err(CommandError::NotRunning { .. }) => {
            note("daemon", "is not running", "agentcraft daemon start")
        }
        Err(error) => {
            let remedy = error
                .hint()
                .unwrap_or_else(|| "agentcraft daemon restart --force".to_owned());
            fail("daemon", error.to_string(), remedy)
        }
    }
}
