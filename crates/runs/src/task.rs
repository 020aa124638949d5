//! The task that owns one run: it follows the turn, lets the machine decide, keeps the decision, then shows it.
//!
//! While the run awaits, the task only waits too; when the daemon goes, the record is enough to go on.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use domain::{
    run::{Effect, Input, Status, TurnEnd},
    turn::{Answer, AskId, AskKind, Event as TurnEvent, EventKind, Stop},
};
use engine::{EngineError, EventReader, Keep, Note};
use serde_json::json;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::warn;
use wire::runs::{Event, Message, Part, RunEvent};

use crate::{
    awaits,
    begin::{self, Begun},
    error::RunsError,
    log::RunLog,
    node::{Handle, Runs},
    record::{self, Dialect, Failure, Lifetime, RUN, RunRecord},
    story::Story,
};

/// Commands that may wait at a run; a caller sends one at a time.
const COMMANDS_MAX: usize = 16;

/// What a caller wants of a run.
#[derive(Debug)]
pub(crate) enum Command {
    Resume {
        messages: Vec<Message>,
        /// How many events there were before; a stream of the resume begins after them.
        reply: oneshot::Sender<Result<u64, RunsError>>,
    },
    Cancel {
        reply: oneshot::Sender<Result<(), RunsError>>,
    },
}

pub(crate) struct RunTask {
    runs: Runs,
    record: RunRecord,
    log: Arc<RunLog>,
    view: watch::Sender<Arc<RunRecord>>,
    story: Story,
    opening: Option<AbortOnDropHandle<Result<Begun, RunsError>>>,
    begun: Option<Begun>,
    /// Events that were looked at before their turn came.
    ahead: VecDeque<Arc<TurnEvent>>,
    in_turn: bool,
    has_awaited: bool,
}

/// Starts the task of a run. A new one begins its work; one that awaits waits for its answer.
pub(crate) fn spawn(runs: &Runs, record: RunRecord, log: RunLog) -> Handle {
    let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
    let log = Arc::new(log);
    let (view_in, view) = watch::channel(Arc::new(record.clone()));
    let handle = Handle {
        commands,
        log: log.clone(),
        view,
    };
    let mut task = RunTask {
        runs: runs.clone(),
        story: Story::new(&record.agent),
        has_awaited: record.status() == Status::Awaiting,
        record,
        log,
        view: view_in,
        opening: None,
        begun: None,
        ahead: VecDeque::new(),
        in_turn: false,
    };
    runs.tasks()
        .spawn(|stop| async move { task.run(inbox, stop).await });
    handle
}

/// What the task wakes up for.
enum Wake {
    Stop,
    Opened(Box<Result<Begun, RunsError>>),
    Command(Command),
    Event(Result<Option<Arc<TurnEvent>>, EngineError>),
    Due,
}

impl RunTask {
    async fn run(&mut self, mut inbox: mpsc::Receiver<Command>, stop: CancellationToken) {
        if self.record.status() == Status::Created {
            self.log.append(Event::of_run(self.record.view()));
            self.input(Input::Start, None).await;
        }
        while !self.record.status().is_over() {
            match self.wake(&mut inbox, &stop).await {
                Wake::Stop => return,
                Wake::Opened(opened) => self.on_opened(*opened).await,
                Wake::Command(command) => self.on_command(command).await,
                Wake::Event(event) => self.on_event(event).await,
                Wake::Due => self.input(Input::Tick, None).await,
            }
            if self.log.is_full() {
                self.flush().await;
            }
        }
        self.runs.forget(&self.record.id);
        self.log.finish();
        // Whoever asked in the last moment learns that it is over.
        inbox.close();
        while let Some(command) = inbox.recv().await {
            self.on_command(command).await;
        }
    }

