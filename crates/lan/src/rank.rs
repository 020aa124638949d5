//! Which skill fits an intent: a ranking of texts, the same for the same words.
//!
//! Rare terms count more than common ones. A term in the name of a capability counts more than one in its description.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::terms::{shown, terms};

/// A capability of a peer, as it is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// The peer's id.
    pub peer: String,
    pub peer_name: String,
    pub capability: String,
    pub description: String,
}

/// A skill that fits, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranked {
    pub peer: String,
    pub capability: String,
    /// From 0 to 1.
    pub score: f64,
    pub why: String,
}

/// Below it, what two texts share is chance.
const FIT_MIN: f64 = 0.05;

/// What a term counts by where it was found.
const IN_CAPABILITY: f64 = 1.0;
const IN_PEER_NAME: f64 = 1.0;
const IN_DESCRIPTION: f64 = 0.8;

/// What a term that no skill knows counts against every skill: people say more than what they want done.
const UNKNOWN: f64 = 0.3;

/// Terms named as the reason.
const WHY_MAX: usize = 5;

/// Terms, and what each has added.
type Reasons<'a> = Vec<(f64, &'a str)>;

/// Skills prepared for comparing.
#[derive(Debug, Default)]
pub struct Index {
    skills: Vec<Skill>,
    /// By term: in which skills it is, and what it counts there.
    postings: HashMap<String, Vec<(usize, f64)>>,
}

impl Index {
    pub fn new(skills: Vec<Skill>) -> Self {
        let mut postings: HashMap<String, Vec<(usize, f64)>> = HashMap::new();
        for (number, skill) in skills.iter().enumerate() {
            for (term, weight) in weights(skill) {
                postings.entry(term).or_default().push((number, weight));
            }
        }
        Self { skills, postings }
    }

