//! Prompts that a page may send again: each is taken once, however often and however fast it comes.
//!
//! A prompt has a place here from its first moment, before anything is waited for, and is carried out by a task of its own: the
//! line on which it came may die at any time, and whoever sends it again waits for that same task.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use domain::turn::TurnId;
use platform::Tasks;
use tokio::sync::watch;

use crate::answer::Refused;

/// Prompts whose keys are remembered: those that a page may still send again.
const SENT_MAX: usize = 256;

/// What became of a prompt; nothing yet while it is on its way.
type Became = Option<Result<TurnId, Refused>>;

/// The latest prompts. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    latest: Arc<Mutex<VecDeque<Entry>>>,
    tasks: Tasks,
}

#[derive(Debug)]
struct Entry {
    session: String,
    key: String,
    became: watch::Receiver<Became>,
}

impl Sent {
    pub(crate) fn new(tasks: Tasks) -> Self {
        Self {
            latest: Arc::default(),
            tasks,
        }
    }

    /// Sends a prompt to its end, also where whoever asks leaves; one with a key that is known already is waited for instead.
    pub(crate) async fn once(
        &self,
        session: String,
        key: Option<String>,
        send: impl Future<Output = Result<TurnId, Refused>> + Send + 'static,
    ) -> Result<TurnId, Refused> {
        let mut became = match key {
            Some(key) => self.begin(session, key, send),
            None => self.carry_out(|_| {}, send),
        };
        let over = became.wait_for(Option::is_some).await;
        let over = over.ok().and_then(|became| became.clone());
        over.unwrap_or_else(|| Err(Refused::conflict("the node is being stopped")))
    }

    fn begin(
        &self,
        session: String,
        key: String,
        send: impl Future<Output = Result<TurnId, Refused>> + Send + 'static,
    ) -> watch::Receiver<Became> {
        let mut latest = self.lock();
        let mut known = latest.iter();
        if let Some(known) = known.find(|entry| entry.session == session && entry.key == key) {
            return known.became.clone();
        }
        let own = self.clone();
        let (of, with) = (session.clone(), key.clone());
        // What was refused may be sent again, and is another try then.
        let forget = move |became: &Result<TurnId, Refused>| {
            if became.is_err() {
                let is_other = |entry: &Entry| entry.session != of || entry.key != with;
                own.lock().retain(is_other);
            }
        };
        let became = self.carry_out(forget, send);
        if latest.len() >= SENT_MAX {
            latest.pop_front();
        }
        latest.push_back(Entry {
            session,
            key,
            became: became.clone(),
        });
        became
    }

    fn carry_out(
        &self,
        before_told: impl FnOnce(&Result<TurnId, Refused>) + Send + 'static,
        send: impl Future<Output = Result<TurnId, Refused>> + Send + 'static,
    ) -> watch::Receiver<Became> {
        let (tell, became) = watch::channel(None);
        drop(self.tasks.spawn(|stop| async move {
            if let Some(sent) = stop.run_until_cancelled(send).await {
                before_told(&sent);
                let _ = tell.send(Some(sent)); // Nobody waits any more.
            }
        }));
        became
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn counted(count: &Arc<AtomicU64>) -> impl Future<Output = Result<TurnId, Refused>> + use<> {
        let count = count.clone();
        async move {
            tokio::task::yield_now().await;
            Ok(TurnId(count.fetch_add(1, Ordering::Relaxed) + 1))
        }
    }

    #[tokio::test]
    async fn a_prompt_is_taken_once_however_many_lines_it_comes_on() {
        let (sent, count) = (Sent::new(Tasks::new()), Arc::default());
        let once = |session: &str, key: &str| {
            sent.once(session.to_owned(), Some(key.to_owned()), counted(&count))
        };
        let (first, second) = tokio::join!(once("s", "k"), once("s", "k"));
        assert_eq!((first.unwrap(), second.unwrap()), (TurnId(1), TurnId(1)));
        assert_eq!(once("t", "k").await.unwrap(), TurnId(2));
        assert_eq!(once("s", "l").await.unwrap(), TurnId(3));
        assert_eq!(once("s", "k").await.unwrap(), TurnId(1));
    }

    #[tokio::test]
    async fn a_prompt_is_carried_out_and_known_though_its_line_dies_at_once() {
        let (sent, count) = (Sent::new(Tasks::new()), Arc::default());
        let mut line = Box::pin(sent.once("s".to_owned(), Some("k".to_owned()), counted(&count)));
        let begun =
            std::future::poll_fn(|context| std::task::Poll::Ready(line.as_mut().poll(context)));
        assert!(begun.await.is_pending());
        drop(line);
        let again = sent.once("s".to_owned(), Some("k".to_owned()), counted(&count));
        assert_eq!(again.await.unwrap(), TurnId(1));
    }

    #[tokio::test]
    async fn what_was_refused_may_be_sent_again_and_the_oldest_makes_room() {
        let (sent, count) = (Sent::new(Tasks::new()), Arc::default());
        let key = |number: usize| Some(format!("k{number}"));
        let refused = sent.once("s".to_owned(), key(0), async { Err(Refused::bad("no")) });
        assert!(refused.await.is_err());
        for number in 0..=SENT_MAX {
            sent.once("s".to_owned(), key(number), counted(&count))
                .await
                .unwrap();
        }
        let turn = sent
            .once("s".to_owned(), key(1), counted(&count))
            .await
            .unwrap();
        assert_eq!(turn, TurnId(2));
        let turn = sent
            .once("s".to_owned(), key(0), counted(&count))
            .await
            .unwrap();
        assert!(turn.0 > 257, "{turn:?}");
    }
}
