//! How much of an archive is taken.

/// What is enough for a workspace that may be lent, and small enough for any disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// All files together.
    pub bytes: u64,
    pub entries: u64,
    pub file_bytes: u64,
    pub path_bytes: usize,
    /// Folders in folders. Each costs an open file while the tree is walked.
    pub depth: usize,
    /// How many times larger than the archive its content may be, once it is large at all.
    pub ratio: u64,
    pub case: Case,
}

/// Whether names that differ only in case are two names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    Differs,
    /// As on file systems that would let one overwrite the other.
    Same,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 1 << 30,
            entries: 200_000,
            file_bytes: 256 << 20,
            path_bytes: 4_000,
            depth: 128,
            ratio: 250,
            case: if cfg!(target_os = "linux") {
                Case::Differs
            } else {
                Case::Same
            },
        }
    }
}

/// Below this much content nobody asks how well it was compressed: empty files compress without end.
pub(crate) const RATIO_FROM: u64 = 64 << 20;

/// What the archive itself may need for each entry: a header, its extensions, padding.
pub(crate) const OVERHEAD_PER_ENTRY: u64 = 4_096;
