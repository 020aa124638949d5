//! Tests of intents: to whom they go, what happens when a peer is away, who answers questions.

use serde_json::{Value, json};

use super::*;
use crate::{
    answers::AnsweredBy,
    peer::Status,
    test_support::{FakeAdviser, FakeHuman, FakePeer, Manner, Setup, TestNode},
};

const RADIO: &[(&str, &str)] = &[("radio", "电台搜索与播放控制 plays radio stations")];
const NEWS: &[(&str, &str)] = &[("news_digest", "搜索新闻并生成翻译摘要")];

fn said(text: &str) -> Reply {
    Reply {
        text: text.to_owned(),
        ..Reply::default()
    }
}

async fn with_human(answer: Option<&'static str>) -> (TestNode, Arc<FakeHuman>) {
    let human = Arc::new(FakeHuman {
        answer,
        ..FakeHuman::default()
    });
    let setup = Setup {
        name: "desk",
        human: Some(human.clone()),
        ..Setup::default()
    };
    (TestNode::start(setup).await, human)
}

#[tokio::test]
async fn an_intent_goes_to_the_peer_that_fits_with_the_chain() {
    let node = TestNode::plain().await;
    let radio = FakePeer::start("nova9", RADIO, Manner::Does("正在播放")).await;
    let news = FakePeer::start("tablet", NEWS, Manner::Does("news")).await;
    node.knows(&radio).await;
    node.knows(&news).await;
    let options = IntentOptions {
        locale: Some("zh-CN".to_owned()),
        preferred_output: Some("text/plain".to_owned()),
        session: Some("main".to_owned()),
        ..IntentOptions::default()
    };
    let intent = node
        .lan
        .intents()
        .send("放一个轻音乐电台", options)
        .await
        .unwrap();
    assert_eq!(intent.status, IntentStatus::Completed);
    let leg = &intent.legs[0];
    assert_eq!(
        (
            leg.peer_name.as_str(),
            leg.capability.as_deref(),
            leg.text.as_str()
        ),
        ("nova9", Some("radio"), "正在播放")
    );
    assert!(leg.why.contains("电台") && news.asked().is_empty());
    let (chain, body) = radio.asked().remove(0);
    assert_eq!(chain.as_deref(), Some(node.id.as_str()));
    assert_eq!(body["metadata"]["call_chain"], json!([node.id]));
    assert_eq!(body["metadata"]["source_agent_id"], json!(node.id));
    assert_eq!(body["metadata"]["master_session_id"], "main");
    assert_eq!(body["metadata"]["locale"], "zh-CN");
    assert_eq!(body["metadata"]["preferred_output"], "text/plain");
    assert_eq!(node.lan.intents().show(&intent.id).await.unwrap(), intent);
}

#[tokio::test]
async fn no_fit_is_said_and_nothing_is_sent() {
    let node = TestNode::plain().await;
    let radio = FakePeer::start("nova9", RADIO, Manner::Does("ok")).await;
    node.knows(&radio).await;
    let sent = node
        .lan
        .intents()
        .send("烤一个蛋糕", IntentOptions::default())
        .await;
    assert!(matches!(sent, Err(LanError::NoFit { .. })));
    let named = IntentOptions {
        peer: Some("nova9".to_owned()),
        ..IntentOptions::default()
    };
    let sent = node.lan.intents().send("烤一个蛋糕", named).await.unwrap();
    assert_eq!(
        sent.status,
        IntentStatus::Completed,
        "a peer that is named gets it"
    );
}

#[tokio::test]
async fn a_peer_that_is_away_is_marked_and_the_next_one_does_it() {
    let (node, human) = with_human(None).await;
    let away = FakePeer::start("radio-first", RADIO, Manner::Does("never")).await;
    let there = FakePeer::start("nova9", RADIO, Manner::Does("playing")).await;
    node.knows(&away).await;
    node.knows(&there).await;
    away.dies().await;
    let intent = node
        .lan
        .intents()
        .send("radio first please", IntentOptions::default())
        .await
        .unwrap();
    assert_eq!(
        (intent.status, intent.legs[0].text.as_str()),
        (IntentStatus::Completed, "playing")
    );
    assert_eq!(intent.tried[0].peer, away.id);
    assert_eq!(
        node.lan.peers().show(&away.id).unwrap().status,
        Status::Offline
    );
    assert!(human.told.lock().unwrap()[0].contains("radio-first is offline"));
}

