//! Which crate may depend on which: the architecture's arrows as a table, checked over `cargo metadata`.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Context;
use serde::Deserialize;

use super::Finding;
use crate::workspace;

#[derive(Debug)]
struct Rule {
    name: &'static str,
    ours: Ours,
    third_parties: ThirdParties,
}

#[derive(Debug)]
enum Ours {
    Only(&'static [&'static str]),
    All,
}

#[derive(Debug)]
enum ThirdParties {
    /// A pure crate: these always, those only behind a feature that is off by default.
    Only {
        always: &'static [&'static str],
        optional: &'static [&'static str],
    },
    Any,
}

impl Rule {
    const fn pure(
        name: &'static str,
        ours: &'static [&'static str],
        always: &'static [&'static str],
        optional: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            ours: Ours::Only(ours),
            third_parties: ThirdParties::Only { always, optional },
        }
    }

    const fn shell(name: &'static str, ours: &'static [&'static str]) -> Self {
        Self {
            name,
            ours: Ours::Only(ours),
            third_parties: ThirdParties::Any,
        }
    }
}

const RULES: [Rule; 30] = [
    Rule::pure(
        "jsonrpc",
        &[],
        &["bytes", "memchr", "serde", "serde_json", "thiserror"],
        &["tokio"],
    ),
    Rule::pure("wire", &[], &["serde", "serde_json"], &[]),
    Rule::pure(
        "domain",
        &[],
        &["serde", "serde_json", "strsim", "thiserror"],
        &[],
    ),
    Rule::pure(
        "catalog",
        &["domain"],
        &[
            "schemars",
            "serde",
            "serde-saphyr",
            "serde_json",
            "strsim",
            "thiserror",
        ],
        &[],
    ),
    Rule::pure(
        "workflow",
        &["domain"],
        &[
            "expr-lang",
            "gotmpl",
            "regex",
            "serde",
            "serde-saphyr",
            "serde_json",
            "strsim",
            "thiserror",
        ],
        &[],
    ),
    Rule::shell("platform", &[]),
    Rule::shell("store", &[]),
    Rule::shell("engine", &["catalog", "domain", "platform", "store"]),
    Rule::shell(
        "socket",
        &["catalog", "domain", "engine", "jsonrpc", "platform", "wire"],
    ),
    Rule::shell(
        "acp",
        &["catalog", "domain", "engine", "jsonrpc", "platform"],
    ),
    Rule::shell("print", &["domain", "engine", "platform"]),
    Rule::shell("builtin", &["jsonrpc", "platform"]),
    Rule::shell(
        "mcp",
        &[
            "catalog", "domain", "engine", "jsonrpc", "pinning", "platform", "wire",
        ],
    ),
    Rule::shell(
        "runner",
        &[
            "catalog", "domain", "engine", "pinning", "platform", "store", "workflow",
        ],
    ),
    Rule::shell(
        "model",
        &["catalog", "domain", "engine", "pinning", "platform", "wire"],
    ),
    Rule::shell("listener", &["domain", "engine", "platform"]),
    Rule::shell(
        "runs",
        &[
            "domain",
            "engine",
            "neighbour",
            "pinning",
            "platform",
            "wire",
        ],
    ),
    Rule::shell(
        "a2a",
        &["cards", "domain", "engine", "pinning", "platform", "wire"],
    ),
    Rule::shell("smcp", &["catalog", "domain", "engine", "platform", "wire"]),
    // Data planes: libraries below the crate that lends workspaces, not faces.
    Rule::shell("archive", &["platform"]),
    Rule::shell("sftp", &["platform"]),
    Rule::shell(
        "awcp",
        &[
            "archive", "cards", "domain", "engine", "pinning", "platform", "sftp", "wire",
        ],
    ),
    Rule::shell("pinning", &["wire"]),
    Rule::shell("neighbour", &["engine", "wire"]),
    Rule::shell("cards", &["wire"]),
    Rule::shell(
        "lan",
        &[
            "domain",
            "engine",
            "neighbour",
            "pinning",
            "platform",
            "wire",
        ],
    ),
    Rule::shell("dashboard", &["domain", "engine", "platform"]),
    Rule::shell(TESTKIT, &[]),
    Rule {
        name: PRODUCT,
        ours: Ours::All,
        third_parties: ThirdParties::Any,
    },
    Rule::shell("xtask", &[]),
];

/// The crate of the program that people run.
const PRODUCT: &str = "agentcraft";

/// Every crate's tests may use it, nothing else may.
const TESTKIT: &str = "testkit";

/// An agent to test against, for crates that may not use it otherwise.
const BUILTIN: &str = "builtin";

