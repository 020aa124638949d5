//! What each shape of line is read as, and what it is answered.

use super::*;

fn read(line: &str) -> String {
    match Message::parse(line.as_bytes()) {
        Ok(Message::Request { id, method, params }) => {
            format!(
                "request {id} {method} {}",
                params.map_or("-".into(), |raw| raw.to_string())
            )
        }
        Ok(Message::Notification { method, params }) => {
            format!(
                "notification {method} {}",
                params.map_or("-".into(), |raw| raw.to_string())
            )
        }
        Ok(Message::Response { id, outcome }) => {
            let id = id.map_or("null".into(), |id| id.to_string());
            match outcome {
                Ok(result) => format!("result {id} {result}"),
                Err(error) => format!("error {id} {error}"),
            }
        }
        Err(malformed) => {
            let id = malformed
                .id
                .as_ref()
                .map_or("null".into(), |id| id.to_string());
            format!("{:?} {id} {}", malformed.kind, malformed.error)
        }
    }
}

fn check(cases: &[(&str, &str)]) {
    for (line, expected) in cases {
        assert_eq!(read(line), *expected, "{line}");
    }
}

#[test]
fn messages_are_read_whatever_the_order_of_their_keys() {
    check(&[
        (r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#, "request 1 m -"),
        (
            r#" { "params" : {"a": 1} , "method":"m","id":"x","jsonrpc":"2.0"} "#,
            r#"request "x" m {"a": 1}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":4,"method":"m","params":null}"#,
            "request 4 m -",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1e2,"method":"m\u0041","params":[],"more":[{}]}"#,
            "request 1e2 mA []",
        ),
        (r#"{"jsonrpc":"\u0032.0","method":"m"}"#, "notification m -"),
        (r#"{"result":null,"id":1,"jsonrpc":"2.0"}"#, "result 1 null"),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":2,"error":null}"#,
            "result 1 2",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":5,"message":"m"}}"#,
            "error 1 m (5)",
        ),
        (
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":5,"message":"m","x":1}}"#,
            "error null m (5)",
        ),
        (
            r#"{"jsonrpc":"2.0","error":{"code":5,"message":"m"}}"#,
            "error null m (5)",
        ),
    ]);
}

#[test]
fn what_is_not_json_is_a_parse_error_without_an_id() {
    for line in [
        "x",
        "{",
        "[1,",
        r#"{"jsonrpc":"2.0","id":1,"method":"m"} x"#,
        r#"{"a" 1}"#,
        "[1}",
        "\u{feff}{}",
    ] {
        let malformed = Message::parse(line.as_bytes()).unwrap_err();
        assert_eq!(
            (malformed.kind, malformed.error.code),
            (MalformedKind::Parse, -32700),
            "{line}"
        );
        assert_eq!(malformed.id, None);
    }
    let not_text = Message::parse(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}").unwrap_err();
    assert_eq!(not_text.kind, MalformedKind::Parse);
}

#[test]
fn json_that_is_no_request_is_answered_with_its_id_where_readable() {
    check(&[
        (
            "[]",
            "Request null invalid request: batches are not supported (-32600)",
        ),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"m"}]"#,
            "Request null invalid request: batches are not supported (-32600)",
        ),
        (
            "1",
            "Request null invalid request: a message is an object (-32600)",
        ),
        (
            r#""text""#,
            "Request null invalid request: a message is an object (-32600)",
        ),
        (
            "{}",
            r#"Request null invalid request: jsonrpc must be "2.0" (-32600)"#,
        ),
        (
            r#"{"jsonrpc":"1.0","id":4,"method":"m"}"#,
            r#"Request 4 invalid request: jsonrpc must be "2.0" (-32600)"#,
        ),
        (
            r#"{"jsonrpc":2.0,"id":"a","method":"m"}"#,
            r#"Request "a" invalid request: jsonrpc must be "2.0" (-32600)"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":4}"#,
            "Bare 4 invalid request: method is missing (-32600)",
        ),
        (
            r#"{"jsonrpc":"2.0","id":4,"method":1}"#,
            "Request 4 invalid request: method must be a string (-32600)",
        ),
        (
            r#"{"jsonrpc":"2.0","id":4,"method":"m","params":"p"}"#,
            "Request 4 invalid request: params must be an object or an array (-32600)",
        ),
        (
            r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#,
            "Request null invalid request: id must be a number or a string (-32600)",
        ),
        (
            r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#,
            "Request null invalid request: id must be a number or a string (-32600)",
        ),
        (
            r#"{"jsonrpc":"2.0","id":4,"method":"m","id":5}"#,
            "Request 5 invalid request: a key is repeated (-32600)",
        ),
    ]);
}

#[test]
fn bad_responses_are_told_apart_and_never_answered() {
    check(&[
        (
            r#"{"id":1,"result":1}"#,
            r#"Response 1 invalid response: jsonrpc must be "2.0" (-32600)"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#,
            "Response 1 invalid response: either result or error (-32600)",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":"no"}"#,
            "Response 1 invalid response: error is no error object (-32600)",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":null}"#,
            "Response 1 invalid response: error is no error object (-32600)",
        ),
        (
            r#"{"jsonrpc":"2.0","id":null,"result":1}"#,
            "Response null invalid response: a result needs an id (-32600)",
        ),
        (
            r#"{"jsonrpc":"2.0","id":[],"result":1}"#,
            "Response null invalid response: id must be a number or a string (-32600)",
        ),
    ]);
    let malformed = Message::parse(br#"{"id":1,"result":1}"#).unwrap_err();
    assert_eq!(malformed.answer(), None);
}

#[test]
fn nesting_of_any_depth_does_not_exhaust_the_stack() {
    let deep = "[".repeat(1_000_000);
    assert_eq!(
        Message::parse(deep.as_bytes()).unwrap_err().kind,
        MalformedKind::Parse
    );
    let closed = format!("{deep}{}", "]".repeat(1_000_000));
    let line = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{closed}}}"#);
    assert!(matches!(
        Message::parse(line.as_bytes()),
        Ok(Message::Notification { .. })
    ));
}

#[test]
fn a_line_too_long_that_tells_no_id_is_answered_without_one() {
    let answer = Malformed::too_long(10, &Ends::of(b"xxxxxxxxxxx")).answer();
    let expected = ErrorObject::invalid_request("line is longer than 10 bytes");
    assert_eq!(
        answer,
        Some(Message::Response {
            id: None,
            outcome: Err(expected)
        })
    );
}
