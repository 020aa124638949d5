//! A child that runs on our memory until its exec. Everything it needs is made before it exists, and it only makes system calls.
//!
//! Not `posix_spawn`, which does the same otherwise: it cannot write the line to the guardian. A line from us would come after the
//! program has begun, and if we died in between only the token would lead to it, which a program may drop or hide at once. What the
//! shared memory asks for, and where it is kept:
//! - no handler of ours runs in the child: all signals are masked from before its birth until its own table is cleared;
//! - nothing of ours is changed but `error` and one place of `by_shell`; `errno` is shared, and read here only if there is no child;
//! - no allocation, no lock and no panic in the child, and it never returns: its end is `_exit`;
//! - descriptors are its own copy, and all of ours close on exec, the guardian's pipe too, so that the guardian
//!   outwaits every child on its way to the exec and has its line by then.

use std::{
    ffi::{CString, OsStr, OsString, c_char, c_int, c_void},
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd, RawFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    ptr,
};

use rustix::io::Errno;

use super::Launched;
use crate::{
    guardian::Pipe,
    owner::OWNER_VARIABLE,
    process::{Spawn, Stream},
};

/// Where programs are looked for if the child has no PATH, as the C library does.
const PATH_WITHOUT_ONE: &str = "/bin:/usr/bin";

/// Runs files that are executable and name no interpreter, as the C library does.
const SHELL: &std::ffi::CStr = c"/bin/sh";

/// Many times of what the child's few calls need, since no page guards its end. The exec itself runs on the kernel's stack.
const STACK_BYTES: usize = 64 * 1024;

/// The highest number of a signal.
const SIGNAL_MAX: c_int = 64;

/// The kernel's own errors are small and positive; this one says that there was none.
const NO_ERROR: c_int = 0;

pub(in crate::process) fn launch(spawn: Spawn, pipe: Pipe) -> io::Result<Launched> {
    let (stdin, our_stdin) = stream(spawn.stdin, Direction::ToChild)?;
    let (stdout, our_stdout) = stream(spawn.stdout, Direction::FromChild)?;
    let (stderr, our_stderr) = stream(spawn.stderr, Direction::FromChild)?;
    let path = spawn.env.get(OsStr::new("PATH"));
    let candidates = candidates(spawn.program.as_os_str(), path.map(OsString::as_os_str))?;
    let mut arguments = vec![c_string(spawn.program.as_os_str().as_bytes().to_vec())?];
    for argument in spawn.args {
        arguments.push(c_string(argument.into_vec())?);
    }
    let owner = (
        OsString::from(OWNER_VARIABLE),
        OsString::from(spawn.owner.to_string()),
    );
    let mut environment = Vec::with_capacity(spawn.env.len() + 1);
    // The owner's token comes first, so that a sweep need not read far.
    let others = spawn.env.into_iter().filter(|(name, _)| *name != owner.0);
    for (name, value) in std::iter::once(owner.clone()).chain(others) {
        let pair = [name.as_bytes(), b"=", value.as_bytes()].concat();
        environment.push(c_string(pair)?);
    }
    let cwd = c_string(spawn.cwd.into_os_string().into_vec())?;
    let pointers = |texts: &[CString]| -> Vec<*const c_char> {
        let ends = std::iter::once(ptr::null());
        texts.iter().map(|text| text.as_ptr()).chain(ends).collect()
    };
    let by_shell = [SHELL.as_ptr(), ptr::null()] // The second place is the program that was found.
        .into_iter()
        .chain(pointers(&arguments[1..]))
        .collect();
    let mut child = Child {
        streams: [&stdin, &stdout, &stderr].map(AsRawFd::as_raw_fd),
        cwd: cwd.as_ptr(),
        candidates: pointers(&candidates),
        arguments: pointers(&arguments),
        by_shell,
        environment: pointers(&environment),
        pipe,
        error: NO_ERROR,
    };
    let pid = child.start()?;
    Ok(Launched {
        pid,
        stdin: our_stdin,
        stdout: our_stdout,
        stderr: our_stderr,
    })
}

#[derive(Clone, Copy, Debug)]
enum Direction {
    ToChild,
    FromChild,
}

/// The child's end of a stream, above the standard ones so that none is overwritten before its turn, and ours.
fn stream(stream: Stream, direction: Direction) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    let (theirs, ours) = match (stream, direction) {
        (Stream::Piped, direction) => {
            let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            match direction {
                Direction::ToChild => (read, Some(write)),
                Direction::FromChild => (write, Some(read)),
            }
        }
        (Stream::Null, _) => {
            let null = std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open("/dev/null")?;
            (OwnedFd::from(null), None)
        }
        (Stream::File(file), _) => (OwnedFd::from(file), None),
    };
    if theirs.as_raw_fd() > libc::STDERR_FILENO {
        return Ok((theirs, ours));
    }
    let higher = rustix::io::fcntl_dupfd_cloexec(theirs.as_fd(), libc::STDERR_FILENO + 1)?;
    Ok((higher, ours))
}

/// The files to be tried, in their order. A name with a slash is one file, any other is looked for in the path.
fn candidates(program: &OsStr, path: Option<&OsStr>) -> io::Result<Vec<CString>> {
    let name = program.as_bytes();
    if name.contains(&b'/') {
        return Ok(vec![c_string(name.to_vec())?]);
    }
    if name.is_empty() {
        return Err(Errno::NOENT.into());
    }
    let path = path.unwrap_or(OsStr::new(PATH_WITHOUT_ONE)).as_bytes();
    path.split(|byte| *byte == b':')
        .map(|folder| match folder {
            // An empty place means the folder that the child works in.
            b"" => c_string(name.to_vec()),
            folder => c_string([folder, b"/", name].concat()),
        })
        .collect()
}

