//! A node without a daemon, for as long as one command runs: an engine in a space of its own, gone afterwards unless
//! sessions in it are to be taken up.
//!
//! Runs of workflows are written into one store that every process of the home shares, so that each finds all of them.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use domain::chain::Ourselves;
use engine::{DriverSurroundings, Engine, Records};
use platform::{
    Guardian, Owner, Tasks,
    files::{self, FileLock, Lock},
    owner,
};
use runner::Shelf;
use store::Store;

use crate::{
    config::Config,
    endpoints::{self, Endpoints},
};

/// Where the spaces of such nodes are.
const SPACES: &str = "spaces";

/// Held by whoever looks through them.
const SPACES_LOCK: &str = "spaces.lock";

/// How long others may take to look through the spaces and make theirs, which is a matter of moments.
const SPACE_PATIENCE: Duration = Duration::from_secs(10);

/// Below the folder of states, where the nodes are that stay.
pub(crate) const LASTING: &str = "editors";

/// The store of all runs of workflows of this home.
pub(crate) const RUNS: &str = "runs.db";

/// The name that processes of such a node are tagged with.
const NAME: &str = "standalone";

/// The node; `close` puts everything away.
#[derive(Debug)]
pub(crate) struct Standalone {
    pub(crate) engine: Engine,
    pub(crate) runs: runner::Surroundings,
    pub(crate) tasks: Tasks,
    guardian: Guardian,
    /// The runs of this home.
    past: Store,
    space: Space,
}

/// A folder that one process at a time has.
#[derive(Debug)]
struct Space {
    path: PathBuf,
    stays: Stays,
    _lock: FileLock,
}

/// Whether what a node has written is there for the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stays {
    Yes,
    No,
}

impl Standalone {
    pub(crate) async fn open(config: &Config) -> anyhow::Result<Self> {
        Self::with_shelf(config, endpoints::shelf(config)).await
    }

    /// A node that looks for workflows in other places.
    pub(crate) async fn with_shelf(config: &Config, shelf: Shelf) -> anyhow::Result<Self> {
        Self::in_space(config, shelf, take_space(&config.home)?).await
    }

    /// A node whose sessions are there for the next one of that name, after this process. While somebody has it, others
    /// have one that is gone with them.
    pub(crate) async fn lasting(config: &Config, shelf: Shelf, name: &str) -> anyhow::Result<Self> {
        let path = config.state_dir.join(LASTING).join(name);
        files::create_private_dir(&config.home)?;
        files::create_private_dir(&config.state_dir)?;
        files::create_private_dir(&path)?;
        let space = match files::lock_exclusive(&path.join("lock"))? {
            Lock::Acquired(lock) => Space {
                path,
                stays: Stays::Yes,
                _lock: lock,
            },
            Lock::Held { .. } => take_space(&config.home)?,
        };
        Self::in_space(config, shelf, space).await
    }

    async fn in_space(config: &Config, shelf: Shelf, own: Space) -> anyhow::Result<Self> {
        let space = &own.path;
        files::create_dir_all(&config.configs_dir.join("templates"))?;
        let tasks = Tasks::new();
        let owner = Owner::starting(&owner::fresh_id())?;
        let executable = std::env::current_exe().context("could not find our own program")?;
        let guardian = Guardian::spawn(&executable, &["guardian"], &owner)?;
        let durability = match own.stays {
            Stays::Yes => config.store_durability(),
            Stays::No => store::Durability::None,
        };
        let store = Store::open_alone(&space.join(crate::config::STORE), durability)?;
        let past = run_store(config)?;
        let endpoints = Endpoints::new(
            config,
            Records::new(past.clone()),
            Ourselves {
                id: owner::fresh_id(),
                name: NAME.to_owned(),
            },
        )
        .for_user(config, shelf);
        let engine_config = config.engine(executable, space.join("instances"), space.join("logs"));
        let drivers = endpoints.all();
        let engine = Engine::open(
            engine_config,
            store,
            guardian.clone(),
            owner.clone(),
            tasks.child(),
            drivers.clone(),
        )
        .await?;
        endpoints.connect(&engine);
        let around = DriverSurroundings {
            tasks: tasks.child(),
            guardian: guardian.clone(),
            owner,
            agent: NAME.to_owned(),
            workspace: config.home.clone(),
            environment: config.environment.clone(),
            start_timeout: Duration::from_secs(60),
        };
        Ok(Self {
            runs: endpoints.surroundings(around, drivers),
            engine,
            tasks,
            guardian,
            past,
            space: own,
        })
    }

