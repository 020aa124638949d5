//! Checking a computer's configuration: servers that cannot be used are reported and never offered.

use serde_json::Value;
use wire::smcp::{ConfigAnswer, Transport, has_placeholder};

use super::naming::bundle_id;

/// A server that is left out, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    pub server: String,
    pub reason: String,
}

/// Reads a configuration in either profile. Whether a command can be executed is for the caller to find out; one with
/// a placeholder is only known when it is started.
pub fn read_config(
    value: &Value,
    is_executable: &dyn Fn(&str) -> bool,
) -> (ConfigAnswer, Vec<Unusable>) {
    let (mut config, problems) = ConfigAnswer::from_value(value);
    let mut unusable: Vec<Unusable> = problems
        .into_iter()
        .map(|(server, problem)| Unusable {
            server,
            reason: problem.to_string(),
        })
        .collect();
    let mut seen: Vec<String> = Vec::new();
    config.servers.retain(|key, server| {
        let mut leave_out = |reason: String| {
            let server = key.clone();
            unusable.push(Unusable { server, reason });
            false
        };
        if let Transport::Stdio { command, .. } = &server.transport
            && !server.disabled
            && !has_placeholder(command)
            && !is_executable(command)
        {
            return leave_out(format!("{command:?} is not a program that can be executed"));
        }
        let bundle = bundle_id(server);
        if seen.contains(&bundle) {
            return leave_out(format!("another server is called {bundle:?} already"));
        }
        seen.push(bundle);
        true
    });
    (config, unusable)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_used_is_reported_and_left_out() {
        let value = json!({"servers": {
            "a": {"type": "stdio", "command": "there"},
            "b": {"type": "stdio", "command": "missing"},
            "c": {"type": "stdio", "command": "${env:SHELL}"},
            "d": {"type": "http"},
            "e": {"type": "sse", "url": "https://h", "bundle_id": "a"},
            "f": {"type": "stdio", "command": "missing", "disabled": true},
        }});
        let (config, unusable) = read_config(&value, &|command| command == "there");
        assert_eq!(config.servers.keys().collect::<Vec<_>>(), ["a", "c", "f"]);
        let reported: Vec<(&str, &str)> = unusable
            .iter()
            .map(|unusable| (unusable.server.as_str(), unusable.reason.as_str()))
            .collect();
        assert_eq!(
            reported,
            [
                ("d", "an http or sse server needs a `url`"),
                ("b", "\"missing\" is not a program that can be executed"),
                ("e", "another server is called \"a\" already"),
            ]
        );
    }
}