fn c_string(bytes: Vec<u8>) -> io::Result<CString> {
    CString::new(bytes).map_err(io::Error::from)
}

/// What the child reads, and the error it leaves. Each list of pointers ends with a null.
#[derive(Debug)]
struct Child {
    streams: [RawFd; 3],
    cwd: *const c_char,
    candidates: Vec<*const c_char>,
    arguments: Vec<*const c_char>,
    by_shell: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    pipe: Pipe,
    error: c_int,
}

impl Child {
    /// Returns when the child has reached its program or given up.
    #[expect(
        unsafe_code,
        reason = "A child that shares our memory is made by the raw call."
    )]
    fn start(&mut self) -> io::Result<u32> {
        let mut stack = Box::<[u128]>::new_uninit_slice(STACK_BYTES / size_of::<u128>());
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: with CLONE_VFORK this thread stands still until the child has left our memory, so the stack and everything
        // that `self` points to outlive its use there, and nobody else touches `self`. No signal is handled meanwhile, so no
        // handler of ours runs in the child. The stack is aligned to 16 bytes and grows downwards.
        let (pid, failed) = unsafe {
            let top = stack.as_mut_ptr().add(stack.len()).cast::<c_void>();
            let mut all = std::mem::zeroed::<libc::sigset_t>();
            let mut before = std::mem::zeroed::<libc::sigset_t>();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            let pid = libc::clone(in_child, top, flags, ptr::from_mut(self).cast());
            let failed = io::Error::last_os_error();
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
            (pid, failed)
        };
        drop(stack);
        let Some(child) = rustix::process::Pid::from_raw(pid).filter(|_| pid > 0) else {
            return Err(failed);
        };
        if self.error == NO_ERROR {
            return Ok(pid.unsigned_abs());
        }
        // It has given up and is gone; only its number has to be freed, and forgotten before it can become somebody else's.
        self.pipe.forget(pid.unsigned_abs());
        let options = rustix::process::WaitOptions::empty();
        let _ = rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(child), options));
        Err(io::Error::from_raw_os_error(self.error))
    }

    /// Everything up to the exec; returns only if that fails.
    #[expect(
        unsafe_code,
        reason = "Signals, descriptors and the exec of a new child."
    )]
    fn become_program(&mut self) -> Errno {
        // A session, not only a group: an agent without a terminal cannot stop on one, nor hear its Ctrl-C.
        if let Err(error) = rustix::process::setsid() {
            return error;
        }
        // SAFETY: only system calls on descriptors and texts that the parent keeps until the exec.
        unsafe {
            forget_handlers();
            if self.pipe.register_ourselves().is_err() {
                return Errno::PIPE;
            }
            for (standard, stream) in self.streams.iter().enumerate() {
                if libc::dup2(*stream, standard as c_int) < 0 {
                    return last_error();
                }
            }
            if libc::chdir(self.cwd) < 0 {
                return last_error();
            }
            let mut none = std::mem::zeroed::<libc::sigset_t>();
            libc::sigemptyset(&raw mut none);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
            self.exec()
        }
    }

    /// Tries one file after the other, as `execvp` does.
    #[expect(unsafe_code, reason = "The exec itself.")]
    unsafe fn exec(&mut self) -> Errno {
        let mut refused = None;
        for candidate in self
            .candidates
            .iter()
            .copied()
            .take_while(|at| !at.is_null())
        {
            // SAFETY: all of these are texts, and lists of texts that end with a null.
            let error = unsafe {
                libc::execve(
                    candidate,
                    self.arguments.as_ptr(),
                    self.environment.as_ptr(),
                );
                last_error()
            };
            match error {
                Errno::NOEXEC => {
                    if let Some(place) = self.by_shell.get_mut(1) {
                        *place = candidate;
                    }
                    // SAFETY: as above.
                    return unsafe {
                        libc::execve(
                            SHELL.as_ptr(),
                            self.by_shell.as_ptr(),
                            self.environment.as_ptr(),
                        );
                        last_error()
                    };
                }
                Errno::ACCESS => refused = Some(error),
                Errno::NOENT | Errno::NOTDIR | Errno::STALE | Errno::NODEV | Errno::TIMEDOUT => {}
                error => return error,
            }
        }
        refused.unwrap_or(Errno::NOENT)
    }
}

#[expect(unsafe_code, reason = "The entry of a child that shares our memory.")]
extern "C" fn in_child(child: *mut c_void) -> c_int {
    // SAFETY: it is what `start` has passed, and its thread waits.
    let child = unsafe { &mut *child.cast::<Child>() };
    child.error = child.become_program().raw_os_error();
    // SAFETY: ends the child at once, with nothing of the parent's cleaned up.
    unsafe { libc::_exit(127) }
}

/// Signals that we handle would run our code in the child. Those that are ignored stay so, except for SIGPIPE, which the
/// standard library has made us ignore.
#[expect(unsafe_code, reason = "Dispositions of signals are set by raw calls.")]
unsafe fn forget_handlers() {
    for signal in 1..=SIGNAL_MAX {
        // SAFETY: the structures are ours, and numbers that are no signals are refused by the kernel.
        unsafe {
            let mut action = std::mem::zeroed::<libc::sigaction>();
            if libc::sigaction(signal, ptr::null(), &raw mut action) < 0 {
                continue;
            }
            let is_ignored = action.sa_sigaction == libc::SIG_IGN && signal != libc::SIGPIPE;
            if is_ignored || action.sa_sigaction == libc::SIG_DFL {
                continue;
            }
            action.sa_sigaction = libc::SIG_DFL;
            action.sa_flags = 0;
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}