    /// A folder of the node's own.
    pub(crate) fn space(&self) -> &Path {
        &self.space.path
    }

    pub(crate) fn stays(&self) -> Stays {
        self.space.stays
    }

    /// Ends everything that was started here.
    pub(crate) async fn close(self, config: &Config) -> anyhow::Result<()> {
        const DRAIN: Duration = Duration::from_secs(10);
        self.engine.shutdown().await;
        self.tasks.cancel();
        let _ = self.tasks.drain(DRAIN).await; // Whatever is stuck is ended with the guardian.
        self.guardian.close().await;
        drop(self.engine);
        if let Err(error) = tidy(config, self.past).await {
            tracing::warn!(error = %format!("{error:#}"), "could not look through old runs");
        }
        match self.space.stays {
            Stays::Yes => {}
            Stays::No => self.space.remove(),
        }
        Ok(())
    }
}

impl Space {
    /// Removes it, with all it holds. Whoever begins meanwhile looks whether somebody is at work there, and may be in the way:
    /// then they, or the next one, remove what is left.
    fn remove(self) {
        if let Err(error) = files::remove_tree(&self.path) {
            tracing::debug!(%error, "a space is left to the next one");
        }
    }
}

/// The records of all runs of this home.
pub(crate) fn run_records(config: &Config) -> anyhow::Result<Records> {
    run_store(config).map(Records::new)
}

/// What is too old goes: runs, as lines of the journal do, and the files of runs that are gone.
pub(crate) async fn tidy_runs(config: &Config) -> anyhow::Result<()> {
    tidy(config, run_store(config)?).await
}

async fn tidy(config: &Config, store: Store) -> anyhow::Result<()> {
    let age = i64::try_from(config.journal_age.as_millis()).unwrap_or(i64::MAX);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    store
        .prune(now.saturating_sub(age), config.journal_lines)
        .await?;
    let history = runner::History::new(Records::new(store));
    history
        .forget_folders(&config.state_dir.join("runs"))
        .await?;
    Ok(())
}

fn run_store(config: &Config) -> anyhow::Result<Store> {
    files::create_private_dir(&config.home)?;
    files::create_private_dir(&config.state_dir)?;
    Ok(Store::open(
        &config.state_dir.join(RUNS),
        config.store_durability(),
    )?)
}

/// A folder of our own, after those were removed whose owners are gone.
fn take_space(home: &Path) -> anyhow::Result<Space> {
    let spaces = home.join(SPACES);
    files::create_private_dir(home)?;
    files::create_private_dir(&spaces)?;
    // A folder that is made and not locked yet looks like one whose owner is gone: one at a time looks, and makes its own.
    let Lock::Acquired(turn) = files::lock_within(&home.join(SPACES_LOCK), SPACE_PATIENCE)? else {
        anyhow::bail!("others keep {} to themselves", spaces.display());
    };
    let mut left = Vec::new();
    for old in files::list(&spaces)? {
        // Whoever holds the lock is at work there.
        if let Ok(Lock::Acquired(lock)) = files::lock_exclusive(&old.join("lock")) {
            left.push((old, lock));
        }
    }
    let space = spaces.join(owner::fresh_id());
    files::create_private_dir(&space)?;
    let Lock::Acquired(lock) = files::lock_exclusive(&space.join("lock"))? else {
        anyhow::bail!("somebody else has taken {}", space.display());
    };
    drop(turn);
    for (old, lock) in left {
        let _ = files::remove_tree(&old); // Its owner may be removing it too; what stays goes the next time.
        drop(lock);
    }
    Ok(Space {
        path: space,
        stays: Stays::No,
        _lock: lock,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_begin_and_end_at_the_same_time_leave_each_other_alone() {
        const AT_ONCE: usize = 8;
        const EACH: usize = 40;
        let home = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let space = take_space(home.path()).unwrap();
                        std::fs::write(space.path.join("at work"), "").unwrap();
                        assert!(space.path.join("lock").exists());
                        space.remove();
                    }
                });
            }
        });
        drop(take_space(home.path()).unwrap());
        let left = take_space(home.path()).unwrap();
        let folders = files::list(&home.path().join(SPACES)).unwrap();
        assert_eq!(folders, [left.path.as_path()], "those of others are gone");
    }
}
