//! The exchange: in a bucket, with a server of S3 that others wrote; what a kill leaves of it; and much at once.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};
use testkit::{TestDaemon, eventually};

use super::{http::Http, python, with_echo};
use crate::node;

const CRASH: &str = "AGENTCRAFT_CRASH_AT";

/// Lines among which the server says where it listens.
const FIRST_LINES_MAX: usize = 20;

/// It ends with the test.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// Nothing where it is not installed.
    fn start() -> Option<Self> {
        let program = python("s3")?.with_file_name("moto_server");
        let mut child = Command::new(program)
            .args(["-H", "127.0.0.1", "-p", "0"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut url = None;
        for _ in 0..FIRST_LINES_MAX {
            let mut line = String::new();
            if said.read_line(&mut line).unwrap() == 0 {
                break;
            }
            if let Some((_, rest)) = line.split_once("Running on ") {
                url = Some(rest.trim().to_owned());
                break;
            }
        }
        // What it says afterwards is read by nobody, and must not stop it.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Some(Self {
            child,
            url: url.expect("it says where it listens"),
        })
    }

    /// What lies in the bucket, in the server's words.
    fn listed(&self) -> String {
        let bucket = Http::with_token(&self.url, None);
        bucket.get("/agents?list-type=2").text
    }

    /// Uploads that have only parts.
    fn uploads(&self) -> usize {
        let bucket = Http::with_token(&self.url, None);
        let listed = bucket.get("/agents?uploads").text;
        listed.matches("<UploadId>").count()
    }

    /// A node that keeps what it is handed in a bucket of this server.
    fn node(&self) -> TestDaemon {
        let made = Http::with_token(&self.url, None).call("PUT", "/agents", &[], None);
        assert_eq!(made.status, 200, "{made:?}");
        let settings = format!(
            "[runs.s3]\nbucket = \"agents\"\nendpoint = \"{}\"\naccess_key = \"any\"\nsecret_key = \"key\"\n",
            self.url
        );
        let daemon = node().listening().file("config.toml", settings).start();
        with_echo(&daemon);
        daemon
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_is_handed_over_lies_in_a_bucket_where_the_settings_name_one() {
    let Some(server) = Server::start() else {
        println!("skipped: ./test installs the packages of tests/python/s3.txt");
        return;
    };
    let daemon = server.node();
    let http = Http::owner(&daemon);
    let told = json!({"what": "a small file"});
    let kept = http.post("/resources?name=small.json", &told);
    assert_eq!(kept.status, 201, "{kept:?}");
    let kept: Value = kept.json();
    let hash = kept["sha256"].as_str().unwrap();
    let place = format!("objects/{}/{}", &hash[..2], &hash[2..]);
    assert!(server.listed().contains(&place), "{}", server.listed());
    let path = format!("/resources/{}", kept["id"].as_str().unwrap());
    assert_eq!(http.get(&path).json(), told);
    let part = http.call("GET", &path, &[("range", "bytes=2-5")], None);
    assert_eq!((part.status, part.text.as_str()), (206, "what"));
    assert!(!daemon.home().join("exchange/objects").exists());
    http.call("DELETE", &path, &[], None);
    assert_eq!(http.get(&path).status, 404);
    assert!(!server.listed().contains(&place), "{}", server.listed());
}

/// Sends less than it has said it would.
fn half_an_upload(daemon: &TestDaemon, length: usize, sent: usize) -> TcpStream {
    let mut stream = TcpStream::connect(daemon.url().trim_start_matches("http://")).unwrap();
    let head = format!(
        "POST /resources HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-length: {length}\r\n\r\n",
        daemon.token()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&vec![7; sent]).unwrap();
    stream
}

#[test]
fn an_upload_to_a_bucket_that_a_kill_cut_is_ended_by_the_next_daemon() {
    let Some(server) = Server::start() else {
        println!("skipped: ./test installs the packages of tests/python/s3.txt");
        return;
    };
    let mut daemon = server.node();
    let stream = half_an_upload(&daemon, 20 << 20, 11 << 20);
    eventually("it is on its way", || server.uploads() == 1);
    daemon.kill();
    drop(stream);
    assert_eq!(server.uploads(), 1, "nobody was left to end it");
    daemon.start();
    eventually("it is ended", || server.uploads() == 0);
    assert!(
        !server.listed().contains("incoming/"),
        "{}",
        server.listed()
    );
    let kept = Http::owner(&daemon).post("/resources", &json!("another"));
    assert_eq!(kept.status, 201, "{kept:?}");
}

/// Every object that lies in the folder of a node.
fn objects(daemon: &TestDaemon) -> Vec<String> {
    fn walk(dir: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => walk(&path, found),
                path => found.push(path.display().to_string()),
            }
        }
    }
    let mut found = Vec::new();
    walk(&daemon.home().join("exchange"), &mut found);
    found
}

