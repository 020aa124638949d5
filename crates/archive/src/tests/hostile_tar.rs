//! Archives built to do harm, byte by byte: each is refused, for its own reason, and nothing outside is touched.

use std::io::Write;

use tar::Header;

use super::scene::*;
use crate::*;

/// A raw archive.
#[derive(Default)]
struct Raw(Vec<u8>);

impl Raw {
    fn entry(self, kind: u8, name: &[u8], target: &[u8], content: &[u8]) -> Self {
        self.sized(kind, name, target, content, content.len() as u64)
    }

    /// With a size that may be a lie.
    fn sized(mut self, kind: u8, name: &[u8], target: &[u8], content: &[u8], size: u64) -> Self {
        let mut header = Header::new_gnu();
        let old = header.as_old_mut();
        old.name[..name.len()].copy_from_slice(name);
        old.linkname[..target.len()].copy_from_slice(target);
        old.linkflag = [kind];
        header.set_mode(0o4755);
        header.set_mtime(5);
        header.set_size(size);
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn file(self, name: &str) -> Self {
        self.entry(b'0', name.as_bytes(), b"", b"evil")
    }

    fn dir(self, name: &str) -> Self {
        self.entry(b'5', name.as_bytes(), b"", b"")
    }

    fn link(self, name: &str, target: &str) -> Self {
        self.entry(b'2', name.as_bytes(), target.as_bytes(), b"")
    }

    fn kind(self, kind: u8, name: &str, target: &str) -> Self {
        self.entry(kind, name.as_bytes(), target.as_bytes(), b"")
    }

    fn pax(self, kind: u8, records: &[(&str, &str)]) -> Self {
        let mut content = String::new();
        for (key, value) in records {
            let rest = key.len() + value.len() + 3;
            let mut length = rest + 1;
            while length != rest + length.to_string().len() {
                length = rest + length.to_string().len();
            }
            content.push_str(&format!("{length} {key}={value}\n"));
        }
        self.entry(kind, b"pax", b"", content.as_bytes())
    }

    fn long(self, kind: u8, name: &[u8]) -> Self {
        self.entry(kind, b"././@LongLink", b"", &[name, b"\0"].concat())
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 1024]);
        self.0
    }
}

fn limits() -> Limits {
    Limits {
        bytes: 1 << 20,
        entries: 50,
        file_bytes: 1 << 19,
        path_bytes: 300,
        depth: 8,
        ..Limits::default()
    }
}

