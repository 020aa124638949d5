//! Tests of pairing: between two nodes over HTTP, and what a stranger can do.

use super::*;
use crate::test_support::{Setup, TestNode, serve, serve_on};

struct Two {
    asking: TestNode,
    asked: TestNode,
    asked_url: String,
}

/// Two nodes that reach each other. Their routers stand without a listener, so tests act as owners themselves.
async fn two() -> Two {
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let setup = Setup {
        name: "desk",
        url: Some(url),
        ..Setup::default()
    };
    let asking = TestNode::start(setup).await;
    serve_on(socket, asking.lan.router(), &asking.tasks);
    let setup = Setup {
        name: "nova9",
        ..Setup::default()
    };
    let asked = TestNode::start(setup).await;
    let asked_url = serve(asked.lan.router(), &asked.tasks).await;
    Two {
        asking,
        asked,
        asked_url,
    }
}

async fn settled(node: &TestNode, id: &str) -> Asked {
    loop {
        let asked = node.lan.pairing().asked(id).unwrap();
        if asked.status != StandingStatus::Waiting {
            return asked;
        }
        tokio::task::yield_now().await;
    }
}

fn rights(rights: &[&str]) -> BTreeSet<String> {
    rights.iter().map(|right| (*right).to_owned()).collect()
}

fn granted(rights: &[&str]) -> Grant {
    Grant {
        rights: Some(self::rights(rights)),
        ..Grant::default()
    }
}

#[tokio::test]
async fn both_sides_show_one_code_and_exchange_tokens_when_it_is_typed() {
    let Two {
        asking,
        asked,
        asked_url,
    } = two().await;
    let mine = asking
        .lan
        .pairing()
        .ask(&asked_url, granted(&["runs:news"]))
        .await
        .unwrap();
    let shown = asked.lan.pairing().waiting();
    assert_eq!(
        (shown.len(), &shown[0].code, shown[0].name.as_str()),
        (1, &mine.code, "desk")
    );
    let typed = format!("{} {}", &mine.code[..3], &mine.code[3..]);
    let accepted = asked
        .lan
        .pairing()
        .accept(&typed, granted(&["runs"]))
        .await
        .unwrap();
    assert_eq!(
        (accepted.id.as_str(), accepted.rights),
        (asking.id.as_str(), rights(&["runs"]))
    );
    assert_eq!(
        settled(&asking, &mine.id).await.status,
        StandingStatus::Accepted
    );
    let there = asking.lan.peers().get(&asked.id).unwrap();
    let here = asked.lan.peers().get(&asking.id).unwrap();
    let given = |node: &TestNode| node.grants.issued.lock().unwrap()[0].clone();
    assert_eq!(
        (&there.token, given(&asked).1),
        (&Some(given(&asked).2), rights(&["runs"]))
    );
    assert_eq!(
        (&here.token, given(&asking).1),
        (&Some(given(&asking).2), rights(&["runs:news"]))
    );
    assert_eq!(given(&asked).0, "peer:desk");
    assert_eq!(asked.lan.pairing().waiting(), []);
    assert_eq!(asked.journal("audit.pairing-accepted").await.len(), 1);
    let shown = serde_json::to_string(&asking.lan.peers().list()).unwrap();
    assert!(!shown.contains(&given(&asked).2), "a list shows no secret");
}

#[tokio::test]
async fn a_wrong_code_pairs_nobody_and_a_refusal_is_told() {
    let Two {
        asking,
        asked,
        asked_url,
    } = two().await;
    let mine = asking
        .lan
        .pairing()
        .ask(&asked_url, Grant::default())
        .await
        .unwrap();
    let wrong = if mine.code == "000000" {
        "000001"
    } else {
        "000000"
    };
    assert!(matches!(
        asked.lan.pairing().accept(wrong, Grant::default()).await,
        Err(LanError::NoPairing)
    ));
    asked.lan.pairing().refuse(&mine.code).await.unwrap();
    assert_eq!(
        settled(&asking, &mine.id).await.status,
        StandingStatus::Refused
    );
    assert!(matches!(
        asked
            .lan
            .pairing()
            .accept(&mine.code, Grant::default())
            .await,
        Err(LanError::NoPairing)
    ));
    assert!(asked.grants.issued.lock().unwrap().is_empty());
}

