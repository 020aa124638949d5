//! Who may come into the offices of a server that stands alone: a file of tokens, or one token for everything.

use std::{path::Path, sync::Arc};

use domain::{Name, office::Role};
use platform::{files, owner};
use smcp::{Authenticator, Caller};

use crate::error::CommandError;

/// Some ten thousand tokens.
const FILE_MAX: u64 = 1024 * 1024;

/// A token shorter than this can be guessed.
pub(crate) const TOKEN_MIN: usize = 16;

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Guest {
    /// For the record of refusals; a line's number, never the token.
    name: String,
    token: String,
    role: Option<Role>,
    office: Option<Name>,
}

/// Everybody who may come in.
#[derive(Debug, Clone)]
pub(crate) struct Guests(Vec<Guest>);

impl Guests {
    pub(crate) fn authenticator(self) -> Authenticator {
        Arc::new(move |token: &str| {
            // Every token is compared whole, so that the time taken tells nothing of them.
            let mut found = None;
            for guest in &self.0 {
                if is_same(&guest.token, token) {
                    found = Some(guest);
                }
            }
            let guest = found?.clone();
            Some(Caller::new(guest.name, move |role, office| {
                guest.role.is_none_or(|own| own == role)
                    && guest.office.as_ref().is_none_or(|own| own == office)
            }))
        })
    }
}

/// A token that nobody guesses.
pub(crate) fn fresh_token() -> String {
    format!("{}{}", owner::fresh_id(), owner::fresh_id())
}

/// One token that opens every office in every role.
pub(crate) fn generated() -> (Guests, String) {
    let token = fresh_token();
    let guest = Guest {
        name: "everybody".to_owned(),
        token: token.clone(),
        role: None,
        office: None,
    };
    (Guests(vec![guest]), token)
}

pub(crate) fn read_guests(path: &Path) -> Result<Guests, CommandError> {
    let wrong = |error: anyhow::Error| {
        CommandError::machine(format!("read the tokens of {}", path.display()), error)
    };
    let bytes = files::read_bounded(path, FILE_MAX).map_err(|error| wrong(error.into()))?;
    parse(&String::from_utf8_lossy(&bytes))
        .map(Guests)
        .map_err(|message| wrong(anyhow::anyhow!(message)))
}

fn parse(text: &str) -> Result<Vec<Guest>, String> {
    let mut guests: Vec<Guest> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let number = index + 1;
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[token, role, office] = words.as_slice() else {
            return Err(format!("line {number} is not TOKEN ROLE OFFICE"));
        };
        if token.len() < TOKEN_MIN {
            return Err(format!(
                "the token of line {number} is shorter than {TOKEN_MIN} characters"
            ));
        }
        if guests.iter().any(|guest| guest.token == token) {
            return Err(format!("the token of line {number} is there twice"));
        }
        let role = match role {
            "agent" => Some(Role::Agent),
            "computer" => Some(Role::Computer),
            "any" => None,
            other => {
                return Err(format!(
                    "the role of line {number} is agent, computer or any, not {other:?}"
                ));
            }
        };
        let office = match office {
            "*" => None,
            office => Some(
                Name::parse(office)
                    .map_err(|error| format!("the office of line {number}: {error}"))?,
            ),
        };
        guests.push(Guest {
            name: format!("line-{number}"),
            token: token.to_owned(),
            role,
            office,
        });
    }
    Ok(guests)
}

/// Compares them whole, so that the time taken tells nothing.
pub(crate) fn is_same(known: &str, given: &str) -> bool {
    let differences = known
        .bytes()
        .zip(given.bytes())
        .fold(0, |differences, (a, b)| differences | (a ^ b));
    known.len() == given.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(authenticator: &Authenticator, token: &str, role: Role, office: &str) -> Option<bool> {
        let caller = authenticator(token)?;
        Some(caller.may_join(role, &Name::parse(office).unwrap()))
    }

    #[test]
    fn a_token_opens_what_its_line_says() {
        let text = "# guests\n\nsixteen-letters-1 agent studio\n sixteen-letters-2  computer *\nsixteen-letters-3 any lab\n";
        let guests = Guests(parse(text).unwrap()).authenticator();
        for (token, role, office, expected) in [
            ("sixteen-letters-1", Role::Agent, "studio", Some(true)),
            ("sixteen-letters-1", Role::Computer, "studio", Some(false)),
            ("sixteen-letters-1", Role::Agent, "lab", Some(false)),
            ("sixteen-letters-2", Role::Computer, "lab", Some(true)),
            ("sixteen-letters-3", Role::Agent, "lab", Some(true)),
            ("sixteen-letters-", Role::Agent, "studio", None),
            ("", Role::Agent, "studio", None),
        ] {
            assert_eq!(
                may(&guests, token, role, office),
                expected,
                "{token} {office}"
            );
        }
    }

    #[test]
    fn a_line_that_makes_no_sense_is_named_without_its_token() {
        for (text, words) in [
            ("sixteen-letters-1 agent", "line 1 is not TOKEN ROLE OFFICE"),
            ("\nshort agent studio", "the token of line 2 is shorter"),
            ("sixteen-letters-1 boss studio", "not \"boss\""),
            ("sixteen-letters-1 any ../x", "the office of line 1: "),
            (
                "sixteen-letters-1 any a\nsixteen-letters-1 any b",
                "the token of line 2 is there twice",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words), "{error}");
            assert!(!error.contains("sixteen-letters"), "{error}");
        }
    }

    #[test]
    fn a_generated_token_opens_everything_and_is_new_each_time() {
        let ((guests, token), (_, other)) = (generated(), generated());
        assert_ne!(token, other);
        let guests = guests.authenticator();
        assert_eq!(may(&guests, &token, Role::Computer, "any"), Some(true));
        assert_eq!(may(&guests, &other, Role::Computer, "any"), None);
    }
}
