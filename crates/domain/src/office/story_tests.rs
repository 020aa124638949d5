//! Stories of the offices: what a member does, and what everybody hears of it.

use super::*;

const NOW: Timestamp = Timestamp(1_000);

struct Story {
    offices: Offices,
    now: Timestamp,
}

impl Story {
    fn new() -> Self {
        Self {
            offices: Offices::new(Limits {
                requests_max: 2,
                members_max: 4,
            }),
            now: NOW,
        }
    }

    fn apply(&mut self, input: Input) -> Result<Vec<Effect>, Refusal> {
        self.offices.apply(input, self.now)
    }

    fn connect(&mut self, connection: &str, caller: &str) {
        let caller = caller.to_owned();
        self.apply(Input::Connected {
            connection: id(connection),
            caller,
        })
        .unwrap();
    }

    fn join(
        &mut self,
        connection: &str,
        role: Role,
        name: &str,
        office: &str,
    ) -> Result<Vec<Effect>, Refusal> {
        self.apply(join(connection, role, name, office, Claim::Free))
    }

    /// An office `o` with the agent `ann` and the computer `pc`, each of its own caller.
    fn with_office() -> Self {
        let mut story = Self::new();
        story.connect("a", "ann");
        story.connect("c", "carl");
        story.join("a", Role::Agent, "ann", "o").unwrap();
        story.join("c", Role::Computer, "pc", "o").unwrap();
        story
    }

    fn call(
        &mut self,
        connection: &str,
        request: &str,
        fingerprint: u64,
    ) -> Result<Vec<Effect>, Refusal> {
        self.apply(Input::Ask {
            connection: id(connection),
            computer: MemberName::parse("pc").unwrap(),
            question: Question::Call {
                request: RequestId::parse(request).unwrap(),
                fingerprint,
            },
        })
    }
}

fn id(text: &str) -> ConnectionId {
    ConnectionId(text.to_owned())
}

fn office(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// A call of the agent `ann` in the office `o`.
fn key(request: &str) -> CallKey {
    CallKey {
        office: office("o"),
        caller: "ann".to_owned(),
        agent: MemberName::parse("ann").unwrap(),
        request: RequestId::parse(request).unwrap(),
    }
}

fn join(connection: &str, role: Role, name: &str, into: &str, claim: Claim) -> Input {
    Input::Join {
        connection: id(connection),
        role,
        name: MemberName::parse(name).unwrap(),
        office: office(into),
        claim,
    }
}

fn told(effects: &[Effect]) -> Vec<(Vec<&str>, &Notice)> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Tell { to, notice } => {
                Some((to.iter().map(|to| to.0.as_str()).collect(), notice))
            }
            Effect::Evict { .. }
            | Effect::Learn { .. }
            | Effect::Forward { .. }
            | Effect::Join { .. }
            | Effect::Replay { .. }
            | Effect::Deliver { .. }
            | Effect::Settle { .. }
            | Effect::Forget { .. }
            | Effect::SeekCall { .. } => None,
        })
        .collect()
}

fn entered(into: &str, role: Role, name: &str) -> Notice {
    Notice::Entered {
        office: office(into),
        role,
        name: MemberName::parse(name).unwrap(),
    }
}

fn left(from: &str, role: Role, name: &str) -> Notice {
    Notice::Left {
        office: office(from),
        role,
        name: MemberName::parse(name).unwrap(),
    }
}

#[test]
fn whoever_enters_is_announced_to_the_others_only() {
    let mut story = Story::new();
    story.connect("a", "ann");
    story.connect("c", "carl");
    assert_eq!(
        told(&story.join("a", Role::Agent, "ann", "o").unwrap()),
        [(vec![], &entered("o", Role::Agent, "ann"))]
    );
    assert_eq!(
        story.join("c", Role::Computer, "pc", "o").unwrap(),
        [
            Effect::Tell {
                to: vec![id("a")],
                notice: entered("o", Role::Computer, "pc")
            },
            Effect::Learn {
                connection: id("c")
            },
        ]
    );
    assert_eq!(story.join("c", Role::Computer, "pc", "o").unwrap(), []);
}

