//! The report of `doctor`: findings with their remedies.

use serde::Serialize;

use super::style::{Style, Tone, one_line};

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) check: String,
    pub(crate) level: Level,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remedy: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Ok,
    /// Not there, and only missed by those who want it.
    Note,
    /// Works, but not as it should.
    Warn,
    /// Keeps agentcraft from working.
    Fail,
}

impl Level {
    fn mark(self) -> (&'static str, Tone) {
        match self {
            Self::Ok => ("ok  ", Tone::Good),
            Self::Note => ("note", Tone::Faint),
            Self::Warn => ("warn", Tone::Doubtful),
            Self::Fail => ("fail", Tone::Bad),
        }
    }
}

pub(crate) fn doctor_report(findings: &[Finding], style: Style) -> String {
    let width = findings
        .iter()
        .map(|finding| finding.check.chars().count())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let (mark, tone) = finding.level.mark();
        let check = format!("{:<width$}", finding.check);
        let message = one_line(&finding.message);
        text.push_str(&format!(
            "{}  {}  {message}\n",
            style.paint(tone, mark),
            style.paint(Tone::Strong, &check)
        ));
        if let Some(remedy) = &finding.remedy {
            let indent = " ".repeat(width + 8);
            text.push_str(&format!(
                "{indent}{} {}\n",
                style.paint(Tone::Faint, "->"),
                one_line(remedy)
            ));
        }
    }
    let count = |level| {
        findings
            .iter()
            .filter(|finding| finding.level == level)
            .count()
    };
    text.push_str(&match (count(Level::Fail), count(Level::Warn)) {
        (0, 0) => "\nall is well\n".to_owned(),
        (0, warnings) => format!("\nit works; {warnings} to look at\n"),
        (failures, warnings) => format!("\n{failures} in the way, {warnings} to look at\n"),
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_stands_with_its_remedy() {
        let finding = |check: &str, level, message: &str, remedy: Option<&str>| Finding {
            check: check.to_owned(),
            level,
            message: message.to_owned(),
            remedy: remedy.map(str::to_owned),
        };
        let findings = [
            finding("home", Level::Ok, "/h", None),
            finding(
                "daemon",
                Level::Warn,
                "is not running",
                Some("agentcraft daemon start"),
            ),
        ];
        assert_eq!(
            doctor_report(&findings, Style::Plain),
            "ok    home    /h\nwarn  daemon  is not running\n              -> agentcraft daemon start\n\n\
             it works; 1 to look at\n"
        );
    }
}
