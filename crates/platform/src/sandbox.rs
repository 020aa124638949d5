//! A program that the kernel holds below a few folders, and off the network: a process of our own enters the sandbox and
//! then becomes the program, so there is no moment at which the program runs outside it.
//!
//! Folders are landlock's, sockets are seccomp's. What a kernel cannot enforce is an error, never a weaker sandbox.

mod only;

use std::{
    convert::Infallible,
    ffi::{OsStr, OsString},
    io,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::Command,
};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, Scope, path_beneath_rules,
};

use crate::system::find_program;

/// The first version that knows truncation and renames between folders, without which writing tools break.
const NEEDED: ABI = ABI::V3;

/// What is used beyond it where the kernel has it: devices, abstract sockets, signals.
const KNOWN: ABI = ABI::V6;

/// What every program reads: itself, its libraries and interpreters, and what the system says about itself. Of `/proc` only
/// what tells nothing of other processes: their environments have secrets.
const SYSTEM: [&str; 25] = [
    "/bin",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix",
    "/opt",
    "/proc/cpuinfo",
    "/proc/devices",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/modules",
    "/proc/pressure",
    "/proc/self",
    "/proc/stat",
    "/proc/swaps",
    "/proc/sys",
    "/proc/uptime",
    "/proc/version",
    "/proc/vmstat",
    "/sbin",
    "/sys",
    "/usr",
];

/// Devices that hold nothing.
const DEVICES: [&str; 7] = [
    "/dev/full",
    "/dev/null",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
];

const READ: &str = "--read";
const WRITE: &str = "--write";
const OFFLINE: &str = "--offline";
const ALONE: &str = "--alone";
const END: &str = "--";

/// What a program may touch beside the system's own files, which it may read and run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Folders and files it may read and run.
    pub read: Vec<PathBuf>,
    /// Folders it may do anything in.
    pub write: Vec<PathBuf>,
    pub network: Network,
    pub programs: Programs,
}

/// Which programs the one in the sandbox may run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Programs {
    /// The system's, its folders', and what it writes itself.
    #[default]
    Any,
    /// None beside itself: neither it nor what it forks becomes another one.
    None,
}

/// Which sockets a program may open. Sockets in the file system are closed either way: the daemon's own is one of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Network {
    #[default]
    None,
    Internet,
}

