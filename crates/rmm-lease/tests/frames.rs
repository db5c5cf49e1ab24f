//! Good and bad frames, whole and in parts.

use proptest::prelude::*;
use rmm_lease::protocol::{
    AllocationRecord, Content, Frame, FrameError, FrameReader, Granted, Identity, Lock, LockHolder,
    MAX_FRAME, Message, encode,
};

/// Delivers the bytes in parts of at most `step`, with the descriptors beside the first.
fn read(
    bytes: &[u8],
    step: usize,
    descriptors: Vec<u32>,
) -> Result<(Vec<Frame<u32>>, FrameReader<u32>), FrameError> {
    let (mut reader, mut frames, mut rest) = (FrameReader::new(), Vec::new(), bytes);
    let mut descriptors = Some(descriptors);
    while !rest.is_empty() {
        let (now, later) = rest.split_at(reader.wanted().min(step).min(rest.len()));
        frames.extend(reader.push(now, descriptors.take().into_iter().flatten())?);
        rest = later;
    }
    Ok((frames, reader))
}

fn framed(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a small payload");
    [&length.to_be_bytes(), payload].concat()
}

fn identity() -> Identity {
    Identity { server_nonce: "n".into(), gpu_uuid: "GPU-u".into() }
}

fn content() -> Content {
    let bytes = vec![0, 127, 128, 255];
    Content { allocation_id: "a".into(), offset: 1 << 40, size: 0, bytes }
}

fn all_messages() -> Vec<Message> {
    let id = String::from("weights");
    vec![
        Message::HandshakeRequest { lock_type: Lock::Write, expected_identity: Some(identity()) },
        Message::HandshakeRequest { lock_type: Lock::WriteOrRead, expected_identity: None },
        Message::HandshakeResponse {
            lock_type: Granted::Read,
            server_nonce: "n".into(),
            gpu_uuid: "GPU-u".into(),
        },
        Message::AllocateRequest { allocation_id: id.clone(), aligned_size: u64::MAX },
        Message::ExportRequest { allocation_id: id.clone() },
        Message::FreeRequest { allocation_id: id.clone() },
        Message::ListAllocationsRequest {},
        Message::CommitRequest {},
        Message::AbortRequest {},
        Message::HoldersRequest {},
        Message::PutRequest { name: "w".into(), content: content() },
        Message::GetRequest { name: "w".into() },
        Message::ListNamesRequest {},
        Message::SuccessResponse {},
        Message::ExportResponse {},
        Message::ListAllocationsResponse {
            allocations: vec![AllocationRecord { allocation_id: id, aligned_size: 2 << 20 }],
        },
        Message::GetResponse { content: content() },
        Message::ListNamesResponse { names: vec!["w".into()] },
        Message::HoldersResponse { holders: vec![LockHolder { process: 7, lock: Granted::Write }] },
        Message::ErrorResponse { message: "no".into(), out_of_memory: true },
    ]
}

#[test]
fn bytes_are_sent_as_bytes() {
    let message = Message::GetResponse { content: content() };
    let frame = encode(&message).expect("it is small");
    let bytes = b"\xa5bytes\xc4\x04\x00\x7f\x80\xff";
    assert!(frame.ends_with(bytes), "{frame:?}");
    // Other libraries may send an array of numbers.
    let numbers = b"\xa5bytes\x94\x00\x7f\xcc\x80\xcc\xff";
    let payload = [&frame[4..frame.len() - bytes.len()], numbers].concat();
    let (frames, _) = read(&framed(&payload), 1000, vec![]).expect("a frame");
    assert_eq!(frames, [Frame { message, descriptor: None }]);
}

#[test]
fn messages_arrive_in_parts_of_any_size() {
    for message in all_messages() {
        let frame = encode(&message).expect("it is small");
        let descriptor = message.has_descriptor().then_some(5);
        for step in 1..=frame.len() {
            let (frames, reader) =
                read(&frame, step, descriptor.into_iter().collect()).expect("a whole frame");
            assert_eq!(frames, [Frame { message: message.clone(), descriptor }]);
            reader.finish().expect("the end of a frame");
        }
    }
}

#[test]
fn frames_are_those_of_v1() {
    // As msgspec encodes its structures: a map, the tag first.
    let message =
        Message::HandshakeRequest { lock_type: Lock::Read, expected_identity: Some(identity()) };
    let payload = b"\x83\xa4type\xb1handshake_request\xa9lock_type\xa2ro\
        \xb1expected_identity\x92\xa1n\xa5GPU-u";
    assert_eq!(encode(&message).expect("it is small"), framed(payload));
    let message = Message::ListAllocationsResponse {
        allocations: vec![AllocationRecord { allocation_id: "a".into(), aligned_size: 2 << 20 }],
    };
    let payload = b"\x82\xa4type\xb9list_allocations_response\xaballocations\x91\
        \x82\xadallocation_id\xa1a\xacaligned_size\xce\x00\x20\x00\x00";
    assert_eq!(encode(&message).expect("it is small"), framed(payload));
}