#[tokio::test]
async fn a_peer_that_cannot_passes_it_on_and_one_that_says_why_not_does_not() {
    for (status, passes_on) in [
        (404, true),
        (403, true),
        (503, true),
        (400, false),
        (500, false),
        (408, false),
    ] {
        let node = TestNode::plain().await;
        let error = json!({ "run_id": "r", "status": "failed", "error": {
            "code": "execution_timeout", "message": "too slow", "suggestion": "try another source" } });
        let first = FakePeer::start("radio-first", RADIO, Manner::Refuses(status, error)).await;
        let second = FakePeer::start("nova9", RADIO, Manner::Does("ok")).await;
        node.knows(&first).await;
        node.knows(&second).await;
        let intent = node
            .lan
            .intents()
            .send("radio first please", IntentOptions::default())
            .await
            .unwrap();
        assert_eq!(second.asked().len(), usize::from(passes_on), "{status}");
        if !passes_on {
            let error = intent.legs[0].error.clone().unwrap();
            assert_eq!(
                (error.code.as_str(), error.suggestion.as_deref()),
                ("execution_timeout", Some("try another source"))
            );
            assert_eq!(intent.status, IntentStatus::Failed);
        }
    }
}

#[tokio::test]
async fn one_intent_fans_out_and_gathers_what_comes() {
    let node = TestNode::plain().await;
    let mut peers = Vec::new();
    for (name, text) in [("one", "1"), ("two", "2"), ("three", "3")] {
        let peer = FakePeer::start(name, RADIO, Manner::Does(text)).await;
        node.knows(&peer).await;
        peers.push(peer);
    }
    peers[0].dies().await;
    let options = IntentOptions {
        fan_out: Some(3),
        session: Some("main".to_owned()),
        ..IntentOptions::default()
    };
    let intent = node.lan.intents().send("radio", options).await.unwrap();
    let mut texts: Vec<&str> = intent.legs.iter().map(|leg| leg.text.as_str()).collect();
    texts.sort_unstable();
    assert_eq!(
        (texts.as_slice(), intent.tried.len()),
        (["2", "3"].as_slice(), 1)
    );
    let sessions = node.lan.intents().sessions("main").await.unwrap();
    assert_eq!(
        sessions.remotes.len(),
        2,
        "one main session, several at peers"
    );
}

#[tokio::test]
async fn a_session_at_a_peer_goes_on_and_begins_anew_where_it_expired() {
    let options = || IntentOptions {
        session: Some("main".to_owned()),
        ..IntentOptions::default()
    };
    let node = TestNode::plain().await;
    let peer = FakePeer::start("nova9", RADIO, Manner::Forgets).await;
    node.knows(&peer).await;
    for _ in 0..2 {
        let intent = node.lan.intents().send("radio", options()).await.unwrap();
        assert_eq!(intent.status, IntentStatus::Completed);
    }
    let sessions: Vec<Value> = peer
        .asked()
        .iter()
        .map(|(_, body)| body["session_id"].clone())
        .collect();
    assert_eq!(sessions, [Value::Null, json!("s1"), Value::Null]);
}

