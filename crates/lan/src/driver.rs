//! The driver of an agent that does nothing itself: each prompt is an intent, carried out by whichever peer can do it.
//!
//! So intents are there on every face through which one talks to an agent, and what a peer asks is asked there.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use domain::turn::{
    Answer, AskKind, AskOption, EventKind, OptionKind, Stop, ToolCall, ToolKind, ToolStatus,
};
use engine::{
    Calls, Continuity, Driver, DriverError, DriverFuture, EndpointAgent, Occasion, OpenSession,
    Opened, SessionSink, Turn, TurnOf,
};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    Lan,
    answers::Question,
    intents::{Intent, IntentOptions, LegStatus},
    ports::{Human, PortFuture},
};

/// The node that a template names when any that fits will do.
const ANY: &str = "*";

/// Conversations of one agent that are open at a time; the engine closes those that are idle.
const OPEN_MAX: usize = 1024;

/// What was said before, from which questions are answered.
const SAID_MAX: usize = 32;

/// Where drivers find the peers once they are there. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Joined(Arc<OnceLock<Lan>>);

impl Joined {
    /// The peers are there.
    pub fn fill(&self, lan: Lan) {
        let _ = self.0.set(lan); // There is one network.
    }

    /// Whether an agent on `peer` means any node that fits, rather than one.
    pub fn is_for(agent: &EndpointAgent) -> bool {
        agent.config.get("node").and_then(Value::as_str) == Some(ANY)
    }

    /// The driver of such an agent.
    pub fn driver(&self, agent: &EndpointAgent, calls: Calls) -> Arc<dyn Driver> {
        let fan_out = agent.config.get("fanOut").and_then(Value::as_u64);
        Arc::new(IntentDriver {
            joined: self.clone(),
            calls,
            own_name: agent.around.agent.clone(),
            fan_out: fan_out.and_then(|number| usize::try_from(number).ok()),
            open: Mutex::default(),
        })
    }
}

struct IntentDriver {
    joined: Joined,
    calls: Calls,
    own_name: String,
    fan_out: Option<usize>,
    open: Mutex<HashMap<String, Conversation>>,
}

#[derive(Clone)]
struct Conversation {
    sink: SessionSink,
    said: Vec<String>,
}

impl fmt::Debug for IntentDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntentDriver")
            .field("agent", &self.own_name)
            .finish_non_exhaustive()
    }
}

impl IntentDriver {
    fn begin(&self, open: OpenSession) -> Result<Opened, DriverError> {
        let mut conversations = self.lock();
        if conversations.len() >= OPEN_MAX {
            return Err(DriverError::Unsupported {
                what: "have more conversations at a time".to_owned(),
            });
        }
        // Which sessions at peers belong to it is kept, so it goes on where it was.
        let (id, continuity) = match open.resume {
            Some(id) => (id, Continuity::Resumed),
            None => (Uuid::new_v4().to_string(), Continuity::Fresh),
        };
        let conversation = Conversation {
            sink: open.sink,
            said: Vec::new(),
        };
        conversations.insert(id.clone(), conversation);
        Ok(Opened { id, continuity })
    }

