//! A bell that hangs at a path and that other processes ring: a named pipe. It carries nothing but that somebody rang.
//!
//! Whoever rings writes down first what it is about; whoever hears looks there. So nothing is lost if nobody hears.

use std::{
    io,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use tokio::net::unix::pipe;

/// Rings that are taken at once; the others are about the same.
const RINGS: usize = 64;

/// Hangs until it is dropped.
#[derive(Debug)]
pub struct Bell {
    path: PathBuf,
    pipe: pipe::Receiver,
}

/// Whether a bell hung where somebody rang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ring {
    Heard,
    Nobody,
}

impl Bell {
    /// Takes the place of one that was left there. The folder must be ours alone. Needs the runtime.
    pub fn hang(path: &Path) -> io::Result<Bell> {
        match rustix::fs::unlink(path) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        make_pipe(path)?;
        // Open for writing too, so that it does not end when whoever rang goes away.
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let opened = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Bell {
            path: path.to_owned(),
            pipe: pipe::Receiver::from_owned_fd_unchecked(opened)?,
        })
    }

    /// Resolves when somebody has rung since it was hung or last resolved. Cancel-safe.
    pub async fn rung(&self) {
        let mut rings = [0; RINGS];
        loop {
            if self.pipe.readable().await.is_err() {
                // The runtime is going away, and the caller with it.
                std::future::pending::<()>().await;
            }
            match self.pipe.try_read(&mut rings) {
                Ok(_) => return,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    tracing::warn!(%error, "a bell cannot be heard any more");
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let _ = rustix::fs::unlink(&self.path); // Its folder may be gone already.
    }
}

/// Rings the bell at this path.
pub fn ring(path: &Path) -> io::Result<Ring> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let pipe = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(pipe) => pipe,
        // No bell, or one that was left by a process that is gone.
        Err(Errno::NOENT | Errno::NXIO) => return Ok(Ring::Nobody),
        Err(error) => return Err(error.into()),
    };
    match rustix::io::write(&pipe, b"!") {
        // Full of rings that were not heard yet: this one is about the same.
        Ok(_) | Err(Errno::AGAIN) => Ok(Ring::Heard),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_vendor = "apple"))]
fn make_pipe(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, FileType, mknodat};
    Ok(mknodat(
        CWD,
        path,
        FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )?)
}

#[cfg(target_vendor = "apple")]
#[expect(unsafe_code, reason = "Named pipes are made by a raw call there.")]
fn make_pipe(path: &Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is a text that ends with a null.
    match unsafe { libc::mkfifo(path.as_ptr(), 0o600) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::PATIENCE;

    #[tokio::test]
    async fn whoever_rings_is_heard_once_and_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bell");
        assert_eq!(ring(&path).unwrap(), Ring::Nobody);
        let bell = Bell::hang(&path).unwrap();
        for _ in 0..3 {
            assert_eq!(ring(&path).unwrap(), Ring::Heard);
            assert_eq!(ring(&path).unwrap(), Ring::Heard);
            tokio::time::timeout(PATIENCE, bell.rung()).await.unwrap();
            let silence = tokio::time::timeout(std::time::Duration::from_millis(5), bell.rung());
            assert!(silence.await.is_err(), "both were heard");
        }
        drop(bell);
        assert_eq!(ring(&path).unwrap(), Ring::Nobody);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_bell_that_was_left_is_heard_by_nobody_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bell");
        make_pipe(&path).unwrap();
        assert_eq!(ring(&path).unwrap(), Ring::Nobody);
        let bell = Bell::hang(&path).unwrap();
        assert_eq!(ring(&path).unwrap(), Ring::Heard);
        tokio::time::timeout(PATIENCE, bell.rung()).await.unwrap();
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_bell_that_nobody_hears_for_long_can_still_be_rung() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bell");
        let bell = Bell::hang(&path).unwrap();
        rustix::pipe::fcntl_setpipe_size(&bell.pipe, 4096).unwrap();
        // More than it holds.
        for _ in 0..5_000 {
            assert_eq!(ring(&path).unwrap(), Ring::Heard);
        }
        tokio::time::timeout(PATIENCE, bell.rung()).await.unwrap();
    }
}
