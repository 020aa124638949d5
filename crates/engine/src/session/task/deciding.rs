//! Asks of a turn: the policy decides first, then whoever is attached and can answer, then the answer is no.

use std::sync::Arc;

use domain::{
    permission::Audience,
    session::{ClientId, Input},
    turn::{Answer, AskId, EventKind},
};
use platform::crash;

use super::{SessionTask, Surroundings};
use crate::{
    Answered, AskRequest, Rules,
    session::{
        Answers, SessionRecord,
        asks::{self, Decision},
        handle::Reply,
    },
};

/// What the policy denies whoever is there to ask.
pub(super) fn rules(record: &SessionRecord, around: &Arc<Surroundings>) -> Rules {
    let around = Arc::clone(around);
    let (agent, workspace) = (
        record.agent.clone(),
        record.cwd.to_string_lossy().into_owned(),
    );
    Rules::new(move |act| {
        let policy = around.agents.policy(&agent, &around.node_policy);
        asks::denied(&policy, act, &workspace)
    })
}

/// An answer, and where it comes from.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) answer: Answer,
    pub(super) by: Option<String>,
    /// The rule that decided, where one did.
    pub(super) why: Option<String>,
}

impl SessionTask {
    pub(super) async fn on_ask(&mut self, request: AskRequest) {
        let AskRequest { kind, raw, answer } = request;
        let policy = self
            .around
            .agents
            .policy(&self.record.agent, &self.around.node_policy);
        let workspace = self.record.cwd.to_string_lossy().into_owned();
        let id = self.asks.fresh_id(self.machine.turn());
        match asks::decide(&policy, &kind, &workspace, self.audience()) {
            Decision::Settled {
                answer: decided,
                why,
            } => {
                let ask = domain::turn::Ask {
                    id: id.clone(),
                    kind,
                };
                self.log.append_held(EventKind::Ask(ask), raw);
                let text = why.clone();
                self.log.append_held(EventKind::Notice { text }, None);
                self.asks.insert(id.clone(), answer);
                let settled = Settled {
                    answer: decided,
                    by: Some("policy".to_owned()),
                    why: Some(why),
                };
                self.settle(id, settled).await;
            }
            Decision::Open => {
                let ask = domain::turn::Ask {
                    id: id.clone(),
                    kind: kind.clone(),
                };
                self.log.append_held(EventKind::Ask(ask), raw);
                // Whoever answers after a restart goes on in this very conversation.
                self.record.agent_session = self.slot.conversation();
                self.keep().await;
                self.asks.insert(id.clone(), answer);
                self.try_input(Input::Asked { ask: id, kind }).await;
            }
        }
    }

    pub(super) async fn on_answer(
        &mut self,
        ask: AskId,
        answered: Answered,
        by: ClientId,
        reply: Reply,
    ) {
        let Answered { answer, words } = answered;
        self.asks.set_words(words);
        self.answer(reply, Input::Answered { ask, answer, by })
            .await;
        self.asks.set_words(None);
    }

    /// A client that was asked cannot answer; as long as another one may, nothing is decided.
    pub(super) async fn on_decline(
        &mut self,
        ask: AskId,
        answer: Answer,
        by: ClientId,
        reply: Reply,
    ) {
        self.asks.decline(&ask, &by);
        if self.may_be_answered(&ask) {
            drop(reply.send(Ok(()))); // The asker may have left.
            return;
        }
        self.answer(reply, Input::Answered { ask, answer, by })
            .await;
    }

    /// The decision is on disk before the agent acts on it.
    pub(super) async fn settle(&mut self, ask: AskId, settled: Settled) {
        let Settled { answer, by, why } = settled;
        let settled = EventKind::AskSettled {
            ask: ask.clone(),
            answer: answer.clone(),
            by,
            why,
        };
        self.log.append_held(settled, None);
        self.flush(Vec::new()).await;
        crash::point("session.ask-settled");
        self.asks.deliver(&ask, answer);
    }

    pub(super) fn can_answer(&mut self, client: &ClientId, answers: Answers) {
        match answers {
            Answers::Nothing => self.answering.remove(client),
            Answers::OwnTurns | Answers::Everything => {
                self.answering.insert(client.clone(), answers)
            }
        };
    }

    /// Who can answer what the turn that runs asks.
    fn answerers(&self) -> impl Iterator<Item = &ClientId> {
        let asker = self.machine.turn().and_then(|turn| self.askers.get(&turn));
        let can = move |client: &ClientId, answers: Answers| match answers {
            Answers::Nothing => false,
            Answers::OwnTurns => asker == Some(client),
            Answers::Everything => true,
        };
        let answering = self.answering.iter();
        answering.filter_map(move |(client, answers)| can(client, *answers).then_some(client))
    }

    pub(super) fn audience(&self) -> Audience {
        match self.answerers().next() {
            Some(_) => Audience::Somebody,
            None => Audience::Nobody,
        }
    }

    pub(super) async fn withdraw_what_nobody_waits_for(&mut self) {
        for ask in self.asks.withdrawn() {
            self.try_input(Input::Withdrawn { ask: ask.clone() }).await;
            self.asks.forget(&ask);
        }
    }

    /// Whether somebody is there who can answer and has not declined to.
    fn may_be_answered(&self, ask: &AskId) -> bool {
        let mut answerers = self.answerers();
        answerers.any(|client| self.asks.may_answer(ask, client))
    }

    /// What nobody can answer any more: the turn is told no, as if nobody had been there, and goes on.
    pub(super) async fn deny_what_nobody_answers(&mut self) {
        let open = self.machine.asks();
        let denials: Vec<_> = open
            .filter(|(ask, _)| !self.may_be_answered(ask))
            .map(|(ask, kind)| (ask.clone(), kind.denial()))
            .collect();
        for (ask, answer) in denials {
            let by = ClientId("policy".to_owned());
            self.try_input(Input::Answered { ask, answer, by }).await;
        }
    }

    /// The turn is over: what it waits for is settled.
    pub(super) async fn decline_open_asks(&mut self) {
        for ask in self.asks.open() {
            self.try_input(Input::Withdrawn { ask }).await;
        }
    }
}
