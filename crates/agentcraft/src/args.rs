//! The command line as types: what the user typed, nothing about what it means. The doc comments are the help.

mod acp_serve;
mod agent;
mod component;
mod install;
mod network;
mod node;
mod office;
mod proxy;
mod record;
mod run;
mod session;
mod since;
mod talk;
mod target;
mod template;
mod values;
mod workflow;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(crate) use acp_serve::AcpServeArgs;
pub(crate) use agent::{
    AgentCommand, AttachArgs, CreateArgs, DestroyArgs, DetachArgs, NamesArgs, OverrideArgs,
    ResolveArgs,
};
pub(crate) use component::{ComponentCommand, McpCommand, ShowArgs};
pub(crate) use install::{BundleArgs, DebugCommand, ServiceCommand, UpgradeCheckArgs};
pub(crate) use network::{
    AdmitArgs, DashboardArgs, DelegateArgs, DelegationCommand, IdArgs, IntentArgs, PairArgs,
    PeerCommand, TokenCommand,
};
pub(crate) use node::{
    CompletionsArgs, DaemonCommand, DoctorArgs, ManArgs, ReportFormat, RestartArgs, SchemaArgs,
    SchemaKind, Shell,
};
pub(crate) use office::{
    ComputerCommand, ComputerJoinArgs, ComputerLoginArgs, McpOfficeArgs, OfficeCallArgs,
    OfficeCommand, OfficeConfigArgs, OfficeDesktopArgs, OfficeProfile, OfficeServeArgs,
    OfficeSkillsArgs, OfficeToolsArgs, OfficeUploadArgs, PlaceArgs,
};
pub(crate) use proxy::{EditorArgs, EditorKind, ProxyArgs, SessionFolder};
pub(crate) use record::{JournalArgs, PolicyCommand, PolicyShowArgs, PolicyTestArgs};
pub(crate) use run::RemoteRunArgs;
pub(crate) use session::{
    AnswerArgs, ExportArgs, ExportFormat, SessionCommand, SessionTreeArgs, WatchArgs,
};
pub(crate) use since::Since;
pub(crate) use talk::{ChatArgs, PromptArgs, RunArgs, TalkFormat, TalkFormatArgs};
pub(crate) use target::TargetArg;
pub(crate) use template::TemplateCommand;
pub(crate) use values::{Format, FormatArgs, Pair};
pub(crate) use workflow::{
    GraphArgs, HistoryArgs, NewArgs, RerunArgs, ResumeArgs, RunWorkflowArgs, ShowWorkflowArgs,
    StatusArgs, WorkflowCommand,
};

const AFTER_HELP: &str = "\
Examples:
  agentcraft up                                       start a node here and see what to try
  agentcraft daemon start                             start the daemon in the background
  agentcraft agent create reviewer -t code-review     create an agent from a template
  agentcraft agent start reviewer                     start its process
  agentcraft agent chat reviewer                      talk to it
  agentcraft agent run reviewer -p \"Review src\"      one prompt, one answer
  agentcraft doctor                                   find out what is missing

Exit codes:
  0 done   1 failed   2 wrong usage   3 no daemon   4 not found   5 invalid file";

