//! Pickles that are written by hand.

use super::*;

fn load(bytes: &[u8]) -> Result<Pickle, String> {
    read(bytes).map_err(|error| match error {
        PickleError::Read(error) => error.to_string(),
        PickleError::At(at, what) => format!("{at}: {what}"),
    })
}

/// The value of a pickle whose body, between protocol and end, is this.
fn value(body: &[u8]) -> Result<Node, String> {
    let bytes = [b"\x80\x04", body, b"."].concat();
    load(&bytes).map(|pickle| pickle.root())
}

#[test]
fn numbers_have_their_values() {
    for (body, node) in [
        (&b"N"[..], Node::None),
        (b"\x88", Node::Bool(true)),
        (b"\x89", Node::Bool(false)),
        (b"K\xff", Node::Int(255)),
        (b"M\x00\x01", Node::Int(256)),
        (b"J\xfe\xff\xff\xff", Node::Int(-2)),
        (b"\x8a\x00", Node::Int(0)),
        (b"\x8a\x01\xff", Node::Int(-1)),
        (b"\x8a\x06\x00\x00\x00\x00\x00\x7f", Node::Int(0x7f00_0000_0000)),
        (b"\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80", Node::Int(i64::MIN)),
        (b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00", Node::BigInt),
        (b"\x8b\x02\x00\x00\x00\x00\x80", Node::Int(-32768)),
        (b"G\x3f\xe0\x00\x00\x00\x00\x00\x00", Node::Float(0.5)),
    ] {
        assert_eq!(value(body), Ok(node), "{body:x?}");
    }
}

#[test]
fn containers_have_their_items() {
    // {"a": [1, (2, 3), ()], "a": "b"} with the list filled in two steps.
    let body = b"}(\x8c\x01a](K\x01K\x02K\x03\x86e)aX\x01\x00\x00\x00aX\x01\x00\x00\x00bu";
    let pickle = load(&[b"\x80\x02", &body[..], b"."].concat()).expect("a pickle");
    let found = pickle.get(pickle.root(), "a").expect("there");
    assert_eq!(pickle.text(pickle.node(found)).as_deref(), Some("b"), "the last one counts");
    let Node::Dict(dict) = pickle.root() else { panic!("a dictionary") };
    let list = pickle.items[dict as usize][1];
    let list = pickle.sequence(pickle.node(list)).expect("a list");
    let nodes: Vec<Node> = list.iter().map(|&item| pickle.node(item)).collect();
    assert_eq!(nodes[0], Node::Int(1));
    let lengths: Vec<usize> =
        nodes[1..].iter().map(|&node| pickle.sequence(node).expect("a tuple").len()).collect();
    assert_eq!(lengths, [2, 0]);
    assert_eq!(pickle.get(pickle.root(), "b"), None);
}

#[test]
fn a_list_may_hold_itself() {
    // x = []; x.append(x)
    let pickle = load(b"\x80\x04]\x94h\x00a.").expect("a pickle");
    let list = pickle.sequence(pickle.root()).expect("a list");
    assert_eq!(pickle.node(list[0]), pickle.root());
}

#[test]
fn nothing_that_calls_is_done() {
    for (body, name) in [
        (&b"cos\nsystem\n"[..], "GLOBAL"),
        (b"\x8c\x02os\x8c\x06system\x93", "STACK_GLOBAL"),
        (b"N)R", "REDUCE"),
        (b"}}b", "BUILD"),
        (b"(ios\nsystem\n", "INST"),
        (b"(No", "OBJ"),
        (b"N)\x81", "NEWOBJ"),
        (b"N)}\x92", "NEWOBJ_EX"),
        (b"\x82\x01", "EXT1"),
        (b"Q", "BINPERSID"),
    ] {
        let message = value(body).expect_err(name);
        assert!(message.contains(&format!(": opcode {name} would run code")), "{message}");
    }
    let message = value(b"K\x01C\x01x").expect_err("bytes");
    assert_eq!(message, "4: opcode SHORT_BINBYTES is in no snapshot of PyTorch");
    assert_eq!(value(b"\xff").expect_err("no opcode"), "2: there is no opcode 0xff");
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (bytes, message) in [
        (&b"\x80"[..], "0: the pickle ends in the middle"),
        (b"\x80\x04", "2: the pickle ends in the middle"),
        (b"\x80\x06N.", "0: pickle protocol 6 is none of 2 to 5"),
        (b"\x80\x01N.", "0: pickle protocol 1 is none of 2 to 5"),
        (b"\x80\x04.", "2: there is no value"),
        (b"\x80\x04Na.", "3: the stack has too few values"),
        (b"\x80\x04](a.", "4: the stack has too few values"),
        (b"\x80\x04Ne.", "3: the stack has no mark"),
        (b"\x80\x04(0.", "3: the stack has too few values"),
        (b"\x80\x04NNa.", "4: appends to what is no list"),
        (b"\x80\x04](NNu.", "6: sets an item of what is no dictionary"),
        (b"\x80\x04}(Nu.", "5: a key of a dictionary has no value"),
        (b"\x80\x04h\x05.", "2: nothing is in place 5 of the memo"),
        (b"\x80\x04Nr\xff\xff\xff\xff.", "3: place 4294967295 of the memo is not the next"),
        (b"\x80\x04X\xff\xff\xff\xffabc", "2: the pickle ends in the middle"),
        (b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xffabc", "2: the pickle ends in the middle"),
        (b"\x80\x04\x8b\xff\xff\xff\xff\x01", "2: the pickle ends in the middle"),
    ] {
        assert_eq!(load(bytes).expect_err(message), message);
    }
}

/// `inner` again and again.
fn many(start: &[u8], inner: &[u8], times: usize) -> Vec<u8> {
    [start, &inner.repeat(times)].concat()
}

#[test]
fn memory_is_bounded_by_the_bytes_read() {
    for opcode in [&b"]"[..], b"}", b")", b"N", b"(", b"2"] {
        let bytes = many(b"\x80\x04N", opcode, 1 << 20);
        let Err(message) = load(&bytes) else { panic!("there is no end") };
        let is_refused = message.contains(" bytes make values of ");
        assert!(is_refused || message.ends_with("the pickle ends in the middle"), "{message}");
    }
    let message = load(&many(b"\x80\x04", b"]", 1 << 20)).expect_err("48 bytes for one");
    assert!(message.contains(" bytes make values of "), "{message}");
    // Each list holds the one before twice: 2^1000 values for one that copies.
    let mut doubled = b"\x80\x02]q\x00".to_vec();
    for place in 0..255_u8 {
        doubled.extend([b']', b'q', place + 1, b'(', b'h', place, b'h', place, b'e']);
    }
    doubled.push(b'.');
    assert_eq!(load(&doubled).expect("small").items.len(), 256);
    // As deep as it is long.
    let mut deep = many(b"\x80\x02", b"]\x94", 1000);
    deep.extend(b"a".repeat(999));
    deep.push(b'.');
    assert_eq!(load(&deep).expect("deep").items.len(), 1000);
}
