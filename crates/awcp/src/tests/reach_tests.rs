//! Ways that are cut, that lead nowhere, and that lead to somebody else.

use std::net::{IpAddr, Ipv4Addr};

use domain::delegation::{Access, Code, Ending, Failure, Phase};
use engine::Caller;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use wire::awcp::EXTENSION_URI;

use super::scene::{HERE, PATIENCE, Scene, create, with_sftp};
use crate::{
    AwcpConfig, Create, KnownPeers, Origin,
    peer::{Found, Peers},
};

/// Reads a request without a body, and answers it.
async fn answer(stream: &mut TcpStream, body: &str) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let length = body.len();
    let text = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await.unwrap();
}

#[tokio::test]
async fn a_card_is_asked_for_again_where_a_kept_connection_has_died() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let card = json!({
        "name": "node", "description": "", "version": "1", "skills": [],
        "supportedInterfaces": [
            { "url": format!("{url}/a2a"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0" },
        ],
        "capabilities": { "extensions": [{ "uri": EXTENSION_URI }] },
        "defaultInputModes": [], "defaultOutputModes": [],
    });
    let card = card.to_string();
    let serving = async {
        let (mut first, _) = listener.accept().await.unwrap();
        answer(&mut first, &card).await;
        // The next request over it finds nobody, as after a network that was away.
        first.read_u8().await.unwrap();
        first.set_zero_linger().unwrap();
        drop(first);
        let (mut second, _) = listener.accept().await.unwrap();
        answer(&mut second, &card).await;
        second
    };
    let peers = Peers::new(KnownPeers::default());
    let asking = async {
        for time in ["first", "second"] {
            let found = peers.find(&url, None).await;
            assert!(matches!(found, Ok(Found::Peer(_))), "{time}: {found:?}");
        }
    };
    let both = async { tokio::join!(serving, asking) };
    tokio::time::timeout(PATIENCE, both).await.unwrap();
}

fn failure(view: &crate::DelegationView) -> &Failure {
    match &view.ending {
        Some(Ending::Error(failure)) => failure,
        _ => panic!("{view:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_the_remote_cannot_reach_is_told_so_and_does_not_wait_for_the_lease() {
    // Nobody listens at the port for discarding.
    let host = Scene::new(|config| config.public_url = "http://127.0.0.1:9".to_owned()).await;
    let remote = Scene::new(|_| {}).await;
    let dir = host.workspace(&[("a", "1")]);
    let view = host.lend_on(create(&remote, &dir, "write a 2")).await;
    let told = failure(&view);
    assert_eq!(told.code, Code::MountFailed, "{told:?}");
    assert!(
        told.message
            .contains("the remote could not reach 127.0.0.1:9"),
        "{told:?}"
    );
    assert!(told.hint.contains("listen"), "{told:?}");
    host.gave_back();
    remote.left_nothing(&view.id).await;
}

const INVITED: &str = "d-1";

async fn say(remote: &Scene, message: Value, origin: Origin) -> Value {
    let (data, caller) = (json!({ "awcp": message }), Caller::owner());
    let said = remote.delegations.handle_message(&data, &caller, origin);
    said.await.unwrap()["awcp"].clone()
}

/// Invites, and starts with this way in.
async fn start(remote: &Scene, mount: Value, origin: Origin) -> Value {
    let invite = json!({
        "version": "1", "type": "INVITE", "delegation_id": INVITED,
        "task": { "description": "d", "prompt": "list" },
        "lease": { "ttl_seconds": 60, "access_mode": "rw" },
        "workspace": { "export_name": "w" },
        "requirements": { "transport": "archive" },
    });
    let accept = say(remote, invite, origin).await;
    assert_eq!(accept["type"], "ACCEPT", "{accept}");
    let start = json!({
        "type": "START", "delegation_id": INVITED,
        "lease": { "expires_at": "2999-01-01T00:00:00Z", "access_mode": "rw" },
        "mount": mount,
    });
    say(remote, start, origin).await
}

/// An archive at this address, with these options.
fn archive(url: &str, options: Value) -> Value {
    json!({
        "transport": "archive", "export_locator": url, "credential": { "token": "t" },
        "mount_options": options,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn start_leads_nowhere_but_to_where_the_invitation_came_from() {
    let elsewhere = Origin::Address(IpAddr::from([192, 0, 2, 7]));
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let own = format!("http://{}/x", listener.local_addr().unwrap());
    let other = "http://192.0.2.1:7420/x";
    let endpoint = json!({ "host": "192.0.2.1", "port": 22, "user": "u" });
    for (mount, origin) in [
        (archive(other, json!({})), HERE),
        (archive(&own, json!({ "reply_url": other })), HERE),
        (archive(&own, json!({ "delta_url": other })), HERE),
        // What only this machine reaches is not to be had by whoever is on another one.
        (archive(&own, json!({})), elsewhere),
        (archive(&own, json!({})), Origin::Unknown),
        (
            json!({ "transport": "sshfs", "export_locator": "/", "endpoint": endpoint }),
            HERE,
        ),
    ] {
        let remote = Scene::new(|_| {}).await;
        let answer = start(&remote, mount.clone(), origin).await;
        assert_eq!(answer["code"], "DECLINED", "{mount}: {answer}");
        let words = answer["message"].as_str().unwrap();
        assert!(
            words.contains("not where the invitation came from"),
            "{answer}"
        );
        let view = remote.left_nothing(INVITED).await;
        assert_eq!(view.state, Phase::Error, "{view:?}");
    }
    let nobody = listener.accept().unwrap_err();
    assert_eq!(nobody.kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_owner_names_beside_it_is_gone_to() {
    let named = |config: &mut AwcpConfig| config.sources = vec!["127.0.0.1".to_owned()];
    let remote = Scene::new(named).await;
    let elsewhere = Origin::Address(IpAddr::from([192, 0, 2, 7]));
    let nowhere = archive("http://127.0.0.1:9/x", json!({}));
    let answer = start(&remote, nowhere, elsewhere).await;
    assert_eq!(answer["code"], "MOUNT_FAILED", "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_is_served_where_the_invitation_came_from_or_not_used() {
    let host = Scene::new(|config| {
        with_sftp(config);
        let sftp = config.sftp.as_mut().unwrap();
        sftp.public_host = "192.0.2.1".to_owned();
    })
    .await;
    let remote = Scene::new(|_| {}).await;
    let works = remote.delegations.transports();
    if !works.iter().any(|it| it == "sshfs") {
        return;
    }
    let dir = host.workspace(&[("a", "1")]);
    let lend = Create {
        transports: vec![domain::delegation::Transport::Sshfs],
        access: Access::Ro,
        ..create(&remote, &dir, "list")
    };
    let view = host.lend_on(lend).await;
    let told = failure(&view);
    assert_eq!(told.code, Code::Declined, "{told:?}");
    assert!(told.message.contains("192.0.2.1:"), "{told:?}");
    remote.left_nothing(&view.id).await;
}