/// Runs coding agents as managed services.
#[derive(Debug, Parser)]
#[command(name = "agentcraft", version, after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What every command understands.
#[derive(Debug, Default, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Folder of everything agentcraft keeps [env: AGENTCRAFT_HOME] [default: ~/.agentcraft]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Socket of the daemon [env: AGENTCRAFT_SOCKET] [default: HOME/agentcraft.sock]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Folder of templates and components [default: HOME/configs]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) configs_dir: Option<PathBuf>,
    /// Print without colours [env: NO_COLOR]
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a node here, with samples and an agent to try
    ///
    /// Runs the daemon in this terminal. On the first start it writes sample templates and components into the
    /// configs folder, and creates an agent called `starter`. Nothing of yours is overwritten. Ctrl-C stops it.
    #[command(after_help = "Examples:\n  agentcraft up\n  agentcraft --home ./node up")]
    Up,
    /// Create, start, stop and look at agents
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Be an agent for an editor, on stdin and stdout
    ///
    /// Starts the agent, carries what the editor writes to it, and ends it with the connection. An agent that is busy
    /// is copied for as long as it takes. With --lease the daemon's own agent is used instead, together with whoever
    /// else uses it, and goes on when the editor leaves. docs/editors.md has the settings of editors.
    Proxy(ProxyArgs),
    /// Print the entry that an editor's settings need
    Editor(EditorArgs),
    /// Look at, check and load templates
    #[command(subcommand, visible_alias = "tpl")]
    Template(TemplateCommand),
    /// Look at skills
    #[command(subcommand)]
    Skill(ComponentCommand),
    /// Look at prompts
    #[command(subcommand)]
    Prompt(ComponentCommand),
    /// Look at MCP servers, or be one
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Run workflows, and look at them and at their runs
    #[command(subcommand)]
    Workflow(WorkflowCommand),
    /// Look at, watch, export and end sessions
    #[command(subcommand)]
    Session(SessionCommand),
    /// Search what happened: turns, tool calls, permissions, lives of agents
    Journal(JournalArgs),
    /// Look at and try out the permission rules
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Start, stop and look at the daemon
    #[command(subcommand)]
    Daemon(DaemonCommand),
    /// Print a link to the node's page in a browser
    Dashboard(DashboardArgs),
    /// Say who may use the node over the network
    #[command(subcommand)]
    Token(TokenCommand),
    /// Look at other nodes
    #[command(subcommand)]
    Peer(PeerCommand),
    /// Use the tools that computers lend to an office, or be its server
    #[command(subcommand)]
    Office(OfficeCommand),
    /// Lend tools of this machine to an office
    #[command(subcommand)]
    Computer(ComputerCommand),
    /// Send a prompt to an agent of any node, and show its answer
    Run(RemoteRunArgs),
    /// Send a wish to the node that can fulfil it
    Intent(IntentArgs),
    /// Lend a folder to an agent on another machine
    Delegate(DelegateArgs),
    /// Look at, end and undo what was lent
    #[command(subcommand)]
    Delegation(DelegationCommand),
    /// Check this machine and say what to do about what is missing
    Doctor(DoctorArgs),
    /// Start the node at login, or no longer
    #[command(subcommand)]
    Service(ServiceCommand),
    /// Say whether this version can go on with what an earlier one has kept
    ///
    /// Looks and changes nothing. A store of an older version is brought forward at the next start, after a backup; one of
    /// a newer version is refused.
    UpgradeCheck(UpgradeCheckArgs),
    /// Gather what a report of trouble needs
    #[command(subcommand)]
    Debug(DebugCommand),
    /// Print the JSON Schema of a kind of file
    Schema(SchemaArgs),
    /// Print the completions of a shell
    Completions(CompletionsArgs),
    /// Print the manual page, or write all of them
    Man(ManArgs),
    /// Speak ACP on stdio as an agent whose commands are workflows
    #[command(hide = true)]
    AcpServe(AcpServeArgs),
    /// Watch over the processes of the one who started us (internal)
    #[command(hide = true)]
    Guardian,
    /// Enter a sandbox and become a program (internal)
    #[command(hide = true)]
    SandboxedProgram {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        words: Vec<std::ffi::OsString>,
    },
    /// Speak ACP on stdio as the built-in agent, in this folder (internal)
    #[command(hide = true)]
    BuiltinAgent,
}

