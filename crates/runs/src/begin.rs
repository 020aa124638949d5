//! The beginning of a run's turn: the agent is there, the session is open, the prompt is given.

use std::time::Duration;

use domain::{
    Name,
    session::{ClientId, Lease, WhenBusy},
    turn::TurnId,
};
use engine::{AttachAs, CreateSession, EventReader, Loan, Prompt, SessionView, TurnOptions};
use platform::files::Fingerprint;

use crate::{calls::CallGuard, error::RunsError, node::Runs, record::RunRecord};

/// A turn that was asked for.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) engine_session: String,
    pub(crate) turn: TurnId,
    pub(crate) reader: EventReader,
    pub(crate) workspace: String,
    pub(crate) before: Option<Fingerprint>,
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

impl Runs {
    pub(crate) async fn begin(
        &self,
        record: &RunRecord,
        prompt: String,
    ) -> Result<Begun, RunsError> {
        let agent = &record.agent;
        let mut loan = self.engine().borrow(agent).await?;
        let id = self.open_session(record).await?.session_id;
        if let Some(loan) = &mut loan {
            loan.is_for(&id);
        }
        let sessions = self.engine().sessions();
        let attach = AttachAs {
            client: client(&record.id),
            answers: true,
        };
        sessions.attach(&id, attach).await?;
        let workspace = self.engine().agent(agent.as_str())?.workspace_dir.clone();
        let before = self.look_at(&workspace).await;
        let from = sessions.get(&id).await?.last_seq + 1;
        let call = self
            .config()
            .calls
            .enter(agent.as_str(), &prompt, record.chain.clone());
        let asked = Prompt {
            text: prompt,
            options: TurnOptions {
                trace: record.trace,
                ..TurnOptions::default()
            },
            when_busy: WhenBusy::Queue,
            by: None,
        };
        let turn = sessions.prompt(&id, asked).await?;
        let reader = sessions.events(&id, from).await?;
        Ok(Begun {
            engine_session: id,
            turn,
            reader,
            workspace,
            before,
            _held: Held {
                _loan: loan,
                _call: call,
            },
        })
    }

    /// The engine session that the run goes on in, or a new one.
    async fn open_session(&self, record: &RunRecord) -> Result<SessionView, RunsError> {
        let sessions = self.engine().sessions();
        let known = match &record.engine_session {
            Some(id) => Some(id.clone()),
            None => {
                let session = self.known_session(&record.session).await?;
                session.and_then(|session| session.engine_session)
            }
        };
        if let Some(id) = known
            && let Ok(view) = sessions.get(&id).await
            && matches!(view.state, Lease::Active | Lease::Idle)
        {
            return Ok(view);
        }
        self.create_session(&record.agent, &record.caller).await
    }

    async fn create_session(&self, agent: &Name, caller: &str) -> Result<SessionView, RunsError> {
        let config = self.config();
        // Ours decides when a session is over; the engine's must outlive the longest wait for an answer.
        let longest = config.limits.answer + config.session_ttl + Duration::from_secs(60);
        let create = CreateSession {
            agent: agent.clone(),
            client: Some(format!("runs: {caller}")),
            idle_ttl: Some(longest),
        };
        Ok(self.engine().sessions().create(create).await?)
    }
}
