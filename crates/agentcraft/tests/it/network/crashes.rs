//! The daemon dies while runs are in every state, at every point where a crash would be interesting: no run is lost, none is
//! begun twice, and those that await are answered afterwards.
//!
//! A run is kept for the first time as one that is in progress, so `created` is what the points before that are about.

use std::{collections::BTreeMap, fs, path::PathBuf};

use serde_json::{Value, json};
use testkit::{TestDaemon, eventually};

use super::{
    http::{Answer, Http},
    runs::{intent, resume, until},
    with_echo, workspace_file,
};
use crate::node;

const TRACE: &str = "AGENTCRAFT_CRASH_TRACE";
const CRASH: &str = "AGENTCRAFT_CRASH_AT";

/// An agent that hears nothing while it works, not even that it shall stop, and what keeps it at work.
const DEAF: &str = "deaf";
const SLEEP: &str = "time.sleep(600) #";

/// So many runs are brought into each state before the daemon dies.
#[derive(Clone, Copy)]
struct Crowds {
    completed: usize,
    awaiting: usize,
    working: usize,
    cancelling: usize,
    cancelled: usize,
    failed: usize,
}

/// A hundred; those that await are as many as may hold their turn, so that one more has the first of them put down.
const HUNDRED: Crowds = Crowds {
    completed: 8,
    awaiting: 64,
    working: 10,
    cancelling: 4,
    cancelled: 8,
    failed: 6,
};

/// A hundred that are looked at in little time.
const MANY: Crowds = Crowds {
    completed: 30,
    awaiting: 15,
    working: 25,
    cancelling: 4,
    cancelled: 16,
    failed: 10,
};

const FEW: Crowds = Crowds {
    completed: 2,
    awaiting: 3,
    working: 2,
    cancelling: 1,
    cancelled: 1,
    failed: 1,
};

/// One run of a crowd, and what it must be afterwards.
struct Member {
    id: String,
    /// Part of what its agent was told, and of no other's.
    number: String,
    after: &'static str,
    /// Whether it was at work when the daemon died.
    is_cut: bool,
}

/// A node that has both agents.
fn prepared(daemon: &TestDaemon) {
    with_echo(daemon);
    daemon.scripted_agent(DEAF, json!({}), json!({}));
}

/// Where a daemon that dies at a point looks whether it counts.
fn armed(daemon: &TestDaemon) -> PathBuf {
    let path = daemon.scratch("armed");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    path
}

struct Bringing<'a> {
    http: &'a Http,
    members: Vec<Member>,
}

impl Bringing<'_> {
    /// Begins a run, which is told apart by its number, and gives its id and how it stands.
    fn one(&mut self, command: &str, mode: &str, after: &'static str) -> (String, Value) {
        let number = format!("r{}.", self.members.len());
        let mut body = intent(&format!("{command} {number}"), mode);
        if command == SLEEP {
            body["agent_id"] = json!(DEAF);
            body.as_object_mut().unwrap().remove("metadata"); // It is told to the agent, in words that are no Python.
        }
        let run = self.http.post("/runs", &body).ok();
        let id = run["run_id"].as_str().unwrap().to_owned();
        self.members.push(Member {
            id: id.clone(),
            number,
            after,
            is_cut: command == SLEEP || (command == "/hang" && after == "failed"),
        });
        (id, run)
    }

    fn settled(&mut self, count: usize, command: &str, status: &'static str) {
        for _ in 0..count {
            let (_, run) = self.one(command, "sync", status);
            assert_eq!(run["status"], status, "{run}");
        }
    }

    fn cancelled(&mut self, count: usize, command: &str) -> Vec<String> {
        let ids: Vec<String> = (0..count)
            .map(|_| self.one(command, "async", "cancelled").0)
            .collect();
        for id in &ids {
            let told = self.http.post(&format!("/runs/{id}/cancel"), &json!({}));
            assert_eq!(told.status, 202, "{told:?}");
        }
        ids
    }
}

