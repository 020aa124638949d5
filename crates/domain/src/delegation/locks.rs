//! Who has which folder: one writer, or any number of readers or of those who merge, parents and children included, in the
//! order of asking.
//!
//! Paths are compared by their names alone, so whoever asks resolves links first.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
};

use super::{DelegationId, Hold};

/// Delegations that may wait for folders: more than that is a program that does not listen.
pub const LOCK_QUEUE_MAX: usize = 256;

/// The folders of one host. Kept in memory alone: after a restart it is made again from the delegations that hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Locks {
    held: Vec<Claim>,
    waiting: VecDeque<Claim>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Claim {
    by: DelegationId,
    folder: PathBuf,
    hold: Hold,
}

impl Claim {
    fn conflicts(&self, other: &Self) -> bool {
        let overlap =
            self.folder.starts_with(&other.folder) || other.folder.starts_with(&self.folder);
        overlap && (self.hold != other.hold || self.hold == Hold::Write)
    }
}

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockDecision {
    Granted,
    /// So many others are before it in the queue, related or not.
    Queued {
        before: usize,
    },
}

/// Why a folder cannot even be waited for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    #[error("{LOCK_QUEUE_MAX} delegations are waiting for folders already")]
    QueueFull,
    #[error("{by} has asked for a folder already")]
    Twice { by: DelegationId },
    #[error("{folder} is held by {by}, which excludes this")]
    Conflict { folder: PathBuf, by: DelegationId },
}

impl Locks {
    /// Takes the folder, or a place in the queue. Nobody overtakes somebody he would exclude, so writers do not starve.
    pub fn request(
        &mut self,
        by: DelegationId,
        folder: &Path,
        hold: impl Into<Hold>,
    ) -> Result<LockDecision, LockError> {
        if self.knows(&by) {
            return Err(LockError::Twice { by });
        }
        let claim = Claim {
            by,
            folder: folder.to_owned(),
            hold: hold.into(),
        };
        let blocked = self
            .held
            .iter()
            .chain(&self.waiting)
            .any(|other| other.conflicts(&claim));
        if !blocked {
            self.held.push(claim);
            return Ok(LockDecision::Granted);
        }
        let before = self.waiting.len();
        if before >= LOCK_QUEUE_MAX {
            return Err(LockError::QueueFull);
        }
        self.waiting.push_back(claim);
        Ok(LockDecision::Queued { before })
    }

    /// Takes the folder again for a delegation that held it before a restart; to be called before any request.
    pub fn restore(
        &mut self,
        by: DelegationId,
        folder: &Path,
        hold: impl Into<Hold>,
    ) -> Result<(), LockError> {
        if self.knows(&by) {
            return Err(LockError::Twice { by });
        }
        let claim = Claim {
            by,
            folder: folder.to_owned(),
            hold: hold.into(),
        };
        if let Some(other) = self.held.iter().find(|other| other.conflicts(&claim)) {
            return Err(LockError::Conflict {
                folder: other.folder.clone(),
                by: other.by.clone(),
            });
        }
        self.held.push(claim);
        Ok(())
    }

    /// Gives up the folder, or the place in the queue; names those who have theirs now. Giving up twice is no error.
    pub fn release(&mut self, by: &DelegationId) -> Vec<DelegationId> {
        self.held.retain(|claim| claim.by != *by);
        self.waiting.retain(|claim| claim.by != *by);
        let mut granted = Vec::new();
        let mut still_waiting = VecDeque::new();
        for claim in self.waiting.drain(..) {
            let blocked = self
                .held
                .iter()
                .chain(&still_waiting)
                .any(|other| other.conflicts(&claim));
            if blocked {
                still_waiting.push_back(claim);
            } else {
                granted.push(claim.by.clone());
                self.held.push(claim);
            }
        }
        self.waiting = still_waiting;
        granted
    }

    pub fn holds(&self, by: &DelegationId) -> bool {
        self.held.iter().any(|claim| claim.by == *by)
    }

    /// Nobody holds or waits.
    pub fn is_idle(&self) -> bool {
        self.held.is_empty() && self.waiting.is_empty()
    }

