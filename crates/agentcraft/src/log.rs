//! The log on stderr. Of a daemon in the background that is a file, which is kept within bounds.

use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use platform::files;

use crate::config::Config;

/// How large the log of a daemon grows before it becomes the former one: weeks of a busy node, and soon searched.
pub(crate) const LOG_MAX: u64 = 10 * 1024 * 1024;

/// How much is written between two looks at the size.
const LOOK_EVERY: u64 = 256 * 1024;

/// Logs to stderr, as the settings say.
pub(crate) fn to_stderr(config: &Config) {
    let filter = tracing_subscriber::EnvFilter::try_new(&config.log_level).unwrap_or_default();
    let bound = files::is_stderr(&config.log_file).then(|| Bound {
        file: config.log_file.clone(),
        written: AtomicU64::new(0),
    });
    let bound = bound.map(Arc::new);
    let logging = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || Unfailing {
            stderr: io::stderr(),
            bound: bound.clone(),
        })
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal())
        .try_init();
    drop(logging); // Somebody who logs already, in tests, goes on doing so.
}

/// The file behind stderr.
struct Bound {
    file: PathBuf,
    /// Bytes since the last look at its size.
    written: AtomicU64,
}

impl Bound {
    fn wrote(&self, bytes: usize) {
        let written = self.written.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        // Others of our processes write there too, so the size is looked at and not counted.
        let look = written >= LOOK_EVERY
            && self
                .written
                .compare_exchange(written, 0, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if look {
            let _ = files::empty_grown_log(&self.file, LOG_MAX); // There is nowhere else to say it.
        }
    }
}

/// A log that nobody reads any more, or that the disk has no room for, must not end what is logged.
struct Unfailing {
    stderr: io::Stderr,
    bound: Option<Arc<Bound>>,
}

impl Write for Unfailing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.stderr.write_all(bytes); // There is nowhere else to say it.
        if let Some(bound) = &self.bound {
            bound.wrote(bytes.len());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.stderr.flush(); // As above.
        Ok(())
    }
}
