//! Snapshots of PyTorch's allocator, made by `tests/snapshots/make.py`.

use rmm_cli::device::OpenDevice;
use rmm_cli::replay::{ReplayOptions, replay};
use rmm_report::convert::{Moment, usage};
use rmm_report::trace::{Action, Growth, Trace, TraceError};

use super::common::{gzip, read, zstd};

pub(crate) const SMALL: [&[u8]; 4] = [
    include_bytes!("../snapshots/small-2.pickle"),
    include_bytes!("../snapshots/small-3.pickle"),
    include_bytes!("../snapshots/small-4.pickle"),
    include_bytes!("../snapshots/small-5.pickle"),
];
/// Twelve steps of training a small transformer on an H200, PyTorch 2.11, with
/// `_record_memory_history(max_entries=1500, stacks="python")`: the oldest events are lost.
const RECORDED: &[u8] = include_bytes!("../snapshots/h200-ring.pickle.gz");
const DEVICES: &[u8] = include_bytes!("../snapshots/devices.pickle");

const SEGMENT: u64 = 0x7f00_0000_0000;
const OTHER_SEGMENT: u64 = 0x7f10_0000_0000;
const PYTHON: &str = "/home/me/train.py:12 step < /home/me/train.py:40 <module>";
const NATIVE: &str = "??:0 torch::unwind::unwind() < /build/Loss.cpp:7 at::loss<float>(int)";

fn site(trace: &Trace, event: usize) -> &str {
    &trace.sites[trace.site(event) as usize]
}

#[test]
fn a_snapshot_of_each_protocol_is_a_trace() {
    let first = read(SMALL[0]).expect("protocol 2");
    for bytes in SMALL {
        assert_eq!(read(bytes).expect("a snapshot"), first);
    }
    assert_eq!(read(&gzip(SMALL[2])).expect("gzip"), first);
    assert_eq!(read(&zstd(SMALL[2])).expect("zstd"), first);

    let actions: Vec<Action> = first.events.iter().map(|event| event.action).collect();
    let expected = [
        Action::Allocate { block: 0, size: 1000 },
        Action::Free { block: 1, size: 3000 },
        Action::Allocate { block: 1, size: 2_000_000 },
        Action::AllocateFailure { size: 1 << 40 },
        Action::Free { block: 1, size: 2_000_000 },
        Action::Allocate { block: 1, size: 500 },
    ];
    assert_eq!(actions, expected);
    assert_eq!(first.streams, [0, 0x55d0]);
    assert_eq!(first.devices[1..], [0]);
    let times: Vec<Option<u64>> = (0..6).map(|event| first.time(event)).collect();
    assert_eq!(times, [0, 5000, 10_000, 11_000, 40_000, 50_000].map(Some));
    assert_eq!(first.tags, ["", "weights", "outer", "Optimizer.step#Adam.step", "embedding"]);
    // The program's own metadata first, then the innermost range that is open. The first block,
    // one of the weights at first, was annotated later.
    let tags: Vec<u32> = (0..6).map(|event| first.tag(event)).collect();
    assert_eq!(tags, [4, 2, 3, 3, 2, 0]);
    assert_eq!((site(&first, 0), site(&first, 1)), (PYTHON, NATIVE));
    assert_eq!(first.address(2), OTHER_SEGMENT);
}

#[test]
fn what_was_live_before_the_recording_is_known() {
    let trace = read(SMALL[2]).expect("a snapshot");
    let before: Vec<(u64, u64)> =
        trace.before.iter().map(|before| (before.address, before.size)).collect();
    // One is freed, the other is in use in the end.
    assert_eq!(before, [(SEGMENT + 0x10_0000, 3000), (SEGMENT + 0x20_0000, 700_000)]);
    assert_eq!(trace.sites[trace.before[1].site as usize], PYTHON);
    assert_eq!((trace.peak_live, trace.peak_event), (1000 + 700_000 + 2_000_000, 2));
    assert_eq!((trace.blocks, trace.ended, trace.ends_early), (3, false, true));
}

#[test]
fn what_the_allocator_held_is_known() {
    let trace = read(SMALL[2]).expect("a snapshot");
    let growth = |event, time, is_taken| Growth {
        event,
        time: Some(time),
        address: OTHER_SEGMENT,
        bytes: 1 << 21,
        is_taken,
    };
    assert_eq!(trace.growth, [growth(2, 9000, true), growth(5, 41_000, false)]);
    assert_eq!(trace.reserved_before, 4 << 20);
}

#[test]
fn the_totals_of_a_recorded_snapshot_are_those_of_pytorch() {
    let trace = read(RECORDED).expect("a snapshot");
    // What `torch.cuda.memory_stats()` had then: `requested_bytes.all.peak`, `.current`,
    // `active.all.current`, `reserved_bytes.all.peak`, `.current`, and one request that failed.
    assert_eq!(trace.peak_live, 368_010_808);
    let end = usage(&trace, Moment::End);
    assert_eq!((end.bytes, end.blocks), (271_941_632, 198));
    let mut reserved = vec![trace.reserved_before];
    for growth in &trace.growth {
        let now = reserved[reserved.len() - 1];
        reserved.push(if growth.is_taken { now + growth.bytes } else { now - growth.bytes });
    }
    assert_eq!(reserved.iter().max(), Some(&408_944_640));
    assert_eq!(reserved.last(), Some(&320_864_256));
    let is_failure = |action| matches!(action, Action::AllocateFailure { size: 0x400_0000_0000 });
    assert_eq!(trace.events.iter().filter(|event| is_failure(event.action)).count(), 1);
    assert_eq!((trace.events.len(), trace.before.len()), (992, 211));
    assert_eq!(trace.tags, ["", "step 0", "step 1"]);
    assert!(trace.sites.iter().any(|site| site.starts_with("/opt/") && site.ends_with("<module>")));
}

