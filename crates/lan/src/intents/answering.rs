//! A human's answer to what a peer asks on the way: one at a time, for the question that is asked now.

use std::{
    collections::HashSet,
    sync::{MutexGuard, PoisonError},
};

use super::{Answered, Intent, Intents, Leg, LegStatus, Reply, leg::WentOn};
use crate::{answers::AnsweredBy, error::LanError};

impl Intents {
    pub(super) async fn answer_now(&self, id: &str, reply: &Reply) -> Result<Intent, LanError> {
        let Reply { text, peer, ask } = reply;
        let (answer, peer, meant) = (text.as_str(), peer.as_deref(), ask.as_deref());
        let _answering = self.begin_answer(id)?;
        let mut intent = self.show(id).await?;
        let peer = peer.map(|said| self.inner.peers.find(said)).transpose()?;
        let is_meant = |leg: &&mut Leg| {
            leg.status == LegStatus::Awaiting
                && peer.as_ref().is_none_or(|peer| peer.agent_id == leg.peer)
        };
        let mut waiting: Vec<&mut Leg> = intent.legs.iter_mut().filter(is_meant).collect();
        let leg = match &mut waiting[..] {
            [leg] => leg,
            [] => {
                let what = "this intent waits for no answer".to_owned();
                return Err(LanError::Invalid { what });
            }
            _ => {
                let what = "several peers wait for an answer; say which one is meant".to_owned();
                return Err(LanError::Invalid { what });
            }
        };
        let peer = self.inner.peers.get(&leg.peer)?;
        let client = self.inner.peers.client(&peer)?;
        if meant.is_some_and(|meant| leg.ask.as_deref() != Some(meant)) {
            return Err(not_used(leg.question.as_deref()));
        }
        let answered = Answered {
            question: leg.question.clone().unwrap_or_default(),
            answer: answer.to_owned(),
            by: AnsweredBy::Human,
            confidence: 1.0,
            because: "the human answered".to_owned(),
        };
        let mut context = intent.context.clone();
        context.push(answer.to_owned());
        let went_on = self.go_on(&client, leg, answered, &context).await?;
        if let Some(main) = &intent.session {
            self.inner.sessions.add(main, leg).await?;
        }
        match went_on {
            WentOn::WithTheAnswer => intent.context = context,
            WentOn::ByItself | WentOn::ToAnotherQuestion => {
                let asked = leg.question.clone();
                intent.settle();
                self.keep(&intent, "intent.looked-at").await?;
                return Err(not_used(asked.as_deref()));
            }
        }
        intent.settle();
        self.keep(&intent, "intent.answered-by-human").await?;
        Ok(intent)
    }

    /// One answer at a time: a second one would be for a question that is answered by then.
    pub(super) fn begin_answer(&self, id: &str) -> Result<Answering<'_>, LanError> {
        if !self.answering().insert(id.to_owned()) {
            return Err(LanError::Invalid {
                what: "somebody is answering this already".to_owned(),
            });
        }
        Ok(Answering {
            intents: self,
            id: id.to_owned(),
        })
    }

    fn answering(&self) -> MutexGuard<'_, HashSet<String>> {
        let answering = self.inner.answering.lock();
        answering.unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer on its way, until this is dropped.
pub(super) struct Answering<'a> {
    intents: &'a Intents,
    id: String,
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        self.intents.answering().remove(&self.id);
    }
}

/// An answer to what is not asked any more; with what is asked now.
fn not_used(asked: Option<&str>) -> LanError {
    let now = asked.map(|asked| format!("; it asks now: {asked}"));
    let way_on = "; `agentcraft journal --kind intent.` tells what happened".to_owned();
    LanError::Invalid {
        what: format!(
            "the question was answered or over already, so this answer was not used{}",
            now.unwrap_or(way_on)
        ),
    }
}
