//! From a policy and a call to what happens: the verdict of the rules, and how it settles with who is there.

use super::{Call, Decision, Place, Policy, Rule, command::Reading, pattern::Reach};
use crate::turn::{Answer, AskKind, OptionKind, ToolKind};

/// What the rules say about a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub decision: Decision,
    /// The rule that decided; none where the default did.
    pub rule: Option<RuleRef>,
    /// In words, for people and the journal.
    pub why: String,
    /// The rule allows even what cannot be undone.
    pub destructive: bool,
}

/// A rule of the policy that was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleRef {
    /// In [`Policy::rules`], counted from zero.
    pub index: usize,
    pub place: Place,
}

/// Whether somebody can answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    Somebody,
    Nobody,
}

/// What happens with a permission ask. Policy never chooses an answer that lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    AllowOnce,
    /// Somebody has to answer.
    Ask,
    /// Somebody would have to answer and nobody is there.
    DenyNobody,
    Deny,
}

/// The tool of an ask in which a workflow wants a person's word before it goes on. No rule gives that word.
pub const GATE: &str = "workflow approval";

/// The same, before something that cannot be undone.
pub const FINAL_GATE: &str = "workflow approval of what cannot be undone";

/// Whether a call waits for the word of a person, whatever the rules say.
pub fn is_gate(name: Option<&str>) -> bool {
    matches!(name, Some(GATE | FINAL_GATE))
}

/// What a tool is called here that another program names. An approval that is asked for from outside is one of what cannot be
/// undone: a word of whoever asks takes no warning away.
pub fn outside_name(name: &str) -> &str {
    match name {
        GATE => FINAL_GATE,
        other => other,
    }
}

/// What the policy says about the call: the first rule that fits, or the default. What a workflow wants a person to approve may
/// be denied, and is never allowed.
pub fn decide(policy: &Policy, call: &Call) -> Verdict {
    let verdict = by_rules(policy, call);
    match verdict.decision {
        Decision::Allow if is_gate(call.name.as_deref()) => Verdict {
            decision: Decision::Ask,
            why: format!("an approval is a person's to give, though {}", verdict.why),
            ..verdict
        },
        Decision::Allow | Decision::Ask | Decision::Deny => verdict,
    }
}

fn by_rules(policy: &Policy, call: &Call) -> Verdict {
    let sight = Sight {
        call,
        command: call.command.as_deref().map(Reading::of),
        suspected: match &call.command {
            Some(_) => None,
            None => call.suspected_command().map(Reading::of),
        },
    };
    let fitting = policy.rules.iter().enumerate();
    match fitting.into_iter().find(|(_, rule)| sight.fits(rule)) {
        Some((index, rule)) => Verdict {
            decision: rule.decision,
            rule: Some(RuleRef {
                index,
                place: rule.place,
            }),
            why: explain(rule),
            destructive: rule.destructive,
        },
        None => Verdict {
            decision: policy.fallback(),
            rule: None,
            why: format!(
                "no rule fits, and the default is to {}",
                policy.fallback().as_str()
            ),
            destructive: false,
        },
    }
}

/// What happens, given whether the call can be undone (see [`super::is_destructive`]) and whether somebody is there.
pub fn settle(verdict: &Verdict, destructive: bool, audience: Audience) -> Outcome {
    let decision = match verdict.decision {
        Decision::Allow if destructive && !verdict.destructive => Decision::Ask,
        decision => decision,
    };
    match (decision, audience) {
        (Decision::Allow, _) => Outcome::AllowOnce,
        (Decision::Deny, _) => Outcome::Deny,
        (Decision::Ask, Audience::Somebody) => Outcome::Ask,
        (Decision::Ask, Audience::Nobody) => Outcome::DenyNobody,
    }
}

impl Outcome {
    /// The answer that policy gives to the ask, or nothing where somebody has to answer: also where the agent offers
    /// no way to allow this once.
    pub fn answer(self, ask: &AskKind) -> Option<Answer> {
        match self {
            Self::AllowOnce => ask
                .option(OptionKind::AllowOnce)
                .map(|option| Answer::Option {
                    id: option.id.clone(),
                }),
            Self::Ask => None,
            Self::DenyNobody | Self::Deny => Some(ask.denial()),
        }
    }

