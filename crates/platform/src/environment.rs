//! Which variables of our own environment a child may see: an allowlist, so that secrets stay here.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

/// What programs need to find themselves, speak the user's language and reach the network. Nothing here holds a secret
/// except a proxy's password, which a child behind a proxy cannot do without.
const PASSED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TERM",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "XDG_RUNTIME_DIR",
];

/// The part of an inherited environment that every child gets. The caller passes the environment; it is not read here.
pub fn base_environment(
    inherited: impl IntoIterator<Item = (OsString, OsString)>,
) -> BTreeMap<OsString, OsString> {
    inherited
        .into_iter()
        .filter(|(name, _)| passes(name))
        .collect()
}

fn passes(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    PASSED.contains(&name)
        || name.starts_with("LC_")
        || (name.starts_with("XDG_") && name.ends_with("_HOME"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_listed_variables_pass() {
        let names = [
            "PATH",
            "LC_ALL",
            "XDG_CONFIG_HOME",
            "https_proxy",
            "OPENAI_API_KEY",
            "AGENTCRAFT_OWNER",
            "LD_PRELOAD",
            "XDG_SESSION_ID",
            "path",
        ];
        let inherited = names.map(|name| (OsString::from(name), OsString::from("value")));
        let kept: Vec<_> = base_environment(inherited).into_keys().collect();
        assert_eq!(kept, ["LC_ALL", "PATH", "XDG_CONFIG_HOME", "https_proxy"]);
    }
}
