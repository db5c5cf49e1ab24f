//! Property tests: any bytes give a trace or an error with its position, never a panic.

use std::fmt::Write as _;

use proptest::prelude::*;
use proptest::sample::Index;
use rmm_report::trace::{Action, Trace};

use super::common::{HEADER, gzip, read, zstd};
use super::snapshots::SMALL;

/// A valid log: each number allocates, or frees the block that it picks.
fn valid_log() -> impl Strategy<Value = String> {
    prop::collection::vec((any::<bool>(), any::<Index>(), 0..5000_u64, 0..3_u64), 1..60).prop_map(
        |steps| {
            let mut log = HEADER.to_owned();
            let mut live: Vec<(u64, u64)> = Vec::new();
            for (i, (free, pick, size, stream)) in (1_u64..).zip(steps) {
                let (action, pointer, size) = if free && !live.is_empty() {
                    let (pointer, size) = live.swap_remove(pick.index(live.len()));
                    ("free", pointer, size)
                } else {
                    let pointer = if size == 0 { 0 } else { i * 0x10000 };
                    live.push((pointer, size));
                    ("allocate", pointer, size)
                };
                writeln!(log, "{stream},{i},{action},{pointer:#x},{size},{stream:x}")
                    .expect("writing to memory");
            }
            log
        },
    )
}

/// The header of a log with all columns, and texts for the last three.
const ALL_COLUMNS: &str = "Thread,Time,Action,Pointer,Size,Stream,Tag,Site,Device\n";
const TEXTS: [&str; 4] =
    [",,", "weights,\"a.py:1 f(x,y)\",0", "\"a\"\"b\",</script>\u{1},7", "\"\",,1"];

/// The log with all columns.
fn with_columns(log: &str) -> String {
    let rows = log.lines().skip(1).zip(TEXTS.iter().cycle());
    rows.fold(ALL_COLUMNS.to_owned(), |log, (row, texts)| format!("{log}{row},{texts}\n"))
}

/// The log without the first rows, which began them.
fn without_rows(log: &str, first: usize) -> String {
    let kept = log.split_inclusive('\n').enumerate();
    kept.filter(|&(line, _)| line == 0 || line > first).map(|(_, row)| row).collect()
}

/// A way to spoil a log, before or after compression.
#[derive(Clone, Debug)]
enum Mutation {
    Truncate(Index),
    Flip(Index, u8),
    DuplicateRow(Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        any::<Index>().prop_map(Mutation::Truncate),
        (any::<Index>(), 1..=u8::MAX).prop_map(|(at, bits)| Mutation::Flip(at, bits)),
        any::<Index>().prop_map(Mutation::DuplicateRow),
    ]
}

fn spoil(bytes: &mut Vec<u8>, mutation: &Mutation) {
    if bytes.is_empty() {
        return;
    }
    match mutation {
        Mutation::Truncate(at) => bytes.truncate(at.index(bytes.len())),
        Mutation::Flip(at, bits) => *at.get_mut(bytes) ^= bits,
        Mutation::DuplicateRow(at) => {
            let mut rows: Vec<&[u8]> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
            let row = at.index(rows.len());
            rows.insert(row, rows[row]);
            *bytes = rows.concat();
        }
    }
}

fn compress(bytes: &[u8], compression: u8) -> Vec<u8> {
    match compression {
        0 => bytes.to_vec(),
        1 => gzip(bytes),
        _ => zstd(bytes),
    }
}

