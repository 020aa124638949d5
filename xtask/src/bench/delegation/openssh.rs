//! OpenSSH's server on loopback with the machine's sshfs, mounted with the options that lending uses.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

const SSHD: &str = "/usr/sbin/sshd";
const START_LIMIT: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct OpenSsh {
    child: Child,
    folder: tempfile::TempDir,
    port: u16,
}

impl OpenSsh {
    pub(super) fn can_mount() -> bool {
        let found = Command::new("sshfs").arg("--version").output();
        found.is_ok() && Path::new("/dev/fuse").exists()
    }

    /// The server, or why there is none.
    pub(super) fn start() -> anyhow::Result<Result<Self, &'static str>> {
        if !Self::can_mount() {
            return Ok(Err("sshfs is not there"));
        }
        if !Path::new(SSHD).exists() || !rustix::process::geteuid().is_root() {
            return Ok(Err("OpenSSH's server is not there, or we may not start it"));
        }
        let folder = tempfile::tempdir().context("could not make a folder")?;
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .context("could not find a port")?
            .port();
        let at = |name: &str| folder.path().join(name);
        for name in ["host", "client"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(at(name))
                .status();
            ensure!(
                made.context("could not start ssh-keygen")?.success(),
                "it made no key"
            );
        }
        fs::copy(at("client.pub"), at("authorized")).context("could not copy a key")?;
        fs::create_dir_all("/run/sshd").context("could not make the server's folder")?;
        let settings = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
             PermitRootLogin prohibit-password\nPasswordAuthentication no\nUsePAM no\nSubsystem sftp internal-sftp\n",
            at("host").display(),
            at("authorized").display()
        );
        fs::write(at("settings"), settings).context("could not write the settings")?;
        let child = Command::new(SSHD)
            .args(["-D", "-f"])
            .arg(at("settings"))
            .stderr(Stdio::null())
            .spawn()
            .context("could not start OpenSSH's server")?;
        let server = Self {
            child,
            folder,
            port,
        };
        let deadline = Instant::now() + START_LIMIT;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            ensure!(
                Instant::now() < deadline,
                "OpenSSH's server does not listen"
            );
            thread::sleep(LOOK_AGAIN);
        }
        Ok(Ok(server))
    }

    /// Runs a script of the folder on a mount of it; gives what it printed.
    pub(super) fn run(&self, folder: &Path, script: &str) -> anyhow::Result<String> {
        let mounted = self.mount(folder)?;
        let output = Command::new("sh")
            .arg(script)
            .current_dir(&mounted.0)
            .output();
        let output = output.context("could not start the script")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn mount(&self, folder: &Path) -> anyhow::Result<Mounted> {
        let point = self.folder.path().join("mount");
        fs::create_dir_all(&point).context("could not make the mount point")?;
        let options = format!(
            "IdentityFile={},IdentitiesOnly=yes,StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null,LogLevel=ERROR,\
             Ciphers=^aes128-gcm@openssh.com,idmap=user,reconnect,dcache_timeout=1",
            self.folder.path().join("client").display()
        );
        let done = Command::new("sshfs")
            .args(["-p", &self.port.to_string(), "-o", &options])
            .arg(format!("root@127.0.0.1:{}", folder.display()))
            .arg(&point)
            .status();
        ensure!(
            done.context("could not start sshfs")?.success(),
            "sshfs did not mount"
        );
        Ok(Mounted(point))
    }
}

impl Drop for OpenSsh {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It may have ended.
        let _ = self.child.wait();
    }
}

/// Unmounted when it is dropped.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("fusermount3").arg("-u").arg(&self.0).status(); // There is nobody to tell.
    }
}