/// Brings runs into every state.
fn bring(daemon: &TestDaemon, crowds: Crowds) -> Vec<Member> {
    let http = Http::owner(daemon);
    let mut bringing = Bringing {
        http: &http,
        members: Vec::new(),
    };
    bringing.settled(crowds.completed, "said and done", "completed");
    bringing.settled(crowds.failed, "/fail in words", "failed");
    bringing.settled(crowds.awaiting, "/append lines.txt line", "awaiting");
    for id in bringing.cancelled(crowds.cancelled, "/hang") {
        until(&http, &id, "cancelled");
    }
    let first = bringing.members.len();
    for _ in 0..crowds.working {
        bringing.one("/hang", "async", "failed");
    }
    let working: Vec<String> = bringing.members[first..]
        .iter()
        .map(|member| member.number.clone())
        .collect();
    eventually("all that work are at it", || {
        let told = prompts(daemon);
        working.iter().all(|number| times(&told, number) == 1)
    });
    // The last, for it is not for ever that a deaf agent is waited for.
    bringing.cancelled(crowds.cancelling, SLEEP);
    bringing.members
}

/// Everything that agents were told, a line of the journal for each turn.
fn prompts(daemon: &TestDaemon) -> Vec<String> {
    let lines = daemon
        .client()
        .ok("journal.query", json!({"kind": "turn.started"}));
    let lines = lines.as_array().unwrap().iter();
    lines.map(ToString::to_string).collect()
}

fn times(prompts: &[String], words: &str) -> usize {
    prompts.iter().filter(|line| line.contains(words)).count()
}

/// A run of the story that is told while the daemon may die: its key, what is said, and how it is gone on with.
struct Step {
    words: &'static str,
    mode: &'static str,
    then: Then,
}

enum Then {
    Nothing,
    /// It asks, and is told yes.
    Yes,
    /// It works, and is ended.
    Cancel,
}

const STORY: [Step; 4] = [
    Step {
        words: "told to nobody",
        mode: "sync",
        then: Then::Nothing,
    },
    Step {
        words: "/append story.txt told-once",
        mode: "sync",
        then: Then::Yes,
    },
    Step {
        words: "/hang told",
        mode: "async",
        then: Then::Cancel,
    },
    Step {
        words: "/fail told",
        mode: "sync",
        then: Then::Nothing,
    },
];

/// What was heard of a step before the daemon died: the run's id and the last state.
type Heard = Option<(String, String)>;

fn said(answer: &Answer) -> (String, String) {
    let run = answer.ok();
    let text = |key: &str| run[key].as_str().unwrap().to_owned();
    (text("run_id"), text("status"))
}

impl Step {
    /// The request, which is the same run however often it is sent.
    fn begin(&self, http: &Http) -> Result<Answer, reqwest::Error> {
        let key = [("idempotency-key", self.words.replace(' ', "-"))];
        let key = key.each_ref().map(|(name, value)| (*name, value.as_str()));
        let body = intent(self.words, self.mode);
        http.try_call("POST", "/runs", &key, Some(&body))
    }

    /// Tells it as far as the daemon lives.
    fn tell(&self, http: &Http, heard: &mut Heard) -> Result<(), reqwest::Error> {
        let (id, status) = said(&self.begin(http)?);
        let path = |rest: &str| format!("/runs/{id}{rest}");
        *heard = Some((id.clone(), status));
        match self.then {
            Then::Nothing => {}
            Then::Yes => {
                let answer = http.try_call("POST", &path("/resume"), &[], Some(&resume("yes")))?;
                *heard = Some(said(&answer));
            }
            Then::Cancel => {
                // What is cancelled before its turn has begun has no turn, which is another story.
                while !http
                    .try_call("GET", &path("/events"), &[], None)?
                    .text
                    .contains("Hanging")
                {}
                http.try_call("POST", &path("/cancel"), &[], Some(&json!({})))?;
                while heard.as_ref().is_some_and(|(_, is)| is != "cancelled") {
                    *heard = Some(said(&http.try_call("GET", &path(""), &[], None)?));
                }
            }
        }
        Ok(())
    }