impl Arguments {
    /// The format the command prints in, which its errors follow.
    pub(crate) fn format(&self) -> Format {
        match &self.command {
            Some(Command::Agent(command)) => command.format(),
            Some(Command::Template(command)) => command.format(),
            Some(Command::Skill(command) | Command::Prompt(command)) => command.format(),
            Some(Command::Workflow(command)) => command.format(),
            Some(Command::Mcp(command)) => command.format(),
            Some(Command::Session(command)) => command.format(),
            Some(Command::Journal(arguments)) => arguments.format.into(),
            Some(Command::Policy(command)) => command.format(),
            Some(Command::Daemon(command)) => command.format(),
            Some(Command::Doctor(arguments)) => arguments.format.into(),
            Some(Command::UpgradeCheck(arguments)) => arguments.format.into(),
            Some(Command::Dashboard(arguments)) => arguments.format.into(),
            Some(Command::Token(command)) => command.format(),
            Some(Command::Peer(command)) => command.format(),
            Some(Command::Office(command)) => command.format(),
            Some(Command::Run(arguments)) => arguments.output.format.into(),
            Some(Command::Intent(arguments)) => arguments.format.into(),
            Some(Command::Delegate(arguments)) => arguments.format.into(),
            Some(Command::Delegation(command)) => command.format(),
            Some(Command::Service(command)) => command.format(),
            Some(Command::Debug(command)) => command.format(),
            Some(
                Command::Up
                | Command::Proxy(_)
                | Command::Editor(_)
                | Command::Schema(_)
                | Command::Completions(_)
                | Command::Man(_)
                | Command::AcpServe(_)
                | Command::Computer(_)
                | Command::Guardian
                | Command::SandboxedProgram { .. }
                | Command::BuiltinAgent,
            )
            | None => Format::Table,
        }
    }
}

#[cfg(test)]
mod documents_tests;
#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_visible_command_has_examples() {
        fn check(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            if command.has_subcommands() {
                command
                    .get_subcommands()
                    .filter(|inner| !inner.is_hide_set())
                    .for_each(|inner| check(inner, &path));
            } else {
                let after = command
                    .get_after_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                assert!(after.contains("agentcraft "), "{path} has no example");
            }
        }
        check(&Arguments::command(), "");
    }

    #[test]
    fn right_arguments_are_accepted() {
        let cases = [
            "agent run a -p -",
            "agent run a --prompt hi --model m --max-turns 3 --timeout 5 --session-id s --format json",
            "agent run --template t --prompt hi --keep --append-system-prompt x --system-prompt-file f",
            "agent prompt a -m hi --session-id s -f json",
            "agent chat a --session-id s --model m --max-turns 2",
            "session list --agent a -f quiet",
            "session answer s ask-1 --text x",
            "session export s --format markdown",
            "journal --agent a --session s --since 2h --kind turn. --grep x --limit 5 -f json",
            "workflow run x --input a=b -i c=d --dry-run --cwd y -f json",
            "workflow resume 01 --from previous --input a=b",
            "workflow history --workflow x --limit 3 -f json",
            "acp-serve --workflows x --config y",
            "policy test -t t --kind edit --path a --path b --tool x --command y",
        ];
        for case in cases {
            let words = std::iter::once("agentcraft").chain(case.split(' '));
            assert!(Arguments::try_parse_from(words).is_ok(), "{case}");
        }
    }

    #[test]
    fn wrong_arguments_are_refused() {
        let cases = [
            "agent create ../evil -t x",
            "agent create a",
            "agent create a -t x --overwrite --append",
            "agent create a -t x --overwrite",
            "agent create a -t x --launch-mode zzz",
            "agent create a -t x --metadata novalue",
            "agent attach a --pid 0",
            "agent attach a",
            "agent start",
            "skill list -f xml",
            "schema agent",
            "doctor -f quiet",
            "agent run a",
            "agent run -p hi",
            "agent run a -t b -p hi",
            "agent run a -p hi --keep",
            "agent run -t b -p hi --session-id s",
            "agent run a -p hi --timeout 0",
            "agent prompt a",
            "agent chat",
            "session answer s ask-1",
            "session answer s ask-1 --decline --text x",
            "session watch s --from 0",
            "session export s -f table",
            "journal --since yesterday",
            "journal --limit 0",
            "workflow run",
            "workflow run x --input novalue",
            "workflow resume 01 --input a=b",
            "workflow history --limit 0",
            "workflow new ../evil",
            "policy test --kind zzz",
            "policy test --policy f -t x",
        ];
        for case in cases {
            let words = std::iter::once("agentcraft").chain(case.split(' '));
            assert!(Arguments::try_parse_from(words).is_err(), "{case}");
        }
    }
}
