//! From a line to a message in one pass, and what is wrong with a line that is none.
//!
//! The envelope is read with borrowed raw values, so the cost of a payload is one scan and one
//! copy, however deep it is.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{error::Category, value::RawValue};

use crate::{Ends, ErrorObject, Id, Message, overlong::Seems};

/// A line that is no message: what to tell the peer, and about which request.
#[derive(Clone, Debug, PartialEq)]
pub struct Malformed {
    pub kind: MalformedKind,
    /// The id in the line, where it could be read.
    pub id: Option<Id>,
    pub error: ErrorObject,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MalformedKind {
    /// Not JSON, or not UTF-8.
    Parse,
    /// Longer than the ceiling, and no response as far as its ends tell.
    TooLong,
    /// JSON that is not a valid request or notification; batches are here.
    Request,
    /// JSON that looks like a response and is not a valid one.
    Response,
    /// An id and nothing that tells what it is about: a bad response where a call of ours waits for it, else a bad request.
    Bare,
}

impl Malformed {
    /// A line longer than `line_max` bytes. Its ends tell whose answer is due, where they have an id.
    pub fn too_long(line_max: usize, ends: &Ends) -> Malformed {
        let (seems, id) = ends.read();
        let (kind, id) = match seems {
            Seems::Request => (MalformedKind::TooLong, id),
            Seems::Response => (MalformedKind::Response, id),
            Seems::Unknown => (MalformedKind::TooLong, None),
        };
        let error = ErrorObject::invalid_request(format!("line is longer than {line_max} bytes"));
        Malformed { kind, id, error }
    }

    /// The response owed to the peer. A bad response is owed none: its id is one of ours, and an
    /// answer carrying it could be taken for the answer to a request of the peer.
    pub fn answer(&self) -> Option<Message> {
        match self.kind {
            MalformedKind::Parse
            | MalformedKind::TooLong
            | MalformedKind::Request
            | MalformedKind::Bare => Some(Message::Response {
                id: self.id.clone(),
                outcome: Err(self.error.clone()),
            }),
            MalformedKind::Response => None,
        }
    }

    fn parse(error: impl fmt::Display) -> Malformed {
        Malformed {
            kind: MalformedKind::Parse,
            id: None,
            error: ErrorObject::parse_error(format!("parse error: {error}")),
        }
    }

    fn request(id: Option<Id>, reason: &str) -> Malformed {
        let error = ErrorObject::invalid_request(format!("invalid request: {reason}"));
        Malformed {
            kind: MalformedKind::Request,
            id,
            error,
        }
    }

    fn response(id: Option<Id>, reason: &str) -> Malformed {
        let error = ErrorObject::invalid_request(format!("invalid response: {reason}"));
        Malformed {
            kind: MalformedKind::Response,
            id,
            error,
        }
    }
}

impl Message {
    /// Reads one line, without its newline. Keys may come in any order and unknown ones are
    /// ignored. Params are an object, an array or absent; null is read as absent.
    pub fn parse(line: &[u8]) -> Result<Message, Malformed> {
        let text = std::str::from_utf8(line).map_err(Malformed::parse)?;
        let envelope: Envelope<'_> = match serde_json::from_str(text) {
            Ok(envelope) => envelope,
            Err(error) => {
                return Err(match error.classify() {
                    Category::Data if text.trim_ascii_start().starts_with('[') => {
                        check_syntax(text)?;
                        Malformed::request(None, "batches are not supported")
                    }
                    Category::Data => {
                        check_syntax(text)?;
                        Malformed::request(None, "a message is an object")
                    }
                    Category::Syntax | Category::Eof | Category::Io => Malformed::parse(error),
                });
            }
        };
        envelope.into_message()
    }
}

/// The envelope's reader stops at the first wrong kind, before it knows whether the rest is JSON.
fn check_syntax(text: &str) -> Result<(), Malformed> {
    serde_json::from_str::<&RawValue>(text)
        .map(|_| ())
        .map_err(Malformed::parse)
}

#[derive(Default)]
struct Envelope<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    /// A key that came twice means different things to different readers, so it is refused.
    repeated: bool,
}