    /// What has become of it once another daemon has taken up.
    fn check(&self, http: &Http, heard: &Heard, at: &str) {
        // Whoever was not answered asks again.
        let again = said(&self.begin(http).unwrap());
        let (id, status) = match heard {
            Some((id, status)) => {
                assert_eq!(again.0, *id, "{at}: {:?} has begun twice", self.words);
                if ["completed", "cancelled", "failed"].contains(&status.as_str()) {
                    assert_eq!(again.1, *status, "{at}: {:?} was over", self.words);
                }
                again
            }
            None => again,
        };
        let path = |rest: &str| format!("/runs/{id}{rest}");
        let ended = match status.as_str() {
            "awaiting" => {
                let done = http.post(&path("/resume"), &resume("yes")).ok();
                assert_eq!(done["status"], "completed", "{at}: {done}");
                done
            }
            "created" | "in-progress" | "cancelling" => {
                http.post(&path("/cancel"), &json!({}));
                until(http, &id, "cancelled")
            }
            _ => http.get(&path("")).ok(),
        };
        let refused = http.post(&path("/resume"), &resume("yes"));
        assert_eq!(refused.status, 409, "{at}: {refused:?}");
        ends_as(http, &id, ended["status"].as_str().unwrap(), at);
    }
}

/// The last that the events of a run tell is what the run is.
fn ends_as(http: &Http, id: &str, status: &str, at: &str) {
    let told = http.get(&format!("/runs/{id}/events")).ok();
    let last = told["events"].as_array().unwrap().last().cloned();
    let last = last.unwrap_or_default();
    assert_eq!(last["type"], format!("run.{status}"), "{at}: {told}");
}

/// Every point that the story passes, and how often.
fn points() -> BTreeMap<String, u32> {
    let mut daemon = node().listening().stopped();
    let trace = daemon.scratch("trace");
    fs::create_dir_all(trace.parent().unwrap()).unwrap();
    daemon.set_env(TRACE, trace.to_str());
    daemon.start();
    with_echo(&daemon);
    let http = Http::owner(&daemon);
    for step in STORY {
        step.tell(&http, &mut None).unwrap();
    }
    daemon.stop();
    let mut points = BTreeMap::new();
    let trace = fs::read_to_string(trace).unwrap();
    for line in trace.lines().filter(|line| line.starts_with("run.")) {
        *points.entry(line.to_owned()).or_default() += 1;
    }
    points
}

/// Brings crowds into every state, then tells the story until the daemon dies at that point, and looks at everything.
fn dies_at(point: &str, crowds: Crowds) {
    let mut daemon = node().listening().stopped();
    let armed = armed(&daemon);
    daemon.set_env(CRASH, Some(&format!("{point}@{}", armed.display())));
    daemon.start();
    prepared(&daemon);
    let crowd = bring(&daemon, crowds);
    fs::write(&armed, "").unwrap();
    let mut heard: [Heard; STORY.len()] = Default::default();
    let http = Http::owner(&daemon);
    let mut story = STORY.iter().zip(&mut heard);
    let _ = story.try_for_each(|(step, heard)| step.tell(&http, heard)); // Where the daemon dies at the very end, all was told.
    daemon.wait_for_death();
    daemon.set_env(CRASH, None);
    daemon.start();
    check_crowd(&daemon, &crowd, point);
    let http = Http::owner(&daemon);
    for (step, heard) in STORY.iter().zip(&heard) {
        step.check(&http, heard, point);
    }
    let prompts = prompts(&daemon);
    for step in &STORY {
        let count = times(&prompts, step.words);
        assert!(
            count <= 1,
            "{point}: {:?} was begun {count} times",
            step.words
        );
    }
    let written = fs::read_to_string(workspace_file(&daemon, "echo", "story.txt"));
    let count = written.unwrap_or_default().matches("told-once").count();
    assert!(count <= 1, "{point}: it was done {count} times");
}

