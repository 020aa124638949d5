//! One session: its mode, what the user allowed for good, its history, and whether a turn runs.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

use agent_client_protocol_schema::v1::{
    CurrentModeUpdate, SessionId, SessionMode, SessionModeState, SessionUpdate,
};
use jsonrpc::Id;
use tokio::sync::watch;

use crate::{archive::Header, history::History};

/// What the agent may do without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Ask,
    Auto,
    Plan,
}

/// What the user decided about a tool for the rest of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Allowed,
    Rejected,
}

/// Why a turn is ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// `session/cancel`, or the session or the connection closes: the prompt is answered `cancelled`.
    Cancelled,
    /// `$/cancel_request`: the prompt is answered with an error.
    Withdrawn,
}

/// A session. The loop and the one turn that runs share it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) header: Header,
    /// Where relative paths start, in the workspace.
    pub(crate) folder: PathBuf,
    pub(crate) mode: Mode,
    pub(crate) standing: BTreeMap<&'static str, Standing>,
    /// Names of the MCP servers the client gave.
    pub(crate) mcp: Vec<String>,
    /// A question that the next prompt answers.
    pub(crate) question: Option<String>,
    pub(crate) history: History,
    turn: Option<RunningTurn>,
}

#[derive(Debug)]
struct RunningTurn {
    request: Id,
    stop: watch::Sender<Option<Stop>>,
}

impl Mode {
    pub(crate) const ALL: [Mode; 3] = [Mode::Ask, Mode::Auto, Mode::Plan];

    pub(crate) fn parse(id: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.id() == id)
    }

    pub(crate) fn id(self) -> &'static str {
        match self {
            Mode::Ask => "ask",
            Mode::Auto => "auto",
            Mode::Plan => "plan",
        }
    }

    pub(crate) fn description(self) -> &'static str {
        match self {
            Mode::Ask => "Asks before it writes a file or runs a command",
            Mode::Auto => "Writes and runs without asking",
            Mode::Plan => "Changes nothing and says what it would do",
        }
    }

    pub(crate) fn state(self) -> SessionModeState {
        let modes = Mode::ALL.map(|mode| {
            let name = match mode {
                Mode::Ask => "Ask first",
                Mode::Auto => "Automatic",
                Mode::Plan => "Plan only",
            };
            SessionMode::new(mode.id(), name).description(mode.description().to_owned())
        });
        SessionModeState::new(self.id(), modes.to_vec())
    }
}

impl Session {
    pub(crate) fn new(header: Header, folder: PathBuf, history: History) -> Session {
        let mode = last_mode(&history);
        Session {
            id: SessionId::new(header.session_id.as_str()),
            state: Mutex::new(State {
                header,
                folder,
                mode,
                standing: BTreeMap::new(),
                mcp: Vec::new(),
                question: None,
                history,
                turn: None,
            }),
        }
    }

    /// Held for a moment at a time, never while waiting.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a turn; None if one runs already.
    pub(crate) fn begin_turn(&self, request: &Id) -> Option<watch::Receiver<Option<Stop>>> {
        let mut state = self.state();
        if state.turn.is_some() {
            return None;
        }
        let (stop, stopped) = watch::channel(None);
        state.turn = Some(RunningTurn {
            request: request.clone(),
            stop,
        });
        Some(stopped)
    }

    pub(crate) fn end_turn(&self) {
        self.state().turn = None;
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.state().turn.is_some()
    }

    /// Ends the turn that runs, if one does. The first reason stays.
    pub(crate) fn stop_turn(&self, reason: Stop) {
        if let Some(turn) = &self.state().turn {
            turn.stop.send_if_modified(|stop| {
                let first = stop.is_none();
                stop.get_or_insert(reason);
                first
            });
        }
    }

    /// Whether the turn that runs answers this request.
    pub(crate) fn answers(&self, request: &Id) -> bool {
        self.state()
            .turn
            .as_ref()
            .is_some_and(|turn| turn.request == *request)
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        let mut state = self.state();
        state.mode = mode;
        // Kept with the history, so that a loaded session is in the mode it was left in.
        state.history.record(mode_update(mode));
    }
}

pub(crate) fn mode_update(mode: Mode) -> SessionUpdate {
    SessionUpdate::CurrentModeUpdate(CurrentModeUpdate::new(mode.id()))
}

fn last_mode(history: &History) -> Mode {
    let entries = history.entries();
    let modes = entries
        .iter()
        .rev()
        .filter_map(|entry| match serde_json::from_str(entry.get()) {
            Ok(SessionUpdate::CurrentModeUpdate(update)) => Mode::parse(&update.current_mode_id.0),
            Ok(_) | Err(_) => None,
        });
    modes.take(1).next().unwrap_or_default()
}
