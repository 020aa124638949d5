//! Which words of a question mean something that cannot be undone, and which want or say no more than a yes or no.

/// Acts that cannot be undone, for peers that do not mark them as such. They count in every form of the word.
const FINAL: &[&str] = &[
    "broadcast",
    "deactivate",
    "deactivating",
    "dispose",
    "disposing",
    "drop",
    "eliminate",
    "eliminating",
    "expunge",
    "expunging",
    "forward",
    "mkfs",
    "nuke",
    "nuking",
    "revoking",
    "rmdir",
    "spend",
    "spent",
    "terminate",
    "terminating",
    "trash",
    "unlink",
    "unpublish",
    "unsubscribe",
    "unsubscribing",
    "upload",
    "wiping",
    "buy",
    "bought",
    "delete",
    "deleting",
    "deploy",
    "destroy",
    "discard",
    "donate",
    "donating",
    "email",
    "erase",
    "erasing",
    "irreversible",
    "mail",
    "overwrite",
    "overwriting",
    "paid",
    "pay",
    "payment",
    "publish",
    "purchase",
    "purchasing",
    "purge",
    "purging",
    "remove",
    "removing",
    "rm",
    "sell",
    "send",
    "sent",
    "shred",
    "sold",
    "submit",
    "subscribe",
    "subscribing",
    "transfer",
    "truncate",
    "truncating",
    "tweet",
    "uninstall",
    "wipe",
];

/// Words of such acts that mean other things as often: they count where a yes would be the answer.
const FINAL_IF_YES: &[&str] = &[
    "checkout",
    "clear",
    "empty",
    "emptied",
    "emptying",
    "fire",
    "hire",
    "notify",
    "notified",
    "replace",
    "replacing",
    "reply",
    "replied",
    "threw",
    "throw",
    "thrown",
    "toss",
    "withdraw",
    "withdrawn",
    "book",
    "cancel",
    "charge",
    "charging",
    "close",
    "format",
    "invite",
    "kill",
    "merge",
    "merging",
    "order",
    "post",
    "push",
    "reboot",
    "release",
    "releasing",
    "reset",
    "revoke",
    "share",
    "sharing",
    "ship",
    "sign",
];

/// What is more than a word, and what has no spaces around it.
const FINAL_PARTS: &[&str] = &[
    "cannot be undone",
    "can't be undone",
    "force push",
    "throw away",
    "throw it away",
    "throw them away",
    "throw out",
    "throwing away",
    "thrown away",
    "thrown out",
    "threw away",
    "get rid",
    "gets rid",
    "getting rid",
    "got rid",
    "be rid",
    "clear all",
    "clear out",
    "clear the",
    "recycle bin",
    "rubbish bin",
    "移除",
    "丢弃",
    "丢掉",
    "丢进",
    "丟",
    "扔掉",
    "扔进",
    "清理",
    "清掉",
    "粉碎",
    "垃圾桶",
    "垃圾箱",
    "回收站",
    "废弃",
    "作废",
    "抹除",
    "擦除",
    "擦掉",
    "去除",
    "摧毁",
    "毁掉",
    "终止",
    "上传",
    "发表",
    "推送",
    "递交",
    "打款",
    "汇出",
    "退款",
    "结账",
    "买单",
    "刪",
    "銷毀",
    "發送",
    "發給",
    "發布",
    "發佈",
    "轉發",
    "轉帳",
    "轉賬",
    "購買",
    "上傳",
    "删",
    "清空",
    "清除",
    "抹掉",
    "覆盖",
    "格式化",
    "销毁",
    "注销",
    "卸载",
    "重置",
    "支付",
    "付款",
    "付钱",
    "转账",
    "汇款",
    "扣款",
    "充值",
    "购买",
    "买下",
    "下单",
    "订购",
    "订阅",
    "预订",
    "卖出",
    "发送",
    "发给",
    "发布",
    "发出",
    "发邮件",
    "发消息",
    "发短信",
    "群发",
    "转发",
    "寄",
    "提交",
    "部署",
    "上线",
    "不可逆",
];

/// What may follow a word without making it another one.
const ENDINGS: &[&str] = &["", "s", "es", "d", "ed", "ing"];

