//! How steps follow each other, as files write it: transitions, retries, loops, branches, approvals.

use std::time::Duration;

use crate::document::{Node, Yaml};
use crate::plan::{
    Approval, Backoff, ForEach, Items, Limit, OnDeny, Parallel, ROUNDS_DEFAULT, ROUNDS_MAX, Retry,
    Strategy, Transition, WhileLoop,
};
use crate::problem::{Code, Severity, quoted};
use crate::reader::Mapping;

use super::{Loader, Places, Purpose};

/// More attempts than this hide a defect.
const ATTEMPTS_MAX: i64 = 1000;

/// Branches of one step at the same time.
const CONCURRENT_MAX: i64 = 1000;

const DENIALS: [(&str, OnDeny); 3] = [
    ("skip", OnDeny::Skip),
    ("error", OnDeny::Error),
    ("abort", OnDeny::Abort),
];

impl Loader<'_> {
    pub(super) fn transitions(
        &self,
        map: &Mapping<'_>,
        step: &str,
        places: &mut Places,
    ) -> Vec<Transition> {
        let Some(items) = map
            .get("transitions")
            .and_then(|node| node.list(self.findings))
        else {
            return Vec::new();
        };
        let mut transitions = Vec::new();
        let mut unconditional = false;
        for item in items {
            let Some(entry) = item.mapping(self.findings) else {
                continue;
            };
            let when = entry
                .get("when")
                .and_then(|node| self.condition(node, step));
            let when = when.filter(|when| !when.trim().is_empty());
            if unconditional {
                let message = "never reached: the transition before it has no condition";
                self.findings
                    .warning(item.place, Code::InvalidTransition, message);
            }
            unconditional |= when.is_none();
            let Some(node) = entry.get("goto") else {
                entry.missing("goto");
                continue;
            };
            let Some(goto) = node.text(self.findings) else {
                continue;
            };
            places
                .targets
                .push((step.to_owned(), format!("transitions:{goto}"), node.place));
            entry.warn_of_unknown("a transition", Severity::Warning, Code::UnknownField);
            transitions.push(Transition { when, goto });
        }
        transitions
    }

    pub(super) fn retry(&self, map: &Mapping<'_>) -> Option<Retry> {
        let node = map.get("retry")?;
        if let Yaml::Number(..) = node.value {
            let attempts = node.integer(self.findings, 1, ATTEMPTS_MAX)?;
            return Some(plain_retry(attempts));
        }
        let retry = node.mapping(self.findings)?;
        let attempts = match retry.get("max_attempts") {
            Some(node) => node.integer(self.findings, 1, ATTEMPTS_MAX).unwrap_or(1),
            None => {
                retry.missing("retry.max_attempts");
                1
            }
        };
        let backoffs = [
            ("constant", Backoff::Constant),
            ("linear", Backoff::Linear),
            ("exponential", Backoff::Exponential),
        ];
        let duration = |key| retry.get(key)?.duration(self.findings);
        let decimal = |key, least, most| retry.get(key)?.decimal(self.findings, least, most);
        let codes = retry
            .get("retryable_exit_codes")
            .and_then(|node| node.list(self.findings));
        let codes = codes.unwrap_or_default().iter();
        let found = Retry {
            initial_delay: duration("initial_delay"),
            max_delay: duration("max_delay"),
            backoff: retry
                .get("backoff")
                .and_then(|node| node.choice(self.findings, &backoffs))
                .unwrap_or_default(),
            multiplier: decimal("multiplier", 1.0, 100.0).unwrap_or(2.0),
            jitter: decimal("jitter", 0.0, 1.0).unwrap_or(0.0),
            retryable_exit_codes: codes
                .filter_map(|node| node.integer(self.findings, -255, 255))
                .filter_map(|code| i32::try_from(code).ok())
                .collect(),
            ..plain_retry(attempts)
        };
        if let (Some(initial), Some(most)) = (found.initial_delay, found.max_delay)
            && initial > most
        {
            let message = "initial_delay is longer than max_delay";
            self.findings
                .warning(retry.place_of("initial_delay"), Code::InvalidValue, message);
        }
        retry.warn_of_unknown("retry", Severity::Warning, Code::UnknownField);
        Some(found)
    }

    pub(super) fn parallel(
        &self,
        map: &Mapping<'_>,
        step: &str,
        places: &mut Places,
    ) -> Option<Parallel> {
        let branches = self.inner_steps(map, "parallel", step, places)?;
        let strategies = [
            ("all_succeed", Strategy::AllSucceed),
            ("any_succeed", Strategy::AnySucceed),
            ("best_effort", Strategy::BestEffort),
        ];
        let strategy = map
            .get("strategy")
            .and_then(|node| node.choice(self.findings, &strategies));
        let most = map
            .get("max_concurrent")
            .and_then(|node| node.integer(self.findings, 0, CONCURRENT_MAX));
        Some(Parallel {
            branches,
            strategy: strategy.unwrap_or_default(),
            max_concurrent: most
                .and_then(|most| u32::try_from(most).ok())
                .filter(|most| *most > 0),
        })
    }

    fn inner_steps(
        &self,
        map: &Mapping<'_>,
        key: &'static str,
        step: &str,
        places: &mut Places,
    ) -> Option<Vec<String>> {
        let Some(node) = map.get(key) else {
            map.missing(&format!("{key} of step {}", quoted(step)));
            return None;
        };
        let mut names: Vec<String> = Vec::new();
        for (place, name) in node.texts(self.findings) {
            if names.contains(&name) {
                let message = format!("{} is listed twice", quoted(&name));
                self.findings.error(place, Code::InvalidValue, message);
                continue;
            }
            places
                .targets
                .push((step.to_owned(), format!("{key}:{name}"), place));
            names.push(name);
        }
        if names.is_empty() {
            self.findings.error(
                node.place,
                Code::MissingField,
                format!("{key} names no step"),
            );
            return None;
        }
        Some(names)
    }

    pub(super) fn for_each(
        &self,
        map: &Mapping<'_>,
        step: &str,
        places: &mut Places,
    ) -> Option<ForEach> {
        let items = match map.get("items") {
            Some(node) => {
                if let Yaml::List(items) = &node.value {
                    self.note_texts_within(node, step);
                    Items::List(items.iter().map(Node::to_json).collect())
                } else {
                    Items::Text(self.template(node, step, Purpose::Other)?)
                }
            }
            None => {
                map.missing(&format!("items of step {}", quoted(step)));
                return None;
            }
        };
        Some(ForEach {
            items,
            body: self.inner_steps(map, "body", step, places)?,
            limit: self.limit(map, step),
            break_when: map
                .get("break_when")
                .and_then(|node| self.condition(node, step)),
        })
    }

    pub(super) fn while_loop(
        &self,
        map: &Mapping<'_>,
        step: &str,
        places: &mut Places,
    ) -> Option<WhileLoop> {
        let Some(node) = map.get("while").or_else(|| map.get("condition")) else {
            map.missing(&format!("while of step {}", quoted(step)));
            return None;
        };
        Some(WhileLoop {
            condition: self.condition(node, step)?,
            body: self.inner_steps(map, "body", step, places)?,
            limit: self.limit(map, step),
            break_when: map
                .get("break_when")
                .and_then(|node| self.condition(node, step)),
        })
    }

    fn limit(&self, map: &Mapping<'_>, step: &str) -> Limit {
        let Some(node) = map.get("max_iterations") else {
            return Limit::Rounds(ROUNDS_DEFAULT);
        };
        if let Yaml::Text(text) = &node.value
            && text.trim().parse::<i64>().is_err()
        {
            self.note_text(node.place, text, step, Purpose::Other);
            return Limit::Text(text.clone());
        }
        let rounds = node.integer(self.findings, 1, i64::from(ROUNDS_MAX));
        Limit::Rounds(
            rounds
                .and_then(|rounds| u32::try_from(rounds).ok())
                .unwrap_or(ROUNDS_DEFAULT),
        )
    }

    pub(super) fn approval(&self, map: &Mapping<'_>, step: &str) -> Option<Approval> {
        let node = map.get("approval")?;
        match &node.value {
            Yaml::Bool(false) => None,
            Yaml::Bool(true) => Some(self.bare_approval(map, step)),
            Yaml::Text(_) => Some(Approval {
                message: self.template(node, step, Purpose::Other),
                ..no_approval()
            }),
            Yaml::Null | Yaml::Number(..) | Yaml::List(_) | Yaml::Map(_) => {
                let approval = node.mapping(self.findings)?;
                let found = self.approval_of(&approval, step);
                approval.warn_of_unknown("approval", Severity::Warning, Code::UnknownField);
                Some(found)
            }
        }
    }

    fn approval_of(&self, map: &Mapping<'_>, step: &str) -> Approval {
        Approval {
            message: self.optional_template(map, "message", step),
            on_deny: self.on_deny(map.get("on_deny")),
            destructive: self.flag(map, "destructive"),
            timeout: map
                .get("timeout")
                .and_then(|node| node.duration(self.findings))
                .filter(|timeout| *timeout > Duration::ZERO),
        }
    }

    /// `type: approval`, or `approval: true`: what it says stands beside it.
    pub(super) fn bare_approval(&self, map: &Mapping<'_>, step: &str) -> Approval {
        Approval {
            message: self.optional_template(map, "message", step),
            on_deny: self.on_deny(map.get("on_deny")),
            destructive: self.flag(map, "destructive"),
            ..no_approval()
        }
    }

    fn on_deny(&self, node: Option<&Node>) -> OnDeny {
        node.and_then(|node| node.choice(self.findings, &DENIALS))
            .unwrap_or_default()
    }
}

fn no_approval() -> Approval {
    Approval {
        message: None,
        on_deny: OnDeny::default(),
        destructive: false,
        timeout: None,
    }
}

fn plain_retry(attempts: i64) -> Retry {
    Retry {
        max_attempts: u32::try_from(attempts).unwrap_or(1),
        initial_delay: None,
        max_delay: None,
        backoff: Backoff::Constant,
        multiplier: 2.0,
        jitter: 0.0,
        retryable_exit_codes: Vec::new(),
    }
}
