//! The thread and the session between them: nobody waits for ever, and nobody holds without bound.

use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::*;
use crate::{Access, tests::support::Folders};

const PATIENCE: Duration = Duration::from_secs(20);

/// An outlet that opens when it is told to.
struct Gate {
    open: watch::Receiver<bool>,
    sent: mpsc::UnboundedSender<Vec<u8>>,
}

impl Outlet for Gate {
    async fn send(&self, bytes: Vec<u8>) -> bool {
        let mut open = self.open.clone();
        open.wait_for(|open| *open).await.is_ok() && self.sent.send(bytes).is_ok()
    }

    async fn close(&self) {}
}

struct Scene {
    _folders: Folders,
    lent: Arc<Lent>,
    inbox: Arc<Inbox>,
    gone: CancellationToken,
    open: watch::Sender<bool>,
    sent: mpsc::UnboundedReceiver<Vec<u8>>,
}

impl Scene {
    fn new() -> Scene {
        let folders = Folders::new();
        let lent = folders.lent(Access::ReadWrite, None);
        let inbox = Arc::new(Inbox::default());
        let (open, is_open) = watch::channel(false);
        let (send, sent) = mpsc::unbounded_channel();
        let gate = Gate {
            open: is_open,
            sent: send,
        };
        let gone = lent.tasks.stop().child_token();
        serve(&lent, Arc::clone(&inbox), gone.clone(), gate);
        Scene {
            _folders: folders,
            lent,
            inbox,
            gone,
            open,
            sent,
        }
    }
}

fn greeting() -> Vec<u8> {
    vec![0, 0, 0, 5, 1, 0, 0, 0, 3]
}

/// A STAT of the root with an id.
fn question(id: u32) -> Vec<u8> {
    [&[0, 0, 0, 10, 17][..], &id.to_be_bytes(), b"\0\0\0\x01/"].concat()
}

#[tokio::test]
async fn requests_cut_anywhere_are_answered_in_their_order() {
    const QUESTIONS: u32 = 200;
    let mut scene = Scene::new();
    scene.open.send_replace(true);
    let mut bytes = greeting();
    for id in 0..QUESTIONS {
        bytes.extend(question(id));
    }
    for piece in bytes.chunks(7) {
        scene.inbox.put(piece).await.unwrap();
    }
    scene.inbox.close();
    let mut replies = Vec::new();
    while let Some(some) = scene.sent.recv().await {
        replies.extend(some);
    }
    let mut ids = Vec::new();
    let mut rest = &replies[..];
    while let Some((head, after)) = rest.split_first_chunk() {
        let (reply, next) = after.split_at(u32::from_be_bytes(*head) as usize);
        ids.push(u32::from_be_bytes(reply[1..5].try_into().unwrap()));
        rest = next;
    }
    assert_eq!(ids[1..], (0..QUESTIONS).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_client_that_does_not_read_is_heard_up_to_the_bound_and_then_ended() {
    let scene = Scene::new();
    scene.inbox.put(&greeting()).await.unwrap();
    let piece: Vec<u8> = (0..1000).flat_map(question).collect();
    let flood = async {
        let mut taken = 0;
        while scene.inbox.put(&piece).await.is_ok() {
            taken += piece.len();
        }
        taken
    };
    // The replies are stuck, and yet the session is never held: it ends the client instead.
    let taken = tokio::time::timeout(PATIENCE, flood).await.unwrap();
    assert!(taken > WAITING_BYTES_MAX - piece.len(), "{taken}");
    assert!(taken < 2 * WAITING_BYTES_MAX, "{taken}");
    let drained = scene.lent.tasks.drain(PATIENCE).await;
    assert_eq!(drained, platform::Drained::Clean);
}

#[tokio::test]
async fn the_end_of_the_lease_ends_a_thread_that_waits_or_sends() {
    for asked in [false, true] {
        let scene = Scene::new();
        if asked {
            scene.inbox.put(&greeting()).await.unwrap();
        }
        let drained = scene.lent.tasks.drain(PATIENCE).await;
        assert_eq!(drained, platform::Drained::Clean, "asked: {asked}");
        scene.inbox.put(&question(1)).await.unwrap();
    }
}

#[tokio::test]
async fn a_channel_that_is_closed_unread_leaves_no_thread_behind() {
    let scene = Scene::new();
    scene.inbox.put(&greeting()).await.unwrap();
    scene.gone.cancel();
    let over = async {
        while scene.lent.tasks.running() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, over).await.unwrap();
}
