//! What a run is given at its start, and what it would do with that.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Map, Value};
use workflow::{Description, Mask, Setup, World};

use crate::{
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
    let setup = stage.setup("dry-run", inputs, &world);
    Ok(plan.describe(&setup, &world).masked(&mask))
}

impl Stage<'_> {
    pub(crate) fn world(&self, found: &Found) -> Arc<dyn World> {
        Arc::new(RunWorld {
            environment: self.environment.clone(),
            cwd: self.cwd.to_owned(),
            pack: found.pack.clone(),
            folder: found.path.parent().map(PathBuf::from).unwrap_or_default(),
        })
    }

    pub(crate) fn setup(
        &self,
        run: &str,
        inputs: Map<String, Value>,
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
            directories: directories(self.cwd),
            seed: platform::owner::fresh_id().bytes().fold(7, |seed, byte| {
                seed.wrapping_mul(31).wrapping_add(u64::from(byte))
            }),
        }
    }
}

/// What `awf.*` in templates stands for.
fn directories(cwd: &Path) -> BTreeMap<String, String> {
    let home = cwd.join(".awf");
    ["prompts", "scripts", "skills", "workflows", "plugins"]
        .into_iter()
        .map(|name| (format!("{name}_dir"), home.join(name)))
        .chain([
            ("config_dir".to_owned(), home.clone()),
            ("data_dir".to_owned(), home.join("data")),
        ])
        .map(|(name, path)| (name, path.to_string_lossy().into_owned()))
        .collect()
}
