//! The line in which messages of an editor wait for their way to the agent, so that they arrive in the order in which they came.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use tokio::sync::{Mutex, OwnedMutexGuard};

/// One line; clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Line(Arc<Mutex<()>>);

/// A place in a line.
pub(super) enum Place {
    First(OwnedMutexGuard<()>),
    Waiting(Pin<Box<dyn Future<Output = OwnedMutexGuard<()>> + Send>>),
}

impl Line {
    /// Takes the next place, now.
    pub(super) fn join(&self) -> Place {
        let mut waiting = Box::pin(Arc::clone(&self.0).lock_owned());
        // Whoever waits for this lock gets it in the order of the first time they asked.
        match waiting
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(first) => Place::First(first),
            Poll::Pending => Place::Waiting(waiting),
        }
    }
}

impl Place {
    /// Waits until everybody who came before has gone; dropping what it gives lets the next one go.
    pub(super) async fn reached(self) -> OwnedMutexGuard<()> {
        match self {
            Place::First(first) => first,
            Place::Waiting(waiting) => waiting.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_joined_first_goes_first_whenever_they_ask() {
        let line = Line::default();
        let [first, second, third] = [(), (), ()].map(|()| line.join());
        let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let tell = async |place: Place, name: u8| {
            let _turn = place.reached().await;
            told.send(name).unwrap();
        };
        tokio::join!(tell(third, 3), tell(second, 2), tell(first, 1));
        let order = [(); 3].map(|()| heard.try_recv().unwrap());
        assert_eq!(order, [1, 2, 3]);
    }
}
