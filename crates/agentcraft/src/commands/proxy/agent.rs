//! The agent's process: what it is given, and its end.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use catalog::EnvironmentPattern;
use platform::{Group, Guardian, Owner, Spawn, Stream, base_environment};
use wire::daemon::ResolveResult;

use super::{Client, instance::Instance, of};
use crate::{
    config::{Config, Environment},
    error::CommandError,
};

/// An agent that runs and has been sent nothing yet.
#[derive(Debug)]
pub(super) struct Agent {
    group: Group,
    stdin: OwnedFd,
}

impl Agent {
    /// Starts it with its output on the client's own pipe and its errors on ours. Needs the runtime.
    pub(super) fn start(
        instance: &Instance,
        client: &Client,
        guardian: &Guardian,
        owner: &Owner,
        config: &Config,
    ) -> Result<Self, CommandError> {
        let resolved = instance.resolved();
        let output = client.output.try_clone().map_err(of("share stdout"))?;
        let errors = io::stderr().as_fd().try_clone_to_owned();
        let errors = errors.map_err(of("share stderr"))?;
        let name = |error| CommandError::machine("name the agent's process", error);
        let spawn = Spawn {
            program: resolved.command.clone().into(),
            args: resolved.args.iter().map(OsString::from).collect(),
            env: environment(resolved, &config.environment),
            cwd: resolved.workspace_dir.clone().into(),
            stdin: Stream::Piped,
            stdout: Stream::File(output.into()),
            stderr: Stream::File(errors.into()),
            owner: owner.tag(&resolved.instance_name).map_err(name)?,
        };
        let (group, pipes) = spawn.spawn(guardian).map_err(|error| {
            CommandError::machine(format!("start {}", resolved.instance_name), error)
        })?;
        let stdin = match pipes.stdin {
            Some(stdin) => stdin.into_owned_fd(),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        let stdin = stdin.map_err(of("write to the agent"))?;
        Ok(Self { group, stdin })
    }

    pub(super) fn pid(&self) -> u32 {
        self.group.pid()
    }

    pub(super) fn split(self) -> (Group, OwnedFd) {
        (self.group, self.stdin)
    }

    /// Ends one that nobody needs: it has done nothing yet.
    pub(super) async fn end(self) {
        self.group.end(Duration::ZERO).await;
    }
}

/// The few variables of ours that every program needs, those its backend and template name, and those its template sets.
fn environment(resolved: &ResolveResult, ours: &Environment) -> BTreeMap<OsString, OsString> {
    let patterns: Vec<_> = resolved
        .pass_env
        .iter()
        .filter_map(|pattern| EnvironmentPattern::parse(pattern))
        .collect();
    let named = |name: &OsString| {
        name.to_str()
            .is_some_and(|name| patterns.iter().any(|pattern| pattern.matches(name)))
    };
    let inherited = || {
        ours.iter()
            .map(|(name, value)| (name.clone(), value.clone()))
    };
    let mut environment = base_environment(inherited());
    environment.extend(inherited().filter(|(name, _)| named(name)));
    let set = resolved.env.iter();
    environment.extend(set.map(|(name, value)| (name.into(), value.into())));
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_sees_what_it_needs_of_our_environment_and_no_more() {
        let resolved = ResolveResult {
            instance_name: "a".to_owned(),
            workspace_dir: "/w".to_owned(),
            backend_type: "custom".to_owned(),
            command: "run".to_owned(),
            args: Vec::new(),
            env: BTreeMap::from([("OWN".to_owned(), "set".to_owned())]),
            pass_env: vec!["KEY_*".to_owned(), "*".to_owned()],
            cwd: "workspace".to_owned(),
            created: false,
        };
        let ours = ["PATH", "KEY_A", "OWN", "SECRET"]
            .map(|name| (OsString::from(name), OsString::from("ours")))
            .into();
        let seen: Vec<_> = environment(&resolved, &ours)
            .into_iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        assert_eq!(seen, ["KEY_A=ours", "OWN=set", "PATH=ours"]);
    }
}
