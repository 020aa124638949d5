//! A run as it happens: its events on the screen, its questions to the person there, and Ctrl-C.

mod asking;
mod reader;
mod speech;

use std::{io, sync::Arc, time::Duration};

use engine::{AskRequest, EventLog, Page, SessionSink};
use runner::{Audience, Execution, Found, Progress, StartError, Surroundings};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines, Stdin},
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;
use workflow::{Finish, Outcome};

use asking::Asking;
use reader::Reader;
use speech::Speech;

use super::run;
use crate::{
    args::TalkFormat,
    commands::talk,
    config::Config,
    error::CommandError,
    exit::Exit,
    render::{RunLines, Screen},
    standalone::Standalone,
};

/// Questions that wait; each step asks one at a time.
const ASKS_MAX: usize = 64;

/// The run reports when it waits and when it is over.
const REPORTS_MAX: usize = 4;

/// Events taken at a time.
const PAGE: usize = 256;

/// What a run exits with that nobody reads any more, as shells tell a broken pipe: 128 and the number of SIGPIPE.
const UNREAD: i32 = 141;

/// Without anything new for so long, what is on the screen is completed.
const PAUSE: Duration = Duration::from_millis(120);

/// A node for one run, and the screen it is shown on.
pub(super) struct Live<'a> {
    node: Standalone,
    log: Arc<EventLog>,
    audience: Audience,
    asks: mpsc::Receiver<AskRequest>,
    /// What is said in a conversation where there is no terminal: a line each, and its end is the conversation's.
    input: Lines<BufReader<Stdin>>,
    lines: RunLines,
    /// Whoever reads what is printed.
    reader: Reader,
    config: &'a Config,
    screen: &'a mut Screen,
    format: TalkFormat,
    next: u64,
    asking: Asking,
    cwd: String,
    /// Ends the run.
    cancel: CancellationToken,
}

/// A run that has begun.
pub(super) struct Started {
    pub(super) execution: Execution,
    /// Empty where it is not known before.
    pub(super) workflow: String,
}

enum Report {
    Waiting,
    Finished(Finish),
    Failed(StartError),
}

impl<'a> Live<'a> {
    pub(super) async fn open(
        format: TalkFormat,
        config: &'a Config,
        screen: &'a mut Screen,
    ) -> Result<Self, CommandError> {
        let node = Standalone::open(config)
            .await
            .map_err(|error| CommandError::machine("prepare the run", error))?;
        let log = Arc::new(EventLog::new(1));
        let (sender, asks) = mpsc::channel(ASKS_MAX);
        let audience = Audience::new(SessionSink::new(log.clone(), sender), node.runs.mask());
        let lines = RunLines::new(format, config, screen);
        Ok(Self {
            audience: match lines.is_plain() {
                true => audience.told_as_it_is_printed(),
                false => audience.told_everything(),
            },
            lines,
            reader: Reader::of_stdout(),
            node,
            log,
            asks,
            input: BufReader::new(tokio::io::stdin()).lines(),
            config,
            screen,
            format,
            next: 1,
            asking: Asking::default(),
            cwd: String::new(),
            cancel: CancellationToken::new(),
        })
    }

    pub(super) fn runs(&self) -> &Surroundings {
        &self.node.runs
    }

    pub(super) fn audience(&self) -> &Audience {
        &self.audience
    }

    /// Shows the run to its end, puts the node away, and says how it came out.
    pub(super) async fn finish(
        mut self,
        started: Result<Started, StartError>,
        found: Option<&Found>,
    ) -> Result<(), CommandError> {
        let shown = match started {
            Ok(started) => self.watch(started).await,
            Err(error) => self.refuse(&error, found),
        };
        self.node
            .close(self.config)
            .await
            .map_err(|error| CommandError::machine("put the run's space away", error))?;
        shown
    }

