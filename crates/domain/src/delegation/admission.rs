//! Who is let in: how large a workspace may be lent, and which invitations a remote takes.

use std::{ops::ControlFlow, time::Duration};

use serde::{Deserialize, Serialize};

use super::{Access, Code, Failure, Offer, Transport};

/// What a host lends unless it is told otherwise: more than that makes a mount crawl.
pub const SIZE_MAX: SizeMax = SizeMax {
    bytes: 1 << 30,
    files: 100_000,
    file_bytes: 256 << 20,
};

/// The largest workspace that is lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeMax {
    pub bytes: u64,
    pub files: u64,
    pub file_bytes: u64,
}

impl SizeMax {
    /// Whether so many files may be lent, before anything else is known of them.
    pub fn check_files(self, files: u64) -> Result<(), Failure> {
        if files <= self.files {
            return Ok(());
        }
        let message = format!(
            "the workspace has at least {files} files; at most {} are lent",
            self.files
        );
        Err(Failure::new(Code::WorkspaceTooLarge, message))
    }
}

/// How large a workspace is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    pub bytes: u64,
    pub files: u64,
    pub largest_file: u64,
}

/// Counts a workspace as it is walked, and says when to stop walking.
#[derive(Debug, Clone)]
pub struct Preflight {
    max: SizeMax,
    size: Size,
}

impl Preflight {
    pub fn new(max: SizeMax) -> Self {
        Self {
            max,
            size: Size::default(),
        }
    }

    /// One more file. `Break` means that the verdict cannot change any more, so a huge tree costs no more than a
    /// large one.
    pub fn file(&mut self, bytes: u64) -> ControlFlow<()> {
        self.size.bytes = self.size.bytes.saturating_add(bytes);
        self.size.files += 1;
        self.size.largest_file = self.size.largest_file.max(bytes);
        if self.is_over() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn is_over(&self) -> bool {
        self.size.bytes > self.max.bytes
            || self.size.files > self.max.files
            || self.size.largest_file > self.max.file_bytes
    }

    /// The size, or a refusal with the figures.
    pub fn finish(self) -> Result<Size, Failure> {
        if !self.is_over() {
            return Ok(self.size);
        }
        let Size {
            bytes,
            files,
            largest_file,
        } = self.size;
        let message = format!(
            "the workspace has at least {bytes} bytes in {files} files, the largest of {largest_file} bytes; \
             at most {} bytes in {} files, none over {} bytes, are lent",
            self.max.bytes, self.max.files, self.max.file_bytes
        );
        Err(Failure::new(Code::WorkspaceTooLarge, message))
    }
}

/// What a remote takes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// Delegations at once, invitations that wait for START among them.
    pub delegations_max: usize,
    pub ttl_max: Duration,
    pub access_max: Access,
    /// What works on this machine.
    pub transports: Vec<Transport>,
}

/// What a remote answers an offer with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    pub access: Access,
    pub ttl: Duration,
    pub transport: Transport,
}

impl Admission {
    /// Decides on an offer while `live` delegations have not ended, this one not counted.
    pub fn admit(&self, offer: &Offer, live: usize) -> Result<Admitted, Failure> {
        if live >= self.delegations_max {
            let max = self.delegations_max;
            return Err(Failure::with_hint(
                Code::Declined,
                format!("{live} delegations are here already, at most {max} are taken at once"),
                "try again when one of them has ended",
            ));
        }
        if offer.ttl.is_zero() {
            return Err(Failure::with_hint(
                Code::Declined,
                "a lease of no time is no lease",
                "offer at least one second",
            ));
        }
        let works = |transport: &&Transport| self.transports.contains(transport);
        let Some(transport) = offer.transports.iter().find(works) else {
            return Err(Failure::new(
                Code::DepMissing,
                "none of the offered transports works on this machine",
            ));
        };
        Ok(Admitted {
            access: offer.access.min(self.access_max),
            ttl: offer.ttl.min(self.ttl_max),
            transport: *transport,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: SizeMax = SizeMax {
        bytes: 100,
        files: 3,
        file_bytes: 60,
    };

    fn walk(files: &[u64]) -> (usize, Result<Size, Failure>) {
        let mut preflight = Preflight::new(MAX);
        let mut walked = 0;
        for bytes in files {
            walked += 1;
            if preflight.file(*bytes).is_break() {
                break;
            }
        }
        (walked, preflight.finish())
    }

    #[test]
    fn a_workspace_within_every_limit_passes_with_its_size() {
        let size = Size {
            bytes: 100,
            files: 3,
            largest_file: 60,
        };
        assert_eq!(walk(&[60, 40, 0]), (3, Ok(size)));
    }

    #[test]
    fn a_large_workspace_is_refused_with_figures_as_soon_as_it_is_known() {
        for (files, walked) in [
            (&[61, 1, 1, 1, 1][..], 1),
            (&[60, 41, 1, 1][..], 2),
            (&[1, 1, 1, 1, 1, 1, 1][..], 4),
            (&[u64::MAX, u64::MAX][..], 1),
        ] {
            let (seen, verdict) = walk(files);
            let failure = verdict.unwrap_err();
            assert_eq!(
                (seen, failure.code),
                (walked, Code::WorkspaceTooLarge),
                "{files:?}"
            );
            assert!(!failure.hint.is_empty());
        }
        let (_, verdict) = walk(&[50, 51]);
        assert_eq!(
            verdict.unwrap_err().message,
            "the workspace has at least 101 bytes in 2 files, the largest of 51 bytes; \
             at most 100 bytes in 3 files, none over 60 bytes, are lent"
        );
    }

    fn offer(access: Access, ttl: u64, transports: &[Transport]) -> Offer {
        Offer {
            access,
            ttl: Duration::from_secs(ttl),
            transports: transports.to_vec(),
        }
    }

    #[test]
    fn an_invitation_is_lowered_to_what_the_remote_takes() {
        let admission = Admission {
            delegations_max: 2,
            ttl_max: Duration::from_secs(60),
            access_max: Access::Ro,
            transports: vec![Transport::Archive],
        };
        let both = [Transport::Sshfs, Transport::Archive];
        let admitted = Admitted {
            access: Access::Ro,
            ttl: Duration::from_secs(60),
            transport: Transport::Archive,
        };
        assert_eq!(
            admission.admit(&offer(Access::Rw, 3600, &both), 1),
            Ok(admitted)
        );
        let short = Admitted {
            ttl: Duration::from_secs(5),
            ..admitted
        };
        assert_eq!(admission.admit(&offer(Access::Ro, 5, &both), 0), Ok(short));

        let refused = [
            (offer(Access::Ro, 5, &both), 2, Code::Declined),
            (offer(Access::Ro, 0, &both), 0, Code::Declined),
            (
                offer(Access::Ro, 5, &[Transport::Sshfs]),
                0,
                Code::DepMissing,
            ),
        ];
        for (offer, live, code) in refused {
            assert_eq!(admission.admit(&offer, live).unwrap_err().code, code);
        }
    }
}