#[test]
fn missing_fields_with_defaults_and_the_older_name_of_a_lock_are_read() {
    let payload = b"\x82\xa4type\xb1handshake_request\xa9lock_type\xa4auto";
    let (frames, _) = read(&framed(payload), 64, Vec::new()).expect("a whole frame");
    let wanted =
        Message::HandshakeRequest { lock_type: Lock::WriteOrRead, expected_identity: None };
    assert_eq!(frames[0].message, wanted);
}

#[test]
fn lengths_above_the_limit_fail_at_their_header() {
    for length in [MAX_FRAME + 1, 2 << 30, u32::MAX as usize] {
        let header = u32::try_from(length).expect("4 bytes").to_be_bytes();
        let found = read(&header, 4, Vec::new()).expect_err("too large");
        assert!(matches!(found, FrameError::TooLarge(bytes) if bytes == length), "{found}");
    }
    let message = Message::ExportRequest { allocation_id: "x".repeat(MAX_FRAME) };
    assert!(matches!(encode(&message), Err(FrameError::TooLarge(_))));
}

#[test]
fn half_frames_are_truncated() {
    for message in all_messages() {
        let frame = encode(&message).expect("it is small");
        for end in 1..frame.len() {
            let (frames, reader) = read(&frame[..end], 4096, Vec::new()).expect("no whole frame");
            assert_eq!(frames, []);
            assert!(matches!(reader.finish(), Err(FrameError::Truncated(bytes)) if bytes == end));
        }
    }
}

#[test]
fn descriptors_come_with_exports_only_and_one_by_one() {
    let export = encode(&Message::ExportResponse {}).expect("it is small");
    let success = encode(&Message::SuccessResponse {}).expect("it is small");
    for (frame, descriptors) in
        [(&export, vec![]), (&export, vec![1, 2]), (&success, vec![1]), (&success, vec![1, 2, 3])]
    {
        let count = descriptors.len();
        let error = read(frame, 4096, descriptors).expect_err("a wrong number of descriptors");
        assert!(
            matches!(error, FrameError::Descriptors { found, .. } if found == count),
            "{error}"
        );
    }
}

#[test]
fn what_is_no_message_fails() {
    let commit = &encode(&Message::CommitRequest {}).expect("it is small")[4..];
    for (what, payload) in [
        ("nothing", &b""[..]),
        ("no map", b"\x01"),
        ("no type", b"\x80"),
        ("an unknown type", b"\x81\xa4type\xa3run"),
        ("an unknown lock", b"\x82\xa4type\xb1handshake_request\xa9lock_type\xa1w"),
        (
            "a negative size",
            b"\x83\xa4type\xb0allocate_request\xadallocation_id\xa1a\xacaligned_size\xff",
        ),
        ("a missing field", b"\x81\xa4type\xb0allocate_request"),
        (
            "an array of four billion",
            b"\x82\xa4type\xb9list_allocations_response\xaballocations\xdd\xff\xff\xff\xff",
        ),
    ] {
        let error = read(&framed(payload), 4096, Vec::new()).expect_err(what);
        assert!(matches!(error, FrameError::NoMessage(_)), "{what}: {error}");
    }
    let nested = [b"\x82\xa4type\xaecommit_request\xa1x".to_vec(), vec![0x91; 500_000]].concat();
    let error = read(&framed(&nested), 1 << 20, Vec::new()).expect_err("too deep");
    assert!(matches!(error, FrameError::NoMessage(_)), "{error}");
    let error = read(&framed(&[commit, b"\xc0"].concat()), 4096, Vec::new()).expect_err("trailing");
    assert!(matches!(error, FrameError::Trailing(1)), "{error}");
}

proptest! {
    #[test]
    fn random_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200), step in 1_usize..50, framing: bool,
    ) {
        let bytes = if framing { framed(&bytes) } else { bytes };
        let _outcome = read(&bytes, step, Vec::new());
    }

    #[test]
    fn damaged_messages_never_panic(
        which in 0_usize..15, position in 0_usize..100, value: u8, step in 1_usize..50,
    ) {
        let message = &all_messages()[which];
        let mut frame = encode(message).expect("it is small");
        let position = position % frame.len();
        frame[position] = value;
        // What still is a message can be sent again.
        if let Ok((frames, _)) = read(&frame, step, Vec::new()) {
            for frame in frames {
                encode(&frame.message).expect("it came in a frame");
            }
        }
    }
}
