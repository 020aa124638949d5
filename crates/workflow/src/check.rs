//! What a file says is held against itself: names exist, runs can end, texts can be filled in.

mod graph;
mod texts;

use crate::load::{ConditionUse, Places, TextUse};
use crate::plan::Plan;
use crate::reader::Findings;

pub(crate) fn run(
    plan: &Plan,
    places: &Places,
    uses: &[TextUse],
    conditions: &[ConditionUse],
    findings: &Findings,
) {
    graph::check(plan, places, findings);
    texts::check(plan, places, uses, conditions, findings);
}

pub(crate) use graph::successors;