/// No run of the crowds is lost, none was begun twice, and those that await are answered now, once.
fn check_crowd(daemon: &TestDaemon, crowd: &[Member], at: &str) {
    let http = Http::owner(daemon);
    let prompts = prompts(daemon);
    for member in crowd {
        let run = http.get(&format!("/runs/{}", member.id)).ok();
        assert_eq!(run["status"], member.after, "{at}: {run}");
        let count = times(&prompts, &member.number);
        // One that is cancelled early enough has no turn.
        let is_right = count == 1 || (count == 0 && member.after == "cancelled");
        assert!(is_right, "{at}: {} was begun {count} times", member.number);
        if member.is_cut {
            ends_as(&http, &member.id, member.after, at);
        }
    }
    let lines = workspace_file(daemon, "echo", "lines.txt");
    assert!(!lines.exists(), "{at}: nobody has allowed it yet");
    for member in crowd.iter().filter(|member| member.after == "awaiting") {
        let path = format!("/runs/{}/resume", member.id);
        let done = http.post(&path, &resume("yes")).ok();
        assert_eq!(done["status"], "completed", "{at}: {done}");
        let again = http.post(&path, &resume("yes"));
        assert_eq!(again.status, 409, "{at}: {again:?}");
    }
    let lines = fs::read_to_string(lines).unwrap_or_default();
    for member in crowd {
        let count = lines.matches(&member.number).count();
        assert!(count <= 1, "{at}: {} was done {count} times", member.number);
    }
}

fn dies(points: &[&str]) {
    for point in points {
        dies_at(point, FEW);
    }
}

#[test]
fn a_daemon_that_dies_when_a_run_begins_loses_none_and_begins_none_twice() {
    dies(&[
        "run.before-created:2",
        "run.created:2",
        "run.turn-asked-for",
    ]);
}

#[test]
fn a_daemon_that_dies_when_a_run_has_changed_loses_none_and_begins_none_twice() {
    dies(&["run.before-keep:2", "run.kept:4", "run.shown:3"]);
}

#[test]
fn a_daemon_that_dies_when_a_run_is_answered_or_cancelled_loses_none_and_begins_none_twice() {
    dies(&["run.before-answer", "run.answered", "run.cancel-told"]);
}

#[test]
fn a_daemon_that_dies_while_it_takes_up_runs_has_the_next_one_take_them_up() {
    let mut daemon = node().listening().start();
    prepared(&daemon);
    let crowd = bring(&daemon, FEW);
    daemon.kill();
    for _ in 0..2 {
        // Each gets one run further.
        daemon.set_env(CRASH, Some("run.taken-up:2"));
        assert!(daemon.try_start().is_err(), "it takes up two runs at least");
    }
    daemon.set_env(CRASH, None);
    daemon.start();
    check_crowd(&daemon, &crowd, "run.taken-up");
}

#[test]
fn of_a_hundred_runs_in_every_state_a_kill_loses_none_and_repeats_none() {
    let mut daemon = node().listening().start();
    prepared(&daemon);
    let crowd = bring(&daemon, MANY);
    assert_eq!(crowd.len(), 100);
    daemon.kill();
    daemon.start();
    check_crowd(&daemon, &crowd, "killed");
}

/// Dies at every third point, beginning with one of them, each time that it is passed, with a hundred runs in every state.
fn dies_at_every_third(first: usize) {
    let points = points();
    assert!(points.len() > 8, "{points:?}");
    // Passed where one more than may hold their turn await.
    let put_down = std::iter::once("run.put-down:1".to_owned());
    let each = points
        .iter()
        .flat_map(|(name, times)| (1..=*times).map(move |time| format!("{name}:{time}")));
    for point in each.chain(put_down).skip(first).step_by(3) {
        dies_at(&point, HUNDRED);
    }
}

#[test]
#[ignore = "slow: a hundred runs and a crash at each of a dozen points"]
fn slow_a_daemon_that_dies_at_any_first_point_loses_none_of_a_hundred_runs() {
    dies_at_every_third(0);
}

#[test]
#[ignore = "slow: a hundred runs and a crash at each of a dozen points"]
fn slow_a_daemon_that_dies_at_any_second_point_loses_none_of_a_hundred_runs() {
    dies_at_every_third(1);
}

#[test]
#[ignore = "slow: a hundred runs and a crash at each of a dozen points"]
fn slow_a_daemon_that_dies_at_any_third_point_loses_none_of_a_hundred_runs() {
    dies_at_every_third(2);
}
