//! What the lease, the access and the quota forbid, and packets that no client should send.

use std::{sync::Arc, time::Instant};

use super::{
    raw::{Client, Part, Reply},
    support::Folders,
};
use crate::{
    Access, Act,
    conversation::{Conversation, Over},
    export::HANDLES_MAX,
    protocol::{Outbox, kind},
};

const OK: Reply = Reply::Status(0);
const DENIED: Reply = Reply::Status(3);
const FAILED: Reply = Reply::Status(4);
const CREATE: u32 = 2 | 8;

#[test]
fn a_read_only_export_and_the_meta_folder_refuse_every_change() {
    let folders = Folders::new();
    for (access, folder) in [
        (Access::ReadOnly, "/workspace"),
        (Access::ReadOnly, "/meta"),
        (Access::ReadWrite, "/meta"),
    ] {
        let lent = folders.lent(access, None);
        let mut client = Client::new(Arc::clone(&lent));
        let existing = match folder {
            "/meta" => "/meta/task.json".to_owned(),
            folder => format!("{folder}/file"),
        };
        let new = format!("{folder}/new");
        let (existing_part, new_part) =
            (Part::Text(existing.as_bytes()), Part::Text(new.as_bytes()));
        let changes = [
            client.open(&existing, 2),
            client.open(&existing, 3),
            client.open(&existing, 1 | 8),
            client.open(&new, CREATE),
            client.mkdir(&new),
            client.path(kind::REMOVE, &existing),
            client.path(kind::RMDIR, folder),
            client.paths(kind::RENAME, &existing, &new),
            client.paths(kind::SYMLINK, "file", &new),
            client.extended("posix-rename@openssh.com", &[existing_part, new_part]),
            client.extended("hardlink@openssh.com", &[existing_part, new_part]),
            client.say(
                kind::SETSTAT,
                &[existing_part, Part::U32(4), Part::U32(0o777)],
            ),
            client.say(kind::SETSTAT, &[existing_part, Part::U32(1), Part::U64(0)]),
            client.extended(
                "lsetstat@openssh.com",
                &[existing_part, Part::U32(8), Part::U64(1)],
            ),
        ];
        let count = changes.len();
        assert_eq!(changes.to_vec(), vec![DENIED; count], "{access:?} {folder}");
        let handle = client.opened(&existing, 1);
        assert_eq!(client.write(&handle, 0, b"x"), DENIED);
        assert!(matches!(client.read(&handle), Reply::Data(_)));
        let mode = [Part::Text(&handle), Part::U32(4), Part::U32(0o777)];
        assert_eq!(client.say(kind::FSETSTAT, &mode), DENIED);
        let refused = lent.audit.since(0);
        assert_eq!(refused.len(), count + 2);
        let is_refusal = |record: &crate::Record| matches!(record.act, Act::Refused { .. });
        assert!(refused.iter().all(is_refusal));
    }
}

#[test]
fn the_quota_bounds_growth_however_it_is_tried() {
    let folders = Folders::new();
    let lent = folders.lent(Access::ReadWrite, Some(1000));
    let mut client = Client::new(Arc::clone(&lent));
    let handle = client.opened("/workspace/new", CREATE);
    assert_eq!(client.write(&handle, 0, &[1; 600]), OK);
    assert_eq!(client.write(&handle, 0, &[2; 600]), OK, "no growth");
    assert_eq!(client.write(&handle, 600, &[1; 401]), FAILED);
    assert_eq!(client.write(&handle, 1 << 40, &[1]), FAILED, "a hole");
    let size = |size| [Part::Text(b"/workspace/new"), Part::U32(1), Part::U64(size)];
    assert_eq!(client.say(kind::SETSTAT, &size(1001)), FAILED);
    let size_by_handle = [Part::Text(&handle), Part::U32(1), Part::U64(5000)];
    assert_eq!(client.say(kind::FSETSTAT, &size_by_handle), FAILED);
    let appended = client.opened("/workspace/new", CREATE | 4);
    assert_eq!(client.write(&appended, 0, &[1; 401]), FAILED, "an append");
    let hit = lent.quota.hit().unwrap();
    assert_eq!(
        hit.to_string(),
        "the quota of 1000 bytes is reached: 600 bytes are used, and 401 more were refused"
    );
    assert_eq!(client.write(&appended, 0, &[1; 400]), OK);
    assert_eq!(lent.quota.grown(), 1000);
    assert_eq!(
        std::fs::metadata(folders.workspace("new")).unwrap().len(),
        1000
    );
}

#[test]
fn what_shrinks_or_goes_gives_its_room_back_once_it_is_closed() {
    let folders = Folders::new();
    let lent = folders.lent(Access::ReadWrite, Some(1000));
    let mut client = Client::new(Arc::clone(&lent));
    let grown = |expected: u64| assert_eq!(lent.quota.grown(), expected);
    let write = |client: &mut Client, name: &str| {
        let handle = client.opened(&format!("/workspace/{name}"), CREATE);
        assert_eq!(client.write(&handle, 0, &[1; 500]), OK);
        handle
    };
    let one = write(&mut client, "one");
    assert_eq!(client.path(kind::REMOVE, "/workspace/one"), OK);
    grown(500); // It is open, so it still takes its room.
    assert_eq!(client.close(&one), OK);
    grown(0);
    let two = write(&mut client, "two");
    let three = write(&mut client, "three");
    assert_eq!((client.close(&two), client.close(&three)), (OK, OK));
    grown(1000);
    let paths = [
        Part::Text(b"/workspace/two"),
        Part::Text(b"/workspace/three"),
    ];
    assert_eq!(client.extended("posix-rename@openssh.com", &paths), OK);
    grown(500);
    let four = [
        Part::Text(b"/workspace/three"),
        Part::Text(b"/workspace/four"),
    ];
    assert_eq!(client.extended("hardlink@openssh.com", &four), OK);
    assert_eq!(client.path(kind::REMOVE, "/workspace/three"), OK);
    grown(500); // It has another name.
    let truncated = client.opened("/workspace/four", CREATE | 16);
    assert_eq!(client.close(&truncated), OK);
    grown(0);
    // What was there before the lease earns nothing.
    assert_eq!(client.path(kind::REMOVE, "/workspace/file"), OK);
    grown(0);
}

