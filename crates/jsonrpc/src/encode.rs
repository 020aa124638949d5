//! From a message to its line. A line never holds a newline before its end, whatever the payload.

#[cfg(feature = "tokio")]
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{ErrorObject, Id, Message};

/// Why params could not become part of a line.
#[cfg(feature = "tokio")]
#[derive(Debug)]
pub(crate) enum BadPayload {
    /// The value has no JSON form.
    Encode(serde_json::Error),
    /// Params are JSON, but neither an object nor an array.
    Params,
}

#[cfg(feature = "tokio")]
impl From<serde_json::Error> for BadPayload {
    fn from(error: serde_json::Error) -> BadPayload {
        BadPayload::Encode(error)
    }
}

impl Message {
    /// The message as one line, newline included.
    ///
    /// ```
    /// use jsonrpc::{Id, Message};
    ///
    /// let ping = Message::Request { id: Id::from(1), method: "ping".into(), params: None };
    /// assert_eq!(ping.encode(), b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
    /// ```
    pub fn encode(&self) -> Vec<u8> {
        let mut line = Vec::new();
        self.encode_into(&mut line);
        line
    }

    /// Appends the message as one line, newline included.
    pub fn encode_into(&self, line: &mut Vec<u8>) {
        let start = line.len();
        match self {
            Message::Request { id, method, params } => {
                open_call(line, Some(id), method);
                close_with_raw_params(line, params.as_deref());
            }
            Message::Notification { method, params } => {
                open_call(line, None, method);
                close_with_raw_params(line, params.as_deref());
            }
            Message::Response {
                id,
                outcome: Ok(result),
            } => {
                open_response(line, id.as_ref());
                line.extend_from_slice(b",\"result\":");
                line.extend_from_slice(result.get().as_bytes());
                line.push(b'}');
            }
            Message::Response {
                id,
                outcome: Err(error),
            } => {
                open_response(line, id.as_ref());
                write_error(line, error);
            }
        }
        end_line(line, start);
    }
}

/// The line of a request (with `id`) or a notification (without). Params that serialise to
/// null are left out.
#[cfg(feature = "tokio")]
pub(crate) fn call_line<P: Serialize + ?Sized>(
    id: Option<&Id>,
    method: &str,
    params: &P,
) -> Result<Vec<u8>, BadPayload> {
    let mut line = Vec::with_capacity(128);
    open_call(&mut line, id, method);
    let before = line.len();
    line.extend_from_slice(b",\"params\":");
    let payload = line.len();
    serde_json::to_writer(&mut line, params)?;
    match line.get(payload..).unwrap_or_default() {
        b"null" => line.truncate(before),
        [b'{' | b'[', ..] => {}
        _ => return Err(BadPayload::Params),
    }
    line.push(b'}');
    end_line(&mut line, 0);
    Ok(line)
}

/// The line that answers request `id` with a result.
#[cfg(feature = "tokio")]
pub(crate) fn result_line<T: Serialize + ?Sized>(
    id: &Id,
    result: &T,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = Vec::with_capacity(128);
    open_response(&mut line, Some(id));
    line.extend_from_slice(b",\"result\":");
    serde_json::to_writer(&mut line, result)?;
    line.push(b'}');
    end_line(&mut line, 0);
    Ok(line)
}

/// The line that answers request `id`, or an unreadable one, with an error.
#[cfg(feature = "tokio")]
pub(crate) fn error_line(id: Option<&Id>, error: &ErrorObject) -> Vec<u8> {
    let mut line = Vec::with_capacity(128);
    open_response(&mut line, id);
    write_error(&mut line, error);
    end_line(&mut line, 0);
    line
}

fn open_call(line: &mut Vec<u8>, id: Option<&Id>, method: &str) {
    line.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
    if let Some(id) = id {
        line.extend_from_slice(b",\"id\":");
        write_id(line, id);
    }
    line.extend_from_slice(b",\"method\":");
    write_text(line, method);
}