/// What an engine of a test keeps its state in.
const STORE: &str = "store";

/// Libraries with few homes: what they pull in, or what they decide, must not spread.
const HOMES: [(&str, &[&str]); 18] = [
    ("anyhow", &["agentcraft", TESTKIT, "xtask"]),
    ("clap", &["agentcraft", "xtask"]),
    ("expr-lang", &["workflow"]),
    ("gotmpl", &["workflow"]),
    ("landlock", &["platform"]),
    ("mdns-sd", &["lan"]),
    ("notify", &["agentcraft", "engine", "runner"]),
    ("object_store", &["runs"]),
    ("rcgen", &["listener"]),
    ("redis", &["smcp"]),
    ("rmcp", &["mcp"]),
    ("rusqlite", &["store"]),
    ("russh", &["sftp"]),
    ("socketioxide", &["smcp"]),
    ("socketioxide-redis", &["smcp"]),
    ("tar", &["archive"]),
    ("tracing-subscriber", &["agentcraft"]),
    ("zip", &["archive"]),
];

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// A crate of the workspace, as `cargo metadata` tells it.
#[derive(Debug, Deserialize)]
pub(super) struct Package {
    name: String,
    dependencies: Vec<Dependency>,
    features: BTreeMap<String, Vec<String>>,
    manifest_path: String,
    /// What `cargo run` starts.
    #[serde(default)]
    default_run: Option<String>,
    #[serde(skip)]
    manifest: String,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// None, "dev" or "build".
    kind: Option<String>,
    optional: bool,
}

pub(super) fn packages() -> anyhow::Result<Vec<Package>> {
    let mut command = workspace::cargo();
    command.args([
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
        "--offline",
    ]);
    let output = workspace::output_of(&mut command)?;
    let metadata: Metadata =
        serde_json::from_slice(&output).context("could not read what cargo metadata printed")?;
    let root = workspace::root();
    let mut packages = metadata.packages;
    for package in &mut packages {
        let path = package.manifest_path.clone();
        package.manifest =
            fs::read_to_string(&path).with_context(|| format!("could not read {path}"))?;
        if let Ok(relative) = std::path::Path::new(&path).strip_prefix(&root) {
            package.manifest_path = relative.display().to_string();
        }
    }
    Ok(packages)
}

pub(super) fn check(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        match RULES.iter().find(|rule| rule.name == package.name) {
            Some(rule) => findings.extend(package.check(rule, packages)),
            None => {
                findings.push(package.finding(
                    &package.name,
                    "this crate has no rule: add it to xtask's edge table",
                ));
            }
        }
    }
    findings
}

impl Package {
    fn check(&self, rule: &Rule, packages: &[Self]) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.name == PRODUCT && self.default_run.as_deref() != Some(PRODUCT) {
            let words = "the first command of the README is `cargo run`: say default-run";
            findings.push(self.finding("default-run", words));
        }
        for dependency in &self.dependencies {
            let name = dependency.name.as_str();
            let is_ours = packages.iter().any(|package| package.name == name);
            let problem = if is_ours {
                rule.problem_with_ours(dependency)
            } else {
                rule.problem_with_third_party(dependency)
            };
            findings.extend(problem.map(|problem| self.finding(name, &problem)));
        }
        if matches!(rule.third_parties, ThirdParties::Only { .. })
            && self
                .features
                .get("default")
                .is_some_and(|features| !features.is_empty())
        {
            findings.push(self.finding(
                "default",
                "a pure crate has default features: let those who need them ask",
            ));
        }
        findings
    }

    fn finding(&self, name: &str, words: &str) -> Finding {
        let is_about = |line: &str| {
            let key = line.trim_start().strip_prefix(name);
            key.is_some_and(|after| after.starts_with(['.', ' ', '=']))
        };
        let line = self
            .manifest
            .lines()
            .position(is_about)
            .map_or(1, |index| index + 1);
        Finding::error(&self.manifest_path, line, words)
    }
}

impl Rule {
    fn problem_with_ours(&self, dependency: &Dependency) -> Option<String> {
        let name = dependency.name.as_str();
        let is_dev = dependency.kind.as_deref() == Some("dev");
        let allowed = match self.ours {
            _ if name == TESTKIT => is_dev,
            Ours::All => true,
            // Tests of any crate may talk to the built-in agent, and open an engine of their own in a store.
            Ours::Only(names) => {
                names.contains(&name) || (is_dev && (name == BUILTIN || name == STORE))
            }
        };
        (!allowed).then(|| {
            format!(
                "{} may not depend on {name}: turn the arrow, or change xtask's edge table and the design",
                self.name
            )
        })
    }

