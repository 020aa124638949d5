//! Claims about the rewriting: only folders change, wherever the stream is cut.

use std::path::Path;

use super::{FolderRewriter, Folders};

fn rewriter() -> FolderRewriter {
    FolderRewriter::new(Folders::new(Path::new("/new \"w\""), Path::new("/loaded")))
}

/// What comes out when `input` comes in pieces of `size`.
fn pass(input: &[u8], size: usize) -> Vec<u8> {
    let mut rewriter = rewriter();
    let mut seen = Vec::new();
    for piece in input.chunks(size) {
        seen.extend_from_slice(rewriter.rewrite(piece));
    }
    seen.extend_from_slice(rewriter.finish());
    seen
}

#[track_caller]
fn check(input: &[u8], expected: &[u8]) {
    for size in [1, 2, 3, 5, 7, 16, 61, input.len().max(1)] {
        let seen = pass(input, size);
        assert_eq!(
            String::from_utf8_lossy(&seen),
            String::from_utf8_lossy(expected),
            "in pieces of {size}"
        );
        assert_eq!(seen, expected, "in pieces of {size}");
    }
}

#[test]
fn every_folder_of_a_request_that_opens_a_session_is_replaced_and_nothing_else() {
    let cases: &[(&str, &str)] = &[
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/me","mcpServers":[]}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/new \"w\"","mcpServers":[]}}"#,
        ),
        (
            " \t{ \"params\" :\t{ \"_x\" : [ 1 , {\"cwd\":\"deep\"} ] , \"cwd\"  :  \"/a\\\"b\\\\\"  , \"z\": 1.50e+1 } , \"method\"\t: \"session\\/load\" , \"cwd\": \"mine\" }\r",
            " \t{ \"params\" :\t{ \"_x\" : [ 1 , {\"cwd\":\"deep\"} ] , \"cwd\"  :  \"/loaded\"  , \"z\": 1.50e+1 } , \"method\"\t: \"session\\/load\" , \"cwd\": \"mine\" }\r",
        ),
        (
            r#"{"method":"session/resume","params":{"sessionId":"s","cwd":null}}"#,
            r#"{"method":"session/resume","params":{"sessionId":"s","cwd":"/loaded"}}"#,
        ),
        (
            r#"{"\u006dethod":"\u0073ession/new","p\u0061rams":{"c\u0077d":{"a":["}"]},"cwd":17}}"#,
            r#"{"\u006dethod":"\u0073ession/new","p\u0061rams":{"c\u0077d":"/new \"w\"","cwd":"/new \"w\""}}"#,
        ),
        (
            r#"{"params":{"cwd":"/a","cwd":["/b"]},"id":"x","method":"session/new"}"#,
            r#"{"params":{"cwd":"/new \"w\"","cwd":"/new \"w\""},"id":"x","method":"session/new"}"#,
        ),
        (
            r#"{"method":"session/fork","params":{"sessionId":"s","cwd":"/me"}}"#,
            r#"{"method":"session/fork","params":{"sessionId":"s","cwd":"/loaded"}}"#,
        ),
        (
            r#"{"method":"session/new","params":{"additionalDirectories":["/a",{"cwd":"]"}],"cwd":"/me"}}"#,
            r#"{"method":"session/new","params":{"additionalDirectories":[],"cwd":"/new \"w\""}}"#,
        ),
        (
            r#"{"params":{"additional\u0044irectories":"/a","cwd":"/b"},"method":"session/resume"}"#,
            r#"{"params":{"additional\u0044irectories":[],"cwd":"/loaded"},"method":"session/resume"}"#,
        ),
        (
            r#"{"method":"session/new","params":{"_meta":{"a":{"additionalRoots":1},"additionalRoots":["/a",{"cwd":"]"}],"cwd":"/m"},"cwd":"/me"},"_meta":{"additionalRoots":"kept"}}"#,
            r#"{"method":"session/new","params":{"_meta":{"a":{"additionalRoots":1},"additionalRoots":[],"cwd":"/m"},"cwd":"/new \"w\""},"_meta":{"additionalRoots":"kept"}}"#,
        ),
        (
            r#"{"params":{"_m\u0065ta":{ "additional\u0052oots":["/a"] },"additionalRoots":["/kept"],"_meta":[1],"_meta":{},"_meta":{"additionalRoots":null}},"method":"session/load"}"#,
            r#"{"params":{"_m\u0065ta":{ "additional\u0052oots":[] },"additionalRoots":["/kept"],"_meta":[1],"_meta":{},"_meta":{"additionalRoots":[]}},"method":"session/load"}"#,
        ),
    ];
    for (input, expected) in cases {
        check(input.as_bytes(), expected.as_bytes());
        let lines = |line: &str| format!("{line}\n\n{line}\n").into_bytes();
        check(&lines(input), &lines(expected));
    }
}

