//! Zips built to do harm: each is refused, and nothing outside is touched.

use std::io::{Cursor, Write};

use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use super::scene::*;
use crate::*;

type Writer = ZipWriter<Cursor<Vec<u8>>>;

fn zip(fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    fill(&mut writer);
    writer.finish().unwrap().into_inner()
}

fn options() -> SimpleFileOptions {
    SimpleFileOptions::default().compression_method(CompressionMethod::Deflated)
}

fn add(writer: &mut Writer, name: &str) {
    writer.start_file(name, options()).unwrap();
    writer.write_all(b"evil").unwrap();
}

fn limits() -> Limits {
    Limits {
        bytes: 1 << 20,
        entries: 20,
        file_bytes: 1 << 19,
        depth: 8,
        ..Limits::default()
    }
}

fn refused(archive: Vec<u8>, limits: &Limits) -> String {
    let scene = Scene::new();
    let into = scene.folder("in");
    let error = unpack_zip(Cursor::new(archive), &into, limits).unwrap_err();
    scene.assert_contained(&["in"]);
    match error {
        ArchiveError::Refused(problem) => problem.to_string(),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn names_that_lead_outside_are_refused() {
    for name in [
        "/etc/x",
        "../outside/x",
        "a/../../outside/x",
        "a//b",
        "a/./b",
        "..\\outside\\x",
        "a\\b",
        ".agentcraft-apply/x",
        "a/b/c/d/e/f/g/h/i",
    ] {
        let words = refused(zip(|writer| add(writer, name)), &limits());
        assert!(words.contains("is not a path below"), "{name}: {words}");
    }
}

#[test]
fn links_that_lead_outside_are_refused_and_none_is_written_through() {
    for (name, target) in [
        ("l", "/etc/passwd"),
        ("a/l", "../../outside/secret"),
        ("l", "a/../.."),
    ] {
        let archive = zip(|writer| writer.add_symlink(name, target, options()).unwrap());
        assert!(refused(archive, &limits()).starts_with(&format!("{name} links to")));
    }
    let through = zip(|writer| {
        writer.add_directory("d/", options()).unwrap();
        writer.add_symlink("l", "d", options()).unwrap();
        add(writer, "l/x");
    });
    assert!(refused(through, &limits()).contains("not a folder"));
}

#[test]
fn names_are_taken_once() {
    // The library refuses to write a name twice, so another is written and changed afterwards.
    let mut archive = zip(|writer| {
        add(writer, "name-a");
        add(writer, "name-b");
    });
    for index in 0..archive.len() - 6 {
        if &archive[index..index + 6] == b"name-b" {
            archive[index + 5] = b'a';
        }
    }
    assert!(refused(archive, &limits()).contains("twice"));
    let folder_too = zip(|writer| {
        add(writer, "a");
        writer.add_directory("a/", options()).unwrap();
    });
    assert_eq!(refused(folder_too, &limits()), "a is there twice");
    let same = Limits {
        case: Case::Same,
        ..limits()
    };
    let cased = zip(|writer| {
        add(writer, "A");
        add(writer, "a");
    });
    assert!(refused(cased, &same).contains("only in case"));
}

#[test]
fn bombs_are_stopped() {
    let many = zip(|writer| (0..21).for_each(|index| add(writer, &format!("f{index}"))));
    assert_eq!(refused(many, &limits()), "it holds more than 20 entries");
    let large = zip(|writer| {
        for name in ["a", "b", "c"] {
            writer.start_file(name, options()).unwrap();
            writer.write_all(&vec![0; 400_000]).unwrap();
        }
    });
    assert_eq!(
        refused(large, &limits()),
        "it holds more than 1048576 bytes"
    );
    let one = zip(|writer| {
        writer.start_file("a", options()).unwrap();
        writer.write_all(&vec![0; 600_000]).unwrap();
    });
    assert_eq!(
        refused(one, &limits()),
        "a has 600000 bytes, at most 524288 are taken"
    );
    let flat = zip(|writer| {
        writer.start_file("a", options()).unwrap();
        let chunk = vec![0; 1 << 20];
        for _ in 0..100 {
            writer.write_all(&chunk).unwrap();
        }
    });
    let roomy = Limits::default();
    assert_eq!(
        refused(flat, &roomy),
        "it grows to more than 250 times its size"
    );
    let shared = zip(|writer| {
        add(writer, "a");
        writer.shallow_copy_file("a", "b").unwrap();
    });
    assert!(refused(shared, &limits()).contains("share their bytes"));
}

#[test]
fn sizes_that_lie_are_found_out() {
    let text = vec![b'x'; 5_000];
    let honest = zip(|writer| {
        writer.start_file("a", options()).unwrap();
        writer.write_all(&text).unwrap();
    });
    let size = 5_000_u32.to_le_bytes();
    for lie in [10_u32, 6_000] {
        let mut archive = honest.clone();
        for index in 0..archive.len() - 4 {
            if archive[index..index + 4] == size {
                archive[index..index + 4].copy_from_slice(&lie.to_le_bytes());
            }
        }
        assert_ne!(archive, honest);
        refused(archive, &limits());
    }
}

#[test]
fn what_is_broken_encrypted_or_special_is_refused() {
    let whole = zip(|writer| {
        writer
            .start_file("a", options().compression_method(CompressionMethod::Stored))
            .unwrap();
        writer.write_all(b"content-to-spoil").unwrap();
    });
    let mut spoiled = whole.clone();
    let at = spoiled
        .windows(7)
        .position(|window| window == b"content")
        .unwrap();
    spoiled[at] = b'k';
    refused(spoiled, &limits());
    for cut in [0, 10, whole.len() / 2, whole.len() - 1] {
        refused(whole[..cut].to_vec(), &limits());
    }
    let mut encrypted = whole.clone();
    for index in 0..encrypted.len() - 10 {
        if encrypted[index..].starts_with(b"PK\x03\x04") {
            encrypted[index + 6] |= 1;
        } else if encrypted[index..].starts_with(b"PK\x01\x02") {
            encrypted[index + 8] |= 1;
        }
    }
    refused(encrypted, &limits());
    // A device, by the mode in its external attributes.
    let mut device = whole;
    let central = device
        .windows(4)
        .position(|window| window == b"PK\x01\x02")
        .unwrap();
    device[central + 38..central + 42].copy_from_slice(&(0o020_666_u32 << 16).to_le_bytes());
    assert_eq!(
        refused(device, &limits()),
        "a is a special file, which is not unpacked"
    );
}