/// Dies after the bytes are there and before they are kept, then after they are forgotten and before they are gone.
fn dies_between(daemon: &mut TestDaemon, is_empty: impl Fn(&TestDaemon) -> bool) {
    for point in ["exchange.written", "exchange.removed"] {
        daemon.stop();
        daemon.set_env(CRASH, Some(point));
        daemon.start();
        let http = Http::owner(daemon);
        let told = json!({"what": point});
        let kept = http.try_call("POST", "/resources", &[], Some(&told));
        if let Ok(kept) = kept {
            let path = format!("/resources/{}", kept.ok()["id"].as_str().unwrap());
            let gone = http.try_call("DELETE", &path, &[], None);
            assert!(gone.is_err(), "{point}: {gone:?}");
        }
        daemon.wait_for_death();
        assert!(
            !is_empty(daemon),
            "{point}: it lies there, and nobody means it"
        );
        daemon.set_env(CRASH, None);
        daemon.start();
        eventually(&format!("{point}: it is gone"), || is_empty(daemon));
        // The same bytes may be handed over again, and stay.
        let http = Http::owner(daemon);
        let kept = http.post("/resources", &told).ok();
        let path = format!("/resources/{}", kept["id"].as_str().unwrap());
        assert_eq!(http.get(&path).json(), told, "{point}");
        http.call("DELETE", &path, &[], None);
        assert!(is_empty(daemon), "{point}");
    }
}

#[test]
fn what_a_kill_left_in_the_folder_without_anybody_to_mean_it_is_collected() {
    let mut daemon = node().listening().start();
    dies_between(&mut daemon, |daemon| objects(daemon).is_empty());
}

#[test]
fn what_a_kill_left_in_a_bucket_without_anybody_to_mean_it_is_collected() {
    let Some(server) = Server::start() else {
        println!("skipped: ./test installs the packages of tests/python/s3.txt");
        return;
    };
    let mut daemon = server.node();
    dies_between(&mut daemon, |_| !server.listed().contains("<Key>"));
}

/// The most memory that a process has had, in MiB.
fn memory_peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() / 1024
}

/// Runs a line of the shell and gives what it said.
fn shell(daemon: &TestDaemon, line: &str) -> String {
    let output = Command::new("bash")
        .args(["-o", "pipefail", "-c", line])
        .env("URL", daemon.url())
        .env("TOKEN", daemon.token())
        .output()
        .unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "slow: two gibibytes are written, hashed and read"]
fn slow_two_gibibytes_pass_through_little_memory() {
    const SIZE: u64 = 2 << 30;
    let settings = "[runs]\nobject_mib = 2048\nquota_mib = 4096\n";
    let daemon = node().listening().file("config.toml", settings).start();
    let room = rustix::fs::statvfs(daemon.home()).unwrap();
    if room.f_bavail * room.f_frsize < 3 * SIZE {
        println!("skipped: the disk has no room for it");
        return;
    }
    let before = memory_peak(daemon.pid());
    let sent = shell(
        &daemon,
        "head -c 2147483648 /dev/zero | curl -sS --fail -X POST -T - -H \"Authorization: Bearer $TOKEN\" \"$URL/resources?name=large.bin\"",
    );
    let kept: Value = serde_json::from_str(&sent).unwrap();
    assert_eq!(kept["size"], SIZE, "{kept}");
    let url = kept["url"].as_str().unwrap();
    let read = shell(&daemon, &format!("curl -sS --fail '{url}' | sha256sum"));
    assert!(read.starts_with(kept["sha256"].as_str().unwrap()), "{read}");
    let part = shell(
        &daemon,
        &format!("curl -sS --fail -r 2147483640- '{url}' | wc -c"),
    );
    assert_eq!(part.trim(), "8");
    let peak = memory_peak(daemon.pid());
    println!("{before} MiB before, {peak} MiB at most");
    assert!(peak - before < 64, "{before} MiB, then {peak} MiB");
    let path = format!("/resources/{}", kept["id"].as_str().unwrap());
    Http::owner(&daemon).call("DELETE", &path, &[], None);
    assert_eq!(objects(&daemon), Vec::<String>::new());
}
