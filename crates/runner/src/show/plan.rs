//! The plan of a run: each step that is written in the file, and how far it is.

use std::{collections::BTreeMap, path::Path};

use domain::turn::{EventKind, Location, PlanEntry, PlanStatus};
use workflow::{Plan, Record};

use super::Audience;

/// Entries of the plan that are told with each change. A plan is told whole, so a longer one is told only when as many
/// of its entries have changed as it is longer: telling a run costs the same for each step, however many there are.
const TOLD_WITH_EACH: usize = 100;

impl Audience {
    /// The steps, before anything happens, and the file they are written in; `ended` are those that need not be done.
    pub(crate) fn plan(&self, plan: &Plan, file: &Path, ended: &BTreeMap<String, Record>) {
        let entry = |step: &workflow::Step| PlanEntry {
            text: match step.description.as_str() {
                "" => step.name.clone(),
                words => format!("{}: {words}", step.name),
            },
            status: match ended.contains_key(&step.name) {
                true => PlanStatus::Completed,
                false => PlanStatus::Pending,
            },
        };
        let steps = plan.written_steps();
        let shown = steps.filter(|step| !matches!(step.kind, workflow::StepKind::Terminal(_)));
        let mut progress = self.progress();
        progress.entries.clear();
        progress.names.clear();
        progress.places.clear();
        let written = |step: &workflow::Step| Location {
            path: file.to_string_lossy().into_owned(),
            line: u32::try_from(step.line).ok().filter(|line| *line > 0),
        };
        progress.written = plan
            .written_steps()
            .map(|step| (step.name.clone(), written(step)))
            .collect();
        for step in shown {
            let place = progress.entries.len();
            progress.places.insert(step.name.clone(), place);
            let entry = entry(step);
            progress.names.push(entry.text.clone());
            progress.entries.push(entry);
        }
        drop(progress);
        self.tell_plan();
    }

    /// How far a step is, and what it has come to where that is no success.
    pub(super) fn set(&self, step: &str, status: PlanStatus, came_to: Option<&str>) {
        let mut progress = self.progress();
        let Some(place) = progress.places.get(step).copied() else {
            return;
        };
        let name = &progress.names[place];
        let now = PlanEntry {
            text: match came_to {
                Some(word) => format!("{name} ({word})"),
                None => name.clone(),
            },
            status,
        };
        if progress.entries[place] == now {
            return;
        }
        progress.entries[place] = now;
        progress.untold += 1;
        let is_due = progress.untold > progress.entries.len() / TOLD_WITH_EACH;
        drop(progress);
        if is_due {
            self.tell_plan();
        }
    }

    /// The plan is told whole each time, as the protocols want it.
    pub(super) fn tell_plan(&self) {
        // A run inside another has no plan of its own on the screen: there is one for a turn.
        if !self.prefix.is_empty() {
            return;
        }
        let mut progress = self.progress();
        progress.untold = 0;
        let entries = progress.entries.clone();
        drop(progress);
        self.emit(EventKind::Plan { entries });
    }
}
