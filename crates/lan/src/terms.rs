//! The words of a text, in Chinese and English, as far as comparing needs them.
//!
//! Latin words are lower-cased and lose their endings; scripts without spaces become pairs of characters. A short table
//! joins words of both languages that mean the same, so that a question in one finds a skill described in the other.

use std::{collections::HashMap, sync::LazyLock};

/// Characters of a text that are looked at: an intent is a few sentences.
const TEXT_MAX: usize = 8 * 1024;

/// Characters that join words and mean nothing by themselves.
const STOP_CHARACTERS: &str = "的了我你您他她它帮请吗呢吧啊把个这那和与并给也都很就或及为让";

const STOP_PAIRS: [&str; 14] = [
    "一下", "一些", "可以", "需要", "什么", "怎么", "怎样", "现在", "已经", "支持", "进行", "使用",
    "一张", "哪些",
];

const STOP_WORDS: [&str; 58] = [
    "a", "an", "the", "and", "or", "of", "to", "in", "on", "at", "for", "from", "with", "by", "as",
    "is", "are", "was", "be", "been", "it", "its", "this", "that", "these", "those", "i", "me",
    "my", "we", "us", "our", "you", "your", "he", "she", "they", "them", "do", "does", "did",
    "can", "could", "would", "should", "will", "shall", "may", "please", "want", "need", "some",
    "any", "what", "which", "how", "into", "s",
];

/// Words that mean the same, in either language; the first one is how the meaning is called.
const MEANINGS: [&[&str]; 32] = [
    &[
        "news", "headline", "新闻", "局势", "时事", "头条", "资讯", "要闻",
    ],
    &[
        "calendar",
        "schedule",
        "appointment",
        "agenda",
        "日历",
        "日程",
        "行程",
    ],
    &["meeting", "conference", "会议", "开会"],
    &["radio", "broadcast", "电台", "广播", "收音"],
    &["music", "song", "playlist", "音乐", "歌曲", "听歌", "放歌"],
    &["play", "playback", "播放"],
    &["translate", "translation", "interpret", "翻译", "译成"],
    &[
        "summary",
        "summarize",
        "summarise",
        "digest",
        "摘要",
        "总结",
        "概括",
    ],
    &[
        "search", "find", "lookup", "搜索", "查找", "搜一", "寻找", "检索",
    ],
    &[
        "web", "website", "browser", "webpage", "browse", "网页", "浏览", "网站",
    ],
    &["mail", "email", "inbox", "邮件", "邮箱", "收信"],
    &["message", "chat", "sms", "消息", "短信", "聊天"],
    &["photo", "picture", "image", "照片", "图片", "图像", "拍照"],
    &["video", "film", "movie", "视频", "电影"],
    &["file", "document", "文件", "文档"],
    &["test", "测试"],
    &["code", "program", "代码", "编程", "程序"],
    &["review", "inspect", "audit", "审查", "评审", "审核"],
    &["build", "compile", "构建", "编译"],
    &["deploy", "release", "publish", "部署", "发布"],
    &["weather", "forecast", "天气", "预报"],
    &["remind", "reminder", "alarm", "提醒", "闹钟"],
    &["print", "printer", "打印"],
    &["backup", "备份"],
    &["download", "下载"],
    &["upload", "上传"],
    &["database", "sql", "数据"],
    &["report", "报告", "报表"],
    &["write", "draft", "写作", "撰写", "起草"],
    &["map", "navigate", "route", "地图", "导航", "路线"],
    &["shop", "buy", "purchase", "购物", "购买", "下单"],
    &["light", "lamp", "灯光", "开灯", "关灯"],
];

static MEANING_OF: LazyLock<HashMap<String, &'static str>> = LazyLock::new(|| {
    let pairs = MEANINGS.iter().flat_map(|group| {
        let name = group[0];
        group.iter().map(move |word| (stem(word), name))
    });
    pairs.collect()
});

/// The terms of a text in order, repeated where they are; a meaning is `=` and its name.
pub(crate) fn terms(text: &str) -> Vec<String> {
    let mut collected = Collected::default();
    for character in text.chars().take(TEXT_MAX) {
        collected.take(character);
    }
    collected.end_word();
    collected.end_run();
    collected.terms
}

/// A term as people read it.
pub(crate) fn shown(term: &str) -> &str {
    term.strip_prefix('=').unwrap_or(term)
}

#[derive(Default)]
struct Collected {
    terms: Vec<String>,
    word: String,
    last_was_lower: bool,
    run: Vec<char>,
}

