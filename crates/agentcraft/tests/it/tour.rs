//! The documents as a newcomer takes them: the commands of every page, in order, by a shell in an empty home.
//!
//! A block that begins with ```` ```sh ```` is a script, one with ```` ```console ```` shows commands after `$` and what they say.
//! Words behind it say what else is needed: `needs=…` is what a test has not (the block is only parsed, by the program's own
//! tests), `stays` is a terminal of its own, `fails` shows what goes wrong.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use testkit::{eventually, kill, marked_processes};

/// The node that a page speaks of, in a home that nothing else has ever used.
struct Reader {
    home: tempfile::TempDir,
    node: Child,
}

/// So that what a page leaves running is found.
const MARK: &str = "AGENTCRAFT_TEST_TOUR";

/// What comes before the commands: where the node listens now, and patience where a person would have been slower.
const BEGINNING: &str = r#"set -eu
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
node() {
    until [ -s ~/.agentcraft/listener.json ]; do sleep 0.05; done
    sed -n 's/.*"url": *"\([^"]*\)".*/\1/p' ~/.agentcraft/listener.json
}
again() { until "$@"; do sleep 0.1; done; }
"#;

impl Reader {
    fn begin() -> Self {
        let home = tempfile::Builder::new()
            .prefix("agentcraft-tour-")
            .tempdir()
            .unwrap();
        for folder in ["bin", "work"] {
            fs::create_dir(home.path().join(folder)).unwrap();
        }
        let program = home.path().join("bin/agentcraft");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_agentcraft"), &program).unwrap();
        let node = command(home.path(), &program).arg("up").spawn().unwrap();
        let reader = Self { home, node };
        let address = reader.home.path().join(".agentcraft/listener.json");
        eventually("the node listens", || address.exists());
        // The sample agent comes last.
        eventually("the agent of the samples is there", || {
            let mut look = reader.shell("agentcraft agent status starter");
            look.output().unwrap().status.success()
        });
        reader
    }

    /// A checkout, as pages speak of one.
    fn check_out(&self) {
        let script = "git init -q && git -c user.name=ada -c user.email=ada@example.org commit -q --allow-empty -m begin";
        let made = self.shell(script).status().unwrap();
        assert!(made.success());
    }

    fn shell(&self, script: &str) -> Command {
        let mut shell = command(self.home.path(), Path::new("/bin/bash"));
        shell.args(["-c", script]);
        shell
    }

    /// Types what the page says, and gives what was said.
    fn take(&self, page: &str) -> String {
        let output = self.shell(&script(&text_of(page))).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{page}: {said}\n{errors}");
        assert!(
            said.contains("the page is over\n"),
            "{page}: {said}\n{errors}"
        );
        said
    }

    /// Ctrl-C in the first terminal, or a stop where the page has started the node anew.
    fn end(mut self) {
        if self.node.try_wait().unwrap().is_none() {
            kill(self.node.id(), "INT");
        }
        assert!(self.node.wait().unwrap().success());
        assert!(self.stop_another());
        let mark = format!("{MARK}={}", self.home.path().display());
        eventually("nothing is left running", || {
            marked_processes(&mark).is_empty()
        });
    }

    fn stop_another(&self) -> bool {
        let mut stop = self.shell("agentcraft daemon stop");
        stop.stdout(Stdio::null()).status().unwrap().success()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.node.kill(); // It has ended, if all went well.
        let _ = self.node.wait();
        let _ = self.stop_another();
    }
}

fn command(home: &Path, program: &Path) -> Command {
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("HOME", home)
        .env("PATH", format!("{}:{path}", home.join("bin").display()))
        .env("LANG", "C.UTF-8")
        .env("AGENTCRAFT_LISTEN", "127.0.0.1:0")
        .env(MARK, home)
        .current_dir(home.join("work"))
        .stdin(Stdio::null());
    command
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text_of(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap()
}

/// Commands that belong together.
struct Block<'a> {
    words: Vec<&'a str>,
    lines: Vec<&'a str>,
}

impl Block<'_> {
    fn is_left_out(&self) -> bool {
        self.words.iter().any(|word| word.starts_with("needs=")) || self.is_elsewhere()
    }

    /// Whether an address of another machine is in it.
    fn is_elsewhere(&self) -> bool {
        let mut addresses = self.lines.iter().flat_map(|line| line.split("://").skip(1));
        addresses.any(|address| !address.starts_with("127.0.0.1"))
    }

    fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'_>> = None;
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(words)) => {
                open = Some(Block {
                    words: words.split_whitespace().collect(),
                    lines: Vec::new(),
                });
            }
            (Some(_), Some("")) => blocks.extend(open.take()),
            (Some(block), _) => block.lines.push(line),
            (None, None) => {}
        }
    }
    blocks.retain(|block| matches!(block.words.first(), Some(&("sh" | "console"))));
    for block in &mut blocks {
        if block.has("console") {
            block.lines = typed(&block.lines);
        }
    }
    blocks
}

