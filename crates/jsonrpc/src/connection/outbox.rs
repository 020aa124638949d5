//! What is to be written: sends write through it at once, and what the writer would not take
//! waits in a bounded queue until whoever is polled next can go on.
//!
//! The writer only ever sees one waker, which wakes the owner of the connection and everyone who
//! waits for room. So any of them may drive the writing, and none can steal another's wake-up.

use std::{
    collections::VecDeque,
    fmt, io,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use tokio::{io::AsyncWrite, sync::Notify};

use crate::SendError;

/// Lines are joined up to this size for one write; larger writes gain nothing on a socket.
const JOIN_MAX: usize = 64 * 1024;

/// What answers that are owed may take beyond the queue's bound. They are short, and they come
/// from `drop`, which cannot wait; a peer that leaves even these unread is cut off.
const OWED_RESERVE: usize = 1024 * 1024;

pub(super) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// On what grounds a line asks to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// A call or a notification: refused once the input has ended.
    Fresh,
    /// The answer to a request that came in while there was input.
    Answer,
    /// An answer that nobody can wait to send; may use the reserve.
    Owed,
}

/// A line that was not taken.
#[derive(Debug)]
pub(super) enum Refused {
    Full(Vec<u8>),
    Closed,
}

pub(super) struct Outbox {
    queue: Mutex<Queue>,
    /// While set, sends only queue: the owner is working through lines that came in one read, and
    /// their answers go out together.
    corked: AtomicBool,
    signal: Arc<Signal>,
    waker: Waker,
    queued_max: usize,
}

impl Outbox {
    pub(super) fn new(writer: Writer, queued_max: usize) -> Outbox {
        let signal = Arc::new(Signal::default());
        Outbox {
            queue: Mutex::new(Queue::new(writer)),
            corked: AtomicBool::new(false),
            waker: Waker::from(Arc::clone(&signal)),
            signal,
            queued_max,
        }
    }

    /// Hands over a line, waiting for room if need be.
    pub(super) async fn send(&self, mut line: Vec<u8>, claim: Claim) -> Result<(), SendError> {
        loop {
            let mut room = pin!(self.signal.room.notified());
            // Listening before looking, so that room made in between is not missed.
            room.as_mut().enable();
            match self.try_send(line, claim) {
                Ok(()) => return Ok(()),
                Err(Refused::Closed) => return Err(SendError::Closed),
                Err(Refused::Full(refused)) => line = refused,
            }
            room.await;
        }
    }

    pub(super) fn try_send(&self, line: Vec<u8>, claim: Claim) -> Result<(), Refused> {
        let mut queue = self.lock();
        let room = match claim {
            Claim::Fresh if queue.input_ended => return Err(Refused::Closed),
            Claim::Fresh | Claim::Answer => self.queued_max,
            Claim::Owed => self.queued_max.saturating_add(OWED_RESERVE),
        };
        if !queue.fits(line.len(), room) {
            self.drain(&mut queue);
        }
        if queue.writer.is_none() {
            return Err(Refused::Closed);
        }
        if !queue.fits(line.len(), room) {
            return Err(Refused::Full(line));
        }
        queue.push(line);
        if !self.corked.load(Ordering::Relaxed) || queue.queued >= JOIN_MAX {
            self.drain(&mut queue);
        }
        Ok(())
    }

    /// Waits until everything has been written.
    pub(super) async fn flush(&self) -> Result<(), SendError> {
        loop {
            let mut room = pin!(self.signal.room.notified());
            room.as_mut().enable();
            {
                let mut queue = self.lock();
                self.drain(&mut queue);
                match (&queue.writer, queue.is_idle()) {
                    (None, _) => return Err(SendError::Closed),
                    (Some(_), true) => return Ok(()),
                    (Some(_), false) => {}
                }
            }
            room.await;
        }
    }

    pub(super) fn cork(&self, corked: bool) {
        self.corked.store(corked, Ordering::Relaxed);
    }

    /// Lets go of what was held back and writes what the writer takes; `waker` is woken when it
    /// takes more.
    pub(super) fn poll_writing(&self, waker: &Waker) {
        self.signal.set_owner(waker);
        self.cork(false);
        let mut queue = self.lock();
        if !queue.is_idle() {
            self.drain(&mut queue);
        }
    }