    async fn wake(
        &mut self,
        inbox: &mut mpsc::Receiver<Command>,
        stop: &CancellationToken,
    ) -> Wake {
        let wait = self
            .record
            .machine
            .due()
            .map(|due| due.since(record::now()));
        if let Some(event) = self.ahead.pop_front() {
            return Wake::Event(Ok(Some(event)));
        }
        tokio::select! { biased;
            () = stop.cancelled() => Wake::Stop,
            command = inbox.recv() => command.map_or(Wake::Stop, Wake::Command),
            opened = opened(&mut self.opening) => {
                self.opening = None;
                Wake::Opened(Box::new(opened))
            }
            event = next(&mut self.begun) => Wake::Event(event),
            () = due(wait) => Wake::Due,
        }
    }

    async fn on_command(&mut self, command: Command) {
        match command {
            Command::Resume { messages, reply } => {
                let result = self.resume(&messages).await;
                let _ = reply.send(result); // The caller may have left.
            }
            Command::Cancel { reply } => {
                let applied = self.try_input(Input::Cancel, None).await;
                let _ = reply.send(applied); // As above.
            }
        }
    }

    async fn resume(&mut self, messages: &[Message]) -> Result<u64, RunsError> {
        let seen = self.log.count();
        let asked = self
            .record
            .asked()
            .map(|(id, kind)| (id.clone(), kind.clone()));
        let Some((ask, kind)) = asked else {
            self.try_input(Input::Resume, None).await?;
            return Ok(seen);
        };
        let answer = awaits::answer(&kind, messages).map_err(|how| RunsError::WrongAnswer {
            id: self.record.id.clone(),
            how,
        })?;
        self.record.asks.remove(&ask.0);
        let resumed = self
            .try_input(Input::Resume, Some((kind.clone(), answer)))
            .await;
        if resumed.is_err() {
            self.record.asks.insert(ask.0, kind);
        }
        resumed.map(|()| seen)
    }

    async fn on_opened(&mut self, opened: Result<Begun, RunsError>) {
        match opened {
            Ok(begun) => {
                self.record.engine_session = Some(begun.engine_session.clone());
                self.record.turn = Some(begun.turn);
                let session = begun.engine_session.clone();
                let changed = self.runs.change_session(&self.record.session, |kept| {
                    kept.engine_session = Some(session);
                });
                if let Err(error) = changed.await {
                    warn!(%error, run = self.record.id, "the session could not be kept");
                }
                self.begun = Some(begun);
                self.keep(None).await;
                if self.record.status() == Status::Cancelling {
                    self.cancel_turn().await;
                }
            }
            Err(_) if self.record.status() == Status::Cancelling => {
                let end = TurnEnd::Cancelled;
                self.input(Input::TurnEnded { end }, None).await;
            }
            Err(error) => {
                self.record.error = Some(error.failure());
                self.input(Input::Fail, None).await;
            }
        }
    }

    async fn on_event(&mut self, event: Result<Option<Arc<TurnEvent>>, EngineError>) {
        let event = match event {
            Ok(Some(event)) => event,
            Ok(None) => return self.lost("the session ended before the run did").await,
            Err(error) => return self.lost(&engine::chain(&error)).await,
        };
        match &event.kind {
            EventKind::TurnStarted { turn, .. } => {
                self.in_turn = Some(*turn) == self.record.turn;
            }
            EventKind::TurnEnded { turn, stop } if Some(*turn) == self.record.turn => {
                self.on_turn_ended(stop.clone()).await;
            }
            _ if !self.in_turn => {}
            EventKind::Ask(ask) => self.on_ask(ask.id.clone(), ask.kind.clone()).await,
            EventKind::AskSettled { ask, .. } => self.on_settled(ask.clone()).await,
            _ => {
                for told in self.story.tell(&event) {
                    self.log.append(told);
                }
            }
        }
    }

