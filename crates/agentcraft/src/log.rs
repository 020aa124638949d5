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
use tracing::{Level, Metadata};
use tracing_subscriber::{
    EnvFilter, filter::filter_fn, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::config::Config;

/// How large the log of a daemon grows before it becomes the former one: weeks of a busy node, and soon searched.
pub(crate) const LOG_MAX: u64 = 10 * 1024 * 1024;

/// How much is written between two looks at the size.
const LOOK_EVERY: u64 = 256 * 1024;

/// The crates that are ours: what they write was written with the secrets in mind.
const OURS: [&str; 28] = [
    "a2a",
    "acp",
    "agentcraft",
    "archive",
    "awcp",
    "builtin",
    "cards",
    "catalog",
    "dashboard",
    "domain",
    "engine",
    "jsonrpc",
    "lan",
    "listener",
    "mcp",
    "model",
    "neighbour",
    "pinning",
    "platform",
    "print",
    "runner",
    "runs",
    "sftp",
    "smcp",
    "socket",
    "store",
    "wire",
    "workflow",
];

/// A library that complains of every message it does not know, and whose errors hold the addresses of servers with their secrets.
/// What concerns people is said by those who use it.
const CHATTY: &str = "rmcp";

/// Words for how much is logged.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Whether this says how much is to be logged: levels, alone or for a part, such as `warn,engine=debug`.
pub(crate) fn is_level(words: &str) -> bool {
    let is_known = |directive: &str| {
        let level = directive.rsplit('=').next().unwrap_or_default().trim();
        LEVELS.iter().any(|known| level.eq_ignore_ascii_case(known))
    };
    words.split(',').all(is_known) && EnvFilter::try_new(words).is_ok()
}

/// Libraries of others write what they carry when they are asked for details: tokens, and what people say. They may warn.
fn is_safe(metadata: &Metadata<'_>) -> bool {
    let from = metadata.target().split("::").next().unwrap_or_default();
    let limit = match from {
        CHATTY => return false,
        from if OURS.contains(&from) => Level::TRACE,
        _ => Level::WARN,
    };
    *metadata.level() <= limit
}

/// Logs to stderr, as the settings say.
pub(crate) fn to_stderr(config: &Config) {
    to_stderr_except(config, None);
}

/// The same, without what this module says: the command tells it in its own words.
pub(crate) fn to_stderr_except(config: &Config, silent: Option<&'static str>) {
    let filter = EnvFilter::try_new(&config.log_level).unwrap_or_default();
    let bound = files::is_stderr(&config.log_file).then(|| Bound {
        file: config.log_file.clone(),
        written: AtomicU64::new(0),
    });
    let bound = bound.map(Arc::new);
    let lines = fmt::layer()
        .with_writer(move || Unfailing {
            stderr: io::stderr(),
            bound: bound.clone(),
        })
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal());
    let logging = tracing_subscriber::registry()
        .with(filter)
        .with(filter_fn(is_safe))
        .with(filter_fn(move |metadata| {
            silent.is_none_or(|silent| !metadata.target().starts_with(silent))
        }))
        .with(lines)
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

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn every_crate_of_ours_may_write_details() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut found: Vec<String> = fs::read_dir(crates)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "testkit")
            .collect();
        found.sort();
        assert_eq!(found, OURS);
    }

    #[test]
    fn what_says_how_much_is_logged_is_told_from_a_slip() {
        for words in [
            "info",
            "DEBUG",
            "off",
            "warn,engine=debug",
            "engine::session=trace",
        ] {
            assert!(is_level(words), "{words}");
        }
        for words in ["debgu", "", "a=b=c", "engine", "engine=loud", "info,"] {
            assert!(!is_level(words), "{words}");
        }
    }
}
