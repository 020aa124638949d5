//! A computer in its office: what it says while it is there, and what it does when its files change.

use std::{path::Path, sync::Arc};

use mcp::Logins;
use smcp::{
    LinkError, Standing,
    computer::{Computer, ServerTool},
};
use tokio_util::sync::CancellationToken;
use wire::smcp::Change;

use crate::{
    args::ComputerJoinArgs,
    config::Config,
    error::CommandError,
    office::{self, Absent, Consent, Inputs, Kept, Lending, Offer, Replaced, Watch},
    render::{Screen, one_line},
};

/// Where the servers are written, and who gives the values that they ask for.
pub(super) struct Servers<'a> {
    pub(super) arguments: &'a ComputerJoinArgs,
    pub(super) config: &'a Config,
    pub(super) inputs: Inputs,
}

impl Servers<'_> {
    /// Reads them, asks for what they need, and says what cannot be lent.
    pub(super) async fn read(
        &self,
        kept: Kept,
        screen: &mut Screen,
    ) -> Result<Offer, CommandError> {
        let consent = match self.arguments.yes {
            true => Consent::Given,
            false => Consent::Asked,
        };
        let listing = office::read_listing(self.arguments.config.as_deref(), consent, self.config)?;
        let found = self.inputs.values(&listing.wanted(), kept).await;
        for problem in found.problems {
            screen.warning(&problem)?;
        }
        let offer = listing.fill(&found.values, self.config);
        for unusable in &offer.unusable {
            let words = format!("{} is not lent: {}", unusable.server, unusable.reason);
            screen.warning(&one_line(&words))?;
        }
        Ok(offer)
    }
}

/// What may change while the computer is in the office.
pub(super) struct Watches {
    servers: Watch,
    skills: Watch,
    logins: Watch,
}

impl Watches {
    pub(super) fn start(arguments: &ComputerJoinArgs, origin: &Path, logins: &Logins) -> Self {
        Self {
            servers: match arguments.config {
                Some(_) => Watch::file(origin),
                None => Watch::folder(origin),
            },
            skills: match &arguments.skills {
                Some(folder) => Watch::folder(folder),
                None => Watch::idle(),
            },
            logins: Watch::file(&logins.file()),
        }
    }
}

/// A computer at work.
pub(super) struct Stay<'a> {
    pub(super) place: String,
    pub(super) servers: Servers<'a>,
    pub(super) lending: Arc<Lending>,
    pub(super) computer: Computer,
}

/// What was last said, so that nothing is said twice.
#[derive(Default)]
struct Said {
    tools: Vec<ServerTool>,
    absent: Vec<Absent>,
    standing: Option<String>,
    has_joined: bool,
    /// A server has said that something of it is new.
    is_news: bool,
}

impl Stay<'_> {
    /// Says what happens until told to stop, or until the office refuses us before it ever let us in.
    pub(super) async fn until(
        &self,
        stop: &CancellationToken,
        watches: &mut Watches,
        screen: &mut Screen,
    ) -> Result<Option<LinkError>, CommandError> {
        let mut standing = self.computer.standing();
        let mut changes = self.lending.changes();
        let mut said = Said::default();
        loop {
            let now = standing.borrow_and_update().clone();
            if let Some(refused) = self.say_standing(&now, &mut said, screen)? {
                return Ok(Some(refused));
            }
            changes.mark_unchanged();
            self.say_changes(&mut said, screen).await?;
            tokio::select! { biased;
                () = stop.cancelled() => return Ok(None),
                changed = standing.changed() => if changed.is_err() { return Ok(None) },
                changed = changes.changed() => match changed {
                    Ok(()) => said.is_news = true,
                    Err(_) => return Ok(None),
                },
                () = watches.skills.changed() => {
                    let _ = self.computer.announce(Change::Skills).await; // As for tools, below.
                }
                () = watches.logins.changed() => self.lending.try_logins(),
                () = watches.servers.changed() => {
                    tokio::select! { biased;
                        () = stop.cancelled() => return Ok(None),
                        read = self.read_again(screen) => read?,
                    }
                }
            }
        }
    }

    /// Lends what is written now. What cannot be read changes nothing.
    async fn read_again(&self, screen: &mut Screen) -> Result<(), CommandError> {
        let offer = match self.servers.read(Kept::Used, screen).await {
            Ok(offer) => offer,
            Err(error) => {
                let words = format!("the servers stay as they are: {error}");
                return Ok(screen.warning(&words)?);
            }
        };
        if self.lending.replace(offer) == Replaced::Something {
            screen.line("the configuration has changed")?;
            let _ = self.computer.announce(Change::Config).await; // As for tools, below.
        }
        Ok(())
    }

    /// The refusal, if it is final.
    fn say_standing(
        &self,
        standing: &Standing,
        said: &mut Said,
        screen: &mut Screen,
    ) -> Result<Option<LinkError>, CommandError> {
        let words = match standing {
            Standing::Joined => {
                said.has_joined = true;
                format!("joined {}", self.place)
            }
            Standing::Away {
                because: Some(refused @ LinkError::Refused(_)),
            } if !said.has_joined => return Ok(Some(refused.clone())),
            Standing::Waiting {
                refused: Some(refused),
            } if !said.has_joined => return Ok(Some(LinkError::Refused(refused.clone()))),
            Standing::Away {
                because: Some(because),
            } => format!("away: {because}; trying again"),
            Standing::Waiting {
                refused: Some(refused),
            } => format!("not let in: {}; asking again", refused.message),
            Standing::Away { because: None }
            | Standing::Waiting { refused: None }
            | Standing::Ended => return Ok(None),
        };
        if said.standing.as_ref() != Some(&words) {
            screen.line(&one_line(&words))?;
            said.standing = Some(words);
        }
        Ok(None)
    }

    async fn say_changes(&self, said: &mut Said, screen: &mut Screen) -> Result<(), CommandError> {
        let absent = self.lending.absent();
        for news in absent.iter().filter(|absent| !said.absent.contains(absent)) {
            let words = format!("{} is not there: {}", news.server, news.why);
            screen.warning(&one_line(&words))?;
        }
        said.absent = absent;
        let tools = self.lending.server_tools();
        let is_news = std::mem::take(&mut said.is_news);
        if tools == said.tools {
            if is_news {
                // Where the tools are the same, the windows may be others.
                let _ = self.computer.announce(Change::Desktop).await; // As below.
            }
            return Ok(());
        }
        said.tools = tools;
        screen.line(&one_line(&self.offered()))?;
        // When we are away there is nobody to tell; whoever is joined anew is asked by the office.
        let _ = self.computer.announce(Change::ToolList).await;
        let _ = self.computer.announce(Change::Desktop).await; // As above.
        Ok(())
    }

    fn offered(&self) -> String {
        let lent = self.lending.lent();
        let count: usize = lent.values().map(Vec::len).sum();
        let word = if count == 1 { "tool" } else { "tools" };
        let servers: Vec<String> = lent
            .iter()
            .map(|(server, tools)| format!("{server} ({})", tools.join(", ")))
            .collect();
        match count {
            0 => "lending no tools now".to_owned(),
            _ => format!("lending {count} {word}: {}", servers.join("; ")),
        }
    }
}