    fn knows(&self, by: &DelegationId) -> bool {
        let mut all = self.held.iter().chain(&self.waiting);
        all.any(|claim| claim.by == *by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Name, delegation::Access};

    fn id(text: &str) -> DelegationId {
        DelegationId(Name::parse(text).unwrap())
    }

    /// `a:rw:/p` asks, `-a` gives up; gives everything that was said, `a` for a grant.
    fn check(story: &str, expected: &str) {
        let mut locks = Locks::default();
        let mut said = Vec::new();
        for word in story.split(' ') {
            if let Some(by) = word.strip_prefix('-') {
                let granted = locks.release(&id(by));
                said.extend(granted.iter().map(ToString::to_string));
                continue;
            }
            let mut parts = word.split(':');
            let by = parts.next().unwrap();
            let hold = match parts.next().unwrap() {
                "rw" => Hold::Write,
                "merge" => Hold::Merge,
                _ => Hold::Read,
            };
            let folder = Path::new(parts.next().unwrap());
            match locks.request(id(by), folder, hold).unwrap() {
                LockDecision::Granted => said.push(by.to_owned()),
                LockDecision::Queued { before } => said.push(format!("{by}+{before}")),
            }
        }
        assert_eq!(said.join(" "), expected, "{story}");
    }

    #[test]
    fn a_writer_excludes_everybody_above_and_below() {
        check("a:rw:/p b:rw:/p -a", "a b+0 b");
        check("a:rw:/p b:ro:/p/q/r -a", "a b+0 b");
        check("a:rw:/p/q b:rw:/p -a", "a b+0 b");
        check("a:ro:/p b:rw:/p/q -a", "a b+0 b");
    }

    #[test]
    fn readers_share_and_disjoint_folders_do_not_meet() {
        check("a:ro:/p b:ro:/p c:ro:/p/q", "a b c");
        check("a:rw:/p/a b:rw:/p/b c:rw:/pa", "a b c");
        check("a:rw:/p b:rw:/pq", "a b");
    }

    #[test]
    fn those_who_merge_share_among_themselves_alone() {
        check("a:merge:/p b:merge:/p c:merge:/p/q", "a b c");
        check("a:merge:/p w:rw:/p b:merge:/p -a -w", "a w+0 b+1 w b");
        check("a:merge:/p r:ro:/p/q -a", "a r+0 r");
        check("r:ro:/p a:merge:/p -r", "r a+0 a");
    }

    #[test]
    fn nobody_overtakes_whom_he_would_exclude() {
        check("a:ro:/p w:rw:/p b:ro:/p -a -w", "a w+0 b+1 w b");
        check("a:rw:/p b:rw:/p c:rw:/q d:rw:/p -a -b", "a b+0 c d+1 b d");
        check(
            "a:rw:/p b:ro:/p c:ro:/p/x d:rw:/p -a -b -c",
            "a b+0 c+1 d+2 b c d",
        );
    }

    #[test]
    fn leaving_the_queue_lets_those_behind_move_up() {
        check("a:ro:/p w:rw:/p b:ro:/p -w -w", "a w+0 b+1 b");
        check("a:rw:/p b:rw:/p -b -a", "a b+0");
    }

    #[test]
    fn asking_twice_is_refused_and_the_queue_is_bounded() {
        let mut locks = Locks::default();
        let folder = Path::new("/p");
        locks.request(id("a"), folder, Access::Rw).unwrap();
        assert_eq!(
            locks.request(id("a"), folder, Access::Rw),
            Err(LockError::Twice { by: id("a") })
        );
        for index in 0..LOCK_QUEUE_MAX {
            let by = id(&format!("w{index}"));
            locks.request(by, folder, Access::Rw).unwrap();
        }
        assert_eq!(
            locks.request(id("z"), folder, Access::Ro),
            Err(LockError::QueueFull)
        );
        assert!(locks.holds(&id("a")) && !locks.holds(&id("w0")));
    }

    #[test]
    fn what_was_held_is_held_again_after_a_restart() {
        let mut locks = Locks::default();
        locks.restore(id("a"), Path::new("/p"), Access::Rw).unwrap();
        let error = locks.restore(id("b"), Path::new("/p/q"), Access::Ro);
        assert_eq!(
            error.unwrap_err().to_string(),
            "/p is held by a, which excludes this"
        );
        let queued = locks.request(id("c"), Path::new("/p"), Access::Rw).unwrap();
        assert_eq!(queued, LockDecision::Queued { before: 0 });
        assert_eq!(locks.release(&id("a")), [id("c")]);
        locks.release(&id("c"));
        assert!(locks.is_idle());
    }
}
