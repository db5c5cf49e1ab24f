//! Checking whole programs: under many schedules, or on every course.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rmm_sim::{Checker, Kernel, Machine, Schedule};
use rmm_sys::{CuContext, CuDevice, CuDevicePtr, CuResult};

use crate::common::{Log, MIB, alloc, event, stream};

/// What a check that fails says.
fn report(check: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(check)).expect_err("there is something to find");
    *payload.downcast::<String>().expect("a report is a text")
}

pub(crate) fn make_current() {
    let mut context = CuContext::NULL;
    ok!(cuInit(0));
    ok!(cuDevicePrimaryCtxRetain(&raw mut context, CuDevice(0)));
    ok!(cuCtxSetCurrent(context));
}

fn write(machine: &Machine, stream: rmm_sys::CuStream, memory: CuDevicePtr) {
    let kernel = Kernel::new("write", |_| ()).writes(memory, MIB);
    machine.launch(stream, kernel).expect("the stream and the memory are the machine's");
}

/// Two streams write the same memory, in order or not.
pub(crate) fn two_writers(machine: &Machine, in_order: bool) {
    make_current();
    let (a, b, done, memory) = (stream(), stream(), event(), alloc(MIB));
    write(machine, a, memory);
    if in_order {
        ok!(cuEventRecord(done, a));
        ok!(cuStreamWaitEvent(b, done, 0));
    }
    write(machine, b, memory);
    ok!(cuEventDestroy_v2(done));
    ok!(cuMemFree_v2(memory));
    ok!(cuStreamDestroy_v2(a));
    ok!(cuStreamDestroy_v2(b));
}

#[test]
fn a_right_program_passes() {
    rmm_sim::check(|machine| two_writers(machine, true));
}

#[test]
fn a_violation_is_told_once_with_all_its_schedules() {
    let report = report(|| rmm_sim::check(|machine| two_writers(machine, false)));
    assert_eq!(report.matches("race: 1048576 bytes at d0+0x0").count(), 1, "{report}");
    assert!(report.contains("under all 10 schedules:"), "{report}");
}

/// A race on a thread that the program starts.
fn race_elsewhere(machine: &Machine, enters: bool) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _here = enters.then(|| machine.enter());
            two_writers(machine, false);
        });
    });
}

#[test]
fn calls_of_threads_that_are_on_no_machine_fail_a_check() {
    let schedules = [Schedule::Lazy];
    let told = report(|| {
        Checker::new().schedules(schedules).run(|_| {
            std::thread::spawn(make_current).join().expect("it has a machine of its own");
        });
    });
    assert!(told.contains("not checked: 2 driver calls, the first cuInit"), "{told}");
    let told = report(|| {
        Checker::new().schedules(schedules).run(|machine| race_elsewhere(machine, true));
    });
    assert!(told.contains("race: 1048576 bytes"), "{told}");
}

#[test]
fn threads_that_cannot_enter_a_machine_are_on_that_of_all_threads() {
    let checker = Checker::new().schedules([Schedule::Lazy]).enter_all_threads(true);
    let told = report(|| checker.run(|machine| race_elsewhere(machine, false)));
    assert!(told.contains("race: 1048576 bytes") && !told.contains("not checked"), "{told}");
    checker.run(|machine| {
        std::thread::spawn(make_current).join().expect("the driver is there");
        assert_eq!(machine.calls(), 3);
    });
}

#[test]
fn a_thread_that_starts_in_a_pool_enters_for_as_long_as_it_lives() {
    Checker::new().schedules([Schedule::Lazy]).run(|machine| {
        let on_start = || machine.enter_until_thread_ends();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                on_start();
                make_current();
            });
        });
        assert_eq!(machine.calls(), 3);
    });
}

#[test]
fn all_threads_are_on_one_machine_at_a_time() {
    let (first, second) = (Machine::new(), Machine::new());
    let of_first = first.enter_all_threads();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _of_second = second.enter_all_threads();
            ok!(cuInit(0));
        });
        // It waits for this, if it has come so far.
        std::thread::yield_now();
        assert_eq!(second.calls(), 0);
        drop(of_first);
    });
    assert_eq!((first.calls(), second.calls()), (0, 1));
    let here = first.enter_all_threads();
    let twice = catch_unwind(AssertUnwindSafe(|| second.enter_all_threads()));
    assert!(twice.is_err(), "it would wait for itself");
    drop(here);
}

