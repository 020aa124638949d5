//! A network of namespaces: each node has one, joined by a switch in another. Everything goes with the test, also when it panics.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

use testkit::{Builder, Output, TestDaemon};

/// What every namespace of a test's begins with; the number of the process follows.
const PREFIX: &str = "agentcraft-it-";

static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// A network of its own.
pub(crate) struct Lan {
    name: String,
    machines: usize,
    multicast: &'static str,
}

/// A daemon on a machine of the network.
pub(crate) struct Node {
    pub(crate) daemon: TestDaemon,
    pub(crate) machine: usize,
}

impl Lan {
    /// Nothing, with the reason printed, where namespaces cannot be made.
    pub(crate) fn new() -> Option<Self> {
        sweep();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        if !try_ip(&["netns", "add", &name]) {
            println!("skipped: network namespaces need root and ip of iproute2");
            return None;
        }
        let lan = Self {
            name,
            machines: 0,
            multicast: "on",
        };
        let switch = ["-n", &lan.name, "link", "add", "switch", "type", "bridge"];
        if !try_ip(&[&switch[..], &["mcast_snooping", "0"]].concat()) {
            println!("skipped: this kernel has no bridges");
            return None;
        }
        ip(&["-n", &lan.name, "link", "set", "switch", "up"]);
        Some(lan)
    }

    /// From now on the switch lets no multicast through to new machines.
    pub(crate) fn filter_multicast(&mut self) {
        self.multicast = "off";
    }

    /// Another machine on the network, at `10.77.0.N`.
    pub(crate) fn machine(&mut self) -> usize {
        self.machines += 1;
        let (number, space) = (self.machines, self.space(self.machines));
        ip(&["netns", "add", &space]);
        // An address that is still being checked cannot be used, which would be a wait and nothing else.
        let no_check = "echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad";
        let _ = self.on(number, &["sh", "-c", no_check]).status(); // A kernel without IPv6 has none.
        let port = format!("port{number}");
        ip(&[
            "link", "add", "eth0", "netns", &space, "type", "veth", "peer", "name", &port, "netns",
            &self.name,
        ]);
        ip(&[
            "-n", &self.name, "link", "set", &port, "master", "switch", "up",
        ]);
        let slave = [
            "-n",
            &self.name,
            "link",
            "set",
            &port,
            "type",
            "bridge_slave",
        ];
        ip(&[&slave[..], &["mcast_flood", self.multicast]].concat());
        let address = format!("{}/24", self.address(number));
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
        ]);
        ip(&["-n", &space, "link", "set", "lo", "up"]);
        ip(&["-n", &space, "link", "set", "eth0", "up"]);
        number
    }

    pub(crate) fn address(&self, machine: usize) -> String {
        format!("10.77.0.{machine}")
    }

    pub(crate) fn url(&self, machine: usize) -> String {
        format!("http://{}:7420", self.address(machine))
    }

    /// A node on a machine of its own that listens to the network; `settings` belong to the table of the port.
    pub(crate) fn node(&mut self, name: &str, settings: &str) -> Node {
        self.node_with(name, settings, "")
    }

    pub(crate) fn node_with(&mut self, name: &str, settings: &str, more: &str) -> Node {
        let machine = self.machine();
        let config =
            format!("[http]\nlisten = \"0.0.0.0:7420\"\nname = \"{name}\"\n{settings}\n{more}");
        let daemon = Builder::new(self.program(machine))
            .env("AGENTCRAFT_LISTEN", "0.0.0.0:7420")
            .file("config.toml", config)
            .start();
        Node { daemon, machine }
    }

    /// A program that runs ours on a machine.
    fn program(&self, machine: usize) -> PathBuf {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let path = folder.join(self.space(machine));
        let ours = env!("CARGO_BIN_EXE_agentcraft");
        let script = format!(
            "#!/bin/sh\nexec ip netns exec {} {ours} \"$@\"\n",
            self.space(machine)
        );
        // By a process of its own: a file that this one has open for writing, another test's child may have too.
        let write = "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"";
        let mut shell = Command::new("sh");
        let status = shell.args(["-c", write, "sh", &script]).arg(&path).status();
        assert!(status.unwrap().success());
        path
    }

    /// A command on a machine.
    pub(crate) fn on(&self, machine: usize, command: &[&str]) -> Command {
        let mut ip = Command::new("ip");
        ip.args(["netns", "exec", &self.space(machine)])
            .args(command);
        ip
    }

    pub(crate) fn plug(&self, machine: usize, state: &str) {
        ip(&["-n", &self.space(machine), "link", "set", "eth0", state]);
    }

    fn space(&self, machine: usize) -> String {
        format!("{}-{machine}", self.name)
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        for machine in 1..=self.machines {
            remove(&self.space(machine));
        }
        remove(&self.name);
    }
}

impl Node {
    pub(crate) fn cli(&self, arguments: &[&str]) -> Output {
        self.daemon.cli(arguments)
    }
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

fn try_ip(arguments: &[&str]) -> bool {
    let mut command = Command::new("ip");
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn remove(space: &str) {
    let _ = try_ip(&["netns", "del", space]); // It may never have been made.
    let _ = std::fs::remove_file(Path::new(env!("CARGO_TARGET_TMPDIR")).join(space)); // As above.
}

/// Removes what tests left that were killed.
fn sweep() {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten();
    for name in entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
        let process = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            remove(&name);
        }
    }
}
