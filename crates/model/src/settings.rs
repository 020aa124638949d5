//! What a template says of its model endpoint, checked once.

use engine::{DriverError, EndpointAgent};
use serde_json::{Map, Value};

/// The variable that holds the key, unless the template names another.
const KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// The model that a server which has only one takes for its own.
const MODEL: &str = "default";

/// Where and how to ask.
#[derive(Clone)]
pub(crate) struct Settings {
    /// Without a slash at its end.
    pub(crate) base_url: String,
    pub(crate) model: String,
    pub(crate) key: Option<String>,
    /// Numbers that go into every request as they are, such as `temperature`.
    pub(crate) parameters: Map<String, Value>,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("base_url", &self.base_url)
            .field("model", &self.model)
            .field("key", &self.key.as_ref().map(|_| "***"))
            .field("parameters", &self.parameters)
            .finish()
    }
}

/// What a template calls each parameter, and what the server does.
const PARAMETERS: [(&str, &str); 4] = [
    ("temperature", "temperature"),
    ("topP", "top_p"),
    ("maxTokens", "max_tokens"),
    ("maxCompletionTokens", "max_completion_tokens"),
];

impl Settings {
    pub(crate) fn of(agent: &EndpointAgent) -> Result<Self, DriverError> {
        let text = |key: &str| agent.config.get(key).and_then(Value::as_str);
        let base_url = text("baseUrl").ok_or_else(|| refuse("has no baseUrl"))?;
        if !base_url.starts_with("http://") && !base_url.starts_with("https://") {
            return Err(refuse("baseUrl must begin with http:// or https://"));
        }
        let variable = text("apiKeyEnv").unwrap_or(KEY_VARIABLE);
        let key = agent.around.environment.get(std::ffi::OsStr::new(variable));
        let parameters = PARAMETERS
            .iter()
            .filter_map(|(ours, theirs)| {
                let value = agent.config.get(*ours).filter(|value| value.is_number())?;
                Some(((*theirs).to_owned(), value.clone()))
            })
            .collect();
        Ok(Self {
            base_url: base_url.trim_end_matches('/').to_owned(),
            model: agent.model.clone().unwrap_or_else(|| MODEL.to_owned()),
            key: key.map(|key| key.to_string_lossy().into_owned()),
            parameters,
        })
    }
}

fn refuse(what: &str) -> DriverError {
    DriverError::Program {
        why: format!("the template's backend.config {what}"),
    }
}
