//! One SSH connection: who may log in, and that there is nothing here but SFTP.

use std::{collections::HashMap, sync::Arc};

use russh::{
    Channel, ChannelId, ChannelWriteHalf, Pty,
    keys::PublicKey,
    server::{Auth, ChannelOpenHandle, Handler, Msg, PublicKeyOffer, Session, VerifiedPublicKey},
};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::{
    export::{Counted, Lent},
    server::Exports,
    worker::{self, Inbox, Outlet},
};

/// Channels of one connection; clients use a single one.
const CHANNELS_MAX: usize = 4;

/// What the handler of a connection knows.
pub(crate) struct Connection {
    exports: Arc<Exports>,
    /// Tells the connection's task whose it is, once that is known.
    admitted: Option<oneshot::Sender<Arc<Lent>>>,
    guest: Option<Guest>,
    channels: HashMap<ChannelId, Opened>,
}

/// Somebody who has logged in.
struct Guest {
    lent: Arc<Lent>,
    _place: Counted,
}

enum Opened {
    /// Nothing has been asked for yet.
    Idle(ChannelWriteHalf<Msg>),
    Serving(Serving),
}

/// A channel with a thread, which ends when this is dropped: also one that waits for a client who does not read.
struct Serving {
    inbox: Arc<Inbox>,
    gone: CancellationToken,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.gone.cancel();
        self.inbox.close();
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("the SSH session failed")]
    Ssh(#[from] russh::Error),
    #[error("the client sends without reading")]
    Flooded,
}

impl Connection {
    pub(crate) fn new(exports: Arc<Exports>, admitted: oneshot::Sender<Arc<Lent>>) -> Connection {
        Connection {
            exports,
            admitted: Some(admitted),
            guest: None,
            channels: HashMap::new(),
        }
    }

    fn lent(&self, user: &str, key: &PublicKey) -> Option<Arc<Lent>> {
        let lent = self.exports.find(user)?;
        (lent.key.key_data() == key.key_data() && !lent.is_over()).then_some(lent)
    }
}

/// Says no to a request on a channel and ends the channel: there is nothing else to do on it.
fn refuse(channel: ChannelId, session: &mut Session) -> Result<(), ConnectionError> {
    session.channel_failure(channel)?;
    session.close(channel)?;
    Ok(())
}

// Channels for forwarding, in either direction, are refused by the library's defaults: their handles are dropped.
impl Handler for Connection {
    type Error = ConnectionError;

    async fn auth_publickey_offered(
        &mut self,
        user: &str,
        offer: PublicKeyOffer<'_>,
    ) -> Result<Auth, ConnectionError> {
        Ok(match self.lent(user, offer.public_key) {
            Some(_) => Auth::Accept,
            None => Auth::reject(),
        })
    }

    async fn auth_publickey(
        &mut self,
        user: &str,
        key: VerifiedPublicKey<'_>,
    ) -> Result<Auth, ConnectionError> {
        let Some(lent) = self.lent(user, key.public_key) else {
            return Ok(Auth::reject());
        };
        let Some(place) = lent.take_connection() else {
            tracing::warn!(export = %lent.id, "too many connections to an export");
            return Ok(Auth::reject());
        };
        if let Some(admitted) = self.admitted.take() {
            let _ = admitted.send(Arc::clone(&lent)); // The task that waits is ending.
        }
        self.guest = Some(Guest {
            lent,
            _place: place,
        });
        Ok(Auth::Accept)
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), ConnectionError> {
        if self.channels.len() < CHANNELS_MAX {
            let id = channel.id();
            // What arrives comes through `data`; the half that would read it too is dropped.
            let (_, write) = channel.split();
            self.channels.insert(id, Opened::Idle(write));
            reply.accept().await;
        }
        Ok(())
    }

    async fn subsystem_request(
        &mut self,
        channel: ChannelId,
        name: &str,
        session: &mut Session,
    ) -> Result<(), ConnectionError> {
        let opened = self.channels.remove(&channel);
        let (Some(Opened::Idle(write)), Some(guest), "sftp") = (opened, &self.guest, name) else {
            return refuse(channel, session);
        };
        let serving = Serving {
            inbox: Arc::default(),
            gone: guest.lent.tasks.stop().child_token(),
        };
        session.channel_success(channel)?;
        let inbox = Arc::clone(&serving.inbox);
        worker::serve(&guest.lent, inbox, serving.gone.clone(), write);
        self.channels.insert(channel, Opened::Serving(serving));
        Ok(())
    }

    async fn data(
        &mut self,
        channel: ChannelId,
        data: &[u8],
        _session: &mut Session,
    ) -> Result<(), ConnectionError> {
        match self.channels.get(&channel) {
            Some(Opened::Serving(serving)) => serving
                .inbox
                .put(data)
                .await
                .map_err(|_| ConnectionError::Flooded),
            Some(Opened::Idle(_)) | None => Ok(()),
        }
    }

    async fn channel_eof(
        &mut self,
        channel: ChannelId,
        _session: &mut Session,
    ) -> Result<(), ConnectionError> {
        // The client may still read the replies to what it has asked.
        if let Some(Opened::Serving(serving)) = self.channels.get(&channel) {
            serving.inbox.close();
        }
        Ok(())
    }

    async fn channel_close(
        &mut self,
        channel: ChannelId,
        _session: &mut Session,
    ) -> Result<(), ConnectionError> {
        self.channels.remove(&channel);
        Ok(())
    }

    async fn pty_request(
        &mut self,
        channel: ChannelId,
        _term: &str,
        _columns: u32,
        _rows: u32,
        _width: u32,
        _height: u32,
        _modes: &[(Pty, u32)],
        session: &mut Session,
    ) -> Result<(), ConnectionError> {
        Ok(session.channel_failure(channel)?)
    }

    async fn x11_request(
        &mut self,
        channel: ChannelId,
        _single: bool,
        _protocol: &str,
        _cookie: &str,
        _screen: u32,
        session: &mut Session,
    ) -> Result<(), ConnectionError> {
        Ok(session.channel_failure(channel)?)
    }

    async fn env_request(
        &mut self,
        channel: ChannelId,
        _name: &str,
        _value: &str,
        session: &mut Session,
    ) -> Result<(), ConnectionError> {
        Ok(session.channel_failure(channel)?)
    }

    async fn shell_request(
        &mut self,
        channel: ChannelId,
        session: &mut Session,
    ) -> Result<(), ConnectionError> {
        self.channels.remove(&channel);
        refuse(channel, session)
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        _command: &[u8],
        session: &mut Session,
    ) -> Result<(), ConnectionError> {
        self.channels.remove(&channel);
        refuse(channel, session)
    }
}

impl Outlet for ChannelWriteHalf<Msg> {
    async fn send(&self, bytes: Vec<u8>) -> bool {
        self.data_bytes(bytes).await.is_ok()
    }

    async fn close(&self) {
        // The client may be gone already, and then there is nobody to tell.
        let _ = self.exit_status(0).await;
        let _ = self.eof().await;
        let _ = ChannelWriteHalf::close(self).await;
    }
}
