//! Whether another node has the agent that somebody wrote.

use engine::DriverError;

use super::{PeerDriver, unsupported};

impl PeerDriver {
    /// A node makes agents of what others write only once it is asked for a run, so only of plain names it says here
    /// whether they are there.
    pub(super) async fn look(&self) -> Result<(), DriverError> {
        let Some(agent) = self.agent.as_deref().filter(|agent| is_plain(agent)) else {
            return Ok(());
        };
        match self.client.agent(agent).await {
            Err(error) if error.is_not_found() => {
                // The node itself is meant as well, by its name or its id.
                if let Ok(node) = self.client.manifest().await
                    && (node.name == agent || node.agent_id.as_deref() == Some(agent))
                {
                    return Ok(());
                }
                let there = self.client.agents().await.unwrap_or_default();
                let names: Vec<&str> = there.iter().map(|agent| agent.name.as_str()).collect();
                Err(unsupported(&match names[..] {
                    [] => format!("be found: {} shows no agent {agent}", self.client.url()),
                    _ => format!(
                        "be found: {} shows no agent {agent}; it shows {}",
                        self.client.url(),
                        few(&names)
                    ),
                }))
            }
            // Whoever is away or refuses says so when a turn begins.
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// Names that are told where one was not found.
const NAMES_MAX: usize = 10;

fn few(names: &[&str]) -> String {
    let told = names.iter().take(NAMES_MAX);
    let told: Vec<String> = told.map(|name| neighbour::cut(name, 64)).collect();
    match names.len().saturating_sub(NAMES_MAX) {
        0 => told.join(", "),
        more => format!("{} and {more} more", told.join(", ")),
    }
}

fn is_plain(agent: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    agent.bytes().all(is_plain) && !agent.starts_with('.')
}
