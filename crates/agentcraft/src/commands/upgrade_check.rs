//! `agentcraft upgrade-check`: whether this version can go on with what is kept.

use std::path::Path;

use serde_json::json;
use store::Schema;

use crate::{
    args::{ReportFormat, UpgradeCheckArgs},
    config::Config,
    connection::VERSION,
    error::CommandError,
    exit::Exit,
    render::Screen,
};

/// What opening a store would mean, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Empty,
    Same,
    Forward,
    Refused,
}

impl Verdict {
    fn of(schema: Option<Schema>) -> Self {
        match schema {
            None => Self::Empty,
            Some(schema) if !schema.is_usable() => Self::Refused,
            Some(schema) if schema.found == schema.known => Self::Same,
            Some(_) => Self::Forward,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Same => "same",
            Self::Forward => "forward",
            Self::Refused => "refused",
        }
    }
}

pub(super) fn run(
    arguments: &UpgradeCheckArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let mut stores = Vec::new();
    for path in config.stores() {
        let schema = store::inspect(&path)
            .map_err(|error| CommandError::machine("look at what is kept", error))?;
        stores.push((path, schema));
    }
    // What holds for the worst of them decides.
    let worst = stores.iter().max_by_key(|(_, schema)| Verdict::of(*schema));
    let schema = worst.and_then(|(_, schema)| *schema);
    let verdict = Verdict::of(schema);
    match arguments.format {
        ReportFormat::Json => screen.json(&json!({
            "ok": verdict != Verdict::Refused,
            "verdict": verdict.word(),
            "program": VERSION,
            "found": schema.map(|schema| schema.found),
            "known": schema.map(|schema| schema.known),
            "store": worst.map(|(path, _)| path),
        }))?,
        ReportFormat::Table => {
            for (path, schema) in &stores {
                screen.line(&told(path, *schema))?;
            }
        }
    }
    match verdict {
        Verdict::Refused => Err(CommandError::Shown(Exit::Failed)),
        Verdict::Empty | Verdict::Same | Verdict::Forward => Ok(()),
    }
}

/// A store, and what opening it would mean.
fn told(path: &Path, schema: Option<Schema>) -> String {
    format!("{}: {}", path.display(), words(Verdict::of(schema), schema))
}

fn words(verdict: Verdict, schema: Option<Schema>) -> String {
    let (found, known) = schema.map_or((0, 0), |schema| (schema.found, schema.known));
    match verdict {
        Verdict::Empty => "nothing is kept yet: any version may begin".to_owned(),
        Verdict::Same => format!("schema {found}: this version goes on as it is"),
        Verdict::Forward => format!(
            "schema {found}: the next start backs it up and brings it forward to {known}; older versions then refuse it"
        ),
        Verdict::Refused if found < 0 => {
            format!(
                "schema {found}: no store of this program, which would refuse it; move the file away"
            )
        }
        Verdict::Refused => format!(
            "schema {found}: written by a newer version, this one knows {known} and would refuse it; install that version \
             again, or point AGENTCRAFT_HOME to another folder"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_newer_or_never_was_is_refused() {
        let verdict = |found, known| Verdict::of(Some(Schema { found, known }));
        assert_eq!(Verdict::of(None), Verdict::Empty);
        assert_eq!(verdict(3, 3), Verdict::Same);
        assert_eq!(verdict(1, 3), Verdict::Forward);
        assert_eq!(verdict(4, 3), Verdict::Refused);
        assert_eq!(verdict(-5, 3), Verdict::Refused);
    }

    #[test]
    fn each_store_is_told_by_its_own_name() {
        let same = Some(Schema { found: 3, known: 3 });
        let path = Path::new("/home/me/data/runs.db");
        let expected = "/home/me/data/runs.db: schema 3: this version goes on as it is";
        assert_eq!(told(path, same), expected);
        assert!(told(path, None).starts_with("/home/me/data/runs.db: nothing is kept yet"));
    }
}