#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("this kernel cannot hold a program below folders (landlock of Linux 6.2 is needed)")]
    Unsupported(#[source] RulesetError),
    #[error("could not enter the sandbox")]
    Folders(#[source] RulesetError),
    #[error("could not close the sockets of the sandbox")]
    Sockets(#[source] io::Error),
    #[error("there is no program {program:?}")]
    NoProgram { program: OsString },
    #[error("could not put the name of {program:?} where nobody finds it")]
    Hide {
        program: OsString,
        source: io::Error,
    },
    #[error("the sandbox was asked for in words that are none: {words:?}")]
    Words { words: Vec<OsString> },
    #[error("could not become {program:?}")]
    Become {
        program: OsString,
        source: io::Error,
    },
}

/// Whether this kernel enforces it.
pub fn is_available() -> bool {
    ruleset().is_ok() && cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
}

impl Sandbox {
    /// The arguments with which [`become_program`] runs `program` in this sandbox. One that is to be alone is named by its path.
    pub fn arguments(&self, program: &OsStr, args: &[OsString]) -> Vec<OsString> {
        let mut words = Vec::new();
        let paths = self.read.iter().map(|path| (READ, path));
        for (word, path) in paths.chain(self.write.iter().map(|path| (WRITE, path))) {
            words.extend([word.into(), path.clone().into()]);
        }
        if self.network == Network::None {
            words.push(OFFLINE.into());
        }
        if self.programs == Programs::None {
            words.push(ALONE.into());
        }
        words.extend([END.into(), program.to_owned()]);
        words.extend_from_slice(args);
        words
    }

    fn parse(words: &[OsString]) -> Option<(Self, &[OsString])> {
        let mut sandbox = Self {
            network: Network::Internet,
            ..Self::default()
        };
        let mut rest = words;
        loop {
            let (word, after) = rest.split_first()?;
            rest = after;
            match word.to_str()? {
                OFFLINE => sandbox.network = Network::None,
                ALONE => sandbox.programs = Programs::None,
                END => break,
                word @ (READ | WRITE) => {
                    let (path, after) = rest.split_first()?;
                    rest = after;
                    let paths = match word {
                        READ => &mut sandbox.read,
                        _ => &mut sandbox.write,
                    };
                    paths.push(path.into());
                }
                _ => return None,
            }
        }
        (!rest.is_empty()).then_some((sandbox, rest))
    }

    /// Enters it, with this thread and everything it starts from now on. The name at that address may be run, if it is one that
    /// runs no other.
    fn enter(&self, only: Option<&only::Hidden>) -> Result<(), SandboxError> {
        let read = AccessFs::from_read(KNOWN);
        let all = AccessFs::from_all(KNOWN);
        let rules = ruleset().map_err(SandboxError::Unsupported)?;
        let status = rules
            .set_compatibility(CompatLevel::BestEffort)
            .add_rules(path_beneath_rules(SYSTEM, read))
            .and_then(|rules| rules.add_rules(path_beneath_rules(&self.read, read)))
            .and_then(|rules| rules.add_rules(path_beneath_rules(DEVICES, all)))
            .and_then(|rules| rules.add_rules(path_beneath_rules(&self.write, all)))
            .and_then(landlock::RulesetCreated::restrict_self);
        status.map_err(SandboxError::Folders)?;
        let only = only.map(|hidden| hidden.address);
        sockets::close(self.network, only).map_err(SandboxError::Sockets)
    }
}

fn ruleset() -> Result<landlock::RulesetCreated, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(NEEDED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?
        .create()
}

/// Enters the sandbox that `words` describe and becomes the program they name; returns only if that failed.
pub fn become_program(words: &[OsString]) -> Result<Infallible, SandboxError> {
    let (sandbox, line) = Sandbox::parse(words).ok_or_else(|| SandboxError::Words {
        words: words.to_vec(),
    })?;
    let (program, args) = line
        .split_first()
        .expect("a line that is read names a program");
    let source = match sandbox.programs {
        Programs::Any => {
            sandbox.enter(None)?;
            Command::new(program).args(args).exec()
        }
        Programs::None => {
            let hidden = hide(program)?;
            sandbox.enter(Some(&hidden))?;
            hidden.become_it(program, args)
        }
    };
    Err(SandboxError::Become {
        program: program.clone(),
        source,
    })
}

/// The name of the program where the filter alone knows it. It is looked for before anything is closed.
fn hide(program: &OsStr) -> Result<only::Hidden, SandboxError> {
    // Where it is to be found is known to whoever starts it.
    let found = find_program(program, OsStr::new("")).ok_or_else(|| SandboxError::NoProgram {
        program: program.to_owned(),
    })?;
    only::Hidden::put(&found).map_err(|source| SandboxError::Hide {
        program: program.to_owned(),
        source,
    })
}

/// Which sockets can be made and which programs run, decided by the kernel at each call.
mod sockets {
    use std::io;

    use libc::{
        BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW,
        SECCOMP_RET_ERRNO, sock_filter, sock_fprog,
    };

    use super::Network;

    #[cfg(target_arch = "aarch64")]
    const ARCHITECTURE: u32 = 0xC000_00B7;
    #[cfg(not(target_arch = "aarch64"))]
    const ARCHITECTURE: u32 = 0xC000_003E;

    /// Numbers from here on are calls of another convention of the same processor.
    const OTHER_CONVENTION: u32 = 0x4000_0000;

    /// Where the filter finds the number, the architecture and the first argument of a call.
    const NUMBER: u32 = 0;
    const ARCH: u32 = 4;
    const FIRST: u32 = 16;
    const FIRST_HIGH: u32 = FIRST + 4;

    const DENIED: u32 = SECCOMP_RET_ERRNO | libc::EACCES as u32;
    const ABSENT: u32 = SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

    fn load(offset: u32) -> sock_filter {
        statement(BPF_LD | BPF_W | BPF_ABS, offset)
    }

    fn answer(value: u32) -> sock_filter {
        statement(BPF_RET | BPF_K, value)
    }

    fn statement(code: u32, k: u32) -> sock_filter {
        let code = u16::try_from(code).expect("codes of the filter have 16 bits");
        sock_filter {
            code,
            jt: 0,
            jf: 0,
            k,
        }
    }

    /// Skips that many statements if it holds, and otherwise.
    fn when(test: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
        let code = u16::try_from(BPF_JMP | test | BPF_K).expect("codes of the filter have 16 bits");
        sock_filter { code, jt, jf, k }
    }

    fn number(call: libc::c_long) -> u32 {
        u32::try_from(call).expect("calls have small numbers")
    }

    fn family(family: libc::c_int) -> u32 {
        u32::try_from(family).expect("families have small numbers")
    }

    /// Pairs of sockets that are born connected are no way out and stay. A ring that could make sockets behind the
    /// filter's back is absent.
    /// With an address, a program is run only by the call that names it there.
    fn filter(network: Network, only: Option<u64>) -> Vec<sock_filter> {
        let mut filter = vec![
            load(ARCH),
            when(BPF_JEQ, ARCHITECTURE, 1, 0),
            answer(DENIED),
            load(NUMBER),
            when(BPF_JGE, OTHER_CONVENTION, 0, 1),
            answer(DENIED),
            when(BPF_JEQ, number(libc::SYS_io_uring_setup), 0, 1),
            answer(ABSENT),
        ];
        if let Some(address) = only {
            let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).expect("it is cut");
            filter.extend([
                when(BPF_JEQ, number(libc::SYS_execveat), 0, 1),
                answer(DENIED),
                when(BPF_JEQ, number(libc::SYS_execve), 0, 6),
                load(FIRST),
                when(BPF_JEQ, half(address), 0, 3),
                load(FIRST_HIGH),
                when(BPF_JEQ, half(address >> 32), 0, 1),
                answer(SECCOMP_RET_ALLOW),
                answer(DENIED),
            ]);
        }
        filter.extend([
            when(BPF_JEQ, number(libc::SYS_socket), 1, 0),
            answer(SECCOMP_RET_ALLOW),
        ]);
        if network == Network::Internet {
            filter.extend([
                load(FIRST),
                when(BPF_JEQ, family(libc::AF_INET), 2, 0),
                when(BPF_JEQ, family(libc::AF_INET6), 1, 0),
                // Programs ask the kernel through it which addresses the machine has.
                when(BPF_JEQ, family(libc::AF_NETLINK), 0, 1),
                answer(SECCOMP_RET_ALLOW),
            ]);
        }
        filter.push(answer(DENIED));
        filter
    }

    #[expect(
        unsafe_code,
        reason = "The filter is handed to the kernel as a pointer."
    )]
    pub(super) fn close(network: Network, only: Option<u64>) -> io::Result<()> {
        let mut filter = filter(network, only);
        let program = sock_fprog {
            len: u16::try_from(filter.len()).expect("the filter is short"),
            filter: filter.as_mut_ptr(),
        };
        // SAFETY: the program points to the filter, and both outlive the call, which copies them. Landlock has set the
        // flag that such a filter needs.
        let set = unsafe {
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            )
        };
        match set {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
#[path = "sandbox_tests.rs"]
mod tests;