/// Of what a terminal shows, what somebody typed.
fn typed<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    lines
        .iter()
        .filter_map(|line| line.strip_prefix("$ "))
        .collect()
}

/// What a page types, at our port.
fn script(page: &str) -> String {
    let mut script = BEGINNING.to_owned();
    for block in blocks(page).iter().filter(|block| !block.is_left_out()) {
        for (number, line) in block.lines.iter().enumerate() {
            let line = line.replace("http://127.0.0.1:7420", "$(node)");
            let is_last = number + 1 == block.lines.len();
            script.push_str(&match () {
                () if line == "agentcraft up" => continue, // It runs.
                () if block.has("fails") => format!("if {line}; then exit 9; fi"),
                () if block.has("stays") && is_last => format!("{line} &"),
                () if line.starts_with("agentcraft office ") => format!("again {line}"),
                () => line,
            });
            script.push('\n');
        }
    }
    script + "echo the page is over\n"
}

#[test]
fn every_line_of_the_tour_works_in_an_empty_home() {
    tour("README.md", "docs/tour.md");
}

#[test]
fn the_tour_in_chinese_works_in_an_empty_home() {
    tour("README.zh.md", "docs/tour.zh.md");
}

/// Whoever has followed the README takes the tour in the same home.
fn tour(readme: &str, tour: &str) {
    let reader = Reader::begin();
    let said = reader.take(readme);
    for part in ["I work in ", "hello Ada", "agentcraft_list_agents"] {
        assert!(said.contains(part), "{part} was not said: {said}");
    }
    let said = reader.take(tour);
    for part in [
        "hello Ada",
        "\"awaiting\"",
        "agentcraft_list_agents",
        "/login?code=",
    ] {
        assert!(said.contains(part), "{part} was not said: {said}");
    }
    reader.end();
}

#[test]
fn both_languages_type_the_same() {
    let typed = |page: &str| {
        let text = text_of(page);
        blocks(&text)
            .into_iter()
            .flat_map(|block| block.lines.into_iter().map(without_words_for_people))
            .collect::<Vec<_>>()
    };
    for (page, translated) in [
        ("README.md", "README.zh.md"),
        ("docs/tour.md", "docs/tour.zh.md"),
    ] {
        assert_eq!(typed(page), typed(translated), "{translated}");
    }
}

/// A line without its comment, and without what is said to an agent in words.
fn without_words_for_people(line: &str) -> String {
    let line = line.split("  #").next().unwrap_or_default().trim_end();
    let is_said = line.starts_with("agentcraft intent ") || line.contains("peer:");
    match line.split_once(" \"") {
        Some((command, _)) if is_said => command.to_owned(),
        _ => line.to_owned(),
    }
}

/// A test for each page, in a home of its own, and the list of those pages.
macro_rules! pages {
    ($($test:ident: $page:literal,)+) => {
        const PAGES: &[&str] = &[$($page),+];
        $(
            #[test]
            fn $test() {
                let reader = Reader::begin();
                reader.check_out();
                reader.take($page);
                reader.end();
            }
        )+
    };
}

pages! {
    every_command_of_the_page_about_a2a_works: "docs/a2a.md",
    every_command_of_the_page_about_the_command_line_works: "docs/cli.md",
    every_command_of_the_page_about_the_dashboard_works: "docs/dashboard.md",
    every_command_of_the_page_about_editors_works: "docs/editors.md",
    every_command_of_the_page_about_lending_works: "docs/lending.md",
    every_command_of_the_page_about_the_network_works: "docs/network.md",
    every_command_of_the_page_about_offices_works: "docs/offices.md",
    every_command_of_the_page_about_operations_works: "docs/operations.md",
    every_command_of_the_page_about_permissions_works: "docs/permissions.md",
    every_command_of_the_recipes_works: "docs/recipes.md",
    every_command_of_the_page_about_runs_works: "docs/runs.md",
    every_command_of_the_page_about_sessions_works: "docs/sessions.md",
    every_command_of_the_page_about_templates_works: "docs/templates.md",
    every_command_of_the_page_about_workflows_works: "docs/workflows.md",
}

#[test]
fn no_page_with_commands_is_left_out() {
    let walked = ["docs/tour.md", "docs/tour.zh.md"];
    let walked: BTreeSet<String> = walked
        .iter()
        .chain(PAGES)
        .map(|&page| page.into())
        .collect();
    let pages = fs::read_dir(root().join("docs")).unwrap();
    let names = pages.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names = names.filter(|name| name.ends_with(".md"));
    let with_commands = names.map(|name| format!("docs/{name}")).filter(|page| {
        let text = text_of(page);
        blocks(&text).iter().any(|block| !block.is_left_out())
    });
    assert_eq!(with_commands.collect::<BTreeSet<_>>(), walked);
}
