//! How sshfs is called: everything is said, so that no file of the user's changes what happens.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use super::{Connection, HostTrust, MountPlan, Secrets};
use crate::Access;

/// A silent host is asked every so many seconds and given up after three questions without an answer.
const ALIVE_INTERVAL_SECS: u32 = 5;
const ALIVE_COUNT: u32 = 3;

const CONNECT_SECS: u32 = 15;

pub(super) fn of(plan: &MountPlan, secrets: &Secrets, knows_containment: bool) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec!["-f".into(), "-F".into(), "/dev/null".into()];
    args.push("-p".into());
    args.push(plan.port.to_string().into());
    for option in options(plan, secrets, knows_containment) {
        args.push("-o".into());
        args.push(option);
    }
    // An address of version 6 would otherwise end at its first colon.
    let host = match plan.host.contains(':') {
        true => format!("[{}]", plan.host),
        false => plan.host.clone(),
    };
    args.push(format!("{}@{host}:{}", plan.user, plan.path).into());
    args.push(plan.mount_point.clone().into());
    args
}

fn options(plan: &MountPlan, secrets: &Secrets, knows_containment: bool) -> Vec<OsString> {
    let strict = match plan.trust {
        HostTrust::Pinned(_) => "yes",
        HostTrust::FirstUse => "accept-new",
    };
    let mut options: Vec<OsString> = [
        "IdentitiesOnly=yes",
        "IdentityAgent=none",
        "BatchMode=yes",
        "PreferredAuthentications=publickey",
        "GlobalKnownHostsFile=/dev/null",
        "UpdateHostKeys=no",
        "LogLevel=ERROR",
        // The fastest of the authenticated ones where the processor helps, which is nearly everywhere.
        "Ciphers=^aes128-gcm@openssh.com",
        // Files of the export's owner are ours on the mount; git asks for that.
        "idmap=user",
        "nosuid",
        "nodev",
        // A mount that has lost its host stays and fails, instead of baring the folder beneath.
        "reconnect",
    ]
    .map(OsString::from)
    .into();
    options.push(format!("StrictHostKeyChecking={strict}").into());
    options.push(format!("ServerAliveInterval={ALIVE_INTERVAL_SECS}").into());
    options.push(format!("ServerAliveCountMax={ALIVE_COUNT}").into());
    options.push(format!("ConnectTimeout={CONNECT_SECS}").into());
    options.push(with_path("IdentityFile", &secrets.key));
    options.push(with_path("UserKnownHostsFile", &secrets.known_hosts));
    if let Some(certificate) = &secrets.certificate {
        options.push(with_path("CertificateFile", certificate));
    }
    match plan.cache.as_secs() {
        0 => options.push("dir_cache=no".into()),
        seconds => options.push(format!("dcache_timeout={seconds}").into()),
    }
    if plan.access == Access::ReadOnly {
        options.push("ro".into());
    }
    if knows_containment {
        // Whoever the host is, its links lead nowhere on this machine.
        options.push("contain_symlinks".into());
    }
    if plan.connection == Connection::Once {
        // A key that is gone is not asked for twice.
        options.push("ConnectionAttempts=1".into());
    }
    options
}

/// ssh reads the value between quotes and expands `%`; before it, sshfs splits options at commas.
fn with_path(name: &str, path: &Path) -> OsString {
    let mut value = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'%' => value.extend_from_slice(b"%%"),
            b',' | b'\\' => value.extend_from_slice(&[b'\\', *byte]),
            byte => value.push(*byte),
        }
    }
    let mut option = OsString::from(name);
    option.push("=\"");
    option.push(OsStr::from_bytes(&value));
    option.push("\"");
    option
}
