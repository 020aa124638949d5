//! The node: the state of its daemon, and the greeting of `up`.

use std::time::Duration;

use wire::daemon::PingResult;

use super::{
    fields::Fields,
    style::{Style, Tone},
    time::duration,
};
use crate::{config::Config, connection::VERSION, daemon::Ready, network::Address};

pub(crate) fn daemon_detail(ping: &PingResult, config: &Config, style: Style) -> String {
    let address = Address::read(&config.home).map_or_else(
        || Address::why_none(config).unwrap_or_else(|| "off".to_owned()),
        |address| address.url,
    );
    let mut fields = Fields::new(style, "agentcraft daemon", (Tone::Good, "running"));
    fields
        .field("version", &ping.version)
        .field("pid", &ping.pid.to_string())
        .field(
            "running for",
            &duration(Duration::try_from_secs_f64(ping.uptime).unwrap_or_default()),
        )
        .field("agents", &ping.agents.to_string())
        .field("home", &ping.home)
        .field("socket", &config.socket.display().to_string())
        .field("address", &address);
    fields.finish()
}

/// What a person sees who has just started a node.
pub(crate) fn welcome(config: &Config, ready: &Ready, style: Style) -> String {
    let mut fields = Fields::new(
        style,
        &format!("agentcraft {VERSION}"),
        (Tone::Good, "ready"),
    );
    fields
        .field("home", &config.home.display().to_string())
        .field("socket", &config.socket.display().to_string())
        .field("configs", &config.configs_dir.display().to_string())
        .field("logs", &config.home.join("logs").display().to_string())
        .field("address", ready.url.as_deref().unwrap_or("not listening"))
        .field("pid", &ready.pid.to_string());
    let mut text = fields.finish();
    text.push_str("\nTry in another terminal:\n");
    let flags: String = config
        .flags()
        .iter()
        .map(|word| format!(" {}", shell_word(word)))
        .collect();
    for command in ["agent list", "agent chat starter", "dashboard", "doctor"] {
        let command = format!("agentcraft{flags} {command}");
        text.push_str(&format!("  {}\n", style.paint(Tone::Strong, &command)));
    }
    text.push_str("\nCtrl-C stops the node.\n");
    text
}

/// A word as a shell reads it back.
fn shell_word(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./:@%+=,".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_typed_survives_the_shell() {
        for (word, typed) in [
            ("/node", "/node"),
            ("/my node", "'/my node'"),
            ("/it's", r"'/it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(word), typed);
        }
    }
}
