//! Many peers behind one port: below `/n17` answers the seventeenth, with skills of its own.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use anyhow::Context as _;
use serde_json::{Value, json};

#[derive(Debug)]
pub(super) struct Crowd {
    address: SocketAddr,
}

impl Crowd {
    /// Its threads end with the process.
    pub(super) fn start(skills_each: usize) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("could not listen")?;
        let address = listener.local_addr().context("could not listen")?;
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || serve(stream, skills_each));
            }
        });
        Ok(Self { address })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Answers every request of a connection; whatever goes wrong ends it.
fn serve(stream: TcpStream, skills_each: usize) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut first = String::new();
        reader
            .read_line(&mut first)
            .ok()
            .filter(|length| *length > 0)?;
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            reader
                .read_line(&mut line)
                .ok()
                .filter(|length| *length > 0)?;
        }
        let path = first.split(' ').nth(1)?;
        let number = path.strip_prefix("/n")?.split('/').next()?.parse().ok()?;
        let body = answer(path, number, skills_each).to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        reader
            .get_mut()
            .write_all(format!("{head}{body}").as_bytes())
            .ok()?;
    }
}

fn answer(path: &str, number: usize, skills_each: usize) -> Value {
    if path.contains("/agents") {
        return json!({"agents": []});
    }
    let first = number * skills_each;
    let skills = (first..first + skills_each).map(|skill| {
        json!({"id": format!("job{skill}"), "description": "做一些工作 does work of many kinds"})
    });
    json!({
        "agent_id": format!("peer-{number}"), "name": format!("peer{number}"), "version": "1",
        "description": "one of many", "capabilities": skills.collect::<Vec<_>>(),
    })
}