    async fn on_ask(&mut self, ask: AskId, kind: AskKind) {
        if self.is_settled_already(&ask).await {
            return; // The policy has decided; the caller has nothing to say.
        }
        if let Some(standing) = &self.record.standing
            && let Some(answer) = awaits::standing_answer(standing, &kind)
        {
            self.record.standing = None;
            self.keep(None).await;
            self.answer(ask, answer).await;
            return;
        }
        self.close_message().await;
        self.record.asks.insert(ask.0.clone(), kind);
        self.has_awaited = true;
        self.input(Input::Asked { ask }, None).await;
    }

    /// An ask that the policy decides is settled in the same breath; looking ahead tells.
    async fn is_settled_already(&mut self, ask: &AskId) -> bool {
        if let Some(begun) = &mut self.begun {
            while let Ok(Some(event)) = begun.reader.try_next().await {
                self.ahead.push_back(event);
            }
        }
        self.ahead.iter().any(|event| {
            matches!(&event.kind, EventKind::AskSettled { ask: settled, .. } if settled == ask)
        })
    }

    async fn on_settled(&mut self, ask: AskId) {
        if self.record.asks.remove(&ask.0).is_some() {
            self.input(Input::Settled { ask }, None).await;
        }
    }

    async fn on_turn_ended(&mut self, stop: Stop) {
        self.close_message().await;
        let end = match &stop {
            Stop::EndTurn | Stop::MaxTokens | Stop::MaxTurnRequests => TurnEnd::Done,
            Stop::Cancelled => TurnEnd::Cancelled,
            Stop::Refusal | Stop::Failed { .. } => TurnEnd::Failed,
        };
        if end == TurnEnd::Done {
            self.deliver().await;
        }
        if matches!(stop, Stop::MaxTokens | Stop::MaxTurnRequests) {
            let told = json!({ "kind_of_event": "stop", "reason": stop.as_str() });
            self.log.append(Event::of_generic(told));
        }
        if self.record.status() != Status::Cancelling {
            self.record.error = failure(&stop);
        }
        self.input(Input::TurnEnded { end }, None).await;
    }

    async fn lost(&mut self, why: &str) {
        self.begun = None;
        self.close_message().await;
        self.record.error = Some(Failure {
            code: "session_lost".to_owned(),
            message: why.to_owned(),
            details: None,
            suggestion: "begin a new run".to_owned(),
        });
        self.input(Input::Fail, None).await;
    }

    /// The words so far become a message of the output.
    async fn close_message(&mut self) {
        let Some(mut message) = self.story.close(record::now()) else {
            return;
        };
        let mut parts = Vec::new();
        for part in message.parts {
            let record = &self.record;
            let runs = &self.runs;
            parts.push(
                runs.shorten(part, &record.agent, &record.caller, &record.base)
                    .await,
            );
        }
        message.parts = parts;
        self.record.output.push(message.clone());
        self.log
            .append(Event::of_message(RunEvent::MessageCompleted, message));
    }

    /// The files that the turn has left become a message of the output.
    async fn deliver(&mut self) {
        let Some((workspace, before)) = self.begun.as_ref().and_then(|begun| {
            let before = begun.before.clone()?;
            Some((begun.workspace.clone(), before))
        }) else {
            return;
        };
        let record = &self.record;
        let delivered = self.runs.deliver_files(
            &record.agent,
            &workspace,
            &before,
            &record.caller,
            &record.base,
        );
        let parts = delivered.await;
        if parts.is_empty() {
            return;
        }
        self.tell_parts(parts);
    }

    fn tell_parts(&mut self, parts: Vec<Part>) {
        let now = record::now();
        let empty = self.story.message(Vec::new(), now, now);
        self.log
            .append(Event::of_message(RunEvent::MessageCreated, empty));
        for part in &parts {
            self.log
                .append(Event::of_part(RunEvent::MessagePart, part.clone()));
            // Standard clients break on the word.
            if self.record.dialect == Dialect::Network {
                self.log
                    .append(Event::of_part(RunEvent::Artifact, part.clone()));
            }
        }
        let message = self.story.message(parts, now, now);
        self.record.output.push(message.clone());
        self.log
            .append(Event::of_message(RunEvent::MessageCompleted, message));
    }

