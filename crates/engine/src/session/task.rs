//! The task that owns one session: takes commands, asks and ends of turns, lets the machine decide, keeps the decision,
//! performs it. Events do not pass through it; drivers append them to the log and this stores them in batches.

mod cancelling;
mod deciding;
mod holding;
mod keeping;
mod queue;

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak, atomic::AtomicBool},
};

use domain::{
    Trace,
    permission::Policy,
    session::{ClientId, Effect, Input, Session, WhenBusy},
    turn::{EventKind, Raw, Stop, TurnId},
};
use platform::{Tasks, crash};
use store::{Change, Store};
use tokio::{
    sync::{Semaphore, mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{
    Answers, SessionRecord, SessionView,
    asks::OpenAsks,
    binding::Slot,
    handle::{Command, Conversation, Handle, Reply},
    live::Live,
    record::in_short,
    work::{Done, TurnWork, WaitingPrompt},
};
use crate::{
    Answered, AskRequest, EngineError, EventLog, SessionSink, agent::chain, clock,
    engine::AgentSource, tally::Tally,
};
use deciding::Settled;
use holding::Spare;
pub(crate) use holding::spares;
use keeping::Kept;
use queue::Queue;

/// Commands that may wait at one session.
const COMMANDS_MAX: usize = 64;

/// Asks that may wait to be decided: an agent has one open, rarely a few.
const ASKS_MAX: usize = 32;

/// Words of a prompt that are kept beside its text: an image is not kept twice, once here and once by the agent.
const WORDS_MAX: usize = 64 * 1024;

/// What a session needs of its surroundings.
#[derive(Debug)]
pub(crate) struct Surroundings {
    /// Places for conversations that stay open while nobody uses them.
    pub(crate) spares: Arc<Semaphore>,
    pub(crate) store: Store,
    pub(crate) tally: Tally,
    pub(crate) tasks: Tasks,
    pub(crate) agents: Arc<AgentSource>,
    /// Rules of the whole node, which come before those of a template.
    pub(crate) node_policy: Policy,
    /// Set before the agents are stopped for good.
    pub(crate) closing: Arc<AtomicBool>,
}

struct SessionTask {
    record: SessionRecord,
    /// What the store has.
    kept: Option<SessionRecord>,
    /// What others want kept together with the session's first turn.
    along: Vec<Change>,
    live: Weak<Live>,
    machine: Session,
    around: Arc<Surroundings>,
    log: Arc<EventLog>,
    sink: SessionSink,
    view: watch::Sender<SessionView>,
    asks: OpenAsks,
    /// Clients that can answer asks, and which.
    answering: BTreeMap<ClientId, Answers>,
    prompts: Vec<(TurnId, WaitingPrompt)>,
    queue: Queue,
    /// Who has asked for the turns that are not over.
    askers: BTreeMap<TurnId, ClientId>,
    slot: Arc<Slot>,
    cancel: CancellationToken,
    done: mpsc::Sender<Done>,
    tick_at: Option<Instant>,
    flush_at: Option<Instant>,
    /// When the agent's side of a session that nobody uses is let go; it is taken up again with the next prompt.
    spare: Option<Spare>,
    /// When to look again whether anybody still holds a session that could rest.
    look_at: Option<Instant>,
    over: bool,
}

/// Whether the store has the record that a task begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Row {
    Written,
    /// It is written with the first turn.
    Missing,
}

/// Starts the task of a session; `next_seq` is the number of its next event.
pub(super) fn spawn(
    record: SessionRecord,
    row: Row,
    next_seq: u64,
    around: &Arc<Surroundings>,
    live: &Arc<Live>,
) -> Handle {
    let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
    let (asks_in, asks) = mpsc::channel(ASKS_MAX);
    let (done_in, done) = mpsc::channel(1);
    let log = Arc::new(EventLog::new(next_seq));
    let agent_id = record.agent_id.clone();
    let reach = (record.agent.clone(), record.via);
    let machine = Session::new(record.idle_ttl(), record.turns, clock::now());
    let mut record = record;
    record.lease = machine.lease(); // Whoever was there is gone, if a daemon before us kept it.
    let (view_in, view) = watch::channel(record.past_view(next_seq - 1));
    let slot = Slot::new(record.agent_session.clone());
    let cwd = record.cwd.clone();
    let kept = (row == Row::Written).then(|| record.as_kept());
    let mut task = SessionTask {
        sink: SessionSink::new(log.clone(), asks_in).with_rules(deciding::rules(&record, around)),
        tick_at: Some(Instant::now() + record.idle_ttl()),
        record,
        kept,
        along: Vec::new(),
        live: Arc::downgrade(live),
        machine,
        around: around.clone(),
        log: log.clone(),
        view: view_in,
        asks: OpenAsks::default(),
        answering: BTreeMap::new(),
        prompts: Vec::new(),
        queue: Queue::default(),
        askers: BTreeMap::new(),
        slot: slot.clone(),
        cancel: CancellationToken::new(),
        done: done_in,
        flush_at: None,
        spare: None,
        look_at: None,
        over: false,
    };
    around
        .tasks
        .spawn(|stop| async move { task.run(stop, inbox, asks, done).await });
    Handle {
        reach,
        agent_id,
        cwd,
        slot,
        commands,
        log,
        view,
    }
}

impl SessionTask {
    async fn run(
        &mut self,
        stop: CancellationToken,
        mut inbox: mpsc::Receiver<Command>,
        mut asks: mpsc::Receiver<AskRequest>,
        mut done: mpsc::Receiver<Done>,
    ) {
        while !self.over {
            let (tick_at, flush_at) = (self.tick_at, self.flush_at);
            let unbind_at = self.spare.as_ref().map(|spare| spare.until);
            let look_at = self.look_at;
            let seen = self.log.last_seq();
            let slot = self.slot.clone();
            tokio::select! { biased;
                () = stop.cancelled() => break,
                Some(finished) = done.recv() => self.on_done(finished).await,
                Some(request) = asks.recv() => self.on_ask(request).await,
                () = self.asks.withdrawal() => {}
                command = inbox.recv() => match command {
                    Some(command) => self.on_command(command).await,
                    None => break, // The engine is gone.
                },
                () = slot.changed() => self.keep_conversation().await,
                () = due(flush_at) => {
                    self.keep().await;
                }
                () = due(unbind_at) => self.unbind(),
                () = due(look_at) => {}
                () = self.log.newer_than(seen), if flush_at.is_none() => self.plan_flush(),
                () = due(tick_at) => {
                    self.tick_at = None;
                    self.try_input(Input::Tick).await;
                }
            }
            self.withdraw_what_nobody_waits_for().await;
            self.plan_flush();
            self.plan_unbind();
            self.show();
            if self.rest(&inbox) {
                return; // The next who asks for it takes it up from the store.
            }
        }
        self.end_what_runs().await;
        self.keep().await;
        self.show();
        self.log.finish();
    }

    /// The session ends before its turn does: whoever waits for the turn is told.
    async fn end_what_runs(&mut self) {
        if !self.over {
            return; // The next daemon tells that the turn was interrupted.
        }
        let Some(turn) = self.record.running.take() else {
            return;
        };
        let stop = Stop::Cancelled;
        self.log
            .append_held(EventKind::TurnEnded { turn, stop }, None);
    }

    async fn on_command(&mut self, command: Command) {
        match command {
            Command::Prompt {
                prompt,
                when_busy,
                reply,
            } => {
                let result = self.prompt(prompt, when_busy).await;
                let _ = reply.send(result); // The asker may have left.
            }
            Command::Begin {
                client,
                answers,
                prompt,
                along,
                reply,
            } => {
                self.along = along.into_changes();
                let result = self.begin_first(client, answers, prompt).await;
                let _ = reply.send(result); // As above.
            }
            Command::Open { reply } => self.open(reply),
            Command::Cancel { what, reply } => {
                drop(reply.send(self.cancel(what).await)); // As above.
            }
            Command::Answer {
                ask,
                answer,
                words,
                by,
                reply,
            } => {
                let answered = Answered { answer, words };
                self.on_answer(ask, answered, by, reply).await;
            }
            Command::Decline {
                ask,
                denial,
                by,
                reply,
            } => self.on_decline(ask, denial, by, reply).await,
            Command::Attach {
                client,
                answers,
                reply,
            } => {
                self.can_answer(&client, answers);
                self.answer(reply, Input::Attach { client }).await;
            }
            Command::Detach { client } => {
                self.answering.remove(&client);
                self.try_input(Input::Detach { client }).await;
                self.deny_what_nobody_answers().await;
            }
            Command::Reword { open } => self.record.open = Some(open),
            Command::Look { reply } => drop(reply.send(Ok(self.waiting()))), // As above.
            Command::Close {
                conversation,
                reply,
            } => {
                if conversation == Conversation::Deleted {
                    self.record.agent_session = None;
                }
                self.answer(reply, Input::Close).await;
                self.over = true;
            }
        }
    }

    async fn prompt(
        &mut self,
        prompt: WaitingPrompt,
        when_busy: WhenBusy,
    ) -> Result<TurnId, EngineError> {
        let turn = TurnId(self.machine.last_turn().0 + 1);
        if let Some(client) = &prompt.by {
            self.askers.insert(turn, client.clone());
        }
        self.prompts.push((turn, prompt));
        let mut result = self.input(Input::Prompt { when_busy }).await;
        if result.is_ok() {
            result = self.keep_waiting(turn).await;
        }
        if result.is_err() {
            self.prompts.retain(|(waiting, _)| *waiting != turn);
            self.askers.remove(&turn);
        }
        result.map(|()| turn)
    }

    /// The first client and its prompt, which are kept as one.
    async fn begin_first(
        &mut self,
        client: ClientId,
        answers: Answers,
        prompt: WaitingPrompt,
    ) -> Result<TurnId, EngineError> {
        self.can_answer(&client, answers);
        self.decide(Input::Attach { client })?;
        let begun = self.prompt(prompt, WhenBusy::Queue).await;
        self.over |= begun.is_err(); // Nobody has heard of it.
        begun
    }

    async fn on_done(&mut self, done: Done) {
        let Done { turn, stop } = done;
        self.askers.remove(&turn);
        self.decline_open_asks().await; // An agent that died left them open.
        self.record.agent_session = self.slot.conversation();
        self.record.running = None;
        self.record.last_activity_at = clock::now();
        self.log.append_held(
            EventKind::TurnEnded {
                turn,
                stop: stop.clone(),
            },
            None,
        );
        self.keep().await;
        self.try_input(Input::TurnEnded { turn, stop }).await;
    }

    async fn answer(&mut self, reply: Reply, input: Input) {
        let result = self.input(input).await;
        let _ = reply.send(result); // The asker may have left.
    }

    /// An input nobody waits for.
    async fn try_input(&mut self, input: Input) {
        if let Err(error) = self.input(input).await {
            warn!(session = %self.record.id, error = %chain(&error), "could not go on");
        }
    }

    async fn input(&mut self, input: Input) -> Result<(), EngineError> {
        let before = self.machine.lease();
        let effects = self.decide(input)?;
        let decided = before != self.record.lease || !effects.is_empty();
        for effect in effects {
            self.perform(effect).await;
        }
        if decided {
            self.keep().await;
        }
        Ok(())
    }

    fn decide(&mut self, input: Input) -> Result<Vec<Effect>, EngineError> {
        let decided = self.machine.apply(input, clock::now());
        let effects = decided.map_err(|refusal| EngineError::SessionRefused {
            session: self.record.id.clone(),
            refusal,
        })?;
        self.record.turns = self.machine.last_turn().0;
        self.record.lease = self.machine.lease();
        Ok(effects)
    }

    async fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Begin { turn } => self.begin(turn).await,
            Effect::CancelTurn { .. } => self.cancel.cancel(),
            Effect::Settle { ask, answer, by } => {
                let by = by.map(|client| client.0);
                let why = None;
                self.settle(ask, Settled { answer, by, why }).await;
            }
            Effect::Drop { turns } => {
                self.prompts.retain(|(turn, _)| !turns.contains(turn));
                for turn in turns {
                    self.queue.leave(&self.record.id, turn);
                    self.askers.remove(&turn);
                    let stop = Stop::Cancelled;
                    self.log
                        .append_held(EventKind::TurnEnded { turn, stop }, None);
                }
            }
            Effect::Release => {
                self.unbind();
                self.over = true;
            }
            Effect::TickAt { at } => self.tick_at = Some(Instant::now() + at.since(clock::now())),
        }
    }

    async fn begin(&mut self, turn: TurnId) {
        if self.stays_waiting(turn) {
            return;
        }
        let Some(index) = self
            .prompts
            .iter()
            .position(|(waiting, _)| *waiting == turn)
        else {
            return;
        };
        let (_, mut prompt) = self.prompts.swap_remove(index);
        self.queue.leave(&self.record.id, turn);
        let trace = prompt.options.trace;
        let trace = trace.unwrap_or_else(|| Trace::new(uuid::Uuid::new_v4().as_u128()));
        prompt.options.trace = Some(trace);
        debug!(%trace, session = %self.record.id, turn = turn.0, "a turn begins");
        self.cancel = CancellationToken::new();
        self.record.running = Some(turn);
        let written = self.written(&prompt.text);
        // Where something is left out of the text, it is in the client's own words too.
        let words = prompt.words.clone();
        let words = words.filter(|words| written == prompt.text && is_kept(words));
        self.record.prompt = Some(in_short(&written));
        self.record.last_activity_at = clock::now();
        self.log.append_held(
            EventKind::TurnStarted {
                turn,
                prompt: written,
                trace: Some(trace),
                by: self.askers.get(&turn).map(|client| client.0.clone()),
            },
            words,
        );
        // The prompt is on disk before the agent sees it, or the agent does not see it.
        if self.keep().await == Kept::NotYet {
            let message = "the prompt could not be stored; is the disk full?".to_owned();
            let stop = Stop::Failed { message };
            let done = Done { turn, stop };
            let _ = self.done.try_send(done); // There is room: no turn runs.
            return;
        }
        crash::point("session.turn-kept");
        let work = TurnWork {
            turn,
            prompt,
            cancel: self.cancel.clone(),
            opener: self.opener(),
        };
        let (done, opener) = (self.done.clone(), self.opener());
        self.around.tasks.spawn(|stop| async move {
            let finished = tokio::select! { biased;
                () = stop.cancelled() => return,
                finished = work.carry_out() => finished,
            };
            // A session that was closed meanwhile lets go of the conversation through us.
            if done.send(finished).await.is_err() {
                opener.let_go().await;
            }
        });
    }
}

fn is_kept(words: &Raw) -> bool {
    words.frame.len() <= WORDS_MAX
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// The moment a record was last touched, for sorting.
pub(super) fn newest_first(a: &SessionView, b: &SessionView) -> std::cmp::Ordering {
    b.last_activity_at.cmp(&a.last_activity_at)
}
