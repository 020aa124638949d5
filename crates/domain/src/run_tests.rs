//! Runs: every state against every input, and every short history.

use super::*;

const LIMITS: Limits = Limits {
    work: Duration::from_secs(60),
    answer: Duration::from_secs(600),
};

fn ask(name: &str) -> AskId {
    AskId(name.to_owned())
}

fn at(seconds: i64) -> Timestamp {
    Timestamp(seconds * 1000)
}

fn input(word: &str) -> Input {
    match word {
        "start" => Input::Start,
        "ask" => Input::Asked { ask: ask("a") },
        "ask-b" => Input::Asked { ask: ask("b") },
        "settled" => Input::Settled { ask: ask("a") },
        "resume" => Input::Resume,
        "cancel" => Input::Cancel,
        "done" => Input::TurnEnded { end: TurnEnd::Done },
        "broke" => Input::TurnEnded {
            end: TurnEnd::Failed,
        },
        "stopped" => Input::TurnEnded {
            end: TurnEnd::Cancelled,
        },
        "fail" => Input::Fail,
        "restart" => Input::Restarted,
        "tick" => Input::Tick,
        other => panic!("no input {other}"),
    }
}

const INPUTS: [&str; 12] = [
    "start", "ask", "ask-b", "settled", "resume", "cancel", "done", "broke", "stopped", "fail",
    "restart", "tick",
];

/// The status after each word, `!` for a refusal. `+90` lets that many seconds pass.
fn story(words: &str) -> String {
    let (mut run, mut now, mut told) = (Run::new(LIMITS), 0, Vec::new());
    for word in words.split(' ') {
        if let Some(seconds) = word.strip_prefix('+') {
            now += seconds.parse::<i64>().unwrap();
            continue;
        }
        let before = run.clone();
        match run.apply(input(word), at(now)) {
            Ok(_) => told.push(run.status().as_str().to_owned()),
            Err(_) => {
                assert_eq!(run, before, "{words}: a refusal changed the run");
                told.push("!".to_owned());
            }
        }
    }
    told.join(" ")
}

#[test]
fn each_state_takes_what_it_may_and_refuses_the_rest() {
    // The columns are INPUTS; every input is tried on a run brought to the state of the row.
    let table = [
        (
            "",
            "in-progress ! ! ! ! cancelled ! ! ! failed failed created",
        ),
        (
            "start",
            "! awaiting awaiting in-progress ! cancelling completed failed cancelled failed failed in-progress",
        ),
        (
            "start ask",
            "! awaiting awaiting in-progress in-progress cancelling completed failed cancelled failed awaiting awaiting",
        ),
        (
            "start ask restart",
            "! ! ! in-progress in-progress cancelled completed failed cancelled failed awaiting awaiting",
        ),
        (
            "start cancel",
            "! cancelling cancelling cancelling ! cancelling cancelled cancelled cancelled failed cancelled cancelling",
        ),
        ("cancel", "! ! ! ! ! ! ! ! ! ! cancelled cancelled"),
        ("start done", "! ! ! ! ! ! ! ! ! ! completed completed"),
        ("fail", "! ! ! ! ! ! ! ! ! ! failed failed"),
    ];
    for (before, expected) in table {
        let after: Vec<String> = INPUTS
            .iter()
            .map(|word| {
                let words = format!("{before} {word}");
                let told = story(words.trim());
                told.rsplit(' ').next().unwrap().to_owned()
            })
            .collect();
        assert_eq!(after.join(" "), expected, "after {before:?}");
    }
}

#[test]
fn stories_of_runs() {
    for (words, expected) in [
        (
            "start ask resume done",
            "in-progress awaiting in-progress completed",
        ),
        (
            "start ask resume resume",
            "in-progress awaiting in-progress !",
        ),
        (
            "start ask ask-b resume resume done",
            "in-progress awaiting awaiting awaiting in-progress completed",
        ),
        ("start +59 tick +1 tick", "in-progress in-progress failed"),
        (
            "start +30 ask +500 resume +29 tick +1 tick",
            "in-progress awaiting in-progress in-progress failed",
        ),
        ("start ask +600 tick", "in-progress awaiting failed"),
        ("start ask +600 resume", "in-progress awaiting !"),
        (
            "start ask restart resume done",
            "in-progress awaiting awaiting in-progress completed",
        ),
        (
            "start ask restart +600 tick",
            "in-progress awaiting awaiting failed",
        ),
        (
            "start cancel cancel done cancel",
            "in-progress cancelling cancelling cancelled !",
        ),
        (
            "start ask cancel resume",
            "in-progress awaiting cancelling !",
        ),
    ] {
        assert_eq!(story(words), expected, "{words}");
    }
}