#[test]
fn a_program_that_calls_no_driver_is_told_so() {
    let told = report(|| rmm_sim::check(|_| ()));
    assert!(told.contains("nothing was checked: the program made no driver call"), "{told}");
}

#[test]
fn a_violation_is_told_with_the_places_in_the_program() {
    let report = report(|| rmm_sim::check(|machine| two_writers(machine, false)));
    // Each access was asked for by `write`, which `two_writers` called.
    let sites = report.lines().filter(|line| line.contains("tests/sim/checker.rs:"));
    assert!(sites.count() >= 4, "{report}");
    assert!(report.contains("the second access was made at\n"), "{report}");
    // Nothing of the device, the runtime or the test runner.
    assert!(!report.contains("src/") && !report.contains("call_once"), "{report}");
    assert!(report.lines().count() < 20, "{report}");
}

#[test]
fn leaks_are_told_unless_they_are_wanted() {
    let leaks = |_: &Machine| {
        make_current();
        alloc(MIB);
    };
    let report = report(|| rmm_sim::check(leaks));
    assert!(report.contains("not released: 1048576 bytes"), "{report}");
    Checker::new().leaks(false).run(leaks);
}

#[test]
fn a_panic_is_told_with_the_schedules_that_cause_it() {
    let hasty = |machine: &Machine| {
        make_current();
        let stream = stream();
        Log::default().enqueue(machine, stream, 1);
        let done = cu!(cuStreamQuery(stream));
        ok!(cuStreamDestroy_v2(stream));
        assert_eq!(done, CuResult::SUCCESS, "too slow");
    };
    let schedules = [Schedule::Eager, Schedule::Lazy];
    let report = report(|| Checker::new().schedules(schedules).run(hasty));
    assert!(report.contains("with Schedule::Lazy:\n  panicked: "), "{report}");
    assert!(report.contains("too slow") && !report.contains("Eager"), "{report}");
}

#[test]
fn work_that_is_left_queued_is_run_and_judged() {
    let report = report(|| {
        rmm_sim::check(|machine| {
            make_current();
            let kernel = Kernel::new("broken", |_| panic!("on purpose"));
            machine.launch(rmm_sys::CuStream::NULL, kernel).expect("the device has that stream");
        });
    });
    assert!(report.contains("under all 10 schedules:\n  kernel panicked: broken"), "{report}");
}

#[test]
fn machines_are_as_described() {
    let description = Machine::builder().devices(3).memory(4 * MIB);
    Checker::new().machine(description).run(|_| {
        make_current();
        let mut count = 0;
        ok!(cuDeviceGetCount(&raw mut count));
        assert_eq!(count, 3);
        let mut pointer = CuDevicePtr::NULL;
        assert_eq!(cu!(cuMemAlloc_v2(&raw mut pointer, 5 * MIB)), CuResult::OUT_OF_MEMORY);
    });
}

#[test]
fn an_item_may_run_before_any_call_or_none() {
    let courses = RefCell::new(BTreeSet::new());
    let explored = rmm_sim::explore(100, |machine| {
        make_current();
        let (stream, log) = (stream(), Log::default());
        log.enqueue(machine, stream, 1);
        let mut course = Vec::new();
        for _ in 0..4 {
            let mut context = CuContext::NULL;
            ok!(cuCtxGetCurrent(&raw mut context));
            course.push(log.seen().len());
        }
        courses.borrow_mut().insert(course);
        ok!(cuStreamDestroy_v2(stream));
    });
    // Before each of the five calls after it, or after the program; the last two look the same to
    // it.
    assert_eq!((explored.runs, explored.is_complete), (6, true));
    assert_eq!(courses.take().len(), 5);
}

