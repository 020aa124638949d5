//! Offices on the page: who is in them, the tools of a computer, and a console to call one.

use std::{collections::BTreeMap, fmt, sync::Arc};

use axum::{
    Json, Router,
    extract::{Path, State},
    middleware,
    routing::{get, post},
};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    answer::{Answer, Refused, json_of},
    router::only_with_the_right,
};

/// Somebody in an office.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    pub office: String,
    pub role: SeatRole,
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeatRole {
    Agent,
    Computer,
}

/// Something asked of a computer in an office.
#[derive(Debug, Clone, PartialEq)]
pub struct OfficeAsk {
    pub office: String,
    pub computer: String,
    pub act: OfficeAct,
}

#[derive(Debug, Clone, PartialEq)]
pub enum OfficeAct {
    /// Its tools, as a list.
    Tools,
    /// What a tool answers.
    Call {
        tool: String,
        arguments: Map<String, Value>,
    },
}

type Seats = dyn Fn() -> Vec<Seat> + Send + Sync;
type Asks = dyn Fn(OfficeAsk) -> BoxFuture<'static, Result<Value, String>> + Send + Sync;

/// The offices of the node. An error is words for people.
#[derive(Clone)]
pub struct Offices {
    seats: Arc<Seats>,
    ask: Arc<Asks>,
}

impl Offices {
    pub fn new<Asking>(
        seats: impl Fn() -> Vec<Seat> + Send + Sync + 'static,
        ask: impl Fn(OfficeAsk) -> Asking + Send + Sync + 'static,
    ) -> Self
    where
        Asking: Future<Output = Result<Value, String>> + Send + 'static,
    {
        Self {
            seats: Arc::new(seats),
            ask: Arc::new(move |asked| Box::pin(ask(asked))),
        }
    }

    async fn ask(&self, office: String, computer: String, act: OfficeAct) -> Answer {
        let ask = OfficeAsk {
            office,
            computer,
            act,
        };
        let answer = (self.ask)(ask).await.map_err(Refused::conflict)?;
        json_of(&answer)
    }
}

impl fmt::Debug for Offices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Offices")
    }
}

/// The part of the API that is about offices.
pub fn offices(offices: Offices) -> Router {
    Router::new()
        .route("/api/offices", get(list))
        .route("/api/offices/{office}/{computer}/tools", get(tools))
        .route("/api/offices/{office}/{computer}/call", post(call))
        .layer(middleware::from_fn(only_with_the_right))
        .with_state(offices)
}

/// An office as the page shows it.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Room {
    name: String,
    agent: Option<String>,
    computers: Vec<String>,
}

async fn list(State(offices): State<Offices>) -> Answer {
    json_of(&rooms((offices.seats)()))
}

fn rooms(seats: Vec<Seat>) -> Vec<Room> {
    let mut rooms: BTreeMap<String, Room> = BTreeMap::new();
    for seat in seats {
        let room = rooms.entry(seat.office.clone()).or_default();
        room.name = seat.office;
        match seat.role {
            SeatRole::Agent => room.agent = Some(seat.name),
            SeatRole::Computer => room.computers.push(seat.name),
        }
    }
    let mut rooms: Vec<Room> = rooms.into_values().collect();
    for room in &mut rooms {
        room.computers.sort();
    }
    rooms
}

async fn tools(
    State(offices): State<Offices>,
    Path((office, computer)): Path<(String, String)>,
) -> Answer {
    offices.ask(office, computer, OfficeAct::Tools).await
}

#[derive(Debug, Deserialize)]
struct NewCall {
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

async fn call(
    State(offices): State<Offices>,
    Path((office, computer)): Path<(String, String)>,
    Json(NewCall { tool, arguments }): Json<NewCall>,
) -> Answer {
    let act = OfficeAct::Call { tool, arguments };
    offices.ask(office, computer, act).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_shown_by_office_with_computers_in_order() {
        let seat = |office: &str, role, name: &str| Seat {
            office: office.to_owned(),
            role,
            name: name.to_owned(),
        };
        let seats = vec![
            seat("studio", SeatRole::Computer, "mill"),
            seat("attic", SeatRole::Computer, "box"),
            seat("studio", SeatRole::Agent, "ada"),
            seat("studio", SeatRole::Computer, "lathe"),
        ];
        let room = |name: &str, agent: Option<&str>, computers: &[&str]| Room {
            name: name.to_owned(),
            agent: agent.map(str::to_owned),
            computers: computers.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(
            rooms(seats),
            [
                room("attic", None, &["box"]),
                room("studio", Some("ada"), &["lathe", "mill"])
            ]
        );
    }
}
