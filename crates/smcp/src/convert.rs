//! Between the machine and the wire: refusals become errors, notices become events.

use domain::office::{Change, Ending, Notice, Refusal, Role};
use serde_json::{Value, json};
use wire::smcp::{self, ErrorBody, Membership, Profile};

/// The codes of the specification.
pub(crate) mod code {
    pub(crate) const INVALID: i64 = 400;
    pub(crate) const FORBIDDEN: i64 = 403;
    pub(crate) const NOT_FOUND: i64 = 404;
    pub(crate) const TIMEOUT: i64 = 408;
    pub(crate) const INTERNAL: i64 = 500;
}

pub(crate) fn refusal(refusal: &Refusal) -> ErrorBody {
    let code = match refusal {
        Refusal::NoSuchComputer => code::NOT_FOUND,
        Refusal::RequestIdReused => code::INVALID,
        Refusal::UnknownConnection
        | Refusal::AgentPresent
        | Refusal::NameTaken
        | Refusal::Held { .. }
        | Refusal::AgentElsewhere { .. }
        | Refusal::RoleTaken { .. }
        | Refusal::NotInOffice
        | Refusal::OtherOffice
        | Refusal::WrongRole { .. }
        | Refusal::NotYours
        | Refusal::TooManyRequests { .. }
        | Refusal::OfficeFull { .. } => code::FORBIDDEN,
    };
    let words = match refusal {
        // Released clients look for these two words.
        Refusal::NameTaken => "A computer of this name already exists in the office.".to_owned(),
        other => sentence(&other.to_string()),
    };
    ErrorBody::new(code, words)
}

/// Details that released members look for beside the code and not among the others.
const BESIDE_CODE: [&str; 2] = ["mcp_server", "capability"];

/// An error as a member of this profile reads it.
pub(crate) fn error_value(error: &ErrorBody, profile: Profile) -> Value {
    let mut value = error.to_value(profile);
    if profile == Profile::Shipped {
        for key in BESIDE_CODE {
            if let Some(detail) = error.details.get(key) {
                value[key] = detail.clone();
            }
        }
    }
    value
}

/// The codes that released agents know in the answer to a tool call. Anything else they take for a result.
const KNOWN_TO_RELEASED: [i64; 10] = [404, 4006, 4007, 4008, 4014, 4015, 4016, 4017, 4018, 4019];

/// The answer to a tool call for a released agent: where it does not know the code, it finds a failed result that says the
/// same.
pub(crate) fn for_released(mut answer: Value) -> Value {
    let unknown = read_error(&answer).filter(|error| !KNOWN_TO_RELEASED.contains(&error.code));
    if let Some(error) = unknown {
        let result = smcp::CallResult::failure(error.message);
        answer["content"] = json!(result.content);
        answer["isError"] = json!(true);
    }
    answer
}

/// An error that somebody has written, with all its details in one place.
pub(crate) fn read_error(value: &Value) -> Option<ErrorBody> {
    let mut error = ErrorBody::from_value(value)?;
    for key in BESIDE_CODE {
        if let (Some(detail), false) = (value.get(key), error.details.contains_key(key)) {
            error.details.insert(key.to_owned(), detail.clone());
        }
    }
    Some(error)
}

/// Why there will be no answer.
pub(crate) fn ending(ending: Ending) -> ErrorBody {
    match ending {
        Ending::Vanished => ErrorBody::new(
            code::NOT_FOUND,
            "The computer has left before it answered; whether the call took effect is not known.",
        )
        .with("reason", "vanished"),
        Ending::Left => ErrorBody::new(code::FORBIDDEN, "You have left the office."),
    }
}

pub(crate) fn role(text: &str) -> Option<Role> {
    match text {
        "agent" => Some(Role::Agent),
        "computer" => Some(Role::Computer),
        _ => None,
    }
}

pub(crate) fn change(change: smcp::Change) -> Change {
    match change {
        smcp::Change::Config => Change::Config,
        smcp::Change::ToolList => Change::ToolList,
        smcp::Change::Desktop => Change::Desktop,
        smcp::Change::Skills => Change::Skills,
    }
}

fn wire_change(change: Change) -> smcp::Change {
    match change {
        Change::Config => smcp::Change::Config,
        Change::ToolList => smcp::Change::ToolList,
        Change::Desktop => smcp::Change::Desktop,
        Change::Skills => smcp::Change::Skills,
    }
}

