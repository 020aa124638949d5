//! Agents of this node that decide for its owner on the network.

use std::{sync::Arc, time::Duration};

use domain::{Name, turn::Stop};
use engine::{Engine, RunAgent, TurnOptions};
use lan::{Adviser, PortFuture};

/// Longer than anybody waits for advice, so that whoever waits says when it is too late.
const WITHIN: Duration = Duration::from_secs(90);

/// An agent that is asked in a conversation of its own each time.
struct NodeAdviser {
    engine: Engine,
    agent: Name,
}

/// The agent of that name; that it is there is found out when it is asked.
pub(super) fn adviser(engine: &Engine, agent: Option<&Name>) -> Option<Arc<dyn Adviser>> {
    let adviser = NodeAdviser {
        engine: engine.clone(),
        agent: agent?.clone(),
    };
    Some(Arc::new(adviser))
}

impl Adviser for NodeAdviser {
    fn name(&self) -> &str {
        self.agent.as_str()
    }

    fn ask(&self, words: String) -> PortFuture<Result<String, String>> {
        let engine = self.engine.clone();
        let run = RunAgent {
            name: self.agent.clone(),
            prompt: words,
            options: TurnOptions {
                timeout: Some(WITHIN),
                ..TurnOptions::default()
            },
            session: None,
            by: None,
        };
        Box::pin(async move {
            let result = engine.run(run).await;
            let result = result.map_err(|error| engine::chain(&error))?;
            // Nobody goes on with it.
            let _ = engine.sessions().close(&result.session).await;
            match result.stop {
                Stop::EndTurn => Ok(result.text),
                stop => Err(format!("it ended with {stop:?}")),
            }
        })
    }
}