#[tokio::test]
async fn a_question_is_answered_from_what_the_human_said_and_the_journal_tells() {
    let (node, human) = with_human(Some("never asked")).await;
    let peer = FakePeer::start(
        "nova9",
        NEWS,
        Manner::Asks("请问PDF需要什么纸张大小？", Value::Null),
    )
    .await;
    node.knows(&peer).await;
    let text = "帮我把乌克兰新闻的前三条翻译成中文，生成PDF，用A4纸张大小";
    let intent = node
        .lan
        .intents()
        .send(text, IntentOptions::default())
        .await
        .unwrap();
    assert_eq!(intent.legs[0].text, "did: 用A4纸张大小");
    assert_eq!(intent.legs[0].answers[0].by, AnsweredBy::Context);
    assert!(human.asked.lock().unwrap().is_empty());
    let told = node.journal("intent.answered").await;
    assert_eq!(
        (&told[0]["by"], &told[0]["answer"]),
        (&json!("context"), &json!("用A4纸张大小"))
    );
    assert!(told[0]["confidence"].as_f64().unwrap() >= 0.5 && told[0]["because"].is_string());
}

#[tokio::test]
async fn what_cannot_be_undone_reaches_the_human_whatever_the_rules_say() {
    let human = Arc::new(FakeHuman {
        answer: Some("no"),
        ..FakeHuman::default()
    });
    let rule = AnswerRule {
        question: vec!["confirm".to_owned()],
        answer: "yes".to_owned(),
        peer: None,
    };
    let setup = Setup {
        name: "desk",
        rules: vec![rule],
        human: Some(human.clone()),
        ..Setup::default()
    };
    let node = TestNode::start(setup).await;
    let metadata = json!({ "severity": "destructive", "reversible": false });
    let peer = FakePeer::start("nova9", RADIO, Manner::Asks("confirm?", metadata)).await;
    node.knows(&peer).await;
    let intent = node
        .lan
        .intents()
        .send("radio, confirm yes", IntentOptions::default())
        .await
        .unwrap();
    assert_eq!(intent.legs[0].answers[0].by, AnsweredBy::Human);
    assert_eq!(peer.answered().as_deref(), Some("no"));
    assert!(human.asked.lock().unwrap()[0].is_final);
}

#[tokio::test]
async fn an_intent_waits_for_a_human_who_is_away_and_goes_on_when_they_answer() {
    let node = TestNode::plain().await;
    let peer = FakePeer::start("nova9", NEWS, Manner::Asks("要整理哪几条？", Value::Null)).await;
    node.knows(&peer).await;
    let intents = node.lan.intents();
    let waiting = intents
        .send("关注乌克兰局势", IntentOptions::default())
        .await
        .unwrap();
    assert_eq!(waiting.status, IntentStatus::Awaiting);
    assert_eq!(waiting.legs[0].question.as_deref(), Some("要整理哪几条？"));
    assert!(waiting.legs[0].asked_because.is_some());
    let done = intents.answer(&waiting.id, said("前三条")).await.unwrap();
    assert_eq!(
        (done.status, done.legs[0].text.as_str()),
        (IntentStatus::Completed, "did: 前三条")
    );
    assert_eq!(done.legs[0].answers[0].by, AnsweredBy::Human);
    let again = intents.answer(&waiting.id, said("x")).await;
    assert!(matches!(again, Err(LanError::Invalid { .. })));
}

#[tokio::test]
async fn nobody_in_the_chain_is_asked_again() {
    let node = TestNode::plain().await;
    let caller = FakePeer::start("radio-first", RADIO, Manner::Does("circle")).await;
    let other = FakePeer::start("nova9", RADIO, Manner::Does("ok")).await;
    node.knows(&caller).await;
    node.knows(&other).await;
    let chain = vec![caller.id.clone(), node.id.clone()];
    let options = |chain| IntentOptions {
        chain,
        ..IntentOptions::default()
    };
    let intent = node
        .lan
        .intents()
        .send("radio first", options(chain.clone()))
        .await
        .unwrap();
    assert_eq!(
        (intent.legs[0].text.as_str(), caller.asked().len()),
        ("ok", 0)
    );
    assert_eq!(other.asked()[0].1["metadata"]["call_chain"], json!(chain));
    let deep = (0..DEPTH_MAX).map(|number| format!("n{number}")).collect();
    let sent = node.lan.intents().send("radio", options(deep)).await;
    assert!(matches!(sent, Err(LanError::Invalid { .. })));
}