/// What holds for every trace: replayed over slots, no slot is used twice, and the peak is where it
/// is said to be.
fn check(trace: &Trace) {
    let mut slots = vec![None; trace.blocks as usize];
    for before in &trace.before {
        assert_eq!(slots[before.block as usize].replace(before.size), None);
        assert!((before.stream as usize) < trace.streams.len());
    }
    let mut live = trace.before.iter().map(|before| before.size.next_multiple_of(256)).sum();
    let (mut most, mut peak) = (trace.before.len(), (live, 0));
    for (i, event) in trace.events.iter().enumerate() {
        assert!((event.thread as usize) < trace.threads.len());
        assert!((event.stream as usize) < trace.streams.len());
        assert!((trace.tag(i) as usize) < trace.tags.len());
        assert!((trace.site(i) as usize) < trace.sites.len());
        assert!((trace.device(i) as usize) < trace.devices.len());
        assert!(i == 0 || trace.time(i) >= trace.time(i - 1));
        match event.action {
            Action::Allocate { block, size } => {
                assert_eq!(slots[block as usize].replace(size), None);
                live += size.next_multiple_of(256);
            }
            Action::Free { block, size } => {
                assert_eq!(slots[block as usize].take(), Some(size));
                live -= size.next_multiple_of(256);
            }
            Action::AllocateFailure { .. } => {}
        }
        most = most.max(slots.iter().flatten().count());
        if live > peak.0 {
            peak = (live, i);
        }
    }
    assert!(!trace.events.is_empty());
    assert!(trace.peak_live <= trace.peak_live_aligned);
    assert_eq!((most, peak), (slots.len(), (trace.peak_live_aligned, trace.peak_event)));
}

/// Reads, and checks what came of it.
fn read_and_check(bytes: &[u8]) {
    match read(bytes) {
        Ok(trace) => check(&trace),
        Err(error) => {
            let message = error.to_string();
            assert!(message.starts_with("log.csv:") && !message.contains('\n'), "{message:?}");
            assert_ne!(error.line, Some(0));
        }
    }
}

proptest! {
    #[test]
    fn valid_logs_are_read(log in valid_log(), compression in 0..3_u8) {
        let trace = read(&compress(log.as_bytes(), compression)).expect("valid");
        prop_assert_eq!(trace.events.len(), log.lines().count() - 1);
        check(&trace);
    }

    #[test]
    fn logs_that_begin_in_the_middle_are_read(log in valid_log(), first in any::<Index>()) {
        let whole = read(log.as_bytes()).expect("valid");
        let first = first.index(whole.events.len());
        let log = without_rows(&log, first);
        let rest = read(log.as_bytes()).expect("valid");
        check(&rest);
        prop_assert_eq!(rest.events.len(), whole.events.len() - first);
        // Blocks without bytes share a pointer: which of them a free means cannot be told.
        prop_assert!(rest.peak_live_aligned <= whole.peak_live_aligned);
        let frees = |from: usize| {
            whole.events[from..].iter().filter(|e| matches!(e.action, Action::Free { .. })).count()
        };
        prop_assert!(rest.before.len() <= frees(first));
        prop_assert_eq!(read(with_columns(&log).as_bytes()).expect("valid").events, rest.events);
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..2000), start in 0..6_usize) {
        let starts: [&[u8]; 6] = [
            b"", HEADER.as_bytes(), b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd",
            b"\x50\x2a\x4d\x18", b"\x80\x04",
        ];
        read_and_check(&[starts[start], &bytes].concat());
    }

    #[test]
    fn spoiled_snapshots(protocol in 0..4_usize, compression in 0..3_u8,
                         before in prop::collection::vec(mutation(), 0..4),
                         after in prop::collection::vec(mutation(), 0..2)) {
        let mut bytes = SMALL[protocol].to_vec();
        for mutation in &before {
            spoil(&mut bytes, mutation);
        }
        let mut bytes = compress(&bytes, compression);
        for mutation in &after {
            spoil(&mut bytes, mutation);
        }
        read_and_check(&bytes);
    }

    #[test]
    fn spoiled_logs(log in valid_log(), compression in 0..3_u8, columns in any::<bool>(),
                    first in 0..9_usize,
                    before in prop::collection::vec(mutation(), 0..3),
                    after in prop::collection::vec(mutation(), 0..3)) {
        let log = without_rows(&log, first);
        let mut bytes = if columns { with_columns(&log) } else { log }.into_bytes();
        for mutation in &before {
            spoil(&mut bytes, mutation);
        }
        let mut bytes = compress(&bytes, compression);
        for mutation in &after {
            spoil(&mut bytes, mutation);
        }
        read_and_check(&bytes);
    }
}