#[test]
fn an_office_has_one_agent() {
    let mut story = Story::with_office();
    story.connect("b", "bob");
    assert_eq!(
        story.join("b", Role::Agent, "bob", "o"),
        Err(Refusal::AgentPresent)
    );
    assert_eq!(
        story.join("b", Role::Agent, "ann", "o"),
        Err(Refusal::AgentPresent),
        "the same name under another token is somebody else"
    );
    assert_eq!(story.offices.member(&id("b")), None);
    assert_eq!(
        story.join("a", Role::Agent, "ann", "other"),
        Err(Refusal::AgentElsewhere {
            office: office("o")
        })
    );
}

#[test]
fn a_name_is_taken_within_its_office_only() {
    let mut story = Story::with_office();
    story.connect("d", "dora");
    assert_eq!(
        story.join("d", Role::Computer, "pc", "o"),
        Err(Refusal::NameTaken)
    );
    assert_eq!(story.offices.members("o").count(), 2);
    assert!(story.join("d", Role::Computer, "pc", "other").is_ok());
}

#[test]
fn a_full_office_takes_nobody_more() {
    let mut story = Story::with_office();
    for n in 0..3 {
        let (connection, name) = (format!("x{n}"), format!("pc{n}"));
        story.connect(&connection, "carl");
        let joined = story.join(&connection, Role::Computer, &name, "o");
        assert_eq!(joined.is_ok(), n < 2, "{n}: {joined:?}");
    }
}

#[test]
fn a_computer_that_joins_another_office_leaves_the_first() {
    let mut story = Story::with_office();
    let effects = story.join("c", Role::Computer, "pc", "other").unwrap();
    assert_eq!(
        told(&effects),
        [
            (vec!["a"], &left("o", Role::Computer, "pc")),
            (vec![], &entered("other", Role::Computer, "pc")),
        ]
    );
    assert_eq!(story.call("a", "r", 1), Err(Refusal::NoSuchComputer));
}

#[test]
fn a_silent_connection_loses_its_place_to_the_same_caller() {
    let mut story = Story::with_office();
    story.connect("c2", "carl");
    let held = Refusal::Held { by: id("c") };
    assert_eq!(story.join("c2", Role::Computer, "pc", "o"), Err(held));
    let claim = Claim::TakeOver { from: id("c") };
    let effects = story
        .apply(join("c2", Role::Computer, "pc", "o", claim))
        .unwrap();
    assert_eq!(
        told(&effects),
        [
            (vec!["a"], &left("o", Role::Computer, "pc")),
            (vec!["a"], &entered("o", Role::Computer, "pc")),
        ]
    );
    assert!(effects.contains(&Effect::Evict {
        connection: id("c")
    }));
    assert_eq!(
        story
            .apply(Input::Lost {
                connection: id("c")
            })
            .unwrap(),
        [],
        "the old connection's end is no news"
    );
    assert_eq!(story.offices.members("o").count(), 2);
}

#[test]
fn only_ones_own_office_can_be_left() {
    let mut story = Story::with_office();
    let leave = |from: &str| Input::Leave {
        connection: id("c"),
        office: office(from),
    };
    assert_eq!(story.apply(leave("other")), Err(Refusal::OtherOffice));
    assert_eq!(
        told(&story.apply(leave("o")).unwrap()),
        [(vec!["a"], &left("o", Role::Computer, "pc"))]
    );
    assert_eq!(story.apply(leave("o")), Err(Refusal::NotInOffice));
}

#[test]
fn a_repeated_request_is_executed_once() {
    let mut story = Story::with_office();
    let ticket = Ticket(1);
    assert_eq!(
        story.call("a", "r", 1).unwrap(),
        [Effect::Forward {
            ticket,
            to: id("c")
        }]
    );
    assert_eq!(story.call("a", "r", 1).unwrap(), [Effect::Join { ticket }]);
    assert_eq!(story.call("a", "r", 2), Err(Refusal::RequestIdReused));
    let keep = Keep::Yes;
    assert_eq!(
        story.apply(Input::Answered { ticket }).unwrap(),
        [Effect::Deliver { ticket, keep }]
    );
    assert_eq!(story.apply(Input::TimedOut { ticket }).unwrap(), []);
    assert_eq!(
        story.call("a", "r", 1).unwrap(),
        [Effect::Replay { ticket }]
    );
}

