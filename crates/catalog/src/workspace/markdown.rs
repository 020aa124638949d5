//! The Markdown agents read: sections of skills and prompts, and the front matter of a skill's own file.

use std::fmt::Write;

use crate::component::Skill;

/// What Agent Skills allow for a description, in characters.
const DESCRIPTION_MAX: usize = 1024;

/// One entry of a section: `## name`, the description as a quotation, the text.
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    pub(super) description: Option<&'a str>,
    pub(super) text: &'a str,
}

/// `# title` and its entries, ruled off from each other; empty without entries. Ends with one newline.
pub(super) fn section(title: &str, entries: &[Entry<'_>]) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let bodies: Vec<String> = entries.iter().map(body).collect();
    format!("# {title}\n\n{}\n", bodies.join("\n\n---\n\n"))
}

fn body(entry: &Entry<'_>) -> String {
    let mut body = format!("## {}\n", entry.name);
    let description = entry.description.map(str::trim).unwrap_or_default();
    for line in description.lines() {
        let quoted = format!("> {line}");
        body.push_str(quoted.trim_end());
        body.push('\n');
    }
    if !description.is_empty() {
        body.push('\n');
    }
    body.push_str(entry.text.trim_end());
    body
}

/// A `SKILL.md`: front matter with the name and what the skill is for, then the content.
pub(super) fn skill_file(skill: &Skill) -> String {
    format!(
        "---\nname: {}\ndescription: {}\n---\n\n{}\n",
        yaml_quoted(skill.name.as_str()),
        yaml_quoted(&description_of(skill)),
        skill.content.trim_end()
    )
}

/// An agent picks a skill by its description, so a skill without one is described by its first line.
fn description_of(skill: &Skill) -> String {
    let written = skill.description.as_deref().map(str::trim);
    let text = written
        .filter(|text| !text.is_empty())
        .or_else(|| {
            skill
                .content
                .lines()
                .map(|line| line.trim_start_matches(['#', '>', '-', '*', ' ']).trim())
                .find(|line| !line.is_empty())
        })
        .unwrap_or(skill.name.as_str());
    text.chars().take(DESCRIPTION_MAX).collect()
}

/// A YAML string in double quotes that every reader takes the same way.
fn yaml_quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            // YAML 1.1 readers break lines at the last two, and no reader likes raw controls.
            control
                if control.is_control()
                    || matches!(control, '\u{2028}' | '\u{2029}' | '\u{feff}') =>
            {
                let _ = write!(quoted, "\\u{:04X}", u32::from(control)); // Writing to a String cannot fail.
            }
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use domain::Name;

    use super::*;
    use crate::Format;

    #[test]
    fn a_section_looks_the_way_agents_know_it() {
        let entries = [
            Entry {
                name: "s1",
                description: Some("desc\nmore"),
                text: "one\n\n",
            },
            Entry {
                name: "s2",
                description: None,
                text: "two",
            },
        ];
        assert_eq!(
            section("Agent Skills", &entries),
            "# Agent Skills\n\n## s1\n> desc\n> more\n\none\n\n---\n\n## s2\ntwo\n"
        );
        assert_eq!(section("Agent Skills", &[]), "");
    }

    #[test]
    fn the_front_matter_of_any_skill_is_valid_yaml() {
        let hostile = "a: \"b\" # c\n---\n\\ \t\u{7}\u{85}\u{2028}é{{x}}";
        let cases = [
            (Some("plain"), "text", "plain"),
            (Some(hostile), "text", hostile),
            (Some("  "), "# Title\n\nBody", "Title"),
            (None, "\n- First: point\n", "First: point"),
            (None, "###", "s"),
        ];
        for (description, content, expected) in cases {
            let file = skill_file(&Skill {
                name: Name::parse("s").unwrap(),
                description: description.map(str::to_owned),
                content: content.to_owned(),
                tags: Vec::new(),
            });
            let matter = file
                .strip_prefix("---\n")
                .unwrap()
                .split("\n---\n")
                .next()
                .unwrap();
            let value = crate::document::parse(matter, Format::Yaml).unwrap();
            assert_eq!(
                value,
                serde_json::json!({"name": "s", "description": expected}),
                "{file}"
            );
        }
    }
}
