//! How either side of a delegation is kept: before anybody hears of it, with a line in its log and one in the journal for each
//! move.

use domain::delegation::{DelegationId, Ending, Phase};
use engine::{Keep, Note};
use platform::crash;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    error::chain,
    node::Node,
    record::{HOST_KIND, HostRecord, LogLine, REMOTE_KIND, RemoteRecord, note, words},
};

/// What is kept of the task of a delegation that was taken and has ended: its peer says how long that is.
const SHOWN_MAX: usize = 4096;

/// What is kept of one side.
pub(crate) trait Kept: Serialize + Clone {
    /// Under which it is kept.
    const KIND: &'static str;
    /// Where tests let the daemon die: before it is kept, and after.
    const CRASHES: [&'static str; 2];

    fn id(&self) -> &DelegationId;
    fn phase(&self) -> Phase;
    fn ending(&self) -> Option<&Ending>;
    fn is_cleanup_due(&self) -> bool;
    fn log(&mut self) -> &mut Vec<LogLine>;
    /// Lets go of what nobody needs of one that has ended.
    fn shorten(&mut self);
    /// What the journal says of it.
    fn about(&self) -> Value;

    /// Writes down what has become of it, if it has moved; whether it has.
    fn tell_move(&mut self, before: &Self) -> bool {
        if before.phase() == self.phase() {
            return false;
        }
        let text = match self.ending() {
            Some(ending) => words(ending),
            None => self.phase().to_string(),
        };
        note(self.log(), text);
        true
    }
}

impl Kept for HostRecord {
    const KIND: &'static str = HOST_KIND;
    const CRASHES: [&'static str; 2] = ["lending.host.before-keep", "lending.host.after-keep"];

    fn id(&self) -> &DelegationId {
        self.machine.id()
    }

    fn phase(&self) -> Phase {
        self.machine.phase()
    }

    fn ending(&self) -> Option<&Ending> {
        self.machine.ending()
    }

    fn is_cleanup_due(&self) -> bool {
        self.machine.is_cleanup_due()
    }

    fn log(&mut self) -> &mut Vec<LogLine> {
        &mut self.log
    }

    fn shorten(&mut self) {} // Another round needs all of it.

    fn about(&self) -> Value {
        json!({
            "id": self.id().to_string(), "peer": self.peer_url, "dir": self.dir,
            "trace": self.trace,
        })
    }
}

impl Kept for RemoteRecord {
    const KIND: &'static str = REMOTE_KIND;
    const CRASHES: [&'static str; 2] = ["lending.remote.before-keep", "lending.remote.after-keep"];

    fn id(&self) -> &DelegationId {
        self.machine.id()
    }

    fn phase(&self) -> Phase {
        self.machine.phase()
    }

    fn ending(&self) -> Option<&Ending> {
        self.machine.ending()
    }

    fn is_cleanup_due(&self) -> bool {
        self.machine.is_cleanup_due()
    }

    fn log(&mut self) -> &mut Vec<LogLine> {
        &mut self.log
    }

    /// A task is shown, and never done again.
    fn shorten(&mut self) {
        for text in [&mut self.task.prompt, &mut self.task.description] {
            text.truncate(text.floor_char_boundary(SHOWN_MAX));
        }
    }

    fn about(&self) -> Value {
        json!({
            "id": self.id().to_string(), "from": self.caller, "side": "remote",
            "trace": self.trace,
        })
    }
}

/// Keeps the record. What cannot be kept has not happened, except an end: access must end whatever the disk says.
pub(crate) async fn keep<R: Kept>(node: &Node, record: &mut R, before: &R) -> bool {
    let (id, phase) = (record.id().to_string(), record.phase());
    let how = match phase.is_end() && !record.is_cleanup_due() {
        true => Keep::Finished,
        false => Keep::Live,
    };
    if how == Keep::Finished {
        record.shorten();
    }
    let line = (before.phase() != phase).then(|| Note {
        kind: format!("delegation.{phase}"),
        body: record.about(),
        ..Note::default()
    });
    let [before_it, after_it] = R::CRASHES;
    crash::point(before_it);
    let kept = node.records().put(R::KIND, &id, how, &*record, line).await;
    crash::point(after_it);
    if let Err(error) = kept {
        tracing::error!(%id, error = %chain(&error), "could not keep a delegation");
        if !phase.is_end() {
            *record = before.clone();
            return false;
        }
    }
    true
}
