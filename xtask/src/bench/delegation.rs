//! Lending between two nodes on one machine: what it costs beside the work, archives beside tar, our SFTP beside OpenSSH's
//! under the same sshfs, and the refusal of a huge folder.

mod nodes;
mod openssh;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};

use super::context::Context;
use super::daemon::load;
use super::figure::{Figure, Goal};
use super::samples::Samples;
use nodes::Nodes;
use openssh::OpenSsh;

/// Delegations of which the median counts: many of small ones, few of those that take seconds.
const ROUNDS: usize = 5;
const LONG_ROUNDS: usize = 3;
const FILES: usize = 10_000;
const FILE_BYTES: usize = 1024;
/// More than a node lends, which is 100,000.
const HUGE_FILES: usize = 105_000;
const FILES_PER_FOLDER: usize = 100;

/// Times each act on a mount, in milliseconds, as lines of `name milliseconds`.
const ON_A_MOUNT: &str = r#"
timed() { name=$1; shift; from=$(date +%s%N); "$@" > /dev/null 2>&1 || echo "$name failed"; to=$(date +%s%N); echo "$name $(( (to - from) / 1000 ))"; }
writing() { dd if=/dev/zero of=big bs=1M count=64 conv=fsync; }
reading() { dd if=big of=/dev/null bs=1M; }
creating() { mkdir -p small; for n in $(seq 1000); do echo text > small/$n; done; }
timed write writing
timed read reading
timed create creating
timed find find tree -newermt 2000-01-01
timed status git -c core.checkStat=minimal -c core.trustctime=false -C tree status --short
rm -rf big small
"#;

const ACTS: [(&str, &str); 5] = [
    ("write", "64 MiB written"),
    ("read", "64 MiB read"),
    ("create", "1,000 small files made"),
    ("find", "find over 10,000 files"),
    ("status", "first git status over 10,000 files"),
];

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Figure>> {
    let nodes = Nodes::start(context.release_binary()?)?;
    let mut figures: Vec<Figure> = load().into_iter().collect();
    figures.extend(small(&nodes)?);
    figures.push(many_files(&nodes)?);
    figures.extend(mounted(&nodes)?);
    figures.push(huge(&nodes)?);
    Ok(figures)
}

/// One file, one word of the agent's: what lending itself costs.
fn small(nodes: &Nodes) -> anyhow::Result<Vec<Figure>> {
    let folder = nodes.folder("small")?;
    fs::write(folder.join("a.txt"), "one\n").context("could not write a file")?;
    commit(&folder)?;
    let mut figures = Vec::new();
    for (plane, goal) in [
        ("archive", Some(15.0)),
        ("git", None),
        ("sshfs", Some(120.0)),
    ] {
        let name = format!("small delegation by {plane}, beyond the agent's time");
        if plane == "sshfs" && !OpenSsh::can_mount() {
            figures.push(Figure::left_out(name, "sshfs is not there"));
            continue;
        }
        let mut costs = Vec::new();
        for _ in 0..ROUNDS {
            costs.push(
                nodes
                    .lend(&folder, plane, "/run echo two >> a.txt")?
                    .beyond_ms(),
            );
        }
        let median = Samples::new(costs)?.median();
        let figure = Figure::new(name, median, "ms");
        figures.push(match goal {
            Some(goal) => figure.goal(Goal::AtMost(goal)),
            None => figure,
        });
    }
    Ok(figures)
}

/// Out and back, every file changed, beside the same way by tar.
fn many_files(nodes: &Nodes) -> anyhow::Result<Figure> {
    let folder = nodes.folder("many")?;
    tree(&folder, FILES)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..LONG_ROUNDS {
        let task = format!("/run for f in d*/*; do echo {round} >> $f; done");
        ours.push(nodes.lend(&folder, "archive", &task)?.beyond_ms());
        theirs.push(there_and_back(&folder)?);
    }
    let (ours, theirs) = (Samples::new(ours)?.median(), Samples::new(theirs)?.median());
    let figure = Figure::new("10,000 files of 1 KiB by archive, out and back", ours, "ms");
    Ok(figure
        .beside("tar c | tar x, twice", theirs)
        .goal(Goal::RatioAtMost(3.0)))
}

