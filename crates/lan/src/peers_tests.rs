//! Tests of the registry: who is kept, moved, marked and refused.

use serde_json::{Value, json};

use super::*;
use crate::test_support::{FakePeer, Manner, TestNode};

async fn radio(name: &str) -> FakePeer {
    FakePeer::start(name, &[("radio", "电台搜索与播放控制")], Manner::Does("ok")).await
}

fn sighting(peer: &FakePeer, version: &str) -> Sighting {
    Sighting {
        agent_id: peer.id.clone(),
        name: "announced".to_owned(),
        version: Some(version.to_owned()),
        url: peer.url.clone(),
    }
}

fn skill(node: &TestNode, alias: &str) -> Option<Value> {
    let path = node
        .configs
        .join(format!("skills/remote/{alias}.skill.yaml"));
    let text = std::fs::read_to_string(path).ok()?;
    Some(serde_saphyr::from_str(&text).unwrap())
}

#[tokio::test]
async fn a_peer_that_appears_is_bound_and_one_that_goes_is_marked() {
    let (node, peer) = (TestNode::plain().await, radio("nova9").await);
    let peers = node.lan.peers();
    peers.sighted(sighting(&peer, "1")).await;
    let seen = peers.show(&peer.id).unwrap();
    assert_eq!(
        (seen.status, seen.origin, seen.name.as_str()),
        (Status::Online, Origin::Found, "nova9")
    );
    assert_eq!(skill(&node, &seen.alias).unwrap()["status"], "online");
    assert_eq!(peers.index().route("放电台").len(), 1);
    peers.gone(&peer.id).await;
    let gone = peers.show(&peer.id).unwrap();
    assert_eq!(gone.status, Status::Offline);
    assert!(gone.last_seen.is_some());
    assert_eq!(skill(&node, &gone.alias).unwrap()["status"], "offline");
    assert_eq!(
        peers.index().route("放电台"),
        [],
        "nobody is sent to who is away"
    );
    assert_eq!(
        node.journal("peer.").await.len(),
        3,
        "added, online, offline"
    );
}

#[tokio::test]
async fn a_new_version_is_fetched_and_the_same_one_is_not() {
    let (node, peer) = (TestNode::plain().await, radio("nova9").await);
    let peers = node.lan.peers();
    peers.sighted(sighting(&peer, "1")).await;
    let capabilities = json!([{ "id": "calendar", "description": "日历" }]);
    peer.says("capabilities", capabilities);
    peers.sighted(sighting(&peer, "1")).await;
    assert_eq!(peers.show(&peer.id).unwrap().capabilities[0].id, "radio");
    peer.says("version", json!("2"));
    peers.sighted(sighting(&peer, "2")).await;
    let seen = peers.show(&peer.id).unwrap();
    assert_eq!(
        (seen.version.as_deref(), seen.capabilities[0].id.as_str()),
        (Some("2"), "calendar")
    );
    assert_eq!(
        skill(&node, &seen.alias).unwrap()["source"]["manifest_version"],
        "2"
    );
}

#[tokio::test]
async fn our_own_announcement_is_ignored() {
    let (node, peer) = (TestNode::plain().await, radio("nova9").await);
    let own = Sighting {
        agent_id: node.id.clone(),
        ..sighting(&peer, "1")
    };
    node.lan.peers().sighted(own).await;
    assert_eq!(node.lan.peers().list(), []);
    peer.says("agent_id", json!(node.id));
    let new = NewPeer {
        url: peer.url.clone(),
        ..NewPeer::default()
    };
    assert!(matches!(
        node.lan.peers().add(new).await,
        Err(LanError::Ourselves)
    ));
}

#[tokio::test]
async fn an_announcement_does_not_take_over_a_peer_that_gets_a_secret() {
    let (node, peer, impostor) = (
        TestNode::plain().await,
        radio("nova9").await,
        radio("evil").await,
    );
    let peers = node.lan.peers();
    let new = NewPeer {
        url: peer.url.clone(),
        token: Some("secret".to_owned()),
        fingerprint: None,
    };
    let known = peers.add(new).await.unwrap();
    impostor.says("agent_id", json!(peer.id));
    let lie = Sighting {
        agent_id: peer.id.clone(),
        ..sighting(&impostor, "9")
    };
    peers.sighted(lie).await;
    let by_alias = Sighting {
        agent_id: known.alias.clone(),
        ..sighting(&impostor, "9")
    };
    peers.sighted(by_alias).await;
    assert_eq!(peers.show(&peer.id).unwrap().url, peer.url);
}

