//! Agents that the owner has named to decide in their place: who does an intent, and what a question is answered.
//!
//! What they say is advice. It is read from one line of JSON, bounded, and where it is not understood the plain rules decide.
//! What cannot be undone, and permissions, are never put to them.

use std::{fmt, sync::Arc, time::Duration};

use serde::{Deserialize, de::DeserializeOwned};
use tokio::sync::Semaphore;

use crate::{answers::Question, client::cut, ports::Adviser};

/// How long an agent may think about a choice; a human waits.
const ADVICE_WITHIN: Duration = Duration::from_secs(60);

/// Agents that are asked at once. An agent that sends intents itself would be asked about those too, and so on: beyond this
/// many the plain rules decide.
const ASKED_MAX: usize = 4;

/// Skills that a router is shown.
const SKILLS_MAX: usize = 200;

/// Characters of a skill, of what was said and of the reasons that are passed on.
const SKILL_CHARS: usize = 300;
const SAID_CHARS: usize = 4000;
const WHY_CHARS: usize = 300;

/// What was said before that an answerer is told.
const SAID_MAX: usize = 32;

/// How sure an answerer must be before it speaks for the human.
const SURE_ENOUGH: f64 = 0.8;

/// Those who are asked, if any.
#[derive(Clone)]
pub(crate) struct Advisers {
    router: Option<Arc<dyn Adviser>>,
    answerer: Option<Arc<dyn Adviser>>,
    places: Arc<Semaphore>,
}

impl fmt::Debug for Advisers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Advisers").finish_non_exhaustive()
    }
}

/// One that a router may choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) peer: String,
    pub(crate) peer_name: String,
    pub(crate) capability: String,
    pub(crate) description: String,
}

/// The offers that a router chose, the best first, and why.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice {
    pub(crate) chosen: Vec<Offer>,
    pub(crate) why: String,
}

/// What an answerer says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Said {
    pub(crate) answer: String,
    pub(crate) confidence: f64,
    pub(crate) because: String,
}

impl Advisers {
    pub(crate) fn new(
        router: Option<Arc<dyn Adviser>>,
        answerer: Option<Arc<dyn Adviser>>,
    ) -> Self {
        Self {
            router,
            answerer,
            places: Arc::new(Semaphore::new(ASKED_MAX)),
        }
    }

    pub(crate) fn have_router(&self) -> bool {
        self.router.is_some()
    }

    /// Whom the router chooses; the error says why the plain ranking has to do.
    pub(crate) async fn choose(&self, text: &str, offers: Vec<Offer>) -> Result<Choice, String> {
        #[derive(Deserialize)]
        struct Told {
            choices: Vec<usize>,
            #[serde(default)]
            why: String,
        }
        let router = self.router.as_ref().ok_or("there is no router")?;
        let offers: Vec<Offer> = offers.into_iter().take(SKILLS_MAX).collect();
        let lines = (1..).zip(&offers).map(|(number, offer)| {
            let description = cut(&offer.description, SKILL_CHARS).replace('\n', " ");
            let (peer, capability) = (&offer.peer_name, &offer.capability);
            format!("{number}. {capability} of {peer}: {description}\n")
        });
        let words = format!(
            "Somebody wants this done:\n\n{}\n\nThese could be asked:\n\n{}\nWhich of them fit? Do not do the work yourself. \
             Answer with one line of JSON and nothing else: {{\"choices\": [their numbers, the best first], \"why\": \"a few \
             words\"}}. An empty list means that none fits.",
            cut(text, SAID_CHARS),
            lines.collect::<String>(),
        );
        let told: Told = self.ask(router, words).await?;
        let mut chosen: Vec<Offer> = Vec::new();
        for number in told.choices {
            let offer = number.checked_sub(1).and_then(|index| offers.get(index));
            let offer = offer.ok_or_else(|| format!("it chose {number}, which is none"))?;
            if !chosen.contains(offer) {
                chosen.push(offer.clone());
            }
        }
        Ok(Choice {
            chosen,
            why: format!("{} chose it: {}", router.name(), cut(&told.why, WHY_CHARS)),
        })
    }