fn there_and_back(folder: &Path) -> anyhow::Result<f64> {
    let away = tempfile::tempdir().context("could not make a folder")?;
    let begun = Instant::now();
    let script = r#"tar c -C "$0" . | tar x -C "$1" && tar c -C "$1" . | tar x -C "$0""#;
    let done = Command::new("sh")
        .args(["-c", script])
        .args([folder, away.path()])
        .status()
        .context("could not start tar")?;
    ensure!(done.success(), "tar failed");
    Ok(begun.elapsed().as_secs_f64() * 1000.0)
}

fn tree(folder: &Path, files: usize) -> anyhow::Result<()> {
    let content = vec![b'x'; FILE_BYTES];
    for number in 0..files {
        let inside = folder.join(format!("d{}", number / FILES_PER_FOLDER));
        if number % FILES_PER_FOLDER == 0 {
            fs::create_dir_all(&inside).context("could not make a folder")?;
        }
        fs::write(inside.join(number.to_string()), &content).context("could not write a file")?;
    }
    Ok(())
}

/// Makes a repository of a folder.
fn commit(folder: &Path) -> anyhow::Result<()> {
    let commit = "git init -q && git add -A && git -c user.name=b -c user.email=b@b commit -qm b";
    let committed = Command::new("sh")
        .args(["-c", commit])
        .current_dir(folder)
        .stdout(Stdio::null())
        .status()
        .context("could not start git")?;
    ensure!(committed.success(), "git could not commit a folder");
    Ok(())
}

/// The same script on our mount and on one of OpenSSH's, by turns.
fn mounted(nodes: &Nodes) -> anyhow::Result<Vec<Figure>> {
    let open = match OpenSsh::start()? {
        Ok(open) => open,
        Err(why) => return Ok(vec![Figure::left_out("SFTP beside OpenSSH's", why)]),
    };
    let folder = nodes.folder("mounted")?;
    let inner = folder.join("tree");
    fs::create_dir_all(&inner).context("could not make a folder")?;
    tree(&inner, FILES)?;
    commit(&inner)?;
    fs::write(folder.join("bench.sh"), ON_A_MOUNT).context("could not write the script")?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..LONG_ROUNDS {
        ours.push(nodes.lend(&folder, "sshfs", "/run sh bench.sh")?.said);
        theirs.push(open.run(&folder, "bench.sh")?);
    }
    let mut figures = Vec::new();
    for (act, name) in ACTS {
        let (ours, theirs) = (median(&ours, act)?, median(&theirs, act)?);
        figures.push(
            Figure::new(format!("on the mount: {name}"), ours, "ms")
                .beside("OpenSSH", theirs)
                .goal(Goal::RatioAtMost(1.1)),
        );
    }
    Ok(figures)
}

/// The median of one act, in milliseconds.
fn median(outputs: &[String], act: &str) -> anyhow::Result<f64> {
    let times = outputs.iter().map(|output| {
        let line = output
            .lines()
            .find_map(|line| line.strip_prefix(act)?.strip_prefix(' '));
        let line = line.with_context(|| format!("{act} was not timed: {output}"))?;
        let micros: f64 = line.parse().with_context(|| format!("{act} took {line}"))?;
        Ok(micros / 1000.0)
    });
    Ok(Samples::new(times.collect::<anyhow::Result<_>>()?)?.median())
}

/// A folder that is not lent, beside counting as far by find.
fn huge(nodes: &Nodes) -> anyhow::Result<Figure> {
    let folder = nodes.folder("huge")?;
    for number in 0..HUGE_FILES {
        let inside = folder.join(format!("d{}", number / FILES_PER_FOLDER));
        if number % FILES_PER_FOLDER == 0 {
            fs::create_dir_all(&inside).context("could not make a folder")?;
        }
        fs::write(inside.join(number.to_string()), b"").context("could not write a file")?;
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..LONG_ROUNDS {
        let begun = Instant::now();
        nodes.refused(&folder)?;
        ours.push(begun.elapsed().as_secs_f64() * 1000.0);
        let begun = Instant::now();
        let script = r#"find "$0" -type f -printf '%s\n' | head -n 100001 > /dev/null"#;
        let counted = Command::new("sh")
            .args(["-c", script])
            .arg(&folder)
            .status();
        ensure!(
            counted.context("could not start find")?.success(),
            "find failed"
        );
        theirs.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    let (ours, theirs) = (Samples::new(ours)?.median(), Samples::new(theirs)?.median());
    let beyond = Figure::new(
        "a folder of too many files refused, beyond counting to the limit",
        ours - theirs,
        "ms",
    );
    Ok(beyond.goal(Goal::AtMost(50.0)))
}
