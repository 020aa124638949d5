//! What Tab offers in a shell beside the words of the command line itself: the agents, templates, sessions and workflows
//! that are there. The shell runs this very program for it, told so by a variable; without a daemon fewer things are offered.

use clap::{Arg, Command, CommandFactory};
use clap_complete::{
    ArgValueCandidates, CompletionCandidate,
    env::{CompleteEnv, Shells},
};
use serde_json::Value;
use wire::daemon::Empty;

use crate::{
    args::{Arguments, GlobalArgs},
    config::{self, Config},
    connection::Connection,
    endpoints,
};

/// By which a shell says that it wants words to offer.
const VARIABLE: &str = "AGENTCRAFT_COMPLETE";

const PROGRAM: &str = "agentcraft";

/// In bash a colon begins a new word, and targets have one.
const BASH_WORDS: &str = "COMP_WORDBREAKS=${COMP_WORDBREAKS//:}\n";

/// Answers a shell and exits; returns if no shell asks.
pub(crate) fn answer() {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// What a shell has to run once; nothing for a shell that is not known.
pub(crate) fn script(shell: &str) -> Vec<u8> {
    let mut script = Vec::new();
    if shell == "bash" {
        script.extend_from_slice(BASH_WORDS.as_bytes());
    }
    if let Some(shell) = Shells::builtins().completer(shell) {
        let written = shell.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script);
        written.expect("a vector takes everything");
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
    let is_target = || {
        let names = arg.get_value_names().unwrap_or_default();
        names.iter().any(|name| name == "TARGET")
    };
    match (path.split(' ').next()?, arg.get_id().as_str()) {
        (_, "name") if is_target() => Some(targets),
        ("agent", "name" | "names") if path != "agent create" => Some(agents),
        (_, "template") | ("template", "name") => Some(templates),
        (_, "session_id") | ("session", "id" | "session") | ("journal", "session") => {
            Some(sessions)
        }
        (_, "agent") => Some(agents),
        ("workflow", "workflow") => Some(workflows),
        _ => None,
    }
}

fn targets() -> Vec<CompletionCandidate> {
    let kinds = [("template", templates as Offer), ("workflow", workflows)];
    let made = kinds.into_iter().flat_map(|(kind, offer)| {
        let named = move |found: CompletionCandidate| found.add_prefix(format!("{kind}:"));
        offer().into_iter().map(named)
    });
    agents().into_iter().chain(made).collect()
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
    let candidate = |row: &Value| {
        let about = row[about].as_str().map(|about| about.to_owned().into());
        Some(CompletionCandidate::new(row[name].as_str()?).help(about))
    };
    rows.iter().filter_map(candidate).collect()
}

fn config() -> Option<Config> {
    Config::resolve(&GlobalArgs::default(), config::environment()).ok()
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
        ] {
            assert!(offers(path, id), "{path} {id}");
        }
        assert!(!offers("agent create", "name"));
        assert!(!offers("workflow new", "name"));
    }

    #[test]
    fn there_is_a_script_for_every_shell() {
        for shell in ["bash", "zsh", "fish"] {
            let script = String::from_utf8(script(shell)).unwrap();
            assert!(script.contains(VARIABLE), "{shell}: {script}");
        }
    }
}