#[tokio::test]
async fn ending_a_pairing_ends_the_token_and_pairing_again_ends_the_old_one() {
    let Two {
        asking,
        asked,
        asked_url,
    } = two().await;
    for _ in 0..2 {
        let mine = asking
            .lan
            .pairing()
            .ask(&asked_url, Grant::default())
            .await
            .unwrap();
        asked
            .lan
            .pairing()
            .accept(&mine.code, Grant::default())
            .await
            .unwrap();
        settled(&asking, &mine.id).await;
    }
    let issued = |number: usize| format!("id-of-{}", asked.grants.issued.lock().unwrap()[number].2);
    assert_eq!(*asked.grants.revoked.lock().unwrap(), [issued(0)]);
    let ended = asked.lan.pairing().end("desk").await.unwrap();
    assert!(!ended.paired && ended.rights.is_empty());
    assert_eq!(
        *asked.grants.revoked.lock().unwrap(),
        [issued(0), issued(1)]
    );
}

fn asking(commitment: &str) -> Asking {
    Asking {
        agent_id: "stranger".to_owned(),
        name: "s\u{1b}[2J".to_owned(),
        url: None,
        fingerprint: None,
        commitment: commitment.to_owned(),
    }
}

#[tokio::test]
async fn a_request_is_known_to_nobody_without_its_secret() {
    let node = TestNode::plain().await;
    let pairing = node.lan.pairing();
    let nonce = fresh_nonce();
    let opened = pairing.open(asking(&commitment(&nonce)), None).unwrap();
    assert_eq!(
        pairing.waiting(),
        [],
        "nothing is shown before the secret is"
    );
    let claim = |nonce: &str| Claim {
        nonce: nonce.to_owned(),
        token: Some("theirs".to_owned()),
    };
    for (id, nonce) in [
        (opened.id.as_str(), fresh_nonce()),
        ("other", nonce.clone()),
        (&opened.id, String::new()),
    ] {
        assert!(matches!(
            pairing.claim(id, claim(&nonce)).await,
            Err(LanError::NoPairing)
        ));
    }
    let standing = pairing.claim(&opened.id, claim(&nonce)).await.unwrap();
    assert_eq!(
        (standing.status, standing.token),
        (StandingStatus::Waiting, None)
    );
    assert_eq!(pairing.waiting()[0].name, "s[2J");
}

#[tokio::test]
async fn strangers_fill_no_memory_and_codes_expire() {
    let node = TestNode::plain().await;
    let pairing = node.lan.pairing();
    let nonce = fresh_nonce();
    let from = Some("10.0.0.1".parse().unwrap());
    let opened = pairing.open(asking(&commitment(&nonce)), from).unwrap();
    for _ in 1..WAITING_OF_ONE_MAX {
        pairing.open(asking(&commitment(&nonce)), from).unwrap();
    }
    assert!(matches!(
        pairing.open(asking(&commitment(&nonce)), from),
        Err(LanError::PairingBusy)
    ));
    for number in 0..WAITING_MAX - WAITING_OF_ONE_MAX {
        let from = Some(IpAddr::from([10, 0, 1, number as u8]));
        pairing.open(asking(&commitment(&nonce)), from).unwrap();
    }
    assert!(matches!(
        pairing.open(asking(&commitment(&nonce)), None),
        Err(LanError::PairingBusy)
    ));
    let claim = Claim { nonce, token: None };
    pairing.claim(&opened.id, claim.clone()).await.unwrap();
    let code = pairing.waiting()[0].code.clone();
    for request in pairing.requests().waiting.values_mut() {
        request.until = Instant::now();
    }
    assert_eq!(pairing.waiting(), []);
    assert!(matches!(
        pairing.claim(&opened.id, claim).await,
        Err(LanError::NoPairing)
    ));
    assert!(matches!(
        pairing.accept(&code, Grant::default()).await,
        Err(LanError::NoPairing)
    ));
}

#[tokio::test]
async fn what_a_stranger_says_of_itself_is_checked() {
    let node = TestNode::plain().await;
    let pairing = node.lan.pairing();
    let good = asking(&commitment("x"));
    let bad = [
        Asking {
            agent_id: "../x".to_owned(),
            ..good.clone()
        },
        Asking {
            commitment: "short".to_owned(),
            ..good.clone()
        },
        Asking {
            url: Some("file:///etc".to_owned()),
            ..good.clone()
        },
        Asking {
            fingerprint: Some("zz".to_owned()),
            ..good.clone()
        },
        Asking {
            agent_id: node.id.clone(),
            ..good.clone()
        },
    ];
    for asking in bad {
        pairing.open(asking, None).unwrap_err();
    }
    pairing.open(good, None).unwrap();
}
