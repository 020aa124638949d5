//! `agentcraft office …`, `agentcraft computer …` and `agentcraft mcp office`: tools that computers lend to an agent.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use super::{Format, FormatArgs, ReportFormat};

/// The longest time of a call, which is what servers and computers give it.
const DAY_SECS: u64 = 24 * 60 * 60;

#[derive(Debug, Subcommand)]
pub(crate) enum OfficeCommand {
    /// Be an office server, without a daemon
    ///
    /// Prints its address, and a token where no file of tokens is given. A node whose daemon listens is an office
    /// server already. Ctrl-C ends it.
    #[command(after_help = "Examples:\n  \
        agentcraft office serve\n  \
        agentcraft office serve --listen 0.0.0.0:7421 --token-file tokens.txt --cert server.pem --key server.key\n\n\
        A file of tokens has lines TOKEN ROLE OFFICE; ROLE is agent, computer or any, OFFICE may be *.\n\n\
        Servers that name the same database of a Redis act as one; give all of them the same file of tokens.")]
    Serve(OfficeServeArgs),
    /// List the tools of an office
    #[command(after_help = "Examples:\n  \
        agentcraft office tools http://nova9.local:7420 studio --token-file agent.token\n  \
        agentcraft office tools http://nova9.local:7420 studio --computer nova -f json")]
    Tools(OfficeToolsArgs),
    /// Call a tool of a computer
    #[command(after_help = "Examples:\n  \
        agentcraft office call http://nova9.local:7420 studio nova clock__now\n  \
        agentcraft office call http://nova9.local:7420 studio nova files__read '{\"path\": \"notes.md\"}' --timeout 120")]
    Call(OfficeCallArgs),
    /// Show the windows of a computer
    #[command(after_help = "Examples:\n  \
        agentcraft office desktop http://nova9.local:7420 studio nova --size 3")]
    Desktop(OfficeDesktopArgs),
    /// Show the MCP servers of a computer, without their secrets
    #[command(
        after_help = "Examples:\n  agentcraft office config http://nova9.local:7420 studio nova"
    )]
    Config(OfficeConfigArgs),
    /// List the skills of a computer, or print a file of one
    #[command(after_help = "Examples:\n  \
        agentcraft office skills http://nova9.local:7420 studio nova\n  \
        agentcraft office skills http://nova9.local:7420 studio nova tidy scripts/run.py")]
    Skills(OfficeSkillsArgs),
    /// Send a file to a computer, and print the path it has there
    #[command(after_help = "Examples:\n  \
        agentcraft office upload http://nova9.local:7420 studio nova notes.md")]
    Upload(OfficeUploadArgs),
    /// List who is in an office
    #[command(after_help = "Examples:\n  agentcraft office rooms http://nova9.local:7420 studio")]
    Rooms(OfficeRoomsArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ComputerCommand {
    /// Lend the tools of MCP servers to the agent of an office
    ///
    /// Starts the servers, joins the office, and joins again after every loss. Ctrl-C leaves, and ends the servers.
    /// The node's permission rules decide on every call; what they say nothing of, of a tool that is not marked
    /// `auto_apply`, is asked about in the terminal.
    #[command(
        visible_alias = "run",
        after_help = "Examples:\n  \
        agentcraft computer join http://nova9.local:7420 studio --token-file computer.token\n  \
        agentcraft computer join https://office.example.org studio --name laptop --config servers.json --yes"
    )]
    Join(ComputerJoinArgs),
    /// Log in at an MCP server that wants it, in a browser
    ///
    /// Prints an address to open, waits until somebody has agreed there, and keeps the login for this home. Computers
    /// and agents of this home use it from then on, and renew it.
    #[command(after_help = "Examples:\n  \
        agentcraft computer login search --config servers.json\n  \
        agentcraft computer login search --config servers.json --forget")]
    Login(ComputerLoginArgs),
}

/// Which office, as whom, and how it is reached.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// Address of the office server
    pub(crate) url: String,
    /// The office
    pub(crate) office: String,
    /// What we are called there; the machine's name for a computer, agentcraft for an agent
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// A file that holds our token [env: AGENTCRAFT_OFFICE_TOKEN] [default: the owner's, for the node of this home]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Which names of events the server knows
    #[arg(long, value_enum, default_value_t, value_name = "PROFILE")]
    pub(crate) profile: OfficeProfile,
    /// A file of certificates to trust instead of the public ones
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Our certificate, for servers that ask for one
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// The key of our certificate
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OfficeProfile {
    /// Those of the released 0.4 libraries
    #[default]
    Released,
    /// Those of the specification 0.1.2
    Specified,
}

