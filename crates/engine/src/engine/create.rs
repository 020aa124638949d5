//! Making an agent: decide, keep the intent, make the workspace, keep the result. At every moment in between, the next
//! start of the daemon knows what to take back.

use std::{collections::BTreeMap, sync::Arc};

use catalog::{Template, WorkspacePlan};
use domain::lifecycle::{Input, LaunchMode, Lifecycle};
use platform::crash;
use store::{Change, Entry};
use tracing::warn;

use super::{Create, Purpose};
use crate::{
    AgentView, EngineError, Library,
    agent::{self, AgentRecord, Begin, Place, Surroundings, chain, run_steps, written_paths},
    clock,
};

/// A one-shot agent with this in its metadata is destroyed when its process exits.
const AUTO_DESTROY: &str = "autoDestroy";

/// It goes when its process does.
const WITH_ITS_PROCESS: &str = "true";

/// It is made for one piece of work of a client, who removes it; one that outlived the daemon is destroyed by the next.
const WITH_THE_DAEMON: &str = "daemon";

/// Runs to its end even if the asker leaves, so that nothing is left half-made.
pub(super) async fn create(
    library: &Library,
    template: Arc<Template>,
    around: &Arc<Surroundings>,
    create: Create,
) -> Result<Arc<AgentView>, EngineError> {
    let shelf = library.shelf();
    let plan = catalog::plan(&template, &shelf.components, &create.name).map_err(|missing| {
        let missing = missing.iter().map(ToString::to_string).collect();
        EngineError::MissingComponents {
            template: template.name.clone(),
            missing,
        }
    })?;
    if !around.registry.take(&create.name) {
        return Err(EngineError::AgentExists { name: create.name });
    }
    let own = around.clone();
    let making = around.tasks.spawn(|_| async move {
        let name = create.name.clone();
        let made = make(&own, create, template.as_ref().clone(), plan).await;
        if made.is_err() {
            own.registry.remove(&name);
        }
        made
    });
    making.await.unwrap_or(Err(EngineError::ShuttingDown))
}

async fn make(
    around: &Arc<Surroundings>,
    create: Create,
    template: Template,
    plan: WorkspacePlan,
) -> Result<Arc<AgentView>, EngineError> {
    let (workspace, name) = (around.workspace.clone(), create.name.clone());
    let work_dir = create.overrides.work_dir.clone();
    let paths = written_paths(&plan, &template);
    let surveyed = blocking(around, move || {
        workspace.place(&name, work_dir.as_ref(), &paths)
    })
    .await?;
    let own_dir = around.workspace.instances_dir.join(create.name.as_str());
    let wanted = create
        .overrides
        .work_dir
        .as_ref()
        .map_or(own_dir, |work_dir| work_dir.dir.clone());
    let failed = |reason: String| EngineError::Workspace {
        name: create.name.clone(),
        dir: wanted.clone(),
        reason,
    };
    let place = surveyed.map_err(|error| failed(chain(&error)))?;
    let record = record(&create, template, place);
    keep(around, &record).await?;
    crash::point("create.intent-kept");
    let made = fill(around, &record, plan).await;
    match made {
        Ok(()) => finish(around, record).await,
        Err(reason) => {
            take_back(around, &record).await;
            Err(failed(reason))
        }
    }
}

fn record(create: &Create, template: Template, place: Place) -> AgentRecord {
    let overrides = &create.overrides;
    let mode = overrides
        .launch_mode
        .or(template.launch_mode)
        .unwrap_or(LaunchMode::Direct);
    let policy = overrides
        .workspace_policy
        .or(template.workspace_policy)
        .unwrap_or(mode.default_policy());
    let metadata: BTreeMap<String, String> = overrides.metadata.clone();
    let auto_destroy = overrides.metadata.get(AUTO_DESTROY).map(String::as_str);
    let now = clock::now();
    AgentRecord {
        id: uuid::Uuid::new_v4().to_string(),
        name: create.name.clone(),
        template,
        policy,
        place,
        metadata,
        created_at: now,
        updated_at: now,
        lifecycle: Lifecycle::new(mode, auto_destroy == Some(WITH_ITS_PROCESS)),
        confinement: overrides.confinement.clone(),
        passing: overrides.purpose == Purpose::Passing || auto_destroy == Some(WITH_THE_DAEMON),
        private: overrides.purpose != Purpose::General,
    }
}