#[tokio::test]
async fn a_loop_of_intents_to_one_peer_is_stopped() {
    let node = TestNode::plain().await;
    let peer = FakePeer::start("nova9", RADIO, Manner::Does("ok")).await;
    let id = node.knows(&peer).await;
    for number in 0..pace::PER_MINUTE_MAX {
        let text = number.to_string();
        let mut pace = node.lan.intents().pace();
        pace.begin(&id, &text, Source::Run, Instant::now()).unwrap();
        pace.end(&id, &text);
    }
    let intent = node
        .lan
        .intents()
        .send("radio", IntentOptions::default())
        .await
        .unwrap();
    assert_eq!(
        (intent.status, peer.asked().len()),
        (IntentStatus::Failed, 0)
    );
    assert!(intent.tried[0].why.contains("too often"));
}

#[tokio::test]
async fn words_that_come_back_while_they_are_under_way_close_a_circle() {
    let node = TestNode::plain().await;
    let peer = FakePeer::start("nova9", RADIO, Manner::Does("ok")).await;
    let id = node.knows(&peer).await;
    let first = node
        .lan
        .intents()
        .pace()
        .begin(&id, "play the radio", Source::Run, Instant::now());
    first.unwrap();
    let sent = node
        .lan
        .intents()
        .send("please: play the radio", IntentOptions::default());
    let intent = sent.await.unwrap();
    let error = intent.legs[0].error.as_ref().unwrap();
    assert_eq!(
        (error.code.as_str(), peer.asked().len()),
        ("circular_call_detected", 0)
    );
    assert_eq!(
        error.details.as_ref().unwrap()["call_chain"],
        json!([node.id, id, node.id])
    );
}

#[tokio::test]
async fn a_cancelled_intent_is_cancelled_at_the_peer() {
    let node = TestNode::plain().await;
    let peer = FakePeer::start("nova9", RADIO, Manner::Asks("which one?", json!({}))).await;
    node.knows(&peer).await;
    let cancel = CancellationToken::new();
    let options = IntentOptions {
        cancel: cancel.clone(),
        human: Some(Arc::new(crate::test_support::Silent)),
        ..IntentOptions::default()
    };
    cancel.cancel();
    let intent = node.lan.intents().send("radio", options).await.unwrap();
    assert_eq!(intent.legs[0].status, LegStatus::Cancelled);
}

#[tokio::test]
async fn an_agent_that_the_owner_has_named_chooses_who_does_it_and_says_why() {
    let router = FakeAdviser::saying("{\"choices\": [2], \"why\": \"music is relaxing\"}");
    let setup = Setup {
        name: "desk",
        router: Some(router.clone()),
        ..Setup::default()
    };
    let node = TestNode::start(setup).await;
    let radio = FakePeer::start("nova9", RADIO, Manner::Does("正在播放")).await;
    let news = FakePeer::start("tablet", NEWS, Manner::Does("news")).await;
    node.knows(&radio).await;
    node.knows(&news).await;
    // By its words this is for the radio, and that one is shown first.
    let send = async |text: &str| {
        let intents = node.lan.intents();
        intents.send(text, IntentOptions::default()).await.unwrap()
    };
    let intent = send("放电台").await;
    let leg = &intent.legs[0];
    assert_eq!(leg.peer_name, "tablet", "{intent:?}");
    assert_eq!(leg.why, "wise chose it: music is relaxing");
    let asked = router.asked().remove(0);
    assert!(
        asked.contains("放电台") && asked.contains("1. radio of nova9"),
        "{asked}"
    );
}

#[tokio::test]
async fn a_router_that_is_not_understood_leaves_the_choice_to_the_words() {
    let setup = Setup {
        name: "desk",
        router: Some(FakeAdviser::saying("I would play some jazz.")),
        ..Setup::default()
    };
    let node = TestNode::start(setup).await;
    let radio = FakePeer::start("nova9", RADIO, Manner::Does("正在播放")).await;
    node.knows(&radio).await;
    let sent = node.lan.intents().send("放电台", IntentOptions::default());
    let intent = sent.await.unwrap();
    assert_eq!(intent.status, IntentStatus::Completed);
    assert!(
        intent.legs[0].why.contains("wise did not answer"),
        "{intent:?}"
    );
}