    fn refuse(&mut self, error: &StartError, found: Option<&Found>) -> Result<(), CommandError> {
        if self.format == TalkFormat::Json {
            self.screen.json_line(&run::refusal(error))?;
            return Err(CommandError::Shown(Exit::of_run(error.exit_code())));
        }
        Err(super::refuse(error, found, self.screen))
    }

    async fn watch(&mut self, started: Started) -> Result<(), CommandError> {
        let Started {
            execution,
            workflow,
        } = started;
        let id = execution.id().to_owned();
        self.cwd = execution.cwd().to_string_lossy().into_owned();
        match self.format {
            TalkFormat::Json => self
                .screen
                .json_line(&json!({ "type": "run", "runId": id, "workflow": workflow }))?,
            TalkFormat::Text => self.screen.note(&format!("run {id}"))?,
        }
        let mut signals = Signals::new()?;
        let (answers, mut reports) = self.drive(execution);
        let shown = self.attend(&id, &answers, &mut reports, &mut signals);
        let shown = shown.await;
        if let Err(CommandError::Print(error)) = &shown {
            self.end_unseen(&mut reports, &mut signals).await;
            if error.kind() == io::ErrorKind::BrokenPipe {
                return Err(CommandError::Shown(Exit::of_run(UNREAD)));
            }
        }
        shown
    }

    /// Shows what happens until the run is over.
    async fn attend(
        &mut self,
        id: &str,
        answers: &mpsc::Sender<String>,
        reports: &mut mpsc::Receiver<Report>,
        signals: &mut Signals,
    ) -> Result<(), CommandError> {
        let mut speech: Option<Speech> = None;
        loop {
            self.show_events()?;
            tokio::select! { biased;
                () = signals.next() => {
                    speech = None;
                    self.interrupt()?;
                }
                () = self.reader.left() => {
                    return Err(CommandError::Print(io::ErrorKind::BrokenPipe.into()));
                }
                Some(request) = self.asks.recv() => self.ask(request)?,
                () = self.asking.changed() => self.look_at_answers()?,
                report = reports.recv() => {
                    drop(speech.take()); // Words are not waited for any more.
                    self.show_events()?;
                    match report {
                        Some(Report::Waiting) => {
                            self.lines.close(self.screen)?;
                            speech = Some(Speech::begin(self.screen.can_ask()));
                        }
                        Some(Report::Finished(finish)) => return self.conclude(id, &finish),
                        Some(Report::Failed(error)) => return self.refuse(&error, None),
                        None => return Err(CommandError::Shown(Exit::Failed)),
                    }
                }
                said = speech::said(&mut speech, &mut self.input) => {
                    speech = None;
                    let _ = answers.send(said?).await; // The run may have been cancelled.
                }
                () = self.log.newer_than(self.next - 1) => {}
                () = tokio::time::sleep(PAUSE) => {
                    self.lines.pause(self.screen)?;
                    self.look_at_answers()?;
                }
            }
        }
    }

    /// Nobody reads what is shown any more: the run is cancelled as with Ctrl-C, and ended to its end.
    async fn end_unseen(&mut self, reports: &mut mpsc::Receiver<Report>, signals: &mut Signals) {
        self.cancel.cancel();
        loop {
            tokio::select! { biased;
                () = signals.next() => return,
                Some(_) = self.asks.recv() => {} // A question that is dropped is declined.
                report = reports.recv() => match report {
                    Some(Report::Waiting) => {}
                    Some(Report::Finished(_) | Report::Failed(_)) | None => return,
                },
                () = self.log.newer_than(self.next - 1) => {
                    // There is room for what comes only where somebody has taken what was there.
                    while let Page::Events(events) = self.log.read(self.next, PAGE) {
                        let Some(last) = events.last() else {
                            break;
                        };
                        self.next = last.seq + 1;
                        self.log.stored(last.seq);
                    }
                }
            }
        }
    }