#[test]
fn everything_else_passes_byte_for_byte() {
    let cases: &[&[u8]] = &[
        br#"{"method":"session/prompt","params":{"cwd":"/me"}}"#,
        br#"{"method":"session/list","params":{"cwd":"/me"}}"#,
        br#"{"params":{"cwd":"/me"},"method":"session/newer"}"#,
        br#"{"params":{"_meta":{"additionalRoots":["/me"]}},"method":"session/prompt"}"#,
        br#"{"params":{"cwd":"/me"}}"#,
        br#"{"id":1,"result":{"cwd":"/me","method":"session/new"}}"#,
        br#"{"method":"session/new","params":["cwd","/me"]}"#,
        br#"{"method":"session/new","params":{"a":{"cwd":"/me"}}}"#,
        br#"{"method":"session/new","params":null,"cwd":"/me"}"#,
        br#"{"method":["session/new"],"params":{"cwd":"/me"}}"#,
        br#"[{"method":"session/prompt","params":{"cwd":"/me"}},{"params":{"cwd":"/me"}}]"#,
        br#"["{\"method\":\"session/new\",\"params\":{\"cwd\":\"/me\"}}"]"#,
        br#"session/new {"method":"session/new","params":{"cwd":"/me"}}"#,
        br#"{"method":"session/new" "params":{"a":1}}"#,
        br#"{"params":{"cwd":"/m"#,
        b"{\"method\":\"x\",\"params\":{\"t\":\"\xff\xfe\x00\"}}",
        b"\x00\x01 no json {{{\"method\":\"session/new\"",
        b"\r\n \n{}\n{",
        b"",
    ];
    for case in cases {
        check(case, case);
        check(
            &[case, b"\n".as_slice()].concat(),
            &[case, b"\n".as_slice()].concat(),
        );
    }
}

#[test]
fn no_second_name_no_batch_and_nothing_that_readers_trim_leads_a_folder_past_the_rule() {
    let cases: &[(&str, &str)] = &[
        (
            r#"{"method":"session/prompt","params":{"cwd":"/me"},"m\u0065thod":"session/new","id":1}"#,
            r#"{"method":"session/prompt","params":{"cwd":"/me"},"m\u0065thod":null,"id":1}"#,
        ),
        (
            r#"{"params":{"cwd":"/me"},"method":{"a":"\"}"},"method":"session/new"}"#,
            r#"{"params":{"cwd":"/me"},"method":{"a":"\"}"},"method":null}"#,
        ),
        (
            r#"{"method":"session/load","params":{"cwd":"/me"},"method":"session/prompt","params":{"cwd":1}}"#,
            r#"{"method":"session/load","params":{"cwd":"/loaded"},"method":null,"params":{"cwd":"/loaded"}}"#,
        ),
        (
            r#"[ {"method":"x","params":{"cwd":"/me"}}, {"params":{"cwd":"/me"},"method":"session/new"} ,{"method":"session/load","params":{"cwd":"/me"}}]"#,
            r#"[ {"method":"x","params":{"cwd":"/me"}}, {"params":{"cwd":"/new \"w\""},"method":"session/new"} ,{"method":"session/load","params":{"cwd":"/loaded"}}]"#,
        ),
        (
            r#"[{"params":{"cwd":"/held"}},{"method":"session/new","params":{"cwd":"/me"}}]"#,
            r#"[{"params":{"cwd":"/held"}},{"method":"session/new","params":{"cwd":"/new \"w\""}}]"#,
        ),
        (
            r#"[null,{"method":"session/new","params":{"cwd":"/me"}},1, "x]\"{" ,[2],{"method":"session/load","params":{"cwd":"/me"}}]"#,
            r#"[null,{"method":"session/new","params":{"cwd":"/new \"w\""}},1, "x]\"{" ,[2],{"method":"session/load","params":{"cwd":"/loaded"}}]"#,
        ),
        (
            "\u{feff}\u{a0}\u{b}{\"method\":\"session/load\",\"params\":{\"cwd\":\"/me\"}}",
            "\u{feff}\u{a0}\u{b}{\"method\":\"session/load\",\"params\":{\"cwd\":\"/loaded\"}}",
        ),
        (
            r#"{"method":"x"}{"method":"session/load","params":{"cwd":"/me"}}"#,
            r#"{"method":"x"}{"method":"session/load","params":{"cwd":"/loaded"}}"#,
        ),
    ];
    for (input, expected) in cases {
        check(input.as_bytes(), expected.as_bytes());
    }
}

#[test]
fn bytes_that_are_no_text_do_not_hide_a_folder() {
    check(
        b"{\"\xff\":\"\xfe\",\"method\":\"session/new\",\"params\":{\"\xc3\":1,\"cwd\":\"\xff\"}}\n",
        b"{\"\xff\":\"\xfe\",\"method\":\"session/new\",\"params\":{\"\xc3\":1,\"cwd\":\"/new \\\"w\\\"\"}}\n",
    );
}

#[test]
fn a_line_that_needs_no_change_is_not_even_copied() {
    let mut rewriter = rewriter();
    let chunk = b"{\"method\":\"session/prompt\",\"params\":{}}\n";
    let passed = rewriter.rewrite(chunk);
    assert!(std::ptr::eq(passed, chunk.as_slice()));
}

#[test]
fn a_line_passes_while_it_comes() {
    let mut rewriter = rewriter();
    let begin = br#"{"method":"session/new","params":{"#;
    assert_eq!(rewriter.rewrite(begin), begin);
    assert_eq!(rewriter.rewrite(br#""cwd":"/lo"#), br#""cwd":"/new \"w\"""#);
    assert_eq!(rewriter.rewrite(b"ng\",\"a\":"), b",\"a\":");
}

#[test]
fn a_folder_is_not_held_back_for_ever() {
    let begin = br#"{"params":{"cwd":"/me","x":""#;
    let long = vec![b'y'; jsonrpc::LINE_MAX + 1];
    let end = b"\"},\"method\":\"other\"}\n";
    let mut rewriter = rewriter();
    let mut seen = Vec::new();
    for piece in [begin.as_slice(), &long, end] {
        seen.extend_from_slice(rewriter.rewrite(piece));
    }
    let expected_begin = br#"{"params":{"cwd":"/new \"w\"","x":""#;
    assert!(seen.starts_with(expected_begin));
    assert_eq!(seen.len(), expected_begin.len() + long.len() + end.len());
    assert!(seen.ends_with(end));
}
