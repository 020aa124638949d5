//! One session: what the agent tells in it becomes events, and what it has chosen is remembered.

use std::path::PathBuf;

use domain::turn::{EventKind, Raw, Usage};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{Repetition, Words};
use crate::{
    asking::Asking,
    convert::{self, Meaning, Speaker},
    grants::Grants,
    lenders::Lenders,
    lenient,
    members::Members,
    tools::KnownTools,
};

#[derive(Debug)]
pub(super) struct Session {
    /// Its ways to whoever answers are fresh ones for each turn.
    pub(super) asking: Asking,
    pub(super) cwd: PathBuf,
    pub(super) words: Words,
    pub(super) repetition: Repetition,
    pub(super) tools: KnownTools,
    /// What the session had cost before this turn; unknown for one that was taken up and has not told yet.
    pub(super) cost_before: Option<f64>,
    pub(super) cost: Option<f64>,
    pub(super) grants: Grants,
    /// What the agent said when the session was opened.
    pub(super) said: Option<Raw>,
    /// The clients that stand in for this machine.
    pub(super) lenders: Lenders,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(borrow, default)]
    update: Option<&'a RawValue>,
}

impl Session {
    pub(super) fn remember_mode(&mut self, mode: &str) {
        self.rewrite(|members| {
            let modes = members.get("modes").map(RawValue::get).map(str::to_owned);
            if let Some(mut modes) = modes.as_deref().and_then(Members::read) {
                modes.set("currentModeId", mode);
                members.set("modes", &modes);
            }
        });
    }

    pub(super) fn remember_options(&mut self, options: &Value) {
        if options.is_array() {
            self.rewrite(|members| members.set("configOptions", options));
        }
    }

    /// The agent itself has chosen something.
    fn heed(&mut self, update: &Value) {
        match convert::text(update, "sessionUpdate") {
            Some("current_mode_update") => {
                if let Some(mode) = convert::text(update, "currentModeId") {
                    self.remember_mode(mode);
                }
            }
            Some("config_option_update") => self.remember_options(&update["configOptions"]),
            _ => {}
        }
    }

    /// Changes what the agent said when the session was opened, for those who open it later.
    fn rewrite(&mut self, change: impl FnOnce(&mut Members<'_>)) {
        let Some(said) = &mut self.said else { return };
        let text = said.frame.clone();
        if let Some(mut members) = Members::read(&text) {
            change(&mut members);
            *said = convert::raw(&members.write());
        }
    }

    pub(super) fn tell(&mut self, method: &str, params: &RawValue) {
        let (meaning, speaker) = match method {
            "session/update" => {
                let update = update_of(params);
                self.heed(&update);
                (convert::update(&update), convert::speaker(&update))
            }
            method => (convert::other(method), None),
        };
        let kind = match meaning {
            Meaning::Plain(kind) => kind,
            Meaning::Tool(update) => self.tools.tell(update),
            Meaning::SessionCost(cost) => self.spent(cost),
        };
        let is_new = match (self.words, speaker) {
            (Words::New, _) | (Words::Settling, None) => true,
            (Words::Repeated, None) => false,
            (Words::Repeated | Words::Settling, Some(speaker)) => {
                self.repetition.length += 1;
                self.repetition.unanswered = speaker == Speaker::Person;
                false
            }
        };
        if is_new {
            self.asking.sink.emit(kind, Some(convert::raw(params)));
        }
    }

    /// Agents tell what the whole session has cost; a turn's share is what came on top.
    fn spent(&mut self, cost: f64) -> EventKind {
        self.cost = Some(cost);
        match self.cost_before {
            Some(before) => EventKind::Usage(Usage {
                cost_usd: Some((cost - before).max(0.0)),
                ..Usage::default()
            }),
            None => EventKind::Other {
                name: "usage_update".to_owned(),
            },
        }
    }
}

/// The `update` in the params; null if there is none, or it is nested beyond reading.
fn update_of(params: &RawValue) -> Value {
    let envelope: Option<Envelope<'_>> = serde_json::from_str(params.get()).ok();
    let update = envelope.and_then(|envelope| envelope.update);
    update
        .and_then(|update| lenient::value(update.get()))
        .unwrap_or_default()
}