#[test]
fn nothing_is_performed_after_the_end_of_the_lease() {
    let folders = Folders::new();
    let lent = folders.lent(Access::ReadWrite, None);
    let mut client = Client::new(Arc::clone(&lent));
    let handle = client.opened("/workspace/file", CREATE);
    lent.tasks.cancel();
    let write = [Part::Text(&handle), Part::U64(0), Part::Text(b"late")];
    assert_eq!(client.try_say(kind::WRITE, &write), Err(Over::Lease));
    assert_eq!(std::fs::read(folders.workspace("file")).unwrap(), b"inside");

    let mut export = folders.export(Access::ReadWrite, None);
    export.until = Instant::now();
    let (credential, key) = crate::Credential::generate(String::new()).unwrap();
    let expired = crate::export::Lent::new(export, credential.user, key, platform::Tasks::new());
    let mut conversation = Conversation::new(Arc::new(expired));
    let greeting = [kind::INIT, 0, 0, 0, 3];
    let answer = conversation.answer(&greeting, &mut Outbox::default());
    assert_eq!(answer, Err(Over::Lease));
}

#[test]
fn a_plain_rename_does_not_overwrite_and_the_other_one_does() {
    let folders = Folders::new();
    let mut client = Client::new(folders.lent(Access::ReadWrite, None));
    folders.put("workspace/other", "other");
    let (file, other) = ("/workspace/file", "/workspace/other");
    assert_eq!(client.paths(kind::RENAME, file, other), FAILED);
    assert_eq!(std::fs::read(folders.workspace("other")).unwrap(), b"other");
    let paths = [Part::Text(file.as_bytes()), Part::Text(other.as_bytes())];
    assert_eq!(client.extended("posix-rename@openssh.com", &paths), OK);
    assert_eq!(
        std::fs::read(folders.workspace("other")).unwrap(),
        b"inside"
    );
}

#[test]
fn bad_packets_get_an_answer_with_their_id_and_worse_ones_end_the_conversation() {
    let folders = Folders::new();
    let lent = folders.lent(Access::ReadWrite, None);
    let mut client = Client::new(Arc::clone(&lent));
    for request in kind::OPEN..=kind::SYMLINK {
        assert_eq!(client.say(request, &[]), Reply::Status(5), "type {request}");
    }
    assert_eq!(client.say(77, &[]), Reply::Status(8));
    assert_eq!(client.extended("copy-data", &[]), Reply::Status(8));
    let long = "x/".repeat(4000);
    assert_eq!(client.path(kind::STAT, &long), FAILED);
    assert_eq!(client.try_say(kind::INIT, &[]), Err(Over::Nonsense));
    let mut silent = Conversation::new(lent);
    let mut outbox = Outbox::default();
    for packet in [
        &b""[..],
        &[kind::STAT],
        &[kind::STAT, 0, 0, 0, 1, 0, 0, 0, 0],
    ] {
        assert_eq!(silent.answer(packet, &mut outbox), Err(Over::Nonsense));
    }
}

#[test]
fn open_handles_are_bounded_for_all_connections_together() {
    let folders = Folders::new();
    let lent = folders.lent(Access::ReadWrite, None);
    let (mut one, mut two) = (Client::new(Arc::clone(&lent)), Client::new(lent));
    let half = HANDLES_MAX / 2;
    let handles: Vec<_> = (0..half)
        .map(|_| one.opened("/workspace/file", 1))
        .collect();
    for _ in 0..HANDLES_MAX - half {
        two.opened("/workspace/file", 1);
    }
    assert_eq!(one.open("/workspace/file", 1), FAILED);
    assert_eq!(two.path(kind::OPENDIR, "/workspace"), FAILED);
    assert_eq!(one.close(&handles[0]), OK);
    two.opened("/workspace/file", 1);
    drop(two);
    one.opened("/workspace/file", 1);
}

#[test]
fn limits_and_room_are_told() {
    let folders = Folders::new();
    let lent = folders.lent(Access::ReadOnly, Some(1 << 20));
    let mut client = Client::new(lent);
    assert_eq!(
        client.extended("limits@openssh.com", &[]),
        Reply::Numbers(vec![256 * 1024, 128 * 1024, 128 * 1024, 512])
    );
    let Reply::Numbers(room) = client.extended("statvfs@openssh.com", &[Part::Text(b"/workspace")])
    else {
        panic!("no room is told");
    };
    assert_eq!(room.len(), 11);
    assert_eq!(room[1] * room[2], 1 << 20);
    assert_eq!(room[8..10], [0, 3]);
}
