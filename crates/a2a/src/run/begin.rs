//! The beginning of a task's turn: in the session of its context, or in one that begins with it.

use domain::{
    Trace,
    session::{Lease, WhenBusy},
};
use engine::{
    Answers, AttachAs, CreateSession, EngineError, EventReader, FirstTurn, Keep, Prompt, Sessions,
    TurnOf, TurnOptions,
};
use wire::a2a::TaskState;

use super::TaskRun;

impl TaskRun {
    /// Gives the prompt to the context's session, or begins one with it.
    pub(super) async fn begin_turn(&mut self, prompt: String) -> Result<EventReader, EngineError> {
        let trace = self.record.trace;
        let trace = trace.unwrap_or_else(|| Trace::new(uuid::Uuid::new_v4().as_u128()));
        let turn = TurnOf {
            trace: Some(trace),
            agent: self.agent.as_str(),
            prompt: &prompt,
        };
        let calls = &self.face.config.calls;
        self.call = Some(calls.enter(turn, self.record.chain.clone()));
        let prompt = Prompt {
            text: prompt,
            options: TurnOptions {
                trace: Some(trace),
                ..TurnOptions::default()
            },
            when_busy: WhenBusy::Queue,
            by: None,
        };
        let attach = AttachAs {
            client: self.client.clone(),
            answers: Answers::Everything,
        };
        match self.known_session().await {
            Some(session) => self.go_on_in(session, attach, prompt).await,
            None => self.begin_session(attach, prompt).await,
        }
    }

    /// The context's session, if it still lives.
    async fn known_session(&self) -> Option<String> {
        let known = self.context.session()?;
        let view = self.face.engine.sessions().get(&known).await.ok()?;
        matches!(view.state, Lease::Active | Lease::Idle).then_some(known)
    }

    async fn go_on_in(
        &mut self,
        session: String,
        attach: AttachAs,
        prompt: Prompt,
    ) -> Result<EventReader, EngineError> {
        let sessions = self.face.engine.sessions().clone();
        let from = sessions.attach(&session, attach).await?.last_seq + 1;
        self.takes_place_in(&session, from);
        self.show(TaskState::Working, None).await;
        self.record.turn = Some(sessions.prompt(&session, prompt).await?);
        sessions.events(&session, from).await
    }

    /// The context, the task and its turn are kept as one.
    async fn begin_session(
        &mut self,
        attach: AttachAs,
        prompt: Prompt,
    ) -> Result<EventReader, EngineError> {
        let sessions = self.face.engine.sessions().clone();
        let id = Sessions::fresh_id();
        self.takes_place_in(&id, 1);
        let update = self.enter(TaskState::Working, None);
        let mut along = self.kept(Keep::Live, TaskState::Working)?;
        self.context.keep_session(&id, &mut along)?;
        let first = FirstTurn {
            id: id.clone(),
            create: CreateSession {
                agent: self.agent.clone(),
                client: Some("a2a".to_owned()),
                idle_ttl: None,
            },
            attach,
            prompt,
            along,
        };
        let (turn, reader) = sessions.begin_first(first).await?;
        self.context.goes_on_in(&id);
        self.record.turn = Some(turn);
        self.tell(update);
        Ok(reader)
    }

    /// Where a task that is taken up looks for its turn.
    fn takes_place_in(&mut self, session: &str, from_seq: u64) {
        if let Some(loan) = &mut self.loan {
            loan.is_for(session);
        }
        self.record.session = Some(session.to_owned());
        self.record.turn = None;
        self.record.from_seq = from_seq;
    }
}
