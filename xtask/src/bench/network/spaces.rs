//! Machines on a network of their own, as network namespaces; gone with the benchmark.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

#[derive(Debug)]
pub(super) struct Spaces {
    name: String,
    machines: usize,
}

impl Spaces {
    /// Nothing where they cannot be made.
    pub(super) fn new() -> anyhow::Result<Option<Self>> {
        let name = format!("agentcraft-bench-{}", std::process::id());
        if ip(&["netns", "add", &name]).is_err() {
            return Ok(None);
        }
        let spaces = Self { name, machines: 0 };
        let switch = [
            "-n",
            &spaces.name,
            "link",
            "add",
            "switch",
            "type",
            "bridge",
        ];
        ip(&[&switch[..], &["mcast_snooping", "0"]].concat())?;
        ip(&["-n", &spaces.name, "link", "set", "switch", "up"])?;
        Ok(Some(spaces))
    }

    /// Another machine; the program runs `binary` on it, and lies in `folder`.
    pub(super) fn machine(&mut self, binary: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
        self.machines += 1;
        let (number, space) = (self.machines, self.space(self.machines));
        ip(&["netns", "add", &space])?;
        let port = format!("port{number}");
        ip(&[
            "link", "add", "eth0", "netns", &space, "type", "veth", "peer", "name", &port, "netns",
            &self.name,
        ])?;
        ip(&[
            "-n", &self.name, "link", "set", &port, "master", "switch", "up",
        ])?;
        let address = format!("10.78.0.{number}/24");
        ip(&[
            "-n",
            &space,
            "addr",
            "add",
            &address,
            "broadcast",
            "+",
            "dev",
            "eth0",
        ])?;
        ip(&["-n", &space, "link", "set", "lo", "up"])?;
        ip(&["-n", &space, "link", "set", "eth0", "up"])?;
        let program = folder.join("on-machine");
        let binary = binary.display();
        let script = format!(
            "#!/bin/sh\nPATH=/usr/sbin:/sbin:/usr/bin:/bin\nexec ip netns exec {space} {binary} \"$@\"\n"
        );
        fs::write(&program, script).context("could not write the program of a machine")?;
        fs::set_permissions(&program, PermissionsExt::from_mode(0o755))
            .context("could not write the program of a machine")?;
        Ok(program)
    }

    fn space(&self, machine: usize) -> String {
        format!("{}-{machine}", self.name)
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        let machines = (1..=self.machines).map(|machine| self.space(machine));
        for space in machines.chain([self.name.clone()]) {
            let _ = ip(&["netns", "del", &space]); // Nothing else is left of it.
        }
    }
}

fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("ip");
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let status = command.status().context("there is no ip")?;
    ensure!(status.success(), "ip {} did not work", arguments.join(" "));
    Ok(())
}
