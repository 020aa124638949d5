//! Placeholders in a configuration: what they stand for is filled in when a server starts, and never before.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use wire::smcp::{ServerConfig, Transport};

/// A placeholder that cannot be filled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    #[error("nobody has given a value for the input {id:?}")]
    NoInput { id: String },
    #[error("the variable {name:?} is not set")]
    NoVariable { name: String },
}

/// Where values come from.
pub struct Values<'a> {
    pub input: &'a dyn Fn(&str) -> Option<String>,
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

impl std::fmt::Debug for Values<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Values")
    }
}

/// Fills the placeholders of one text. A value is not looked at again, so it cannot smuggle in another placeholder.
pub fn render(text: &str, values: &Values<'_>) -> Result<String, InputError> {
    let mut rendered = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, from) = rest.split_at(start);
        rendered.push_str(before);
        let Some(end) = from.find('}') else {
            rest = from;
            break;
        };
        let (placeholder, after) = from.split_at(end + 1);
        match placeholder[2..end].split_once(':') {
            Some(("input", id)) => {
                let value = (values.input)(id);
                let id = id.to_owned();
                rendered.push_str(&value.ok_or(InputError::NoInput { id })?);
            }
            Some(("env", name)) => {
                let value = (values.variable)(name);
                let name = name.to_owned();
                rendered.push_str(&value.ok_or(InputError::NoVariable { name })?);
            }
            _ => rendered.push_str(placeholder),
        }
        rest = after;
    }
    rendered.push_str(rest);
    Ok(rendered)
}

/// The inputs that a server cannot be started without.
pub fn inputs_of(config: &ServerConfig) -> BTreeSet<String> {
    let named = RefCell::new(BTreeSet::new());
    let values = Values {
        input: &|id| {
            named.borrow_mut().insert(id.to_owned());
            Some(String::new())
        },
        variable: &|_| Some(String::new()),
    };
    // Every placeholder has a value here, so that none is passed over.
    let _ = render_transport(config, &values);
    named.into_inner()
}

/// The way to a server with every placeholder filled, for the moment at which it is started.
pub fn render_transport(
    config: &ServerConfig,
    values: &Values<'_>,
) -> Result<Transport, InputError> {
    let text = |text: &String| render(text, values);
    let map = |map: &BTreeMap<String, String>| {
        map.iter()
            .map(|(key, value)| Ok((key.clone(), text(value)?)))
            .collect::<Result<BTreeMap<_, _>, InputError>>()
    };
    Ok(match &config.transport {
        Transport::Stdio {
            command,
            args,
            env,
            cwd,
        } => Transport::Stdio {
            command: text(command)?,
            args: args.iter().map(text).collect::<Result<_, _>>()?,
            env: map(env)?,
            cwd: cwd.as_ref().map(text).transpose()?,
        },
        Transport::Streamable { url, headers } => Transport::Streamable {
            url: text(url)?,
            headers: map(headers)?,
        },
        Transport::Sse { url, headers } => Transport::Sse {
            url: text(url)?,
            headers: map(headers)?,
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::smcp::ConfigAnswer;

    use super::*;

    fn check(text: &str) -> Result<String, InputError> {
        let input = |id: &str| (id == "key").then(|| "${env:HOME}".to_owned());
        let variable = |name: &str| (name == "HOME").then(|| "/h".to_owned());
        render(
            text,
            &Values {
                input: &input,
                variable: &variable,
            },
        )
    }

    #[test]
    fn placeholders_are_filled_once() {
        for (text, rendered) in [
            ("plain", "plain"),
            ("Bearer ${input:key}!", "Bearer ${env:HOME}!"),
            ("${env:HOME}/x/${env:HOME}", "/h/x//h"),
            ("${other:x} ${open", "${other:x} ${open"),
            ("", ""),
        ] {
            assert_eq!(check(text).as_deref(), Ok(rendered));
        }
    }

    #[test]
    fn the_inputs_of_a_server_are_found_wherever_they_stand() {
        let config = json!({"servers": {"a": {
            "type": "stdio", "command": "${input:program}", "args": ["--key=${input:key}", "${env:HOME}"],
            "env": {"A": "${input:key}${input:other}"}, "cwd": "plain",
        }}});
        let config = ConfigAnswer::from_value(&config).0;
        let found: Vec<String> = inputs_of(&config.servers["a"]).into_iter().collect();
        assert_eq!(found, ["key", "other", "program"]);
    }

    #[test]
    fn a_missing_value_is_named() {
        let error = check("${input:none}").unwrap_err();
        assert_eq!(
            error.to_string(),
            "nobody has given a value for the input \"none\""
        );
        assert!(check("${env:NONE}").is_err());
    }
}
