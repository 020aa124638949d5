//! A client that does with channels what no real one would; it leaves no thread behind.

use std::sync::Arc;

use russh::{
    ChannelMsg,
    client::{self, Handle},
    keys::{PrivateKey, PrivateKeyWithHashAlg, PublicKeyOrCertificate},
};

use super::support::{Host, eventually};
use crate::{Access, Grant};

struct Trusting;

impl client::Handler for Trusting {
    type Error = russh::Error;

    async fn check_server_key(&mut self, _: &PublicKeyOrCertificate) -> Result<bool, russh::Error> {
        Ok(true)
    }
}

async fn connect(host: &Host, grant: &Grant) -> Option<Handle<Trusting>> {
    let config = Arc::new(client::Config::default());
    let address = host.server.local_addr();
    let mut session = client::connect(config, address, Trusting).await.unwrap();
    let credential = grant.credential();
    let key = PrivateKey::from_openssh(&credential.private_key).unwrap();
    let key = PrivateKeyWithHashAlg::new(Arc::new(key), None);
    let result = session
        .authenticate_publickey(&credential.user, key)
        .await
        .unwrap();
    result.success().then_some(session)
}

/// Only the listener's own task is left.
async fn assert_nothing_is_left(host: &Host) {
    let alone = async || host.tasks.running() == 1;
    eventually("every thread and connection has ended", alone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn asking_twice_on_one_channel_ends_it_with_its_thread() {
    let host = Host::new().await;
    let grant = host.lend(Access::ReadWrite, None);
    let session = connect(&host, &grant).await.unwrap();
    for _ in 0..20 {
        let mut channel = session.channel_open_session().await.unwrap();
        channel.request_subsystem(true, "sftp").await.unwrap();
        channel.request_subsystem(true, "sftp").await.unwrap();
        let mut replies = Vec::new();
        while let Some(message) = channel.wait().await {
            match message {
                ChannelMsg::Success => replies.push(true),
                ChannelMsg::Failure => replies.push(false),
                ChannelMsg::Close => break,
                _ => {}
            }
        }
        assert_eq!(replies, [true, false]);
    }
    drop(session);
    assert_nothing_is_left(&host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn channels_and_connections_are_bounded_and_given_back() {
    let host = Host::new().await;
    let grant = host.lend(Access::ReadWrite, None);
    let mut sessions = Vec::new();
    for _ in 0..8 {
        sessions.push(connect(&host, &grant).await.unwrap());
    }
    assert!(connect(&host, &grant).await.is_none());
    let mut channels = Vec::new();
    for _ in 0..4 {
        let channel = sessions[0].channel_open_session().await.unwrap();
        channel.request_subsystem(true, "sftp").await.unwrap();
        channels.push(channel);
    }
    assert!(sessions[0].channel_open_session().await.is_err());
    channels.pop().unwrap().close().await.unwrap();
    let freed = async || sessions[0].channel_open_session().await.is_ok();
    eventually("a closed channel makes room", freed).await;
    drop(channels);
    drop(sessions);
    assert_nothing_is_left(&host).await;
    connect(&host, &grant).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_on_a_channel_ends_it() {
    let host = Host::new().await;
    let grant = host.lend(Access::ReadWrite, None);
    let session = connect(&host, &grant).await.unwrap();
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0; 64],
        &[0, 0, 0, 5, 9, 0, 0, 0, 3],
    ] {
        let mut channel = session.channel_open_session().await.unwrap();
        channel.request_subsystem(true, "sftp").await.unwrap();
        channel.data(bytes).await.unwrap();
        let mut data = 0;
        while let Some(message) = channel.wait().await {
            match message {
                ChannelMsg::Data { data: bytes } => data += bytes.len(),
                ChannelMsg::Close => break,
                _ => {}
            }
        }
        assert_eq!(data, 0);
    }
    drop(session);
    assert_nothing_is_left(&host).await;
}
