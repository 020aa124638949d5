//! Archives on their way: written to and read from private files in pieces, so that none is ever whole in memory.

use std::{
    io::{self, Read, Write},
    path::Path,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use platform::{
    ConfinedDir, Tasks,
    confined::{Access, ConfinedError},
};
use tokio_util::sync::CancellationToken;

/// Bytes read at a time: large enough that the disk is busy, small enough for many at once.
const CHUNK: usize = 256 * 1024;

/// Why an archive could not be kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpoolError {
    #[error("it has more than {max} bytes")]
    TooLarge { max: u64 },
    #[error("the connection was lost: {why}")]
    Lost { why: String },
    #[error("could not keep it")]
    Keep(#[from] ConfinedError),
    #[error("could not write it")]
    Write(#[from] io::Error),
    #[error("the node is shutting down")]
    ShuttingDown,
}

/// Fails once somebody has asked to stop, so that long work on a thread ends soon.
pub(crate) struct Stoppable<T> {
    pub(crate) inner: T,
    pub(crate) stop: CancellationToken,
}

impl<T: Write> Write for Stoppable<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stop.is_cancelled() {
            return Err(io::Error::other("it was stopped"));
        }
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<T: Read> Read for Stoppable<T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_cancelled() {
            return Err(io::Error::other("it was stopped"));
        }
        self.inner.read(bytes)
    }
}

impl<T: io::Seek> io::Seek for Stoppable<T> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

/// A new file in `folder`, in place of one that is there.
pub(crate) fn create(
    folder: &Path,
    name: &str,
) -> Result<impl Read + Write + io::Seek + Send + use<>, ConfinedError> {
    let folder = ConfinedDir::open(folder)?;
    match folder.remove_file(name) {
        Err(error) if !error.is_not_found() => return Err(error),
        Ok(()) | Err(_) => {}
    }
    folder.open_file(name, Access::CreateNew)
}

pub(crate) fn open(folder: &Path, name: &str) -> Result<impl Read + Send + use<>, ConfinedError> {
    ConfinedDir::open(folder)?.open_file(name, Access::Read)
}

/// The same for a reader that looks at the end first.
pub(crate) fn open_seekable(
    folder: &Path,
    name: &str,
) -> Result<impl Read + io::Seek + Send + use<>, ConfinedError> {
    ConfinedDir::open(folder)?.open_file(name, Access::Read)
}

/// The bytes of a file, piece by piece.
pub(crate) fn pieces<R: Read + Send + 'static>(
    file: R,
    tasks: Tasks,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    stream::unfold(Some((file, tasks)), |state| async {
        let (mut file, tasks) = state?;
        let reading = tasks.spawn_blocking(move |_| {
            let mut piece = vec![0; CHUNK];
            let read = file.read(&mut piece);
            (read, piece, file)
        });
        match reading.await {
            Ok((Ok(0), _, _)) => None,
            Ok((Ok(length), mut piece, file)) => {
                piece.truncate(length);
                Some((Ok(Bytes::from(piece)), Some((file, tasks))))
            }
            Ok((Err(error), _, _)) => Some((Err(error), None)),
            Err(_) => Some((Err(io::ErrorKind::Interrupted.into()), None)),
        }
    })
}

/// The same pieces, and an error in the place of the next one once they may not be had any more.
pub(crate) fn until(
    pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    over: CancellationToken,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let ended = over.clone();
    let end = stream::once(async move { ended.is_cancelled() })
        .filter(|is_over| std::future::ready(*is_over))
        .map(|_| Err(io::Error::other("the lease is over")));
    pieces.take_until(over.cancelled_owned()).chain(end)
}

/// Writes a stream of at most `max` bytes to a file.
pub(crate) async fn keep<E: std::fmt::Display>(
    folder: &Path,
    name: &str,
    incoming: impl Stream<Item = Result<Bytes, E>>,
    max: u64,
    tasks: &Tasks,
) -> Result<u64, SpoolError> {
    let mut file = create(folder, name)?;
    let mut incoming = std::pin::pin!(incoming);
    let mut total = 0_u64;
    while let Some(piece) = incoming.next().await {
        let piece = piece.map_err(|error| SpoolError::Lost {
            why: error.to_string(),
        })?;
        total += piece.len() as u64;
        if total > max {
            return Err(SpoolError::TooLarge { max });
        }
        let writing = tasks.spawn_blocking(move |_| {
            let written = file.write_all(&piece);
            (written, file)
        });
        let (written, back) = writing.await.map_err(|_| SpoolError::ShuttingDown)?;
        written?;
        file = back;
    }
    Ok(total)
}

/// Gives a finished file its name, in place of one that is there. Blocks.
pub(crate) fn replace(folder: &Path, from: &str, to: &str) -> Result<(), ConfinedError> {
    ConfinedDir::open(folder)?.rename(from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_more_is_read_once_it_is_over() {
        let piece = || Ok(Bytes::from_static(b"x"));
        let whole = until(stream::iter([piece(), piece()]), CancellationToken::new());
        let read: Vec<_> = whole.collect().await;
        assert!(
            read.len() == 2 && read.iter().all(Result::is_ok),
            "{read:?}"
        );
        let over = CancellationToken::new();
        let endless = stream::repeat_with(move || Ok(Bytes::from_static(b"x")));
        let mut endless = std::pin::pin!(until(endless, over.clone()));
        assert!(endless.next().await.unwrap().is_ok());
        over.cancel();
        assert!(endless.next().await.unwrap().is_err());
        assert!(endless.next().await.is_none());
    }
}
