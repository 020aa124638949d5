//! Who may lend, what is refused before anything is made, and lending through other faces.

use std::fs;

use serde_json::json;
use testkit::TestDaemon;

use super::{Pair, read};
use crate::{network::http::Http, node};

#[test]
fn a_peer_without_the_right_lends_nothing_and_is_told_what_it_lacks() {
    let pair = Pair::new();
    let folder = pair.folder(&[("a.txt", "one\n")]);
    let made = pair
        .remote
        .cli(&["token", "create", "other", "--right", "a2a", "-f", "quiet"]);
    fs::write(&pair.token, made.stdout).unwrap();
    let refused = pair.delegate(&folder, "/pwd", &[]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("AUTH_FAILED"), "{refused:?}");
    fs::write(&pair.token, "act_nobodys\n").unwrap();
    let refused = pair.delegate(&folder, "/pwd", &[]);
    assert_eq!(refused.code, 1, "{refused:?}");
    pair.left_nothing();
}

#[test]
fn secrets_and_what_is_too_large_stay_at_home_and_nothing_is_made() {
    let pair = Pair::new();
    let folder = pair.folder(&[("a.txt", "one\n"), (".env", "KEY=1\n")]);
    let refused = pair.delegate(&folder, "/pwd", &[]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains(".env"), "{refused:?}");
    assert_eq!(
        pair.host.cli(&["delegation", "list", "-f", "quiet"]).stdout,
        ""
    );
    let lent = pair.delegate(&folder, "/run cat .env", &["--lend-secrets"]);
    assert!(lent.code == 0 && lent.stdout.contains("KEY=1"), "{lent:?}");
    pair.left_nothing();
}

#[test]
fn a_node_that_takes_nothing_says_so() {
    let pair = Pair::new();
    let folder = pair.folder(&[("a.txt", "one\n")]);
    let unwilling: TestDaemon = node().listening().start();
    let (url, token) = (unwilling.url(), pair.host.scratch("unwilling.token"));
    fs::write(&token, unwilling.token()).unwrap();
    let refused = pair.host.cli(&[
        "delegate",
        &url,
        "/pwd",
        "--dir",
        folder.to_str().unwrap(),
        "--token-file",
        token.to_str().unwrap(),
    ]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("DECLINED"), "{refused:?}");
}

#[test]
fn a_round_follows_another_in_the_same_folder_and_closing_ends_it() {
    let pair = Pair::new();
    let folder = pair.folder(&[("a.txt", "one\n")]);
    let first = pair.begin(&folder, "/run echo two >> a.txt", &[]);
    pair.ended(&first);
    let path = format!("/delegations/{first}/continue");
    let next = Http::owner(&pair.host)
        .post(&path, &json!({"prompt": "/run echo three >> a.txt"}))
        .ok();
    let next = next["id"].as_str().unwrap().to_owned();
    let end = pair.ended(&next);
    assert_eq!(end["continues"], first.as_str(), "{end}");
    assert_eq!(read(folder.join("a.txt")), "one\ntwo\nthree\n");
    let waiting = pair.begin(&folder, "/run sleep 1000", &[]);
    let closed = Http::owner(&pair.host)
        .post(&format!("/delegations/{waiting}/close"), &json!({}))
        .ok();
    assert_eq!(closed["state"], "cancelled", "{closed}");
    pair.left_nothing();
}
