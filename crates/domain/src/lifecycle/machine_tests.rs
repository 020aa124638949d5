//! Claims about the machine: a table of stories, and what holds over every history.

use super::*;

const PROCESS: Process = Process {
    pid: 42,
    started: 7,
};

fn input(word: &str) -> Input {
    match word {
        "materialised" => Input::Materialised,
        "start" => Input::Start,
        "launched" => Input::Launched { process: PROCESS },
        "launch-failed" => Input::LaunchFailed {
            reason: "no such program".into(),
        },
        "stop" => Input::Stop,
        "exit-0" => Input::Exited {
            exit: Exit::Code(0),
        },
        "exit-9" => Input::Exited {
            exit: Exit::Signal(9),
        },
        "attach" => Input::Attach { process: PROCESS },
        "detach" => Input::Detach,
        "due" => Input::RestartDue,
        "destroy" => Input::Destroy { force: Force::No },
        "destroy-force" => Input::Destroy { force: Force::Yes },
        "remove-failed" => Input::RemoveFailed {
            reason: "busy".into(),
        },
        "shutdown" => Input::Shutdown,
        "recover-alive" => Input::Recover { alive: true },
        "recover" => Input::Recover { alive: false },
        other => panic!("no input is called {other}"),
    }
}

/// Plays `story` (inputs and `+SECONDS`) and renders the last state, the last effects, or the refusal.
fn play(mode: LaunchMode, auto_destroy: bool, story: &str) -> String {
    let mut life = Lifecycle::new(mode, auto_destroy);
    let mut now = Timestamp(0);
    let mut last = String::new();
    for word in story.split_whitespace() {
        if let Some(seconds) = word.strip_prefix('+') {
            now = now + std::time::Duration::from_secs(seconds.parse().unwrap());
            continue;
        }
        last = match life.apply(input(word), now) {
            Ok(effects) => {
                let effects: Vec<String> = effects.iter().map(short).collect();
                let status = life.status().map_or("hidden", Status::as_str);
                [status.to_owned()]
                    .into_iter()
                    .chain(effects)
                    .collect::<Vec<_>>()
                    .join(" ")
            }
            Err(refusal) => format!("refused: {refusal}"),
        };
    }
    last
}

fn check(mode: LaunchMode, cases: &[(&str, &str)]) {
    for (story, end) in cases {
        assert_eq!(play(mode, false, story), *end, "{story}");
    }
}

fn short(effect: &Effect) -> String {
    match effect {
        Effect::Launch => "launch".into(),
        Effect::AbortLaunch => "abort-launch".into(),
        Effect::Terminate => "terminate".into(),
        Effect::Watch { .. } => "watch".into(),
        Effect::Unwatch => "unwatch".into(),
        Effect::ScheduleRestart { at } => format!("restart-at-{}", at.0 / 1000),
        Effect::CancelRestart => "cancel-restart".into(),
        Effect::RemoveFiles => "remove-files".into(),
    }
}

#[test]
fn stories_of_a_direct_agent() {
    let cases: &[(&str, &str)] = &[
        ("materialised", "created"),
        ("materialised start", "starting launch"),
        ("materialised start launched", "running"),
        ("materialised start launch-failed", "error"),
        ("materialised start launch-failed start", "starting launch"),
        ("materialised start launched stop", "stopping terminate"),
        ("materialised start launched stop exit-9", "stopped"),
        ("materialised start launched stop stop", "stopping"),
        ("materialised start launched exit-0", "stopped"),
        ("materialised start launched exit-9", "crashed"),
        ("materialised start launched exit-9 stop", "stopped"),
        ("materialised start stop", "stopping abort-launch"),
        ("materialised start stop launched", "stopping terminate"),
        ("materialised start stop launch-failed", "stopped"),
        ("materialised stop", "created"),
        ("materialised destroy", "hidden remove-files"),
        ("materialised start launched destroy", "stopping terminate"),
        (
            "materialised start launched destroy exit-0",
            "hidden remove-files",
        ),
        (
            "materialised start launched stop destroy exit-0",
            "hidden remove-files",
        ),
        (
            "materialised start destroy launched exit-9",
            "hidden remove-files",
        ),
        ("destroy", "hidden remove-files"),
        ("materialised destroy remove-failed", "error"),
        (
            "materialised destroy remove-failed destroy",
            "hidden remove-files",
        ),
        ("materialised remove-failed", "created"),
        (
            "materialised start start",
            "refused: the agent is already starting",
        ),
        (
            "materialised start launched start",
            "refused: the agent is already running",
        ),
        (
            "materialised start launched stop start",
            "refused: the agent is already stopping",
        ),
        (
            "materialised detach",
            "refused: the agent is not attached to a process",
        ),
        ("start", "refused: the agent is being created or destroyed"),
        (
            "materialised destroy start",
            "refused: the agent is being created or destroyed",
        ),
        ("materialised exit-0", "created"),
    ];
    check(LaunchMode::Direct, cases);
}

