//! The three parties of an office against each other, against a client that shares no code with them, and against the
//! software of others.

mod chaos;
mod fuzz;
mod guests;
mod interop;
mod members;
mod raw;
mod refusals;
mod relay;
mod rights;
mod several;
mod support;
mod tls;