/// Unpacks an archive that must be refused; gives the reason.
fn refused(archive: &[u8], limits: &Limits) -> String {
    let scene = Scene::new();
    let into = scene.folder("in");
    let archive = zstd::encode_all(archive, 1).unwrap();
    let error = unpack(archive.as_slice(), None, &into, limits).unwrap_err();
    scene.assert_contained(&["in"]);
    match error {
        ArchiveError::Refused(problem) => problem.to_string(),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn names_that_lead_outside_are_refused() {
    let names = [
        "/etc/cron.d/x",
        "../outside/x",
        "a/../../outside/x",
        "./../outside/x",
        "..",
        "a/..",
        "a//b",
        "a/./b",
        "",
        ".agentcraft-apply/journal",
        ".AGENTCRAFT-APPLY/journal",
        "a/b/c/d/e/f/g/h/i",
    ];
    for name in names {
        let words = refused(&Raw::default().file(name).end(), &limits());
        assert!(
            words.contains("is not a path below the folder"),
            "{name}: {words}"
        );
        let words = refused(&Raw::default().dir(&format!("{name}/")).end(), &limits());
        assert!(
            words.contains("is not a path below the folder"),
            "{name}/: {words}"
        );
    }
    let long = b"x/".repeat(160);
    let cases: [&[u8]; 4] = [b"../outside/x", b"a\0/../../outside/x", &long, &[b'n'; 290]];
    for name in cases {
        let words = refused(
            &Raw::default().long(b'L', name).file("fine").end(),
            &limits(),
        );
        let said = words.contains("is not a path below") || words.contains("too long");
        assert!(said, "{words}");
    }
}

#[test]
fn links_that_lead_outside_are_refused() {
    let cases = [
        ("l", "/etc/passwd"),
        ("l", "../outside/secret"),
        ("l", ".."),
        ("a/l", "../../outside/secret"),
        ("a/b/l", "x/../../../outside"),
        ("a/b/l", "up/../secret"),
        ("l", "./../outside"),
        ("l", ""),
    ];
    for (name, target) in cases {
        let words = refused(&Raw::default().link(name, target).end(), &limits());
        assert!(
            words.starts_with(&format!("{name} links to")),
            "{target}: {words}"
        );
    }
    let hidden = Raw::default().pax(b'x', &[("linkpath", "../outside/secret")]);
    assert!(refused(&hidden.link("l", "fine").end(), &limits()).starts_with("l links to"));
    let hidden = Raw::default().long(b'K', b"/etc/passwd");
    assert!(refused(&hidden.link("l", "fine").end(), &limits()).starts_with("l links to"));
}

#[test]
fn nothing_is_written_through_a_link_or_a_file() {
    let cases = [
        Raw::default().dir("d/").link("l", "d").file("l/x"),
        Raw::default().link("l", "d").dir("d/").file("l/x/y"),
        Raw::default().link("l", ".").dir("l/x/"),
        Raw::default().file("f").file("f/x"),
        Raw::default().link("up", ".").link("up/l", "x"),
    ];
    for raw in cases {
        let words = refused(&raw.end(), &limits());
        assert!(
            words.contains("below something that is not a folder"),
            "{words}"
        );
    }
}

#[test]
fn a_name_is_taken_once() {
    let cases = [
        Raw::default().file("a").file("a"),
        Raw::default().file("a").file("./a"),
        Raw::default().link("a", "b").file("a"),
        Raw::default().file("a").link("a", "b"),
        Raw::default().dir("a/").file("a"),
        Raw::default().dir("a/").dir("a/"),
        Raw::default().dir("a/").link("a", "b"),
        Raw::default().file("a").dir("a/"),
        Raw::default().file("a/b").dir("a/").dir("a/"),
    ];
    for raw in cases {
        assert_eq!(refused(&raw.end(), &limits()), "a is there twice");
    }
    let same = Limits {
        case: Case::Same,
        ..limits()
    };
    let cased = Raw::default().file("Makefile").file("makefile").end();
    assert_eq!(
        refused(&cased, &same),
        "makefile differs from another name only in case"
    );
    let cased = Raw::default().link("A", "x").file("a/b").end();
    assert!(refused(&cased, &same).contains("only in case"));
}

#[test]
fn only_files_folders_and_links_are_made() {
    let cases = [
        (b'1', "x", "hard link"),
        (b'1', "/etc/passwd", "hard link"),
        (b'3', "", "device"),
        (b'4', "", "device"),
        (b'6', "", "pipe"),
        (b'S', "", "sparse file"),
        (b'V', "", "kind of entry we do not know"),
        (b'M', "", "kind of entry we do not know"),
        (b'D', "", "kind of entry we do not know"),
    ];
    for (kind, target, word) in cases {
        let raw = Raw::default().file("x").kind(kind, "evil", target).end();
        let words = refused(&raw, &limits());
        assert_eq!(words, format!("evil is a {word}, which is not unpacked"));
    }
    let words = refused(&Raw::default().file("a/").end(), &limits());
    assert!(words.contains("file with the name of a folder"), "{words}");
    let sparse = Raw::default()
        .pax(b'x', &[("GNU.sparse.major", "1")])
        .file("a")
        .end();
    assert!(refused(&sparse, &limits()).contains("sparse"));
    assert!(refused(&Raw::default().file("./").end(), &limits()).contains("the folder itself"));
}

#[test]
fn bombs_are_stopped_before_they_fill_the_disk() {
    let lie = Raw::default().sized(b'0', b"a", b"", b"", 1 << 40).end();
    assert!(refused(&lie, &limits()).starts_with("a has 1099511627776 bytes"));
    let overflow = Raw::default().sized(b'0', b"a", b"", b"", u64::MAX).end();
    assert!(refused(&overflow, &limits()).starts_with("a has 18446744073709551615 bytes"));
    let mut many = Raw::default();
    for index in 0..51 {
        many = many.file(&format!("f{index}"));
    }
    assert_eq!(
        refused(&many.end(), &limits()),
        "it holds more than 50 entries"
    );
    let implied = Raw::default().file("a/b/c/d/e").end();
    let few = Limits {
        entries: 4,
        ..limits()
    };
    assert_eq!(refused(&implied, &few), "it holds more than 4 entries");
    let half = vec![0; 400_000];
    let mut large = Raw::default();
    for name in [b"a", b"b", b"c"] {
        large = large.entry(b'0', name, b"", &half);
    }
    assert_eq!(
        refused(&large.end(), &limits()),
        "it holds more than 1048576 bytes"
    );
    let name = vec![b'n'; 100_000];
    let words = refused(&Raw::default().long(b'L', &name).file("a").end(), &limits());
    assert!(words.contains("too long"), "{words}");
    let value = "v".repeat(100_000);
    let pax = Raw::default()
        .pax(b'x', &[("comment", &value)])
        .file("a")
        .end();
    assert!(refused(&pax, &limits()).contains("too long"));
}

/// Zeros without end, and the little that is needed to make them.
fn zeros(prefix: &[u8], bytes: usize) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.write_all(prefix).unwrap();
    let chunk = vec![0; 1 << 20];
    for _ in 0..bytes >> 20 {
        encoder.write_all(&chunk).unwrap();
    }
    encoder.finish().unwrap()
}

#[test]
fn what_grows_too_fast_is_stopped_inside_a_file_and_after_the_end() {
    let limits = Limits::default();
    let size = 100 << 20;
    let raw = Raw::default().sized(b'0', b"bomb", b"", b"", size as u64);
    for archive in [zeros(&raw.0, size), zeros(&Raw::default().end(), size)] {
        let scene = Scene::new();
        let into = scene.folder("in");
        let error = unpack(archive.as_slice(), None, &into, &limits).unwrap_err();
        assert!(
            matches!(error, ArchiveError::Refused(Problem::Ratio { max: 250 })),
            "{error}"
        );
    }
    let few = Limits {
        bytes: 1 << 20,
        entries: 10,
        ..limits
    };
    let scene = Scene::new();
    let archive = zeros(&Raw::default().end(), 4 << 20);
    let error = unpack(archive.as_slice(), None, &scene.folder("in"), &few).unwrap_err();
    assert!(
        matches!(error, ArchiveError::Refused(Problem::TooManyBytes { .. })),
        "{error}"
    );
}

#[test]
fn what_is_cut_or_broken_is_not_taken_for_whole() {
    let whole = Raw::default().file("a").file("b").end();
    for cut in [0, 100, 512, 600, 1024, 1500, 2048] {
        assert_eq!(
            refused(&whole[..cut], &limits()),
            "it ends too early",
            "{cut}"
        );
    }
    let mut sum = whole.clone();
    sum[0] = b'z';
    assert!(refused(&sum, &limits()).contains("wrong sum"));
    let nothing = Raw::default().long(b'L', b"name").end();
    assert!(refused(&nothing, &limits()).contains("names nothing"));
    let two = Raw::default()
        .long(b'L', b"one")
        .long(b'L', b"two")
        .file("a")
        .end();
    assert!(refused(&two, &limits()).contains("two names"));
    let both = Raw::default()
        .pax(b'x', &[("path", "one")])
        .long(b'L', b"two");
    assert!(refused(&both.file("a").end(), &limits()).contains("two names"));
    let sizes = Raw::default()
        .pax(b'x', &[("size", "5000")])
        .file("a")
        .end();
    assert!(refused(&sizes, &limits()).contains("two sizes"));
    let global = Raw::default().pax(b'g', &[("path", "x")]).file("a").end();
    assert!(refused(&global, &limits()).contains("one name for all"));
    for broken in [
        "x path=a\n",
        "99 path=a\n",
        "9 path=a",
        "3\n",
        "0 a=b\n",
        "5 a\n",
    ] {
        let raw = Raw::default()
            .entry(b'x', b"pax", b"", broken.as_bytes())
            .file("a");
        assert!(
            refused(&raw.end(), &limits()).contains("pax extension is broken"),
            "{broken:?}"
        );
    }
    let escaping = Raw::default()
        .pax(b'x', &[("path", "../outside/x")])
        .file("fine")
        .end();
    assert!(refused(&escaping, &limits()).contains("is not a path below"));
}

#[test]
fn a_stream_that_is_not_zstd_or_has_another_sum_is_refused() {
    let check = |archive: &[u8], expected: Option<Checksum>| {
        let scene = Scene::new();
        let error = unpack(archive, expected, &scene.folder("in"), &limits()).unwrap_err();
        match error {
            ArchiveError::Refused(problem) => problem,
            other => panic!("{other:?}"),
        }
    };
    let tar = Raw::default().file("a").end();
    assert!(matches!(check(&tar, None), Problem::Malformed { .. }));
    let archive = zstd::encode_all(tar.as_slice(), 1).unwrap();
    let cut = &archive[..archive.len() - 3];
    assert!(matches!(
        check(cut, None),
        Problem::Truncated | Problem::Malformed { .. }
    ));
    let mut trailing = archive.clone();
    trailing.extend_from_slice(b"trailing rubbish");
    assert!(matches!(
        check(&trailing, None),
        Problem::Malformed { .. } | Problem::Truncated
    ));
    let other = Some(Checksum::of(b"other"));
    assert!(matches!(check(&archive, other), Problem::Checksum { .. }));
}

#[test]
fn bits_that_nobody_outside_may_plant_are_dropped() {
    let scene = Scene::new();
    let into = scene.folder("in");
    // Raw entries have the set-user-id bit.
    let archive = Raw::default().file("a").dir("d/").end();
    let archive = zstd::encode_all(archive.as_slice(), 1).unwrap();
    unpack(archive.as_slice(), None, &into, &limits()).unwrap();
    for (path, entry) in &scene.manifest("in").entries {
        assert_eq!(entry.mode, 0o755, "{path}");
    }
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(scene.path("in/a"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7000, 0);
}
