//! The beginning of a run's turn: the agent is there, the session is open, the prompt is given.

use std::time::Duration;

use domain::{
    Name,
    session::{ClientId, Lease, WhenBusy},
    turn::TurnId,
};
use engine::{
    Answers, AttachAs, Batch, CallGuard, CreateSession, EventReader, FirstTurn, Loan, Occasion,
    Prompt, Sessions, Start, TurnOf, TurnOptions,
};
use platform::files::Fingerprint;

use crate::{beside::Presence, error::RunsError, node::Runs, record::RunRecord};

/// A turn that was asked for.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) engine_session: String,
    pub(crate) turn: TurnId,
    pub(crate) reader: EventReader,
    pub(crate) workspace: String,
    pub(crate) before: Option<Fingerprint>,
    pub(crate) presence: Presence,
    /// Held as long as the turn lasts.
    pub(crate) _held: Held,
}

/// What a turn needs to go on, let go of at its end.
#[derive(Debug)]
pub(crate) struct Held {
    _loan: Option<Loan>,
    _call: CallGuard,
}

/// The client under which a run is attached to its session.
pub(crate) fn client(run: &str) -> ClientId {
    ClientId(format!("run:{run}"))
}

/// Whether the engine has the session that a run goes on in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conversation {
    /// It begins with this run, under the id that the run's record has.
    New,
    /// It should be there, unless it has ended meanwhile.
    Known,
}

impl Runs {
    pub(crate) async fn begin(
        &self,
        record: &RunRecord,
        prompt: String,
        occasion: Occasion,
        conversation: Conversation,
    ) -> Result<Begun, RunsError> {
        let agent = &record.agent;
        let mut loan = self.engine().borrow(agent, Start::IfNeeded).await?;
        let (id, conversation) = self.find_session(record, conversation).await?;
        if let Some(loan) = &mut loan {
            loan.is_for(&id);
        }
        let sessions = self.engine().sessions();
        let attach = AttachAs {
            client: client(&record.id),
            answers: Answers::Everything,
        };
        let workspace = self.engine().agent(agent.as_str())?.workspace_dir.clone();
        let presence = self.at_work().enter(agent, &record.caller);
        let before = self.look_at(&workspace).await;
        let turn = TurnOf {
            trace: record.trace,
            agent: agent.as_str(),
            prompt: &prompt,
        };
        let call = self.config().calls.enter(turn, record.chain.clone());
        let asked = Prompt {
            text: prompt,
            options: TurnOptions {
                trace: record.trace,
                occasion,
                ..TurnOptions::default()
            },
            when_busy: WhenBusy::Queue,
            by: None,
        };
        let (turn, reader) = match conversation {
            Conversation::New => {
                let first = FirstTurn {
                    id: id.clone(),
                    create: self.new_session(agent, &record.caller),
                    attach,
                    prompt: asked,
                    along: Batch::default(),
                };
                sessions.begin_first(first).await?
            }
            Conversation::Known => {
                let from = sessions.attach(&id, attach).await?.last_seq + 1;
                let turn = sessions.prompt(&id, asked).await?;
                (turn, sessions.events(&id, from).await?)
            }
        };
        Ok(Begun {
            engine_session: id,
            turn,
            reader,
            workspace,
            before,
            presence,
            _held: Held {
                _loan: loan,
                _call: call,
            },
        })
    }

    /// The engine session that the run goes on in, or the id of a new one.
    async fn find_session(
        &self,
        record: &RunRecord,
        conversation: Conversation,
    ) -> Result<(String, Conversation), RunsError> {
        let Some(id) = record.engine_session.clone() else {
            return Ok((Sessions::fresh_id(), Conversation::New));
        };
        if conversation == Conversation::New {
            return Ok((id, conversation));
        }
        match self.engine().sessions().get(&id).await {
            Ok(view) if matches!(view.state, Lease::Active | Lease::Idle) => {
                Ok((id, Conversation::Known))
            }
            _ => Ok((Sessions::fresh_id(), Conversation::New)),
        }
    }

    fn new_session(&self, agent: &Name, caller: &str) -> CreateSession {
        let config = self.config();
        // Ours decides when a session is over; the engine's must outlive the longest wait for an answer.
        let longest = config.limits.answer + config.session_ttl + Duration::from_secs(60);
        CreateSession {
            agent: agent.clone(),
            client: Some(format!("runs: {caller}")),
            idle_ttl: Some(longest),
        }
    }
}