#[test]
fn a_call_that_reached_nobody_is_forgotten_and_can_be_asked_again() {
    let mut story = Story::with_office();
    story.call("a", "r", 1).unwrap();
    let (ticket, keep) = (Ticket(1), Keep::No);
    assert_eq!(
        story.apply(Input::Undelivered { ticket }).unwrap(),
        [Effect::Deliver { ticket, keep }]
    );
    assert_eq!(story.apply(Input::Undelivered { ticket }).unwrap(), []);
    assert!(matches!(
        story.call("a", "r", 1).unwrap()[..],
        [Effect::Forward { .. }]
    ));
}

#[test]
fn an_answer_waits_for_an_agent_that_reconnects() {
    let mut story = Story::with_office();
    story.call("a", "r", 1).unwrap();
    story
        .apply(Input::Lost {
            connection: id("a"),
        })
        .unwrap();
    let ticket = Ticket(1);
    story.apply(Input::Answered { ticket }).unwrap();
    story.connect("b", "bob");
    story.join("b", Role::Agent, "ann", "o").unwrap();
    assert!(
        matches!(
            story.call("b", "r", 1).unwrap()[..],
            [Effect::Forward { .. }]
        ),
        "another caller of the same name finds nothing"
    );
    story
        .apply(Input::Lost {
            connection: id("b"),
        })
        .unwrap();
    story.connect("a2", "ann");
    story.join("a2", Role::Agent, "ann", "o").unwrap();
    assert_eq!(
        story.call("a2", "r", 1).unwrap(),
        [Effect::Replay { ticket }]
    );
    story.now = NOW + ANSWER_TTL;
    story.call("a2", "later", 1).unwrap();
    assert!(matches!(
        story.call("a2", "r", 1).unwrap()[..],
        [Effect::Forward { .. }]
    ));
}

#[test]
fn a_vanished_computer_ends_its_requests() {
    let mut story = Story::with_office();
    story.call("a", "r", 1).unwrap();
    let effects = story
        .apply(Input::Lost {
            connection: id("c"),
        })
        .unwrap();
    let (ticket, ending, keep) = (Ticket(1), Ending::Vanished, Keep::Yes);
    assert_eq!(
        effects[0],
        Effect::Settle {
            ticket,
            ending,
            keep
        }
    );
    assert_eq!(story.apply(Input::Answered { ticket }).unwrap(), []);
}

#[test]
fn a_cancel_reaches_the_computer_that_works_and_the_agent() {
    let mut story = Story::with_office();
    story.connect("d", "dora");
    story.join("d", Role::Computer, "idle", "o").unwrap();
    story.call("a", "r", 1).unwrap();
    let cancel = |connection: &str, request: &str| Input::Cancel {
        connection: id(connection),
        request: RequestId::parse(request).unwrap(),
    };
    let notice = Notice::Cancelled {
        office: office("o"),
        agent: MemberName::parse("ann").unwrap(),
        request: RequestId::parse("r").unwrap(),
    };
    assert_eq!(
        told(&story.apply(cancel("a", "r")).unwrap()),
        [(vec!["c", "a"], &notice)]
    );
    let call = key("unknown");
    let seek = Effect::SeekCall { call };
    assert_eq!(story.apply(cancel("a", "unknown")).unwrap(), [seek]);
    let refused = Refusal::WrongRole { role: Role::Agent };
    assert_eq!(story.apply(cancel("d", "r")), Err(refused));
    let effects = story.apply(Input::TimedOut { ticket: Ticket(1) }).unwrap();
    assert_eq!(told(&effects), [(vec!["c"], &notice)]);
}