/// How a question begins that a yes or no answers.
const YES_OR_NO_BEGINS: &[&str] = &[
    "am", "approve", "are", "can", "confirm", "continue", "could", "did", "do", "does", "go",
    "had", "has", "have", "is", "may", "might", "must", "need", "ok", "okay", "please", "proceed",
    "ready", "shall", "should", "sure", "want", "was", "were", "will", "would", "yes",
];

/// What such a question holds or ends with in other places.
const YES_OR_NO_PARTS: &[&str] = &[
    "shall i",
    "should i",
    "may i",
    "can i",
    "do you want",
    "would you like",
    "y/n",
    "yes/no",
    "yes or no",
    "吗",
    "吧",
    "是否",
    "要不要",
    "能不能",
    "可不可以",
    "行不行",
    "好不好",
    "对不对",
    "是不是",
    "确认",
    "可以",
    "同意",
    "继续",
    "允许",
];

/// What a question has that wants more than a yes or no.
const OPEN_WORDS: &[&str] = &[
    "which", "what", "where", "when", "who", "whom", "whose", "why", "how",
];
const OPEN_PARTS: &[&str] = &[
    "什么", "哪", "谁", "几", "多少", "怎么", "如何", "为何", "何时", "还是",
];

/// Answers that say no more than yes or no.
const SAYS: &[&str] = &[
    "yes",
    "y",
    "yeah",
    "yep",
    "ok",
    "okay",
    "sure",
    "allow",
    "approve",
    "approved",
    "confirm",
    "confirmed",
    "proceed",
    "true",
    "1",
    "no",
    "n",
    "nope",
    "deny",
    "false",
    "0",
    "是",
    "是的",
    "好",
    "好的",
    "可以",
    "同意",
    "确认",
    "允许",
    "行",
    "不",
];

/// The text in small letters, for comparing alone: signs that nobody sees are left out, and letters that look like
/// Latin ones are those.
pub(super) fn folded(text: &str) -> String {
    let small = text.chars().flat_map(char::to_lowercase);
    small.filter(|c| !is_unseen(*c)).map(plain).collect()
}

/// Signs that show nothing, or only stand upon a letter.
fn is_unseen(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{300}'..='\u{36f}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// The Latin letter that a small letter looks like: of full width, Cyrillic or Greek.
fn plain(character: char) -> char {
    match character {
        '\u{ff01}'..='\u{ff5e}' => {
            let code = u32::from(character) - 0xfee0;
            char::from_u32(code)
                .unwrap_or(character)
                .to_ascii_lowercase()
        }
        '\u{3000}' => ' ',
        'а' | 'α' => 'a',
        'в' | 'ь' | 'β' => 'b',
        'с' | 'ϲ' => 'c',
        'ԁ' => 'd',
        'е' | 'ё' | 'ε' => 'e',
        'ɡ' => 'g',
        'н' | 'һ' | 'η' => 'h',
        'і' | 'ї' | 'ι' | 'ı' => 'i',
        'ј' => 'j',
        'к' | 'κ' => 'k',
        'ӏ' => 'l',
        'м' | 'μ' => 'm',
        'п' | 'ո' => 'n',
        'о' | 'ο' => 'o',
        'р' | 'ρ' => 'p',
        'ԛ' => 'q',
        'г' => 'r',
        'ѕ' => 's',
        'т' | 'τ' => 't',
        'υ' | 'ս' => 'u',
        'ѵ' | 'ν' => 'v',
        'ԝ' | 'ω' => 'w',
        'х' | 'χ' => 'x',
        'у' | 'γ' => 'y',
        'ζ' => 'z',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        _ => character,
    }
}

/// Whether the text, which was folded, speaks of what cannot be undone. A hyphen in a word may part two or hide one.
pub(super) fn sounds_final(text: &str, is_yes_or_no: bool) -> bool {
    let joined = text.replace('-', "");
    speaks_of_final(text, is_yes_or_no) || speaks_of_final(&joined, is_yes_or_no)
}

fn speaks_of_final(text: &str, is_yes_or_no: bool) -> bool {
    let has = |word: &str| words(text).any(|said| is_form_of(said, word));
    FINAL_PARTS.iter().any(|part| text.contains(part))
        || FINAL.iter().any(|word| has(word))
        || (is_yes_or_no && FINAL_IF_YES.iter().any(|word| has(word)))
}

/// Whether a question, which was folded, is one that a yes or no answers.
pub(super) fn is_yes_or_no(asking: &str) -> bool {
    let first = words(asking).next().unwrap_or_default();
    if YES_OR_NO_BEGINS.contains(&first) {
        return true;
    }
    let is_open = words(asking).any(|word| OPEN_WORDS.contains(&word))
        || OPEN_PARTS.iter().any(|part| asking.contains(part));
    !is_open && YES_OR_NO_PARTS.iter().any(|part| asking.contains(part))
}

/// Whether an answer is a mere yes or no.
pub(super) fn says_yes_or_no(answer: &str) -> bool {
    let answer = answer.to_lowercase();
    let mut said = words(&answer);
    let Some(first) = said.next() else {
        return false;
    };
    let is_short = said.next().is_none_or(|second| second == "please") && said.next().is_none();
    SAYS.contains(&first) && is_short
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| !word.is_empty())
}

