//! Unpacking a `.tar.zst` into an empty folder, with every limit checked before anything is written.

use std::{
    cell::Cell,
    io::{self, BufReader, Read},
};

use zstd::stream::read::Decoder;

use crate::{
    ArchiveError, Checksum, Folder, Limits, Manifest, Problem,
    checksum::Summing,
    error::{reading, smuggle},
    limits::{OVERHEAD_PER_ENTRY, RATIO_FROM},
    plant::Planting,
    tar_read::read_tar,
};

/// What was unpacked.
#[derive(Debug)]
pub struct Unpacked {
    pub manifest: Manifest,
    /// Of the archive.
    pub checksum: Checksum,
    /// Of the archive.
    pub bytes: u64,
}

/// Unpacks into `into`, which must be empty. After an error it holds part of the tree, and its owner removes it.
pub fn unpack(
    source: impl Read,
    expected: Option<Checksum>,
    into: &Folder,
    limits: &Limits,
) -> Result<Unpacked, ArchiveError> {
    let mut planting = Planting::new(into, limits)?;
    let taken = Cell::new(0);
    let counted = Counted {
        inner: Summing::new(source),
        taken: &taken,
    };
    let decoder = Decoder::with_buffer(BufReader::new(counted)).map_err(reading)?;
    let mut metered = Metered {
        inner: decoder,
        given: 0,
        taken: &taken,
        limits,
    };
    read_tar(&mut metered, &mut planting, limits)?;
    // Whatever follows the end mark counts too, so that the sum is that of the whole archive.
    io::copy(&mut metered, &mut io::sink()).map_err(reading)?;
    let counted = metered.inner.finish().into_inner();
    let (_, checksum, bytes) = counted.inner.finish();
    if let Some(expected) = expected.filter(|expected| *expected != checksum) {
        return Err(Problem::Checksum {
            expected: expected.to_string(),
            found: checksum.to_string(),
        }
        .into());
    }
    Ok(Unpacked {
        manifest: planting.finish()?,
        checksum,
        bytes,
    })
}

/// Tells how much of the archive has been read.
struct Counted<'a, R> {
    inner: Summing<R>,
    taken: &'a Cell<u64>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.taken.set(self.inner.bytes);
        Ok(count)
    }
}

/// Stops a stream that grows too much, or too fast for its archive.
struct Metered<'a, R> {
    inner: R,
    given: u64,
    taken: &'a Cell<u64>,
    limits: &'a Limits,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.given += count as u64;
        let overhead = self.limits.entries.saturating_mul(OVERHEAD_PER_ENTRY);
        if self.given > self.limits.bytes.saturating_add(overhead) {
            let max = self.limits.bytes;
            return Err(smuggle(Problem::TooManyBytes { max }));
        }
        let max = self.limits.ratio;
        if self.given > RATIO_FROM && self.given / max > self.taken.get() {
            return Err(smuggle(Problem::Ratio { max }));
        }
        Ok(count)
    }
}
