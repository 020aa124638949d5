//! The scripted model: a program beside the checkout that answers what the prompt tells it to, and shows what it was asked.

use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::Value;

/// Where it lies when nobody says otherwise.
const BESIDE_THE_CHECKOUT: &str = "../../../shared/tools/real-agents/fake_model.py";

/// At the end of a command: the model asks for it to be run outside the agent's sandbox, as a real one does when it knows
/// that it is needed.
pub(super) const ESCALATED: &str = "# escalated";

/// Runs the program with that one word more.
const WITH_ESCALATION: &str = r##"
import sys
sys.argv = sys.argv[1:]
with open(sys.argv[0]) as file:
    program = file.read()
more = """
plain = fill
def fill(kind, schema, first, second):
    filled = plain(kind, schema, first, second)
    if first.endswith("# escalated") and "sandbox_permissions" in (schema or {}).get("properties", {}):
        filled.update(sandbox_permissions="require_escalated", justification="May it be written?")
    return filled
"""
exec(compile(program.replace("if __name__", more + "if __name__"), sys.argv[0], "exec"))
"##;

/// The model, ended with its test.
#[derive(Debug)]
pub(super) struct Model {
    child: Child,
    port: u16,
}

/// The program, if it is on this machine.
pub(super) fn program() -> Option<PathBuf> {
    let given = env::var_os("AGENTCRAFT_FAKE_MODEL").map(PathBuf::from);
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join(BESIDE_THE_CHECKOUT);
    Some(given.unwrap_or_else(beside)).filter(|path| path.is_file())
}

impl Model {
    pub(super) fn start(program: &Path) -> Self {
        let mut child = Command::new("python3")
            .args(["-c", WITH_ESCALATION])
            .arg(program)
            .args(["--port", "0", "--keep-bodies"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null()) // It tells of every agent that hangs up.
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let (_, port) = line.trim().rsplit_once(':').unwrap();
        let port = port.parse().unwrap();
        Self { child, port }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Every request so far.
    pub(super) fn requests(&self) -> Vec<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream
            .write_all(b"GET /__log HTTP/1.1\r\nHost: model\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        serde_json::from_slice(&answer[end.unwrap() + 4..]).unwrap()
    }

    /// The bodies of the requests that hold these words.
    pub(super) fn asked(&self, words: &str) -> Vec<String> {
        let bodies = self.requests().into_iter().map(|it| it["body"].to_string());
        bodies.filter(|body| body.contains(words)).collect()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It may be gone already.
        let _ = self.child.wait();
    }
}