#[derive(Debug, Args)]
pub(crate) struct OfficeServeArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7421")]
    pub(crate) listen: SocketAddr,
    /// A file of tokens; without it one is made that opens every office
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// The server's certificate, with its chain
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// The key of the certificate
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Let in only those who show a certificate that is vouched for in this file
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) client_ca: Option<PathBuf>,
    /// Act as one with the servers that share this Redis, such as redis://127.0.0.1:6379/0
    /// [env: AGENTCRAFT_OFFICE_REDIS]
    #[arg(long, value_name = "URL", conflicts_with = "redis_file")]
    pub(crate) redis: Option<String>,
    /// A file that holds the address of the Redis, which may have a password
    #[arg(long, value_name = "FILE")]
    pub(crate) redis_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct OfficeToolsArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Those of one computer only
    #[arg(long, value_name = "COMPUTER")]
    pub(crate) computer: Option<String>,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct OfficeCallArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The computer
    pub(crate) computer: String,
    /// The tool, as the list shows it
    pub(crate) tool: String,
    /// Its arguments, as a JSON object
    #[arg(default_value = "{}", hide_default_value = true)]
    pub(crate) arguments: String,
    /// How many seconds it may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=DAY_SECS))]
    pub(crate) timeout: u64,
    /// How to print
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: ReportFormat,
}

#[derive(Debug, Args)]
pub(crate) struct OfficeDesktopArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The computer
    pub(crate) computer: String,
    /// How many windows at most
    #[arg(long, value_name = "N")]
    pub(crate) size: Option<usize>,
    /// One window only
    #[arg(long, value_name = "URI")]
    pub(crate) window: Option<String>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: ReportFormat,
}

#[derive(Debug, Args)]
pub(crate) struct OfficeConfigArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The computer
    pub(crate) computer: String,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct OfficeSkillsArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The computer
    pub(crate) computer: String,
    /// The skill whose text is printed; without it they are listed
    pub(crate) skill: Option<String>,
    /// Another file of the skill
    pub(crate) path: Option<String>,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct OfficeUploadArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The computer
    pub(crate) computer: String,
    /// The file
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct OfficeRoomsArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) output: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ComputerJoinArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// A JSON file of MCP servers; without it those of the configs folder are lent. Changes of it are noticed
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A folder of skills (NAME/SKILL.md) that the agent may read
    #[arg(long, value_name = "FOLDER")]
    pub(crate) skills: Option<PathBuf>,
    /// A folder that the agent may send files to
    #[arg(long, value_name = "FOLDER")]
    pub(crate) uploads: Option<PathBuf>,
    /// Ask again for inputs that were typed before
    #[arg(long)]
    pub(crate) ask: bool,
    /// Carry out calls without asking, where the file does not say `auto_apply: false`
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ComputerLoginArgs {
    /// The server, as the file calls it
    pub(crate) server: String,
    /// The JSON file of MCP servers that names it; without it those of the configs folder are meant
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Forget the login that is kept
    #[arg(long)]
    pub(crate) forget: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    agentcraft mcp office http://nova9.local:7420 studio --token-file agent.token --listen 127.0.0.1:7422\n  \
    claude mcp add studio -- agentcraft mcp office http://nova9.local:7420 studio --token-file ~/agent.token")]
pub(crate) struct McpOfficeArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// How many seconds a call may take
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=DAY_SECS))]
    pub(crate) timeout: u64,
    /// Use the daemon's link to the office, together with the other agents of this node, if there is a daemon
    #[arg(long, conflicts_with_all = ["name", "ca", "cert", "profile", "listen"])]
    pub(crate) shared: bool,
    /// Serve many clients over HTTP at /mcp of this address, instead of one on standard input and output
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
    /// A file that holds the token of those clients; without it one is made and printed
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub(crate) client_token_file: Option<PathBuf>,
    /// The certificate shown to those clients, with its chain
    #[arg(long, value_name = "FILE", requires_all = ["listen", "listen_key"])]
    pub(crate) listen_cert: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "listen_cert")]
    pub(crate) listen_key: Option<PathBuf>,
}

impl OfficeCommand {
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Serve(_) => Format::Table,
            Self::Tools(arguments) => arguments.output.format,
            Self::Call(arguments) => arguments.format.into(),
            Self::Desktop(arguments) => arguments.format.into(),
            Self::Config(arguments) => arguments.output.format,
            Self::Skills(arguments) => arguments.output.format,
            Self::Upload(_) => Format::Table,
            Self::Rooms(arguments) => arguments.output.format,
        }
    }
}