    fn problem_with_third_party(&self, dependency: &Dependency) -> Option<String> {
        if dependency.kind.as_deref() == Some("dev") {
            return None;
        }
        let name = dependency.name.as_str();
        if let Some((_, homes)) = HOMES.iter().find(|(library, _)| *library == name)
            && !homes.contains(&self.name)
        {
            return Some(format!(
                "{name} lives in {}: call that crate, or move the code there",
                homes.join(", ")
            ));
        }
        match self.third_parties {
            ThirdParties::Only { always, .. } if always.contains(&name) => None,
            ThirdParties::Only { optional, .. }
                if dependency.optional && optional.contains(&name) =>
            {
                None
            }
            ThirdParties::Only { .. } => Some(format!(
                "{} is pure and {name} is not on its list: pass in what it needs, or write it in xtask's edge table",
                self.name
            )),
            ThirdParties::Any => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[(&str, Option<&str>, bool)]) -> Package {
        Package {
            name: name.to_owned(),
            dependencies: dependencies
                .iter()
                .map(|(name, kind, optional)| Dependency {
                    name: (*name).to_owned(),
                    kind: kind.map(str::to_owned),
                    optional: *optional,
                })
                .collect(),
            features: BTreeMap::new(),
            manifest_path: format!("crates/{name}/Cargo.toml"),
            default_run: (name == PRODUCT).then(|| PRODUCT.to_owned()),
            manifest: "[dependencies]\ndomain.workspace = true\ntokio = { workspace = true }\n"
                .to_owned(),
        }
    }

    fn found(dependent: Package) -> Vec<String> {
        let names = [
            "jsonrpc",
            "domain",
            "engine",
            "store",
            "agentcraft",
            "testkit",
        ];
        let others = names.iter().filter(|name| **name != dependent.name);
        let mut packages: Vec<Package> = others.map(|name| package(name, &[])).collect();
        packages.push(dependent);
        check(&packages).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn allowed_edges_pass() {
        let cases = [
            package(
                "engine",
                &[
                    ("domain", None, false),
                    ("store", None, false),
                    ("tokio", None, false),
                ],
            ),
            package("engine", &[("testkit", Some("dev"), false)]),
            package(
                "jsonrpc",
                &[
                    ("bytes", None, false),
                    ("tokio", None, true),
                    ("tokio", Some("dev"), false),
                ],
            ),
            package(
                "agentcraft",
                &[
                    ("engine", None, false),
                    ("testkit", Some("dev"), false),
                    ("clap", None, false),
                ],
            ),
        ];
        for case in cases {
            let words = format!("{case:?}");
            assert_eq!(found(case), [""; 0], "{words}");
        }
    }

    #[test]
    fn forbidden_edges_are_found_where_they_are_written() {
        let cases = [
            (
                package("store", &[("engine", None, false)]),
                "crates/store/Cargo.toml:1: store may not depend on engine",
            ),
            (
                package("jsonrpc", &[("domain", None, false)]),
                "crates/jsonrpc/Cargo.toml:2: jsonrpc may not depend on",
            ),
            (
                package("jsonrpc", &[("tokio", None, false)]),
                "crates/jsonrpc/Cargo.toml:3: jsonrpc is pure and tokio",
            ),
            (
                package("domain", &[("tokio", None, true)]),
                "crates/domain/Cargo.toml:3: domain is pure and tokio is",
            ),
            (
                package("agentcraft", &[("testkit", None, false)]),
                "crates/agentcraft/Cargo.toml:1: agentcraft may not",
            ),
            (
                package("engine", &[("rusqlite", None, false)]),
                "crates/engine/Cargo.toml:1: rusqlite lives in store",
            ),
            (
                package("stranger", &[]),
                "crates/stranger/Cargo.toml:1: this crate has no rule",
            ),
        ];
        for (case, start) in cases {
            let found = found(case);
            assert!(
                found.len() == 1 && found[0].starts_with(start),
                "{start}: {found:?}"
            );
        }
    }

    #[test]
    fn cargo_run_starts_the_product() {
        let mut product = package(PRODUCT, &[]);
        product.default_run = None;
        assert_eq!(found(product).len(), 1);
    }

    #[test]
    fn a_pure_crate_turns_nothing_on_by_default() {
        let mut jsonrpc = package("jsonrpc", &[("tokio", None, true)]);
        jsonrpc
            .features
            .insert("default".to_owned(), vec!["tokio".to_owned()]);
        assert_eq!(found(jsonrpc).len(), 1);
    }
}
