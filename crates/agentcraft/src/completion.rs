//! What Tab offers in a shell beside the words of the command line itself: the agents, templates, sessions, workflows and
//! their runs, peers, delegations and tokens that are there. The shell runs this very program for it, told so by a variable;
//! without a daemon fewer things are offered.

use std::{ffi::OsString, path::Path};

use clap::{Arg, Command, CommandFactory};
use clap_complete::{
    ArgValueCandidates, CompletionCandidate,
    env::{CompleteEnv, Shells},
};
use serde_json::Value;
use wire::daemon::Empty;

use crate::{
    args::{Arguments, GlobalArgs},
    commands::past_runs,
    config::{self, Config},
    connection::Connection,
    endpoints,
    node::Node,
};

/// By which a shell says that it wants words to offer.
const VARIABLE: &str = "AGENTCRAFT_COMPLETE";

const PROGRAM: &str = "agentcraft";

/// In bash a colon begins a new word, and targets have one. Which letters do so is a setting of the whole shell, so words are put
/// together here, and of what is offered that is left out which stands before the last colon already.
const BASH_WORDS: &str = r#"
_agentcraft() {
    local -a whole=()
    local index word at=0 glue=
    for ((index = 0; index < ${#COMP_WORDS[@]}; index++)); do
        word=${COMP_WORDS[index]}
        if ((index > 0)) && [[ -n $glue || $word == :* ]]; then
            whole[${#whole[@]}-1]+=$word
        else
            whole+=("$word")
        fi
        if [[ $word == *: ]]; then glue=1; else glue=; fi
        if ((index == COMP_CWORD)); then at=$((${#whole[@]} - 1)); fi
    done
    local last=$2
    if [[ ${whole[at]} == *:* ]]; then last=${whole[at]}; fi
    local is_split=
    if [[ $COMP_WORDBREAKS == *:* && $last == *:* ]]; then is_split=1; fi
    local -a COMP_WORDS=("${whole[@]}")
    local COMP_CWORD=$at
    _clap_complete_agentcraft "$1" "$last" "$3"
    if [[ -n $is_split ]]; then
        local there=${last%"${last##*:}"}
        for index in "${!COMPREPLY[@]}"; do
            COMPREPLY[index]=${COMPREPLY[index]#"$there"}
        done
    fi
}
complete -o nospace -o bashdefault -F _agentcraft agentcraft
"#;

/// Answers a shell and exits; returns if no shell asks.
pub(crate) fn answer() {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// What a shell has to run once; nothing for a shell that is not known.
pub(crate) fn script(shell: &str) -> Vec<u8> {
    let mut script = Vec::new();
    let is_bash = shell == "bash";
    if let Some(shell) = Shells::builtins().completer(shell) {
        let written = shell.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script);
        written.expect("a vector takes everything");
    }
    if is_bash {
        script.extend_from_slice(BASH_WORDS.as_bytes());
    }
    script
}

fn command() -> Command {
    offering(Arguments::command(), "")
}

/// Has every argument below a command offer what can be said there.
fn offering(command: Command, path: &str) -> Command {
    let command = command.mut_args(|arg| match offer(path, &arg) {
        Some(offer) => arg.add(ArgValueCandidates::new(offer)),
        None => arg,
    });
    command.mut_subcommands(|inner| {
        let path = format!("{path} {}", inner.get_name());
        offering(inner, path.trim_start())
    })
}

type Offer = fn() -> Vec<CompletionCandidate>;

fn offer(path: &str, arg: &Arg) -> Option<Offer> {
    let names = arg.get_value_names().unwrap_or_default();
    let is_target = names.iter().any(|name| name == "TARGET");
    match (path, path.split(' ').next()?, arg.get_id().as_str()) {
        _ if is_target => Some(targets),
        ("agent create", _, "template") => Some(makers),
        (_, _, "template") | (_, "template", "name") => Some(templates),
        (_, _, "session_id") | (_, "session", "id") | (_, "journal", "session") => Some(sessions),
        ("workflow new", _, _) => None,
        (_, "workflow", "workflow") => Some(workflows),
        (_, "workflow", "run") => Some(runs),
        ("skill show", _, "name") => Some(|| listed("skill.list", "name", "description")),
        ("prompt show", _, "name") => Some(|| listed("prompt.list", "name", "description")),
        ("mcp show", _, "name") => Some(|| listed("mcp.list", "name", "description")),
        ("peer add", _, _) => None,
        (_, "peer", "id" | "node") | (_, "delegate" | "intent", "peer") => Some(peers),
        (_, "delegation", "id") => Some(|| kept("/delegations", "delegations", "id", "task")),
        (_, "token", "id") => Some(|| kept("/tokens", "tokens", "id", "name")),
        _ => None,
    }
}

/// Everybody who can take a turn.
fn targets() -> Vec<CompletionCandidate> {
    let templates = templates().into_iter();
    let templates = templates.map(|found| found.add_prefix("template:"));
    agents()
        .into_iter()
        .chain(templates)
        .chain(made())
        .collect()
}

/// Everything that an agent can be made of.
fn makers() -> Vec<CompletionCandidate> {
    templates().into_iter().chain(made()).collect()
}

/// Workflows, and peers with what they can do.
fn made() -> impl Iterator<Item = CompletionCandidate> {
    let workflows = workflows().into_iter();
    let peers = nodes().into_iter().flat_map(|peer| {
        let alias = peer["alias"].as_str().unwrap_or_default().to_owned();
        let able = rows(&peer["capabilities"]);
        let agents = able.iter().filter_map(|able| able["id"].as_str());
        let agents = agents.map(|agent| format!("peer:{alias}/{agent}"));
        let both: Vec<String> = std::iter::once(format!("peer:{alias}"))
            .chain(agents)
            .collect();
        both.into_iter().map(CompletionCandidate::new)
    });
    workflows
        .map(|found| found.add_prefix("workflow:"))
        .chain(peers)
}

fn peers() -> Vec<CompletionCandidate> {
    kept("/peers", "peers", "alias", "name")
}

fn nodes() -> Vec<Value> {
    behind_the_port("/peers", "peers")
}

fn runs() -> Vec<CompletionCandidate> {
    let found = config().map(|config| past_runs(&config));
    let found = found.unwrap_or_default().into_iter();
    found
        .map(|run| CompletionCandidate::new(run.id).help(Some(run.workflow.into())))
        .collect()
}

fn agents() -> Vec<CompletionCandidate> {
    listed("agent.list", "name", "status")
}

fn templates() -> Vec<CompletionCandidate> {
    listed("template.list", "name", "description")
}

fn sessions() -> Vec<CompletionCandidate> {
    listed("session.list", "sessionId", "agentName")
}

fn workflows() -> Vec<CompletionCandidate> {
    let (Some(config), Ok(cwd)) = (config(), std::env::current_dir()) else {
        return Vec::new();
    };
    let found = endpoints::shelf(&config).list(&cwd).into_iter();
    found
        .map(|found| CompletionCandidate::new(found.name))
        .collect()
}

/// What the daemon lists, with a word about each; nothing if there is no daemon.
fn listed(method: &str, name: &str, about: &str) -> Vec<CompletionCandidate> {
    let Some(mut connection) = config().and_then(|config| Connection::open(&config).ok()) else {
        return Vec::new();
    };
    let rows: Vec<Value> = connection.call(method, &Empty {}).unwrap_or_default();
    candidates(&rows, name, about)
}

/// The same of what lies behind the node's port.
fn kept(path: &str, name: &str, id: &str, about: &str) -> Vec<CompletionCandidate> {
    candidates(&behind_the_port(path, name), id, about)
}

fn behind_the_port(path: &str, name: &str) -> Vec<Value> {
    let node = config().and_then(|config| Node::open(&config).ok());
    let answer = node.and_then(|node| node.get(path).ok());
    answer.map(|answer| rows(&answer[name])).unwrap_or_default()
}

fn rows(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn candidates(rows: &[Value], name: &str, about: &str) -> Vec<CompletionCandidate> {
    let candidate = |row: &Value| {
        let about = row[about].as_str().map(|about| about.to_owned().into());
        Some(CompletionCandidate::new(row[name].as_str()?).help(about))
    };
    rows.iter().filter_map(candidate).collect()
}

/// The node that the line means which is being typed.
fn config() -> Option<Config> {
    let environment = config::environment();
    let home = platform::system::home_dir(&environment);
    let global = global(
        std::env::args_os().skip_while(|word| word != "--"),
        home.as_deref(),
    );
    Config::resolve(&global, environment).ok()
}

/// What the words say that every command understands. A shell hands them over as they were typed.
fn global(words: impl Iterator<Item = OsString>, home: Option<&Path>) -> GlobalArgs {
    let mut global = GlobalArgs::default();
    let mut words = words.map(|word| word.to_string_lossy().into_owned());
    while let Some(word) = words.next() {
        let (flag, value) = match word.split_once('=') {
            Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
            None => (word, None),
        };
        let slot = match flag.as_str() {
            "--home" => &mut global.home,
            "--socket" => &mut global.socket,
            "--configs-dir" => &mut global.configs_dir,
            _ => continue,
        };
        let Some(value) = value.or_else(|| words.next()) else {
            break;
        };
        *slot = Some(match (value.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => value.into(),
        });
    }
    global
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_name_something_offer_it_and_new_names_are_left_alone() {
        let offers = |path: &str, id: &str| {
            let mut command = &Arguments::command();
            for word in path.split(' ') {
                command = command.find_subcommand(word).unwrap();
            }
            let arg = command.get_arguments().find(|arg| arg.get_id() == id);
            offer(path, arg.unwrap()).is_some()
        };
        for (path, id) in [
            ("agent run", "name"),
            ("agent stop", "names"),
            ("agent create", "template"),
            ("agent chat", "session_id"),
            ("session close", "id"),
            ("workflow run", "workflow"),
            ("proxy", "name"),
            ("journal", "agent"),
            ("workflow status", "run"),
            ("workflow cancel", "run"),
            ("skill show", "name"),
            ("peer show", "id"),
            ("peer pair", "node"),
            ("delegate", "peer"),
            ("delegation diff", "id"),
            ("token revoke", "id"),
        ] {
            assert!(offers(path, id), "{path} {id}");
        }
        assert!(!offers("agent create", "name"));
        assert!(!offers("workflow new", "name"));
        assert!(!offers("peer add", "url"));
        assert!(!offers("token create", "name"));
    }

    #[test]
    fn the_node_is_the_one_that_the_line_means() {
        let words = "-- agentcraft --home ~/node agent --socket=/s stop x --configs-dir c";
        let words = words.split(' ').map(OsString::from);
        let found = global(words, Some(Path::new("/home/ann")));
        assert_eq!(found.home.as_deref(), Some(Path::new("/home/ann/node")));
        assert_eq!(found.socket.as_deref(), Some(Path::new("/s")));
        assert_eq!(found.configs_dir.as_deref(), Some(Path::new("c")));
    }

    #[test]
    fn there_is_a_script_for_every_shell() {
        for shell in ["bash", "zsh", "fish"] {
            let script = String::from_utf8(script(shell)).unwrap();
            assert!(script.contains(VARIABLE), "{shell}: {script}");
        }
    }
}
