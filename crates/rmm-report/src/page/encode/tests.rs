//! That what is written can be read: a reader like the script's.

use std::io::Read as _;

use flate2::read::ZlibDecoder;
use proptest::prelude::*;

use super::*;
use crate::page::view::ViewSegment;

/// The numbers of a column.
fn numbers(columns: &Columns, column: &Value) -> Vec<u64> {
    let text = &columns.texts[usize::try_from(column.as_u64().expect("a number")).expect("small")];
    let mut bytes = Vec::new();
    ZlibDecoder::new(decoded(text).as_slice()).read_to_end(&mut bytes).expect("deflated");
    let mut numbers = Vec::new();
    let (mut number, mut shift) = (0, 0);
    for byte in bytes {
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            numbers.push(number);
            (number, shift) = (0, 0);
        }
    }
    numbers
}

fn decoded(text: &str) -> Vec<u8> {
    let value = |digit: u8| match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits = text.trim_end_matches('=').bytes().map(value).collect::<Vec<_>>();
    let group = |group: &[u8]| {
        let bits = group.iter().fold(0, |bits, &digit| bits << 6 | u32::from(digit));
        let bits = bits << (6 * (4 - group.len()));
        bits.to_be_bytes()[1..group.len()].to_vec()
    };
    digits.chunks(4).flat_map(group).collect()
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// Sizes and addresses as the script has them.
fn read(encoded: &Value, columns: &Columns) -> Vec<(u64, u64, u64, u64)> {
    let column = |name: &str| numbers(columns, &encoded[name]);
    let sizes = match &encoded["size"] {
        size if size.get("plain").is_some() => numbers(columns, &size["plain"]),
        size => {
            let table = numbers(columns, &size["table"]);
            let index = numbers(columns, &size["index"]);
            index.into_iter().map(|index| table[usize::try_from(index).expect("small")]).collect()
        }
    };
    let mut page = 0;
    let pages: Vec<u64> = column("pages")
        .into_iter()
        .map(|delta| {
            page += delta;
            page
        })
        .collect();
    let [unit, bytes] = ["unit", "page"].map(|name| encoded[name].as_u64().expect("a number"));
    let (mut start, mut place) = (0, 0_i64);
    let blocks =
        column("start").into_iter().zip(column("length")).zip(sizes).zip(column("address"));
    blocks
        .map(|(((delta, length), size), address)| {
            start += delta;
            place += unzigzag(address);
            let place = place.cast_unsigned();
            let rank = usize::try_from(place / (bytes / unit)).expect("small");
            (start, length, size, pages[rank] * bytes + place % (bytes / unit) * unit)
        })
        .collect()
}

prop_compose! {
    fn block()(start in 0..50_u32, length in prop::option::of(1..50_u32), size in 0..5_000_000_u64,
               address in 0..1_u64 << 47, stream in 0..3_u32) -> ViewBlock {
        let end = length.map_or(NEVER, |length| start + length);
        ViewBlock { start, end, size, address: address & !0xff, stream, ..ViewBlock::default() }
    }
}

proptest! {
    #[test]
    fn blocks_come_back(mut blocks in prop::collection::vec(block(), 1..60), repeat in any::<bool>()) {
        blocks.sort_by_key(|block| block.start);
        if repeat {
            for block in &mut blocks {
                block.size = 1000 * (block.size % 2);
            }
        }
        let view = View { events: 100, blocks, ..View::default() };
        let mut columns = Columns::default();
        let encoded = super::view(&view, &mut columns);
        let expected: Vec<_> = view.blocks.iter().map(|block| {
            let length = if block.end == NEVER { 0 } else { block.end - block.start };
            (u64::from(block.start), u64::from(length), block.size, block.address)
        }).collect();
        prop_assert_eq!(read(&encoded, &columns), expected);
        let streams: Vec<u64> = view.blocks.iter().map(|block| block.stream.into()).collect();
        if let Some(all) = encoded["stream"].get("all") {
            prop_assert!(streams.iter().all(|&stream| Some(stream) == all.as_u64()));
        } else {
            prop_assert_eq!(numbers(&columns, &encoded["stream"]), streams);
        }
    }
}

#[test]
fn changes_segments_and_times_come_back() {
    let view = View {
        events: 5,
        times: vec![0, 2_000, 2_500, 9_000, 1_000_000],
        blocks: vec![ViewBlock {
            start: 1,
            end: NEVER,
            size: 10,
            address: 0x7f00_0020_0000,
            ..ViewBlock::default()
        }],
        reserved: Some(vec![(1, 4 << 20), (3, 1 << 20)]),
        segments: vec![ViewSegment { address: 0x7f00_0020_0000, size: 4 << 20, start: 1, end: 3 }],
        ..View::default()
    };
    let mut columns = Columns::default();
    let encoded = super::view(&view, &mut columns);
    let changes = numbers(&columns, &encoded["reserved"]);
    let changes: Vec<i64> = changes
        .iter()
        .zip(0..)
        .map(|(&n, i)| if i % 2 == 0 { n.cast_signed() } else { unzigzag(n) })
        .collect();
    assert_eq!(changes, [1, 4 << 20, 2, -(3 << 20)]);
    assert_eq!(numbers(&columns, &encoded["segments"]), [1, 3, 0, (4 << 20) / 256]);
    assert_eq!(encoded["times"]["step"], 1);
    assert_eq!(numbers(&columns, &encoded["times"]["column"]), [0, 2, 0, 7, 991]);
}

#[test]
fn columns_that_are_the_same_are_written_once() {
    let view = View {
        events: 1,
        blocks: vec![ViewBlock { start: 1, size: 7, ..ViewBlock::default() }],
        ..View::default()
    };
    let mut columns = Columns::default();
    let first = super::view(&view, &mut columns);
    let count = columns.texts.len();
    assert_eq!(super::view(&view, &mut columns), first);
    assert_eq!(columns.texts.len(), count);
}

#[test]
fn addresses_at_the_ends_have_places() {
    let block =
        |address, size| ViewBlock { start: 0, end: NEVER, size, address, ..ViewBlock::default() };
    let blocks = vec![block(0, 0), block(1, u64::MAX), block(u64::MAX, 3)];
    let view = View { blocks, ..View::default() };
    let encoded = super::view(&view, &mut Columns::default());
    assert_eq!(encoded["blocks"], 3);
}
