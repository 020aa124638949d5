//! What a call of somebody else's tells of a peer: that it is there, or that it may not be.

use std::sync::Arc;

use domain::turn::{Raw, Stop};
use engine::{
    About, Driver, DriverError, DriverFuture, Lent, NativeAnswer, NativeMessage, NativeOpen,
    OpenSession, Opened, Turn,
};

use crate::peers::Peers;

/// A driver of an agent at a peer, whose calls are heard of.
#[derive(Debug)]
struct Heard {
    driver: Arc<dyn Driver>,
    node: String,
    peers: Peers,
}

impl Peers {
    /// The driver of an agent at the node that is called so here; what becomes of its calls shows in the list of peers.
    pub fn heard_through(&self, node: String, driver: Arc<dyn Driver>) -> Arc<dyn Driver> {
        Arc::new(Heard {
            driver,
            node,
            peers: self.clone(),
        })
    }
}

impl Heard {
    fn tell(&self, taken: &Result<Stop, DriverError>) {
        match taken {
            // A refusal is an answer too.
            Ok(_) => self.peers.heard(&self.node),
            Err(DriverError::Gone { .. } | DriverError::Silent { .. }) => {
                self.peers.doubt(&self.node)
            }
            Err(
                DriverError::Refused { .. }
                | DriverError::Protocol { .. }
                | DriverError::Unsupported { .. }
                | DriverError::Program { .. },
            ) => {}
        }
    }
}

impl Driver for Heard {
    fn open(&self, open: OpenSession) -> DriverFuture<'_, Result<Opened, DriverError>> {
        self.driver.open(open)
    }

    fn turn(&self, turn: Turn) -> DriverFuture<'_, Result<Stop, DriverError>> {
        Box::pin(async move {
            let taken = self.driver.turn(turn).await;
            self.tell(&taken);
            taken
        })
    }

    fn ended(&self) -> DriverFuture<'_, ()> {
        self.driver.ended()
    }

    fn close<'a>(&'a self, session: &'a str) -> DriverFuture<'a, ()> {
        self.driver.close(session)
    }

    fn is_there(&self) -> DriverFuture<'_, Result<(), DriverError>> {
        self.driver.is_there()
    }

    fn open_with(
        &self,
        open: OpenSession,
        words: NativeOpen,
    ) -> DriverFuture<'_, Result<Opened, DriverError>> {
        self.driver.open_with(open, words)
    }

    fn turn_with(&self, turn: Turn, words: Raw) -> DriverFuture<'_, Result<Stop, DriverError>> {
        Box::pin(async move {
            let taken = self.driver.turn_with(turn, words).await;
            self.tell(&taken);
            taken
        })
    }

    fn said(&self, about: About<'_>) -> Option<Raw> {
        self.driver.said(about)
    }

    fn pass(&self, message: NativeMessage) -> DriverFuture<'_, Result<NativeAnswer, DriverError>> {
        self.driver.pass(message)
    }

    fn lend(&self, conversation: &str, client: Lent) {
        self.driver.lend(conversation, client);
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        Status,
        intents::IntentOptions,
        test_support::{FakePeer, Manner, TestNode},
    };

    /// Says what it was told to say.
    #[derive(Debug)]
    struct Scripted(Result<Stop, DriverError>);

    impl Driver for Scripted {
        fn open(&self, _: OpenSession) -> DriverFuture<'_, Result<Opened, DriverError>> {
            unreachable!("no conversation is opened here")
        }

        fn turn(&self, _: Turn) -> DriverFuture<'_, Result<Stop, DriverError>> {
            Box::pin(std::future::ready(self.0.clone()))
        }

        fn ended(&self) -> DriverFuture<'_, ()> {
            Box::pin(std::future::pending())
        }

        fn close<'a>(&'a self, _: &'a str) -> DriverFuture<'a, ()> {
            Box::pin(std::future::ready(()))
        }
    }

    async fn take_turn(node: &TestNode, peer: &str, told: Result<Stop, DriverError>) {
        let driver = Arc::new(Scripted(told));
        let driver = node.lan.peers().heard_through(peer.to_owned(), driver);
        let turn = Turn {
            session: "s".to_owned(),
            prompt: "hello".to_owned(),
            options: engine::TurnOptions::default(),
            cancel: CancellationToken::new(),
        };
        let _ = driver.turn(turn).await; // What it was told.
    }

    async fn becomes(node: &TestNode, peer: &str, status: Status) {
        let peers = node.lan.peers();
        let mut changes = peers.changes();
        let seen = async {
            while peers.show(peer).unwrap().status != status {
                changes.changed().await.unwrap();
            }
        };
        let patience = std::time::Duration::from_secs(60);
        tokio::time::timeout(patience, seen).await.unwrap();
    }

    #[tokio::test]
    async fn a_call_that_works_marks_its_peer_and_one_that_fails_has_it_looked_at() {
        let node = TestNode::plain().await;
        let radio = &[("radio", "plays stations")];
        let peer = FakePeer::start("nova9", radio, Manner::Does("ok")).await;
        let id = node.knows(&peer).await;
        node.lan.peers().gone(&id).await;
        take_turn(&node, "nova9", Ok(Stop::EndTurn)).await;
        becomes(&node, &id, Status::Online).await;
        // An intent is a call too.
        node.lan.peers().gone(&id).await;
        let options = IntentOptions {
            peer: Some(id.clone()),
            ..IntentOptions::default()
        };
        node.lan.intents().send("play", options).await.unwrap();
        becomes(&node, &id, Status::Online).await;
        // Nobody is taken to be away on somebody else's word: it is asked, and answers.
        let lost = || {
            Err(DriverError::Gone {
                how: "cannot be reached".to_owned(),
            })
        };
        node.lan.peers().gone(&id).await;
        take_turn(&node, "nova9", lost()).await;
        becomes(&node, &id, Status::Online).await;
        peer.dies().await;
        take_turn(&node, "nova9", lost()).await;
        becomes(&node, &id, Status::Offline).await;
    }
}