#[test]
fn devices_are_merged_by_time() {
    let trace = read(DEVICES).expect("a snapshot");
    let sizes: Vec<u64> = trace
        .events
        .iter()
        .map(|event| match event.action {
            Action::Allocate { size, .. } | Action::Free { size, .. } => size,
            Action::AllocateFailure { .. } => 0,
        })
        .collect();
    assert_eq!(sizes, [100, 200, 300, 100]);
    let devices: Vec<u32> =
        (0..4).map(|event| trace.devices[trace.device(event) as usize]).collect();
    assert_eq!(devices, [0, 1, 1, 0]);
}

#[test]
fn a_snapshot_is_replayed() {
    let trace = read(SMALL[3]).expect("a snapshot");
    let device = OpenDevice::on_machine(&rmm_sim::Machine::new());
    let pool = "pool".parse().expect("a resource");
    let result = replay(&device, &trace, &pool, ReplayOptions::default(), &|_| {});
    let result = result.expect("replays");
    assert_eq!((result.failures, result.leaked_blocks), (0, 0));
    assert_eq!(result.peak_live_bytes, trace.peak_live_aligned);
}

fn message(bytes: &[u8]) -> String {
    read(bytes).expect_err("no snapshot").to_string()
}

/// A pickle of `{"device_traces": [[entry, ...]]}` with these entries, each of texts and numbers.
fn of_entries(entries: &[&[(&str, &[u8])]]) -> Vec<u8> {
    let text = |text: &str| {
        let length = u8::try_from(text.len()).expect("short");
        [&[0x8c, length], text.as_bytes()].concat()
    };
    let mut bytes = b"\x80\x04}".to_vec();
    bytes.extend(text("device_traces"));
    bytes.extend(b"](](");
    for entry in entries {
        bytes.extend(b"}(");
        for (key, value) in *entry {
            bytes.extend([&text(key), *value].concat());
        }
        bytes.push(b'u');
    }
    bytes.extend(b"ees.");
    bytes
}

const ALLOC: (&str, &[u8]) = ("action", b"\x8c\x05alloc");
const FREE: (&str, &[u8]) = ("action", b"\x8c\x0efree_completed");
const ADDR: (&str, &[u8]) = ("addr", b"K\x10");
const SIZE: (&str, &[u8]) = ("size", b"K\x40");

#[test]
fn entries_that_cannot_be_are_named() {
    assert!(read(&of_entries(&[&[ALLOC, ADDR, SIZE]])).is_ok());
    for (entries, expected) in [
        (&[&[ADDR][..]][..], "device_traces[0][0]: has no action"),
        (&[&[ALLOC, SIZE]], "device_traces[0][0]: has no addr"),
        (&[&[ALLOC, ADDR]], "device_traces[0][0]: has no size"),
        (
            &[&[ALLOC, ADDR, ("size", b"\x8c\x01x")]],
            "device_traces[0][0].size: is no integer of 64 bits",
        ),
        (
            &[&[ALLOC, ADDR, ("size", b"\x8a\x01\xff")]],
            "device_traces[0][0].size: 18446744073709551615 is more than a block can have",
        ),
        (
            &[&[ALLOC, ADDR, SIZE], &[ALLOC, ADDR, SIZE]],
            "device_traces[0][1]: allocates 0x10, which is live since entry 1",
        ),
        (
            &[&[FREE, ADDR, SIZE], &[FREE, ADDR, SIZE]],
            "device_traces[0][1]: frees 0x10, which is not live",
        ),
        (&[], "the snapshot has no events: call torch.cuda.memory._record_memory_history() first"),
    ] {
        assert_eq!(message(&of_entries(entries)), format!("log.csv: {expected}"));
    }
    // A list that is its own device's events.
    let own = b"\x80\x04}\x8c\x0ddevice_traces]\x94h\x00as.";
    assert_eq!(message(own), "log.csv: device_traces[0][0]: has no action");
}

#[test]
fn pickles_of_other_things_are_named() {
    let none = "log.csv: the pickle is no snapshot of PyTorch: it has no list device_traces";
    assert_eq!(message(b"\x80\x04]."), none);
    assert_eq!(message(b"\x80\x04}\x8c\x0ddevice_tracesNs."), none);
    let code =
        "log.csv: byte 2: opcode GLOBAL would run code; a snapshot is plain data, and this is none";
    assert_eq!(message(b"\x80\x02cos\nsystem\n."), code);
    let cut = &SMALL[2][..SMALL[2].len() / 2];
    let error: TraceError = read(cut).expect_err("cut");
    assert!(error.to_string().ends_with(": the pickle ends in the middle"), "{error}");
    let whole = gzip(SMALL[2]);
    let expected = "log.csv: the gzip data end too early; 0 events could be read before that";
    assert_eq!(message(&whole[..whole.len() / 2]), expected);
}