    async fn take_turn(&self, turn: Turn) -> Result<Stop, DriverError> {
        let Some(conversation) = self.said(&turn.session, &turn.prompt) else {
            return Err(DriverError::Protocol {
                what: "the conversation is not open".to_owned(),
            });
        };
        let Some(lan) = self.joined.0.get() else {
            return Ok(Stop::Failed {
                message: "this node listens on no port, so it has no peers".to_owned(),
            });
        };
        let chain = self.calls.chain(TurnOf {
            trace: turn.options.trace,
            agent: &self.own_name,
            prompt: &turn.prompt,
        });
        let human: Arc<dyn Human> = Arc::new(Listener(conversation.sink.clone()));
        if turn.options.occasion == Occasion::LateAnswer {
            let intents = lan.intents();
            let taken_up = intents.take_up_in(&turn.session, human.clone(), &turn.cancel);
            match taken_up.await {
                Ok(Some(intent)) => return Ok(tell(&intent, &conversation.sink)),
                Ok(None) => {} // What was asked is over; the words are all there is.
                Err(error) => {
                    return Ok(Stop::Failed {
                        message: engine::chain(&error),
                    });
                }
            }
        }
        let options = IntentOptions {
            fan_out: self.fan_out,
            session: Some(turn.session),
            context: conversation.said,
            chain,
            within: turn.options.timeout,
            human: Some(human),
            cancel: turn.cancel.clone(),
            ..IntentOptions::default()
        };
        match lan.intents().send(&turn.prompt, options).await {
            Ok(intent) => Ok(tell(&intent, &conversation.sink)),
            Err(error) => Ok(Stop::Failed {
                message: engine::chain(&error),
            }),
        }
    }

    /// The conversation as it was before this prompt, which is remembered.
    fn said(&self, session: &str, prompt: &str) -> Option<Conversation> {
        let mut conversations = self.lock();
        let conversation = conversations.get_mut(session)?;
        let before = conversation.clone();
        if conversation.said.len() >= SAID_MAX {
            conversation.said.remove(0);
        }
        conversation.said.push(prompt.to_owned());
        Some(before)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Conversation>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Driver for IntentDriver {
    fn open(&self, open: OpenSession) -> DriverFuture<'_, Result<Opened, DriverError>> {
        Box::pin(std::future::ready(self.begin(open)))
    }

    fn turn(&self, turn: Turn) -> DriverFuture<'_, Result<Stop, DriverError>> {
        Box::pin(self.take_turn(turn))
    }

    fn ended(&self) -> DriverFuture<'_, ()> {
        Box::pin(std::future::pending()) // There is no process that could end.
    }

    fn close<'a>(&'a self, session: &'a str) -> DriverFuture<'a, ()> {
        self.lock().remove(session);
        Box::pin(std::future::ready(()))
    }
}

/// Says what came of an intent: each peer's words, and why it did not work where it did not.
fn tell(intent: &Intent, sink: &SessionSink) -> Stop {
    let is_one = intent.legs.len() == 1;
    let (mut failures, mut is_cancelled) = (Vec::new(), false);
    for leg in &intent.legs {
        sink.emit(
            EventKind::Notice {
                text: match &leg.capability {
                    Some(capability) => format!("{} ({capability}): {}", leg.peer_name, leg.why),
                    None => format!("{}: {}", leg.peer_name, leg.why),
                },
            },
            None,
        );
        match (leg.status, &leg.error) {
            (LegStatus::Completed, _) => {
                let mut text = leg.text.clone();
                for part in leg.output.iter().flat_map(|message| &message.parts) {
                    if let (Some(name), Some(url)) = (&part.name, &part.content_url) {
                        text.push_str(&format!("\n[{name}]({url})"));
                    }
                }
                if !is_one {
                    text = format!("{}: {text}\n", leg.peer_name);
                }
                sink.emit(EventKind::Text { text }, None);
            }
            (LegStatus::Cancelled, _) => is_cancelled = true,
            (_, Some(error)) => {
                let way_on = error.suggestion.as_ref();
                let way_on = way_on.map_or(String::new(), |way_on| format!(" ({way_on})"));
                let chain = error
                    .details
                    .as_ref()
                    .and_then(|details| details.get("call_chain"));
                let chain = chain.map_or(String::new(), |chain| format!(" {chain}"));
                failures.push(format!(
                    "{}: {} [{}]{chain}{way_on}",
                    leg.peer_name, error.message, error.code
                ));
            }
            (_, None) => failures.push(format!("{} waits for an answer", leg.peer_name)),
        }
    }
    let tried = intent
        .tried
        .iter()
        .map(|tried| format!("{}: {}", tried.peer_name, tried.why));
    let tried: Vec<String> = tried.collect();
    if is_cancelled {
        return Stop::Cancelled;
    }
    if failures.is_empty() && !intent.legs.is_empty() {
        return Stop::EndTurn;
    }
    failures.extend(tried);
    Stop::Failed {
        message: failures.join("; "),
    }
}