fn close_with_raw_params(line: &mut Vec<u8>, params: Option<&RawValue>) {
    if let Some(params) = params {
        line.extend_from_slice(b",\"params\":");
        line.extend_from_slice(params.get().as_bytes());
    }
    line.push(b'}');
}

fn open_response(line: &mut Vec<u8>, id: Option<&Id>) {
    line.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    match id {
        Some(id) => write_id(line, id),
        None => line.extend_from_slice(b"null"),
    }
}

fn write_id(line: &mut Vec<u8>, id: &Id) {
    match id {
        Id::Number(number) => line.extend_from_slice(number.to_string().as_bytes()),
        Id::NumberText(text) => line.extend_from_slice(text.as_bytes()),
        Id::String(text) => write_text(line, text),
    }
}

fn write_error(line: &mut Vec<u8>, error: &ErrorObject) {
    line.extend_from_slice(b",\"error\":{\"code\":");
    line.extend_from_slice(error.code.to_string().as_bytes());
    line.extend_from_slice(b",\"message\":");
    write_text(line, &error.message);
    if let Some(data) = &error.data {
        line.extend_from_slice(b",\"data\":");
        line.extend_from_slice(data.get().as_bytes());
    }
    line.extend_from_slice(b"}}");
}

fn write_text(line: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(line, text).expect("a string has a JSON form and a Vec takes all bytes");
}

/// Ends the line that began at `start`. A raw payload may be pretty-printed; a newline in valid
/// JSON only ever stands between tokens, where a space means the same.
fn end_line(line: &mut Vec<u8>, start: usize) {
    let mut from = start;
    while let Some(found) = memchr::memchr2(b'\n', b'\r', &line[from..]) {
        line[from + found] = b' ';
        from += found + 1;
    }
    line.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn check(message: Message, expected: &str) {
        let line = message.encode();
        assert_eq!(std::str::from_utf8(&line).unwrap(), format!("{expected}\n"));
        assert_eq!(Message::parse(&line).unwrap(), message);
    }

    #[test]
    fn each_kind_of_message_has_one_line_that_reads_back() {
        check(
            Message::Request {
                id: Id::from("a"),
                method: "m".into(),
                params: Some(raw("[1]")),
            },
            r#"{"jsonrpc":"2.0","id":"a","method":"m","params":[1]}"#,
        );
        check(
            Message::Notification {
                method: "a\nb".into(),
                params: None,
            },
            r#"{"jsonrpc":"2.0","method":"a\nb"}"#,
        );
        check(
            Message::Response {
                id: Id::from_json("1e9"),
                outcome: Ok(raw("null")),
            },
            r#"{"jsonrpc":"2.0","id":1e9,"result":null}"#,
        );
        let error = ErrorObject::internal("no").with_data(&[1]);
        check(
            Message::Response {
                id: None,
                outcome: Err(error),
            },
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"no","data":[1]}}"#,
        );
    }

    #[test]
    fn a_payload_with_newlines_stays_on_one_line() {
        let params = Some(raw("{\n\"a\":\r\n \"x\\ny\"\n}"));
        let line = Message::Notification {
            method: "m".into(),
            params,
        }
        .encode();
        assert_eq!(
            line,
            b"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":{ \"a\":   \"x\\ny\" }}\n"
        );
    }

    #[cfg(feature = "tokio")]
    #[test]
    fn params_are_an_object_an_array_or_left_out() {
        let line = |params: &dyn Fn() -> Result<Vec<u8>, BadPayload>| params().unwrap();
        assert_eq!(
            line(&|| call_line(None, "m", &())),
            b"{\"jsonrpc\":\"2.0\",\"method\":\"m\"}\n"
        );
        assert_eq!(
            line(&|| call_line(Some(&Id::from(1)), "m", &[1])),
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":[1]}\n"
        );
        assert!(matches!(call_line(None, "m", &1), Err(BadPayload::Params)));
        let unwritable = std::collections::HashMap::from([(vec![1], 1)]);
        assert!(matches!(
            call_line(None, "m", &unwritable),
            Err(BadPayload::Encode(_))
        ));
        assert!(result_line(&Id::from(1), &unwritable).is_err());
    }
}
