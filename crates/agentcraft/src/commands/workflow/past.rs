//! Runs that were, and those that are: one with its steps, all of them, and the end of one.

use std::time::Duration;

use runner::{History, RunState, RunView, StartError};
use serde_json::json;

use crate::{
    args::{Format, HistoryArgs, StatusArgs},
    config::Config,
    error::CommandError,
    exit::Exit,
    render::{Screen, run_detail, run_table},
    standalone::run_records,
};

/// Runs that statistics are made of.
const COUNTED_MAX: u32 = 1_000;

/// How long whoever works on a run has to end it: the grace of its commands and a little more.
const CANCEL_PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn status(
    arguments: &StatusArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let history = open(config)?;
    let detail = block_on(runner::detail(
        &history,
        &arguments.run,
        &config.environment,
    ))?;
    let detail = detail.map_err(|error| super::refuse(&error, None, screen))?;
    let detail = detail.masked(&super::mask(config));
    match arguments.output.format {
        Format::Json => {
            let value = serde_json::to_value(&detail)
                .map_err(|error| CommandError::machine("write the run down", error))?;
            screen.json(&value)?;
        }
        Format::Quiet => screen.line(&detail.view.id)?,
        Format::Table => {
            let text = run_detail(&detail, screen.style());
            screen.print(&text)?;
        }
    }
    Ok(())
}

pub(super) fn history(
    arguments: &HistoryArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let history = open(config)?;
    let mut runs = listed(&history)?;
    if let Some(workflow) = &arguments.workflow {
        runs.retain(|run| run.workflow == *workflow);
    }
    if arguments.output.format == Format::Quiet {
        // Whoever takes the first one wants what they started, not a step of it.
        runs.retain(|run| run.parent.is_none());
    }
    let counts = Counts::of(&runs);
    runs.truncate(usize::try_from(arguments.limit).unwrap_or(usize::MAX));
    let mask = super::mask(config);
    let runs: Vec<RunView> = runs.into_iter().map(|run| run.masked(&mask)).collect();
    match arguments.output.format {
        Format::Json => {
            let value = json!({ "runs": runs, "statistics": counts.json() });
            screen.json(&value)?;
        }
        Format::Quiet => {
            for run in &runs {
                screen.line(&run.id)?;
            }
        }
        Format::Table if runs.is_empty() => screen.note("there are no runs yet")?,
        Format::Table => {
            screen.table(&run_table(&runs))?;
            screen.note(&counts.words())?;
        }
    }
    Ok(())
}

pub(super) fn cancel(
    arguments: &StatusArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let history = open(config)?;
    let get = |id: &str| block_on(history.get(id))?.map_err(store);
    let Some(run) = get(&arguments.run)? else {
        let id = arguments.run.clone();
        return Err(super::refuse(&StartError::NoRun { id }, None, screen));
    };
    let format = arguments.output.format;
    let told = |id: &str, state| json!({ "id": id, "state": word(state) });
    if run.state.is_over() {
        if format == Format::Json {
            return Ok(screen.json(&told(&run.id, run.state))?);
        }
        screen.note(&format!("it is over already: {}", word(run.state)))?;
        return Ok(());
    }
    block_on(history.cancel(&run.id, &config.state_dir.join("runs")))?.map_err(store)?;
    let over = history.over(&run.id, &config.state_dir, CANCEL_PATIENCE);
    match block_on(over)?.map_err(store)? {
        Some(now) if now.state.is_over() => {
            let words = format!("{} {}", now.id, word(now.state));
            let answer = told(&now.id, now.state);
            crate::commands::done(&answer, &now.id, &words, format, screen)
        }
        _ => {
            screen.warning("whoever works on it has not ended it yet")?;
            Err(CommandError::Shown(Exit::Failed))
        }
    }
}

/// How runs came out.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    total: usize,
    succeeded: usize,
    failed: usize,
    cancelled: usize,
    millis: i64,
}

impl Counts {
    fn of(runs: &[RunView]) -> Self {
        let mut counts = Self {
            total: runs.len(),
            ..Self::default()
        };
        for run in runs {
            match run.state {
                RunState::Succeeded => counts.succeeded += 1,
                RunState::Failed => counts.failed += 1,
                RunState::Cancelled => counts.cancelled += 1,
                RunState::Running | RunState::Waiting | RunState::Interrupted => continue,
            }
            counts.millis += run.updated_at - run.started_at;
        }
        counts
    }

    fn mean_millis(&self) -> i64 {
        let over = self.succeeded + self.failed + self.cancelled;
        self.millis / i64::try_from(over.max(1)).unwrap_or(1)
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "total": self.total, "succeeded": self.succeeded, "failed": self.failed,
            "cancelled": self.cancelled, "meanMs": self.mean_millis(),
        })
    }

    fn words(&self) -> String {
        let mean = Duration::from_millis(u64::try_from(self.mean_millis()).unwrap_or(0));
        format!(
            "{} runs: {} succeeded, {} failed, {} cancelled; {} on average",
            self.total,
            self.succeeded,
            self.failed,
            self.cancelled,
            workflow::format_duration(mean)
        )
    }
}

fn word(state: RunState) -> &'static str {
    match state {
        RunState::Running => "running",
        RunState::Waiting => "waiting",
        RunState::Interrupted => "interrupted",
        RunState::Succeeded => "succeeded",
        RunState::Failed => "failed",
        RunState::Cancelled => "cancelled",
    }
}

/// The newest runs, for whoever only wants to name one; none where they cannot be read.
pub(crate) fn past_runs(config: &Config) -> Vec<RunView> {
    let found = open(config).and_then(|history| listed(&history));
    found.unwrap_or_default()
}

fn open(config: &Config) -> Result<History, CommandError> {
    let records = run_records(config)
        .map_err(|error| CommandError::machine("open the records of runs", error))?;
    Ok(History::new(records))
}

fn listed(history: &History) -> Result<Vec<RunView>, CommandError> {
    block_on(history.list(COUNTED_MAX))?.map_err(store)
}

fn store(error: engine::EngineError) -> CommandError {
    CommandError::machine("read the records of runs", error)
}

fn block_on<T>(future: impl Future<Output = T>) -> Result<T, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::machine("start the runtime", error))?;
    Ok(runtime.block_on(future))
}