    /// Cancels the first time, leaves the second.
    fn interrupt(&mut self) -> Result<(), CommandError> {
        if self.cancel.is_cancelled() {
            // Whoever asks a second time is in a hurry; the guardian ends what is left.
            return Err(CommandError::Shown(Exit::of_run(130)));
        }
        self.asking.step_aside();
        self.lines.close(self.screen)?;
        self.screen.note("cancelling; once more to leave at once")?;
        self.cancel.cancel();
        Ok(())
    }

    /// The run goes on in a task, whatever the screen waits for.
    fn drive(&self, mut execution: Execution) -> (mpsc::Sender<String>, mpsc::Receiver<Report>) {
        let cancel = self.cancel.clone();
        let (reports, heard) = mpsc::channel(REPORTS_MAX);
        let (answers, mut said) = mpsc::channel(1);
        self.node.tasks.spawn(|_| async move {
            loop {
                let report = match execution.drive(&cancel).await {
                    Ok(Progress::Waiting(_)) => {
                        let _ = reports.send(Report::Waiting).await; // Then the answers end too.
                        let answer = tokio::select! { biased;
                            () = cancel.cancelled() => continue,
                            () = execution.cancel_asked() => continue,
                            answer = said.recv() => answer,
                        };
                        match execution.answer(answer.unwrap_or_default()).await {
                            Ok(()) => continue,
                            Err(error) => Report::Failed(error),
                        }
                    }
                    Ok(Progress::Finished(finish)) => {
                        execution.conclude(&finish);
                        Report::Finished(finish)
                    }
                    Err(error) => Report::Failed(error),
                };
                let _ = reports.send(report).await; // Somebody in a hurry has left.
                return;
            }
        });
        (answers, heard)
    }

    fn show_events(&mut self) -> Result<(), CommandError> {
        while let Page::Events(events) = self.log.read(self.next, PAGE) {
            let Some(last) = events.last() else {
                break;
            };
            self.next = last.seq + 1;
            if events.iter().any(|event| talk::is_shown(&event.kind)) {
                self.asking.step_aside();
            }
            for event in &events {
                self.lines.event(event, self.screen)?;
            }
            self.log.stored(last.seq);
        }
        Ok(())
    }

    fn conclude(&mut self, id: &str, finish: &Finish) -> Result<(), CommandError> {
        self.lines.close(self.screen)?;
        let code = runner::exit_code(finish);
        let finish = &self.audience.masked(finish);
        if self.format == TalkFormat::Json {
            let value = json!({
                "type": "result", "runId": id, "outcome": finish.outcome, "exitCode": code,
                "message": finish.message, "failure": finish.failure, "outputs": finish.outputs,
            });
            self.screen.json_line(&value)?;
        } else {
            match finish.outcome {
                Outcome::Succeeded if finish.outputs.is_empty() => {}
                Outcome::Succeeded => {
                    let outputs = serde_json::Value::Object(finish.outputs.clone());
                    self.screen.json_line(&outputs)?;
                }
                Outcome::Cancelled => self.screen.note("cancelled")?,
                Outcome::Failed => {
                    self.screen.note(&format!("error: {}", finish.message))?;
                    self.screen.note(&what_next(id, finish))?;
                }
            }
        }
        match code {
            0 => Ok(()),
            code => Err(CommandError::Shown(Exit::of_run(code))),
        }
    }
}

/// What can be done about a run that has failed.
fn what_next(id: &str, finish: &Finish) -> String {
    let shows = format!("`agentcraft workflow status {id}` shows its steps");
    let resume = format!("agentcraft workflow resume {id}");
    match &finish.failure {
        Some(failure) if finish.doubtful => format!(
            "{shows}; what was interrupted is not repeated by itself: `{resume}` asks you at a terminal, `{resume} --from {}` does it again",
            failure.step
        ),
        Some(_) | None => format!("{shows}, `{resume}` tries again"),
    }
}

/// Whatever asks us to stop.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> Result<Self, CommandError> {
        let listen =
            |kind| signal(kind).map_err(|error| CommandError::machine("listen to signals", error));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}
