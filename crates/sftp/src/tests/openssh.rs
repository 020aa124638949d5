//! OpenSSH's own client against the server: SFTP works, and nothing else does.

use std::process::Command;

use super::support::{Host, run, try_shell};
use crate::{Access, Act, Credential};

async fn sftp(host: &Host, credential: &Credential, batch: &str) -> (bool, String) {
    let script = host.folders.path("batch");
    std::fs::write(&script, batch).unwrap();
    let mut command = Command::new("sftp");
    command
        .args(host.ssh_options(credential))
        .arg("-b")
        .arg(&script)
        .arg("127.0.0.1")
        .current_dir(host.folders.path("private"));
    let output = run(command).await;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (output.status.success(), text)
}

async fn ssh(host: &Host, credential: &Credential, args: &[&str]) -> (bool, String) {
    let mut command = Command::new("ssh");
    command
        .args(host.ssh_options(credential))
        .args(["-o", "ExitOnForwardFailure=yes"])
        .args(args);
    let output = run(command).await;
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_sftp_works_and_sees_no_real_path() {
    let host = Host::new().await;
    let grant = host.lend(Access::ReadWrite, None);
    host.folders.put("private/up", "uploaded");
    let batch = "pwd\nls\ncd workspace\npwd\nput up\nget file\nrename up up2\nln -s up2 link\nln up2 hard\n\
        mkdir d\nrmdir d\nchmod 600 up2\nls -l\nrm hard\ndf\nget /meta/task.json\ncd ..\npwd\n";
    let (worked, text) = sftp(&host, grant.credential(), batch).await;
    assert!(worked, "{text}");
    assert!(
        text.contains("Remote working directory: /workspace"),
        "{text}"
    );
    let real = host.folders.temp.path().display().to_string();
    assert!(!text.contains(&real), "{text}");
    let read = |path: &str| std::fs::read_to_string(host.folders.path(path)).unwrap();
    assert_eq!(read("workspace/up2"), "uploaded");
    assert_eq!(read("private/file"), "inside");
    let link = std::fs::read_link(host.folders.workspace("link")).unwrap();
    assert_eq!(link.to_str(), Some("up2"));
    let acts: Vec<Act> = grant
        .audit_since(0)
        .into_iter()
        .map(|record| record.act)
        .collect();
    let path = |path: &str| std::path::PathBuf::from(path);
    for expected in [
        Act::Wrote {
            path: path("workspace/up"),
            bytes: 8,
        },
        Act::Renamed {
            from: path("workspace/up"),
            to: path("workspace/up2"),
        },
        Act::LinkMade {
            path: path("workspace/link"),
            target: path("up2"),
        },
        Act::Removed {
            path: path("workspace/hard"),
        },
    ] {
        assert!(acts.contains(&expected), "{expected:?} in {acts:?}");
    }
    assert_eq!(grant.usage().written_bytes, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_requests_under_way_arrive_whole() {
    const SIZE: usize = 8 << 20;
    let host = Host::new().await;
    let grant = host.lend(Access::ReadWrite, None);
    let bytes: Vec<u8> = (0..SIZE as u32).map(|n| (n % 253) as u8).collect();
    std::fs::write(host.folders.workspace("large"), &bytes).unwrap();
    for (size, requests) in [("32768", "1000"), ("131072", "200"), ("300", "900")] {
        let mut command = Command::new("sftp");
        let script = host.folders.path("batch");
        let batch = match size {
            "300" => "get -r workspace/sub\nput large workspace/small\n",
            _ => "get workspace/large\nput large workspace/back\n",
        };
        std::fs::write(&script, batch).unwrap();
        command
            .args(host.ssh_options(grant.credential()))
            .args(["-B", size, "-R", requests, "-b"])
            .arg(&script)
            .arg("127.0.0.1")
            .current_dir(host.folders.path("private"));
        if size == "300" {
            // Small pieces take long, so there are fewer of them.
            std::fs::write(host.folders.path("private/large"), &bytes[..300_000]).unwrap();
        }
        let output = run(command).await;
        assert!(output.status.success(), "{size}: {output:?}");
        if size != "300" {
            assert!(std::fs::read(host.folders.path("private/large")).unwrap() == bytes);
            assert!(std::fs::read(host.folders.workspace("back")).unwrap() == bytes);
        }
    }
    let small = std::fs::read(host.folders.workspace("small")).unwrap();
    assert!(small == bytes[..300_000]);
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_no_shell_no_command_no_forwarding_and_no_other_subsystem() {
    let host = Host::new().await;
    let grant = host.lend(Access::ReadWrite, None);
    let credential = grant.credential();
    let port = host.server.local_addr().port();
    let forward = format!("127.0.0.1:{port}");
    for args in [
        &["127.0.0.1", "id"][..],
        &["127.0.0.1"],
        &["-tt", "127.0.0.1"],
        &["-s", "127.0.0.1", "shell"],
        &["-s", "127.0.0.1", "netconf"],
        &["-W", &forward, "127.0.0.1"],
        &["-N", "-R", "0:127.0.0.1:22", "127.0.0.1"],
        &["-A", "127.0.0.1", "env"],
        &["-X", "127.0.0.1", "xterm"],
    ] {
        let (worked, text) = ssh(&host, credential, args).await;
        assert!(!worked, "{args:?}: {text}");
        assert!(!text.contains("uid="), "{args:?}: {text}");
    }
    let (worked, text) = sftp(&host, credential, "ls workspace\n").await;
    assert!(worked, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_key_of_a_living_export_opens_the_door() {
    let host = Host::new().await;
    let grant = host.lend(Access::ReadWrite, None);
    let stranger = host.lend(Access::ReadWrite, None);
    let mixed = Credential {
        private_key: stranger.credential().private_key.clone(),
        ..grant.credential().clone()
    };
    let unknown = Credential {
        user: "root".into(),
        ..grant.credential().clone()
    };
    for credential in [&mixed, &unknown] {
        let (worked, text) = sftp(&host, credential, "ls\n").await;
        assert!(
            !worked && text.contains("Permission denied (publickey)"),
            "{text}"
        );
    }
    let credential = grant.credential().clone();
    let (worked, text) = sftp(&host, &credential, "ls\n").await;
    assert!(worked, "{text}");
    grant.revoke().await;
    let (worked, text) = sftp(&host, &credential, "ls\n").await;
    assert!(!worked && text.contains("Permission denied"), "{text}");
    stranger.renew(std::time::Instant::now());
    assert!(stranger.is_over());
    let (worked, text) = sftp(&host, stranger.credential(), "ls\n").await;
    assert!(!worked && text.contains("Permission denied"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_any_key_is_told_the_one_way_in_at_once() {
    let host = Host::new().await;
    let port = host.server.local_addr().port();
    let script = format!(
        "ssh -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
         -o IdentityFile=/dev/null -o IdentityAgent=none -p {port} nobody@127.0.0.1 id 2>&1"
    );
    let output = try_shell(host.folders.temp.path(), &script).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("Permission denied (publickey)."), "{text}");
}
