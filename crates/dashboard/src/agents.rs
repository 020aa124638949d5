//! Agents on the page: look, create, start, stop, remove.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State},
};
use domain::{Name, lifecycle::Force, target::Target};
use engine::{Caller, Create, Overrides};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    answer::{Answer, Refused, done, json_of},
    reach,
    router::Config,
};

pub(crate) async fn list(State(config): State<Arc<Config>>) -> Answer {
    let agents = config.engine.agents();
    let agents: Vec<Value> = agents
        .iter()
        .map(|agent| {
            let memory = agent.pid.and_then(platform::pid::resident_bytes);
            let mut value = serde_json::to_value(&**agent).unwrap_or(Value::Null);
            value["memoryBytes"] = json!(memory);
            value
        })
        .collect();
    json_of(&agents)
}

pub(crate) async fn templates(State(config): State<Arc<Config>>) -> Answer {
    let templates = config.engine.library().templates();
    let templates: Vec<Value> = templates
        .iter()
        .map(|template| {
            json!({
                "name": template.name,
                "version": template.version,
                "description": template.description,
                "backend": template.backend.backend_type().as_str(),
            })
        })
        .collect();
    json_of(&templates)
}

#[derive(Debug, Deserialize)]
pub(crate) struct NewAgent {
    name: String,
    template: String,
}

pub(crate) async fn create(
    State(config): State<Arc<Config>>,
    Extension(caller): Extension<Caller>,
    Json(new): Json<NewAgent>,
) -> Answer {
    let name = Name::parse(&new.name).map_err(|error| Refused::bad(error.to_string()))?;
    // A template is the owner's; a target is the caller's own word.
    if let Ok(target @ Target::Made(_)) = new.template.parse() {
        reach::check_target(&config.engine, &caller, &target)?;
    }
    let create = Create {
        name,
        template: new.template,
        overrides: Overrides::default(),
    };
    json_of(&*config.engine.create(create).await?)
}

pub(crate) async fn act(
    State(config): State<Arc<Config>>,
    Path((name, act)): Path<(String, String)>,
) -> Answer {
    match act.as_str() {
        "start" => json_of(&*config.engine.start(&name).await?),
        "stop" => json_of(&*config.engine.stop(&name).await?),
        other => Err(Refused::missing(format!("an agent cannot {other}"))),
    }
}

pub(crate) async fn destroy(State(config): State<Arc<Config>>, Path(name): Path<String>) -> Answer {
    config.engine.destroy(&name, Force::No).await?;
    done()
}
