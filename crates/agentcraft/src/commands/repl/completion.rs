//! What Tab offers in the REPL: commands, options, and names of agents.

use clap::CommandFactory;

use crate::args::Arguments;

/// Commands that the REPL has beside those of the program.
const OWN: [&str; 3] = ["exit", "help", "use"];

/// Where the last word begins, and what it may become.
pub(super) fn offer(line: &str, agents: &[String]) -> (usize, Vec<String>) {
    let start = line.rfind([' ', '\t']).map_or(0, |blank| blank + 1);
    let (before, last) = line.split_at(start);
    let mut command = Arguments::command();
    command.build();
    let mut command = &command;
    let mut depth = 0;
    for word in before.split_whitespace() {
        if let Some(inner) = command.find_subcommand(word) {
            command = inner;
            depth += 1;
        }
    }
    let takes_agent = before.trim() == "use"
        || depth > 0
            && command
                .get_positionals()
                .any(|it| matches!(it.get_id().as_str(), "name" | "names"));
    let mut offers: Vec<String> = if last.starts_with('-') {
        let options = command
            .get_arguments()
            .filter(|option| !option.is_hide_set());
        options
            .filter_map(|option| option.get_long())
            .map(|long| format!("--{long}"))
            .collect()
    } else if command.has_subcommands() && before.trim() != "use" {
        let inner = command
            .get_subcommands()
            .filter(|inner| !inner.is_hide_set());
        let own = OWN
            .iter()
            .filter(|_| depth == 0)
            .map(|word| (*word).to_owned());
        inner
            .map(|inner| inner.get_name().to_owned())
            .chain(own)
            .collect()
    } else if takes_agent || before.trim() == "use" {
        agents.to_vec()
    } else {
        Vec::new()
    };
    offers.retain(|offer| offer.starts_with(last));
    offers.sort();
    offers.dedup();
    (start, offers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_options_and_agents_are_offered_where_they_fit() {
        let agents = ["reviewer".to_owned(), "helper".to_owned()];
        let cases: [(&str, usize, &[&str]); 6] = [
            ("ag", 0, &["agent"]),
            ("agent st", 6, &["start", "status", "stop"]),
            ("agent chat re", 11, &["reviewer"]),
            ("use ", 4, &["helper", "reviewer"]),
            ("session export s-1 --fo", 19, &["--format"]),
            ("doctor x", 7, &[]),
        ];
        for (line, start, offers) in cases {
            let expected: Vec<String> = offers.iter().map(|it| (*it).to_owned()).collect();
            assert_eq!(offer(line, &agents), (start, expected), "{line}");
        }
    }
}