    /// Whether the writer has failed or was given up.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().writer.is_none()
    }

    /// The error that ended the writing, if one did and nobody has taken it.
    pub(super) fn take_failure(&self) -> Option<io::Error> {
        self.lock().failure.take()
    }

    pub(super) fn end_input(&self) {
        self.lock().input_ended = true;
        // Those who wait to send something fresh wait in vain.
        self.signal.room.notify_waiters();
    }

    /// Writes what the writer takes at once, and gives it up.
    pub(super) fn close(&self) {
        let writer = {
            let mut queue = self.lock();
            self.drain(&mut queue);
            queue.clear();
            queue.writer.take()
        };
        drop(writer); // Outside the lock: closing may take a system call.
        self.signal.wake_by_ref();
    }

    /// Gives up on a peer that does not read.
    pub(super) fn abandon(&self) {
        let mut queue = self.lock();
        queue.fail(io::Error::new(
            io::ErrorKind::TimedOut,
            "the peer does not read",
        ));
        self.signal.wake_by_ref();
    }

    /// Every way through ends with an idle queue, a writer that holds our waker, or no writer.
    fn drain(&self, queue: &mut Queue) {
        let mut context = Context::from_waker(&self.waker);
        match queue.poll_drain(&mut context) {
            Drained::Nothing => {}
            Drained::Some => self.signal.room.notify_waiters(),
            // The owner must learn that the connection is over.
            Drained::Failed => self.signal.wake_by_ref(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // The queue is whole between any two statements that can panic, which only a foreign
        // writer's can.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Outbox")
            .field("queued", &self.lock().queued)
            .finish()
    }
}

struct Queue {
    /// Absent once it failed or was closed.
    writer: Option<Writer>,
    chunks: VecDeque<Vec<u8>>,
    /// How much of the first chunk is written.
    head: usize,
    /// Bytes not yet written.
    queued: usize,
    /// Something was written since the last complete flush.
    flush_due: bool,
    input_ended: bool,
    failure: Option<io::Error>,
}

enum Drained {
    Nothing,
    Some,
    Failed,
}

impl Queue {
    fn new(writer: Writer) -> Queue {
        Queue {
            writer: Some(writer),
            chunks: VecDeque::new(),
            head: 0,
            queued: 0,
            flush_due: false,
            input_ended: false,
            failure: None,
        }
    }

    fn is_idle(&self) -> bool {
        self.queued == 0 && !self.flush_due
    }

    /// A line always fits an empty queue, or one larger than the bound could never be sent.
    fn fits(&self, length: usize, room: usize) -> bool {
        self.queued == 0 || self.queued.saturating_add(length) <= room
    }

    fn push(&mut self, line: Vec<u8>) {
        self.queued += line.len();
        match self.chunks.back_mut() {
            Some(last) if last.len() + line.len() <= JOIN_MAX => last.extend_from_slice(&line),
            Some(_) | None => self.chunks.push_back(line),
        }
    }

    fn poll_drain(&mut self, context: &mut Context<'_>) -> Drained {
        let mut drained = Drained::Nothing;
        let Some(writer) = self.writer.as_mut() else {
            return drained;
        };
        while let Some(chunk) = self.chunks.front() {
            match Pin::new(&mut *writer).poll_write(context, &chunk[self.head..]) {
                Poll::Ready(Ok(0)) => {
                    self.fail(io::ErrorKind::WriteZero.into());
                    return Drained::Failed;
                }
                Poll::Ready(Ok(written)) => {
                    self.head += written;
                    self.queued -= written;
                    if self.head == chunk.len() {
                        self.chunks.pop_front();
                        self.head = 0;
                    }
                    self.flush_due = true;
                    drained = Drained::Some;
                }
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Poll::Ready(Err(error)) => {
                    self.fail(error);
                    return Drained::Failed;
                }
                Poll::Pending => return drained,
            }
        }
        if self.flush_due {
            match Pin::new(writer).poll_flush(context) {
                Poll::Ready(Ok(())) => {
                    self.flush_due = false;
                    drained = Drained::Some;
                }
                Poll::Ready(Err(error)) => {
                    self.fail(error);
                    return Drained::Failed;
                }
                Poll::Pending => {}
            }
        }
        drained
    }

    fn fail(&mut self, error: io::Error) {
        self.clear();
        self.writer = None;
        self.failure = Some(error);
    }

    fn clear(&mut self) {
        self.chunks.clear();
        self.head = 0;
        self.queued = 0;
        self.flush_due = false;
    }
}

/// Whom the writer wakes.
#[derive(Default)]
struct Signal {
    owner: Mutex<Option<Waker>>,
    /// Those who wait for room, or for the end of a flush.
    room: Notify,
}

impl Signal {
    fn set_owner(&self, waker: &Waker) {
        let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *owner {
            Some(owner) => owner.clone_from(waker),
            None => *owner = Some(waker.clone()),
        }
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let owner = self
            .owner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(owner) = owner {
            owner.wake();
        }
        self.room.notify_waiters();
    }
}
