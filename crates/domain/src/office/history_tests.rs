//! Random histories: whatever happens, nothing crosses offices, nothing is forged, and every request has one answer.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const CONNECTIONS: usize = 5;

fn id(index: usize) -> ConnectionId {
    ConnectionId(format!("c{index}"))
}

/// A computer at another server.
fn elsewhere() -> ConnectionId {
    ConnectionId("elsewhere".to_owned())
}

fn connections() -> impl Strategy<Value = ConnectionId> {
    (0..CONNECTIONS).prop_map(id)
}

fn names() -> impl Strategy<Value = MemberName> {
    prop_oneof![Just("x"), Just("y")].prop_map(|name| MemberName::parse(name).unwrap())
}

fn office_names() -> impl Strategy<Value = Name> {
    prop_oneof![Just("one"), Just("two")].prop_map(|name| Name::parse(name).unwrap())
}

fn request_ids() -> impl Strategy<Value = RequestId> {
    prop_oneof![Just("r1"), Just("r2"), Just("r3")].prop_map(|name| RequestId::parse(name).unwrap())
}

fn inputs() -> impl Strategy<Value = Input> {
    let roles = prop_oneof![Just(Role::Agent), Just(Role::Computer)];
    let claims = prop_oneof![
        Just(Claim::Free),
        connections().prop_map(|from| Claim::TakeOver { from })
    ];
    let questions = prop_oneof![
        Just(Question::Read),
        (request_ids(), 0..2_u64).prop_map(|(request, fingerprint)| Question::Call {
            request,
            fingerprint
        })
    ];
    let questions_elsewhere = questions.clone();
    let changes = prop_oneof![Just(Change::Config), Just(Change::Desktop)];
    let claimed = proptest::option::of(prop_oneof![Just("x".to_owned()), Just("y".to_owned())]);
    prop_oneof![
        2 => (connections(), 0..2_u8).prop_map(|(connection, caller)| Input::Connected {
            connection,
            caller: format!("caller{caller}"),
        }),
        6 => (connections(), roles, names(), office_names(), claims).prop_map(
            |(connection, role, name, office, claim)| Input::Join { connection, role, name, office, claim }
        ),
        1 => (connections(), office_names()).prop_map(|(connection, office)| Input::Leave { connection, office }),
        1 => connections().prop_map(|connection| Input::Lost { connection }),
        6 => (connections(), names(), questions).prop_map(
            |(connection, computer, question)| Input::Ask { connection, computer, question }
        ),
        2 => (connections(), questions_elsewhere).prop_map(
            |(connection, question)| Input::AskElsewhere { connection, to: elsewhere(), question }
        ),
        1 => Just(Input::Tick),
        2 => (1..20_u64).prop_map(|ticket| Input::Answered { ticket: Ticket(ticket) }),
        1 => (1..20_u64).prop_map(|ticket| Input::Undelivered { ticket: Ticket(ticket) }),
        1 => (1..20_u64).prop_map(|ticket| Input::TimedOut { ticket: Ticket(ticket) }),
        2 => (connections(), request_ids()).prop_map(|(connection, request)| Input::Cancel { connection, request }),
        1 => (office_names(), 0..2_u8, names(), request_ids()).prop_map(|(office, caller, agent, request)| {
            Input::CancelCall { call: CallKey { office, caller: format!("caller{caller}"), agent, request } }
        }),
        2 => (connections(), claimed, changes).prop_map(
            |(connection, claimed, change)| Input::Announce { connection, claimed, change }
        ),
    ]
}

/// What a reader of the effects believes, to be compared with the machine.
#[derive(Default)]
struct Ledger {
    open: BTreeSet<Ticket>,
    kept: BTreeSet<Ticket>,
    executions: BTreeMap<(ConnectionId, RequestId), usize>,
}