#[test]
fn unordered_items_run_in_every_order() {
    let orders = RefCell::new(BTreeSet::new());
    let explored = rmm_sim::explore(1000, |machine| {
        make_current();
        let (streams, log) = ([stream(), stream(), stream()], Log::default());
        for (number, &stream) in (0..).zip(&streams) {
            log.enqueue(machine, stream, number);
        }
        ok!(cuCtxSynchronize());
        orders.borrow_mut().insert(log.seen());
        for stream in streams {
            ok!(cuStreamDestroy_v2(stream));
        }
    });
    assert!(explored.is_complete);
    assert_eq!(orders.take().len(), 6);
}

/// Goes wrong only if the first stream's work runs after one query and before the next.
fn rarely_wrong(machine: &Machine) {
    make_current();
    let (a, b, log) = (stream(), stream(), Log::default());
    log.enqueue(machine, a, 1);
    log.enqueue(machine, b, 2);
    let first = cu!(cuStreamQuery(a)).is_success();
    let seen = log.seen();
    ok!(cuStreamDestroy_v2(a));
    ok!(cuStreamDestroy_v2(b));
    assert!(!(first && seen == [2, 1]), "the rare course");
}

#[test]
fn what_goes_wrong_is_told_with_a_script_that_shows_it_again() {
    let told = report(|| {
        rmm_sim::explore(1000, rarely_wrong);
    });
    assert!(told.contains("Schedule::Scripted(&[2, 1])"), "{told}");
    let again = [Schedule::Lazy, Schedule::Scripted(&[2, 1])];
    let report = report(|| Checker::new().schedules(again).run(rarely_wrong));
    assert!(report.contains("with Schedule::Scripted(&[2, 1]):\n  panicked: "), "{report}");
    assert!(report.contains("the rare course") && !report.contains("Lazy"), "{report}");
}

#[test]
fn exploration_ends_at_the_limit() {
    let explored = rmm_sim::explore(7, |machine| two_writers(machine, true));
    assert_eq!((explored.runs, explored.is_complete), (7, false));
}

/// Two blocks; what was had is given back. The careless program forgets the first if the second
/// cannot be had.
fn two_blocks(machine: &Machine, careful: bool) {
    machine.without_faults(make_current);
    let allocate = || {
        let mut pointer = CuDevicePtr::NULL;
        cu!(cuMemAlloc_v2(&raw mut pointer, MIB)).result().map(|()| pointer)
    };
    let Ok(first) = allocate() else { return };
    let second = allocate();
    if careful || second.is_ok() {
        let _ = cu!(cuMemFree_v2(first));
    }
    if let Ok(second) = second {
        let _ = cu!(cuMemFree_v2(second));
    }
}

#[test]
fn each_call_fails_in_turn() {
    let outcomes = RefCell::new(Vec::new());
    let failed = rmm_sim::fail_each_call(CuResult::UNKNOWN, |machine| {
        two_blocks(machine, true);
        outcomes.borrow_mut().push((machine.failed_calls(), machine.leaks().len()));
    });
    assert_eq!(failed, 4);
    let [allocation, free] = ["cuMemAlloc_v2", "cuMemFree_v2"].map(|name| vec![name]);
    let expected =
        [(allocation.clone(), 0), (allocation, 0), (free.clone(), 1), (free, 1), (vec![], 0)];
    assert_eq!(outcomes.take(), expected);
}

#[test]
fn what_a_failure_leaves_behind_is_told_with_the_call() {
    let report = report(|| {
        rmm_sim::fail_each_call(CuResult::OUT_OF_MEMORY, |machine| two_blocks(machine, false));
    });
    assert!(report.contains("if cuMemAlloc_v2 returns"), "{report}");
    assert!(report.contains("Fault::any_call(2, ..)\n  not released: 1048576 bytes"), "{report}");
}

#[test]
fn a_program_that_is_wrong_anyway_is_told_so() {
    let report = report(|| {
        rmm_sim::fail_each_call(CuResult::UNKNOWN, |_| {
            panic!("hopeless");
        });
    });
    assert!(report.contains("if no call fails\n  panicked: "), "{report}");
}
