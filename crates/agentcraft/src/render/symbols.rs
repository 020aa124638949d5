//! The few signs beside letters, with a form for terminals that show nothing but ASCII.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

/// Signs of one kind of terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Symbols {
    pub(super) waiting: &'static str,
    pub(super) done: &'static str,
    pub(super) failed: &'static str,
    pub(super) bullet: &'static str,
    /// Beside code and quotes.
    pub(super) gutter: &'static str,
    pub(super) more: &'static str,
}

impl Symbols {
    pub(crate) const UNICODE: Self = Self {
        waiting: "…",
        done: "✓",
        failed: "✗",
        bullet: "•",
        gutter: "│",
        more: "…",
    };
    pub(crate) const ASCII: Self = Self {
        waiting: ".",
        done: "+",
        failed: "x",
        bullet: "*",
        gutter: "|",
        more: "...",
    };

    /// What the locale in these variables can show. The first one that is set decides, as in the C library.
    pub(crate) fn of_locale(environment: &BTreeMap<OsString, OsString>) -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .filter_map(|name| environment.get(OsStr::new(name)))
            .find(|value| !value.is_empty());
        let locale = locale
            .map(|value| value.to_string_lossy().to_lowercase())
            .unwrap_or_default();
        match locale.contains("utf-8") || locale.contains("utf8") {
            true => Self::UNICODE,
            false => Self::ASCII,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_decides_and_the_stronger_variable_wins() {
        let cases: [(&[(&str, &str)], Symbols); 5] = [
            (&[], Symbols::ASCII),
            (&[("LANG", "de_DE.UTF-8")], Symbols::UNICODE),
            (&[("LC_ALL", "C.utf8"), ("LANG", "C")], Symbols::UNICODE),
            (&[("LC_ALL", "C"), ("LANG", "C.UTF-8")], Symbols::ASCII),
            (&[("LC_ALL", ""), ("LC_CTYPE", "C.UTF-8")], Symbols::UNICODE),
        ];
        for (variables, expected) in cases {
            let environment = variables
                .iter()
                .map(|(name, value)| (OsString::from(name), OsString::from(value)))
                .collect();
            assert_eq!(Symbols::of_locale(&environment), expected, "{variables:?}");
        }
    }
}
