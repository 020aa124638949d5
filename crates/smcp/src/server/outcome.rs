//! How a request ended, kept without a profile so that each asker can be told in its own.

use serde_json::{Value, json};
use wire::smcp::{CallResult, ClientEvent, ErrorBody, Profile, config_in};

use crate::convert::code;

/// The end of a request.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    Answer { value: Value, from: Profile },
    Failed(ErrorBody),
    TimedOut,
}

impl Outcome {
    /// What an asker of this profile is told.
    pub(super) fn in_profile(&self, event: ClientEvent, profile: Profile) -> Value {
        match self {
            Self::Failed(error) => error.to_value(profile),
            Self::TimedOut => match (event, profile) {
                (ClientEvent::ToolCall, Profile::Shipped) => json!(CallResult::timed_out()),
                _ => ErrorBody::new(code::TIMEOUT, "The computer did not answer in time.")
                    .to_value(profile),
            },
            Self::Answer { value, from } => match ErrorBody::from_value(value) {
                Some(error) => error.to_value(profile),
                None if event == ClientEvent::GetConfig && *from != profile => {
                    config_in(profile, value)
                }
                None => value.clone(),
            },
        }
    }

    /// Whether it is small enough to be kept for a repetition.
    pub(super) fn is_small(&self, max: usize) -> bool {
        match self {
            Self::Answer { value, .. } => size(value) <= max,
            Self::Failed(_) | Self::TimedOut => true,
        }
    }
}

/// About how many bytes a value takes.
pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 8,
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 8,
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| key.len() + 8 + size(value))
            .sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_a_result_for_released_callers_and_408_for_others() {
        let told = |event, profile| Outcome::TimedOut.in_profile(event, profile);
        let result = told(ClientEvent::ToolCall, Profile::Shipped);
        assert_eq!(
            (&result["isError"], &result["meta"]["a2c_timeout"]),
            (&json!(true), &json!(true))
        );
        assert_eq!(
            told(ClientEvent::ToolCall, Profile::Seed)["error"]["code"],
            408
        );
        assert_eq!(told(ClientEvent::GetTools, Profile::Shipped)["code"], 408);
    }

    #[test]
    fn an_error_of_the_computer_is_told_in_the_askers_form() {
        let outcome = Outcome::Answer {
            value: json!({"code": 4016, "message": "no such skill", "details": {"name": "x"}}),
            from: Profile::Shipped,
        };
        let told = outcome.in_profile(ClientEvent::GetSkill, Profile::Seed);
        assert_eq!(told["error"]["code"], 4016);
        let result = json!({"content": [], "isError": true});
        let outcome = Outcome::Answer {
            value: result.clone(),
            from: Profile::Shipped,
        };
        assert_eq!(
            outcome.in_profile(ClientEvent::ToolCall, Profile::Seed),
            result
        );
    }
}
