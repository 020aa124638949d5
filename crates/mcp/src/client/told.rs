//! A transport that tells when it is over, which the library keeps to itself.

use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Another transport, and who waits for its end.
#[derive(Debug)]
pub(super) struct Told<T> {
    transport: T,
    over: CancellationToken,
    /// The loop that reads may end for reasons of its own; it drops us then.
    _dropped: DropGuard,
}

impl<T> Told<T> {
    /// With it comes the token that is cancelled when nothing more is read.
    pub(super) fn new(transport: T) -> (Self, CancellationToken) {
        let over = CancellationToken::new();
        let told = Self {
            transport,
            over: over.clone(),
            _dropped: over.clone().drop_guard(),
        };
        (told, over)
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Told<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.transport.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let received = self.transport.receive().await;
        if received.is_none() {
            self.over.cancel();
        }
        received
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.transport.close().await
    }
}

#[cfg(test)]
mod tests {
    use rmcp::transport::IntoTransport;

    use super::*;

    #[tokio::test]
    async fn the_end_of_the_other_side_is_told_as_soon_as_it_is_read() {
        let (ours, theirs) = tokio::io::duplex(64);
        let transport = IntoTransport::<RoleClient, _, _>::into_transport(tokio::io::split(ours));
        let (mut told, over) = Told::new(transport);
        assert!(!over.is_cancelled());
        drop(theirs);
        assert!(told.receive().await.is_none());
        assert!(over.is_cancelled());
    }

    #[tokio::test]
    async fn a_reader_that_goes_is_told_too() {
        let (told, over) = Told::new(tokio::io::empty());
        drop(told);
        over.cancelled().await;
    }
}
