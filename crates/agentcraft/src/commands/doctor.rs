//! `agentcraft doctor`: looks at everything that has to be there, changes nothing, and says what to do.

mod configs;
mod home;
mod node;
mod programs;

use serde_json::json;

use crate::{
    args::{DoctorArgs, Format},
    config::Config,
    error::CommandError,
    exit::Exit,
    render::{Finding, Level, Screen, doctor_report},
};

pub(super) fn run(
    arguments: &DoctorArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let findings = findings(config)?;
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

/// Everything that was looked at.
pub(super) fn findings(config: &Config) -> Result<Vec<Finding>, CommandError> {
    let mut findings = Vec::new();
    findings.extend(home::check(config));
    findings.extend(node::check(config));
    findings.extend(configs::check(config));
    findings.extend(programs::check(config)?);
    Ok(findings)
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
