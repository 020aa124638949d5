//! The template of a target that needs none written: a workflow, an agent of a peer, a workspace that is lent.

use domain::target::Maker;
use serde_json::{Value, json};

use super::{Template, check_template};

impl Template {
    /// What an agent is made of; a template by its name is not ours to know.
    pub fn of(maker: &Maker) -> Option<Self> {
        let (backend, config) = match maker {
            Maker::Template(_) => return None,
            Maker::Workflow(workflow) => ("workflow", json!({ "workflow": workflow })),
            Maker::Peer { node, agent: None } => ("peer", json!({ "node": node })),
            Maker::Peer {
                node,
                agent: Some(agent),
            } => ("peer", json!({ "node": node, "agent": agent })),
            Maker::Workspace {
                node,
                dir,
                is_read_only,
            } => {
                let access = if *is_read_only { "ro" } else { "rw" };
                let config = json!({ "node": node, "dir": dir, "access": access });
                ("delegation", config)
            }
        };
        Some(checked(maker, backend, &config))
    }
}

fn checked(maker: &Maker, backend: &str, config: &Value) -> Template {
    let template = check_template(&json!({
        "name": maker.agent_name(),
        "version": "1.0.0",
        "description": format!("Made for {maker}"),
        "backend": { "type": backend, "config": config },
        "domainContext": {},
    }));
    let checked = template.into_result();
    checked.expect("every field of it is of the right kind").0
}

#[cfg(test)]
mod tests {
    use domain::target::Target;

    use super::*;
    use crate::BackendType;

    #[test]
    fn every_kind_of_target_but_a_template_has_one() {
        let made = |text: &str| match text.parse().unwrap() {
            Target::Made(maker) => Template::of(&maker),
            Target::Agent(_) => None,
        };
        assert_eq!(made("template:review"), None);
        for (text, backend, key, value) in [
            (
                "workflow:triage",
                BackendType::Workflow,
                "workflow",
                "triage",
            ),
            ("peer:小柠檬/news", BackendType::Peer, "node", "小柠檬"),
            ("peer:nova9/news", BackendType::Peer, "agent", "news"),
            (
                "peer:box?workspace=/src",
                BackendType::Delegation,
                "dir",
                "/src",
            ),
            (
                "peer:box?access=ro&workspace=/src",
                BackendType::Delegation,
                "access",
                "ro",
            ),
        ] {
            let template = made(text).unwrap();
            assert_eq!(template.backend.backend_type(), backend, "{text}");
            assert_eq!(template.backend.config().unwrap()[key], value, "{text}");
        }
    }
}
