//! Secrets never come through, wherever a text is cut; everything else does.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn mask(values: &[&str]) -> Mask {
    Mask::of_values(values.iter().map(|value| (*value).to_owned()))
}

#[test]
fn names_say_what_is_secret() {
    let cases = [
        ("SECRET_KEY", true),
        ("API_KEY", true),
        ("PASSWORD_DB", true),
        ("TOKEN", true),
        ("OPENAI_API_KEY", true),
        ("GITHUB_TOKEN", true),
        ("AWS_SECRET_ACCESS_KEY", true),
        ("db_password", true),
        ("CLIENT_SECRET", true),
        ("HOME", false),
        ("PATH", false),
        ("KEYBOARD", false),
    ];
    for (name, expected) in cases {
        assert_eq!(is_secret_name(name, &SECRET_NAMES), expected, "{name}");
    }
    assert!(is_secret_name("MY_PIN", &["PIN"]));
}

#[test]
fn values_are_taken_out_of_texts() {
    let mask = mask(&[
        "hunter2-long",
        "abc123",
        "line one is long\nline two is long",
        "true",
    ]);
    let cases = [
        ("the key is hunter2-long.", "the key is ***."),
        ("xhunter2-longx", "x***x"),
        ("abc123", "***"),
        ("k=abc123;", "k=***;"),
        ("xabc123", "xabc123"),
        ("abc1234", "abc1234"),
        ("line two is long", "***"),
        (r"line one is long\nline two is long", "***"),
        ("true", "true"),
        ("", ""),
    ];
    for (text, expected) in cases {
        assert_eq!(mask.text(text), expected, "{text}");
    }
}

#[test]
fn a_value_split_over_two_writes_is_taken_out() {
    let mask = mask(&["hunter2-long", "abc123"]);
    for text in [
        "a hunter2-long b",
        "abc123 hunter2-longhunter2-long abc1234",
    ] {
        let whole = mask.text(text);
        for cut in 0..=text.len() {
            let mut stream = mask.stream();
            let mut out = stream.push(&text[..cut]);
            assert!(!out.contains("hunter2-long"));
            out.push_str(&stream.push(&text[cut..]));
            out.push_str(&stream.finish());
            assert_eq!(out, whole, "{text} cut at {cut}");
        }
    }
}

#[test]
fn nothing_is_held_back_without_a_reason() {
    let mask = mask(&["hunter2-long"]);
    let mut stream = mask.stream();
    assert_eq!(stream.push("an ordinary line\n"), "an ordinary line\n");
    assert_eq!(stream.push("hunt"), "");
    assert_eq!(stream.push("ing"), "hunting");
}

#[test]
fn frames_stay_whole() {
    let mask = mask(&["12345678", "prompt", "a\"}{\"b", "1", "null"]);
    let cases = [
        (r#"{"id":1,"x":null}"#, r#"{"id":1,"x":null}"#),
        (r#"{"n":12345678}"#, r#"{"n":"***"}"#),
        (r#"{"text":"say a\"}{\"b"}"#, r#"{"text":"say ***"}"#),
        (r#"{ "b":1,  "a":2 }"#, r#"{ "b":1,  "a":2 }"#),
        ("no frame 12345678", "no frame ***"),
    ];
    for (frame, expected) in cases {
        assert_eq!(mask.frame(frame), expected, "{frame}");
    }
    assert_eq!(
        mask.json(&json!(["12345678", {"k": "x 12345678"}])),
        json!(["***", {"k": "x ***"}])
    );
}

proptest! {
    #[test]
    fn long_values_never_come_through(
        value in "[a-z0-9]{8,12}",
        before in "[a-z0-9 ]{0,20}",
        after in "[a-z0-9 ]{0,20}",
        cuts in prop::collection::vec(0_usize..60, 0..6),
    ) {
        let mask = Mask::of_values([value.clone()]);
        let text = format!("{before}{value}{after}");
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.sort_unstable();
        let mut stream = mask.stream();
        let (mut out, mut from) = (String::new(), 0);
        for cut in cuts {
            out.push_str(&stream.push(&text[from..cut]));
            from = cut;
        }
        out.push_str(&stream.push(&text[from..]));
        out.push_str(&stream.finish());
        prop_assert!(!out.contains(&value));
        prop_assert_eq!(out, mask.text(&text));
    }

    #[test]
    fn frames_are_still_json(text in ".{0,30}", number in any::<i64>(), value in "[0-9a-z\"{}:, ]{2,10}") {
        let mask = Mask::of_values([value]);
        let frame = json!({"text": text, "n": number, "list": [true, null, text]}).to_string();
        prop_assert!(serde_json::from_str::<Value>(&mask.frame(&frame)).is_ok());
    }
}