/// `drop`, `drops`, `dropped` and `dropping` are one word.
fn is_form_of(said: &str, word: &str) -> bool {
    let Some(rest) = said.strip_prefix(word) else {
        return false;
    };
    let last = word.chars().last().unwrap_or_default();
    let doubled = rest.strip_prefix(last).filter(|rest| !rest.is_empty());
    let is_ending = |rest: &str| ENDINGS.contains(&rest);
    is_ending(rest) || doubled.is_some_and(is_ending)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_are_known_and_longer_words_are_others() {
        for said in ["drop", "drops", "dropped", "dropping"] {
            assert!(is_form_of(said, "drop"), "{said}");
        }
        for (said, word) in [
            ("payload", "pay"),
            ("ordinary", "order"),
            ("sender", "send"),
        ] {
            assert!(!is_form_of(said, word), "{said}");
        }
    }

    #[test]
    fn what_cannot_be_undone_is_known_in_common_words_and_in_disguise() {
        for asked in [
            "是否移除这些照片",
            "要丢弃哪些文件",
            "把哪些放进回收站",
            "清理哪些缓存",
            "照片上传到哪里",
            "要粉碎哪个文件",
            "转发给哪个群",
            "要發佈哪一篇",
            "which files can be thrown away",
            "what shall I throw out",
            "which drafts do I get rid of",
            "which file do I unlink",
            "which disk do I wipe",
            "what goes into the trash",
            "which table is dropped",
            "where do I upload it",
            "to whom is it forwarded",
            "shall I clear it",
            "which cache do I clear out, clear the old one",
            "shall I post it",
            "shall I order it",
            // A zero-width space, a soft hyphen, hyphens, full width, Cyrillic and Greek letters, an accent upon one.
            "which do I del\u{200b}ete",
            "which do I era\u{ad}se",
            "which do I de-lete",
            "which do I de\u{2010}lete",
            "which do I ｄｅｌｅｔｅ",
            "which do I ＤＥＬＥＴＥ",
            "which do I d\u{435}l\u{435}t\u{435}",
            "which do I D\u{415}L\u{415}\u{422}\u{415}",
            "to whom do I s\u{3b5}nd it",
            "which do I de\u{301}lete",
            "删\u{200d}除哪个",
        ] {
            let asked = folded(asked);
            assert!(sounds_final(&asked, is_yes_or_no(&asked)), "{asked}");
        }
    }

    #[test]
    fn what_means_nothing_final_is_answered_as_before() {
        for asked in [
            "which folder?",
            "照片在哪里",
            "which paper size?",
            "in which order shall I list them?",
            "which post is meant?",
            "what is unclear to you?",
            "which grid of the page?",
            "which dropdown?",
            "what is the payload?",
            "a straightforward summary of which chapter?",
            "报告用什么语言写？",
            "какой язык?",
            "ποια γλώσσα;",
        ] {
            let asked = folded(asked);
            assert!(!sounds_final(&asked, is_yes_or_no(&asked)), "{asked}");
        }
    }
}
