//! Between the wire's words and the engine's.

use std::{collections::BTreeMap, path::PathBuf};

use domain::lifecycle::{LaunchMode, WorkspacePolicy};
use engine::{Overrides, Purpose, Resolved, WorkDir, WorkDirConflict};
use wire::daemon;

use crate::{error::RpcError, params};

/// The most metadata an agent has, keys and values together.
const METADATA_MAX: usize = 64 * 1024;

/// Checks every override; the field at fault is named.
pub(crate) fn overrides(given: daemon::Overrides) -> Result<Overrides, RpcError> {
    let launch_mode = given
        .launch_mode
        .map(|text| params::word("overrides.launchMode", &text, &LaunchMode::ALL))
        .transpose()?;
    let workspace_policy = given
        .workspace_policy
        .map(|text| params::word("overrides.workspacePolicy", &text, &WorkspacePolicy::ALL))
        .transpose()?;
    let conflict = match given.work_dir_conflict.unwrap_or_default() {
        daemon::WorkDirConflict::Error => WorkDirConflict::Error,
        daemon::WorkDirConflict::Overwrite => WorkDirConflict::Overwrite,
        daemon::WorkDirConflict::Append => WorkDirConflict::Append,
    };
    let work_dir = given
        .work_dir
        .map(|text| work_dir(text, conflict))
        .transpose()?;
    Ok(Overrides {
        launch_mode,
        workspace_policy,
        work_dir,
        metadata: metadata("overrides.metadata", given.metadata)?,
        confinement: None,
        purpose: match given.private {
            true => Purpose::OneUse,
            false => Purpose::General,
        },
    })
}

/// What a client wants to remember of an agent: it is kept in every record and shown in every list.
pub(crate) fn metadata(
    field: &str,
    metadata: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, RpcError> {
    let bytes: usize = metadata
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if bytes > METADATA_MAX {
        let message = format!("it has {bytes} bytes, and at most {METADATA_MAX} are kept");
        return Err(RpcError::invalid_params(field, &message));
    }
    Ok(metadata)
}

fn work_dir(text: String, conflict: WorkDirConflict) -> Result<WorkDir, RpcError> {
    let dir = PathBuf::from(&text);
    let plain = dir
        .components()
        .all(|part| !matches!(part, std::path::Component::ParentDir));
    if !dir.is_absolute() || !plain || text.contains('\0') {
        return Err(RpcError::invalid_params(
            "overrides.workDir",
            "it is an absolute path without `..`",
        ));
    }
    Ok(WorkDir { dir, conflict })
}

pub(crate) fn resolved(resolved: Resolved) -> daemon::ResolveResult {
    daemon::ResolveResult {
        instance_name: resolved.agent.name.clone(),
        workspace_dir: resolved.agent.workspace_dir.clone(),
        backend_type: resolved.agent.backend_type.clone(),
        command: resolved.command.to_string_lossy().into_owned(),
        args: resolved.args,
        env: resolved.env,
        pass_env: resolved.pass_env.iter().map(ToString::to_string).collect(),
        cwd: resolved.cwd.as_str().to_owned(),
        created: resolved.created,
    }
}

pub(crate) fn problem(problem: &catalog::Problem) -> daemon::Problem {
    daemon::Problem {
        path: problem.path.clone(),
        message: problem.message.clone(),
        line: problem.line.and_then(|line| u32::try_from(line).ok()),
        column: problem.column.and_then(|column| u32::try_from(column).ok()),
    }
}

/// Errors and warnings apart, as the wire has them.
pub(crate) fn problems(
    problems: &[catalog::Problem],
) -> (Vec<daemon::Problem>, Vec<daemon::Problem>) {
    let (errors, warnings): (Vec<_>, Vec<_>) = problems
        .iter()
        .partition(|problem| problem.severity == catalog::Severity::Error);
    (
        errors.into_iter().map(problem).collect(),
        warnings.into_iter().map(problem).collect(),
    )
}
