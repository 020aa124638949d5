//! `template.*`.

use std::{path::PathBuf, sync::Arc};

use catalog::Template;
use engine::EngineError;
use wire::daemon::{
    Empty, FileParams, NameParams, Problem, Success, TemplateProblems, ValidateResult,
};

use crate::{convert, error::RpcError, server::Call};

pub(super) async fn list(call: &Call) -> Result<Vec<Arc<Template>>, RpcError> {
    call.params::<Empty>()?;
    Ok(call.service.engine.library().templates())
}

pub(super) async fn get(call: &Call) -> Result<Arc<Template>, RpcError> {
    let given: NameParams = call.params()?;
    Ok(call.service.engine.template(&given.name).await?)
}

pub(super) async fn load(call: &Call) -> Result<Arc<Template>, RpcError> {
    Ok(call.service.engine.load_template(file_path(call)?).await?)
}

pub(super) async fn unload(call: &Call) -> Result<Success, RpcError> {
    let given: NameParams = call.params()?;
    let success = call.service.engine.unload_template(&given.name).await?;
    Ok(Success { success })
}

pub(super) async fn validate(call: &Call) -> Result<ValidateResult, RpcError> {
    let path = file_path(call)?;
    let validation = match call.service.engine.validate_template(path).await {
        Ok(validation) => validation,
        Err(EngineError::FileNotFound { path }) => {
            let message = format!("Configuration file not found: {}", path.display());
            let missing = Problem {
                path: String::new(),
                message,
                line: None,
                column: None,
            };
            return Ok(ValidateResult {
                valid: false,
                template: None,
                errors: vec![missing],
                warnings: Vec::new(),
            });
        }
        Err(error) => return Err(error.into()),
    };
    let (errors, warnings) = convert::problems(&validation.problems);
    let template = validation
        .template
        .and_then(|template| serde_json::to_value(template).ok());
    Ok(ValidateResult {
        valid: template.is_some(),
        template,
        errors,
        warnings,
    })
}

pub(super) async fn problems(call: &Call) -> Result<Vec<TemplateProblems>, RpcError> {
    call.params::<Empty>()?;
    let found = call.service.engine.library().problems();
    Ok(found
        .iter()
        .map(|file| {
            let (errors, warnings) = convert::problems(&file.problems);
            TemplateProblems {
                file: file.file.to_string_lossy().into_owned(),
                errors,
                warnings,
            }
        })
        .collect())
}

fn file_path(call: &Call) -> Result<PathBuf, RpcError> {
    let given: FileParams = call.params()?;
    if given.file_path.is_empty() || given.file_path.contains('\0') {
        return Err(RpcError::invalid_params(
            "filePath",
            "it is the path of a file",
        ));
    }
    Ok(PathBuf::from(given.file_path))
}
