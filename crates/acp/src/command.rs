//! A program and its arguments as the line that rules read and people are shown, with the variables that decide what it runs.

use serde_json::Value;

use crate::convert;

/// Variables by which loaders, shells and interpreters are made to run something else.
const NAMES: [&str; 26] = [
    "BASH_ENV",
    "BASHOPTS",
    "BROWSER",
    "CLASSPATH",
    "DOTNET_ADDITIONAL_DEPS",
    "DOTNET_STARTUP_HOOKS",
    "EDITOR",
    "ENV",
    "HOME",
    "IFS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PAGER",
    "PATH",
    "PROMPT_COMMAND",
    "PS4",
    "RUBYLIB",
    "RUBYOPT",
    "SHELL",
    "SHELLOPTS",
    "SSH_ASKPASS",
    "VISUAL",
    "ZDOTDIR",
    "_JAVA_OPTIONS",
];

/// What the names of others begin with.
const BEGINNINGS: [&str; 11] = [
    "BUN_",
    "DYLD_",
    "GIT_",
    "LD_",
    "LUA_",
    "NPM_CONFIG_",
    "PERL5",
    "PIP_",
    "PYTHON",
    "UV_",
    "XDG_",
];

/// What stands for something of another shape than the protocol has: what whoever runs it makes of it is not known, and no rule
/// for the command allows it.
const UNKNOWN: &str = "$(unknown)";

/// The command of `what` as a shell would be given it. A rule for the command alone does not let in what stands before it.
pub(crate) fn line(what: &Value) -> String {
    let command = convert::text(what, "command").unwrap_or_default();
    let words = variables(what).chain([quoted(command)]);
    words.chain(arguments(what)).collect::<Vec<_>>().join(" ")
}

/// The same for a terminal, where a command without arguments may be a whole line for a shell.
pub(crate) fn terminal_line(what: &Value) -> String {
    let command = convert::text(what, "command").unwrap_or_default();
    let has_arguments = arguments(what).next().is_some();
    if has_arguments || !is_for_a_shell(command) {
        return line(what);
    }
    let variables: Vec<String> = variables(what).collect();
    match variables.is_empty() {
        true => command.to_owned(),
        // They are there for all of the line, and not for its first command alone.
        false => format!("{} /bin/sh -c {}", variables.join(" "), quoted(command)),
    }
}

/// Some agents send a whole command line as the command.
pub(crate) fn is_for_a_shell(command: &str) -> bool {
    let special = |letter: char| letter.is_whitespace() || "|&;<>()$`\"'*?#~".contains(letter);
    command.contains(special)
}

pub(crate) fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn arguments(what: &Value) -> impl Iterator<Item = String> {
    listed(&what["args"]).map(|argument| match argument {
        Some(Value::String(text)) => quoted(text),
        Some(_) | None => UNKNOWN.to_owned(),
    })
}

/// The variables that decide what runs. Others may be secrets, and are nobody's business here.
fn variables(what: &Value) -> impl Iterator<Item = String> {
    listed(&what["env"]).filter_map(|variable| {
        let named = variable.and_then(|variable| {
            let name = convert::text(variable, "name")?;
            let value = variable.get("value").map_or(Some(""), Value::as_str)?;
            Some((name, value))
        });
        match named {
            Some((name, value)) if decides_what_runs(name) => {
                Some(format!("{name}={}", quoted(value)))
            }
            Some(_) => None,
            None => Some(format!("env={UNKNOWN}")),
        }
    })
}

/// The values of a list; what is there and is none counts as one value that is not known.
fn listed(list: &Value) -> impl Iterator<Item = Option<&Value>> {
    let (values, unknown) = match list {
        Value::Null => (&[][..], None),
        Value::Array(values) => (&values[..], None),
        _ => (&[][..], Some(None)),
    };
    values.iter().map(Some).chain(unknown)
}

/// Some programs read their variables in any case, so all are taken as if they did.
fn decides_what_runs(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    NAMES.contains(&upper.as_str())
        || BEGINNINGS.iter().any(|begin| upper.starts_with(begin))
        || !name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_is_read_as_the_words_it_has() {
        let server = json!({ "command": "/bin/sh", "args": ["-c", "a; b", ""] });
        assert_eq!(line(&server), "/bin/sh -c 'a; b' ''");
        assert_eq!(terminal_line(&server), "/bin/sh -c 'a; b' ''");
        assert!(line(&json!({ "command": "npx", "args": [["a"]] })).contains("$("));
        assert_eq!(line(&json!({ "command": "a b" })), "'a b'");
    }

    #[test]
    fn what_has_another_shape_than_the_protocols_is_no_part_of_the_command() {
        for env in [
            json!({ "LD_PRELOAD": "/x.so", "TOKEN": "s" }),
            json!("LD_PRELOAD=/x.so"),
            json!(["LD_PRELOAD=/x.so"]),
            json!([{ "key": "LD_PRELOAD", "value": "/x.so" }]),
            json!([{ "name": "TOKEN", "value": ["s"] }]),
        ] {
            let server = json!({ "command": "npx", "args": ["a"], "env": env });
            assert_eq!(line(&server), "env=$(unknown) npx a", "{env}");
            assert_eq!(terminal_line(&server), "env=$(unknown) npx a", "{env}");
        }
        for args in [json!("-e x"), json!({ "0": "-e" }), json!([["-e"]])] {
            let server = json!({ "command": "npx", "args": args });
            assert_eq!(line(&server), "npx $(unknown)", "{args}");
        }
    }

    #[test]
    fn a_terminal_that_is_given_a_line_runs_all_of_it_with_its_variables() {
        let mut terminal = json!({ "command": "make; make test", "args": [] });
        assert_eq!(terminal_line(&terminal), "make; make test");
        terminal["env"] =
            json!([{ "name": "LD_PRELOAD", "value": "/x.so" }, { "name": "TOKEN", "value": "s" }]);
        let whole = "LD_PRELOAD=/x.so /bin/sh -c 'make; make test'";
        assert_eq!(terminal_line(&terminal), whole);
        terminal["command"] = json!("ls");
        assert_eq!(terminal_line(&terminal), "LD_PRELOAD=/x.so ls");
    }

    #[test]
    fn variables_that_decide_what_runs_are_known_in_any_case() {
        for name in [
            "PATH",
            "Npm_Config_Registry",
            "npm_config_registry",
            "JDK_JAVA_OPTIONS",
            "DOTNET_STARTUP_HOOKS",
            "PERL5DB",
            "LUA_INIT",
            "LUA_INIT_5_4",
            "XDG_CONFIG_HOME",
            "GIT_CONFIG_KEY_0",
            "BASH_FUNC_ls%%",
        ] {
            assert!(decides_what_runs(name), "{name}");
        }
        for name in ["TOKEN", "OPENAI_API_KEY", "NODE_AUTH_TOKEN", "PORT"] {
            assert!(!decides_what_runs(name), "{name}");
        }
    }
}