#[test]
fn an_agent_that_moved_to_another_relay_cancels_its_own_calls_and_no_others() {
    let mut story = Story::with_office();
    story.call("a", "r", 1).unwrap();
    story
        .apply(Input::Lost {
            connection: id("a"),
        })
        .unwrap();
    let mut cancel = |call| story.apply(Input::CancelCall { call }).unwrap();
    assert_eq!(cancel(key("unknown")), []);
    let caller = "carl".to_owned();
    let of_another = CallKey { caller, ..key("r") };
    assert_eq!(cancel(of_another), []);
    let effects = cancel(key("r"));
    let notice = Notice::Cancelled {
        office: office("o"),
        agent: MemberName::parse("ann").unwrap(),
        request: RequestId::parse("r").unwrap(),
    };
    assert_eq!(told(&effects), [(vec!["c"], &notice)]);
    story.apply(Input::Answered { ticket: Ticket(1) }).unwrap();
    let late = Input::CancelCall { call: key("r") };
    assert_eq!(story.apply(late).unwrap(), []);
}

#[test]
fn a_call_to_a_computer_elsewhere_is_carried_out_once_and_cancelled_there() {
    let mut story = Story::with_office();
    let mut ask = |connection: &str, fingerprint| {
        story.apply(Input::AskElsewhere {
            connection: id(connection),
            to: id("far"),
            question: Question::Call {
                request: RequestId::parse("r").unwrap(),
                fingerprint,
            },
        })
    };
    let (ticket, to) = (Ticket(1), id("far"));
    assert_eq!(ask("a", 7), Ok(vec![Effect::Forward { ticket, to }]));
    assert_eq!(ask("a", 7), Ok(vec![Effect::Join { ticket }]));
    assert_eq!(ask("a", 8), Err(Refusal::RequestIdReused));
    assert_eq!(ask("c", 7), Err(Refusal::WrongRole { role: Role::Agent }));
    let cancel = Input::Cancel {
        connection: id("a"),
        request: RequestId::parse("r").unwrap(),
    };
    let effects = story.apply(cancel).unwrap();
    assert_eq!(told(&effects)[0].0, ["far", "a"]);
    let keep = Keep::Yes;
    let answered = story.apply(Input::Answered { ticket });
    assert_eq!(answered, Ok(vec![Effect::Deliver { ticket, keep }]));
}

#[test]
fn an_agent_that_leaves_takes_its_calls_with_it() {
    let mut story = Story::with_office();
    story.call("a", "r", 1).unwrap();
    let effects = story
        .apply(Input::Leave {
            connection: id("a"),
            office: office("o"),
        })
        .unwrap();
    assert!(matches!(
        effects[..],
        [
            Effect::Tell {
                notice: Notice::Cancelled { .. },
                ..
            },
            Effect::Settle {
                ending: Ending::Left,
                ..
            },
            Effect::Tell {
                notice: Notice::Left { .. },
                ..
            },
        ]
    ));
}

#[test]
fn nobody_speaks_for_another_computer() {
    let mut story = Story::with_office();
    let announce = |connection: &str, claimed: Option<&str>| Input::Announce {
        connection: id(connection),
        claimed: claimed.map(str::to_owned),
        change: Change::Config,
    };
    assert_eq!(
        story.apply(announce("c", Some("another"))),
        Err(Refusal::NotYours)
    );
    let refused = Refusal::WrongRole {
        role: Role::Computer,
    };
    assert_eq!(story.apply(announce("a", Some("pc"))), Err(refused));
    for claimed in [None, Some("pc")] {
        assert_eq!(
            told(&story.apply(announce("c", claimed)).unwrap())[0].0,
            ["a"]
        );
    }
}

#[test]
fn the_number_of_waiting_requests_is_bounded() {
    let mut story = Story::with_office();
    story.call("a", "r1", 1).unwrap();
    story.call("a", "r2", 1).unwrap();
    let refused = Refusal::TooManyRequests { limit: 2 };
    assert_eq!(story.call("a", "r3", 1), Err(refused));
    story.apply(Input::Answered { ticket: Ticket(1) }).unwrap();
    assert!(story.call("a", "r3", 1).is_ok());
}
