//! One handler for each method of the table.

mod agent;
mod component;
mod delegation;
mod proxy;
mod run;
mod service;
mod session;
mod template;

use std::{pin::Pin, sync::Arc};

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use wire::daemon::ErrorCode;

use crate::{error::RpcError, server::Call};

/// A result, written once.
pub(crate) type Outcome = Result<Box<RawValue>, RpcError>;

type Handler = fn(Arc<Call>) -> Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// The handler of a method, if there is such a method.
pub(crate) fn find(method: &str) -> Option<Handler> {
    HANDLERS
        .iter()
        .find(|(name, _)| *name == method)
        .map(|(_, handler)| *handler)
}

/// Makes a table entry of an async function.
macro_rules! handler {
    ($name:literal, $function:path) => {
        ($name, |call| {
            Box::pin(async move { answer($function(&call).await?) })
        })
    };
}

const HANDLERS: &[(&str, Handler)] = &[
    // The most frequent first.
    handler!("daemon.ping", service::ping),
    handler!("agent.list", agent::list),
    handler!("agent.status", agent::status),
    handler!("agent.create", agent::create),
    handler!("agent.start", agent::start),
    handler!("agent.stop", agent::stop),
    handler!("agent.destroy", agent::destroy),
    handler!("agent.resolve", agent::resolve),
    handler!("agent.attach", agent::attach),
    handler!("agent.detach", agent::detach),
    handler!("template.list", template::list),
    handler!("template.get", template::get),
    handler!("template.load", template::load),
    handler!("template.unload", template::unload),
    handler!("template.validate", template::validate),
    handler!("template.problems", template::problems),
    handler!("skill.list", component::skills),
    handler!("skill.get", component::skill),
    handler!("prompt.list", component::prompts),
    handler!("prompt.get", component::prompt),
    handler!("mcp.list", component::mcp_servers),
    handler!("mcp.get", component::mcp_server),
    handler!("workflow.list", component::workflows),
    handler!("workflow.get", component::workflow),
    handler!("agent.run", run::run),
    handler!("agent.prompt", run::prompt),
    handler!("session.create", session::create),
    handler!("session.attach", session::attach),
    handler!("session.prompt", session::prompt),
    handler!("session.answer", session::answer),
    handler!("session.cancel", session::cancel),
    handler!("session.close", session::close),
    handler!("session.list", session::list),
    handler!("session.get", session::get),
    handler!("session.events", session::events),
    handler!("proxy.lease", proxy::lease),
    handler!("proxy.connect", proxy::connect),
    handler!("proxy.forward", proxy::forward),
    handler!("proxy.envCallback", proxy::callback),
    handler!("proxy.disconnect", proxy::disconnect),
    handler!("delegation.create", delegation::create),
    handler!("delegation.message", delegation::message),
    handler!("delegation.list", delegation::list),
    handler!("delegation.status", delegation::status),
    handler!("delegation.wait", delegation::wait),
    handler!("delegation.audit", delegation::audit),
    handler!("delegation.cancel", delegation::cancel),
    handler!("delegation.prune", delegation::prune),
    handler!("journal.query", session::journal),
    handler!("daemon.shutdown", service::shutdown),
];

pub(crate) fn answer(result: impl Serialize) -> Outcome {
    to_raw_value(&result)
        .map_err(|error| RpcError::new(ErrorCode::InternalError, error.to_string()))
}

#[cfg(test)]
mod tests {
    use wire::daemon::METHODS;

    use super::*;

    #[test]
    fn the_table_of_methods_and_the_handlers_are_the_same() {
        let mut handled: Vec<&str> = HANDLERS.iter().map(|(name, _)| *name).collect();
        let mut listed: Vec<&str> = METHODS.iter().map(|method| method.name).collect();
        handled.sort_unstable();
        listed.sort_unstable();
        assert_eq!(handled, listed);
    }
}
