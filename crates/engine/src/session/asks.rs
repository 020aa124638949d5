//! Asks on their way to a decision: the policy first, then whoever is there, then nobody.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::poll_fn,
    task::Poll,
};

use domain::{
    permission::{self, Audience, Call, Policy},
    session::ClientId,
    turn::{Answer, AskId, AskKind, AskOption, OptionKind, Raw, ToolCall, TurnId},
};

use crate::Answering;

/// What becomes of an ask.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It is answered at once; the words say why.
    Settled { answer: Answer, why: String },
    /// Somebody must answer.
    Open,
}

/// Decides without asking where that is possible.
pub(super) fn decide(
    policy: &Policy,
    kind: &AskKind,
    workspace: &str,
    audience: Audience,
) -> Decision {
    let (tool, said_destructive) = match (kind, audience) {
        (AskKind::Question { .. }, Audience::Somebody) => return Decision::Open,
        (AskKind::Question { .. }, Audience::Nobody) => {
            let why = "nobody is there to answer the question".to_owned();
            return Decision::Settled {
                answer: Answer::Declined,
                why,
            };
        }
        (
            AskKind::Permission {
                tool, destructive, ..
            },
            _,
        ) => (tool, *destructive),
    };
    let call = Call::of(tool, workspace);
    let verdict = permission::decide(policy, &call);
    let destructive = said_destructive || permission::is_destructive(&call);
    let outcome = permission::settle(&verdict, destructive, audience);
    match (outcome.answer(kind), audience) {
        (Some(answer), _) => Decision::Settled {
            answer,
            why: outcome.words(&verdict),
        },
        (None, Audience::Somebody) => Decision::Open,
        // The agent offers only to be trusted for ever, which the policy never grants.
        (None, Audience::Nobody) => {
            let why =
                "denied: it cannot be allowed only once, and nobody is there to ask".to_owned();
            Decision::Settled {
                answer: kind.denial(),
                why,
            }
        }
    }
}

/// Whether an act is allowed where nobody can be asked; if not, the words say why.
pub(super) fn permits(policy: &Policy, act: ToolCall, workspace: &str) -> Result<(), String> {
    const ALLOW: &str = "allow";
    let option = |id: &str, kind| AskOption {
        id: id.to_owned(),
        name: id.to_owned(),
        kind,
    };
    let kind = AskKind::Permission {
        tool: act,
        options: vec![
            option(ALLOW, OptionKind::AllowOnce),
            option("reject", OptionKind::RejectOnce),
        ],
        destructive: false,
    };
    match decide(policy, &kind, workspace, Audience::Nobody) {
        Decision::Settled {
            answer: Answer::Option { id },
            ..
        } if id == ALLOW => Ok(()),
        Decision::Settled { why, .. } => Err(why),
        Decision::Open => Err("nobody is there to ask".to_owned()),
    }
}

/// Why an act is denied that nobody is asked about; nothing if no rule denies it.
pub(super) fn denied(policy: &Policy, act: &ToolCall, workspace: &str) -> Option<String> {
    let verdict = permission::decide(policy, &Call::of(act, workspace));
    let outcome = permission::settle(&verdict, false, Audience::Somebody);
    (outcome == permission::Outcome::Deny).then(|| outcome.words(&verdict))
}

/// Asks whose turn waits for an answer.
#[derive(Debug, Default)]
pub(super) struct OpenAsks {
    waiting: BTreeMap<AskId, Answering>,
    /// Who has said that they cannot answer.
    declined: BTreeMap<AskId, BTreeSet<ClientId>>,
    /// What the client that is answering says in its own words.
    words: Option<Raw>,
    next: u64,
}

impl OpenAsks {
    /// With the turn in it, so that an answer that comes late meets no other ask.
    pub(super) fn fresh_id(&mut self, turn: Option<TurnId>) -> AskId {
        self.next += 1;
        AskId(format!(
            "ask-{}-{}",
            turn.map_or(0, |turn| turn.0),
            self.next
        ))
    }

    pub(super) fn insert(&mut self, id: AskId, answer: Answering) {
        self.waiting.insert(id, answer);
    }

    /// The words that go with the answer that is about to be given; none takes them back.
    pub(super) fn set_words(&mut self, words: Option<Raw>) {
        self.words = words;
    }

    /// Gives the turn its answer.
    pub(super) fn deliver(&mut self, ask: &AskId, answer: Answer) {
        self.declined.remove(ask);
        if let Some(waiting) = self.waiting.remove(ask) {
            // The turn may have withdrawn its question.
            let _ = waiting.send_with(answer, self.words.take());
        }
    }

    /// Resolves when the turn no longer waits for one of them.
    pub(super) async fn withdrawal(&mut self) {
        poll_fn(|context| {
            // Each of them is looked at, so that each of them wakes us.
            let withdrawn = self
                .waiting
                .values_mut()
                .filter_map(|answer| answer.poll_closed(context).is_ready().then_some(()))
                .count();
            match withdrawn {
                0 => Poll::Pending,
                _ => Poll::Ready(()),
            }
        })
        .await;
    }

    /// Lets go of an ask, whatever became of it.
    pub(super) fn forget(&mut self, ask: &AskId) {
        self.declined.remove(ask);
        self.waiting.remove(ask);
    }

    /// Asks that the turn no longer waits for.
    pub(super) fn withdrawn(&self) -> Vec<AskId> {
        self.waiting
            .iter()
            .filter(|(_, answer)| answer.is_closed())
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// A client cannot answer this one. That it is settled already is no matter.
    pub(super) fn decline(&mut self, ask: &AskId, by: &ClientId) {
        if self.waiting.contains_key(ask) {
            let declined = self.declined.entry(ask.clone()).or_default();
            declined.insert(by.clone());
        }
    }

    /// Whether this client has not said that it cannot answer.
    pub(super) fn may_answer(&self, ask: &AskId, client: &ClientId) -> bool {
        let declined = self.declined.get(ask);
        declined.is_none_or(|declined| !declined.contains(client))
    }

    pub(super) fn open(&self) -> Vec<AskId> {
        self.waiting.keys().cloned().collect()
    }
}