impl Collected {
    fn take(&mut self, character: char) {
        if is_unspaced(character) {
            self.end_word();
            self.run.push(character);
            return;
        }
        self.end_run();
        if !character.is_alphanumeric() {
            self.end_word();
            return;
        }
        if character.is_uppercase() && self.last_was_lower {
            self.end_word();
        }
        self.last_was_lower = character.is_lowercase();
        self.word.extend(character.to_lowercase());
    }

    fn end_word(&mut self) {
        self.last_was_lower = false;
        let word = std::mem::take(&mut self.word);
        if !word.is_empty() && !STOP_WORDS.contains(&word.as_str()) {
            self.push(stem(&word));
        }
    }

    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        if let [only] = run[..]
            && !STOP_CHARACTERS.contains(only)
        {
            self.push(only.to_string());
        }
        for pair in run.windows(2) {
            let text: String = pair.iter().collect();
            let says_nothing = pair.iter().any(|c| STOP_CHARACTERS.contains(*c));
            if !says_nothing && !STOP_PAIRS.contains(&text.as_str()) {
                self.push(text);
            }
        }
    }

    fn push(&mut self, term: String) {
        let meaning = MEANING_OF.get(&term).map(|name| format!("={name}"));
        self.terms.push(term);
        self.terms.extend(meaning);
    }
}

/// Characters of scripts that put no spaces between words.
fn is_unspaced(character: char) -> bool {
    matches!(u32::from(character),
        0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xac00..=0xd7af | 0xf900..=0xfaff | 0x20000..=0x3134f)
}

/// A word without its ending; not what a linguist would write, but the same for the forms of one word.
fn stem(word: &str) -> String {
    // Of the words with an `s` that is no ending, this one matters here.
    if !word.is_ascii() || word == "news" {
        return word.to_owned();
    }
    let mut stem = word;
    if let Some(rest) = stem.strip_suffix("ies").filter(|rest| rest.len() > 1) {
        return format!("{rest}y");
    }
    if let Some(rest) = stem.strip_suffix("ing").filter(|rest| rest.len() > 2) {
        stem = undoubled(rest);
    } else if let Some(rest) = stem.strip_suffix("ed").filter(|rest| rest.len() > 2) {
        stem = undoubled(rest);
    } else if let Some(rest) = stem.strip_suffix("s").filter(|rest| rest.len() > 2)
        && !rest.ends_with(['s', 'u', 'i'])
    {
        stem = rest;
    }
    if let Some(rest) = stem.strip_suffix("ion").filter(|rest| rest.len() > 3)
        && rest.ends_with(['t', 's'])
    {
        stem = rest;
    }
    stem.strip_suffix('e')
        .filter(|rest| rest.len() > 3)
        .unwrap_or(stem)
        .to_owned()
}

/// `runn` is `run`; `call` stays.
fn undoubled(word: &str) -> &str {
    let bytes = word.as_bytes();
    let is_double = bytes.len() > 2 && bytes[bytes.len() - 1] == bytes[bytes.len() - 2];
    let stays = bytes.last().is_some_and(|last| b"lsz".contains(last));
    if is_double && !stays {
        &word[..word.len() - 1]
    } else {
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_a_word_are_one_term() {
        for (one, other) in [
            ("translate", "Translations"),
            ("translating", "translated"),
            ("run", "running"),
            ("summaries", "summary"),
            ("test", "tests"),
            ("calls", "calling"),
        ] {
            assert_eq!(terms(one)[0], terms(other)[0], "{one} {other}");
        }
        assert_ne!(terms("news")[0], terms("new")[0]);
    }

    #[test]
    fn names_of_capabilities_fall_into_words() {
        assert_eq!(terms("news_digest")[0], "news");
        assert_eq!(
            terms("codeReview-v2"),
            ["code", "=code", "review", "=review", "v2"]
        );
    }

    #[test]
    fn chinese_becomes_pairs_without_the_words_that_say_nothing() {
        assert_eq!(
            terms("帮我放一个轻音乐"),
            ["放一", "轻音", "音乐", "=music"]
        );
        assert_eq!(
            terms("请翻译成 PDF"),
            ["翻译", "=translate", "译成", "=translate", "pdf"]
        );
        assert_eq!(terms("的"), [""; 0]);
        assert_eq!(terms("灯"), ["灯"]);
    }

    #[test]
    fn both_languages_meet_in_a_meaning() {
        let has = |text: &str, term: &str| terms(text).iter().any(|found| found == term);
        assert!(has("日程安排", "=calendar") && has("my schedule", "=calendar"));
        assert!(has("看新闻", "=news") && has("headlines", "=news"));
    }
}