impl Envelope<'_> {
    fn into_message(self) -> Result<Message, Malformed> {
        let looks_like_response =
            self.method.is_none() && (self.result.is_some() || self.error.is_some());
        if looks_like_response {
            self.into_response()
        } else {
            self.into_request()
        }
    }

    /// What is wrong with the envelope whichever kind of message it holds.
    fn fault(&self) -> Option<&'static str> {
        if self.repeated {
            return Some("a key is repeated");
        }
        let version = self.jsonrpc.map(RawValue::get);
        // An escaped spelling of "2.0" is legal JSON, so the text alone does not decide.
        let right = version == Some(r#""2.0""#)
            || version
                .and_then(|text| serde_json::from_str::<String>(text).ok())
                .as_deref()
                == Some("2.0");
        (!right).then_some(r#"jsonrpc must be "2.0""#)
    }

    fn into_request(self) -> Result<Message, Malformed> {
        let id = self.id.and_then(|id| Id::from_json(id.get()));
        if let Some(fault) = self.fault() {
            return Err(Malformed::request(id, fault));
        }
        if self.id.is_some() && id.is_none() {
            return Err(Malformed::request(None, "id must be a number or a string"));
        }
        let method = match self.method.map(|method| serde_json::from_str(method.get())) {
            Some(Ok(method)) => method,
            Some(Err(_)) => return Err(Malformed::request(id, "method must be a string")),
            None => {
                let kind = match id {
                    Some(_) => MalformedKind::Bare,
                    None => MalformedKind::Request,
                };
                let malformed = Malformed::request(id, "method is missing");
                return Err(Malformed { kind, ..malformed });
            }
        };
        let params = match self.params {
            Some(params) if params.get().starts_with(['{', '[']) => Some(params.to_owned()),
            // Writers with a fixed shape say it where there are none.
            Some(params) if params.get() == "null" => None,
            Some(_) => {
                return Err(Malformed::request(
                    id,
                    "params must be an object or an array",
                ));
            }
            None => None,
        };
        Ok(match id {
            Some(id) => Message::Request { id, method, params },
            None => Message::Notification { method, params },
        })
    }

    fn into_response(self) -> Result<Message, Malformed> {
        let id = self.id.and_then(|id| Id::from_json(id.get()));
        if let Some(fault) = self.fault() {
            return Err(Malformed::response(id, fault));
        }
        let id_is_null = self.id.is_none_or(|id| id.get() == "null");
        if id.is_none() && !id_is_null {
            return Err(Malformed::response(None, "id must be a number or a string"));
        }
        // Writers with a fixed shape fill the unused half with null.
        let error = self
            .error
            .filter(|error| self.result.is_none() || error.get() != "null");
        let result = self
            .result
            .filter(|result| error.is_none() || result.get() != "null");
        let outcome = match (result, error) {
            (Some(result), None) if id.is_some() => Ok(result.to_owned()),
            (Some(_), None) => return Err(Malformed::response(None, "a result needs an id")),
            (None, Some(error)) => match serde_json::from_str(error.get()) {
                Ok(error) => Err(error),
                Err(_) => return Err(Malformed::response(id, "error is no error object")),
            },
            (Some(_), Some(_)) | (None, None) => {
                return Err(Malformed::response(id, "either result or error"));
            }
        };
        Ok(Message::Response { id, outcome })
    }
}

enum Key {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    Unknown,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        struct KeyVisitor;
        impl Visitor<'_> for KeyVisitor {
            type Value = Key;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a key")
            }

            fn visit_str<E>(self, key: &str) -> Result<Key, E> {
                Ok(match key {
                    "jsonrpc" => Key::Jsonrpc,
                    "id" => Key::Id,
                    "method" => Key::Method,
                    "params" => Key::Params,
                    "result" => Key::Result,
                    "error" => Key::Error,
                    _ => Key::Unknown,
                })
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Envelope<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Envelope<'a>, D::Error> {
        struct EnvelopeVisitor;
        impl<'de> Visitor<'de> for EnvelopeVisitor {
            type Value = Envelope<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a JSON-RPC object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope<'de>, A::Error> {
                let mut envelope = Envelope::default();
                while let Some(key) = map.next_key::<Key>()? {
                    let slot = match key {
                        Key::Jsonrpc => &mut envelope.jsonrpc,
                        Key::Id => &mut envelope.id,
                        Key::Method => &mut envelope.method,
                        Key::Params => &mut envelope.params,
                        Key::Result => &mut envelope.result,
                        Key::Error => &mut envelope.error,
                        Key::Unknown => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    let previous = slot.replace(map.next_value::<&'de RawValue>()?);
                    envelope.repeated |= previous.is_some();
                }
                Ok(envelope)
            }
        }
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
