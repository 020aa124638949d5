//! Refusals of the face, as both bindings write them.

use domain::chain::Refusal as ChainRefusal;
use engine::{EngineError, ErrorKind, chain};
use serde_json::{Value, json};
use wire::a2a::{ErrorCode, Object};

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
    pub(crate) metadata: Box<Object>,
    /// The field at fault, with what is wrong about it.
    pub(crate) violation: Option<(String, String)>,
    /// A status that the code alone does not tell.
    pub(crate) http: Option<u16>,
}

impl Refusal {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            metadata: Box::default(),
            violation: None,
            http: None,
        }
    }

    pub(crate) fn invalid(field: &str, words: impl Into<String>) -> Self {
        let words = words.into();
        let mut refusal = Self::new(ErrorCode::InvalidParams, format!("{field}: {words}"));
        refusal.violation = Some((field.to_owned(), words));
        refusal
    }

    pub(crate) fn task_not_found(id: &str) -> Self {
        Self::new(ErrorCode::TaskNotFound, "task not found").with("taskId", id)
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::UnsupportedOperation, message)
    }

    pub(crate) fn with(mut self, key: &str, value: &str) -> Self {
        self.metadata.insert(key.to_owned(), json!(value));
        self
    }

    pub(crate) fn with_http(mut self, status: u16) -> Self {
        self.http = Some(status);
        self
    }

    /// Nobody has said who asks.
    pub(crate) fn unauthenticated() -> Self {
        let words = "who are you? send a bearer token";
        Self::new(ErrorCode::InvalidRequest, words).with_http(401)
    }

    pub(crate) fn forbidden(right: &str) -> Self {
        let words = format!("your token has no right {right}");
        Self::new(ErrorCode::InvalidRequest, words).with_http(403)
    }

    pub(crate) fn no_agent(agent: &str) -> Self {
        let words = format!("there is no public agent called {agent}");
        Self::new(ErrorCode::InvalidParams, words).with_http(404)
    }

    /// An agent that could not be made for its caller, and why.
    pub(crate) fn nobody(error: &EngineError) -> Self {
        let refusal = Self::new(ErrorCode::InvalidParams, chain(error));
        match error.kind() {
            ErrorKind::AgentNotFound | ErrorKind::TemplateNotFound => refusal.with_http(404),
            _ => Self::new(ErrorCode::Internal, chain(error)),
        }
    }

    /// Too much at once; the client may come back.
    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Internal, message).with_http(503)
    }

    pub(crate) fn status(&self) -> u16 {
        self.http.unwrap_or_else(|| self.code.http_status())
    }

    /// What is told beside the message.
    pub(crate) fn details(&self) -> Value {
        let mut details = vec![self.code.info(&self.metadata)];
        if let Some((field, words)) = &self.violation {
            details.push(json!({
                "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": [{ "field": field, "description": words }],
            }));
        }
        details.into()
    }

    /// The `error` of a JSON-RPC answer.
    pub(crate) fn json_rpc(&self) -> Value {
        json!({ "code": self.code.code(), "message": self.message, "data": self.details() })
    }

    /// The body of an answer over plain HTTP.
    pub(crate) fn http_body(&self) -> Value {
        let status = match self.status() {
            401 => "UNAUTHENTICATED",
            403 => "PERMISSION_DENIED",
            503 => "UNAVAILABLE",
            _ => self.code.status_word(),
        };
        json!({ "error": {
            "code": self.status(),
            "status": status,
            "message": self.message,
            "details": self.details(),
        }})
    }
}

impl From<ChainRefusal> for Refusal {
    fn from(refused: ChainRefusal) -> Self {
        let code = match &refused {
            ChainRefusal::SelfLoop { .. } => "self_loop_rejected",
            ChainRefusal::Circle { .. } => "circular_call_detected",
            ChainRefusal::TooDeep { .. } => "call_chain_too_long",
            ChainRefusal::Malformed => "invalid_call_chain",
        };
        Self::new(ErrorCode::InvalidParams, format!("{refused} [{code}]"))
    }
}

impl From<EngineError> for Refusal {
    fn from(error: EngineError) -> Self {
        let code = match error.kind() {
            ErrorKind::InvalidParams { .. } | ErrorKind::AgentNotFound => ErrorCode::InvalidParams,
            _ => ErrorCode::Internal,
        };
        Self::new(code, chain(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_its_code_reason_and_field_on_both_bindings() {
        let refusal = Refusal::invalid("message.parts", "at least one part is needed");
        assert_eq!(refusal.json_rpc()["code"], -32602);
        assert_eq!(
            refusal.json_rpc()["data"][1]["fieldViolations"][0]["field"],
            "message.parts"
        );
        let missing = Refusal::task_not_found("t");
        let body = missing.http_body();
        assert_eq!(
            (&body["error"]["code"], &body["error"]["status"]),
            (&json!(404), &json!("NOT_FOUND"))
        );
        assert_eq!(body["error"]["details"][0]["reason"], "TASK_NOT_FOUND");
        assert_eq!(body["error"]["details"][0]["metadata"]["taskId"], "t");
    }
}
