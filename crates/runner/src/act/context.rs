//! Roles and skills that a step gives its agent, from the folders where people keep them.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use platform::files;
use workflow::{AgentAction, Mention, Mentioned, Problem};

use crate::surroundings::Scene;

/// A role or a skill is a page of text.
const FILE_MAX: u64 = 256 * 1024;

/// Roles that an editor is told of; more than that nobody picks from a list.
const ROLES_MAX: usize = 100;

const ROLES: [&str; 3] = [".agentcraft/roles", ".awf/roles", ".agents/roles"];
const SKILLS: [&str; 4] = [
    ".agentcraft/skills",
    ".awf/skills",
    ".agents/skills",
    ".claude/skills",
];
const USER_ROLES: [&str; 2] = [".config/awf/roles", ".agents/roles"];
const USER_SKILLS: [&str; 3] = [".config/awf/skills", ".agents/skills", ".claude/skills"];

/// What the agent is told beside the prompt.
#[derive(Debug, Default)]
pub(super) struct Context {
    pub(super) system: Option<String>,
    pub(super) prompt: String,
}

/// The role comes before the step's own system prompt, skills come before the prompt.
pub(super) fn of(action: &AgentAction, scene: &Scene) -> Result<Context, String> {
    let role = match &action.role {
        None => None,
        Some(role) => {
            let places = role_places(&Around::of(scene));
            let text = find(&places, role, "AGENTS.md");
            Some(text.ok_or_else(|| format!("USER.INPUT.MISSING_ROLE: there is no role {role}"))?)
        }
    };
    let system: Vec<String> = role
        .into_iter()
        .chain(action.system_prompt.clone())
        .collect();
    let mut prompt = String::new();
    for skill in &action.skills {
        let text = skill_text(&Around::of(scene), skill);
        let text =
            text.ok_or_else(|| format!("USER.INPUT.MISSING_SKILL: there is no skill {skill}"))?;
        prompt.push_str(&text);
        prompt.push_str("\n\n");
    }
    prompt.push_str(&action.prompt);
    Ok(Context {
        system: (!system.is_empty()).then(|| system.join("\n\n")),
        prompt,
    })
}

/// The names of all roles that a step of a run there can have.
pub(crate) fn roles(scene: &Scene) -> Vec<String> {
    let folders = role_places(&Around::of(scene)).into_iter();
    let entries = folders.flat_map(|folder| files::list(&folder).unwrap_or_default());
    let names: BTreeSet<String> = entries
        .filter(|path| {
            path.extension().is_some_and(|suffix| suffix == "md")
                || files::is_there(&path.join("AGENTS.md"))
        })
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .filter(|name| is_plain(name))
        .collect();
    names.into_iter().take(ROLES_MAX).collect()
}

/// Which of the roles and skills that a file names are not there, for a run in this folder.
pub fn missing(
    mentions: &[Mention],
    cwd: &Path,
    environment: &BTreeMap<OsString, OsString>,
    user_home: Option<&Path>,
) -> Vec<Problem> {
    let around = Around {
        cwd,
        environment,
        user_home,
    };
    let is_there = |mention: &&Mention| match mention.kind {
        Mentioned::Role => find(&role_places(&around), &mention.name, "AGENTS.md").is_some(),
        Mentioned::Skill => skill_text(&around, &mention.name).is_some(),
    };
    let missing = mentions.iter().filter(|mention| !is_there(mention));
    missing.map(Mention::missing).collect()
}

/// Where a run takes place, as far as it decides where roles and skills are.
struct Around<'a> {
    cwd: &'a Path,
    environment: &'a BTreeMap<OsString, OsString>,
    user_home: Option<&'a Path>,
}

impl<'a> Around<'a> {
    fn of(scene: &'a Scene) -> Self {
        Self {
            cwd: &scene.cwd,
            environment: scene.environment(),
            user_home: scene.node.user_home.as_deref(),
        }
    }
}

fn role_places(around: &Around<'_>) -> Vec<PathBuf> {
    places(around, "AWF_ROLES_PATH", &ROLES, &USER_ROLES)
}

fn skill_text(around: &Around<'_>, skill: &str) -> Option<String> {
    if skill.contains('/') {
        let path = around.cwd.join(skill);
        return read(&path).or_else(|| read(&path.join("SKILL.md")));
    }
    let places = places(around, "AWF_SKILLS_PATH", &SKILLS, &USER_SKILLS);
    find(&places, skill, "SKILL.md")
}

/// The variable names the only folder, where it is set.
fn places(around: &Around<'_>, variable: &str, local: &[&str], user: &[&str]) -> Vec<PathBuf> {
    if let Some(folder) = around.environment.get(OsStr::new(variable)) {
        return vec![PathBuf::from(folder)];
    }
    let local = local.iter().map(|folder| around.cwd.join(folder));
    let home = around.user_home;
    let user = user.iter().filter_map(|folder| Some(home?.join(folder)));
    local.chain(user).collect()
}

fn find(places: &[PathBuf], name: &str, file: &str) -> Option<String> {
    let mut folders = places.iter().filter(|_| is_plain(name));
    folders.find_map(|folder| {
        read(&folder.join(name).join(file)).or_else(|| read(&folder.join(format!("{name}.md"))))
    })
}

fn is_plain(name: &str) -> bool {
    let is_fine = |letter: char| letter.is_alphanumeric() || "_-.".contains(letter);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_fine)
}

fn read(path: &Path) -> Option<String> {
    let bytes = files::read_bounded(path, FILE_MAX).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