impl Ledger {
    fn check(&mut self, before: &Offices, after: &Offices, input: &Input, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Tell { to, notice } => check_notice(before, after, input, to, notice),
                Effect::Evict { connection } => assert_eq!(after.member(connection), None),
                Effect::Learn { connection } => {
                    assert_eq!(after.member(connection).unwrap().role, Role::Computer);
                }
                Effect::Forward { ticket, to } => {
                    let (connection, question) = match input {
                        Input::Ask {
                            connection,
                            question,
                            ..
                        } => {
                            let (asker, target) = (before.member(connection), before.member(to));
                            assert_eq!(asker.unwrap().office, target.unwrap().office);
                            (connection, question)
                        }
                        Input::AskElsewhere {
                            connection,
                            to: asked,
                            question,
                        } => {
                            assert!(before.member(connection).is_some());
                            assert_eq!(to, asked);
                            (connection, question)
                        }
                        _ => panic!("{input:?} forwards a request"),
                    };
                    assert!(self.open.insert(*ticket), "a ticket is used twice");
                    if let Question::Call { request, .. } = question {
                        *self
                            .executions
                            .entry((connection.clone(), request.clone()))
                            .or_default() += 1;
                    }
                }
                Effect::Join { ticket } => assert!(self.open.contains(ticket)),
                Effect::Replay { ticket } => assert!(self.kept.contains(ticket)),
                Effect::Deliver { ticket, keep } | Effect::Settle { ticket, keep, .. } => {
                    assert!(self.open.remove(ticket), "a second answer");
                    if *keep == Keep::Yes {
                        self.kept.insert(*ticket);
                    }
                }
                Effect::Forget { ticket } => assert!(self.kept.remove(ticket)),
                Effect::SeekCall { call } => {
                    let Input::Cancel { connection, .. } = input else {
                        panic!("{input:?} seeks a call")
                    };
                    let agent = before.member(connection).unwrap();
                    assert_eq!((&call.office, &call.agent), (&agent.office, &agent.name));
                    assert!(!before.calls.contains_key(call));
                }
            }
        }
        let open: BTreeSet<Ticket> = after.requests.keys().copied().collect();
        assert_eq!(self.open, open, "a request is lost, or is answered unseen");
    }
}

fn check_notice(
    before: &Offices,
    after: &Offices,
    input: &Input,
    to: &[ConnectionId],
    notice: &Notice,
) {
    for connection in to {
        let hears = |offices: &Offices| {
            offices
                .member(connection)
                .is_some_and(|member| member.office == *notice.office())
        };
        let is_asked = matches!(notice, Notice::Cancelled { .. }) && *connection == elsewhere();
        assert!(
            hears(before) || hears(after) || is_asked,
            "{notice:?} reaches {connection:?}"
        );
    }
    match notice {
        Notice::Entered { office, role, name } => {
            let member = Member {
                office: office.clone(),
                role: *role,
                name: name.clone(),
            };
            let Input::Join { connection, .. } = input else {
                panic!("{input:?} lets somebody enter")
            };
            assert_eq!(after.member(connection), Some(&member));
        }
        Notice::Left { office, role, name } => {
            let was_there = before
                .members(office.as_str())
                .any(|(_, member)| member.role == *role && member.name == *name);
            assert!(was_there, "{notice:?} is forged");
        }
        Notice::Changed { computer, .. } => {
            let Input::Announce { connection, .. } = input else {
                panic!("{input:?} announces a change")
            };
            assert_eq!(before.member(connection).unwrap().name, *computer);
        }
        Notice::Cancelled {
            office,
            agent,
            request,
        } => {
            let mut calls = before.calls.iter().filter(|(key, _)| {
                key.office == *office && key.agent == *agent && key.request == *request
            });
            let is_asked_for = matches!(input, Input::Cancel { .. });
            assert!(
                calls.any(|(_, call)| call.state == CallState::UnderWay || is_asked_for),
                "{notice:?} is of no call"
            );
        }
    }
}

fn check_places(offices: &Offices) {
    let mut seats = 0;
    for (name, office) in &offices.offices {
        assert!(
            office.agent.is_some() || !office.computers.is_empty(),
            "an empty office stays"
        );
        let agent = office.agent.iter().map(|agent| (Role::Agent, None, agent));
        let computers = office
            .computers
            .iter()
            .map(|(name, id)| (Role::Computer, Some(name), id));
        for (role, called, connection) in agent.chain(computers) {
            let member = offices.member(connection).expect("a seat without a member");
            assert_eq!((&member.office, member.role), (name, role));
            assert!(called.is_none_or(|called| *called == member.name));
            seats += 1;
        }
    }
    let members = offices
        .connections
        .values()
        .filter(|c| c.member.is_some())
        .count();
    assert_eq!(
        seats, members,
        "a member without a seat, or two seats for one"
    );
    for (id, connection) in &offices.connections {
        let waiting = offices
            .requests
            .values()
            .flat_map(|request| &request.askers)
            .filter(|asker| *asker == id)
            .count();
        assert_eq!(connection.waiting, waiting);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_keeps_the_rules(history in proptest::collection::vec(inputs(), 0..80)) {
        let mut offices = Offices::new(Limits { requests_max: 4, members_max: 4 });
        let mut ledger = Ledger::default();
        for connection in 0..CONNECTIONS {
            let caller = format!("caller{}", connection % 2);
            offices.apply(Input::Connected { connection: id(connection), caller }, Timestamp(0)).unwrap();
        }
        for (step, input) in history.into_iter().enumerate() {
            let before = offices.clone();
            let now = Timestamp(i64::try_from(step).unwrap() * 20_000);
            match offices.apply(input.clone(), now) {
                Ok(effects) => ledger.check(&before, &offices, &input, &effects),
                Err(_) => prop_assert_eq!(&before, &offices, "a refused input changed something"),
            }
            check_places(&offices);
        }
    }
}