#[test]
fn stories_of_a_daemon_that_stops_and_comes_back() {
    let cases: &[(&str, &str)] = &[
        ("materialised start launched shutdown", "stopping terminate"),
        (
            "materialised start launched shutdown exit-0 recover",
            "stopped",
        ),
        ("materialised start launched recover", "stopped"),
        ("materialised start recover", "stopped"),
        ("materialised start launched stop recover", "stopped"),
        (
            "materialised start launched destroy recover",
            "hidden remove-files",
        ),
        ("recover", "hidden remove-files"),
        ("materialised destroy recover", "hidden remove-files"),
    ];
    check(LaunchMode::Direct, cases);
}

#[test]
fn stories_of_a_clients_process() {
    let cases: &[(&str, &str)] = &[
        ("materialised attach", "running watch"),
        (
            "materialised attach attach",
            "refused: the agent is attached to process 42, which a client owns",
        ),
        (
            "materialised attach start",
            "refused: the agent is already running",
        ),
        (
            "materialised attach stop",
            "refused: the agent is attached to process 42, which a client owns",
        ),
        ("materialised attach detach", "stopped unwatch"),
        ("materialised attach exit-9", "crashed"),
        ("materialised attach exit-9 detach", "stopped"),
        (
            "materialised attach destroy",
            "refused: the agent is attached to process 42, which a client owns",
        ),
        (
            "materialised attach destroy-force",
            "hidden unwatch remove-files",
        ),
        ("materialised attach shutdown", "running"),
        ("materialised attach recover-alive", "running watch"),
        ("materialised attach recover", "crashed"),
        (
            "materialised start launched attach",
            "refused: the agent is already running",
        ),
    ];
    check(LaunchMode::Direct, cases);
}

#[test]
fn a_service_is_restarted_with_backoff_five_times() {
    let crash = " exit-9 +60 due launched";
    let up = "materialised start launched";
    let cases: &[(String, &str)] = &[
        (format!("{up} exit-9"), "crashed restart-at-1"),
        (format!("{up} exit-0"), "crashed restart-at-1"),
        (format!("{up} exit-9 due"), "crashed"),
        (format!("{up} exit-9 +1 due"), "starting launch"),
        (
            format!("{up} exit-9 +1 due launched exit-9"),
            "crashed restart-at-3",
        ),
        (
            format!("{up} exit-9 +1 due launch-failed"),
            "crashed restart-at-3",
        ),
        (
            format!("{up}{} exit-9", crash.repeat(4)),
            "crashed restart-at-256",
        ),
        (format!("{up}{} exit-9", crash.repeat(5)), "error"),
        (
            format!("{up}{} +300 exit-9", crash.repeat(5)),
            "crashed restart-at-601",
        ),
        (format!("{up} exit-9 stop"), "stopped cancel-restart"),
        (
            format!("{up} exit-9 start"),
            "starting cancel-restart launch",
        ),
        (
            format!("{up} exit-9 attach"),
            "running cancel-restart watch",
        ),
        (
            format!("{up} exit-9 destroy"),
            "hidden cancel-restart remove-files",
        ),
        (format!("{up} exit-9 stop +60 due"), "stopped"),
    ];
    for (story, end) in cases {
        assert_eq!(play(LaunchMode::AcpService, false, story), *end, "{story}");
    }
}

