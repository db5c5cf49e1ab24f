//! Replays in which driver calls fail: each call in turn.

use std::cell::Cell;
use std::fmt::Write as _;

use rmm_cli::args::ThreadMode;
use rmm_cli::device::OpenDevice;
use rmm_cli::replay::{ReplayOptions, replay};
use rmm_core::Error;
use rmm_report::results::ResourceResult;
use rmm_report::trace::Trace;
use rmm_sim::{Checker, Machine, MachineBuilder, Schedule};
use rmm_sys::CuResult;

use super::common;

const MIB: u64 = 1 << 20;

/// Three streams and two threads on a device that is nearly too small: rounds of small blocks, more
/// of them than the pool lets go by without an event, then large ones that need what the other
/// streams freed. Where every call is one of the driver, fewer small ones will do.
fn log(kind: &str) -> Trace {
    // Sizes that no thread cache holds. Two rounds of them make the pool wait.
    let (rounds, small_blocks, least) =
        if kind == "pool-cuda" { (2, 66, MIB + 100) } else { (1, 10, 100) };
    let mut rows = String::new();
    let mut row = |thread: u32, action: &str, block: u64, size: u64, stream: u32| {
        writeln!(rows, "{thread},0,{action},{:#x},{size},{stream}", (block + 1) << 24)
            .expect("text");
    };
    row(1, "allocate", 9, 64, 3);
    for round in 0..rounds {
        for block in 0..small_blocks {
            let (size, thread) = (least + 4000 * (block % 7), if block % 16 == 0 { 2 } else { 1 });
            row(thread, "allocate", block % 5, size, 1 + round);
            row(thread, "free", block % 5, size, 1 + round);
        }
        for (block, size) in [(0, 3 * MIB), (1, 2 * MIB), (2, 5 * MIB + 300), (3, 900)] {
            row(1, "allocate", block, size, 1 + round);
        }
        for (block, size) in [(3, 900), (0, 3 * MIB), (2, 5 * MIB + 300), (1, 2 * MIB)] {
            row(2, "free", block, size, 1 + round);
        }
        // One piece that there is, and then one for which pieces must go.
        for size in [5 * MIB, 11 * MIB] {
            row(2, "allocate", 0, size, 3);
            row(1, "free", 0, size, 3);
        }
    }
    row(2, "free", 9, 64, 3);
    common::rows(&rows).expect("a good log")
}

/// A device with room for what is live, and little more where that makes a pool wait. The driver's
/// own pool takes what it needs: its requests wait for no memory that another stream has freed.
fn description(kind: &str) -> MachineBuilder {
    let mib = if kind == "cuda-async" { 128 } else { 16 };
    Machine::builder().memory(mib << 20).schedule(Schedule::Lazy)
}

fn run(machine: &Machine, trace: &Trace, kind: &str, repeat: u32) -> Result<ResourceResult, Error> {
    let device = OpenDevice::on_machine(machine);
    let options =
        ReplayOptions { repeat, threads: Some(ThreadMode::AsRecorded), ..ReplayOptions::default() };
    let resource = kind.parse().expect("a name");
    replay(&device, trace, &resource, options, &|_| {})
}

/// Replays once, with nothing in the way.
fn run_cleanly(machine: &Machine, trace: &Trace, kind: &str) -> ResourceResult {
    let result = run(machine, trace, kind, 1).expect("nothing fails");
    assert_eq!((result.failures, &result.first_failure), (0, &None), "{kind}");
    result
}

fn every_call_fails_in_turn(kind: &str) {
    let trace = log(kind);
    // The longer log has two rounds that are alike.
    let repeat = if kind == "pool-cuda" { 1 } else { 2 };
    let (failed, counted) = (Cell::new(0), Cell::new(0));
    for code in [CuResult::OUT_OF_MEMORY, CuResult::UNKNOWN] {
        Checker::new().machine(description(kind)).fail_each_call(code, |machine| {
            match run(machine, &trace, kind, repeat) {
                Ok(result) => {
                    counted.set(counted.get() + result.failures);
                    assert_eq!(result.first_failure.is_some(), result.failures > 0, "{result:?}");
                    let is_struck = !machine.failed_calls().is_empty();
                    assert!(is_struck || result.failures == 0, "{result:?}");
                }
                Err(error) => {
                    failed.set(failed.get() + 1);
                    assert!(!machine.failed_calls().is_empty(), "{error}");
                }
            }
            machine.clear_faults();
            // Where memory stayed behind, the device may be too small for this log.
            if machine.leaks().iter().all(|leak| leak.bytes == 0) {
                run_cleanly(machine, &trace, kind);
            }
        });
    }
    let (failed, counted) = (failed.get(), counted.get());
    assert!(failed > 0 && counted > 0, "{kind}: {failed} replays failed, {counted} events");
}

#[test]
fn the_log_makes_the_pool_grow_wait_and_reuse() {
    let machine = description("pool-cuda").build();
    let result = run_cleanly(&machine, &log("pool-cuda"), "pool-cuda");
    assert!(result.stream_waits > Some(0), "{result:?}");
    let counts = machine.call_counts();
    let count = |name| counts.iter().find(|count| count.0 == name).map_or(0, |count| count.1);
    assert!(count("cuMemAlloc_v2") > 3, "{counts:?}");
    for call in ["cuEventRecord", "cuEventQuery", "cuStreamWaitEvent", "cuMemFree_v2"] {
        assert!(count(call) > 0, "{call}: {counts:?}");
    }
}

#[test]
fn any_call_may_fail_under_the_default_pool() {
    every_call_fails_in_turn("pool");
}

#[test]
fn any_call_may_fail_under_a_pool_over_cuda_malloc() {
    every_call_fails_in_turn("pool-cuda");
}

#[test]
fn any_call_may_fail_under_a_compact_pool() {
    every_call_fails_in_turn("pool-compact");
}

#[test]
fn any_call_may_fail_under_the_drivers_pool() {
    every_call_fails_in_turn("cuda-async");
}

#[test]
fn any_call_may_fail_without_a_pool() {
    every_call_fails_in_turn("cuda");
}