    /// An input nobody waits for.
    async fn input(&mut self, input: Input, answer: Option<(AskKind, Answer)>) {
        if let Err(error) = self.try_input(input, answer).await {
            warn!(run = self.record.id, %error, "the run could not go on");
        }
    }

    async fn try_input(
        &mut self,
        input: Input,
        answer: Option<(AskKind, Answer)>,
    ) -> Result<(), RunsError> {
        let before = (self.record.status(), self.record.machine.awaits().cloned());
        let effects = self
            .record
            .machine
            .apply(input, record::now())
            .map_err(|refusal| RunsError::Refused {
                id: self.record.id.clone(),
                refusal,
            })?;
        for effect in &effects {
            self.explain(effect);
        }
        if effects.contains(&Effect::GoOn)
            && let Some((kind, answer)) = &answer
        {
            self.record.standing = awaits::standing(kind, answer);
        }
        let after = (self.record.status(), self.record.machine.awaits().cloned());
        if before != after {
            self.moved().await;
        }
        for effect in effects {
            self.perform(effect, answer.as_ref()).await;
        }
        Ok(())
    }

    /// Why the run has failed, where the machine found it out.
    fn explain(&mut self, effect: &Effect) {
        let limits = self.runs.config().limits;
        let (code, message, limit, suggestion) = match effect {
            Effect::OutOfTime => (
                "execution_timeout",
                "the work took too long and was ended",
                limits.work,
                "ask for less at once, or raise the node's limit",
            ),
            Effect::Unanswered => (
                "await_timeout",
                "nobody answered what the run asked",
                limits.answer,
                "begin a new run and answer it in time",
            ),
            Effect::Begin
            | Effect::Answer { .. }
            | Effect::GoOn
            | Effect::CancelTurn
            | Effect::TickAt { .. } => return,
        };
        self.record.error = Some(Failure {
            code: code.to_owned(),
            message: message.to_owned(),
            details: Some(json!({ "timeout_seconds": limit.as_secs_f64() })),
            suggestion: suggestion.to_owned(),
        });
    }

    async fn perform(&mut self, effect: Effect, answer: Option<&(AskKind, Answer)>) {
        match effect {
            Effect::Begin => self.open(self.record.prompt.clone()),
            Effect::Answer { ask } => {
                if let Some((_, answer)) = answer {
                    self.answer(ask, answer.clone()).await;
                }
            }
            Effect::GoOn => {
                let prompt = answer.map(|(kind, answer)| awaits::go_on(kind, answer));
                self.open(prompt.unwrap_or_else(|| "Go on with the task.".to_owned()));
            }
            Effect::CancelTurn => self.cancel_turn().await,
            Effect::TickAt { .. } | Effect::OutOfTime | Effect::Unanswered => {} // The loop looks at the machine.
        }
    }

    fn open(&mut self, prompt: String) {
        let (runs, record) = (self.runs.clone(), self.record.clone());
        let opening = self
            .runs
            .tasks()
            .spawn_owned(|_| async move { runs.begin(&record, prompt).await });
        self.opening = Some(opening);
    }

    async fn answer(&mut self, ask: AskId, answer: Answer) {
        let Some(session) = &self.record.engine_session else {
            return;
        };
        let by = begin::client(&self.record.id);
        let sessions = self.runs.engine().sessions();
        if let Err(error) = sessions.answer(session, ask, answer, by).await {
            // Somebody was quicker, or the turn has withdrawn its question; its events tell.
            warn!(run = self.record.id, %error, "an answer came too late");
        }
    }

    async fn cancel_turn(&mut self) {
        let Some(begun) = &self.begun else {
            return; // It is cancelled once it has begun.
        };
        let sessions = self.runs.engine().sessions();
        if let Err(error) = sessions
            .cancel_turn(&begun.engine_session, begun.turn)
            .await
        {
            warn!(run = self.record.id, %error, "the turn could not be cancelled");
        }
    }

