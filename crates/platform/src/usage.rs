//! What this process uses of the machine: memory, processor time, open files.

use std::fs;

/// How `/proc` counts time, on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// Places of what is read here among the fields of `stat` behind the program's name.
const USER_TICKS: usize = 11;
const SYSTEM_TICKS: usize = 12;
const THREADS: usize = 17;
const STARTED: usize = 19;
const VIRTUAL_BYTES: usize = 20;

/// What a process uses now, as far as the system tells.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    pub cpu_seconds: f64,
    pub threads: u64,
    /// When it began, in seconds since the Unix epoch.
    pub started: Option<f64>,
    pub resident_bytes: Option<u64>,
    pub virtual_bytes: u64,
    pub open_files: Option<u64>,
    pub open_files_max: Option<u64>,
}

/// Of this process; nothing where there is no `/proc`.
pub fn own() -> Option<Usage> {
    let mut usage = parse(&fs::read_to_string("/proc/self/stat").ok()?)?;
    let boot = fs::read_to_string("/proc/stat").ok();
    let boot = boot.and_then(|text| number_after(&text, "btime "));
    usage.started = boot.and_then(|boot| Some(usage.started? + boot as f64));
    usage.resident_bytes = crate::pid::resident_bytes(std::process::id());
    let files = fs::read_dir("/proc/self/fd").ok();
    // The folder itself is open while it is read.
    usage.open_files = files.map(|files| (files.count() as u64).saturating_sub(1));
    let limits = fs::read_to_string("/proc/self/limits").ok();
    usage.open_files_max = limits.and_then(|text| number_after(&text, "Max open files "));
    Some(usage)
}

/// From a line of `stat`; `started` is in seconds since the machine's own start.
fn parse(stat: &str) -> Option<Usage> {
    // The name may hold anything, brackets too.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
    let seconds = |ticks: u64| ticks as f64 / TICKS_PER_SECOND;
    Some(Usage {
        cpu_seconds: seconds(number(USER_TICKS)? + number(SYSTEM_TICKS)?),
        threads: number(THREADS)?,
        started: Some(seconds(number(STARTED)?)),
        virtual_bytes: number(VIRTUAL_BYTES)?,
        ..Usage::default()
    })
}

fn number_after(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 9 0 1234 8192 77 1";
        let usage = parse(stat).unwrap();
        assert_eq!((usage.cpu_seconds, usage.threads), (2.0, 9));
        assert_eq!((usage.started, usage.virtual_bytes), (Some(12.34), 8192));
        assert_eq!(parse("7 (short"), None);
    }

    #[test]
    fn this_process_has_memory_files_and_a_beginning() {
        let usage = own().unwrap();
        assert!(usage.resident_bytes.unwrap() > 0 && usage.virtual_bytes > 0);
        assert!((3..usage.open_files_max.unwrap()).contains(&usage.open_files.unwrap()));
        assert!(usage.started.unwrap() > 1_600_000_000.0);
    }
}
