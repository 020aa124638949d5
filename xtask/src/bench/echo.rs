//! The floor under every request: a server of its own process that answers a line with a line of a given length.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::context::Home;
use super::daemon::Connection;

/// Larger than any request of a benchmark, so that one read takes it whole.
const READ_MAX: usize = 64 * 1024;
/// It only binds a socket; a second means that it never will.
const START_LIMIT: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Answers lines until its input ends, which happens also when whoever started it is killed.
pub(super) fn serve(socket: &Path, length: usize) -> anyhow::Result<()> {
    let listener = UnixListener::bind(socket)
        .with_context(|| format!("could not listen at {}", socket.display()))?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || echo(stream, length));
        }
    });
    io::copy(&mut io::stdin(), &mut io::sink()).context("could not wait for the end of input")?;
    Ok(())
}

fn echo(mut stream: UnixStream, length: usize) -> io::Result<()> {
    let mut answer = vec![b'x'; length.saturating_sub(1)];
    answer.push(b'\n');
    let mut buffer = vec![0; READ_MAX];
    loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        let lines = buffer[..read].iter().filter(|byte| **byte == b'\n');
        for _ in lines {
            stream.write_all(&answer)?;
        }
    }
}

/// A running server; it ends with its owner.
#[derive(Debug)]
pub(super) struct Echo {
    child: Child,
    socket: PathBuf,
    _home: Home,
}

impl Echo {
    /// Starts this very program as a server whose answers have `length` bytes.
    pub(super) fn start(length: usize) -> anyhow::Result<Self> {
        let home = Home::new()?;
        let socket = home.path().join("echo.sock");
        let program = std::env::current_exe().context("could not find our own program")?;
        let child = Command::new(program)
            .args(["bench", "--echo-length", &length.to_string()])
            .arg("--echo-server")
            .arg(&socket)
            .stdin(Stdio::piped())
            .spawn()
            .context("could not start the echo server")?;
        let echo = Self {
            child,
            socket,
            _home: home,
        };
        let deadline = Instant::now() + START_LIMIT;
        while UnixStream::connect(&echo.socket).is_err() {
            ensure!(
                Instant::now() < deadline,
                "the echo server did not start within {START_LIMIT:?}"
            );
            thread::sleep(LOOK_AGAIN);
        }
        Ok(echo)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn connect(&self) -> anyhow::Result<Connection> {
        Connection::open(&self.socket)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It may be gone already.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_answered_by_a_line_of_the_given_length() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let server = thread::spawn(move || echo(theirs, 5));
        let mut connection = Connection::new(ours);
        connection.send(b"one\ntwo\n").unwrap();
        assert_eq!(connection.receive().unwrap(), b"xxxx\n");
        assert_eq!(connection.receive().unwrap(), b"xxxx\n");
        drop(connection);
        server.join().unwrap().unwrap();
    }
}