/// The event that tells a member of this profile, if it has one for it.
pub(crate) fn notice(notice: &Notice, profile: Profile) -> Option<(String, Value)> {
    let membership = |role: Role, office: &domain::Name, name: &str| {
        let mut body = Membership {
            office_id: office.to_string(),
            ..Membership::default()
        };
        match role {
            Role::Agent => body.agent = Some(name.to_owned()),
            Role::Computer => body.computer = Some(name.to_owned()),
        }
        json!(body)
    };
    match notice {
        Notice::Entered { office, role, name } => Some((
            smcp::enter_notice().to_owned(),
            membership(*role, office, name.as_str()),
        )),
        Notice::Left { office, role, name } => Some((
            smcp::leave_notice().to_owned(),
            membership(*role, office, name.as_str()),
        )),
        Notice::Changed {
            computer, change, ..
        } => {
            let event = wire_change(*change).notice(profile)?;
            Some((event, json!({ "computer": computer.as_str() })))
        }
        Notice::Cancelled { agent, request, .. } => Some((
            smcp::cancel_notice().to_owned(),
            json!({ "agent": agent.as_str(), "req_id": request.as_str() }),
        )),
    }
}

/// Words of a refusal as a sentence.
pub(crate) fn sentence(words: &str) -> String {
    let mut characters = words.chars();
    match characters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), characters.as_str()),
        None => String::new(),
    }
}

/// Bytes of the words that come with a call's progress: a line for a person.
const PROGRESS_WORDS_MAX: usize = 1024;

/// Words of progress within bounds.
pub(crate) fn shorten(words: &mut Option<String>) {
    if let Some(words) = words {
        words.truncate(words.floor_char_boundary(PROGRESS_WORDS_MAX));
    }
}

/// About how many bytes a value takes.
pub(crate) fn size(value: &Value) -> usize {
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
    use domain::{Name, office::MemberName};

    use super::*;

    #[test]
    fn a_member_hears_the_names_of_its_profile() {
        let changed = Notice::Changed {
            office: Name::parse("o").unwrap(),
            computer: MemberName::parse("pc").unwrap(),
            change: Change::Config,
        };
        let heard = |profile| notice(&changed, profile).unwrap();
        let body = json!({"computer": "pc"});
        assert_eq!(
            heard(Profile::Seed),
            ("notify:update_mcp_config".to_owned(), body.clone())
        );
        assert_eq!(
            heard(Profile::Shipped),
            ("notify:update_config".to_owned(), body)
        );
    }

    #[test]
    fn an_error_keeps_its_details_in_both_profiles() {
        let flat = json!({
            "code": 4015, "message": "no", "details": {}, "mcp_server": "m", "capability": "resources"
        });
        let error = read_error(&flat).unwrap();
        let told = error_value(&error, Profile::Seed);
        assert_eq!(
            told["error"]["details"],
            json!({"mcp_server": "m", "capability": "resources"})
        );
        let again = error_value(&read_error(&told).unwrap(), Profile::Shipped);
        assert_eq!(
            (&again["mcp_server"], &again["capability"]),
            (&flat["mcp_server"], &flat["capability"])
        );
        assert_eq!(read_error(&json!({"content": []})), None);
    }

    #[test]
    fn a_released_agent_finds_words_where_it_does_not_know_the_code() {
        let refused = |code| ErrorBody::new(code, "no").to_value(Profile::Shipped);
        let told = for_released(refused(403));
        assert_eq!(
            (&told["code"], &told["message"]),
            (&json!(403), &json!("no"))
        );
        assert_eq!(told["content"], json!([{"type": "text", "text": "no"}]));
        assert_eq!(told["isError"], true);
        assert_eq!(for_released(refused(404)), refused(404));
        let result = json!({"content": [], "isError": false});
        assert_eq!(for_released(result.clone()), result);
    }

    #[test]
    fn refusals_have_the_codes_of_the_specification() {
        for (refused, code) in [
            (Refusal::AgentPresent, 403),
            (Refusal::NoSuchComputer, 404),
            (Refusal::RequestIdReused, 400),
            (Refusal::NotInOffice, 403),
        ] {
            assert_eq!(refusal(&refused).code, code);
        }
        assert_eq!(
            refusal(&Refusal::NotInOffice).message,
            "Join an office first."
        );
    }
}