/// Whoever listens to the conversation.
struct Listener(SessionSink);

impl Human for Listener {
    fn ask(&self, question: Question) -> PortFuture<Option<String>> {
        let sink = self.0.clone();
        Box::pin(async move {
            let kind = kind(&question);
            let answer = sink.ask(kind.clone(), None).await;
            Some(words(&kind, answer))
        })
    }

    fn tell(&self, words: String) {
        self.0.emit(EventKind::Notice { text: words }, None);
    }
}

/// What cannot be undone is asked as such, so that no policy and no agent on the way answers it.
fn kind(question: &Question) -> AskKind {
    if question.options.is_empty() && (!question.is_final || question.wants_words) {
        return AskKind::Question {
            text: format!("{}: {}", question.peer, question.text),
            schema: None,
        };
    }
    let told = question.options.iter().filter_map(|choice| {
        Some(AskOption {
            id: choice.id.clone(),
            name: choice.name.clone(),
            kind: serde_json::from_value(Value::from(choice.kind.as_str())).ok()?,
        })
    });
    let mut options: Vec<AskOption> = told.collect();
    if options.is_empty() {
        let option = |id: &str, name: &str, kind| AskOption {
            id: id.to_owned(),
            name: name.to_owned(),
            kind,
        };
        options.push(option("yes", "Yes", OptionKind::AllowOnce));
        options.push(option("no", "No", OptionKind::RejectOnce));
    }
    AskKind::Permission {
        tool: ToolCall {
            id: Uuid::new_v4().to_string(),
            title: format!("{}: {}", question.peer, question.text),
            name: None,
            kind: ToolKind::Other,
            status: ToolStatus::Pending,
            locations: Vec::new(),
            content: Vec::new(),
            input: None,
            output: None,
        },
        options,
        destructive: question.is_final,
    }
}

fn words(kind: &AskKind, answer: Answer) -> String {
    match (answer, kind) {
        (Answer::Option { id }, _) => id,
        (Answer::Text { text }, _) => text,
        (Answer::Declined, AskKind::Permission { .. }) => "no".to_owned(),
        (Answer::Declined, AskKind::Question { .. }) => {
            "There is no answer; go on as you can.".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(text: &str, is_final: bool) -> Question {
        Question {
            text: text.to_owned(),
            ask: None,
            peer: "nova9".to_owned(),
            is_final,
            is_reversible: false,
            wants_words: !is_final,
            is_permission: is_final,
            options: Vec::new(),
        }
    }

    #[test]
    fn what_cannot_be_undone_is_asked_as_a_decision_of_a_human() {
        let asked = kind(&question("delete 5 entries?", true));
        let AskKind::Permission {
            options,
            destructive,
            ..
        } = &asked
        else {
            panic!("{asked:?}");
        };
        assert!(*destructive && options.len() == 2);
        assert_eq!(words(&asked, Answer::Declined), "no");
        let plain = kind(&question("which paper size?", false));
        assert!(matches!(plain, AskKind::Question { .. }));
        let text = "A4".to_owned();
        assert_eq!(words(&plain, Answer::Text { text }), "A4");
    }

    #[test]
    fn a_permission_is_asked_with_the_options_of_the_peer() {
        let mut asked = question("write a file?", false);
        asked.options = serde_json::from_value(serde_json::json!([
            {"id": "a1", "name": "Allow", "kind": "allow-once"},
            {"id": "x", "name": "Strange", "kind": "something-new"},
        ]))
        .unwrap();
        let AskKind::Permission {
            options,
            destructive,
            ..
        } = kind(&asked)
        else {
            panic!("it has options");
        };
        assert_eq!(
            (options.len(), options[0].id.as_str(), destructive),
            (1, "a1", false)
        );
    }
}