    /// What to tell the user and the agent.
    pub fn words(self, verdict: &Verdict) -> String {
        let why = &verdict.why;
        match (self, verdict.decision) {
            (Self::AllowOnce, _) => format!("allowed once: {why}"),
            (Self::Deny, _) => format!("denied: {why}"),
            (Self::Ask, Decision::Allow) => {
                format!("asked, since it cannot be undone, though {why}")
            }
            (Self::Ask, Decision::Ask | Decision::Deny) => format!("asked: {why}"),
            (Self::DenyNobody, Decision::Allow) => {
                format!("denied: it cannot be undone and nobody is there to ask, though {why}")
            }
            (Self::DenyNobody, Decision::Ask | Decision::Deny) => {
                format!("denied: nobody is there to ask, and {why}")
            }
        }
    }
}

fn explain(rule: &Rule) -> String {
    let verb = match rule.decision {
        Decision::Allow => "allows",
        Decision::Ask => "asks about",
        Decision::Deny => "denies",
    };
    let reason = rule.reason.as_ref().map(|reason| format!(": {reason}"));
    format!("{} {verb} {rule}{}", rule.place, reason.unwrap_or_default())
}

/// A call with its command read once for all rules.
struct Sight<'a> {
    call: &'a Call,
    command: Option<Reading<'a>>,
    /// What may be its command where it has none.
    suspected: Option<Reading<'a>>,
}

impl Sight<'_> {
    fn fits(&self, rule: &Rule) -> bool {
        match rule.decision {
            Decision::Allow => self.surely_fits(rule),
            Decision::Ask | Decision::Deny => self.perhaps_fits(rule),
        }
    }

    /// Everything about the call is what the rule names.
    fn surely_fits(&self, rule: &Rule) -> bool {
        let call = self.call;
        let detailed = rule.path.is_some() || rule.command.is_some();
        if call.opaque && detailed {
            return false;
        }
        // Where a command runs says nothing about what it does.
        if rule.path.is_some() && rule.command.is_none() && self.command.is_some() {
            return false;
        }
        (rule.kinds.is_empty() || call.kinds().all(|kind| rule.kinds.contains(&kind)))
            && rule
                .tool
                .as_ref()
                .is_none_or(|tool| call.trusted_name().is_some_and(|name| tool.matches(name)))
            && rule.path.as_ref().is_none_or(|pattern| {
                !call.paths.is_empty()
                    && call
                        .paths
                        .iter()
                        .all(|path| pattern.matches(path, &call.workspace, Reach::Exactly))
            })
            && rule.command.as_ref().is_none_or(|pattern| {
                self.command
                    .as_ref()
                    .is_some_and(|reading| pattern.is_all_of(reading))
            })
    }

    /// Something about the call is, or may be, what the rule names.
    fn perhaps_fits(&self, rule: &Rule) -> bool {
        let call = self.call;
        let reach = match call.kind {
            ToolKind::Delete | ToolKind::Move => Reach::Below,
            ToolKind::Read
            | ToolKind::Edit
            | ToolKind::Search
            | ToolKind::Execute
            | ToolKind::Think
            | ToolKind::Fetch
            | ToolKind::Other => Reach::Perhaps,
        };
        let reading = self.command.as_ref().or(self.suspected.as_ref());
        (rule.kinds.is_empty() || call.kinds().any(|kind| rule.kinds.contains(&kind)))
            && rule.tool.as_ref().is_none_or(|tool| {
                tool.matches(&call.title)
                    || call.name.as_ref().is_some_and(|name| tool.matches(name))
            })
            && rule.path.as_ref().is_none_or(|pattern| {
                call.opaque
                    || call
                        .paths
                        .iter()
                        .any(|path| pattern.matches(path, &call.workspace, reach))
            })
            && rule.command.as_ref().is_none_or(|pattern| {
                call.opaque || reading.is_some_and(|reading| pattern.is_part_of(reading))
            })
    }
}