#[tokio::test]
async fn a_node_that_is_added_does_not_take_over_a_peer_that_gets_a_secret() {
    let (node, peer, impostor) = (
        TestNode::plain().await,
        radio("nova9").await,
        radio("evil").await,
    );
    let peers = node.lan.peers();
    let at = |url: &str, token: Option<&str>| NewPeer {
        url: url.to_owned(),
        token: token.map(str::to_owned),
        fingerprint: None,
    };
    peers.add(at(&peer.url, Some("secret"))).await.unwrap();
    impostor.says("agent_id", json!(peer.id));
    let refused = peers.add(at(&impostor.url, None)).await.unwrap_err();
    assert!(
        matches!(refused, LanError::KnownElsewhere { .. }),
        "{refused}"
    );
    assert_eq!(peers.show(&peer.id).unwrap().url, peer.url);
    // Whoever brings a token for the new address means it, and the old one goes with the old address.
    peers.add(at(&impostor.url, Some("other"))).await.unwrap();
    let address = peers.address(&peer.id).unwrap();
    assert_eq!(address.token.as_deref(), Some("other"));
}

#[tokio::test]
async fn another_node_at_the_address_of_a_peer_is_not_that_peer() {
    let (node, peer) = (TestNode::plain().await, radio("nova9").await);
    node.knows(&peer).await;
    peer.says("agent_id", json!("somebody-else"));
    let seen = node.lan.peers().refresh(&peer.id).await.unwrap();
    assert_eq!(seen.status, Status::Offline);
    assert!(seen.trouble.unwrap().contains("another node"));
}

#[tokio::test]
async fn two_peers_with_one_name_have_two_skills() {
    let (node, one, two) = (
        TestNode::plain().await,
        radio("nova9").await,
        radio("nova9").await,
    );
    node.knows(&one).await;
    node.knows(&two).await;
    let aliases: Vec<String> = node
        .lan
        .peers()
        .list()
        .into_iter()
        .map(|peer| peer.alias)
        .collect();
    assert_eq!(aliases.len(), 2);
    assert_eq!(aliases[1], format!("nova9-{}", &two.id[..8]));
    assert!(aliases.iter().all(|alias| skill(&node, alias).is_some()));
}

#[tokio::test]
async fn a_ping_tells_who_is_there_and_marks_who_is_not() {
    let (node, peer) = (TestNode::plain().await, radio("nova9").await);
    node.knows(&peer).await;
    let there = node.lan.peers().ping("nova9").await.unwrap();
    assert!(there.millis.is_some() && there.peer.status == Status::Online);
    peer.dies().await;
    let gone = node.lan.peers().ping("nova9").await.unwrap();
    assert!(gone.millis.is_none() && gone.peer.status == Status::Offline);
    assert!(matches!(
        node.lan.peers().ping("nobody").await,
        Err(LanError::NoPeer { .. })
    ));
}

#[tokio::test]
async fn peers_outlive_the_daemon_and_are_taken_to_be_away_until_they_answer() {
    let (node, peer) = (TestNode::plain().await, radio("nova9").await);
    node.knows(&peer).await;
    let reopened = Peers::open(
        node.lan.peers().node().clone(),
        node.lan.peers().records().clone(),
        Forge::new(node.configs.clone()),
        Tasks::new(),
    );
    let reopened = reopened.await.unwrap();
    assert_eq!(reopened.show("nova9").unwrap().status, Status::Offline);
    assert_eq!(
        reopened.refresh(&peer.id).await.unwrap().status,
        Status::Online
    );
}

#[tokio::test]
async fn a_server_of_the_standard_alone_is_known_by_its_agents() {
    use axum::{Json, Router, routing::get};
    let node = TestNode::plain().await;
    let agents = json!({ "agents": [{ "name": "echo", "description": "says it again" }] });
    let router = Router::new().route("/agents", get(move || async move { Json(agents) }));
    let url = crate::test_support::serve(router, &node.tasks).await;
    let new = NewPeer {
        url,
        ..NewPeer::default()
    };
    let peer = node.lan.peers().add(new).await.unwrap();
    assert!(peer.id.starts_with("at-"), "{}", peer.id);
    assert_eq!(peer.capabilities[0].id, "echo");
    assert_eq!(node.lan.peers().get(&peer.id).unwrap().agents, ["echo"]);
}

#[tokio::test]
async fn a_peer_that_is_removed_is_forgotten_with_its_files() {
    let (node, peer) = (TestNode::plain().await, radio("nova9").await);
    node.knows(&peer).await;
    node.lan.pairing().remove("nova9").await.unwrap();
    assert_eq!(node.lan.peers().list(), []);
    assert_eq!(skill(&node, "nova9"), None);
}

/// Somebody at an address where nobody answers.
fn invented(agent_id: &str, name: &str, host: &str) -> Sighting {
    Sighting {
        agent_id: agent_id.to_owned(),
        name: name.to_owned(),
        version: None,
        url: format!("http://{host}:1"),
    }
}