#[test]
fn effects_say_what_to_do() {
    let mut run = Run::new(LIMITS);
    let mut check = |word: &str, now: i64, expected: Vec<Effect>| {
        assert_eq!(run.apply(input(word), at(now)).unwrap(), expected, "{word}");
    };
    let tick = |seconds: i64| Effect::TickAt { at: at(seconds) };
    check("start", 0, vec![Effect::Begin, tick(60)]);
    check("ask", 20, vec![tick(620)]);
    check("ask-b", 21, vec![]);
    let first = Effect::Answer { ask: ask("a") };
    check("resume", 100, vec![first, tick(700)]);
    let second = Effect::Answer { ask: ask("b") };
    check("resume", 200, vec![second, tick(240)]);
    check("ask", 210, vec![tick(810)]);
    check("restart", 211, vec![tick(810)]);
    check("resume", 300, vec![Effect::GoOn, tick(330)]);
    check("tick", 330, vec![Effect::CancelTurn, Effect::OutOfTime]);
}

#[test]
fn an_unanswered_run_ends_its_turn_only_if_there_is_one() {
    for (words, expected) in [
        (
            vec!["start", "ask"],
            vec![Effect::CancelTurn, Effect::Unanswered],
        ),
        (vec!["start", "ask", "restart"], vec![Effect::Unanswered]),
    ] {
        let mut run = Run::new(LIMITS);
        for word in &words {
            run.apply(input(word), at(0)).unwrap();
        }
        let effects = run.apply(Input::Tick, at(600)).unwrap();
        assert_eq!(effects, expected, "{words:?}");
    }
}

/// Which status may follow which.
fn may_follow(from: Status, to: Status) -> bool {
    use Status as S;
    match from {
        S::Created => matches!(to, S::InProgress | S::Cancelled | S::Failed),
        S::InProgress => matches!(
            to,
            S::Awaiting | S::Cancelling | S::Cancelled | S::Completed | S::Failed
        ),
        S::Awaiting => matches!(
            to,
            S::InProgress | S::Cancelling | S::Cancelled | S::Completed | S::Failed
        ),
        S::Cancelling => matches!(to, S::Cancelled | S::Failed),
        S::Cancelled | S::Completed | S::Failed => false,
    }
}

#[test]
fn no_history_of_six_inputs_makes_an_illegal_move_or_begins_twice() {
    let mut histories = vec![(Run::new(LIMITS), 0_usize, 0_i64)];
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..6 {
        let mut next = Vec::new();
        for (run, begins, now) in &histories {
            for word in INPUTS {
                for step in [0, 61, 601] {
                    let (mut after, now) = (run.clone(), now + step);
                    let (from, before) = (run.status(), after.clone());
                    let Ok(effects) = after.apply(input(word), at(now)) else {
                        assert_eq!(after, before);
                        continue;
                    };
                    let to = after.status();
                    assert!(from == to || may_follow(from, to), "{from:?} {word} {to:?}");
                    let begins = begins + effects.iter().filter(|e| **e == Effect::Begin).count();
                    assert!(begins <= 1);
                    assert_eq!(after.awaits().is_some(), to == Status::Awaiting);
                    // The same state at the same time has the same future.
                    let key = format!("{after:?} {begins} {now}");
                    if seen.insert(key) {
                        next.push((after, begins, now));
                    }
                }
            }
        }
        histories = next;
    }
}

#[test]
fn a_run_survives_its_stored_form() {
    let mut run = Run::new(LIMITS);
    for word in ["start", "ask", "ask-b"] {
        run.apply(input(word), at(1)).unwrap();
        let text = serde_json::to_string(&run).unwrap();
        assert_eq!(serde_json::from_str::<Run>(&text).unwrap(), run, "{text}");
    }
}

#[test]
fn every_status_has_its_word() {
    let words: Vec<String> = Status::ALL
        .iter()
        .map(|status| {
            let word = serde_json::to_value(status).unwrap();
            assert_eq!(word, status.as_str());
            status.as_str().to_owned()
        })
        .collect();
    let expected = "created in-progress awaiting cancelling cancelled completed failed";
    assert_eq!(words.join(" "), expected);
}
