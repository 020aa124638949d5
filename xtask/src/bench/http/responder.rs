//! The floor under every HTTP server: a process of its own that answers each request with the same body.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;

use anyhow::{Context as _, ensure};

/// More than any request of a benchmark.
const BODY_MAX: usize = 1024 * 1024;

/// Tells its address, and answers until its input ends, which happens also when whoever started it is killed.
pub(in crate::bench) fn serve(length: usize) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").context("could not listen")?;
    let address = listener
        .local_addr()
        .context("could not find our address")?;
    writeln!(io::stdout(), "{address}").context("could not tell our address")?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(stream, length));
        }
    });
    io::copy(&mut io::stdin(), &mut io::sink()).context("could not wait for the end of input")?;
    Ok(())
}

fn answer(stream: TcpStream, length: usize) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let body = "x".repeat(length);
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    let mut request = Vec::new();
    loop {
        let mut bytes = 0;
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                bytes = value.trim().parse()?;
            }
        }
        ensure!(bytes <= BODY_MAX, "a request is too long");
        request.resize(bytes, 0);
        reader.read_exact(&mut request)?;
        reader.get_mut().write_all(answer.as_bytes())?;
    }
}

/// A running responder; it ends with its owner.
#[derive(Debug)]
pub(in crate::bench) struct Responder {
    child: Child,
    address: SocketAddr,
}

impl Responder {
    /// Starts this very program as a server whose bodies have `length` bytes.
    pub(in crate::bench) fn start(length: usize) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("could not find our own program")?;
        let mut child = Command::new(program)
            .args(["bench", "--http-responder", &length.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("could not start the responder")?;
        let output = child.stdout.take().context("the responder has no output")?;
        let mut line = String::new();
        BufReader::new(output)
            .read_line(&mut line)
            .context("could not read the responder's address")?;
        let address = line.trim().parse();
        let address = address.with_context(|| format!("{line:?} is no address"))?;
        Ok(Self { child, address })
    }

    pub(in crate::bench) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It may be gone already.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::http::{Http, post};

    #[test]
    fn every_request_is_answered_with_a_body_of_the_given_length() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut http = Http::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let server = thread::spawn(move || answer(stream, 5));
        for _ in 0..2 {
            assert_eq!(http.exchange(&post("/", "", "{}")).unwrap(), b"xxxxx");
        }
        drop(http);
        server.join().unwrap().unwrap();
    }
}
