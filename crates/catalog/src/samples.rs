//! What a first start puts into an empty configs folder: one template of the built-in agent and what it refers to.

/// A file below the configs folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub path: &'static str,
    pub content: &'static str,
}

pub const SAMPLES: &[Sample] = &[
    Sample {
        path: "templates/starter.json",
        content: STARTER,
    },
    Sample {
        path: "skills/careful-changes.yaml",
        content: CAREFUL_CHANGES,
    },
    Sample {
        path: "prompts/workspace-guide.yaml",
        content: WORKSPACE_GUIDE,
    },
    Sample {
        path: "workflows/look-plan-do.yaml",
        content: LOOK_PLAN_DO,
    },
];

const STARTER: &str = r#"{
  "name": "starter",
  "version": "1.0.0",
  "description": "The built-in agent: no model, no account, works offline. Copy this file to make your own.",
  "backend": { "type": "builtin" },
  "domainContext": {
    "skills": ["careful-changes"],
    "prompts": ["workspace-guide"],
    "workflow": "look-plan-do"
  },
  "metadata": {
    "language": "English"
  }
}
"#;

const CAREFUL_CHANGES: &str = "\
name: careful-changes
description: How to change files so that every change is small, checked and easy to undo
tags: [editing, safety]
content: |
  Before a change, read the file and whatever calls it. Change one thing at a time.

  - Keep the style of the file, even where you would write it differently.
  - Change nothing you were not asked to change; mention it instead.
  - Run the checks the project has. Without any, say how you know that it works.
  - Never delete or overwrite what you cannot bring back without asking first.

  When you are done, say what you changed, why, and what you did not check.
";

const WORKSPACE_GUIDE: &str = "\
name: workspace-guide
description: Who the agent is and where it works
variables: [agent, template, language]
content: |
  You are {{agent}}, an agent made from the template {{template}}. Answer in {{language}}.

  The folder you were started in is your workspace: everything you make belongs there. If the task needs something
  from outside, say what and why. If the task is unclear, ask one question rather than guess.
";

const LOOK_PLAN_DO: &str = "\
name: look-plan-do
description: Three steps for any task
content: |
  1. Look: read what is there and say in two sentences how things stand.
  2. Plan: list the steps, the smallest first, and what could go wrong.
  3. Do: take one step, check it, and go on only when it holds.
";

#[cfg(test)]
mod tests {
    use domain::Name;

    use super::*;
    use crate::{
        Components, Format, Template, parse_prompt, parse_skill, parse_template, parse_workflow,
        plan,
    };

    #[test]
    fn the_samples_are_valid_and_make_a_workspace() {
        let mut components = Components::default();
        let mut template: Option<Template> = None;
        for Sample { path, content } in SAMPLES {
            let format = Format::from_path(path).unwrap();
            let (folder, file) = path.split_once('/').unwrap();
            let stem = file.split('.').next().unwrap();
            let problems = match folder {
                "templates" => {
                    let checked = parse_template(content, format);
                    template = checked.value;
                    checked.problems
                }
                "skills" => {
                    let (skill, problems) = parse_skill(content, format).into_result().unwrap();
                    assert_eq!(skill.name.as_str(), stem);
                    components.skills.insert(skill.name.clone(), skill);
                    problems
                }
                "prompts" => {
                    let (prompt, problems) = parse_prompt(content, format).into_result().unwrap();
                    assert_eq!(prompt.name.as_str(), stem);
                    components.prompts.insert(prompt.name.clone(), prompt);
                    problems
                }
                "workflows" => {
                    let (workflow, problems) =
                        parse_workflow(content, format, stem).into_result().unwrap();
                    assert_eq!(workflow.name.as_str(), stem);
                    components.workflows.insert(workflow.name.clone(), workflow);
                    problems
                }
                other => panic!("no kind lives in {other}"),
            };
            assert_eq!(problems, [], "{path}");
        }
        let planned = plan(
            &template.unwrap(),
            &components,
            &Name::parse("first").unwrap(),
        )
        .unwrap();
        let agents = planned
            .files
            .iter()
            .find(|file| file.path.as_str() == "AGENTS.md")
            .unwrap();
        assert!(agents.content.contains(
            "You are first, an agent made from the template starter. Answer in English."
        ));
        assert!(!agents.content.contains("{{"), "{}", agents.content);
    }
}
