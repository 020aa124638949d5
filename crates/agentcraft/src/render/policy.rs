//! Permission rules, and what they say about a call.

use domain::permission::{Audience, Decision, Policy, Verdict, settle};
use serde_json::{Value, json};

use super::{
    fields::Fields,
    style::{Style, Tone, one_line},
};

fn tone(decision: Decision) -> Tone {
    match decision {
        Decision::Allow => Tone::Good,
        Decision::Ask => Tone::Doubtful,
        Decision::Deny => Tone::Bad,
    }
}

/// Every rule in the order they are looked at, and the default.
pub(crate) fn policy_rules(policy: &Policy, style: Style) -> String {
    let mut text = String::new();
    for rule in &policy.rules {
        let decision = format!("{:<6}", rule.decision.as_str());
        let reason = rule.reason.as_ref().map(|reason| format!(": {reason}"));
        let undo = if rule.destructive {
            ", also what cannot be undone"
        } else {
            ""
        };
        text.push_str(&format!(
            "{} {}{undo}{} {}\n",
            style.paint(tone(rule.decision), &decision),
            one_line(&rule.to_string()),
            one_line(&reason.unwrap_or_default()),
            style.paint(Tone::Faint, &format!("({})", rule.place)),
        ));
    }
    let default = format!("{:<6}", policy.fallback().as_str());
    text.push_str(&format!(
        "{} everything else\n",
        style.paint(tone(policy.fallback()), &default)
    ));
    text
}

/// What happens with a call, with and without somebody to ask, and why.
pub(crate) fn policy_verdict(
    verdict: &Verdict,
    destructive: bool,
) -> (Value, impl Fn(Style) -> String) {
    let words = |audience| settle(verdict, destructive, audience).words(verdict);
    let (somebody, nobody) = (words(Audience::Somebody), words(Audience::Nobody));
    let value = json!({
        "decision": verdict.decision.as_str(),
        "why": verdict.why,
        "rule": verdict.rule.map(|rule| rule.index),
        "destructive": destructive,
        "somebody": somebody,
        "nobody": nobody,
    });
    let (decision, why) = (verdict.decision, verdict.why.clone());
    let text = move |style| {
        let mut fields = Fields::new(style, decision.as_str(), (Tone::Normal, ""));
        fields.toned("why", tone(decision), &why);
        if destructive {
            fields.toned("undo", Tone::Bad, "it cannot be undone");
        }
        fields
            .field("if asked", &somebody)
            .field("if alone", &nobody);
        fields.finish()
    };
    (value, text)
}
