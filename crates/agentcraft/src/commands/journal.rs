//! `agentcraft journal`.

use jiff::{Timestamp, tz::TimeZone};
use wire::daemon::{JournalLine, JournalParams};

use crate::{
    args::{JournalArgs, ReportFormat},
    config::Config,
    connection::Connection,
    error::CommandError,
    render::{Screen, journal_table},
};

pub(super) fn run(
    arguments: JournalArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let since = arguments
        .since
        .map(|since| {
            let moment = since.milliseconds(Timestamp::now(), TimeZone::system());
            moment.ok_or_else(|| CommandError::Refused {
                message: "the moment of --since is out of reach".to_owned(),
                hint: "write a later one".to_owned(),
            })
        })
        .transpose()?;
    let params = JournalParams {
        agent: arguments.agent.map(|agent| agent.to_string()),
        session: arguments.session,
        kind: arguments.kind,
        since,
        after_seq: None,
        grep: arguments.grep,
        limit: Some(arguments.limit),
    };
    let lines: Vec<JournalLine> = Connection::open(config)?.call("journal.query", &params)?;
    match arguments.format {
        ReportFormat::Json => lines.iter().try_for_each(|line| screen.json_line(line))?,
        ReportFormat::Table if lines.is_empty() => screen.note("nothing of that is recorded")?,
        ReportFormat::Table => screen.table(&journal_table(&lines))?,
    }
    Ok(())
}
