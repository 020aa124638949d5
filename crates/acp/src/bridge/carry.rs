//! Moving bytes from the client to the agent: blocking reads and writes, one of each per message that passes.

use std::{
    io::{self, ErrorKind, Read, Write},
    os::fd::{AsFd, BorrowedFd},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};

use super::FolderRewriter;

/// What a pipe holds, and so the most that one read can give.
const CHUNK: usize = 64 * 1024;

/// The end of the other side: of a pipe it is told unasked, of one direction of a socket only on Linux.
#[cfg(target_os = "linux")]
const CLOSED: PollFlags = PollFlags::RDHUP;
#[cfg(not(target_os = "linux"))]
const CLOSED: PollFlags = PollFlags::empty();

/// Counts what was carried, for those who watch from another thread.
#[derive(Debug, Default)]
pub struct Carried(AtomicU64);

impl Carried {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Carries everything until the client closes its side. An agent that stops reading does not end it: the rest is read
/// and dropped, since the agent's end is known by its death and the client's only by its silence.
pub fn carry(
    mut client: impl Read + AsFd,
    agent: impl Write,
    mut folders: Option<FolderRewriter>,
    carried: &Carried,
) {
    let mut agent = Some(agent);
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = match client.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // Whoever started us may have made the pipe so, for itself.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                wait(client.as_fd(), PollFlags::IN);
                continue;
            }
            Err(_) => break, // A pipe that cannot be read is as good as closed.
        };
        let bytes = match &mut folders {
            Some(folders) => folders.rewrite(&chunk[..length]),
            None => &chunk[..length],
        };
        if agent
            .as_mut()
            .is_some_and(|agent| agent.write_all(bytes).is_err())
        {
            agent = None;
        }
        carried.add();
    }
    if let (Some(agent), Some(folders)) = (&mut agent, &mut folders) {
        let _ = agent.write_all(folders.finish()); // The agent may be gone as well.
    }
}

/// Writes everything, also where whoever started us has made the pipe one that does not wait.
pub fn write_all(mut writer: impl Write + AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match writer.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                wait(writer.as_fd(), PollFlags::OUT);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns when the client has gone and nothing has been carried for `patience`: the agent does not take what the
/// client wrote before it went, so [`carry`] would wait for ever.
pub fn wait_until_stuck(client: impl AsFd, carried: &Carried, patience: Duration) {
    wait(client.as_fd(), CLOSED);
    loop {
        let before = carried.count();
        std::thread::sleep(patience);
        if carried.count() == before {
            return;
        }
    }
}

fn wait(descriptor: BorrowedFd<'_>, events: PollFlags) {
    let mut polled = [PollFd::from_borrowed_fd(descriptor, events)];
    while poll(&mut polled, None) == Err(Errno::INTR) {}
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Arc, thread};

    use super::*;
    use crate::bridge::Folders;

    #[test]
    fn everything_is_carried_and_only_the_folder_changes() {
        let (client, mut ours) = io::pipe().unwrap();
        let (mut seen, agent) = io::pipe().unwrap();
        let folders = FolderRewriter::new(Folders::new(Path::new("/w"), Path::new("/w")));
        let carrying =
            thread::spawn(move || carry(client, agent, Some(folders), &Carried::default()));
        let line = br#"{"method":"session/new","params":{"cwd":"/home/me"}}"#;
        ours.write_all(line).unwrap();
        ours.write_all(b"\nthe rest").unwrap();
        drop(ours);
        let mut text = String::new();
        seen.read_to_string(&mut text).unwrap();
        carrying.join().unwrap();
        assert_eq!(
            text,
            "{\"method\":\"session/new\",\"params\":{\"cwd\":\"/w\"}}\nthe rest"
        );
    }

    #[test]
    fn an_agent_that_stops_reading_does_not_hide_the_end_of_the_client() {
        let (client, mut ours) = io::pipe().unwrap();
        let (seen, agent) = io::pipe().unwrap();
        drop(seen);
        let carrying = thread::spawn(move || carry(client, agent, None, &Carried::default()));
        ours.write_all(&[b'x'; 3 * CHUNK]).unwrap();
        drop(ours);
        carrying.join().unwrap();
    }

    #[test]
    fn everything_is_written_to_a_pipe_that_does_not_wait_for_its_reader() {
        let (mut seen, writer) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        let bytes: Vec<u8> = (0..u32::MAX)
            .flat_map(u32::to_le_bytes)
            .take(5 * CHUNK)
            .collect();
        let expected = bytes.clone();
        let writing = thread::spawn(move || write_all(&writer, &bytes));
        let mut read = Vec::new();
        seen.read_to_end(&mut read).unwrap();
        writing.join().unwrap().unwrap();
        assert!(read == expected);
        let (seen, writer) = io::pipe().unwrap();
        drop(seen);
        let error = write_all(&writer, b"x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_client_that_leaves_an_agent_that_does_not_read_is_noticed() {
        let (client, mut ours) = io::pipe().unwrap();
        let (seen, agent) = io::pipe().unwrap();
        let carried = Arc::new(Carried::default());
        let (watched, counter) = (client.try_clone().unwrap(), carried.clone());
        let carrying = thread::spawn(move || carry(client, agent, None, &counter));
        ours.write_all(&[b'x'; CHUNK + CHUNK / 2]).unwrap();
        drop(ours);
        wait_until_stuck(watched, &carried, Duration::from_millis(50));
        assert!(!carrying.is_finished());
        drop(seen);
        carrying.join().unwrap();
    }
}