#[tokio::test]
async fn an_agent_answers_for_the_human_and_what_cannot_be_undone_still_reaches_them() {
    let sure = "{\"answer\": \"A4\", \"confidence\": 0.9, \"because\": \"letters\"}";
    for (asked, severity, by) in [
        ("Which format?", json!({}), Some(AnsweredBy::Agent)),
        (
            "Which format?",
            json!({ "severity": "destructive", "reversible": false }),
            None,
        ),
    ] {
        let answerer = FakeAdviser::saying(sure);
        let setup = Setup {
            name: "desk",
            answerer: Some(answerer.clone()),
            ..Setup::default()
        };
        let node = TestNode::start(setup).await;
        let peer = FakePeer::start("nova9", RADIO, Manner::Asks(asked, severity)).await;
        node.knows(&peer).await;
        let sent = node.lan.intents().send("放电台", IntentOptions::default());
        let intent = sent.await.unwrap();
        let answered = intent.legs[0].answers.first();
        assert_eq!(answered.map(|answered| answered.by), by, "{intent:?}");
        let is_waiting = intent.status == IntentStatus::Awaiting;
        assert_eq!(
            (is_waiting, answerer.asked().len()),
            match by {
                Some(_) => (false, 1),
                None => (true, 0),
            }
        );
        if let Some(answered) = answered {
            assert_eq!((answered.answer.as_str(), answered.confidence), ("A4", 0.9));
            let told = node.journal("intent.answered").await;
            assert_eq!(told[0]["by"], "agent", "{told:?}");
            assert_eq!(told[0]["because"], "wise answered: letters");
        }
    }
}

#[tokio::test]
async fn two_answers_to_one_question_are_not_both_taken() {
    let node = TestNode::plain().await;
    let peer = FakePeer::start("nova9", NEWS, Manner::Asks("要整理哪几条？", Value::Null)).await;
    node.knows(&peer).await;
    let intents = node.lan.intents();
    let sent = intents.send("关注乌克兰局势", IntentOptions::default());
    let waiting = sent.await.unwrap();
    let first = intents.begin_answer(&waiting.id).unwrap();
    let second = intents.answer(&waiting.id, said("x")).await.unwrap_err();
    assert!(second.to_string().contains("answering this already"));
    drop(first);
    // Somebody at the peer was quicker.
    peer.answers("前两条");
    let late = intents.answer(&waiting.id, said("前三条")).await;
    assert!(late.unwrap_err().to_string().contains("was not used"));
    assert_eq!(peer.answered().as_deref(), Some("前两条"));
    let told = intents.show(&waiting.id).await.unwrap();
    assert_eq!(told.status, IntentStatus::Completed);
    assert!(told.legs[0].answers.is_empty());
}

#[tokio::test]
async fn where_work_goes_on_is_known_before_it_is_done() {
    let human = Arc::new(FakeHuman {
        never: true,
        ..FakeHuman::default()
    });
    let setup = Setup {
        name: "desk",
        human: Some(human.clone()),
        ..Setup::default()
    };
    let node = TestNode::start(setup).await;
    let peer = FakePeer::start("nova9", RADIO, Manner::Asks("which one?", json!({}))).await;
    node.knows(&peer).await;
    let (intents, options) = (
        node.lan.intents().clone(),
        IntentOptions {
            session: Some("main".to_owned()),
            ..IntentOptions::default()
        },
    );
    let sending = node
        .tasks
        .spawn(|_| async move { intents.send("radio", options).await });
    human.was_asked().await;
    let intents = node.lan.intents();
    let tree = intents.sessions("main").await.unwrap();
    assert_eq!(
        (tree.remotes[0].run_id.as_deref(), tree.remotes[0].status),
        (Some("r1"), Some(LegStatus::Working))
    );
    let began = node.journal("intent.began").await;
    let taken = node.journal("intent.taken").await;
    assert_eq!(taken[0]["intent"], began[0]["intent"]);
    let id = began[0]["intent"].as_str().unwrap();
    let known = intents.show(id).await.unwrap();
    assert_eq!(known.status, IntentStatus::Working);
    sending.abort();
}

