//! What an editor may choose for the agents of its runs: whose role they have, and who they are.

use serde_json::{Value, json};
use workflow::{AgentAction, Provider};

/// The option of an editor's session that names the role, and the one that names the provider.
const ROLE: &str = "role";
const PROVIDER: &str = "provider";

/// What each step says itself.
const AS_WRITTEN: &str = "as-written";

/// Options of a step that belong to its own provider.
const OF_THE_PROVIDER: [&str; 2] = ["model", "executable"];

/// Nothing is chosen unless somebody does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choices {
    role: Option<String>,
    provider: Option<String>,
}

/// What there is to choose from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Offered {
    pub(crate) roles: Vec<String>,
    pub(crate) providers: Vec<String>,
}

impl Choices {
    /// Changes one; the words say why it cannot be changed so.
    pub(crate) fn choose(
        &mut self,
        option: &str,
        value: &str,
        offered: &Offered,
    ) -> Result<(), String> {
        let (place, known) = match option {
            ROLE => (&mut self.role, &offered.roles),
            PROVIDER => (&mut self.provider, &offered.providers),
            other => return Err(format!("there is no option {other:?}")),
        };
        *place = match value {
            AS_WRITTEN => None,
            value if known.iter().any(|known| known == value) => Some(value.to_owned()),
            other => return Err(format!("there is no {option} {other:?}")),
        };
        Ok(())
    }

    /// A mode is a role, for editors that have no options.
    pub(crate) fn choose_mode(&mut self, mode: &str, offered: &Offered) -> Result<(), String> {
        self.choose(ROLE, mode, offered)
    }

    /// The options as editors are told of them.
    pub(crate) fn options(&self, offered: &Offered) -> Value {
        json!([
            select(ROLE, "Role", "mode", &offered.roles, self.role.as_deref()),
            select(
                PROVIDER,
                "Agent of steps",
                "model",
                &offered.providers,
                self.provider.as_deref()
            ),
        ])
    }

    pub(crate) fn modes(&self, offered: &Offered) -> Value {
        let mode = |id: &str, name: &str| json!({ "id": id, "name": name });
        let roles = offered.roles.iter().map(|role| mode(role, role));
        let all: Vec<Value> = std::iter::once(mode(AS_WRITTEN, "As written"))
            .chain(roles)
            .collect();
        let current = self.role.as_deref().unwrap_or(AS_WRITTEN);
        json!({ "currentModeId": current, "availableModes": all })
    }

    /// The step with what was chosen. A role of its own is kept; a provider that was chosen is that of every step.
    pub(crate) fn applied(&self, mut action: AgentAction) -> Result<AgentAction, String> {
        if action.role.is_none() {
            action.role.clone_from(&self.role);
        }
        if let Some(provider) = &self.provider {
            let provider = Provider::parse(provider)?;
            if provider != action.provider {
                for option in OF_THE_PROVIDER {
                    action.options.remove(option);
                }
                action.provider = provider;
            }
        }
        Ok(action)
    }
}

fn select(id: &str, name: &str, category: &str, known: &[String], current: Option<&str>) -> Value {
    let option = |value: &str, name: &str| json!({ "value": value, "name": name });
    let known = known.iter().map(|known| option(known, known));
    let options: Vec<Value> = std::iter::once(option(AS_WRITTEN, "As written"))
        .chain(known)
        .collect();
    json!({
        "id": id, "name": name, "category": category, "type": "select",
        "currentValue": current.unwrap_or(AS_WRITTEN), "options": options,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered() -> Offered {
        Offered {
            roles: vec!["reviewer".to_owned()],
            providers: vec!["claude".to_owned()],
        }
    }

    #[test]
    fn what_is_offered_can_be_chosen_and_taken_back() {
        let mut choices = Choices::default();
        choices.choose(ROLE, "reviewer", &offered()).unwrap();
        choices.choose(PROVIDER, "claude", &offered()).unwrap();
        let told = choices.options(&offered());
        assert_eq!(told[0]["currentValue"], "reviewer");
        assert_eq!(told[1]["currentValue"], "claude");
        assert_eq!(choices.modes(&offered())["currentModeId"], "reviewer");
        choices.choose(ROLE, AS_WRITTEN, &offered()).unwrap();
        choices.choose(PROVIDER, AS_WRITTEN, &offered()).unwrap();
        assert_eq!(choices, Choices::default());
    }

    #[test]
    fn what_is_not_offered_is_refused_in_words() {
        let mut choices = Choices::default();
        let refused = |refused: Result<(), String>| refused.unwrap_err();
        assert!(refused(choices.choose(ROLE, "../x", &offered())).contains("no role"));
        assert!(refused(choices.choose("colour", "red", &offered())).contains("no option"));
        assert_eq!(choices, Choices::default());
    }
}