async fn fill(
    around: &Arc<Surroundings>,
    record: &AgentRecord,
    plan: WorkspacePlan,
) -> Result<(), String> {
    let (workspace, place) = (around.workspace.clone(), record.place.clone());
    blocking(around, move || workspace.materialise(&place, &plan))
        .await
        .map_err(|error| error.to_string())?
        .map_err(|error| chain(&error))?;
    crash::point("create.materialised");
    run_steps(&around.tasks, &around.launcher, record).await?;
    crash::point("create.initialised");
    Ok(())
}

async fn finish(
    around: &Arc<Surroundings>,
    mut record: AgentRecord,
) -> Result<Arc<AgentView>, EngineError> {
    let now = clock::now();
    record.updated_at = now;
    if record.lifecycle.apply(Input::Materialised, now).is_err() {
        unreachable!("a new lifecycle takes its workspace");
    }
    let settled = record.place.clone();
    record.place.settle();
    let view = Arc::new(
        record
            .view()
            .unwrap_or_else(|| unreachable!("a created agent is seen")),
    );
    let (file, shown) = (around.workspace.instance_file(&record.place), view.clone());
    let written = blocking(around, move || file.write(&shown)).await?;
    if let Err(error) = written {
        take_back(
            around,
            &AgentRecord {
                place: settled,
                ..record.clone()
            },
        )
        .await;
        let dir = record.place.dir().clone();
        return Err(EngineError::Workspace {
            name: record.name,
            dir,
            reason: chain(&error),
        });
    }
    crash::point("create.instance-file");
    if let Err(error) = keep(around, &record).await {
        take_back(
            around,
            &AgentRecord {
                place: settled,
                ..record
            },
        )
        .await;
        return Err(error);
    }
    crash::point("create.kept");
    let workspace = around.workspace.clone();
    if let Err(error) = blocking(around, move || workspace.settle(&settled)).await? {
        warn!(agent = %record.name, error = %chain(&error), "could not remove what was set aside");
    }
    let name = record.name.clone();
    around
        .registry
        .put(name, agent::spawn(record, Begin::Fresh, around));
    Ok(view)
}

async fn keep(around: &Arc<Surroundings>, record: &AgentRecord) -> Result<(), EngineError> {
    let name = record.name.to_string();
    let kind = record
        .lifecycle
        .status()
        .map_or("agent.creating", |_| "agent.created");
    let entry = Entry {
        at: record.updated_at.0,
        kind: kind.to_owned(),
        agent: Some(name.clone()),
        session: None,
        body: serde_json::json!({ "template": record.template.name, "dir": record.place.dir() })
            .to_string(),
    };
    let put = Change::PutAgent {
        name: name.clone(),
        record: record.to_json(),
    };
    around
        .store
        .write(vec![put, Change::Journal(entry)])
        .await
        .map_err(|source| EngineError::Store { name, source })
}

/// Removes everything of a creation that failed. What cannot be removed now is removed at the next start.
async fn take_back(around: &Arc<Surroundings>, record: &AgentRecord) {
    let (workspace, place) = (around.workspace.clone(), record.place.clone());
    let removed = match blocking(around, move || workspace.remove(&place)).await {
        Ok(removed) => removed.map_err(|error| chain(&error)),
        Err(error) => Err(error.to_string()),
    };
    let name = record.name.to_string();
    match removed {
        Ok(()) => {
            if let Err(error) = around.store.write(vec![Change::DeleteAgent { name }]).await {
                warn!(agent = %record.name, error = %chain(&error), "could not forget a failed creation");
            }
        }
        Err(error) => warn!(agent = %record.name, %error, "could not take a failed creation back"),
    }
}

async fn blocking<T: Send + 'static>(
    around: &Arc<Surroundings>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, EngineError> {
    around
        .tasks
        .spawn_blocking(|_| work())
        .await
        .map_err(|_| EngineError::ShuttingDown)
}
