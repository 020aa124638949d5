//! Agents: the table of all, the detail of one, and what it takes to start its process.

use jiff::Timestamp;
use wire::daemon::{AgentMeta, ResolveResult};

use super::{
    fields::Fields,
    style::{Style, Tone},
    table::{Cell, Column, Table},
    time::relative,
};

/// Where an agent that was made for a target says so.
const TARGET: &str = "target";

pub(crate) fn agent_table(agents: &[AgentMeta]) -> Table {
    let now = Timestamp::now();
    let columns = [
        Column::whole("NAME"),
        Column::whole("STATUS"),
        Column::shortened("TEMPLATE"),
        Column::shortened("BACKEND"),
        Column::shortened("MODE"),
        Column::shortened("PID"),
        Column::shortened("CHANGED"),
    ];
    let row = |agent: &AgentMeta| {
        [
            Cell::toned(Tone::Strong, &agent.name),
            Cell::toned(Tone::of_status(&agent.status), &agent.status),
            Cell::new(agent.metadata.get(TARGET).unwrap_or(&agent.template_name)),
            Cell::new(&agent.backend_type),
            Cell::new(&agent.launch_mode),
            Cell::new(&agent.pid.map(|pid| pid.to_string()).unwrap_or_default()),
            Cell::new(&relative(&agent.updated_at, now)),
        ]
    };
    Table::new(columns, agents.iter().map(row))
}

pub(crate) fn agent_detail(agent: &AgentMeta, style: Style) -> String {
    detail(agent, style, Timestamp::now())
}

fn detail(agent: &AgentMeta, style: Style, now: Timestamp) -> String {
    let mut fields = Fields::new(
        style,
        &agent.name,
        (Tone::of_status(&agent.status), &agent.status),
    );
    let moment = |moment: &str| format!("{} ({moment})", relative(moment, now));
    fields
        .toned(
            "reason",
            Tone::Bad,
            agent.reason.as_deref().unwrap_or_default(),
        )
        .field(
            "restart",
            &agent.restart_at.as_deref().map(moment).unwrap_or_default(),
        )
        .field("process", &process(agent))
        .field(
            "template",
            &format!("{} {}", agent.template_name, agent.template_version),
        )
        .field("backend", &agent.backend_type)
        .field(
            "mode",
            &format!(
                "{}, {} workspace",
                agent.launch_mode, agent.workspace_policy
            ),
        )
        .field("workspace", &agent.workspace_dir)
        .field("created", &moment(&agent.created_at))
        .field("changed", &moment(&agent.updated_at))
        .list(
            "metadata",
            agent
                .metadata
                .iter()
                .map(|(key, value)| format!("{key}={value}")),
        )
        .field("id", &agent.id);
    fields.finish()
}

fn process(agent: &AgentMeta) -> String {
    match (agent.pid, agent.process_ownership.as_deref()) {
        (Some(pid), Some("external")) => format!("{pid}, started by a client"),
        (Some(pid), _) => pid.to_string(),
        (None, _) => "none".to_owned(),
    }
}

pub(crate) fn resolve_detail(resolved: &ResolveResult, style: Style) -> String {
    let mark = if resolved.created { "created" } else { "" };
    let mut fields = Fields::new(style, &resolved.instance_name, (Tone::Good, mark));
    fields
        .field("backend", &resolved.backend_type)
        .field("folder", &resolved.workspace_dir)
        .field("command", &resolved.command)
        .list("argument", resolved.args.iter().cloned())
        // Values may be keys of accounts; whoever needs them asks for JSON.
        .list("variable", resolved.env.keys().cloned());
    fields.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn crashed() -> AgentMeta {
        AgentMeta {
            id: "0190".to_owned(),
            name: "reviewer".to_owned(),
            template_name: "code-review".to_owned(),
            template_version: "1.2.0".to_owned(),
            backend_type: "claude-code".to_owned(),
            backend_config: None,
            status: "crashed".to_owned(),
            launch_mode: "acp-service".to_owned(),
            workspace_policy: "persistent".to_owned(),
            process_ownership: None,
            workspace_dir: "/srv/reviewer".to_owned(),
            pid: None,
            reason: Some("exit code 3\nlast words".to_owned()),
            restart_at: Some("2026-11-15T12:00:08Z".to_owned()),
            created_at: "2026-11-15T10:00:00Z".to_owned(),
            updated_at: "2026-11-15T11:59:58Z".to_owned(),
            metadata: BTreeMap::from([
                ("team".to_owned(), "core".to_owned()),
                ("x".to_owned(), "y".to_owned()),
            ]),
            private: false,
        }
    }

    #[test]
    fn the_detail_of_an_agent_begins_with_what_is_wrong() {
        let now = "2026-11-15T12:00:00Z".parse().unwrap();
        assert_eq!(
            detail(&crashed(), Style::Plain, now),
            "reviewer  crashed
  reason      exit code 3 last words
  restart     in 8 s (2026-11-15T12:00:08Z)
  process     none
  template    code-review 1.2.0
  backend     claude-code
  mode        acp-service, persistent workspace
  workspace   /srv/reviewer
  created     2 h ago (2026-11-15T10:00:00Z)
  changed     2 s ago (2026-11-15T11:59:58Z)
  metadata    team=core
              x=y
  id          0190
"
        );
    }

    #[test]
    fn values_of_variables_are_not_shown() {
        let resolved = ResolveResult {
            instance_name: "a".to_owned(),
            workspace_dir: "/w".to_owned(),
            backend_type: "custom".to_owned(),
            command: "run".to_owned(),
            args: vec!["--fast".to_owned()],
            env: BTreeMap::from([("KEY".to_owned(), "secret".to_owned())]),
            pass_env: Vec::new(),
            cwd: "workspace".to_owned(),
            created: true,
        };
        assert_eq!(
            resolve_detail(&resolved, Style::Plain),
            "a  created\n  backend     custom\n  folder      /w\n  command     run\n  argument    --fast\n  variable    KEY\n"
        );
    }
}