#[tokio::test]
async fn no_announcement_gets_a_name_that_means_somebody_else() {
    let node = TestNode::plain().await;
    let peers = node.lan.peers();
    let real = "d8d42e69-11b5-4080-9263-a31d6d30cba7";
    let here = "127.0.0.1";
    peers.sighted(invented("cccccccc", "desk", here)).await;
    peers.sighted(invented(real, "desk", here)).await;
    let alias = peers.show(real).unwrap().alias;
    assert_eq!(alias, "desk-d8d42e69");
    // Its name behind an id that begins like its own, and its name as an id.
    let beginning = format!("d8d42e69{}", "0".repeat(24));
    peers.sighted(invented(&beginning, "desk", here)).await;
    peers.sighted(invented(&alias, "other", here)).await;
    assert_eq!(peers.show(&alias).unwrap().id, real);
    assert_eq!(peers.show(&beginning).unwrap().alias, "desk-d8d42e69-2");
    // An id that came first is no name for another.
    peers.sighted(invented("shelf", "x", here)).await;
    peers.sighted(invented("eeeeeeee", "shelf", here)).await;
    assert_eq!(peers.show("shelf").unwrap().id, "shelf");
    assert_eq!(peers.show("eeeeeeee").unwrap().alias, "shelf-eeeeeeee");
    let mut aliases: Vec<String> = peers.list().into_iter().map(|peer| peer.alias).collect();
    aliases.dedup();
    assert_eq!(aliases.len(), peers.list().len());
    let both = peers.show("http://127.0.0.1:1").unwrap_err();
    assert!(matches!(both, LanError::Ambiguous { .. }), "{both}");
}

#[tokio::test]
async fn peers_that_nobody_met_leave_room_for_those_that_answer() {
    let node = TestNode::plain().await;
    let (peers, known) = (node.lan.peers(), radio("known").await);
    peers.sighted(sighting(&known, "1")).await;
    for number in 0..super::room::UNMET_OF_ONE_MAX + 5 {
        let id = format!("invented-{number}");
        peers.sighted(invented(&id, "x", "127.0.0.2")).await;
    }
    assert_eq!(peers.list().len(), 1 + super::room::UNMET_OF_ONE_MAX);
    // A registry that is full of what was only announced.
    for number in peers.list().len()..PEERS_MAX {
        let (id, url) = (
            format!("stranger-{number}"),
            format!("http://127.0.0.1:1/{number}"),
        );
        let mut known = peers.known();
        known.insert(id.clone(), stranger(&id, &id, url, Origin::Found));
    }
    let found = radio("found").await;
    peers.sighted(sighting(&found, "1")).await;
    assert_eq!(peers.show(&found.id).unwrap().status, Status::Online);
    let added = radio("added").await;
    node.knows(&added).await;
    assert_eq!(peers.list().len(), PEERS_MAX);
    assert_eq!(peers.show(&known.id).unwrap().status, Status::Online);
    let kept = node.lan.peers().records();
    let kept = kept.list::<Peer>(KIND, Which::Live, None, 2000).await;
    assert_eq!(
        kept.unwrap().len(),
        3,
        "the store knows those that answered"
    );
}

#[tokio::test]
async fn who_was_chosen_finds_room_among_those_that_were_only_found() {
    let node = TestNode::plain().await;
    let peers = node.lan.peers();
    for number in 0..PEERS_MAX {
        let id = format!("met-{number}");
        let mut met = stranger(
            &id,
            &id,
            format!("http://127.0.0.1:1/{number}"),
            Origin::Found,
        );
        met.last_seen = Some(number as i64 + 1);
        peers.known().insert(id, met);
    }
    let (found, added) = (radio("found").await, radio("added").await);
    peers.sighted(sighting(&found, "1")).await;
    assert!(
        peers.show(&found.id).is_err(),
        "nobody who answered makes way for a stranger"
    );
    node.knows(&added).await;
    assert!(
        peers.show("met-0").is_err(),
        "it was away for the longest time"
    );
    assert_eq!(peers.list().len(), PEERS_MAX);
}

#[tokio::test]
async fn nodes_that_are_made_up_hold_up_nobody() {
    let node = TestNode::plain().await;
    // It accepts, and says nothing for as long as the test lasts.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let sighting = |agent_id: &str, url: String| Sighting {
        agent_id: agent_id.to_owned(),
        name: agent_id.to_owned(),
        version: None,
        url,
    };
    for number in 0..60 {
        let made_up = sighting(
            &format!("made-up-{number}"),
            format!("http://localhost:{port}"),
        );
        let peers = node.lan.peers().clone();
        node.tasks
            .spawn(|_| async move { peers.sighted(made_up).await });
    }
    // Each has been announced before the one that is there is.
    while node.lan.peers().list().len() < 60 {
        tokio::task::yield_now().await;
    }
    let there = FakePeer::start("nova9", &[("radio", "plays")], Manner::Does("ok")).await;
    let found = node
        .lan
        .peers()
        .sighted(sighting(&there.id, there.url.clone()));
    let within = std::time::Duration::from_secs(20);
    tokio::time::timeout(within, found).await.unwrap();
    let shown = node.lan.peers().show(&there.id).unwrap();
    assert_eq!(shown.status, Status::Online);
}
