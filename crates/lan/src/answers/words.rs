//! Which words of a question mean something that cannot be undone, and which want or say no more than a yes or no.

/// Acts that cannot be undone, for peers that do not mark them as such. They count in every form of the word.
const FINAL: [&str; 41] = [
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
const FINAL_IF_YES: [&str; 23] = [
    "book",
    "cancel",
    "charge",
    "charging",
    "close",
    "drop",
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
const FINAL_PARTS: [&str; 42] = [
    "cannot be undone",
    "can't be undone",
    "force push",
    "drop table",
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
const ENDINGS: [&str; 6] = ["", "s", "es", "d", "ed", "ing"];

/// How a question begins that a yes or no answers.
const YES_OR_NO_BEGINS: [&str; 33] = [
    "am", "approve", "are", "can", "confirm", "continue", "could", "did", "do", "does", "go",
    "had", "has", "have", "is", "may", "might", "must", "need", "ok", "okay", "please", "proceed",
    "ready", "shall", "should", "sure", "want", "was", "were", "will", "would", "yes",
];

/// What such a question holds or ends with in other places.
const YES_OR_NO_PARTS: [&str; 24] = [
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
const OPEN_WORDS: [&str; 9] = [
    "which", "what", "where", "when", "who", "whom", "whose", "why", "how",
];
const OPEN_PARTS: [&str; 10] = [
    "什么", "哪", "谁", "几", "多少", "怎么", "如何", "为何", "何时", "还是",
];

/// Answers that say no more than yes or no.
const SAYS: [&str; 31] = [
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

/// Whether the text, in small letters, speaks of what cannot be undone.
pub(super) fn sounds_final(text: &str, is_yes_or_no: bool) -> bool {
    let has = |word: &str| words(text).any(|said| is_form_of(said, word));
    FINAL_PARTS.iter().any(|part| text.contains(part))
        || FINAL.iter().any(|word| has(word))
        || (is_yes_or_no && FINAL_IF_YES.iter().any(|word| has(word)))
}

/// Whether a question, in small letters, is one that a yes or no answers.
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
}
