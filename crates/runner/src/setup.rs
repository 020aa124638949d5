//! What a run is given at its start, and what it would do with that.

use std::{collections::BTreeMap, ffi::OsString, path::Path, sync::Arc};

use serde_json::{Map, Value};
use workflow::{Description, Mask, Setup, World};

use crate::{
    folders::FilePlaces,
    found::Found,
    refused::StartError,
    surroundings::{mask, secret_inputs},
    world::RunWorld,
};

/// Where a run takes place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stage<'a> {
    pub(crate) cwd: &'a Path,
    pub(crate) environment: &'a BTreeMap<OsString, OsString>,
}

/// What a run of the file would do with these inputs, as it may be shown; `secret_names` are beside those that always make a
/// variable or an input secret. Nothing is written, started or asked.
pub fn describe(
    found: &Found,
    inputs: Map<String, Value>,
    cwd: &Path,
    environment: &BTreeMap<OsString, OsString>,
    secret_names: &[String],
) -> Result<Description, StartError> {
    let plan = found.plan(cwd)?;
    let stage = Stage { cwd, environment };
    let world = stage.world(found);
    let checked = workflow::check_inputs(&plan, &inputs, world.as_ref());
    let inputs = checked.map_err(|problems| StartError::Inputs { problems })?;
    let given = Mask::of_values(secret_inputs(&inputs, secret_names));
    let mask = mask(environment, secret_names).and(&given);
    let setup = stage.setup("dry-run", inputs, found, &world);
    Ok(plan.describe(&setup, &world).masked(&mask))
}

impl Stage<'_> {
    pub(crate) fn world(&self, found: &Found) -> Arc<dyn World> {
        Arc::new(RunWorld {
            environment: self.environment.clone(),
            cwd: self.cwd.to_owned(),
            places: self.places(found),
        })
    }

    /// Where what the workflow names is looked for.
    pub(crate) fn places(&self, found: &Found) -> FilePlaces {
        FilePlaces::of(found, self.cwd, self.environment)
    }

    pub(crate) fn setup(
        &self,
        run: &str,
        inputs: Map<String, Value>,
        found: &Found,
        world: &Arc<dyn World>,
    ) -> Setup {
        Setup {
            run: run.to_owned(),
            parent_run: None,
            inputs,
            call_stack: Vec::new(),
            working_dir: self.cwd.to_string_lossy().into_owned(),
            user: world.variable("USER").unwrap_or_default(),
            hostname: platform::system::hostname(),
            directories: self.places(found).values(),
            seed: platform::owner::fresh_id().bytes().fold(7, |seed, byte| {
                seed.wrapping_mul(31).wrapping_add(u64::from(byte))
            }),
        }
    }
}