    /// Keeps the new state, then shows it.
    async fn moved(&mut self) {
        let status = self.record.status();
        if status.is_over() {
            self.record.finished_at = Some(record::now());
            self.record.asks.clear();
            self.let_go().await;
        }
        let kind = format!("run.{}", status.as_str());
        self.keep(Some(kind)).await;
        // The protocol has no event for a run that is being cancelled.
        if status != Status::Cancelling {
            self.log.append(Event::of_run(self.record.view()));
        }
        if status.is_over() || status == Status::Awaiting {
            self.flush().await;
        }
        self.view.send_replace(Arc::new(self.record.clone()));
    }

    /// The session is free for the next run before anybody hears that this one is over.
    async fn let_go(&mut self) {
        if let Some(session) = &self.record.engine_session {
            let sessions = self.runs.engine().sessions();
            sessions
                .detach(session, begin::client(&self.record.id))
                .await;
        }
        let output = &self.record.output;
        let kept = self.runs.keep_messages(output, &self.record.caller).await;
        let ttl = self.runs.config().session_ttl;
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let (run, has_awaited) = (self.record.id.clone(), self.has_awaited);
        let changed = self.runs.change_session(&self.record.session, |session| {
            Runs::extend_history(session, kept);
            session.last_active = record::now();
            if session.active_run.as_ref() == Some(&run) {
                session.active_run = None;
            }
            if has_awaited {
                session.lifetime = Lifetime::Persistent;
                session.ttl_ms = ttl_ms;
            }
        });
        if let Err(error) = changed.await {
            warn!(run = self.record.id, %error, "the session could not be kept");
        }
        self.opening = None;
    }

    async fn keep(&mut self, kind: Option<String>) {
        let record = &self.record;
        let keep = if record.status().is_over() {
            Keep::Finished
        } else {
            Keep::Live
        };
        let note = kind.map(|kind| Note {
            kind,
            agent: Some(record.agent.to_string()),
            session: record.engine_session.clone(),
            body: json!({
                "run": record.id, "caller": record.caller, "session": record.session,
                "masterSession": record.master_session, "chain": record.chain,
            }),
        });
        let records = self.runs.records();
        let put = records.put(RUN, &record.id, keep, record, note).await;
        if let Err(error) = put {
            warn!(run = record.id, error = %engine::chain(&error), "the run could not be kept");
        }
    }

    async fn flush(&self) {
        if let Err(error) = self.log.flush().await {
            warn!(run = self.record.id, error = %engine::chain(&error), "events could not be kept");
        }
    }
}

fn failure(stop: &Stop) -> Option<Failure> {
    let (code, message, suggestion) = match stop {
        Stop::EndTurn | Stop::MaxTokens | Stop::MaxTurnRequests | Stop::Cancelled => return None,
        Stop::Refusal => (
            "refused",
            "the agent refused to do this".to_owned(),
            "ask for something else, or ask another agent",
        ),
        Stop::Failed { message } => (
            "agent_failed",
            message.clone(),
            "try again, or ask another agent",
        ),
    };
    Some(Failure {
        code: code.to_owned(),
        message,
        details: None,
        suggestion: suggestion.to_owned(),
    })
}

async fn opened(
    opening: &mut Option<AbortOnDropHandle<Result<Begun, RunsError>>>,
) -> Result<Begun, RunsError> {
    match opening {
        Some(opening) => match opening.await {
            Ok(opened) => opened,
            Err(_) => Err(EngineError::ShuttingDown.into()),
        },
        None => std::future::pending().await,
    }
}

async fn next(begun: &mut Option<Begun>) -> Result<Option<Arc<TurnEvent>>, EngineError> {
    let reader: Option<&mut EventReader> = begun.as_mut().map(|begun| &mut begun.reader);
    match reader {
        Some(reader) => reader.next().await,
        None => std::future::pending().await,
    }
}

async fn due(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}
