//! `agentcraft agent …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use domain::Name;

use super::{ChatArgs, Format, FormatArgs, Pair, PromptArgs, RunArgs, TargetArg};

/// The modes and policies as they are typed; the daemon decides what they mean.
const LAUNCH_MODES: [&str; 4] = ["direct", "acp-background", "acp-service", "one-shot"];
const WORKSPACE_POLICIES: [&str; 2] = ["persistent", "ephemeral"];

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// Create an agent from a template
    ///
    /// Writes its workspace; starts nothing.
    #[command(after_help = "Examples:\n  \
        agentcraft agent create reviewer -t code-review\n  \
        agentcraft agent create helper -t starter --work-dir . --append\n  \
        agentcraft agent create watcher -t monitor --launch-mode acp-service --metadata team=core")]
    Create(CreateArgs),
    /// Start agents
    #[command(
        after_help = "Examples:\n  agentcraft agent start reviewer\n  agentcraft agent start reviewer helper"
    )]
    Start(NamesArgs),
    /// Stop agents
    ///
    /// Asks the process group to end, and ends it after the grace period.
    #[command(after_help = "Examples:\n  \
        agentcraft agent stop reviewer\n  \
        agentcraft agent list -f quiet | xargs agentcraft agent stop")]
    Stop(NamesArgs),
    /// Show one agent in detail, or all of them
    #[command(
        after_help = "Examples:\n  agentcraft agent status reviewer\n  agentcraft agent status reviewer -f json"
    )]
    Status(StatusArgs),
    /// List the agents
    #[command(after_help = "Examples:\n  agentcraft agent list\n  agentcraft agent list -f quiet")]
    List(FormatArgs),
    /// Destroy an agent and its workspace
    ///
    /// A folder given with --work-dir keeps every file of yours. A running agent is stopped first; that is asked
    /// about on a terminal and needs --force elsewhere.
    #[command(
        after_help = "Examples:\n  agentcraft agent destroy reviewer\n  agentcraft agent destroy reviewer --force"
    )]
    Destroy(DestroyArgs),
    /// Give an agent one prompt and print its answer
    ///
    /// A started agent is used as it is; another one is started for as long as the prompt takes. With --template an
    /// agent is made just for it and destroyed afterwards.
    #[command(after_help = "Examples:\n  \
        agentcraft agent run reviewer --prompt 'Review the last commit'\n  \
        git diff | agentcraft agent run reviewer --prompt -\n  \
        agentcraft agent run workflow:triage --prompt 'The build is red'\n  \
        agentcraft agent run 'peer:build-box?workspace=./app' --prompt 'Fix the tests'\n  \
        agentcraft agent run --template code-review --prompt 'Review src' --format json")]
    Run(RunArgs),
    /// Give a started agent a message and print its answer
    #[command(after_help = "Examples:\n  \
        agentcraft agent prompt reviewer -m 'And the tests?'\n  \
        agentcraft agent prompt reviewer -m 'Go on' --session-id s-0199a")]
    Prompt(PromptArgs),
    /// Talk to an agent
    ///
    /// An agent that is not started is started for the time of the chat. On a terminal Ctrl-C cancels what the agent
    /// does, and leaves when it does nothing. Elsewhere every line of stdin is a prompt.
    #[command(
        after_help = "Examples:\n  agentcraft agent chat reviewer\n  agentcraft agent chat reviewer --session-id s-0199a"
    )]
    Chat(ChatArgs),
    /// Print what is needed to start the agent's process yourself; starts nothing
    #[command(after_help = "Examples:\n  \
        agentcraft agent resolve reviewer\n  \
        agentcraft agent resolve reviewer -t code-review -f json")]
    Resolve(ResolveArgs),
    /// Tell the daemon that you started the agent's process
    #[command(
        after_help = "Examples:\n  agentcraft agent attach reviewer --pid 4242 --metadata client=editor"
    )]
    Attach(AttachArgs),
    /// Tell the daemon that the process you attached is no longer the agent's
    #[command(
        after_help = "Examples:\n  agentcraft agent detach reviewer\n  agentcraft agent detach reviewer --cleanup"
    )]
    Detach(DetachArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Name of the new agent: letters, digits, `_` and `-`
    pub(crate) name: Name,
    /// Template to create it from, or a target such as workflow:NAME or peer:NODE/AGENT
    #[arg(short, long)]
    pub(crate) template: TargetArg,
    #[command(flatten)]
    pub(crate) overrides: OverrideArgs,
    /// Work in this folder instead of one of our own
    #[arg(long, value_name = "DIR")]
    pub(crate) work_dir: Option<PathBuf>,
    /// In a --work-dir with files: replace those of the same name
    #[arg(long, requires = "work_dir", conflicts_with = "append")]
    pub(crate) overwrite: bool,
    /// In a --work-dir with files: write only those not there yet
    #[arg(long, requires = "work_dir")]
    pub(crate) append: bool,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

/// What may differ from the template.
#[derive(Debug, Args)]
pub(crate) struct OverrideArgs {
    /// How it is launched, and what its exit means
    #[arg(long, value_name = "MODE", value_parser = LAUNCH_MODES)]
    pub(crate) launch_mode: Option<String>,
    /// Whether the workspace outlives its use
    #[arg(long, value_name = "POLICY", value_parser = WORKSPACE_POLICIES)]
    pub(crate) workspace_policy: Option<String>,
    /// Something to remember with the agent; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) metadata: Vec<Pair>,
}

#[derive(Debug, Args)]
pub(crate) struct NamesArgs {
    /// The agents: each by its name, or workflow:NAME, template:NAME, peer:NODE/AGENT, peer:NODE?workspace=DIR
    #[arg(required = true, value_name = "TARGET")]
    pub(crate) names: Vec<TargetArg>,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The agent: its name, or a target such as workflow:NAME; all of them without it
    #[arg(value_name = "TARGET")]
    pub(crate) name: Option<TargetArg>,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DestroyArgs {
    /// The agent: its name, or a target such as workflow:NAME
    #[arg(value_name = "TARGET")]
    pub(crate) name: TargetArg,
    /// Do not ask, let go of a client's process too, and be content if there is no such agent
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ResolveArgs {
    /// The agent: its name, or a target such as workflow:NAME
    #[arg(value_name = "TARGET")]
    pub(crate) name: TargetArg,
    /// Template to create it from if there is no such agent, or a target such as workflow:NAME
    #[arg(short, long)]
    pub(crate) template: Option<TargetArg>,
    #[command(flatten)]
    pub(crate) overrides: OverrideArgs,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// The agent: its name, or a target such as workflow:NAME
    #[arg(value_name = "TARGET")]
    pub(crate) name: TargetArg,
    /// The process you started
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: u32,
    /// Something to remember with the agent; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) metadata: Vec<Pair>,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DetachArgs {
    /// The agent: its name, or a target such as workflow:NAME
    #[arg(value_name = "TARGET")]
    pub(crate) name: TargetArg,
    /// Remove an ephemeral workspace, and the agent with it
    #[arg(long)]
    pub(crate) cleanup: bool,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

impl AgentCommand {
    pub(crate) fn format(&self) -> Format {
        let output = match self {
            Self::Create(arguments) => &arguments.output,
            Self::Start(arguments) | Self::Stop(arguments) => &arguments.output,
            Self::Status(arguments) => &arguments.output,
            Self::List(output) => output,
            Self::Destroy(arguments) => &arguments.output,
            Self::Resolve(arguments) => &arguments.output,
            Self::Run(arguments) => return arguments.output.format.into(),
            Self::Prompt(arguments) => return arguments.output.format.into(),
            Self::Chat(_) => return Format::Table,
            Self::Attach(arguments) => &arguments.output,
            Self::Detach(arguments) => &arguments.output,
        };
        output.format
    }
}

#[cfg(test)]
mod tests {
    use domain::lifecycle::{LaunchMode, WorkspacePolicy};

    use super::*;

    #[test]
    fn modes_and_policies_are_those_of_the_contract() {
        assert_eq!(LaunchMode::ALL.map(|(word, _)| word), LAUNCH_MODES);
        assert_eq!(
            WorkspacePolicy::ALL.map(|(word, _)| word),
            WORKSPACE_POLICIES
        );
    }
}
