//! Claims about sessions: a table of stories.

use super::*;
use crate::turn::{AskOption, OptionKind, ToolCall, ToolKind, ToolStatus};

fn permission() -> AskKind {
    let tool = ToolCall {
        id: "t1".into(),
        title: "write".into(),
        name: None,
        kind: ToolKind::Edit,
        status: ToolStatus::Pending,
        locations: Vec::new(),
        content: Vec::new(),
        input: None,
        output: None,
    };
    let option = |id: &str, kind| AskOption {
        id: id.into(),
        name: id.into(),
        kind,
    };
    let options = vec![
        option("yes", OptionKind::AllowOnce),
        option("no", OptionKind::RejectOnce),
    ];
    AskKind::Permission {
        tool,
        options,
        destructive: false,
    }
}

fn input(word: &str) -> Input {
    let (word, rest) = word.split_once(':').unwrap_or((word, ""));
    match word {
        "prompt" => Input::Prompt {
            when_busy: WhenBusy::Refuse,
        },
        "queue" => Input::Prompt {
            when_busy: WhenBusy::Queue,
        },
        "cancel" => Input::Cancel {
            turn: rest.parse().ok().map(TurnId),
        },
        "ask" => Input::Asked {
            ask: AskId(rest.into()),
            kind: permission(),
        },
        "withdraw" => Input::Withdrawn {
            ask: AskId(rest.into()),
        },
        "answer" => {
            let (ask, option) = rest.split_once('=').unwrap();
            let answer = Answer::Option { id: option.into() };
            Input::Answered {
                ask: AskId(ask.into()),
                answer,
                by: ClientId("c1".into()),
            }
        }
        "end" => Input::TurnEnded {
            turn: TurnId(rest.parse().unwrap()),
            stop: Stop::EndTurn,
        },
        "attach" => Input::Attach {
            client: ClientId(rest.into()),
        },
        "detach" => Input::Detach {
            client: ClientId(rest.into()),
        },
        "tick" => Input::Tick,
        "close" => Input::Close,
        other => panic!("no input is called {other}"),
    }
}

/// Plays `story` (inputs and `+SECONDS`) on a session with a lease of a minute.
fn play(story: &str) -> String {
    let mut now = Timestamp(0);
    let mut session = Session::new(Duration::from_secs(60), 0, now);
    let mut last = String::new();
    for word in story.split_whitespace() {
        if let Some(seconds) = word.strip_prefix('+') {
            now = now + Duration::from_secs(seconds.parse().unwrap());
            continue;
        }
        last = match session.apply(input(word), now) {
            Ok(effects) => {
                let lease = format!("{:?}", session.lease()).to_lowercase();
                std::iter::once(lease)
                    .chain(effects.iter().map(short))
                    .collect::<Vec<_>>()
                    .join(" ")
            }
            Err(refusal) => format!("refused: {refusal}"),
        };
    }
    last
}

fn short(effect: &Effect) -> String {
    match effect {
        Effect::Begin { turn } => format!("begin-{}", turn.0),
        Effect::CancelTurn { turn } => format!("cancel-{}", turn.0),
        Effect::Settle { ask, answer, by } => {
            let answer = match answer {
                Answer::Option { id } | Answer::Text { text: id } => id.clone(),
                Answer::Declined => "declined".into(),
            };
            let by = by.as_ref().map_or("nobody", |client| &client.0);
            format!("settle-{}-{answer}-by-{by}", ask.0)
        }
        Effect::Drop { turns } => format!(
            "drop-{:?}",
            turns.iter().map(|turn| turn.0).collect::<Vec<_>>()
        ),
        Effect::Release => "release".into(),
        Effect::TickAt { at } => format!("tick-at-{}", at.0 / 1000),
    }
}

#[test]
fn one_turn_at_a_time() {
    let cases: &[(&str, &str)] = &[
        ("prompt", "active begin-1"),
        (
            "prompt prompt",
            "refused: a turn is running; wait for it, cancel it, or ask to be queued",
        ),
        ("prompt end:1", "idle tick-at-60"),
        ("attach:a prompt end:1", "active"),
        ("prompt end:1 prompt", "active begin-2"),
        ("prompt queue", "active"),
        ("prompt queue end:1", "active begin-2"),
        ("prompt queue queue end:1 end:2", "active begin-3"),
        ("prompt end:7", "active"),
        ("prompt cancel", "active cancel-1"),
        ("prompt cancel cancel", "active"),
        ("prompt queue cancel", "active cancel-1"),
        ("prompt queue cancel end:1", "active begin-2"),
        ("prompt queue cancel:1", "active cancel-1"),
        ("prompt queue cancel:2", "active drop-[2]"),
        ("prompt queue queue cancel:2 end:1", "active begin-3"),
        ("prompt end:1 prompt cancel:1", "active"),
        ("prompt queue close", "closed cancel-1 drop-[2] release"),
        ("prompt cancel end:1", "idle tick-at-60"),
        ("cancel", "idle"),
    ];
    for (story, end) in cases {
        assert_eq!(play(story), *end, "{story}");
    }
}

#[test]
fn the_first_answer_wins_and_cancel_declines() {
    let cases: &[(&str, &str)] = &[
        ("prompt ask:q", "active"),
        ("prompt ask:q answer:q=yes", "active settle-q-yes-by-c1"),
        (
            "prompt ask:q answer:q=yes answer:q=no",
            "refused: this ask is settled already, or never was",
        ),
        (
            "prompt ask:q answer:q=maybe",
            "refused: that is not an answer to what was asked",
        ),
        (
            "prompt ask:q answer:q=maybe answer:q=no",
            "active settle-q-no-by-c1",
        ),
        (
            "prompt answer:q=yes",
            "refused: this ask is settled already, or never was",
        ),
        (
            "prompt ask:q cancel",
            "active cancel-1 settle-q-declined-by-nobody",
        ),
        ("prompt cancel ask:q", "active settle-q-declined-by-nobody"),
        (
            "prompt ask:q end:1",
            "idle settle-q-declined-by-nobody tick-at-60",
        ),
        (
            "prompt ask:q withdraw:q",
            "active settle-q-declined-by-nobody",
        ),
        ("prompt withdraw:q", "active"),
    ];
    for (story, end) in cases {
        assert_eq!(play(story), *end, "{story}");
    }
}

#[test]
fn a_lease_ends_only_when_nobody_is_there_and_nothing_runs() {
    let cases: &[(&str, &str)] = &[
        ("attach:a", "active"),
        ("attach:a detach:a", "idle tick-at-60"),
        ("attach:a attach:b detach:a", "active"),
        ("attach:a detach:a +59 tick", "idle tick-at-60"),
        ("attach:a detach:a +60 tick", "expired release"),
        ("attach:a detach:a +59 attach:b +10 tick", "active"),
        ("attach:a +3600 tick", "active"),
        ("prompt +3600 tick", "active"),
        ("prompt +3600 end:1 +59 tick", "idle tick-at-3660"),
        ("+60 tick prompt", "refused: the session has expired"),
        ("+60 tick attach:a", "refused: the session has expired"),
        ("+60 tick close", "closed"),
        ("close", "closed release"),
        ("close prompt", "refused: the session is closed"),
        (
            "prompt ask:q close",
            "closed cancel-1 settle-q-declined-by-nobody release",
        ),
        ("prompt close end:1", "closed"),
        ("close detach:a", "closed"),
    ];
    for (story, end) in cases {
        assert_eq!(play(story), *end, "{story}");
    }
}
