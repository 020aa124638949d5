//! `agentcraft up`: a node in the foreground, ready to be tried.

use catalog::{SAMPLES, Sample};
use platform::{
    ConfinedDir,
    files::{create_dir_all, create_private_dir},
};
use wire::daemon::{AgentMeta, CreateParams, NameParams, Overrides};

use super::daemon::{run_here, say_if_running};
use crate::{
    args::Format,
    config::Config,
    connection::Connection,
    error::CommandError,
    render::{Screen, welcome},
};

/// The agent that a first start creates, and the sample template it is made from.
const STARTER: &str = "starter";

pub(super) fn run(config: Config, screen: &mut Screen) -> Result<(), CommandError> {
    if say_if_running(&config, Format::Table, screen)? {
        return Ok(());
    }
    let written = write_samples(&config)
        .map_err(|error| CommandError::machine("write the samples", error))?;
    if written > 0 {
        screen.line(&format!(
            "wrote {written} samples to {}",
            config.configs_dir.display()
        ))?;
    }
    let client = config.clone();
    run_here(config, screen, move |ready, screen| {
        if let Err(error) = create_starter(&client) {
            // The node works without it, and the user may have changed the sample.
            screen.warning(&format!("could not create the agent {STARTER}: {error}"))?;
        }
        screen.print(&welcome(&client, ready, screen.style()))?;
        Ok(())
    })?;
    Ok(screen.line("the node has stopped")?)
}

/// Writes samples into a configs folder without any templates; what is there already is left as it is.
fn write_samples(config: &Config) -> Result<usize, anyhow::Error> {
    create_private_dir(&config.home)?;
    create_dir_all(&config.configs_dir)?;
    let configs = ConfinedDir::open(&config.configs_dir)?;
    if configs.exists("templates")? && !configs.list("templates")?.is_empty() {
        return Ok(0);
    }
    let mut written = 0;
    for Sample { path, content } in SAMPLES {
        if configs.exists(path)? {
            continue;
        }
        if let Some((folder, _)) = path.rsplit_once('/') {
            configs.create_dir_all(folder)?;
        }
        configs.write_atomic(path, content.as_bytes())?;
        written += 1;
    }
    Ok(written)
}

fn create_starter(config: &Config) -> Result<(), CommandError> {
    let mut connection = Connection::open(config)?;
    let name = STARTER.to_owned();
    match connection.call::<AgentMeta>("agent.status", &NameParams { name: name.clone() }) {
        Ok(_) => return Ok(()),
        Err(CommandError::Remote(remote)) if remote.error_code == "AGENT_NOT_FOUND" => {}
        Err(error) => return Err(error),
    }
    let params = CreateParams {
        name: name.clone(),
        template: name,
        overrides: Overrides::default(),
    };
    match connection.call::<AgentMeta>("agent.create", &params) {
        Ok(_) => Ok(()),
        // A user with templates of their own and no starter wants none.
        Err(CommandError::Remote(remote)) if remote.error_code == "TEMPLATE_NOT_FOUND" => Ok(()),
        Err(error) => Err(error),
    }
}
