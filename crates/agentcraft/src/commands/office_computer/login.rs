//! `agentcraft computer login`: a person agrees in a browser that a computer may use an MCP server in their name.

use mcp::Logins;

use crate::{
    args::ComputerLoginArgs,
    commands::mcp_serve::stop_on_signals,
    config::Config,
    error::CommandError,
    office::{self, Asking, Consent, Inputs, Kept},
    render::{Screen, one_line},
};

pub(super) async fn login(
    arguments: &ComputerLoginArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let stop = stop_on_signals()?;
    let file = arguments.config.as_deref();
    let listing = office::read_listing(file, Consent::Asked, config)?;
    let asking = screen.can_ask().then(Asking::new);
    let inputs = Inputs::new(&office::origin(file, config), asking, config);
    let found = inputs.values(&listing.wanted(), Kept::Used).await;
    let offer = listing.fill(&found.values, config);
    let address = offer.address(&arguments.server)?;
    let logins = Logins::of_home(&config.home);
    let name = one_line(&arguments.server);
    if arguments.forget {
        let forgotten = logins.forget(&address).await;
        let was_there = forgotten.map_err(|error| attempt("forget the login", error))?;
        let told = match was_there {
            true => format!("the login at {name} is forgotten"),
            false => format!("there is no login at {name}"),
        };
        screen.line(&told)?;
        return Ok(());
    }
    let mut shown = Ok(());
    let logging_in = mcp::login(&logins, &address, |url| {
        shown = screen
            .line("open this address in a browser of this machine, and agree there:")
            .and_then(|()| screen.line(&one_line(url)));
    });
    let logged_in = tokio::select! { biased;
        () = stop.cancelled() => return Ok(()),
        logged_in = logging_in => logged_in,
    };
    logged_in.map_err(|error| attempt("log in", error))?;
    shown?;
    Ok(screen.line(&format!("logged in at {name}"))?)
}

fn attempt(what: &str, error: impl Into<anyhow::Error>) -> CommandError {
    CommandError::machine(what, error)
}
