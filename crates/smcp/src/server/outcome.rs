//! How a request ended, kept without a profile so that each asker can be told in its own.

use serde_json::{Value, json};
use wire::smcp::{CallResult, ClientEvent, ErrorBody, Profile, config_in};

use crate::convert::{code, error_value, read_error, size};

/// The end of a request.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    Answer {
        value: Value,
        from: Profile,
    },
    /// It failed, and no computer has heard of it: asked again, it is a new request.
    Undelivered(ErrorBody),
    Failed(ErrorBody),
    TimedOut,
}

impl Outcome {
    /// What an asker of this profile is told.
    pub(super) fn in_profile(&self, event: ClientEvent, profile: Profile) -> Value {
        match self {
            Self::Failed(error) | Self::Undelivered(error) => error.to_value(profile),
            Self::TimedOut => match (event, profile) {
                (ClientEvent::ToolCall, Profile::Shipped) => json!(CallResult::timed_out()),
                _ => ErrorBody::new(code::TIMEOUT, "The computer did not answer in time.")
                    .to_value(profile),
            },
            Self::Answer { value, from } => match read_error(value) {
                // Released agents do not know this error: they would take it for a result.
                Some(error)
                    if error.code == code::TIMEOUT
                        && (event, profile) == (ClientEvent::ToolCall, Profile::Shipped) =>
                {
                    json!(CallResult::timed_out())
                }
                // What the computer has said beside it is for its own kind alone.
                Some(_) if *from == profile => value.clone(),
                Some(error) => error_value(&error, profile),
                None if event == ClientEvent::ToolCall
                    && (*from, profile) == (Profile::Shipped, Profile::Seed) =>
                {
                    let error = specified_error(value);
                    error.map_or_else(|| value.clone(), |error| error.to_value(profile))
                }
                None if event == ClientEvent::GetConfig && *from != profile => {
                    config_in(profile, value)
                }
                None => value.clone(),
            },
        }
    }

    /// About how many bytes it takes.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Answer { value, .. } => size(value),
            Self::Failed(_) | Self::Undelivered(_) | Self::TimedOut => 0,
        }
    }
}

/// What a released computer says in a result where the specification has an error.
fn specified_error(result: &Value) -> Option<ErrorBody> {
    if result["isError"] != true {
        return None;
    }
    if result["meta"]["a2c_timeout"] == true {
        let words = "The tool call did not end in time.";
        return Some(ErrorBody::new(code::TIMEOUT, words));
    }
    let said = result["structuredContent"]["error"].as_str()?;
    let is_unknown = result["structuredContent"]["error_type"] == "ValueError"
        && (said.ends_with("cannot be called: not found.")
            || said.ends_with("not found in ExposedToolMapping"));
    is_unknown.then(|| ErrorBody::new(code::NOT_FOUND, said))
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
    fn what_a_computer_says_of_time_and_names_is_told_in_the_askers_profile() {
        let told = |value: Value, from, to| {
            let outcome = Outcome::Answer { value, from };
            outcome.in_profile(ClientEvent::ToolCall, to)
        };
        let late = json!(CallResult::timed_out());
        let unknown = json!({"content": [], "isError": true, "structuredContent": {
            "error": "Tool 'x' not found in ExposedToolMapping", "error_type": "ValueError"}});
        for (result, code) in [(&late, 408), (&unknown, 404)] {
            let error = told(result.clone(), Profile::Shipped, Profile::Seed);
            assert_eq!(error["error"]["code"], code);
            let same = told(result.clone(), Profile::Shipped, Profile::Shipped);
            assert_eq!(same, *result);
        }
        let error = ErrorBody::new(408, "late").to_value(Profile::Seed);
        assert_eq!(told(error, Profile::Seed, Profile::Shipped), late);
        let failed = json!({"content": [], "isError": true, "structuredContent": {
            "error": "no", "error_type": "ValueError"}});
        let same = told(failed.clone(), Profile::Shipped, Profile::Seed);
        assert_eq!(same, failed, "a failure of the tool itself");
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