    /// What the answerer says for the human, if it is sure; otherwise the error says why the human has to be asked.
    pub(crate) async fn answer(
        &self,
        question: &Question,
        context: &[String],
    ) -> Result<Said, Option<String>> {
        #[derive(Deserialize)]
        struct Told {
            #[serde(default)]
            answer: String,
            confidence: f64,
            #[serde(default)]
            because: String,
        }
        let answerer = self.answerer.as_ref().ok_or(None)?;
        if question.is_final || question.is_permission {
            return Err(None);
        }
        let latest = context.len().saturating_sub(SAID_MAX);
        let said = context[latest..].iter();
        let said = said.map(|text| format!("- {}\n", cut(text, SAID_CHARS).replace('\n', " ")));
        let words = format!(
            "You answer for a human, and only from what they have said. They have said:\n\n{}\nAn agent that works for them \
             asks:\n\n{}\n\nWhat would they answer? Answer with one line of JSON and nothing else: {{\"answer\": \"their \
             answer\", \"confidence\": a number from 0 to 1, \"because\": \"a few words\"}}. Where what they have said does \
             not tell the answer, the confidence is 0.",
            said.collect::<String>(),
            cut(&question.text, SAID_CHARS),
        );
        let told: Told = self.ask(answerer, words).await.map_err(Some)?;
        let name = answerer.name();
        let is_sure = (SURE_ENOUGH..=1.0).contains(&told.confidence);
        if !is_sure || told.answer.trim().is_empty() {
            return Err(Some(format!("{name} is not sure of an answer")));
        }
        Ok(Said {
            answer: cut(&told.answer, SAID_CHARS),
            confidence: told.confidence,
            because: format!("{name} answered: {}", cut(&told.because, WHY_CHARS)),
        })
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        adviser: &Arc<dyn Adviser>,
        words: String,
    ) -> Result<T, String> {
        let name = adviser.name();
        let Ok(_place) = self.places.try_acquire() else {
            return Err(format!("{name} is asked too much at once"));
        };
        let said = tokio::time::timeout(ADVICE_WITHIN, adviser.ask(words)).await;
        let limit = ADVICE_WITHIN.as_secs();
        let said = said.map_err(|_| format!("{name} said nothing for {limit} s"))?;
        let said = said.map_err(|why| format!("{name} could not be asked: {why}"))?;
        let told = json_in(&said).and_then(|json| serde_json::from_str(json).ok());
        told.ok_or_else(|| format!("{name} did not answer with the JSON it was asked for"))
    }
}

/// What is between the first brace and the last: models like to wrap it into something.
fn json_in(said: &str) -> Option<&str> {
    let (start, end) = (said.find('{')?, said.rfind('}')?);
    said.get(start..=end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::FakeAdviser;

    fn offer(capability: &str) -> Offer {
        Offer {
            peer: "id".to_owned(),
            peer_name: "nova9".to_owned(),
            capability: capability.to_owned(),
            description: "does it".to_owned(),
        }
    }

    fn question(text: &str) -> Question {
        Question {
            text: text.to_owned(),
            ask: None,
            peer: "nova9".to_owned(),
            is_final: false,
            is_reversible: false,
            wants_words: true,
            is_permission: false,
            options: Vec::new(),
        }
    }

    #[tokio::test]
    async fn a_choice_is_read_whatever_is_around_it_and_nonsense_is_no_choice() {
        let chosen = async |said: &'static str| {
            let router = FakeAdviser::saying(said);
            let advisers = Advisers::new(Some(router), None);
            let offers = vec![offer("radio"), offer("news")];
            let choice = advisers.choose("play", offers).await?;
            Ok::<_, String>(choice.chosen.into_iter().map(|offer| offer.capability))
        };
        let good = chosen("Sure!\n```json\n{\"choices\": [2, 1, 2], \"why\": \"x\"}\n```").await;
        assert_eq!(good.unwrap().collect::<Vec<_>>(), ["news", "radio"]);
        assert_eq!(chosen("{\"choices\": []}").await.unwrap().count(), 0);
        for bad in [
            "radio",
            "{\"choices\": [3]}",
            "{\"choices\": [0]}",
            "{}",
            "}{",
        ] {
            assert!(chosen(bad).await.is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn only_a_sure_answer_is_given_and_what_is_the_humans_to_decide_is_not_even_asked() {
        let sure = "{\"answer\": \"A4\", \"confidence\": 0.9, \"because\": \"they print letters\"}";
        for (said, expected) in [
            (sure, Some("A4")),
            ("{\"answer\": \"A4\", \"confidence\": 0.5}", None),
            ("{\"answer\": \"A4\", \"confidence\": 7}", None),
            ("{\"answer\": \" \", \"confidence\": 1}", None),
            ("A4", None),
        ] {
            let advisers = Advisers::new(None, Some(FakeAdviser::saying(said)));
            let told = advisers.answer(&question("which paper"), &[]).await;
            assert_eq!(
                told.ok().map(|said| said.answer).as_deref(),
                expected,
                "{said}"
            );
        }
        let answerer = FakeAdviser::saying(sure);
        let advisers = Advisers::new(None, Some(answerer.clone()));
        for theirs in [
            Question {
                is_final: true,
                ..question("delete it?")
            },
            Question {
                is_permission: true,
                ..question("may I?")
            },
        ] {
            assert_eq!(advisers.answer(&theirs, &[]).await, Err(None));
        }
        assert_eq!(answerer.asked().len(), 0);
    }

    #[tokio::test]
    async fn an_agent_that_is_asked_about_its_own_question_is_not_asked_for_ever() {
        let advisers = Advisers::new(Some(FakeAdviser::saying("{\"choices\": []}")), None);
        let _all = advisers.places.clone().acquire_many_owned(4).await.unwrap();
        let why = advisers.choose("x", Vec::new()).await.unwrap_err();
        assert!(why.contains("too much at once"), "{why}");
    }
}
