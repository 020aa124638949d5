//! Codes and browsers, over a store of their own.

use super::*;

struct Scene {
    _home: tempfile::TempDir,
    records: Records,
    logins: Logins,
}

async fn scene() -> Scene {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("state.db");
    let store = store::Store::open(&file, store::Durability::default()).unwrap();
    let records = Records::new(store);
    Scene {
        _home: home,
        logins: Logins::open(records.clone()).await.unwrap(),
        records,
    }
}

#[tokio::test]
async fn a_code_works_once_and_gives_a_cookie() {
    let Scene { logins, .. } = scene().await;
    let code = logins.code(Caller::owner());
    let cookie = logins.redeem(&code).await.unwrap();
    assert_eq!(logins.caller(&cookie), Some(Caller::owner()));
    assert_eq!(logins.redeem(&code).await, None, "a second time");
    assert_eq!(logins.caller(&code), None, "a code is no cookie");
    logins.log_out(&cookie).await;
    assert_eq!(logins.caller(&cookie), None);
}

#[tokio::test]
async fn whoever_waits_for_the_end_of_a_login_is_told_of_this_one_alone() {
    let Scene { logins, .. } = scene().await;
    let mut cookies = Vec::new();
    for _ in 0..2 {
        let code = logins.code(Caller::owner());
        cookies.push(logins.redeem(&code).await.unwrap());
    }
    let over = logins.over(&cookies[0]);
    tokio::pin!(over);
    for others in [0, 1] {
        let is_over = tokio::select! { biased;
            () = &mut over => true,
            () = std::future::ready(()) => false,
        };
        assert!(!is_over, "after the end of {others} others");
        logins.log_out(&cookies[1]).await;
    }
    logins.log_out(&cookies[0]).await;
    over.await;
    logins.over("never logged in").await;
}

#[tokio::test]
async fn a_code_that_is_too_old_gives_nothing() {
    let Scene { logins, .. } = scene().await;
    let code = logins.code_until(Caller::owner(), Instant::now());
    assert_eq!(logins.redeem(&code).await, None);
}

#[tokio::test]
async fn the_oldest_codes_make_room_for_new_ones() {
    let Scene { logins, .. } = scene().await;
    let codes: Vec<String> = (0..=KEPT_MAX)
        .map(|_| logins.code(Caller::owner()))
        .collect();
    assert_eq!(logins.redeem(&codes[0]).await, None);
    assert!(logins.redeem(&codes[KEPT_MAX]).await.is_some());
}

#[tokio::test]
async fn a_revoked_name_is_logged_out_everywhere_and_for_good() {
    let scene = scene().await;
    let logins = &scene.logins;
    let (code, other) = (logins.code(Caller::owner()), logins.code(Caller::owner()));
    let cookie = logins.redeem(&code).await.unwrap();
    logins.forget("owner").await;
    assert_eq!(logins.caller(&cookie), None);
    assert_eq!(logins.redeem(&other).await, None);
    let again = Logins::open(scene.records).await.unwrap();
    assert_eq!(again.caller(&cookie), None);
}

#[tokio::test]
async fn a_browser_stays_logged_in_over_a_restart_and_its_cookie_is_not_kept() {
    let scene = scene().await;
    let caller = Caller {
        name: "reader".to_owned(),
        rights: Rights::Only(BTreeSet::from(["dashboard".to_owned()])),
    };
    let code = scene.logins.code(caller.clone());
    let cookie = scene.logins.redeem(&code).await.unwrap();
    let rows = scene
        .records
        .list::<serde_json::Value>(KIND, Which::All, None, 10);
    let rows = rows.await.unwrap();
    assert!(!format!("{rows:?}").contains(&cookie), "{rows:?}");

    let again = Logins::open(scene.records.clone()).await.unwrap();
    assert_eq!(again.caller(&cookie), Some(caller));
    again.log_out(&cookie).await;
    let last = Logins::open(scene.records).await.unwrap();
    assert_eq!(last.caller(&cookie), None, "a logout is for good");
}

#[tokio::test]
async fn a_login_whose_time_is_over_is_not_taken_up() {
    let scene = scene().await;
    let hash = SecretHash::of("cookie").to_text();
    let kept = Kept {
        name: "owner".to_owned(),
        rights: None,
        until: now() - 1,
    };
    let put = scene.records.put(KIND, &hash, Keep::Live, &kept, None);
    put.await.unwrap();
    let logins = Logins::open(scene.records.clone()).await.unwrap();
    assert_eq!(logins.caller("cookie"), None);
    let left = scene.records.get::<Kept>(KIND, &hash).await.unwrap();
    assert!(left.is_none());
}
