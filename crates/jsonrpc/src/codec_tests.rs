//! Cutting at every border, the ceiling to the byte, and the memory held meanwhile.

use proptest::prelude::*;

use super::*;
use crate::{ErrorObject, Id, Message};

fn frames(decoder: &mut Decoder) -> Vec<Frame> {
    std::iter::from_fn(|| decoder.next_frame()).collect()
}

/// Pushes the input cut at `cuts`, pulling after each piece, then ends it.
fn decode(input: &[u8], line_max: usize, cuts: &[usize]) -> Vec<Frame> {
    let mut decoder = Decoder::new(line_max);
    let mut found = Vec::new();
    let mut rest = input;
    for cut in cuts {
        let (piece, after) = rest.split_at((*cut).min(rest.len()));
        decoder.push(piece);
        found.extend(frames(&mut decoder));
        rest = after;
    }
    decoder.push(rest);
    found.extend(frames(&mut decoder));
    found.extend(decoder.finish());
    assert_eq!(decoder.finish(), None);
    found
}

fn too_long(text: &str) -> Frame {
    Frame::TooLong(Ends::of(text.as_bytes()))
}

fn line(text: &str) -> Frame {
    Frame::Line(Bytes::copy_from_slice(text.as_bytes()))
}

#[test]
fn line_ends_of_either_kind_and_blank_lines_are_tolerated() {
    let found = decode(b"\n\r\n  \na\r\nb\n\n c \nd", 10, &[]);
    assert_eq!(found, [line("a"), line("b"), line(" c "), line("d")]);
    assert_eq!(decode(b"", 10, &[]), []);
    assert_eq!(decode(b" \r", 10, &[]), []);
}

#[test]
fn the_ceiling_counts_content_to_the_byte_wherever_the_input_is_cut() {
    let input = b"1234\n12345\n1234\r\n12345\r\n123456789\n1234";
    let expected = [
        line("1234"),
        too_long("12345"),
        line("1234"),
        too_long("12345"),
        too_long("123456789"),
        line("1234"),
    ];
    for cut in 0..=input.len() {
        assert_eq!(decode(input, 4, &[cut]), expected, "cut at {cut}");
    }
    assert_eq!(decode(input, 4, &[1; 50]), expected);
    assert_eq!(decode(b"12345", 4, &[]), [too_long("12345")]);
    assert_eq!(decode(b"1234\r", 4, &[]), [line("1234")]);
    assert_eq!(
        decode(b"1234\r5\nok\n", 4, &[1; 20]),
        [too_long("1234\r5"), line("ok")]
    );
}

#[test]
fn ten_mebibytes_pass_and_one_byte_more_does_not() {
    for (length, fits) in [(LINE_MAX, true), (LINE_MAX + 1, false)] {
        let mut input = vec![b'x'; length];
        input.extend_from_slice(b"\nnext\n");
        let found = decode(&input, LINE_MAX, &[64 * 1024; 200]);
        assert_eq!(found.len(), 2);
        assert_eq!(matches!(found[0], Frame::Line(_)), fits);
        assert_eq!(found[1], line("next"));
    }
}

#[test]
fn memory_stays_under_the_ceiling_and_a_chunk_and_shrinks_back() {
    const CEILING: usize = 1024 * 1024;
    let chunk = vec![b'x'; 64 * 1024];
    let mut decoder = Decoder::new(CEILING);
    let mut said = 0;
    for _ in 0..100 {
        decoder.push(&chunk);
        said += frames(&mut decoder).len();
        assert!(decoder.capacity() <= CEILING + chunk.len());
    }
    assert_eq!(said, 0);
    assert!(decoder.capacity() <= TAKE_BUFFER_FROM);
    decoder.push(b"\n");
    assert_eq!(frames(&mut decoder).len(), 1);
    for _ in 0..16 {
        decoder.push(&chunk);
        assert_eq!(frames(&mut decoder), []);
    }
    decoder.push(b"\nshort\n");
    assert_eq!(frames(&mut decoder).len(), 2);
    decoder.push(b"a");
    assert!(decoder.capacity() <= TAKE_BUFFER_FROM);
}

#[test]
fn a_waiting_line_is_seen_before_it_is_taken() {
    let mut decoder = Decoder::new(10);
    decoder.push(b"a\nb");
    assert!(decoder.has_line());
    assert_eq!(decoder.next_frame(), Some(line("a")));
    assert!(!decoder.has_line());
    assert_eq!(decoder.next_frame(), None);
}

fn id() -> impl Strategy<Value = Id> {
    prop_oneof![
        any::<u64>().prop_map(Id::from),
        any::<i64>().prop_map(|number| Id::Number(number.into())),
        ".*".prop_map(Id::String),
        "[1-9][0-9]{20,30}".prop_map(|text| Id::from_json(&text).unwrap()),
    ]
}

fn payload() -> impl Strategy<Value = Box<serde_json::value::RawValue>> {
    prop::collection::vec(".*", 0..4)
        .prop_map(|values| serde_json::value::to_raw_value(&values).unwrap())
}

fn message() -> impl Strategy<Value = Message> {
    let error =
        (any::<i64>(), ".*", prop::option::of(payload())).prop_map(|(code, message, data)| {
            ErrorObject {
                code,
                message,
                data,
            }
        });
    prop_oneof![
        (id(), ".*", prop::option::of(payload()))
            .prop_map(|(id, method, params)| Message::Request { id, method, params }),
        (".*", prop::option::of(payload()))
            .prop_map(|(method, params)| Message::Notification { method, params }),
        (id(), payload()).prop_map(|(id, result)| Message::Response {
            id: Some(id),
            outcome: Ok(result)
        }),
        (prop::option::of(id()), error).prop_map(|(id, error)| Message::Response {
            id,
            outcome: Err(error)
        }),
    ]
}

proptest! {
    #[test]
    fn messages_survive_any_cut(
        messages in prop::collection::vec(message(), 0..8),
        cuts in prop::collection::vec(0_usize..80, 0..40),
    ) {
        let mut input = Vec::new();
        messages.iter().for_each(|message| message.encode_into(&mut input));
        let read: Vec<Message> = decode(&input, LINE_MAX, &cuts)
            .into_iter()
            .map(|frame| match frame {
                Frame::Line(line) => Message::parse(&line).unwrap(),
                Frame::TooLong(_) => panic!("no line is long"),
            })
            .collect();
        prop_assert_eq!(read, messages);
    }

    #[test]
    fn garbage_between_lines_never_loses_a_good_one(
        pieces in prop::collection::vec((message(), prop::collection::vec(any::<u8>(), 0..60)), 1..8),
        cuts in prop::collection::vec(0_usize..80, 0..40),
    ) {
        let mut input = Vec::new();
        for (message, garbage) in &pieces {
            input.extend_from_slice(garbage);
            input.push(b'\n');
            message.encode_into(&mut input);
        }
        let read: Vec<Message> = decode(&input, LINE_MAX, &cuts)
            .into_iter()
            .filter_map(|frame| match frame {
                Frame::Line(line) => Message::parse(&line).ok(),
                Frame::TooLong(_) => None,
            })
            .collect();
        let sent: Vec<Message> = pieces.into_iter().map(|(message, _)| message).collect();
        prop_assert_eq!(read, sent);
    }

    #[test]
    fn frames_do_not_depend_on_the_cut(
        input in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..200),
        line_max in 0_usize..12,
        cuts in prop::collection::vec(0_usize..20, 0..40),
    ) {
        prop_assert_eq!(decode(&input, line_max, &cuts), decode(&input, line_max, &[]));
    }
}
