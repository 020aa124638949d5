//! `agentcraft journal`.

use std::collections::VecDeque;

use jiff::{Timestamp, tz::TimeZone};
use wire::daemon::{JournalLine, JournalParams};

use crate::{
    args::{JournalArgs, ReportFormat},
    config::Config,
    connection::Connection,
    error::CommandError,
    render::{Screen, journal_table},
};

/// How many lines one answer of the daemon has at most.
const PAGE: u32 = 1000;

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
        trace: arguments.trace.map(|trace| trace.to_string()),
        limit: Some(arguments.limit),
    };
    let mut connection = Connection::open(config)?;
    let lines = match arguments.limit {
        0..=PAGE => connection.call("journal.query", &params)?,
        limit => newest(&mut connection, params, limit as usize)?,
    };
    match arguments.format {
        ReportFormat::Json => lines.iter().try_for_each(|line| screen.json_line(line))?,
        ReportFormat::Table if lines.is_empty() => screen.note("nothing of that is recorded")?,
        ReportFormat::Table => screen.table(&journal_table(&lines))?,
    }
    Ok(())
}

/// More lines than one answer has: all of them are read, page by page, and the last ones kept.
fn newest(
    connection: &mut Connection,
    params: JournalParams,
    limit: usize,
) -> Result<Vec<JournalLine>, CommandError> {
    let mut lines: VecDeque<JournalLine> = VecDeque::new();
    let mut after = 0;
    loop {
        let params = JournalParams {
            after_seq: Some(after),
            limit: None,
            ..params.clone()
        };
        let page: Vec<JournalLine> = connection.call("journal.query", &params)?;
        let Some(last) = page.last() else {
            return Ok(lines.into());
        };
        after = last.seq;
        lines.extend(page);
        lines.drain(..lines.len().saturating_sub(limit));
    }
}
