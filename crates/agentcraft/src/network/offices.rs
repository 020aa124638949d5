//! The offices of this node for its page: who sits in them, and a visit as their agent to look at tools and call one.

use std::{sync::Arc, time::Duration};

use dashboard::{OfficeAct, OfficeAsk, Offices, Seat, SeatRole};
use platform::Tasks;
use serde_json::{Value, json};
use smcp::{
    LinkError,
    agent::{Agent, Call},
    server::OfficeServer,
};
use tokio_util::sync::CancellationToken;

use super::Address;
use crate::{
    args::{OfficeProfile, PlaceArgs},
    config::Config,
    office,
};

/// What the page is called in an office.
const NAME: &str = "dashboard";

/// How long the office has to let us in; it is on this machine.
const JOIN_MAX: Duration = Duration::from_secs(10);

/// How long a tool that is tried at the page may take; a person waits for it.
const CALL_MAX: Duration = Duration::from_secs(120);

/// How long leaving may take; the office notices in any case.
const LEAVE_MAX: Duration = Duration::from_secs(2);

/// The offices behind a relay, for the page.
pub(super) fn of(server: OfficeServer, config: &Config, tasks: &Tasks) -> Offices {
    let seats = move || -> Vec<Seat> {
        let seats = server.seats().into_iter();
        seats
            .map(|seat| Seat {
                office: seat.office,
                role: match seat.role {
                    "agent" => SeatRole::Agent,
                    _ => SeatRole::Computer,
                },
                name: seat.name,
            })
            .collect()
    };
    let (config, tasks) = (Arc::new(config.clone()), tasks.child());
    let ask = move |ask: OfficeAsk| visit(ask, Arc::clone(&config), tasks.child());
    Offices::new(seats, ask)
}

/// Joins, asks, leaves. An office has one agent: where somebody else is it, the refusal says so.
async fn visit(ask: OfficeAsk, config: Arc<Config>, tasks: Tasks) -> Result<Value, String> {
    let address = Address::read(&config.home).ok_or("this node does not listen any more")?;
    let place = PlaceArgs {
        url: address.url,
        office: ask.office.clone(),
        name: Some(NAME.to_owned()),
        token_file: Some(config.home.join(listener::OWNER_TOKEN_FILE)),
        profile: OfficeProfile::default(),
        ca: None,
        cert: None,
        key: None,
    };
    let link = office::link(&place, NAME, &config).map_err(|error| error.to_string())?;
    // The news are of no use to one question, but whoever drops them ends the connection.
    let (agent, _news) = Agent::start(link, &tasks);
    let joined = tokio::time::timeout(JOIN_MAX, agent.joined()).await;
    let answer = match joined.unwrap_or(Err(LinkError::TimedOut)) {
        Ok(()) => answer(&agent, ask).await,
        Err(error) => Err(error),
    };
    let _ = tasks.drain(LEAVE_MAX).await; // What is left of it ends with the node.
    answer.map_err(|error| error.to_string())
}

async fn answer(agent: &Agent, ask: OfficeAsk) -> Result<Value, LinkError> {
    match ask.act {
        OfficeAct::Tools => agent.tools(&ask.computer).await.map(|tools| json!(tools)),
        OfficeAct::Call { tool, arguments } => {
            let call = Call::new(ask.computer, tool, arguments, CALL_MAX);
            let result = agent.call(&call, &CancellationToken::new()).await?;
            Ok(json!(result))
        }
    }
}
