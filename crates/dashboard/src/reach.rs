//! Agents of targets that lead to other nodes or lend them folders: whoever speaks to one needs the right to that.

use domain::target::Target;
use engine::{Caller, Engine};

use crate::{answer::Refused, router::RIGHT};

/// Refuses a target that leads where the caller may not go, whether its agent is there or not.
pub(crate) fn check_target(
    engine: &Engine,
    caller: &Caller,
    target: &Target,
) -> Result<(), Refused> {
    refused(engine.lacking_for(caller, RIGHT, target))
}

/// The same for an agent by its name.
pub(crate) fn check_agent(engine: &Engine, caller: &Caller, name: &str) -> Result<(), Refused> {
    refused(engine.lacking(caller, RIGHT, name, None))
}

fn refused(lacking: Option<String>) -> Result<(), Refused> {
    lacking.map_or(Ok(()), |right| Err(Refused::lacking(&right)))
}
