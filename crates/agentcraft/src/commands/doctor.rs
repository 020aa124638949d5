//! `agentcraft doctor`: looks at everything that has to be there, changes nothing, and says what to do.

mod configs;
mod home;
mod node;
mod programs;

use serde_json::json;

use crate::{
    args::{DoctorArgs, Format},
    config::{Config, ConfigError},
    error::CommandError,
    exit::Exit,
    render::{Finding, Level, Screen, doctor_report},
};

pub(super) fn run(
    arguments: &DoctorArgs,
    config: &Config,
    problem: Option<&ConfigError>,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let findings = findings(config, problem)?;
    let failed = findings.iter().any(|finding| finding.level == Level::Fail);
    match Format::from(arguments.format) {
        Format::Json => screen.json(&json!({ "ok": !failed, "findings": findings }))?,
        Format::Table | Format::Quiet => screen.print(&doctor_report(&findings, screen.style()))?,
    }
    if failed {
        Err(CommandError::Shown(Exit::Failed))
    } else {
        Ok(())
    }
}

/// Everything that was looked at; `problem` is what is wrong with the settings, in place of which the defaults are used.
pub(super) fn findings(
    config: &Config,
    problem: Option<&ConfigError>,
) -> Result<Vec<Finding>, CommandError> {
    let mut findings: Vec<_> = problem.map(settings).into_iter().collect();
    findings.extend(home::check(config));
    findings.extend(node::check(config));
    findings.extend(configs::check(config));
    findings.extend(programs::check(config)?);
    Ok(findings)
}

fn settings(problem: &ConfigError) -> Finding {
    let remedy = problem.hint();
    fail(
        "settings",
        problem.to_string(),
        remedy.unwrap_or_else(|| "correct it; no other command works until then".to_owned()),
    )
}

fn ok(check: &str, message: impl Into<String>) -> Finding {
    finding(check, Level::Ok, message, None)
}

fn note(check: &str, message: impl Into<String>, remedy: impl Into<String>) -> Finding {
    finding(check, Level::Note, message, Some(remedy.into()))
}

fn warn(check: &str, message: impl Into<String>, remedy: impl Into<String>) -> Finding {
    finding(check, Level::Warn, message, Some(remedy.into()))
}

fn fail(check: &str, message: impl Into<String>, remedy: impl Into<String>) -> Finding {
    finding(check, Level::Fail, message, Some(remedy.into()))
}

fn finding(
    check: &str,
    level: Level,
    message: impl Into<String>,
    remedy: Option<String>,
) -> Finding {
    Finding {
        check: check.to_owned(),
        level,
        message: message.into(),
        remedy,
    }
}
