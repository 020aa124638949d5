//! The exchange in a bucket, with a server of S3 that others wrote.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use super::{http::Http, python, with_echo};
use crate::node;

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
    let made = Http::with_token(&server.url, None).call("PUT", "/agents", &[], None);
    assert_eq!(made.status, 200, "{made:?}");
    let settings = format!(
        "[runs.s3]\nbucket = \"agents\"\nendpoint = \"{}\"\naccess_key = \"any\"\nsecret_key = \"key\"\n",
        server.url
    );
    let daemon = node().listening().file("config.toml", settings).start();
    with_echo(&daemon);
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