#[tokio::test]
async fn an_answer_to_one_question_never_answers_another() {
    let node = TestNode::plain().await;
    let list = json!({ "ask": "ask-1-1" });
    let peer = FakePeer::start("nova9", RADIO, Manner::Asks("list the radios?", list)).await;
    node.knows(&peer).await;
    let intents = node.lan.intents();
    let waiting = intents.send("radio", IntentOptions::default()).await;
    let id = waiting.unwrap().id;
    // Somebody else answers, and the run asks something else.
    peer.asks("delete the radios?", json!({ "ask": "ask-1-2" }));
    let refused = intents.answer(&id, said("yes")).await.unwrap_err();
    let words = refused.to_string();
    assert!(words.contains("not used") && words.contains("delete the radios?"));
    assert_eq!(peer.answered(), None);
    let now = intents.show(&id).await.unwrap();
    assert_eq!(now.status, IntentStatus::Awaiting);
    assert_eq!(now.legs[0].question.as_deref(), Some("delete the radios?"));
    // Who has the first question before them still cannot answer the second.
    let late = Reply {
        ask: Some("ask-1-1".to_owned()),
        ..said("yes")
    };
    intents.answer(&id, late).await.unwrap_err();
    assert_eq!(peer.answered(), None);
    let done = intents.answer(&id, said("no")).await.unwrap();
    assert_eq!(done.legs[0].answers[0].question, "delete the radios?");
    assert_eq!(done.legs[0].text, "did: no");
    assert_eq!(peer.meant().as_deref(), Some("ask-1-2"));
}

#[tokio::test]
async fn an_answer_that_the_peer_cannot_take_is_asked_of_the_human() {
    let rule = AnswerRule {
        question: vec!["paper".to_owned()],
        answer: "whatever you like".to_owned(),
        peer: None,
    };
    let setup = Setup {
        name: "desk",
        rules: vec![rule],
        ..Setup::default()
    };
    let node = TestNode::start(setup).await;
    let peer = FakePeer::start("nova9", RADIO, Manner::Asks("which paper?", Value::Null)).await;
    peer.takes("A4");
    node.knows(&peer).await;
    let intents = node.lan.intents();
    let sent = intents.send("radio", IntentOptions::default()).await;
    let waiting = sent.unwrap();
    let leg = &waiting.legs[0];
    assert_eq!(waiting.status, IntentStatus::Awaiting);
    assert_eq!(leg.question.as_deref(), Some("which paper?"));
    assert!(leg.asked_because.as_ref().unwrap().contains("say A4"));
    assert_eq!(leg.answers, []);
    let done = intents.answer(&waiting.id, said("A4")).await.unwrap();
    assert_eq!(done.legs[0].text, "did: A4");
}

/// Thinks for longer than the peer may work.
struct Thinker;

const WORK: Duration = Duration::from_secs(60);

impl Human for Thinker {
    fn ask(&self, _: crate::Question) -> crate::PortFuture<Option<String>> {
        Box::pin(async {
            tokio::time::pause();
            tokio::time::advance(WORK + Duration::from_millis(50)).await;
            tokio::time::resume();
            Some("A4".to_owned())
        })
    }

    fn tell(&self, _: String) {}
}

#[tokio::test]
async fn the_time_of_a_peer_stands_still_while_the_human_thinks() {
    let node = TestNode::plain().await;
    let peer = FakePeer::start("nova9", RADIO, Manner::Asks("which paper?", Value::Null)).await;
    node.knows(&peer).await;
    let options = IntentOptions {
        human: Some(Arc::new(Thinker)),
        within: Some(WORK),
        ..IntentOptions::default()
    };
    let done = node.lan.intents().send("radio", options).await.unwrap();
    assert_eq!(done.legs[0].text, "did: A4");
}
