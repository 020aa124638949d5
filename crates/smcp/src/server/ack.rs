//! Acknowledgements: each request gets one, in the form of its profile and event.

use serde_json::Value;
use socketioxide::SendError;
use wire::smcp::{ErrorBody, Profile};

use super::bus::AckSender;
use crate::convert;

/// What an acknowledgement says.
#[derive(Debug, Clone)]
pub(super) enum Ack {
    /// One value.
    Value(Value),
    /// It is done: two arguments, which the released clients take apart.
    Done,
    /// It is heard; there is nothing to say.
    Heard,
}

/// Where an acknowledgement goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A released client takes a refusal apart as a pair.
    Pair,
    /// A released client takes it for a tool's result, unless it knows the code.
    Result,
    Plain,
}

pub(super) fn send(ack: AckSender, what: &Ack) -> Result<(), SendError> {
    match what {
        Ack::Value(value) => ack.send(value),
        Ack::Done => ack.send(&(true, Value::Null)),
        Ack::Heard => ack.send(&[(); 0]),
    }
}

pub(super) fn send_error(
    ack: AckSender,
    error: &ErrorBody,
    form: Form,
    profile: Profile,
) -> Result<(), SendError> {
    match (form, profile) {
        (Form::Pair, Profile::Shipped) => ack.send(&(false, &error.message)),
        (Form::Result, Profile::Shipped) => {
            ack.send(&convert::for_released(error.to_value(profile)))
        }
        (Form::Pair | Form::Result | Form::Plain, Profile::Seed)
        | (Form::Plain, Profile::Shipped) => ack.send(&error.to_value(profile)),
    }
}
