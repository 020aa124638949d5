//! How long it takes, next to tar; run by hand in a release build, since a shared machine proves nothing.

use std::{process::Command, time::Instant};

use super::scene::*;
use crate::*;

#[test]
#[ignore = "a measurement, not a claim"]
fn ten_thousand_small_files_against_tar() {
    let scene = Scene::new();
    scene.folder("from");
    for index in 0..10_000_u32 {
        let content: Vec<u8> = (0..1024_u32)
            .map(|byte| (byte * index % 251) as u8)
            .collect();
        file(
            &scene.path("from"),
            format!("{}/{index}", index % 100),
            &content,
            0o644,
        );
    }
    for round in 0..3 {
        let to = format!("tar{round}");
        scene.folder(&to);
        let begun = Instant::now();
        let script = format!("tar c -C from . | tar x -C {to}");
        let status = Command::new("sh")
            .args(["-c", &script])
            .current_dir(scene.path("."))
            .status();
        assert!(status.unwrap().success());
        let tar = begun.elapsed();
        let to = scene.folder(&format!("ours{round}"));
        let begun = Instant::now();
        let mut archive = Vec::new();
        pack(
            &scene.open("from"),
            &everything,
            &Limits::default(),
            &mut archive,
        )
        .unwrap();
        let packed = begun.elapsed();
        unpack(archive.as_slice(), None, &to, &Limits::default()).unwrap();
        let ours = begun.elapsed();
        let bytes = archive.len();
        println!("tar {tar:?}, ours {ours:?} (packing {packed:?}), {bytes} bytes");
    }
}