#[test]
fn a_service_comes_back_with_the_daemon_unless_it_was_stopped_by_hand() {
    let cases: &[(&str, &str)] = &[
        ("materialised start launched recover", "starting launch"),
        ("materialised start recover", "starting launch"),
        (
            "materialised start launched shutdown recover",
            "starting launch",
        ),
        (
            "materialised start launched shutdown exit-0 recover",
            "starting launch",
        ),
        (
            "materialised start launched exit-9 shutdown",
            "stopped cancel-restart",
        ),
        (
            "materialised start launched exit-9 shutdown recover",
            "starting launch",
        ),
        (
            "materialised start launched exit-9 recover",
            "starting launch",
        ),
        ("materialised start launched stop exit-0 recover", "stopped"),
        ("materialised recover", "created"),
    ];
    for (story, end) in cases {
        assert_eq!(play(LaunchMode::AcpService, false, story), *end, "{story}");
    }
}

#[test]
fn a_one_shot_agent_destroys_itself_only_if_told_to() {
    let up = "materialised start launched";
    assert_eq!(
        play(LaunchMode::OneShot, false, &format!("{up} exit-0")),
        "stopped"
    );
    assert_eq!(
        play(LaunchMode::OneShot, true, &format!("{up} exit-0")),
        "hidden remove-files"
    );
    assert_eq!(
        play(LaunchMode::OneShot, true, &format!("{up} recover")),
        "hidden remove-files"
    );
    assert_eq!(
        play(LaunchMode::Direct, true, &format!("{up} exit-0")),
        "stopped"
    );
    // Whoever attached the process and died with it cannot clean up.
    for end in ["exit-9", "recover"] {
        let story = format!("materialised attach {end}");
        assert_eq!(
            play(LaunchMode::OneShot, true, &story),
            "hidden remove-files"
        );
        assert_eq!(play(LaunchMode::OneShot, false, &story), "crashed");
    }
    assert_eq!(
        play(LaunchMode::OneShot, true, "materialised attach detach"),
        "stopped unwatch"
    );
}

/// Every history of six inputs from every mode: at most one process, never lost sight of, never a hidden agent that lives on.
#[test]
fn no_history_launches_a_second_process_or_forgets_the_first() {
    let words = [
        "materialised",
        "start",
        "launched",
        "launch-failed",
        "stop",
        "exit-9",
        "attach",
        "detach",
        "due",
        "destroy-force",
        "shutdown",
        "recover",
    ];
    for mode in [
        LaunchMode::Direct,
        LaunchMode::AcpService,
        LaunchMode::OneShot,
    ] {
        let mut stack = vec![(Lifecycle::new(mode, true), World::default(), 0)];
        while let Some((life, world, depth)) = stack.pop() {
            for word in words.iter().filter(|word| world.can(word)) {
                let (mut life, mut world) = (life.clone(), world.clone());
                let effects = life
                    .apply(input(word), Timestamp(1_000_000))
                    .unwrap_or_default();
                world.after(word, &effects);
                assert!(
                    world.processes() <= 1,
                    "{mode:?} {word}: {life:?} {world:?}"
                );
                assert!(
                    world.processes() == 0 || life.status().is_some(),
                    "{mode:?} {word} hides a process: {life:?} {world:?}"
                );
                if depth < 5 {
                    stack.push((life, world, depth + 1));
                }
            }
        }
    }
}

/// What the effects have done so far: launches under way, our process, a client's process.
#[derive(Debug, Clone, Default)]
struct World {
    launching: bool,
    managed: bool,
    ending: bool,
}

impl World {
    fn processes(&self) -> usize {
        usize::from(self.launching) + usize::from(self.managed)
    }

    /// Results come only of what was begun.
    fn can(&self, word: &str) -> bool {
        match word {
            "launched" | "launch-failed" => self.launching,
            "exit-9" => self.managed,
            _ => true,
        }
    }

    fn after(&mut self, word: &str, effects: &[Effect]) {
        match word {
            "launched" => (self.launching, self.managed) = (false, true),
            "launch-failed" => self.launching = false,
            "exit-9" => (self.managed, self.ending) = (false, false),
            // The guardian has ended everything of the daemon before.
            "recover" => (self.launching, self.managed, self.ending) = (false, false, false),
            _ => {}
        }
        for effect in effects {
            match effect {
                Effect::Launch => self.launching = true,
                Effect::Terminate => self.ending = true,
                Effect::AbortLaunch
                | Effect::Watch { .. }
                | Effect::Unwatch
                | Effect::ScheduleRestart { .. }
                | Effect::CancelRestart
                | Effect::RemoveFiles => {}
            }
        }
    }
}
