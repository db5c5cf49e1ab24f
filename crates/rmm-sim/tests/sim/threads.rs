//! Several threads on one machine.

use std::thread;

use rmm_sim::{Machine, Schedule};
use rmm_sys::{CuDevicePtr, CuResult, CuStream};

use crate::common::{Log, alloc, blocking_stream, enter, event, peek, program, start, stream};

#[test]
fn a_thread_that_entered_no_machine_works_by_handles_and_addresses() {
    let (machine, _here) = start(Schedule::Lazy);
    let (stream, memory) = (stream(), alloc(4));
    let work = move || {
        ok!(cuMemsetD8Async(memory, 5, 4, stream));
        ok!(cuStreamSynchronize(stream));
        // The default stream belongs to a context, and none is current.
        assert_eq!(cu!(cuMemsetD8_v2(memory, 6, 1)), CuResult::INVALID_CONTEXT);
        ok!(cuMemFree_v2(memory));
    };
    thread::spawn(work).join().unwrap();
    assert_eq!(machine.memory_in_use(0), 0);
}

#[test]
fn a_thread_uses_the_machine_whose_context_it_made_current() {
    let (machine, _here) = start(Schedule::Eager);
    let mut context = rmm_sys::CuContext::NULL;
    ok!(cuCtxGetCurrent(&raw mut context));
    let work = move || {
        ok!(cuCtxSetCurrent(context));
        alloc(1)
    };
    let memory: CuDevicePtr = thread::spawn(work).join().unwrap();
    assert_eq!(peek(&machine, memory), 0);
}

#[test]
fn threads_hammer_one_machine() {
    for schedule in [Schedule::Seeded(20), Schedule::Lazy, Schedule::Eager] {
        let (machine, _here) = start(schedule);
        let threads: Vec<_> = (0..4_u8)
            .map(|number| {
                let machine = machine.clone();
                thread::spawn(move || {
                    let (machine, _here) = enter(machine);
                    for _ in 0..5 {
                        program(&machine);
                        hammer(number);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        ok!(cuCtxSynchronize());
        assert_eq!(machine.leaks(), []);
        assert_eq!(machine.memory_in_use(0), 0);
        machine.assert_no_violations();
    }
}

/// Writes memory on streams that depend on each other and on other threads' work, and checks that
/// it contains what was written last.
fn hammer(number: u8) {
    let (a, b, event, memory) = (blocking_stream(), stream(), event(), alloc(64));
    for round in 0..20_u8 {
        let value = number * 50 + round;
        ok!(cuMemsetD8Async(memory, value, 64, a));
        ok!(cuEventRecord(event, a));
        ok!(cuStreamWaitEvent(b, event, 0));
        let mut bytes = [0_u8; 64];
        ok!(cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr().cast(), memory, 64, b));
        assert_eq!(bytes, [value; 64]);
        ok!(cuMemsetD8_v2(memory, 0, 1));
        if round % 7 == 0 {
            ok!(cuStreamSynchronize(CuStream::PER_THREAD));
        }
    }
    ok!(cuMemFree_v2(memory));
    ok!(cuStreamDestroy_v2(a));
    ok!(cuStreamDestroy_v2(b));
    ok!(cuEventDestroy_v2(event));
}

#[test]
fn one_thread_waits_for_what_another_one_runs() {
    let (machine, _here) = start(Schedule::Lazy);
    let (stream, log) = (stream(), Log::default());
    let (started, has_started) = std::sync::mpsc::channel();
    let (go, may_go) = std::sync::mpsc::channel::<()>();
    let kernel = rmm_sim::Kernel::new("slow", move |_| {
        started.send(()).unwrap();
        may_go.recv().unwrap();
    });
    machine.launch(stream, kernel).unwrap();
    log.enqueue(&machine, stream, 1);
    let runner = thread::spawn(move || ok!(cuStreamSynchronize(stream)));
    has_started.recv().unwrap();
    assert_eq!(cu!(cuStreamQuery(stream)), CuResult::NOT_READY);
    let waiter = {
        let log = log.clone();
        thread::spawn(move || {
            ok!(cuStreamSynchronize(stream));
            log.seen()
        })
    };
    // A call is counted before it checks for work, and holds the machine's lock until it waits.
    let synchronisations = || {
        let counts = machine.call_counts();
        counts
            .iter()
            .find(|(name, _)| *name == "cuStreamSynchronize")
            .map_or(0, |&(_, count)| count)
    };
    while synchronisations() < 2 {
        thread::yield_now();
    }
    go.send(()).unwrap();
    assert_eq!(waiter.join().unwrap(), [1]);
    runner.join().unwrap();
}

#[test]
fn threads_that_entered_no_machine_use_the_default_one() {
    let work = || {
        ok!(cuInit(0));
        let mut name = [0_u8; 64];
        ok!(cuDeviceGetName(name.as_mut_ptr().cast(), 64, rmm_sys::CuDevice(0)));
        assert!(name.starts_with(b"Software device 0\0"));
        ok!(cuDeviceGetName(name.as_mut_ptr().cast(), 5, rmm_sys::CuDevice(0)));
        assert!(name.starts_with(b"Soft\0"));
    };
    rmm_sim::install().unwrap();
    thread::spawn(work).join().unwrap();
    let default = Machine::default();
    assert_eq!(default.calls(), 0, "a new machine is another one");
}