    /// The skills that fit, the best first.
    pub fn route(&self, text: &str) -> Vec<Ranked> {
        let mut asked = terms(text);
        asked.sort_unstable();
        asked.dedup();
        let mut possible = 0.0;
        let mut found: BTreeMap<usize, (f64, Reasons<'_>)> = BTreeMap::new();
        for term in &asked {
            let Some(postings) = self.postings.get(term) else {
                possible += UNKNOWN * self.rarity(0);
                continue;
            };
            let rarity = self.rarity(postings.len());
            possible += rarity;
            for (number, weight) in postings {
                let (score, reasons) = found.entry(*number).or_default();
                *score += rarity * weight;
                reasons.push((rarity * weight, shown(term)));
            }
        }
        let ranked = found
            .into_iter()
            .map(|(number, (score, reasons))| self.ranked(number, score / possible, reasons));
        let mut ranked: Vec<Ranked> = ranked.filter(|ranked| ranked.score >= FIT_MIN).collect();
        ranked.sort_by(|one, two| {
            let by_score = two.score.total_cmp(&one.score);
            by_score
                .then_with(|| one.peer.cmp(&two.peer))
                .then_with(|| one.capability.cmp(&two.capability))
        });
        ranked
    }

    fn ranked(&self, number: usize, score: f64, mut reasons: Reasons<'_>) -> Ranked {
        reasons.sort_by(|one, two| two.0.total_cmp(&one.0).then_with(|| one.1.cmp(two.1)));
        let mut words: Vec<&str> = Vec::new();
        for (_, word) in reasons {
            if !words.contains(&word) && words.len() < WHY_MAX {
                words.push(word);
            }
        }
        let skill = &self.skills[number];
        Ranked {
            peer: skill.peer.clone(),
            capability: skill.capability.clone(),
            score,
            why: words.join(", "),
        }
    }

    fn rarity(&self, with_it: usize) -> f64 {
        let (all, with_it) = (self.skills.len() as f64, with_it as f64);
        (1.0 + (all - with_it + 0.5) / (with_it + 0.5)).ln()
    }
}

/// One ranking; whoever asks often keeps an [`Index`].
pub fn route(text: &str, skills: &[Skill]) -> Vec<Ranked> {
    Index::new(skills.to_vec()).route(text)
}

fn weights(skill: &Skill) -> HashMap<String, f64> {
    let fields = [
        (&skill.capability, IN_CAPABILITY),
        (&skill.description, IN_DESCRIPTION),
        (&skill.peer_name, IN_PEER_NAME),
    ];
    let mut weights: HashMap<String, f64> = HashMap::new();
    for (text, weight) in fields {
        for term in terms(text) {
            let known = weights.entry(term).or_default();
            *known = known.max(weight);
        }
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(peer: &str, capability: &str, description: &str) -> Skill {
        Skill {
            peer: format!("id-{peer}"),
            peer_name: peer.to_owned(),
            capability: capability.to_owned(),
            description: description.to_owned(),
        }
    }

    fn household() -> Vec<Skill> {
        vec![
            skill(
                "nova9",
                "news_digest",
                "搜索、录制新闻并生成翻译摘要，支持多语言翻译",
            ),
            skill("nova9", "calendar", "日历管理，支持日程的增删改查"),
            skill("nova9", "radio", "电台搜索与播放控制"),
            skill("nova9", "webview", "网页浏览、内容抓取与交互"),
            skill("desk", "run_tests", "Builds a project and runs its tests"),
            skill(
                "desk",
                "code-review",
                "Reads changes and says what is wrong with them",
            ),
            skill("tablet", "radio", "Plays radio stations"),
        ]
    }

    fn best(text: &str) -> Option<(String, String)> {
        let first = route(text, &household()).into_iter().next();
        first.map(|ranked| (ranked.peer, ranked.capability))
    }

    #[test]
    fn an_intent_goes_to_the_capability_that_fits_in_both_languages() {
        for (text, capability) in [
            ("放一个轻音乐电台", "radio"),
            (
                "帮我搜一下乌克兰今天的新闻，翻译成中文，生成PDF",
                "news_digest",
            ),
            ("帮我关注一下乌克兰局势", "news_digest"),
            ("明天下午三点加一个日程", "calendar"),
            ("打开这个网页看看", "webview"),
            ("帮我把桌面上那个项目跑一下测试", "run_tests"),
            ("please review my code changes", "code-review"),
            ("what is on my schedule today?", "calendar"),
            ("translate the latest headlines", "news_digest"),
        ] {
            let found = best(text).map(|(_, capability)| capability);
            assert_eq!(found.as_deref(), Some(capability), "{text}");
        }
    }

    #[test]
    fn a_peer_that_is_named_comes_first() {
        let radio = |text| best(text).unwrap().0;
        assert_eq!(radio("play the radio on tablet"), "id-tablet");
        assert_eq!(radio("让 nova9 放电台"), "id-nova9");
    }

    #[test]
    fn nothing_fits_words_that_no_skill_shares() {
        assert_eq!(route("烤一个蛋糕", &household()), []);
        assert_eq!(route("", &household()), []);
        assert_eq!(route("news", &[]), []);
    }

    #[test]
    fn the_ranking_says_why_and_is_always_the_same() {
        let first = route("放一个轻音乐电台", &household());
        assert!(first[0].why.contains("电台"), "{}", first[0].why);
        assert!(
            first
                .iter()
                .all(|ranked| (0.0..=1.0).contains(&ranked.score))
        );
        let mut turned = household();
        turned.reverse();
        assert_eq!(first, route("放一个轻音乐电台", &turned));
    }

    #[test]
    fn a_thousand_skills_are_ranked_from_an_index() {
        let mut skills: Vec<Skill> = (0..1000)
            .map(|number| {
                skill(
                    &format!("node{number}"),
                    &format!("job{number}"),
                    "做一些工作 does work of many kinds",
                )
            })
            .collect();
        skills.extend(household());
        let index = Index::new(skills);
        assert_eq!(index.route("放一个轻音乐电台")[0].capability, "radio");
        assert_eq!(index.route("job512 please")[0].capability, "job512");
    }
}
